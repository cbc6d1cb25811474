//! What the host does meanwhile: it interrupts, does not read on, and has names of any bytes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use nix::mount::mount;

use crate::common::{Place, can_mount, umount};

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
