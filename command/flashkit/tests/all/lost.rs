//! Mounts that lose what they stand on: the host's disk is full, or the process was killed.

use std::fs;
use std::process::Command;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::common::{Place, can_mount, complaint, skipped, umount};

#[test]
fn a_full_disk_of_the_host_is_an_error_of_the_medium() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    fs::create_dir(here.path("host")).unwrap();
    let size = Some("size=3m");
    let made = mount(
        Some("tmpfs"),
        &here.path("host"),
        Some("tmpfs"),
        MsFlags::empty(),
        size,
    );
    if made.is_err() {
        println!("skipped: no small file system to fill");
        return;
    }
    here.said(0, &["mkfs", "--chip", "micron-20m", "host/x.img"]);
    let mut mounted = here.mount(&["host/x.img", "flash"]);
    let file = |i: u32| here.path("flash").join(i.to_string());
    let store = |i| {
        fs::write(file(i), vec![i as u8; 200_000])
            .and_then(|()| fs::File::open(file(i))?.sync_all())
    };
    let failed = (0..50).find_map(|i| store(i).err().map(|error| (i, error)));
    let (first, error) = failed.expect("3 MiB are full");
    for error in [
        error,
        store(first + 1).unwrap_err(),
        store(first + 2).unwrap_err(),
    ] {
        let errno = error.raw_os_error().map(Errno::from_raw);
        assert!(matches!(errno, Some(Errno::EIO | Errno::ENOSPC)), "{error}");
    }
    assert_eq!(fs::read(file(0)).unwrap().len(), 200_000);
    umount(&here.path("flash"));
    let said = mounted.complaints();
    assert!(said.contains("No space left on device"), "{said}");
    assert!(said.contains("can only be read from now on"), "{said}");
    mounted.end_with(1);
    umount(&here.path("host"));
}

#[test]
fn a_mount_whose_server_was_killed_is_told() {
    if !can_mount() || Command::new("umount").arg("-V").output().is_err() {
        return skipped("no umount");
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    let mut mounted = here.mount(&["--record", "t.trace.gz", "x.img", "flash"]);
    fs::write(here.path("flash/file"), "text").unwrap();
    // The kernel keeps the attributes of the directory for a while.
    fs::metadata(here.path("flash")).unwrap();
    kill(
        Pid::from_raw(mounted.child.id().try_into().unwrap()),
        Signal::SIGKILL,
    )
    .unwrap();
    mounted.child.wait().unwrap();
    for command in [
        &["mount", "x.img", "flash"][..],
        &["attach", "--ftl", "jftl", "j.img", "flash"],
    ] {
        let said = complaint(&here.run(command), 1);
        assert_eq!(
            said,
            "flash: a dead mount is still there; `umount` removes it"
        );
    }
    umount(&here.path("flash"));
    let again = here.mount(&["x.img", "flash"]);
    umount(&here.path("flash"));
    again.end();
}
