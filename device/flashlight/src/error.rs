//! Errors, by what the caller can do about them.

use flashkit_nand::PageAddr;

/// What is damaged. It is also its name: `&*damaged` is a `&str`.
// As wide as a register, and numbered so that the other faults have room below, and that all went
// well is zero: see `Fault`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u32)]
pub enum Damaged {
    /// A file's data.
    Data = 19,
    /// The inode of a file.
    File,
    /// The inode of a file that an entry of a directory leads to; the number reported with it is
    /// that of the directory, for the file's is in the page.
    FileOfDir,
    /// The inode of a directory.
    Dir,
    /// An entry of a directory: the page it leads to is not that name's.
    Entry,
    /// Changes of a directory that wait in the page of another.
    Deferred,
    /// A page of the names of a file.
    Names,
    /// A page of extended attributes.
    Attributes,
    /// A page of a directory's hashes.
    HashMap,
    /// The page that says where a directory's pages of hashes are.
    HashIndex,
    /// A page of a file's extents.
    ExtentMap,
    /// The page that says where a file's pages of extents are.
    ExtentIndex,
    /// An extent.
    Extent,
    /// A page of where directories are.
    DirMap,
    /// The page that says where the pages of the directory map are.
    Places,
    /// A page of the block table.
    Table,
    /// A page of an index of valid pages.
    Validity,
    /// A checkpoint.
    Checkpoint,
    /// A page of the anchor's second level.
    Second,
    /// The page that begins the anchor.
    Root,
    /// A part of a checkpoint.
    Snapshot,
    /// A block for checkpoints.
    CheckpointBlock,
    /// A page that records a change, written since the last checkpoint: what it concerns may be as
    /// it was before.
    Change,
    /// The record of an image's transfer to a chip.
    Transfer,
}

impl Damaged {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Damaged::Data => "file data",
            Damaged::File => "file inode",
            Damaged::FileOfDir => "inode of a file of this directory",
            Damaged::Dir => "directory",
            Damaged::Entry => "directory entry",
            Damaged::Deferred => "deferred changes of a directory",
            Damaged::Names => "names of a file",
            Damaged::Attributes => "extended attributes",
            Damaged::HashMap => "hash map",
            Damaged::HashIndex => "index page of hash maps",
            Damaged::ExtentMap => "extent map",
            Damaged::ExtentIndex => "index page of extent maps",
            Damaged::Extent => "extent",
            Damaged::DirMap => "page of the directory map",
            Damaged::Places => "page of places of the directory map",
            Damaged::Table => "block table",
            Damaged::Validity => "validity page",
            Damaged::Checkpoint => "checkpoint",
            Damaged::Second => "second-level checkpoint",
            Damaged::Root => "root page",
            Damaged::Snapshot => "part of a checkpoint",
            Damaged::CheckpointBlock => "checkpoint block",
            Damaged::Change => "record of a change before the last stop",
            Damaged::Transfer => "transfer record",
        }
    }
}

impl core::ops::Deref for Damaged {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl core::fmt::Debug for Damaged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Debug::fmt(self.as_str(), f)
    }
}

impl core::fmt::Display for Damaged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self)
    }
}

/// What went wrong. `E` is the driver's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The driver failed; the outcome of the operation is unknown. Where that was in a call that
    /// changes something, in a read as well, nothing more is written until the next mount: what is
    /// in RAM may be half of a change. Unmount, which says so too, and mount again.
    Driver(E),
    /// Full now: deleting makes room.
    NoSpace,
    /// Can never fit: a file beyond 2^32 - 16 pages, or a directory with too many names of one
    /// hash.
    TooBig,
    /// The medium holds something it should not, at this page.
    Corrupt(PageAddr, Damaged),
    /// Read-only: mounted so, or damaged earlier in this session.
    ReadOnly,
    /// No such name.
    NotFound,
    /// The name is taken.
    Exists,
    /// No such extended attribute.
    NoAttribute,
    /// Not a directory.
    NotDir,
    /// A directory.
    IsDir,
    /// The directory still has entries.
    NotEmpty,
    /// The name is longer than 255 bytes.
    NameTooLong,
    /// The file has so many names that another finds no room, or one of the same hash in that
    /// directory.
    TooManyLinks,
    /// Caller's mistake: an empty name, a directory moved into itself, a stale node.
    Invalid,
    /// The chip holds no FlashLight volume.
    NotFormatted,
    /// The volume has another format version.
    Version(u8),
    /// The volume was made for another geometry, or the geometry cannot hold one.
    Geometry,
    /// So many blocks are bad: more than an image was made for.
    TooManyBad(u32),
    /// The slice handed over is too small; this many bytes are needed.
    RamTooSmall(usize),
}

impl<E> Error<E> {
    /// Whether this is damage of the file system's own records, not of a file's data alone.
    pub fn is_metadata(&self) -> bool {
        matches!(self, Error::Corrupt(_, what) if *what != Damaged::Data)
    }
}

/// What went wrong, as it is handed on inside. A word: it is returned in a register, where an
/// [`Error`] would go through memory at each step, and needs no widening to be compared, as a byte
/// does. What there is to say besides, a page or the driver's error, waits in the latch of the
/// chip, which makes an [`Error`] of both ([`crate::space::latch::Latch::error`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Driver,
    NoSpace,
    TooBig,
    Corrupt(Damaged),
    ReadOnly,
    NotFound,
    Exists,
    NoAttribute,
    NotDir,
    IsDir,
    NotEmpty,
    NameTooLong,
    TooManyLinks,
    Invalid,
    NotFormatted,
    Version,
    Geometry,
    RamTooSmall,
}

const _: () = assert!(size_of::<Result<(), Fault>>() == 4);

impl Fault {
    /// Whether the medium is damaged where this was met; what is elsewhere is not concerned.
    pub fn is_damage(self) -> bool {
        matches!(self, Fault::Corrupt(_))
    }

    /// The error, with what is to be said besides: where damage was met, or another number.
    pub fn with<E>(self, detail: u32, driver: Option<E>) -> Error<E> {
        match self {
            Fault::Driver => driver.map_or(Error::ReadOnly, Error::Driver),
            Fault::NoSpace => Error::NoSpace,
            Fault::TooBig => Error::TooBig,
            Fault::Corrupt(what) => Error::Corrupt(PageAddr(detail), what),
            Fault::ReadOnly => Error::ReadOnly,
            Fault::NotFound => Error::NotFound,
            Fault::Exists => Error::Exists,
            Fault::NoAttribute => Error::NoAttribute,
            Fault::NotDir => Error::NotDir,
            Fault::IsDir => Error::IsDir,
            Fault::NotEmpty => Error::NotEmpty,
            Fault::NameTooLong => Error::NameTooLong,
            Fault::TooManyLinks => Error::TooManyLinks,
            Fault::Invalid => Error::Invalid,
            Fault::NotFormatted => Error::NotFormatted,
            Fault::Version => Error::Version(detail as u8),
            Fault::Geometry => Error::Geometry,
            Fault::RamTooSmall => Error::RamTooSmall(detail as usize),
        }
    }
}

/// A `bool` where a [`Fault`] may come instead. As wide as that: both are returned in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Bool {
    False,
    True,
}

impl Bool {
    pub fn is_true(self) -> bool {
        self == Bool::True
    }
}

impl From<bool> for Bool {
    fn from(value: bool) -> Self {
        match value {
            true => Bool::True,
            false => Bool::False,
        }
    }
}

/// What a read gave; `None` where the medium is damaged.
pub(crate) fn sound<T>(result: Result<T, Fault>) -> Result<Option<T>, Fault> {
    match result {
        Err(e) if e.is_damage() => Ok(None),
        r => r.map(Some),
    }
}

impl<E: core::fmt::Debug> core::fmt::Display for Error<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Driver(e) => write!(f, "flash driver: {e:?}"),
            Error::NoSpace => f.write_str("no space left on the chip"),
            Error::TooBig => f.write_str("too large for this file system"),
            Error::Corrupt(PageAddr::NONE, what) => write!(f, "damaged {what}"),
            Error::Corrupt(page, what) => write!(f, "damaged {what} at page {}", page.0),
            Error::ReadOnly => f.write_str("read-only file system"),
            Error::NotFound => f.write_str("no such file or directory"),
            Error::Exists => f.write_str("file exists"),
            Error::NoAttribute => f.write_str("no such extended attribute"),
            Error::NotDir => f.write_str("not a directory"),
            Error::IsDir => f.write_str("is a directory"),
            Error::NotEmpty => f.write_str("directory not empty"),
            Error::NameTooLong => f.write_str("file name too long"),
            Error::TooManyLinks => f.write_str("too many links"),
            Error::Invalid => f.write_str("invalid argument"),
            Error::NotFormatted => f.write_str("no FlashLight volume found"),
            Error::Version(v) => write!(
                f,
                "format version {v} is not supported (this program reads version {})",
                crate::format::header::FORMAT_VERSION
            ),
            Error::Geometry => f.write_str("the volume does not fit this chip's geometry"),
            Error::TooManyBad(n) => {
                write!(f, "{n} bad blocks: more than the image has slack for")
            }
            Error::RamTooSmall(n) => write!(f, "needs {n} bytes of RAM"),
        }
    }
}

impl<E: core::fmt::Debug> core::error::Error for Error<E> {}
