//! Cleaning that a program asks for (paper, 4.3): `FITRIM`, on both sides of the kernel.
//!
//! On other file systems this request gives free space to the disk below. So it is sent to nothing
//! but a mount of this project: [`ask`] looks at what is mounted there, and at what it has opened.

#![allow(unsafe_code)]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flashkit_vfs::{Error, FileSystem as _};
use nix::sys::stat::{major, minor};

use crate::mountpoint::{self, At};
use crate::state::Inner;

/// Types of the mounts that can be asked, as the mount table shows them: of file systems, and of
/// disks, which clean in pauses alone.
const TYPES: [&str; 6] = [
    "fuse.flashlight",
    "fuse.nanofs",
    "fuse.page",
    "fuse.remap",
    "fuse.jftl",
    "fuse.logdisk",
];
/// Page moves between two looks at what has been won.
const SLICE_PAGES: u32 = 16;

/// `struct fstrim_range` of `linux/fs.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Range {
    start: u64,
    /// Bytes that are wanted at most; in the answer, those won.
    len: u64,
    minlen: u64,
}

const WORD: usize = size_of::<u64>();
const RANGE: usize = 3 * WORD;
/// Number of the request.
pub(crate) const FITRIM: u32 = nix::request_code_readwrite!(b'X', 121, RANGE) as u32;

nix::ioctl_readwrite!(fitrim, b'X', 121, Range);

impl Range {
    fn from_bytes(bytes: &[u8]) -> Option<Range> {
        let bytes: &[u8; RANGE] = bytes.try_into().ok()?;
        let word = |n: usize| {
            let mut word = [0; WORD];
            word.copy_from_slice(&bytes[n * WORD..(n + 1) * WORD]);
            u64::from_ne_bytes(word)
        };
        Some(Range {
            start: word(0),
            len: word(1),
            minlen: word(2),
        })
    }

    fn to_bytes(self) -> [u8; RANGE] {
        let mut bytes = [0; RANGE];
        for (to, n) in bytes
            .chunks_exact_mut(WORD)
            .zip([self.start, self.len, self.minlen])
        {
            to.copy_from_slice(&n.to_ne_bytes());
        }
        bytes
    }
}

/// Whether a user may ask: cleaning wears the chip, and others wait for it.
pub(crate) fn may_ask(uid: u32) -> bool {
    uid == 0 || fs::metadata("/proc/self").is_ok_and(|own| own.uid() == uid)
}

/// Cleans until as much is won as the request wants, or nothing more can be; the answer. Where it
/// starts and what counts as little mean nothing here: blocks are won wherever they are.
pub(crate) fn serve(inner: &mut Inner, request: &[u8]) -> Result<[u8; RANGE], Error> {
    let range = Range::from_bytes(request).ok_or(Error::Invalid)?;
    let fs = inner.fs()?;
    let before = fs.bytes_clean().ok_or(Error::Unsupported)?;
    let mut won = 0;
    while won < range.len {
        let more = fs.gc(SLICE_PAGES)?;
        won = fs.bytes_clean().unwrap_or(before).saturating_sub(before);
        if !more {
            break;
        }
    }
    Ok(Range { len: won, ..range }.to_bytes())
}

/// Asks the mount at a point to clean, until so many bytes are won or nothing more can be; how many
/// were. For root and the user that mounted it. It costs the moves of what is valid in the blocks
/// that are emptied, at most half of each, and checkpoints.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] where no mount of this project is at exactly this point: nothing
/// was asked. `EROFS` of a mount that cannot be written to, `EPERM` of one of another user,
/// `EOPNOTSUPP` where the file system cleans in idle time alone; and what cleaning meets.
pub fn ask(point: &Path, bytes: u64) -> io::Result<u64> {
    let opened = opened(point)?;
    let mut range = Range {
        len: bytes,
        ..Range::default()
    };
    // SAFETY: the descriptor is open, and the request reads and writes one `fstrim_range`.
    unsafe { fitrim(opened.as_raw_fd(), &raw mut range) }?;
    Ok(range.len)
}

/// A mount of this project, opened by its point.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`]: there is none at exactly this point.
pub(crate) fn opened(point: &Path) -> io::Result<File> {
    let refuse = |why: String| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    let full = point.canonicalize()?;
    let Some(At { kind, device }) = mountpoint::mounted_at(&full) else {
        return refuse("nothing is mounted there".into());
    };
    if !TYPES.contains(&&*kind) {
        return refuse(format!("a mount of type {kind}, and not of flashkit"));
    }
    let opened = File::open(&full)?;
    // Something else may have been mounted there since.
    let is_it = |found: &Metadata| (major(found.dev()), minor(found.dev())) == device;
    let is_fuse = nix::sys::statfs::fstatfs(&opened)?.filesystem_type();
    if is_fuse != nix::sys::statfs::FUSE_SUPER_MAGIC || !is_it(&opened.metadata()?) {
        return refuse("not the file system that is mounted there".into());
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::gather::Gathered;
    use std::sync::mpsc::channel;

    use flashkit_flashlight::{Config, New};
    use flashkit_vfs::any::{self, AnyNand};
    use flashkit_vfs::{NewInode, Time};

    use crate::state::{Effect, Shared};

    #[test]
    fn the_request_is_the_kernels() {
        assert_eq!(FITRIM, 0xc018_5879);
        assert_eq!(size_of::<Range>(), RANGE);
        let range = Range {
            start: 1,
            len: u64::MAX,
            minlen: 3 << 40,
        };
        assert_eq!(Range::from_bytes(&range.to_bytes()), Some(range));
        assert_eq!(Range::from_bytes(&[0; RANGE - 1]), None);
    }

    /// A chip of which each block that holds something is a third full.
    fn half_empty() -> Box<crate::Served> {
        let spec = flashkit_sim::preset("micron-20m").unwrap();
        let chip = flashkit_sim::SimNand::new(spec);
        let ram = Box::leak(vec![0; 1 << 16].into_boxed_slice());
        let (root, config) = (New::default(), Config::default());
        let chip = any::format(AnyNand::new(chip), ram, 1, &root, config).unwrap();
        let mut fs = any::mount(chip, ram, config).unwrap();
        let (root, now) = (fs.root(), Time::default());
        let name = |n: u32| n.to_string().into_bytes();
        for n in 0..600 {
            let made = fs.create(root, &name(n), &NewInode::default()).unwrap();
            fs.write(made.ino, 0, &[n as u8; 6_000], now).unwrap();
            fs.fsync(made.ino).unwrap();
        }
        for n in (0..600).filter(|n| n % 3 != 0) {
            fs.unlink(root, &name(n), now).unwrap();
        }
        fs.sync().unwrap();
        Box::new(fs)
    }

    #[test]
    fn as_much_is_won_as_is_wanted_and_not_more_than_there_is() {
        const BLOCK: u64 = 128 << 10;
        let ask = |shared: &Shared, len| {
            let request = Range {
                len,
                ..Range::default()
            };
            let won = shared.serve(Effect::Changes, |inner| serve(inner, &request.to_bytes()));
            won.map(|answer| Range::from_bytes(&answer).unwrap().len)
        };
        let of = |fs| Shared::new(Gathered::through(fs), channel().0, &MountOptions::default());
        let shared = of(half_empty());
        let clean = || shared.serve(Effect::Reads, |inner| Ok(inner.fs()?.bytes_clean()));
        let before = clean().unwrap().unwrap();
        assert_eq!(ask(&shared, 0), Ok(0));
        let first = ask(&shared, 3 * BLOCK).unwrap();
        assert!((3 * BLOCK..8 * BLOCK).contains(&first), "{first}");
        // 600 files of 3 pages are 28 blocks, of which two in three can be won.
        let rest = ask(&shared, u64::MAX).unwrap();
        assert!(first + rest >= 14 * BLOCK, "{first} and {rest}");
        assert_eq!(clean().unwrap(), Some(before + first + rest));
        assert_eq!(ask(&shared, u64::MAX), Ok(0));
        let root = shared.serve(Effect::Reads, |inner| Ok(inner.fs()?.root()));
        for n in (0..600).step_by(3) {
            let read = shared.serve(Effect::Reads, |inner| {
                let fs = inner.fs()?;
                let ino = fs.lookup(root.unwrap(), n.to_string().as_bytes())?.ino;
                let mut data = vec![0; 6_000];
                fs.read(ino, 0, &mut data).map(|len| (len, data))
            });
            assert_eq!(read, Ok((6_000, vec![n as u8; 6_000])));
        }
        let short = shared.serve(Effect::Changes, |inner| serve(inner, &[0; RANGE - 8]));
        assert_eq!(short, Err(fuser::Errno::EINVAL));
        // One that has nothing to clean says so.
        let memory = of(Box::new(flashkit_vfs::MemoryFs::new()));
        assert_eq!(ask(&memory, 1), Err(fuser::Errno::EOPNOTSUPP));
    }

    #[test]
    fn what_is_no_mount_of_flashkit_is_asked_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for (point, why) in [
            (dir.path(), "nothing is mounted there"),
            (Path::new("/proc"), "of type proc, and not of flashkit"),
        ] {
            let refused = ask(point, u64::MAX).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
            assert!(refused.to_string().contains(why), "{refused}");
        }
        assert!(ask(&dir.path().join("none"), 1).is_err());
    }
}
