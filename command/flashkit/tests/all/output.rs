//! What is made appears whole or not at all, in no place of something else, and shows on a terminal
//! as it is.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_logdisk::{LogDisk, Shape};
use flashkit_nand::Nand;
use flashkit_sim::nor::{NOR_DEFAULT, SimNor, nor_preset};
use flashkit_sim::{Access, SimNand, preset};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::Place;

const CHIP: &str = "micron-20m";

/// What is in the folder.
fn names(here: &Place) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(here.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// An image with a file.
fn image(here: &Place, name: &str) {
    here.said(0, &["mkfs", "--chip", CHIP, name]);
    fs::write(here.path("file"), "contents").unwrap();
    here.said(0, &["cp", "file", &format!("{name}:/file")]);
}

#[test]
fn nothing_is_made_among_the_devices() {
    let here = Place::new();
    image(&here, "x.img");
    here.said(0, &["export", "--spare", "x.img", "x.bin"]);
    let at = "/dev/flashkit-no-such-device";
    let none = format!("{at}: no such device");
    for args in [
        &["mkfs", at][..],
        &["mkfs", "--fs", "nanofs", at],
        &["import", "--chip", CHIP, "--spare", "x.bin", at],
        &["export", "--spare", "x.img", at],
        &["cp", "x.img:/file", at],
        &["cp", "-r", "x.img:/", at],
        &["serve", "--ftl", "page", at, "--socket", "s"],
        &["serve", "--ftl", "logdisk", at, "--socket", "s"],
        &["lab", "picture", "--output", at],
    ] {
        assert_eq!(here.complaint(1, args), none, "{args:?}");
        assert!(!Path::new(at).exists(), "{args:?}");
    }
    // A disk in RAM, mounted below, is a place like any other.
    if fs::metadata("/dev/shm").is_ok_and(|shm| shm.dev() != fs::metadata("/dev").unwrap().dev())
        && let Ok(shm) = tempfile::tempdir_in("/dev/shm")
    {
        let image = shm.path().join("x.img");
        here.said(0, &["mkfs", "--chip", CHIP, image.to_str().unwrap()]);
    }
    // A device that is there takes what is copied to it, and stays.
    here.said(0, &["cp", "x.img:/file", "/dev/null"]);
    assert!(
        fs::metadata("/dev/null")
            .unwrap()
            .file_type()
            .is_char_device()
    );
    let refused = here.complaint(1, &["mkfs", "/dev/null"]);
    assert_eq!(refused, "/dev/null: neither a file nor an MTD device");
}

#[test]
fn a_pipe_takes_a_file() {
    let here = Place::new();
    image(&here, "x.img");
    let pipe = here.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut child = here
        .command(&["cp", "x.img:/file", "pipe"])
        .spawn()
        .unwrap();
    let mut read = String::new();
    fs::File::open(&pipe)
        .unwrap()
        .read_to_string(&mut read)
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(read, "contents");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

/// A file for each thing that may be held.
pub fn holders(here: &Place) -> Vec<(&'static str, &'static str)> {
    image(here, "flashlight");
    here.said(0, &["mkfs", "--fs", "nanofs", "--size", "1MiB", "nanofs"]);
    let mut chip = SimNand::create(here.path("jftl"), preset(CHIP).unwrap()).unwrap();
    let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
    Jftl::format(&mut chip, &mut ram, 1).unwrap();
    let spec = nor_preset(NOR_DEFAULT).unwrap();
    let mut chip: SimNor = SimNor::create(here.path("logdisk"), spec).unwrap();
    let shape = Shape {
        sector_size: 512,
        sectors: 1_000,
    };
    LogDisk::format(&mut chip, &shape, 1).unwrap();
    fs::write(here.path("text"), "text").unwrap();
    vec![
        ("flashlight", "a FlashLight volume"),
        ("nanofs", "a Nano-FS volume"),
        ("jftl", "a disk of jftl"),
        ("logdisk", "a disk of logdisk"),
        ("text", "data that is not flashkit's"),
    ]
}

#[test]
fn what_is_there_is_overwritten_by_force_alone() {
    let here = Place::new();
    fs::write(here.path("raw"), vec![0xff; 2048]).unwrap();
    for (name, what) in holders(&here) {
        let before = fs::read(here.path(name)).unwrap();
        for args in [
            &["mkfs", "--chip", CHIP][..],
            &["mkfs", "--fs", "nanofs"],
            &["import", "--chip", CHIP, "raw"],
        ] {
            let args = [args, &[name]].concat();
            let refused = here.complaint(1, &args);
            assert_eq!(
                refused,
                format!("{name}: holds {what}; --force overwrites it")
            );
            assert!(fs::read(here.path(name)).unwrap() == before);
        }
        here.said(0, &["mkfs", "--chip", CHIP, "--force", name]);
        assert_eq!(here.said(0, &["ls", name]), "");
    }
    // Nothing is lost of these.
    drop(SimNand::create(here.path("erased"), preset(CHIP).unwrap()).unwrap());
    let spec = nor_preset(NOR_DEFAULT).unwrap();
    drop(<SimNor>::create(here.path("erased nor"), spec).unwrap());
    fs::write(here.path("empty"), "").unwrap();
    fs::write(here.path("zeros"), vec![0; 100_000]).unwrap();
    for name in ["erased", "erased nor", "empty", "zeros"] {
        here.said(0, &["mkfs", "--chip", CHIP, name]);
    }
}

#[test]
fn what_fails_leaves_nothing_behind() {
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    fs::write(here.path("tree/large"), vec![7; 30 << 20]).unwrap();
    let args = ["mkfs", "--force", "--chip", CHIP, "-r", "tree", "x.img"];
    assert!(here.complaint(1, &args).contains("no space left"));
    assert_eq!(names(&here), ["tree"]);
    image(&here, "x.img");
    let before = fs::read(here.path("x.img")).unwrap();
    assert!(here.complaint(1, &args).contains("no space left"));
    assert!(fs::read(here.path("x.img")).unwrap() == before);
    assert_eq!(names(&here), ["file", "tree", "x.img"]);
}

#[test]
fn what_does_not_fit_into_an_image_is_not_in_it() {
    let here = Place::new();
    fs::write(here.path("large"), vec![7; 30 << 20]).unwrap();
    image(&here, "x.img");
    here.said(0, &["mkfs", "--fs", "nanofs", "--size", "1MiB", "y.img"]);
    here.said(0, &["cp", "file", "y.img:/"]);
    for name in ["x.img", "y.img"] {
        // A new file, and one in the place of another.
        for inside in ["new", "file"] {
            let to = format!("{name}:/{inside}");
            assert!(
                here.complaint(1, &["cp", "large", &to])
                    .contains("no space left")
            );
        }
        assert_eq!(here.said(0, &["ls", name]), "file\n");
        assert_eq!(here.said(0, &["cat", &format!("{name}:/file")]), "contents");
        here.said(0, &["fsck", name]);
    }
}

#[test]
fn what_is_interrupted_leaves_nothing_behind() {
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    let mut mixed = 1_u32;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        mixed = mixed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (mixed >> 24) as u8
    })
    .take(150 << 20)
    .collect();
    fs::write(here.path("tree/large"), bytes).unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = here
            .command(&["mkfs", "-r", "tree", "x.img"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while names(&here) == ["tree"] {
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = child.wait().unwrap();
        assert!(!status.success(), "it was faster than the signal");
        assert_eq!(names(&here), ["tree"], "{status:?}");
    }
}

#[test]
fn what_is_in_use_and_the_source_itself_are_not_overwritten() {
    let here = Place::new();
    image(&here, "x.img");
    image(&here, "mounted.img");
    fs::hard_link(here.path("x.img"), here.path("y.img")).unwrap();
    std::os::unix::fs::symlink("x.img", here.path("z.img")).unwrap();
    here.said(0, &["export", "--spare", "x.img", "x.bin"]);
    fs::hard_link(here.path("x.bin"), here.path("y.bin")).unwrap();
    let before = fs::read(here.path("x.img")).unwrap();
    for to in ["x.img", "y.img", "z.img", "./x.img"] {
        for args in [
            &["export", "--spare", "--force", "x.img", to][..],
            &["cp", "x.img:/file", to],
            &["cp", to, "x.img:/new"],
        ] {
            let refused = here.complaint(1, args);
            assert_eq!(refused, format!("{to}: is the image itself"), "{args:?}");
        }
    }
    let import = [
        "import", "--force", "--chip", CHIP, "--spare", "x.bin", "y.bin",
    ];
    assert_eq!(here.complaint(1, &import), "y.bin: is the raw image itself");
    let held = SimNand::open(here.path("mounted.img"), Access::ReadWrite).unwrap();
    for args in [
        &["export", "--spare", "--force", "x.img", "mounted.img"][..],
        &[
            "import",
            "--force",
            "--chip",
            CHIP,
            "--spare",
            "x.bin",
            "mounted.img",
        ],
        &["mkfs", "--force", "mounted.img"],
        &["mkfs", "--force", "--fs", "nanofs", "mounted.img"],
        &["cp", "x.img:/file", "mounted.img"],
    ] {
        let why = here.complaint(1, args);
        assert!(why.starts_with("mounted.img: is in use"), "{args:?}: {why}");
    }
    drop(held);
    assert_eq!(here.said(0, &["cat", "mounted.img:/file"]), "contents");
    assert!(fs::read(here.path("x.img")).unwrap() == before);
}

#[test]
fn an_image_is_not_stored_in_itself() {
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    fs::write(here.path("tree/file"), "contents").unwrap();
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "tree/x.img"]);
    assert_eq!(here.said(0, &["ls", "tree/x.img"]), "file\n");
    // The one that is there already, under another name as well.
    fs::hard_link(here.path("tree/x.img"), here.path("tree/y.img")).unwrap();
    let out = here.run(&[
        "mkfs",
        "--force",
        "--chip",
        CHIP,
        "-r",
        "tree",
        "tree/x.img",
    ]);
    assert!(out.status.success());
    let said = String::from_utf8(out.stderr).unwrap();
    let left_out = "flashkit: tree/x.img: the image itself, left out\n\
        flashkit: tree/y.img: the image itself, left out\n";
    assert_eq!(said, left_out);
    assert_eq!(here.said(0, &["ls", "tree/x.img"]), "file\n");
    fs::remove_file(here.path("tree/y.img")).unwrap();
    let out = here.run(&["cp", "-r", "tree", "tree/x.img:/again"]);
    assert!(out.status.success());
    assert_eq!(here.said(0, &["ls", "tree/x.img:/again"]), "file\n");
    // A name inside that is the image's outside.
    fs::write(here.path("x.img"), "no image").unwrap();
    here.said(0, &["cp", "x.img", "tree/x.img:/x.img"]);
    let refused = here.complaint(1, &["cp", "-r", "tree/x.img:/", "tree"]);
    assert!(
        refused.ends_with("tree/x.img: the image itself is in the way"),
        "{refused}"
    );
    assert_eq!(here.said(0, &["cat", "tree/x.img:/file"]), "contents");
}

#[test]
fn what_comes_out_has_the_bits_that_are_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    fs::write(here.path("tree/suid"), "x").unwrap();
    let bits = PermissionsExt::from_mode(0o6777);
    fs::set_permissions(here.path("tree/suid"), bits).unwrap();
    fs::write(
        here.path("table"),
        "/null c 666 0 0 1 3\n/other f 4711 12 13\n",
    )
    .unwrap();
    fs::write(here.path("tree/other"), "x").unwrap();
    let made = [
        "mkfs",
        "--chip",
        CHIP,
        "-r",
        "tree",
        "--devtable",
        "table",
        "x.img",
    ];
    here.said(0, &made);
    let is_root = nix::unistd::geteuid().is_root();
    let umask = {
        fs::write(here.path("new"), "").unwrap();
        0o666 & !fs::metadata(here.path("new")).unwrap().mode()
    };
    let masked = 0o777 & !umask;
    let by_default = if is_root { 0o777 } else { masked };
    let keeping = if is_root { 0o6777 } else { masked };
    let cases = [
        (&[][..], by_default),
        (&["-p"][..], 0o6777),
        (&["--no-same-permissions"][..], masked),
        (&["-p", "--no-same-permissions"][..], masked),
        (&["--no-same-owner"][..], by_default),
        (&["--same-owner"][..], keeping),
    ];
    for (options, mode) in cases {
        if !is_root && options.contains(&"--same-owner") {
            continue;
        }
        let out = here.run(&[&["cp", "-r"], options, &["x.img:/", "out"]].concat());
        assert!(out.status.success(), "{options:?}");
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(
            said, "flashkit: out/null: a device, left out\n",
            "{options:?}"
        );
        let suid = fs::metadata(here.path("out/suid")).unwrap();
        assert_eq!(suid.mode() & 0o7777, mode, "{options:?}");
        let other = fs::metadata(here.path("out/other")).unwrap();
        let keeps_owner = is_root && !options.contains(&"--no-same-owner");
        let caller = nix::unistd::geteuid().as_raw();
        assert_eq!(
            other.uid(),
            if keeps_owner { 12 } else { caller },
            "{options:?}"
        );
        fs::remove_dir_all(here.path("out")).unwrap();
    }
    let out = here.run(&["cp", "-r", "--devices", "x.img:/", "out"]);
    let made = fs::metadata(here.path("out/null")).is_ok();
    assert_eq!(made, out.stderr.is_empty());
    assert!(!made || is_root);
    let usage = here.complaint(2, &["cp", "-p", "table", "x.img:/"]);
    assert!(usage.contains("always go into an image"), "{usage}");
}

#[test]
fn names_do_nothing_to_a_terminal() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", CHIP, "x.img"]);
    here.said(0, &["mkfs", "--fs", "nanofs", "--size", "1MiB", "card.img"]);
    let evil = "a\u{1b}[31m\u{9b}2J\u{202e}\nb";
    let shown = r"a\x1b[31m\x9b2J\u{202e}\nb";
    fs::write(here.path(evil), "x").unwrap();
    for image in ["x.img", "card.img"] {
        here.said(0, &["cp", evil, &format!("{image}:/")]);
        assert_eq!(here.said(0, &["ls", image]), format!("{evil}\n"));
        assert_eq!(here.said(0, &["ls", "-b", image]), format!("{shown}\n"));
    }
    let is_plain = |said: &str| {
        said.chars()
            .all(|c| c == '\n' || !c.is_control() && c != '\u{202e}')
    };
    // Each of these says the name, or a path with it.
    let inside = format!("x.img:/{evil}/none");
    fs::create_dir(here.path("out")).unwrap();
    fs::create_dir(here.path("out").join(evil)).unwrap();
    fs::rename(here.path(evil), here.path(&format!("{evil}.img"))).unwrap();
    let as_image = format!("{evil}.img");
    for args in [
        &["cat", &inside][..],
        &["ls", &inside],
        &["cp", "-r", "x.img:/", "out"],
        &["cp", &inside, "out"],
        &["fsck", &as_image],
        &["info", &as_image],
        &["mkfs", &as_image],
        &["mkfs", "--force", "--chip", CHIP, &as_image],
        &["export", "--spare", "x.img", &format!("{evil}.bin")],
        &["dump", "x.img"],
        &["dump", "--json", "x.img"],
        &["fsck", "--json", "card.img"],
        &[evil],
    ] {
        let out = here.run(args);
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(is_plain(&said), "{args:?}: {said:?}");
    }
    let json = here.said(0, &["dump", "--json", "x.img"]);
    let named = json
        .lines()
        .find(|line| line.contains(r"a\u001b[31m"))
        .unwrap();
    let record: serde_json::Value = serde_json::from_str(named).unwrap();
    assert_eq!(record["name"], evil);
}

#[test]
fn holes_stay_holes() {
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    let sparse = fs::File::create(here.path("tree/sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    fs::write(here.path("tree/after"), "x").unwrap();
    if sparse.metadata().unwrap().blocks() > 1_024 {
        println!("skipped: the host has no sparse files");
        return;
    }
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "x.img"]);
    here.said(0, &["cp", "tree/sparse", "x.img:/again"]);
    here.said(0, &["cp", "-r", "x.img:/", "out"]);
    here.said(0, &["cp", "x.img:/sparse", "one"]);
    for name in ["out/sparse", "out/again", "one"] {
        let copied = fs::metadata(here.path(name)).unwrap();
        assert_eq!(copied.len(), 1 << 40, "{name}");
        assert!(copied.blocks() <= 1_024, "{name}: {}", copied.blocks());
    }
}
