//! Real mounts by the command.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Access, Rot, SimNand};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Mounted, Place, can_mount, complaint, same, skipped, tool, tree, umount};

#[test]
fn files_survive_every_kind_of_unmount() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let first = here.mount(&[]);
    assert!(
        first.said.contains("flash.img: made, on a new slc-256m"),
        "{}",
        first.said
    );
    assert!(first.said.contains("umount "), "{}", first.said);
    fs::write(here.path("flash/one"), "1").unwrap();
    umount(&here.path("flash"));
    let said = first.end();
    assert!(
        said.contains("session: ") && said.contains("of flash time"),
        "{said}"
    );

    for (signal, name) in [(Signal::SIGINT, "two"), (Signal::SIGTERM, "three")] {
        let mounted = here.mount(&["flash.img", "flash", "-f"]);
        fs::write(here.path("flash").join(name), name).unwrap();
        let said = mounted.signal(signal);
        assert!(said.contains("session: "), "{said}");
        assert!(!here.is_mounted("flash"));
    }
    let listed = here.run(&["ls", "flash.img"]);
    assert_eq!(listed.stdout, b"one\nthree\ntwo\n");

    let mounted = here.mount(&["-o", "ro", "flash.img", "flash"]);
    assert_eq!(
        fs::read_to_string(here.path("flash/three")).unwrap(),
        "three"
    );
    assert!(fs::write(here.path("flash/four"), "").is_err());
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let point = here.path("flash").canonicalize().unwrap();
    let line = table
        .lines()
        .find(|l| l.contains(point.to_str().unwrap()))
        .unwrap();
    assert!(line.contains(" fuse.flashlight ro,"), "{line}");
    mounted.signal(Signal::SIGTERM);
}

/// As mount(8) calls it.
#[test]
fn the_helper_of_mount() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let helper = here.path("mount.flashkit");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_flashkit"), &helper).unwrap();
    assert!(here.run(&["mkfs", "flash.img"]).status.success());
    fs::create_dir(here.path("flash")).unwrap();
    let help = |args: &[&str]| {
        let mut command = Command::new(&helper);
        let out = command
            .args(args)
            .current_dir(here.dir.path())
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    let (code, why) = help(&["flash.img", "flash", "-o", "rw,frob"]);
    assert_eq!(code, Some(2), "{why}");
    assert!(why.contains("unknown mount option `frob`"), "{why}");
    let fake = help(&["flash.img", "flash", "-f", "-o", "rw"]);
    assert_eq!(fake, (Some(0), String::new()));
    assert!(!here.is_mounted("flash"));
    let list = "rw,noatime,nofail,x-systemd.automount,frob";
    let done = help(&[
        "flash.img",
        "flash",
        "-s",
        "-n",
        "-t",
        "flashkit",
        "-o",
        list,
    ]);
    assert_eq!(done, (Some(0), String::new()));
    assert!(here.is_mounted("flash"));
    fs::write(here.path("flash/f"), "data").unwrap();
    umount(&here.path("flash"));
    let mounted = here.mount(&["flash.img", "flash"]);
    assert_eq!(fs::read_to_string(here.path("flash/f")).unwrap(), "data");
    mounted.signal(Signal::SIGTERM);
}

#[test]
fn the_background_mount_returns_when_it_is_ready() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let out = here.run(&["mount", "--daemon"]);
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(
        said.contains("flash.img is mounted on flash; `flashkit umount "),
        "{said}"
    );
    assert!(here.is_mounted("flash"));
    fs::write(here.path("flash/f"), "data").unwrap();
    let why = here.complaint(1, &["ls", "flash.img"]);
    assert!(why.contains("in use by process "), "{why}");
    assert!(!why.contains("in-background"), "{why}");
    umount(&here.path("flash"));
    // It may still be unmounting; a new mount waits for that.
    let mounted = here.mount(&["flash.img", "flash"]);
    assert_eq!(fs::read_to_string(here.path("flash/f")).unwrap(), "data");
    mounted.signal(Signal::SIGTERM);

    let why = here.complaint(1, &["mount", "--daemon", "missing.img", "flash"]);
    assert_eq!(why, "missing.img: No such file or directory");
}

#[test]
fn mount_points_and_images_in_use_are_refused() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let mounted = here.mount(&[]);
    let why = here.complaint(1, &["mount", "flash.img", "flash"]);
    assert!(
        why.contains("flash: busy: something is mounted there"),
        "{why}"
    );
    fs::create_dir(here.path("other")).unwrap();
    let why = here.complaint(1, &["mount", "flash.img", "other"]);
    assert!(why.starts_with("flash.img: image is in use"), "{why}");
    let why = here.complaint(1, &["mkfs", "flash.img"]);
    assert!(why.starts_with("flash.img: image is in use"), "{why}");
    let why = here.complaint(1, &["mount", "flash.img", "missing"]);
    assert!(why.starts_with("flash.img: image is in use"), "{why}");
    assert!(!here.path("missing").exists());
    let why = here.complaint(1, &["mount", "flash.img", "flash.img"]);
    assert!(why.contains("flash.img: not a directory"), "{why}");
    umount(&here.path("flash"));
    // Right after: what opens an image waits for a mount that is just ending.
    assert!(here.run(&["fsck", "flash.img"]).status.success());
    mounted.end();
}

/// Files of some pages; of each block that they fill a third stays.
fn half_empty_blocks(at: &Path, round: usize) {
    let file = |n: usize| at.join(format!("{round}-{n}"));
    for n in 0..240 {
        fs::write(file(n), vec![n as u8; 6_000]).unwrap();
    }
    for n in (0..240).filter(|n| n % 3 != 0) {
        fs::remove_file(file(n)).unwrap();
    }
}

#[test]
fn a_mount_cleans_when_it_is_asked() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    let mounted = here.mount(&["-o", "no_writeback_cache", "flash.img", "flash"]);
    // A mount cleans by itself where nothing is asked for 50 ms: then it is tried again.
    let won = (0..20).find_map(|round| {
        half_empty_blocks(&here.path("flash"), round % 4);
        let won = here.json(0, &["gc", "--json", "flash"])["bytes_won"].as_u64();
        won.filter(|won| *won > 0)
    });
    assert!(won.is_some_and(|won| won % (128 << 10) == 0), "{won:?}");
    let again = here.said(0, &["gc", "flash"]);
    assert_eq!(again, "flash: 0 B won\n");
    for n in (0..240).step_by(3) {
        let found = fs::read(here.path("flash").join(format!("0-{n}"))).unwrap();
        assert_eq!(found, [n as u8; 6_000]);
    }
    // Below a mount is not at it.
    fs::create_dir(here.path("flash/dir")).unwrap();
    let why = here.complaint(1, &["gc", "flash/dir"]);
    assert_eq!(why, "flash/dir: nothing is mounted there");
    mounted.signal(Signal::SIGTERM);
    let read_only = here.mount(&["-o", "ro", "flash.img", "flash"]);
    let why = here.complaint(1, &["gc", "flash"]);
    assert!(why.starts_with("flash: Read-only file system"), "{why}");
    read_only.signal(Signal::SIGTERM);
    here.said(0, &["fsck", "flash.img"]);
}

/// What sync(1) does elsewhere.
#[test]
fn everything_is_durable_once_sync_has_returned() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    let mut mounted = here.mount(&["-o", "commit=0", "flash.img", "flash"]);
    half_empty_blocks(&here.path("flash"), 0);
    let long = |n: usize| {
        (
            here.path("flash").join(n.to_string()),
            vec![n as u8; 30_000],
        )
    };
    for n in 0..40 {
        let (path, bytes) = long(n);
        fs::write(&path, bytes).unwrap();
        if n % 2 == 0 {
            fs::remove_file(path).unwrap();
        }
    }
    here.said(0, &["sync", "flash"]);
    mounted.child.kill().unwrap();
    mounted.child.wait().unwrap();
    umount(&here.path("flash"));
    let mounted = here.mount(&["flash.img", "flash"]);
    for n in 0..40 {
        let (path, bytes) = long(n);
        assert_eq!(path.exists(), n % 2 == 1, "{n}");
        assert!(n % 2 == 0 || fs::read(path).unwrap() == bytes, "{n}");
    }
    let why = here.complaint(1, &["sync", "."]);
    assert_eq!(why, ".: nothing is mounted there");
    mounted.signal(Signal::SIGTERM);
}

/// Where the request means that free space goes to the disk below, nothing is asked.
#[test]
fn what_is_no_mount_of_flashkit_is_not_asked_to_clean() {
    let here = Place::new();
    fs::create_dir(here.path("plain")).unwrap();
    let why = here.complaint(1, &["gc", "plain"]);
    assert_eq!(why, "plain: nothing is mounted there");
    let why = here.complaint(1, &["gc", "/proc"]);
    assert_eq!(why, "/proc: a mount of type proc, and not of flashkit");
    if !can_mount() {
        return;
    }
    // A disk, and a mount that does not show what it is, are FUSE mounts of another kind.
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    let other = here.mount(&["-o", "subtype=other", "flash.img", "flash"]);
    let why = here.complaint(1, &["gc", "flash"]);
    assert_eq!(
        why,
        "flash: a mount of type fuse.other, and not of flashkit"
    );
    other.signal(Signal::SIGTERM);
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let (none, flags) = (None::<&str>, nix::mount::MsFlags::empty());
    let plain = here.path("plain");
    nix::mount::mount(Some("none"), &plain, Some("tmpfs"), flags, none).unwrap();
    let why = here.complaint(1, &["gc", "plain"]);
    nix::mount::umount(&plain).unwrap();
    assert_eq!(why, "plain: a mount of type tmpfs, and not of flashkit");
}

#[test]
fn a_tree_survives_unmounting() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let (ours, theirs) = (here.path("flash/tree"), here.path("tree"));
    tree(&theirs);
    assert!(here.run(&["mkfs", "x.img"]).status.success());
    fs::create_dir(here.path("flash")).unwrap();

    let mounted = here.mount(&["x.img", "flash"]);
    tool("cp", &[Path::new("-a"), &theirs, &ours]);
    same(&theirs, &ours);
    umount(&here.path("flash"));
    mounted.end();
    let clean = |said: Output| {
        let text = String::from_utf8(said.stdout).unwrap();
        assert!(said.status.success(), "{text}");
        // A single line: nothing to recover.
        assert!(text.starts_with("x.img: clean"), "{text}");
    };
    clean(here.run(&["fsck", "-n", "x.img"]));

    let mounted = here.mount(&["x.img", "flash"]);
    same(&theirs, &ours);
    tool("cp", &[Path::new("-a"), &theirs, &here.path("flash/again")]);
    tool("rm", &[Path::new("-r"), &ours]);
    mounted.signal(Signal::SIGTERM);
    clean(here.run(&["fsck", "-n", "x.img"]));

    let mounted = here.mount(&["x.img", "flash"]);
    same(&theirs, &here.path("flash/again"));
    assert!(!ours.exists());
    mounted.signal(Signal::SIGINT);
    clean(here.run(&["fsck", "-n", "x.img"]));
}

/// Which names below a directory are hard links of one file: paths, in groups.
fn link_groups(at: &Path) -> Vec<Vec<PathBuf>> {
    let mut groups = BTreeMap::<u64, Vec<PathBuf>>::new();
    let mut pending = vec![at.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let meta = fs::symlink_metadata(entry.path()).unwrap();
            if meta.is_dir() {
                pending.push(entry.path());
            } else if meta.nlink() > 1 {
                let path = entry.path().strip_prefix(at).unwrap().to_owned();
                groups.entry(meta.ino()).or_default().push(path);
            }
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for (group, meta) in groups.iter_mut().map(|group| {
        let meta = fs::symlink_metadata(at.join(&group[0])).unwrap();
        (group, meta)
    }) {
        assert_eq!(meta.nlink(), group.len() as u64, "{group:?}");
        group.sort();
    }
    groups.sort();
    groups
}

/// Files with many names in several directories.
fn linked_tree(at: &Path) {
    tree(at);
    fs::create_dir_all(at.join("links/deep")).unwrap();
    fs::write(at.join("links/applets"), vec![9; 70_000]).unwrap();
    for i in 0..120 {
        let dir = if i % 3 == 0 { "links/deep" } else { "links" };
        let name = at.join(dir).join(format!("applet number {i}"));
        fs::hard_link(at.join("links/applets"), name).unwrap();
    }
    fs::hard_link(at.join("of 2048 bytes"), at.join("links/of 2048 bytes")).unwrap();
    fs::hard_link(at.join("of 0 bytes"), at.join("nothing")).unwrap();
    fs::hard_link(at.join("dangling"), at.join("links/dangling")).unwrap();
}

#[test]
fn hard_links_go_in_and_out_and_survive() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let (theirs, point) = (here.path("tree"), here.path("flash"));
    linked_tree(&theirs);
    let groups = link_groups(&theirs);
    assert_eq!(groups.iter().map(Vec::len).sum::<usize>(), 127);
    let alike = |ours: &Path| {
        same(&theirs, ours);
        assert_eq!(link_groups(ours), groups, "{}", ours.display());
    };
    let mounted = here.mount(&[]);
    let copies: Vec<PathBuf> = ["cp", "tar", "rsync"].map(|name| point.join(name)).into();
    tool("cp", &[Path::new("-a"), &theirs, &copies[0]]);
    fs::create_dir(&copies[1]).unwrap();
    let pipe = format!(
        "tar -C {} -cf - . | tar -C {} -xf -",
        theirs.display(),
        copies[1].display()
    );
    tool("sh", &[Path::new("-c"), Path::new(&pipe)]);
    let rsync = || {
        let from = theirs.join("");
        let mut command = Command::new("rsync");
        command.args(["-aH", "--delete", "--itemize-changes"]);
        let out = command.arg(from).arg(&copies[2]).output();
        out.inspect(|out| assert!(out.status.success(), "{out:?}"))
    };
    let has_rsync = rsync().is_ok();
    if has_rsync {
        // The second run finds nothing to do.
        assert_eq!(String::from_utf8(rsync().unwrap().stdout).unwrap(), "");
    } else {
        println!("without rsync");
        tool("cp", &[Path::new("-a"), &copies[0], &copies[2]]);
    }
    for copy in &copies {
        alike(copy);
    }
    // A tree of links, as backups make them, and the original is gone.
    let links = point.join("linked");
    tool("cp", &[Path::new("-al"), &copies[0], &links]);
    let size = |name: &str| fs::metadata(links.join(name)).unwrap().nlink();
    assert_eq!((size("links/applets"), size("of 1 bytes")), (242, 2));
    tool("rm", &[Path::new("-r"), &copies[0]]);
    alike(&links);
    umount(&point);
    mounted.end();

    let said = here.run(&["fsck", "-n", "flash.img"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.starts_with("flash.img: clean"), "{text}");
    // Out of the image, and into another, without mounting.
    let out = here.run(&["cp", "-r", "flash.img:/linked", "out"]);
    assert!(out.status.success(), "{out:?}");
    alike(&here.path("out"));
    let made = here.run(&["mkfs", "-r", "tree", "other.img"]);
    assert!(made.status.success(), "{made:?}");
    let text = String::from_utf8(made.stdout).unwrap();
    assert!(text.contains(", 123 hard links, "), "{text}");
    let mounted = here.mount(&["other.img", "flash"]);
    alike(&point);

    // The mount is killed while links come and go: what was synced is there, and all is counted.
    here.said(0, &["sync", "flash"]);
    fs::create_dir(point.join("more")).unwrap();
    for i in 0..200 {
        let name = point.join("more").join(format!("{i}"));
        fs::hard_link(point.join("links/applets"), &name).unwrap();
        if i % 3 == 0 {
            fs::remove_file(&name).unwrap();
        } else if i % 7 == 0 {
            fs::rename(point.join("of 1 bytes"), &name).unwrap();
            fs::hard_link(&name, point.join("of 1 bytes")).unwrap();
        }
    }
    let before = link_groups(&point);
    let Mounted { mut child, .. } = mounted;
    let pid = Pid::from_raw(child.id().try_into().unwrap());
    kill(pid, Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    umount(&point);
    let said = here.run(&["fsck", "-n", "other.img"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success(), "{text}");
    assert!(text.contains("recovery was simulated"), "{text}");
    let mounted = here.mount(&["other.img", "flash"]);
    // Every change of names by a link is durable when it returns.
    assert_eq!(link_groups(&point), before);
    mounted.signal(Signal::SIGTERM);
}

#[test]
fn a_killed_mount_keeps_what_was_synced() {
    if can_mount() {
        for options in [&[][..], &["-o", "nobarrier"]] {
            kill_a_mount(options);
        }
    }
}

fn kill_a_mount(options: &[&str]) {
    let here = Place::new();
    let theirs = here.path("tree");
    tree(&theirs);
    let mounted = here.mount(options);
    let point = here.path("flash");
    tool("cp", &[Path::new("-a"), &theirs, &point.join("synced")]);
    here.said(0, &["sync", "flash"]);
    tool("cp", &[Path::new("-a"), &theirs, &point.join("not")]);
    let Mounted { mut child, .. } = mounted;
    kill(
        Pid::from_raw(child.id().try_into().unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    child.wait().unwrap();
    umount(&point);

    let said = here.run(&["fsck", "-n", "flash.img"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(said.status.success(), "{text}");
    assert!(text.contains("recovery was simulated"), "{text}");
    let mounted = here.mount(&[]);
    same(&theirs, &point.join("synced"));
    mounted.signal(Signal::SIGTERM);
    let said = here.run(&["fsck", "-n", "flash.img"]);
    let text = String::from_utf8(said.stdout).unwrap();
    assert!(text.starts_with("flash.img: clean"), "{text}");
}

/// What programs do on a mount becomes a trace that does it again.
#[test]
fn a_mount_is_recorded() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let mounted = here.mount(&["--record", "day.trace"]);
    let at = here.path("flash");
    fs::create_dir(at.join("a dir")).unwrap();
    fs::write(at.join("a dir/file"), vec![7; 100_000]).unwrap();
    fs::rename(at.join("a dir/file"), at.join("moved")).unwrap();
    std::os::unix::fs::symlink("moved", at.join("link")).unwrap();
    fs::File::open(at.join("moved"))
        .unwrap()
        .sync_all()
        .unwrap();
    umount(&at);
    let said = mounted.end();
    assert!(said.contains("recorded: "), "{said}");
    assert!(
        said.contains("1 symbolic links and special files"),
        "{said}"
    );
    let trace = fs::read_to_string(here.path("day.trace")).unwrap();
    let lines: Vec<&str> = trace
        .lines()
        .filter(|line| !line.starts_with("I "))
        .collect();
    assert_eq!(lines[0], "K a%20dir", "{trace}");
    assert!(lines.contains(&"N a%20dir/file moved"), "{trace}");
    assert!(lines.contains(&"S moved"), "{trace}");
    let out = here.run(&["replay", "--verify", "--json", "day.trace"]);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    // The kernel may hand a page over twice.
    let bytes = report["total"]["user_bytes"].as_u64().unwrap();
    assert!((100_000..150_000).contains(&bytes), "{bytes}: {trace}");
    // Nowhere to write: nothing is mounted.
    let out = here.run(&["mount", "--record", "no/such/place", "flash.img", "flash"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(!here.is_mounted("flash"));
    // A full disk costs the trace, not the files, and is told.
    let mut mounted = here.mount(&["--record", "/dev/full", "flash.img", "flash"]);
    fs::write(at.join("more"), "more").unwrap();
    umount(&at);
    let said = mounted.complaints();
    assert!(
        said.contains("/dev/full: No space left on device"),
        "{said}"
    );
    assert_eq!(here.run(&["cat", "flash.img:/more"]).stdout, b"more");
}

/// Stands in the inode of a small file, and nowhere else.
const MARK: &[u8] = b"a text to be found in the image";

/// A mount that meets a damaged inode: the call fails, what is sound can still be read, nothing can
/// be changed, and one line says why. With `errors=continue` only what is damaged fails.
#[test]
fn a_mount_that_meets_damage_is_read_only_from_then_on() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let at = |name: &str| here.path("flash").join(name);
    let errno = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    fs::create_dir(here.path("flash")).unwrap();
    let mounted = here.mount(&["flash.img", "flash"]);
    fs::create_dir(at("dir")).unwrap();
    fs::write(at("dir/victim"), MARK).unwrap();
    fs::write(at("sound"), "sound").unwrap();
    umount(&here.path("flash"));
    mounted.end();
    let mut bytes = fs::read(here.path("flash.img")).unwrap();
    let places: Vec<usize> = (0..bytes.len() - MARK.len())
        .filter(|&at| bytes[at] == MARK[0] && bytes[at..].starts_with(MARK))
        .collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place] ^= 1;
    }
    fs::write(here.path("flash.img"), &bytes).unwrap();

    for (option, falls) in [
        ("errors=remount-ro", true),
        ("noatime", true),
        ("errors=continue", false),
    ] {
        let mut mounted = here.mount(&["-o", option, "flash.img", "flash"]);
        fs::write(at("before"), option).unwrap();
        for _ in 0..2 {
            assert_eq!(
                errno(fs::read(at("dir/victim")).map(|_| ())),
                Some(5),
                "{option}: EIO"
            );
        }
        let after = fs::write(at("after"), option);
        if falls {
            assert_eq!(errno(after), Some(30), "{option}: EROFS");
            assert_eq!(
                errno(fs::remove_file(at("sound"))),
                Some(30),
                "{option}: EROFS"
            );
        } else {
            after.unwrap();
        }
        assert_eq!(fs::read(at("sound")).unwrap(), b"sound");
        assert_eq!(fs::read(at("before")).unwrap(), option.as_bytes());
        umount(&here.path("flash"));
        let said = mounted.complaints();
        let lines: Vec<&str> = said.lines().collect();
        let told = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        assert_eq!(told("I/O error: damaged"), 1, "{option}: {said}");
        let line = "; the mount is read-only from now on, see `flashkit fsck`";
        assert_eq!(told(line), usize::from(falls), "{option}: {said}");
        mounted.end_with(1);
        // What was written before is there, and the damage as well.
        assert_eq!(
            here.run(&["cat", "flash.img:/before"]).stdout,
            option.as_bytes()
        );
        assert_eq!(here.run(&["fsck", "flash.img"]).status.code(), Some(4));
    }

    assert_eq!(
        here.run(&["fsck", "-y", "flash.img"]).status.code(),
        Some(1)
    );
    let mounted = here.mount(&["flash.img", "flash"]);
    assert_eq!(
        errno(fs::read(at("dir/victim")).map(|_| ())),
        Some(2),
        "ENOENT"
    );
    fs::write(at("dir/victim"), "again").unwrap();
    umount(&here.path("flash"));
    mounted.end();
    here.said(0, &["fsck", "flash.img"]);
}

/// The page cache takes what the volume has no room for; a replay that
/// fills it notices, and goes on.
#[test]
fn a_replay_fills_a_mount() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let made = here.run(&["mkfs", "--chip", "micron-20m", "flash.img"]);
    assert!(made.status.success());
    let lines =
        "F dirt 1000000000000\nM fill\nD dirt\nM delete\nC file 12582912\nR file 0 12582912\n";
    fs::write(here.path("full.trace"), lines).unwrap();
    fs::create_dir(here.path("flash")).unwrap();
    let mounted = here.mount(&["flash.img", "flash"]);
    let out = here.run(&[
        "replay",
        "--verify",
        "--json",
        "--dir",
        "flash",
        "full.trace",
    ]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{text}");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let filled = report["phases"][0]["user_bytes"].as_u64().unwrap();
    assert!((13 << 20..20 << 20).contains(&filled), "{filled} of 20 MiB");
    // Of the last request that which there was room for is written.
    assert_eq!(filled % 2048, 0);
    mounted.signal(Signal::SIGTERM);
    assert!(here.run(&["fsck", "flash.img"]).status.success());
}

/// Who has an image, and where it is mounted, is said to whoever asks for it meanwhile.
#[test]
fn an_image_in_use_is_told_with_its_user() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    fs::create_dir(here.path("flash")).unwrap();
    let mounted = here.mount(&["flash.img", "flash"]);
    let point = here.path("flash").canonicalize().unwrap();
    for (status, args) in [
        (1, &["ls", "flash.img"][..]),
        (1, &["mkfs", "--force", "--chip", "micron-20m", "flash.img"]),
        (8, &["fsck", "flash.img"]),
    ] {
        let why = here.complaint(status, args);
        for part in [
            "flash.img: ".to_owned(),
            format!("in use by process {}, `", mounted.child.id()),
            " mount flash.img flash`".to_owned(),
            format!(", mounted on {}", point.display()),
        ] {
            assert!(why.contains(&part), "{why}");
        }
    }
    mounted.signal(Signal::SIGTERM);
}

/// What a mount had to say is shown by `info` afterwards, until the next one begins.
#[test]
fn what_a_mount_had_to_say_is_kept() {
    if !can_mount() || !nix::unistd::geteuid().is_root() {
        skipped("the place for it is the user's, where there is one");
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    fs::write(here.path("f"), vec![7; 20_000]).unwrap();
    here.said(0, &["cp", "f", "flash.img:/f"]);
    let told = || {
        let info = here.json(0, &["info", "--json", "flash.img"]);
        info["last_mount"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(told(), 0);
    // A page of the file is lost.
    let mut chip = SimNand::open(here.path("flash.img"), Access::ReadWrite).unwrap();
    let mut page = vec![0; chip.geometry().page_size() as usize];
    let mut pages = (0..chip.geometry().pages()).map(PageAddr);
    let lost = pages.find(|at| {
        chip.read(*at, 0, &mut page, &mut []).unwrap();
        page.iter().all(|byte| *byte == 7)
    });
    assert!(chip.rot(lost.unwrap(), Rot::Lost).unwrap());
    drop(chip);
    fs::create_dir(here.path("flash")).unwrap();
    for (reads, lines) in [(true, 1), (false, 0)] {
        let mut mounted = here.mount(&["flash.img", "flash"]);
        assert!(!reads || fs::read(here.path("flash/f")).is_err());
        let pid = Pid::from_raw(mounted.child.id().try_into().unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        assert_eq!(mounted.complaints().lines().count(), lines);
        mounted.end_with(i32::from(reads));
        assert_eq!(told(), lines);
    }
}

/// A trace or a log that is written while a command runs takes no image's place, in use or not.
#[test]
fn no_trace_is_written_over_what_is_there() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    here.said(0, &["mkfs", "--chip", "micron-20m", "other.img"]);
    fs::create_dir(here.path("flash")).unwrap();
    let before = fs::read(here.path("other.img")).unwrap();
    for (over, why) in [("other.img", "exists"), ("flash.img", "is in use")] {
        let out = here.run(&["mount", "--record", over, "flash.img", "flash"]);
        let said = complaint(&out, 1);
        assert!(said.contains(over) && said.contains(why), "{said}");
    }
    assert!(fs::read(here.path("other.img")).unwrap() == before);
    here.said(0, &["fsck", "flash.img"]);
}
