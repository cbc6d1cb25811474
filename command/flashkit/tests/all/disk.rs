//! Block devices: `flashkit attach` under real loop devices and file systems, `flashkit serve` with
//! real clients.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::{Mounted, Place, can_mount, same, skipped, tool, tree, umount};
use nix::sys::signal::Signal;

/// Whether loop devices can be had here; if not, says so, or fails where it must.
fn can_loop() -> bool {
    if !can_mount() {
        return false;
    }
    let why = if !nix::unistd::geteuid().is_root() {
        "losetup needs root"
    } else if !Path::new("/dev/loop-control").exists() {
        "no loop devices"
    } else {
        return true;
    };
    skipped(why);
    false
}

/// What a tool of the system prints; it must succeed.
fn said(name: &str, args: &[&str]) -> String {
    let out = Command::new(name).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
    assert!(out.status.success(), "{name} {args:?}: {text}");
    text
}

/// A loop device, given back whatever happens.
struct Loop {
    device: String,
    mounted: Option<PathBuf>,
}

impl Loop {
    fn new(file: &Path) -> Loop {
        let file = file.to_str().unwrap();
        let device = said("losetup", &["--find", "--show", file]);
        Loop {
            device: device.trim().into(),
            mounted: None,
        }
    }

    /// Mounts it, and makes sure that it is this that is mounted there.
    fn mount(&mut self, point: &Path) {
        self.mount_with(point, &[]);
    }

    fn mount_with(&mut self, point: &Path, options: &[&str]) {
        let text = point.to_str().unwrap();
        fs::create_dir_all(point).unwrap();
        said("mount", &[options, &[&self.device, text]].concat());
        self.mounted = Some(point.to_owned());
        said("mountpoint", &["-q", text]);
        let source = said("findmnt", &["-n", "-o", "SOURCE", text]);
        assert_eq!(source.trim(), self.device);
    }

    fn unmount(&mut self) {
        umount(&self.mounted.take().unwrap());
    }

    fn fsck(&self) {
        said("e2fsck", &["-fn", &self.device]);
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        if let Some(point) = &self.mounted {
            let _ = Command::new("umount").arg("-l").arg(point).output();
        }
        let _ = Command::new("losetup").args(["-d", &self.device]).output();
    }
}

fn attach(here: &Place, args: &[&str]) -> Mounted {
    let args = [&["attach", "--ftl", "logdisk"], args].concat();
    here.start(&args, "ends it")
}

#[test]
fn ext4_lives_on_an_attached_disk() {
    if !can_loop() {
        return;
    }
    let here = Place::new();
    tree(&here.path("tree"));
    let attached = attach(&here, &["nor.img", "nor"]);
    assert!(
        attached
            .said
            .contains("nor.img: made, a disk of 14 MiB on a new nor-16m")
            && attached.said.contains("nor.img is nor/disk, 14 MiB"),
        "{}",
        attached.said
    );
    assert_eq!(fs::metadata(here.path("nor/disk")).unwrap().len(), 14 << 20);
    let mut device = Loop::new(&here.path("nor/disk"));
    said("mkfs.ext4", &["-q", &device.device]);
    device.mount(&here.path("m"));
    tool(
        "cp",
        &[Path::new("-a"), &here.path("tree"), &here.path("m/tree")],
    );
    let trimmed = said("fstrim", &["-v", here.path("m").to_str().unwrap()]);
    assert!(trimmed.contains(" MiB ("), "{trimmed}");
    same(&here.path("tree"), &here.path("m/tree"));
    device.unmount();
    device.fsck();
    drop(device);
    umount(&here.path("nor"));
    let ended = attached.end();
    assert!(ended.contains("sectors written, "), "{ended}");

    // Everything comes back, from the image alone.
    let attached = attach(
        &here,
        &["nor.img", "nor", "-o", "ro", "--cleaning", "bounded"],
    );
    let refused = OpenOptions::new().write(true).open(here.path("nor/disk"));
    assert!(refused.is_err());
    let mut device = Loop::new(&here.path("nor/disk"));
    device.fsck();
    said(
        "mount",
        &["-o", "ro", &device.device, here.path("m").to_str().unwrap()],
    );
    device.mounted = Some(here.path("m"));
    same(&here.path("tree"), &here.path("m/tree"));
    device.unmount();
    drop(device);
    let ended = attached.signal(Signal::SIGTERM);
    assert!(ended.contains("0 sectors written"), "{ended}");
}

/// The same on NAND, by pages; the image is killed once, and ended in order once.
#[test]
fn ext4_lives_on_nand() {
    if !can_loop() {
        return;
    }
    let here = Place::new();
    tree(&here.path("tree"));
    let start = |args: &[&str]| {
        let args = [&["attach", "--ftl", "page"], args].concat();
        here.start(&args, "ends it")
    };
    let mut attached = start(&["--chip", "micron-20m", "nand.img", "nand"]);
    assert!(
        attached
            .said
            .contains("a disk of 15.5 MiB on a new micron-20m"),
        "{}",
        attached.said
    );
    let mut device = Loop::new(&here.path("nand/disk"));
    said("mkfs.ext4", &["-q", "-b", "2048", &device.device]);
    device.mount(&here.path("m"));
    tool(
        "cp",
        &[Path::new("-a"), &here.path("tree"), &here.path("m/tree")],
    );
    let trimmed = said("fstrim", &["-v", here.path("m").to_str().unwrap()]);
    assert!(trimmed.contains(" MiB ("), "{trimmed}");
    device.unmount();
    attached.child.kill().unwrap();
    attached.child.wait().unwrap();
    drop(device);
    said("umount", &["-l", here.path("nand").to_str().unwrap()]);

    let attached = start(&["nand.img", "nand"]);
    let mut device = Loop::new(&here.path("nand/disk"));
    device.fsck();
    device.mount(&here.path("m"));
    same(&here.path("tree"), &here.path("m/tree"));
    device.unmount();
    drop(device);
    umount(&here.path("nand"));
    let ended = attached.end();
    assert!(ended.contains(" of log and map, "), "{ended}");

    let args = ["attach", "--ftl", "page", "--size", "1MiB", "x.img", "x"];
    let said = here.complaint(2, &args);
    assert!(
        said.contains("--size, --sector and --cleaning are for"),
        "{said}"
    );
}

/// Full journaling of a stock kernel, and most of it is programmed once.
#[test]
fn ext3_journals_once_on_jftl() {
    if !can_loop() {
        return;
    }
    let here = Place::new();
    tree(&here.path("tree"));
    let args = [
        "attach",
        "--ftl",
        "jftl",
        "--chip",
        "micron-20m",
        "n.img",
        "n",
    ];
    let mut attached = here.start(&args, "ends it");
    let mut device = Loop::new(&here.path("n/disk"));
    let ext3 = ["-q", "-t", "ext3", "-b", "2048", "-J", "size=4"];
    said("mke2fs", &[&ext3[..], &[&device.device]].concat());
    device.mount_with(&here.path("m"), &["-t", "ext3", "-o", "data=journal"]);
    tool(
        "cp",
        &[Path::new("-a"), &here.path("tree"), &here.path("m/tree")],
    );
    device.unmount();
    device.fsck();
    drop(device);
    umount(&here.path("n"));
    let told = attached.complaints();
    assert!(
        told.contains("plain translation: there is no ext3 or ext4 file system")
            && told.contains("remaps a journal of 2048 blocks of 2048 bytes"),
        "{told}"
    );
    let ended = attached.end();
    let count = |what: &str| {
        let before = ended.split(what).next().unwrap().trim();
        let word = before.rsplit(' ').next().unwrap().replace(',', "");
        word.parse::<u64>()
            .unwrap_or_else(|e| panic!("{e}: {ended}"))
    };
    let (journal, elided) = (count(" of the journal"), count(" elided"));
    assert!(elided > 100 && elided * 10 > journal * 8, "{ended}");
    assert!(count(" pages shared") > 100, "{ended}");
}

/// Another program, in C, keeps a journal of its own on an attached disk and tells of its
/// transactions; the disk is killed behind it, and what was committed is there.
#[test]
fn a_program_has_its_journal_remapped() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/jftl/blocks.c");
    let program = here.path("blocks");
    let strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"].map(Path::new);
    tool("cc", &[&strict[..], &[&program, &source]].concat());
    let disk = here.path("n/disk");
    let run = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.arg(&disk).args(args).output().unwrap()
    };
    let said = |args: &[&str]| {
        let out = run(args);
        let text = String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned();
        assert!(out.status.success(), "{args:?}: {text}");
        text
    };
    let new = [
        "attach",
        "--ftl",
        "page",
        "--chip",
        "micron-20m",
        "n.img",
        "n",
    ];
    let mut attached = here.start(&new, "ends it");
    said(&["set", "7", "seven", "900", "nine hundred"]);
    said(&["set", "7", "seven anew", "8", "eight"]);
    said(&["free", "900"]);
    // Beyond the disk, and twice the same: nothing of either happens.
    for refused in [["7", "no", "99999999", "no"], ["7", "no", "7", "no"]] {
        let out = run(&[&["set"], &refused[..]].concat());
        let why = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(why, "commit: Invalid argument\n");
    }
    attached.child.kill().unwrap();
    attached.child.wait().unwrap();
    umount(&here.path("n"));
    let attached = here.start(&["attach", "--ftl", "page", "n.img", "n"], "ends it");
    for (block, held) in [("7", "seven anew\n"), ("8", "eight\n"), ("900", "\n")] {
        assert_eq!(said(&["get", block]), held, "{block}");
    }
    umount(&here.path("n"));
    drop(attached.end());

    // A disk that maps nothing anew says so.
    let attached = attach(&here, &["nor.img", "n"]);
    let out = run(&["set", "7", "seven"]);
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(why, "commit: Operation not supported\n");
    umount(&here.path("n"));
    attached.end();
}

/// The process is killed in the middle of writes: what was synced is there, and the journal makes
/// the rest whole.
#[test]
fn ext4_survives_the_kill_of_its_disk() {
    if !can_loop() {
        return;
    }
    let here = Place::new();
    let mut attached = attach(&here, &["nor.img", "nor"]);
    let mut device = Loop::new(&here.path("nor/disk"));
    said("mkfs.ext4", &["-q", &device.device]);
    device.mount(&here.path("m"));
    let content = |i: usize| vec![i as u8; 3_000 + i * 500];
    for i in 0..30 {
        let mut file = File::create(here.path("m").join(format!("f{i}"))).unwrap();
        file.write_all(&content(i)).unwrap();
        file.sync_all().unwrap();
    }
    // Not synced: on its way when the end comes.
    for i in 30..120 {
        fs::write(here.path("m").join(format!("f{i}")), content(i)).unwrap();
    }
    attached.child.kill().unwrap();
    attached.child.wait().unwrap();
    drop(device);
    said("umount", &["-l", here.path("nor").to_str().unwrap()]);

    let attached = attach(&here, &["nor.img", "nor"]);
    let mut device = Loop::new(&here.path("nor/disk"));
    let replayed = Command::new("e2fsck")
        .args(["-fy", "-E", "journal_only", &device.device])
        .output()
        .unwrap();
    assert!(
        matches!(replayed.status.code(), Some(0 | 1)),
        "{replayed:?}"
    );
    device.fsck();
    device.mount(&here.path("m"));
    for i in 0..30 {
        let found = fs::read(here.path("m").join(format!("f{i}"))).unwrap();
        assert!(found == content(i), "f{i}: {} bytes", found.len());
    }
    device.unmount();
    drop(device);
    attached.signal(Signal::SIGINT);
}

#[test]
fn the_file_is_a_disk_and_nothing_else() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let size = ["--size", "1MiB", "--sector", "1024"];
    let attached = attach(&here, &[&["x.img", "d"], &size[..]].concat());
    let disk = here.path("d/disk");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&disk)
        .unwrap();
    file.write_all_at(b"across sectors", 1_020).unwrap();
    file.write_all_at(b"end", (1 << 20) - 3).unwrap();
    assert!(file.write_all_at(b"end!", (1 << 20) - 3).is_err());
    file.sync_all().unwrap();
    // A hole is a trim: what is there reads as zeros.
    file.write_all_at(&[7; 8_192], 65_536).unwrap();
    let punch = ["--punch-hole", "--offset", "65536", "--length", "4096"];
    said(
        "fallocate",
        &[&punch[..], &[disk.to_str().unwrap()]].concat(),
    );
    let mut read = vec![1; 8_192];
    file.read_exact_at(&mut read, 65_536).unwrap();
    assert!(read[..4_096].iter().all(|b| *b == 0) && read[4_096..].iter().all(|b| *b == 7));
    assert!(file.set_len(5).is_err() && file.set_len(1 << 20).is_ok());
    drop(file);
    assert!(File::create(here.path("d/other")).is_err());
    assert!(fs::remove_file(&disk).is_err() && fs::rename(&disk, here.path("d/x")).is_err());
    assert_eq!(fs::read_dir(here.path("d")).unwrap().count(), 1);
    let why = here.complaint(1, &["attach", "--ftl", "logdisk", "x.img", "elsewhere"]);
    assert!(why.starts_with("x.img: image is in use"), "{why}");
    assert!(!here.path("elsewhere").exists());
    umount(&here.path("d"));
    attached.end();
    let attached = attach(&here, &["x.img", "d"]);
    let found = fs::read(&disk).unwrap();
    assert_eq!(&found[1_020..1_034], b"across sectors");
    assert_eq!(&found[(1 << 20) - 3..], b"end");
    attached.signal(Signal::SIGTERM);
}

#[test]
fn real_time_takes_the_chips_time() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let attached = attach(&here, &["x.img", "d", "--real-time"]);
    let file = OpenOptions::new()
        .write(true)
        .open(here.path("d/disk"))
        .unwrap();
    let start = Instant::now();
    file.write_all_at(&[9; 65_536], 0).unwrap();
    file.sync_all().unwrap();
    // 128 sectors of 132 word programs of 10 us.
    assert!(start.elapsed() >= Duration::from_micros(128 * 1_320));
    drop(file);
    attached.signal(Signal::SIGTERM);
}

#[test]
fn what_cannot_be_attached_is_named() {
    let here = Place::new();
    fs::create_dir(here.path("d")).unwrap();
    fs::write(here.path("text"), "no image, but long enough".repeat(999)).unwrap();
    assert!(
        here.run(&["mkfs", "--chip", "micron-20m", "nand.img"])
            .status
            .success()
    );
    let complaint = |status: i32, args: &[&str]| {
        let args = [&["serve", "--socket", "s", "--ftl", "logdisk"], args].concat();
        let why = here.complaint(status, &args);
        assert!(!here.path("s").exists());
        why
    };
    assert_eq!(complaint(1, &["text"]), "text: not a flashkit image");
    assert_eq!(complaint(1, &["d"]), "d: is a directory, not an image");
    assert_eq!(
        complaint(1, &["nand.img"]),
        "nand.img: holds a FlashLight volume; `flashkit mount` takes it"
    );
    assert_eq!(
        complaint(1, &["--read-only", "x"]),
        "x: No such file or directory"
    );
    assert!(complaint(1, &["no/such/x"]).starts_with("no/such/x: "));
    let chip = complaint(2, &["--chip", "slc-256m", "x"]);
    assert!(chip.contains("slc-256m: no such NOR chip"), "{chip}");
    assert!(complaint(2, &["--sector", "1000", "--size", "1000", "x"]).contains("power of two"));
    assert!(complaint(2, &["--size", "1000", "x"]).contains("whole number of sectors"));
    assert!(complaint(2, &["--size", "16MiB", "x"]).contains("no room for cleaning"));
    assert!(complaint(2, &["--size", "0", "x"]).contains("sectors"));
    assert!(complaint(2, &["--cleaning", "never", "x"]).contains("never"));
    let ftl = here.complaint(2, &["attach", "--ftl", "magic", "x", "d"]);
    assert!(ftl.contains("magic") && ftl.contains("logdisk"), "{ftl}");
    assert!(!here.path("x").exists());

    // A chip that was made and never formatted, one of another shape, one that is damaged.
    let mut made = serve(&here, &["x"]);
    stop(&mut made);
    assert!(complaint(2, &["--size", "1MiB", "x"]).contains("x: exists"));
    let image = here.path("x");
    let whole = fs::read(&image).unwrap();
    let mut damaged = whole.clone();
    damaged[8_192] ^= 1;
    fs::write(&image, &damaged).unwrap();
    let mut reads = serve(&here, &["x"]);
    stop(&mut reads);
    assert_eq!(
        fs::read(&image).unwrap(),
        damaged,
        "a damaged disk is not written"
    );
    fs::write(&image, &whole[..whole.len() / 2]).unwrap();
    assert!(complaint(1, &["x"]).starts_with("x: image is too short"));
    let mounted = here.complaint(1, &["info", "x"]);
    assert!(mounted.contains("x: "), "{mounted}");
}

fn serve(here: &Place, args: &[&str]) -> Mounted {
    let args = [&["serve", "--ftl", "logdisk", "--socket", "s"], args].concat();
    here.start(&args, "ends it")
}

fn stop(serving: &mut Mounted) {
    let pid = nix::unistd::Pid::from_raw(serving.child.id().try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGINT).unwrap();
    assert!(serving.child.wait().unwrap().success());
}

/// Runs a client of libnbd; `None` where there is none.
fn client(here: &Place, name: &str, args: &[&str]) -> Option<Output> {
    let uri = format!("nbd+unix:///?socket={}", here.path("s").display());
    let args = args.iter().map(|arg| arg.replace("URI", &uri));
    match Command::new(name)
        .args(args)
        .current_dir(here.dir.path())
        .output()
    {
        Ok(out) => Some(out),
        Err(_) => {
            println!("skipped: no {name} (package libnbd-bin)");
            None
        }
    }
}

#[test]
fn clients_of_libnbd_read_and_write_a_served_disk() {
    let here = Place::new();
    let mut serving = serve(&here, &["nor.img"]);
    let Some(info) = client(&here, "nbdinfo", &["--json", "URI"]) else {
        stop(&mut serving);
        return;
    };
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let export = &info["exports"][0];
    assert_eq!(export["export-size"], 14 << 20);
    for able in ["can_flush", "can_fua", "can_trim", "can_zero"] {
        assert_eq!(export[able], true, "{able}");
    }
    assert_eq!(export["is_read_only"], false);
    let mut data: Vec<u8> = (0..14u32 << 20).map(|i| (i % 4_093) as u8).collect();
    // A run of zeros, which a client sends as such.
    data[3 << 20..5 << 20].fill(0);
    fs::write(here.path("data"), &data).unwrap();
    let copy = |from: &str, to: &str| client(&here, "nbdcopy", &[from, to]).unwrap().status;
    assert!(copy("data", "URI").success());
    assert!(copy("URI", "back").success());
    assert!(fs::read(here.path("back")).unwrap() == data);
    stop(&mut serving);
    assert!(!here.path("s").exists());

    // What an earlier server left behind is no obstacle; a living one is.
    let mut serving = serve(&here, &["--read-only", "nor.img"]);
    let why = here.complaint(1, &["serve", "--ftl", "logdisk", "--socket", "s", "y.img"]);
    assert!(why.contains("s: in the way, or in use"), "{why}");
    assert!(!copy("data", "URI").success());
    assert!(copy("URI", "again").success());
    assert!(fs::read(here.path("again")).unwrap() == data);
    serving.child.kill().unwrap();
    serving.child.wait().unwrap();
    assert!(here.path("s").exists());
    let mut serving = serve(&here, &["--real-time", "--no-barrier", "nor.img"]);
    stop(&mut serving);
}

/// Clients that are silent, or ask and take no reply, keep neither others out nor the server from
/// its end; more than 16 are refused at once.
#[test]
fn clients_that_are_silent_are_in_nobodys_way() {
    let here = Place::new();
    let mut serving = serve(&here, &["nor.img"]);
    let connect = || {
        let stream = UnixStream::connect(here.path("s")).unwrap();
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        stream
    };
    let greeted = |stream: &mut UnixStream| {
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).is_ok() && greeting.starts_with(b"NBDMAGIC")
    };
    let mut clients: Vec<UnixStream> = (0..16).map(|_| connect()).collect();
    assert!(clients.iter_mut().all(greeted));
    assert!(!greeted(&mut connect()), "a 17th client");
    let gone = clients.pop().unwrap();
    drop(gone);
    let begun = Instant::now();
    while !greeted(&mut connect()) {
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
    // The one whose turn it was has gone again. Reads of 1 MiB whose replies nobody takes.
    let client = &mut clients[0];
    let tick = Some(Duration::from_millis(200));
    client.set_write_timeout(tick).unwrap();
    let go = [&b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06"[..], &[0; 6]].concat();
    client.write_all(&go).unwrap();
    let read = [
        &0x2560_9513u32.to_be_bytes()[..],
        &[0; 20],
        &(1u32 << 20).to_be_bytes(),
    ];
    while client.write_all(&read.concat()).is_ok() {}
    stop(&mut serving);
}

/// A damaged disk is told by `fsck` and `info`, each part by name; one that is whole is clean.
#[test]
fn fsck_and_info_tell_what_is_damaged_on_nor() {
    let here = Place::new();
    let shape = flashkit_logdisk::Shape {
        sector_size: 512,
        sectors: 28_672,
    };
    let spec = flashkit_sim::nor::nor_preset("nor-16m").unwrap();
    let mut chip: flashkit_sim::nor::SimNor =
        flashkit_sim::nor::SimNor::create(here.path("nor.img"), spec).unwrap();
    flashkit_logdisk::LogDisk::format(&mut chip, &shape, 1).unwrap();
    drop(chip);
    let said = here.said(0, &["fsck", "nor.img"]);
    assert!(
        said.contains("nor.img: clean (64 segments, 0 sectors in use checked)"),
        "{said}"
    );
    assert_eq!(
        here.json(0, &["info", "--json", "nor.img"])["damage"],
        serde_json::Value::Null
    );
    // The header of segment 3, behind the table of the image. Stored bytes are complements.
    let file = OpenOptions::new()
        .write(true)
        .open(here.path("nor.img"))
        .unwrap();
    file.write_all_at(&[0x5A], 8_192 + 3 * 262_144 + 20)
        .unwrap();
    let before = fs::read(here.path("nor.img")).unwrap();
    for repair in ["-n", "-a", "-y"] {
        let said = here.said(4, &["fsck", repair, "nor.img"]);
        assert!(
            said.contains("disk: the header of segment 3 has a wrong checksum")
                && said.contains("damaged, 1 finding"),
            "{said}"
        );
    }
    let told = here.json(0, &["info", "--json", "nor.img"]);
    assert!(
        told["damage"]
            .as_str()
            .unwrap()
            .starts_with("damaged headers 1,"),
        "{told}"
    );
    assert_eq!(fs::read(here.path("nor.img")).unwrap(), before);
}

/// The cleaner's steps, by each of the paper's policies: what they choose, copy and erase.
#[test]
fn the_cleaner_goes_step_by_step() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let attached = attach(&here, &["nor.img", "nor", "--size", "4MiB"]);
    let disk = OpenOptions::new().write(true).open(here.path("nor/disk"));
    let disk = disk.unwrap();
    for round in 0..3 {
        disk.write_all_at(&vec![round + 1; 2 << 20], 0).unwrap();
        disk.sync_all().unwrap();
    }
    drop(disk);
    umount(&here.path("nor"));
    drop(attached);
    for cleaning in ["paper", "cost-benefit", "separate"] {
        let args = [
            "clean",
            "nor.img",
            "--cleaning",
            cleaning,
            "--now",
            "--json",
        ];
        let said = here.said(0, &[&args[..], &["--steps", "3"]].concat());
        let steps: Vec<serde_json::Value> = said
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(steps[0]["step"], "select", "{said}");
        // What is written over again leaves segments that hold nothing.
        assert_eq!(steps[0]["valid"], 0, "{said}");
        assert!(steps.iter().any(|step| step["step"] == "erase"), "{said}");
    }
    // The policy's own threshold is not reached.
    let said = here.said(0, &["clean", "nor.img"]);
    assert!(said.ends_with("nothing to do\n"), "{said}");
    let other = here.complaint(1, &["clean", "none.img"]);
    assert!(other.contains("none.img"), "{other}");
}
