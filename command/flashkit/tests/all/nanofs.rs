//! Nano-FS images by the command: made, filled, mounted, checked, damaged.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use crate::common::{Place, can_mount, umount};
use flashkit_nanofs::NanoFs;
use flashkit_sim::CardFile;

/// A directory of the host with files of several sizes.
fn files(here: &Place) -> Vec<(String, Vec<u8>)> {
    fs::create_dir(here.path("in")).unwrap();
    [0, 1, 499, 500, 501, 100_000, 1_000_000]
        .into_iter()
        .map(|len| {
            let name = format!("file of {len}");
            let data: Vec<u8> = (0..len).map(|i: u32| (i * 7 / 5) as u8).collect();
            fs::write(here.path("in").join(&name), &data).unwrap();
            (name, data)
        })
        .collect()
}

#[test]
fn made_listed_copied_and_checked() {
    let here = Place::new();
    let held = files(&here);
    let made = here.said(
        0,
        &[
            "mkfs", "--fs", "nanofs", "--size", "4MiB", "--files", "20", "-r", "in", "card.img",
        ],
    );
    assert!(made.contains("nanofs on a card, 4 MiB"), "{made}");
    assert!(made.contains("stored 7 files"), "{made}");
    assert_eq!(fs::metadata(here.path("card.img")).unwrap().len(), 4 << 20);
    let listed = here.said(0, &["ls", "card.img"]);
    let mut names: Vec<_> = held.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(listed.lines().collect::<Vec<_>>(), names);
    here.said(0, &["cp", "-r", "card.img:/", "out"]);
    for (name, data) in &held {
        assert!(
            fs::read(here.path("out").join(name)).unwrap() == *data,
            "{name}"
        );
        let out = here.run(&["cat", &format!("card.img:/{name}")]);
        assert!(out.stdout == *data, "{name}");
    }
    let checked = here.said(0, &["fsck", "card.img"]);
    assert!(checked.contains("clean (7 files, 2,20"), "{checked}");
    let info = here.json(0, &["info", "--json", "card.img"]);
    assert_eq!(info["volume"]["file_system"], "nanofs");
    assert_eq!(info["volume"]["clean"], true);
    assert_eq!(info["files"]["now"], 7);
    assert_eq!(info["files"]["bytes"], 1_101_501);
    assert_eq!(info["card"]["blocks"], 8192);
    // One read for each slot in use: the files, and the spare one.
    assert_eq!(info["mount"]["block_reads"], 8);
}

#[test]
fn options_that_do_not_suit() {
    let here = Place::new();
    let mkfs = |args: &[&str]| here.complaint(2, &[&["mkfs", "--fs", "nanofs"], args].concat());
    assert!(mkfs(&["--size", "5GiB", "x"]).contains("4 GiB at most"));
    assert!(mkfs(&["--size", "64KiB", "x"]).contains("need at least"));
    assert!(mkfs(&["--files", "5000", "x"]).contains("not a number of files from 1 to 4096"));
    assert!(!here.path("x").exists());
    let usage = |args: &[&str]| here.complaint(2, &[&["mkfs"], args].concat());
    assert!(usage(&["--fs", "nanofs", "--chip", "slc-256m", "x"]).contains("not for nanofs"));
    assert!(usage(&["--files", "5", "x"]).contains("not for flashlight"));
    here.said(0, &["mkfs", "--fs", "nanofs", "--size", "1MiB", "card.img"]);
    assert!(
        here.complaint(1, &["dump", "card.img"])
            .contains("a card with nanofs")
    );
    // Directories cannot be.
    fs::create_dir_all(here.path("in/below")).unwrap();
    let args = [
        "mkfs", "--force", "--fs", "nanofs", "--size", "1MiB", "-r", "in", "card.img",
    ];
    assert!(here.complaint(1, &args).contains("no directories"));
}

#[test]
fn mounted() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(
        0,
        &[
            "mkfs",
            "--fs",
            "nanofs",
            "--size",
            "4MiB",
            "--key",
            "0x5e450125",
            "card.img",
        ],
    );
    fs::create_dir(here.path("at")).unwrap();
    let mounted = here.mount(&["card.img", "at"]);
    let at = here.path("at");
    let table = fs::read_to_string("/proc/mounts").unwrap();
    assert!(table.contains("fuse.nanofs"), "{table}");
    fs::write(at.join("a"), vec![7; 70_000]).unwrap();
    fs::write(at.join("b"), b"second").unwrap();
    // Overwriting, a hole, cutting.
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(at.join("a"))
        .unwrap();
    file.write_all_at(b"over", 30_000).unwrap();
    file.write_all_at(b"end", 80_000).unwrap();
    file.sync_all().unwrap();
    let mut data = Vec::new();
    file.read_to_end(&mut data).unwrap();
    assert_eq!(data.len(), 80_003);
    assert_eq!(
        (&data[29_999..30_005], &data[70_000..70_003]),
        (&b"\x07over\x07"[..], &[0; 3][..])
    );
    file.set_len(10).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(b"!").unwrap();
    // A file without a name stays until it is closed.
    fs::rename(at.join("b"), at.join("a")).unwrap();
    let mut rest = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07!");
    assert_eq!(fs::read(at.join("a")).unwrap(), b"second");
    assert_eq!(fs::read_dir(&at).unwrap().count(), 1);
    drop(file);
    assert!(fs::create_dir(at.join("d")).is_err());
    let long = at.join("n".repeat(65));
    assert_eq!(fs::write(long, b"").unwrap_err().raw_os_error(), Some(36));
    umount(&at);
    mounted.end();
    assert_eq!(here.said(0, &["ls", "card.img"]), "a\n");
    assert!(
        here.said(0, &["fsck", "card.img"])
            .contains("clean (1 file, ")
    );
}

/// Firmware whose power failed: `fsck` says so, and recovers it when told to.
#[test]
fn stopped_and_damaged() {
    let here = Place::new();
    here.said(
        0,
        &[
            "mkfs", "--fs", "nanofs", "--size", "1MiB", "--files", "4", "card.img",
        ],
    );
    let path = here.path("card.img");
    let mut device: NanoFs<CardFile> = NanoFs::new(CardFile::open(&path, false).unwrap());
    device.mount(0).unwrap();
    let file = device.create(b"log").unwrap();
    device.append(file, &[5; 12_345]).unwrap();
    device.sync().unwrap();
    // It is in use now.
    let args = ["ls", "card.img"];
    assert!(here.complaint(1, &args).contains("in use"));
    drop(device);
    let before = fs::read(&path).unwrap();
    let looked = here.said(0, &["fsck", "card.img"]);
    assert!(
        looked.contains("recovery was simulated") && looked.contains("clean"),
        "{looked}"
    );
    assert!(here.said(0, &["ls", "-l", "card.img"]).contains("12345"));
    assert!(fs::read(&path).unwrap() == before);
    fs::copy(&path, here.path("other.img")).unwrap();
    for (mode, image) in [("-a", "card.img"), ("-y", "other.img")] {
        let said = here.said(0, &["fsck", mode, image]);
        assert!(said.contains("; recovered"), "{said}");
    }
    let looked = here.said(0, &["fsck", "card.img"]);
    assert!(!looked.contains("recover"), "{looked}");

    // A byte in the middle of a node.
    let mut image = fs::read(&path).unwrap();
    let at = image
        .windows(400)
        .rposition(|w| w.iter().all(|&b| b == 5))
        .unwrap();
    image[at + 200] = 6;
    fs::write(&path, &image).unwrap();
    here.said(4, &["fsck", "-y", "card.img"]);
    let looked = here.said(4, &["fsck", "card.img"]);
    assert!(looked.contains("log: node 23 is damaged"), "{looked}");
    assert!(
        here.complaint(1, &["cat", "card.img:/log"])
            .contains("a damaged node")
    );
}

/// One file is lost with its header, and the others are there: to be looked at, and after a repair
/// to be used.
#[test]
fn a_damaged_header_does_not_hide_the_card() {
    let here = Place::new();
    let mkfs = [
        "mkfs", "--fs", "nanofs", "--size", "1MiB", "--files", "4", "card.img",
    ];
    here.said(0, &mkfs);
    for name in ["one", "two", "three"] {
        fs::write(here.path(name), name.repeat(3_000)).unwrap();
        here.said(0, &["cp", name, "card.img:/"]);
    }
    assert!(here.said(0, &["fsck", "card.img"]).contains("clean"));
    let mut image = fs::read(here.path("card.img")).unwrap();
    let header = |slot: usize| 512 * slot..512 * (slot + 1);
    let of_two = (1..6)
        .find(|&slot| image[header(slot)][92..].starts_with(b"two\0"))
        .unwrap();
    image[header(of_two)][300] ^= 1;
    fs::write(here.path("card.img"), &image).unwrap();

    let listed = here.run(&["ls", "card.img"]);
    assert_eq!(listed.stdout, b"one\nthree\n");
    let lost = "a file is lost: its header is damaged";
    let told = String::from_utf8(listed.stderr).unwrap();
    assert_eq!(told, format!("flashkit: card.img: {lost}\n"));
    let out = here.run(&["cat", "card.img:/three"]);
    assert!(out.stdout == "three".repeat(3_000).as_bytes());
    assert_eq!(
        here.json(0, &["info", "--json", "card.img"])["files"]["lost"],
        1
    );
    let refused = here.complaint(1, &["cp", "one", "card.img:/more"]);
    assert!(refused.contains("`fsck -y` gives up"), "{refused}");
    let found = here.said(4, &["fsck", "card.img"]);
    assert!(
        found.contains(lost) && found.contains("1 finding"),
        "{found}"
    );
    assert!(fs::read(here.path("card.img")).unwrap() == image);

    let mended = here.said(1, &["fsck", "-y", "card.img"]);
    assert!(mended.contains(&format!("{lost}: repaired")), "{mended}");
    assert!(
        here.said(0, &["fsck", "card.img"])
            .contains("clean (2 files")
    );
    here.said(0, &["cp", "two", "card.img:/"]);
    let out = here.run(&["cat", "card.img:/two"]);
    assert!(out.stdout == "two".repeat(3_000).as_bytes());
    assert!(
        here.said(0, &["fsck", "card.img"])
            .contains("clean (3 files")
    );
}

/// What a card cannot hold, and what is asked of it in vain, is said in words of its own.
#[test]
fn what_a_card_cannot_do_is_said() {
    let here = Place::new();
    fs::create_dir_all(here.path("tree/sub")).unwrap();
    fs::write(here.path("f"), "x").unwrap();
    let mkfs = ["mkfs", "--fs", "nanofs", "card.img", "--files", "2"];
    here.said(0, &mkfs);
    assert_eq!(
        here.complaint(1, &["mkfs", "--fs", "nanofs", "-r", "tree", "x.img"]),
        "x.img: filling it: tree/sub: this file system has no directories"
    );
    assert_eq!(
        here.complaint(1, &["cp", "-r", "tree", "card.img:/"]),
        "card.img:/: tree: this file system has no directories"
    );
    assert_eq!(
        here.complaint(1, &["cp", "f", "card.img:/sub/"]),
        "card.img:/sub/: no such directory"
    );
    assert!(!here.path("x.img").exists());
    let large = here.complaint(2, &["mkfs", "--fs", "nanofs", "--size", "1TiB", "x.img"]);
    assert!(large.contains("a volume has 4 GiB at most"), "{large}");
    for (command, why) in [
        (
            "dump",
            "a card with nanofs: `info`, `fsck` and `ls` say what is on it",
        ),
        ("export", "a card, whose image is raw already"),
    ] {
        let args: &[&str] = match command {
            "export" => &["export", "card.img", "x.bin"],
            _ => &["dump", "card.img"],
        };
        assert_eq!(here.complaint(1, args), format!("card.img: {why}"));
    }
    for name in ["a", "b"] {
        here.said(0, &["cp", "f", &format!("card.img:/{name}")]);
    }
    let full = here.complaint(1, &["cp", "f", "card.img:/c"]);
    assert!(
        full.contains("made for no more files (`mkfs --files`)"),
        "{full}"
    );
}
