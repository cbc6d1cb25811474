//! Unmounting that waits.

use std::fs;
use std::process::Command;

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
