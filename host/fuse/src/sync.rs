//! Making everything durable when a program asks for it, on both sides of the kernel.
//!
//! Linux hands neither `sync(2)` nor `syncfs(2)` to a FUSE file system that has no block device of
//! its own. So there is a request for it.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::gc;

/// Letter and number of the request: no file system of Linux has these.
const LETTER: u8 = b'k';
const NUMBER: u8 = 0xf1;
/// The request as a whole. It has no data.
pub(crate) const SYNC: u32 = nix::request_code_none!(LETTER, NUMBER) as u32;

nix::ioctl_none!(sync, LETTER, NUMBER);

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
