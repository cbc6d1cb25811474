//! Attributes of inodes, as a caller sees and sets them.

use crate::format::extent;
use crate::format::inode::{AnyMut, AnyView, MODE_DIR, MODE_SYMLINK, MODE_TYPE, Stamp, Time};
use crate::format::node::Node;
use crate::format::special::Special;

/// Length of a symbolic link's target at most, bytes (Linux's `PATH_MAX` without its NUL).
pub const TARGET_MAX: usize = 4095;

/// Attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Which inode.
    pub node: Node,
    /// Type and permissions as in `stat`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names; of a directory, 2 and its subdirectories.
    pub nlink: u32,
    /// Size in bytes; of a directory, its number of entries; of a special file 0.
    pub size: u64,
    /// Pages that hold data of a file, where its inode tells; not where extent maps would have to
    /// be read ([`FlashLight::pages_stored`](crate::FlashLight::pages_stored)), nor of a directory.
    pub pages: Option<u32>,
    /// Of a device, its number as the caller gave it; else 0.
    pub device: u32,
    /// Last access, as set by the caller.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
}

/// Attributes to change.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (07777).
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of the contents.
    pub mtime: Option<Time>,
    /// Becomes ctime.
    pub now: Time,
}

/// Space, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatFs {
    /// For data and metadata together.
    pub pages: u32,
    /// Of them, free.
    pub pages_free: u32,
}

/// What an unlinked file is after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlinked {
    /// Gone.
    Gone,
    /// Without a name, but in use: to be ended by [`FlashLight::reap`](crate::FlashLight::reap).
    InUse,
    /// Known by other names.
    Named,
}

impl Attr {
    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.mode & MODE_TYPE == MODE_DIR
    }

    /// Whether this is a symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.mode & MODE_TYPE == MODE_SYMLINK
    }

    pub(crate) fn of(view: &AnyView<'_>, node: Node) -> Attr {
        let special = Special::of(view.mode(), view.size());
        Attr {
            node,
            mode: view.mode(),
            uid: view.uid(),
            gid: view.gid(),
            nlink: view.nlink(),
            size: if special.is_some() { 0 } else { view.size() },
            pages: (view.rec() == extent::SIZE && view.levels() == 0).then(|| view.pages_stored()),
            device: special.map_or(0, Special::device),
            atime: view.time(Stamp::Access),
            mtime: view.time(Stamp::Modify),
            ctime: view.time(Stamp::Change),
        }
    }
}

pub(crate) fn apply(view: &mut AnyMut<'_>, set: &SetAttr) {
    if let Some(mode) = set.mode {
        let kind = view.mode() & MODE_TYPE;
        view.set_mode(kind | (mode & !MODE_TYPE));
    }
    if let Some(uid) = set.uid {
        view.set_uid(uid);
    }
    if let Some(gid) = set.gid {
        view.set_gid(gid);
    }
    if let Some(t) = set.atime {
        view.set_time(Stamp::Access, t);
    }
    if let Some(t) = set.mtime {
        view.set_time(Stamp::Modify, t);
    }
    view.set_time(Stamp::Change, set.now);
}
