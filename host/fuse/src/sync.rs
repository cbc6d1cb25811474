//! Making everything durable when a program asks for it, and unmounting: both sides of the kernel.
//!
//! Linux hands neither `sync(2)` nor `syncfs(2)` to a FUSE file system that has no block device of
//! its own, and `umount(2)` returns before such a one has written what it holds. So there is a
//! request for the first, and one that says for whose end who unmounts has to wait.

#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::stat::{major, minor};

use crate::gc;

/// Letter and numbers of the requests: no file system of Linux has these.
const LETTER: u8 = b'k';
const NUMBER: u8 = 0xf1;
const NUMBER_SERVER: u8 = 0xf2;
/// The requests as a whole. The first has no data, the answer to the second is a process.
pub(crate) const SYNC: u32 = nix::request_code_none!(LETTER, NUMBER) as u32;
pub(crate) const SERVER: u32 =
    nix::request_code_read!(LETTER, NUMBER_SERVER, size_of::<u32>()) as u32;

nix::ioctl_none!(sync, LETTER, NUMBER);
nix::ioctl_read!(server, LETTER, NUMBER_SERVER, u32);

/// So long nothing is said of a server that goes on.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks whether the server has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// Asks the mount at a point to make everything durable that was written to it.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] where no mount of this project is at exactly this point: nothing
/// was asked. And what the file system meets, as an `fsync` would say it.
pub fn ask(point: &Path) -> io::Result<()> {
    let opened = gc::opened(point)?;
    // SAFETY: the descriptor is open, and the request has no data.
    unsafe { sync(opened.as_raw_fd()) }?;
    Ok(())
}

/// Why an unmount does not return yet.
pub struct Waiting {
    /// The process that serves the mount. SIGTERM ends it in order, and whatever still uses it.
    pub server: u32,
    /// One that has the mount in a namespace of its own, as far as this user can see.
    pub holder: Option<u32>,
}

/// Makes everything durable that was written to the mount at a point, unmounts it, and waits until
/// the process that served it has ended, where that is another: then its image is closed. `told` is
/// called once if that takes longer than two seconds, and it takes as long as another mount
/// namespace has the mount too.
///
/// # Errors
/// As [`ask`]; it is mounted as before then. `EBUSY` of one that is in use, which is durable and
/// mounted; `EPERM` where neither this user nor `fusermount3` may unmount it.
pub fn unmount(point: &Path, told: &mut dyn FnMut(&Waiting)) -> io::Result<()> {
    let opened = gc::opened(point)?;
    let mut pid = 0;
    // SAFETY: the descriptor is open, and the request writes one `u32`.
    unsafe { server(opened.as_raw_fd(), &raw mut pid) }?;
    let begun = started(pid);
    // SAFETY: the descriptor is open, and the request has no data.
    unsafe { sync(opened.as_raw_fd()) }?;
    let device = opened.metadata()?.dev();
    drop(opened);
    let full = point.canonicalize()?;
    match umount2(&full, MntFlags::UMOUNT_NOFOLLOW) {
        Err(Errno::EPERM) => unmount_as_user(&full)?,
        done => done?,
    }
    let mut said = false;
    let waited = Instant::now();
    while pid != std::process::id() && begun.is_some() && started(pid) == begun {
        std::thread::sleep(PAUSE);
        if !said && waited.elapsed() > PATIENCE {
            said = true;
            let (server, holder) = (pid, holder(device));
            told(&Waiting { server, holder });
        }
    }
    Ok(())
}

/// A process in whose mount namespace this device is.
fn holder(device: u64) -> Option<u32> {
    let device = format!("{}:{}", major(device), minor(device));
    let has_it = |pid: &u32| {
        let mounts = fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let mounts = String::from_utf8_lossy(&mounts);
        let mut devices = mounts.lines().filter_map(|line| line.split(' ').nth(2));
        devices.any(|of| of == device)
    };
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(has_it)
}

/// Has the program unmount that may do so for users.
fn unmount_as_user(point: &Path) -> io::Result<()> {
    let mut helper = Command::new("fusermount3");
    let helper = helper.arg("-u").arg(point).stdin(Stdio::null());
    let done = helper.output().map_err(|_| Errno::EPERM)?;
    let said = String::from_utf8_lossy(&done.stderr);
    match done.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(Errno::EBUSY.into()),
        false => Err(Errno::EPERM.into()),
    }
}

/// When a process began, in ticks since the machine did; `None` of one that has ended.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // Its name may hold anything; what follows the last bracket does not.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let begun = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(begun)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_one_that_has_ended() {
        let begun = started(std::process::id());
        assert!(begun.is_some_and(|ticks| ticks > 0));
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        // It has ended, and nobody has asked how.
        while started(pid).is_some() {
            std::thread::sleep(PAUSE);
        }
        assert!(Path::new(&format!("/proc/{pid}")).exists());
        child.wait().unwrap();
        assert_eq!(started(pid), None);
    }
}
