//! What a mount of an image asks of the disk below it.

use std::fs::{self, File};
use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::Mounted;
use flashkit_flashlight::{Config, New, ram_needed};
use flashkit_fuse::{MountOptions, Served};
use flashkit_nand::Nand;
use flashkit_sim::{Access, SimNand, TestHost, preset};
use flashkit_vfs::any::{self, AnyNand};

/// FlashLight in an image, on a host that counts.
fn mounted(barrier: bool, list: &str) -> Option<(Mounted, TestHost, tempfile::TempDir)> {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("x.img");
    let chip = SimNand::create(&image, preset("micron-20m").unwrap()).unwrap();
    let ram = vec![0; ram_needed(&chip.geometry())].leak();
    let (root, config) = (New::default(), Config::default());
    drop(any::format(AnyNand::new(chip), ram, 1, &root, config).unwrap());
    let host = TestHost::default();
    let mut chip = SimNand::open_on(&image, Access::ReadWrite, Some(&host)).unwrap();
    chip.set_barrier(barrier);
    let fs = any::mount(AnyNand::new(chip), ram, Config::default()).unwrap();
    let mut options = MountOptions::default();
    options.set(list).unwrap();
    let fs: Box<Served> = Box::new(fs);
    Some((Mounted::over(fs, &options)?, host, dir))
}

/// Each way to ask for it; a host that waits for its disk, and one that does not before the end.
#[test]
fn what_is_answered_for_is_on_the_hosts_disk() {
    for barrier in [true, false] {
        let Some((m, host, _dir)) = mounted(barrier, "commit=0") else {
            return;
        };
        let syncs = || host.counts().1;
        let before = syncs();
        let mut file = File::create(m.path("f")).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(syncs(), before, "nobody asked");
        let mut before = before;
        let mut asked = |what: &str| {
            let now = syncs();
            assert_eq!(now > before, barrier, "{what}");
            before = now;
        };
        file.sync_all().unwrap();
        asked("fsync");
        file.write_all(b"y").unwrap();
        file.sync_data().unwrap();
        asked("fdatasync");
        fs::rename(m.path("f"), m.path("g")).unwrap();
        File::open(m.path(".")).unwrap().sync_all().unwrap();
        asked("fsync of a directory");
        let now = host.counts();
        file.sync_all().unwrap();
        assert_eq!(host.counts(), now, "nothing has changed");
        drop(file);
        fs::write(m.path("h"), b"z").unwrap();
        let (ended, _) = m.unmount();
        asked("unmount");
        drop(ended);
        assert!(host.counts().1 > now.1, "the end");
    }
}

#[test]
fn a_synchronous_mount_waits_for_the_hosts_disk() {
    let Some((m, host, _dir)) = mounted(true, "sync,commit=0") else {
        return;
    };
    for n in 0..4 {
        let before = host.counts().1;
        fs::write(m.path(&format!("f{n}")), b"x").unwrap();
        assert!(host.counts().1 > before, "file {n}");
    }
    m.unmount();
}

#[test]
fn commits_reach_the_hosts_disk() {
    let Some((m, host, _dir)) = mounted(true, "commit=0.2") else {
        return;
    };
    let before = host.counts().1;
    fs::write(m.path("f"), b"x").unwrap();
    let start = Instant::now();
    while host.counts().1 == before {
        assert!(start.elapsed() < Duration::from_secs(10));
        sleep(Duration::from_millis(20));
    }
    m.unmount();
}
