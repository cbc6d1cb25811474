//! Between the kernel's numbers, times and attributes and ours.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flashkit_vfs::{Attr, FileKind, Ino, Time};
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};

/// Swaps the file system's root number with 1, which is the root to the kernel. Its own inverse,
/// so that a file system may use 1 for something else.
#[derive(Clone, Copy)]
pub(crate) struct InoMap {
    root: Ino,
}

impl InoMap {
    pub(crate) fn new(root: Ino) -> InoMap {
        InoMap { root }
    }

    fn swap(self, ino: u64) -> u64 {
        if ino == INodeNo::ROOT.0 {
            self.root
        } else if ino == self.root {
            INodeNo::ROOT.0
        } else {
            ino
        }
    }

    pub(crate) fn ours(self, ino: INodeNo) -> Ino {
        self.swap(ino.0)
    }

    pub(crate) fn kernels(self, ino: Ino) -> INodeNo {
        INodeNo(self.swap(ino))
    }

    pub(crate) fn attr(self, attr: &Attr) -> FileAttr {
        FileAttr {
            ino: self.kernels(attr.ino),
            size: attr.size,
            blocks: attr.blocks,
            atime: system_time(attr.atime),
            mtime: system_time(attr.mtime),
            ctime: system_time(attr.ctime),
            crtime: UNIX_EPOCH,
            kind: kind(attr.kind),
            perm: attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.device,
            blksize: 4096,
            flags: 0,
        }
    }
}

pub(crate) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Dir => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::Char => FileType::CharDevice,
        FileKind::Block => FileType::BlockDevice,
    }
}

/// What `mknod` asks for; `None`: nothing that can be made so.
pub(crate) fn kind_to_make(mode: u32) -> Option<FileKind> {
    match FileKind::of_mode(mode) {
        None if mode & FileKind::MODE_MASK == 0 => Some(FileKind::File),
        Some(FileKind::Dir | FileKind::Symlink) => None,
        kind => kind,
    }
}

/// A name that is looked up and not there: the kernel keeps that too.
pub(crate) fn no_entry() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

fn system_time(time: Time) -> SystemTime {
    let nanos = Duration::from_nanos(time.nanos.into());
    let seconds = Duration::from_secs(time.secs.unsigned_abs());
    let whole = if time.secs >= 0 {
        UNIX_EPOCH.checked_add(seconds)
    } else {
        UNIX_EPOCH.checked_sub(seconds)
    };
    whole
        .and_then(|t| t.checked_add(nanos))
        .unwrap_or(UNIX_EPOCH)
}

pub(crate) fn time(time: TimeOrNow, now: Time) -> Time {
    match time {
        TimeOrNow::Now => now,
        TimeOrNow::SpecificTime(time) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Time {
                secs: seconds(after),
                nanos: after.subsec_nanos(),
            },
            // fuser 0.18 turns (-2 s, 0.5 s) of the kernel, which is 1.5 s before the epoch, into
            // 2.5 s before it; this undoes that.
            Err(before) => {
                let before = before.duration();
                Time {
                    secs: -seconds(before),
                    nanos: before.subsec_nanos(),
                }
            }
        },
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_one_to_the_kernel() {
        let map = InoMap::new(77);
        assert_eq!(map.ours(INodeNo(1)), 77);
        assert_eq!(map.kernels(77), INodeNo(1));
        assert_eq!(map.ours(map.kernels(1)), 1);
        assert_eq!(map.kernels(5), INodeNo(5));
    }

    #[test]
    fn times_before_and_after_the_epoch() {
        let (second, half) = (Duration::from_secs(1), Duration::from_millis(500));
        let before = Time {
            secs: -2,
            nanos: 500_000_000,
        };
        assert_eq!(system_time(before), UNIX_EPOCH - second - half);
        assert_eq!(
            system_time(Time {
                secs: i64::MAX,
                nanos: 999_999_999
            })
            .elapsed()
            .ok(),
            None
        );
        let after = Time {
            secs: 4_000_000_000,
            nanos: 5,
        };
        let now = Time { secs: 5, nanos: 6 };
        assert_eq!(
            time(TimeOrNow::SpecificTime(system_time(after)), now),
            after
        );
        let from_fuser = UNIX_EPOCH - 2 * second - half;
        assert_eq!(time(TimeOrNow::SpecificTime(from_fuser), now), before);
        assert_eq!(time(TimeOrNow::Now, now), now);
    }
}
