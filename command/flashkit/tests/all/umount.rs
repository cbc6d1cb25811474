//! Unmounting that waits.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use crate::common::{Place, can_mount};

/// umount(2) does not wait: this does, and what is in use stays as it is.
#[test]
fn an_unmount_returns_when_all_is_durable_and_the_server_has_ended() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "flash.img"]);
    let mut mounted = here.mount(&["-o", "commit=0", "flash.img", "flash"]);
    let large = vec![7; 4 << 20];
    fs::write(here.path("flash/large"), &large).unwrap();
    let open = fs::File::open(here.path("flash/large")).unwrap();
    let why = here.complaint(1, &["umount", "flash"]);
    assert_eq!(why, "flash: in use: it is durable, and mounted as before");
    assert!(here.is_mounted("flash"));
    drop(open);
    here.said(0, &["umount", "flash"]);
    assert!(!here.is_mounted("flash"));
    let ended = mounted.child.try_wait().unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    let why = here.complaint(1, &["umount", "flash"]);
    assert_eq!(why, "flash: nothing is mounted there");

    let helper = here.path("umount.fuse.flashlight");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_flashkit"), &helper).unwrap();
    let help = |args: &[&str]| {
        let mut command = Command::new(&helper);
        let out = command.args(args).current_dir(here.dir.path()).output();
        let out = out.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout) + &text(out.stderr))
    };
    let mut mounted = here.mount(&["-o", "commit=0", "flash.img", "flash"]);
    assert_eq!(fs::read(here.path("flash/large")).unwrap(), large);
    fs::write(here.path("flash/more"), &large).unwrap();
    let done = help(&["flash", "-n", "-v", "-t", "fuse.flashlight"]);
    assert_eq!(done, (Some(0), "flash unmounted\n".into()));
    assert!(mounted.child.try_wait().unwrap().is_some());
    // One that nobody serves any more.
    let mut mounted = here.mount(&["flash.img", "flash"]);
    assert_eq!(fs::read(here.path("flash/more")).unwrap(), large);
    mounted.child.kill().unwrap();
    mounted.child.wait().unwrap();
    assert_eq!(help(&["flash"]), (Some(0), String::new()));
    assert!(!here.is_mounted("flash"));
}

/// Else nobody knows when the image of a disk is closed, and may be copied.
#[test]
fn a_disk_is_synced_and_unmounted_as_a_file_system_is() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    let args = ["attach", "--ftl", "page", "--chip", "micron-20m", "x", "d"];
    let mut attached = here.start(&args, "ends it");
    let disk = fs::OpenOptions::new().write(true).open(here.path("d/disk"));
    disk.unwrap().write_all_at(&[7; 4096], 8192).unwrap();
    here.said(0, &["sync", "d"]);
    let why = here.complaint(1, &["gc", "d"]);
    assert_eq!(why, "d: Operation not supported");
    here.said(0, &["umount", "d"]);
    assert!(attached.child.try_wait().unwrap().is_some());
    assert!(attached.end().contains("session: 2 sectors written"));
}

/// Gives up all mounts of FUSE but one, which others unmount meanwhile, and goes on.
const KEEP_ONE: &str = r#"
    awk -v keep="$0" '/ - fuse[.]/ && $5 != keep { print $5 }' /proc/self/mountinfo |
        while read -r point; do umount -l "$(printf %b "$point")"; done 2>/dev/null
    exec sleep 60"#;

/// A container has a copy of the mount: the image stays in use. Whoever unmounts is told which
/// process that is, and how to end it; it waited without a word. Nothing that was written is lost.
#[test]
fn an_unmount_says_who_else_has_the_mount() {
    if !can_mount()
        || Command::new("unshare")
            .args(["-m", "true"])
            .output()
            .is_err()
    {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "flash.img"]);
    let mounted = here.mount(&["-o", "commit=0", "flash.img", "flash"]);
    let server = mounted.child.id();
    fs::write(here.path("flash/file"), "bytes").unwrap();
    let mut copy = Command::new("unshare");
    let copy = copy.args(["-m", "sh", "-c", KEEP_ONE]);
    let mut copy = copy.arg(here.path("flash")).spawn().unwrap();
    while fs::read_link(format!("/proc/{}/ns/mnt", copy.id())).unwrap()
        == fs::read_link("/proc/self/ns/mnt").unwrap()
    {
        std::thread::yield_now();
    }
    let mut unmount = Command::new(env!("CARGO_BIN_EXE_flashkit"));
    let unmount = unmount
        .args(["umount", "flash"])
        .current_dir(here.dir.path());
    let mut unmount = unmount.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut from = BufReader::new(unmount.stderr.take().unwrap());
    from.read_line(&mut said).unwrap();
    let holder = format!("process {} has it", copy.id());
    let remedy = format!("`kill {server}`");
    assert!(said.contains(&holder) && said.contains(&remedy), "{said}");
    assert!(!here.is_mounted("flash") && unmount.try_wait().unwrap().is_none());
    let ended = Command::new("kill").arg(server.to_string()).status();
    assert!(ended.unwrap().success());
    assert!(unmount.wait().unwrap().success());
    copy.kill().unwrap();
    copy.wait().unwrap();
    assert_eq!(here.said(0, &["cat", "flash.img:/file"]), "bytes");
}
