//! What the host does meanwhile: it interrupts, does not read on, and has names of any bytes.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Place, can_mount, skipped, umount};

/// Else a part of a file stands under its name, with the time of the whole.
#[test]
fn of_a_copy_that_is_interrupted_no_part_of_a_file_stays_in_the_image() {
    let here = Place::new();
    let bytes: Vec<u8> = (0..25u32 << 20).flat_map(u32::to_le_bytes).collect();
    fs::write(here.path("large"), bytes).unwrap();
    fs::write(here.path("small"), "old").unwrap();
    here.said(0, &["mkfs", "x.img"]);
    let stored = || fs::metadata(here.path("x.img")).unwrap().blocks();
    for (signal, held) in [(Signal::SIGINT, ""), (Signal::SIGTERM, "old")] {
        if !held.is_empty() {
            here.said(0, &["cp", "small", "x.img:/large"]);
        }
        let before = stored();
        let mut child = here
            .command(&["cp", "large", "x.img:/"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        while stored() < before + (8 << 11) {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(128 + signal as i32), "too fast?");
        let names = here.said(0, &["ls", "x.img"]);
        assert_eq!(names, if held.is_empty() { "" } else { "large\n" });
        if !held.is_empty() {
            assert_eq!(here.said(0, &["cat", "x.img:/large"]), held);
        }
        assert!(here.said(0, &["fsck", "x.img"]).contains("x.img: clean"));
    }
}

/// Who looks at the first line alone gets no error for what ended in good order.
#[test]
fn mounts_end_well_though_nobody_reads_what_they_say() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    let disk = ["attach", "--ftl", "page", "--chip", "micron-20m", "d.img"];
    for args in [&["mount", "x.img"][..], &disk] {
        let mut child = here
            .command(&[args, &["point"]].concat())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("Ctrl-C or ") {
            assert!(out.read_line(&mut said).unwrap() > 0, "{said}");
        }
        drop(out);
        umount(&here.path("point"));
        assert_eq!(child.wait().unwrap().code(), Some(0), "{args:?}");
    }
}

/// One mount point whose name is not UTF-8 must not hide that and all others from `sync` and
/// `umount`.
#[test]
fn mount_points_of_any_name_are_found() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let points = [OsStr::from_bytes(b"\xff b"), OsStr::new("plain")];
    let run = |args: &[&str], point: &OsStr| {
        let out = here.command(args).arg(point).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), &*said), (Some(0), ""), "{args:?}");
    };
    for (image, point) in ["0.img", "1.img"].into_iter().zip(points) {
        here.said(0, &["mkfs", "--chip", "micron-20m", image]);
        run(&["mount", "--daemon", image], point);
    }
    for point in points.into_iter().rev() {
        fs::write(here.dir.path().join(point).join("f"), "x").unwrap();
        let mut again = here.command(&["mount", "0.img"]);
        let refused = again.arg(point).output().unwrap().stderr;
        assert!(String::from_utf8_lossy(&refused).contains("mounted there already"));
        run(&["sync"], point);
        run(&["umount"], point);
    }
}

#[test]
fn a_tree_goes_into_the_directory_that_a_link_leads_to() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    fs::write(here.path("f"), "x").unwrap();
    here.said(0, &["cp", "f", "x.img:/"]);
    fs::create_dir(here.path("dir")).unwrap();
    symlink("dir", here.path("link")).unwrap();
    here.said(0, &["cp", "-r", "x.img:/", "link"]);
    assert_eq!(fs::read(here.path("dir/f")).unwrap(), b"x");
}

/// Else who looks for the trace does not hear that the volume was not unmounted.
#[test]
fn a_trace_that_ends_hides_no_failure_of_the_mount() {
    if !can_mount() || !nix::unistd::geteuid().is_root() {
        skipped("root alone mounts a tmpfs");
        return;
    }
    let here = Place::new();
    let small = here.path("small");
    fs::create_dir(&small).unwrap();
    let tmpfs = Some("tmpfs");
    mount(tmpfs, &small, tmpfs, MsFlags::empty(), Some("size=4m")).unwrap();
    here.said(0, &["mkfs", "--chip", "micron-20m", "small/x.img"]);
    let args = ["--record", "/dev/full", "small/x.img", "point"];
    let mut mounted = here.mount(&args);
    let bytes: Vec<u8> = (0..1u32 << 18).flat_map(u32::to_le_bytes).collect();
    for n in 0..8 {
        let _ = fs::write(here.path("point").join(n.to_string()), &bytes);
    }
    kill(Pid::from_raw(mounted.child.id() as i32), Signal::SIGTERM).unwrap();
    let complaints = mounted.complaints();
    mounted.end_with(1);
    umount(&small);
    for part in ["; the trace ends after", "flashkit: unmount: "] {
        assert!(complaints.contains(part), "{complaints}");
    }
}
