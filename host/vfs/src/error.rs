//! Errors of a file system, each with its errno.

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// No such name or inode (`ENOENT`).
    NotFound,
    /// The inode is gone; who still has its number may look its name up again (`ESTALE`).
    Stale,
    /// The name is taken (`EEXIST`).
    Exists,
    /// Not a directory (`ENOTDIR`).
    NotDir,
    /// A directory (`EISDIR`).
    IsDir,
    /// The directory still has entries (`ENOTEMPTY`).
    NotEmpty,
    /// The name is longer than 255 bytes (`ENAMETOOLONG`).
    NameTooLong,
    /// A bad argument: an empty name, a directory moved into itself (`EINVAL`).
    Invalid,
    /// Symbolic links lead on and on (`ELOOP`).
    Loop,
    /// Full now (`ENOSPC`).
    NoSpace,
    /// The volume was made for no more files (`ENOSPC`).
    TooManyFiles,
    /// Larger than a file can ever be (`EFBIG`).
    TooBig,
    /// The file system is read-only (`EROFS`).
    ReadOnly,
    /// The file has as many names as it can have (`EMLINK`).
    TooManyLinks,
    /// Not for such an inode, or not for any of this file system: a hard link to a directory
    /// (`EPERM`).
    NotPermitted,
    /// No such extended attribute (`ENODATA`).
    NoAttribute,
    /// Not done by this file system (`EOPNOTSUPP`).
    Unsupported,
    /// The file system's own records are damaged (`EIO`); the text says which.
    Damaged(String),
    /// A file's data is damaged, or the driver failed (`EIO`); the text says what.
    Io(String),
}

/// Result of a file-system call.
pub type Result<T> = std::result::Result<T, Error>;

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Error::NotFound => "no such file or directory",
            Error::Stale => "stale file handle",
            Error::Exists => "file exists",
            Error::NotDir => "not a directory",
            Error::IsDir => "is a directory",
            Error::NotEmpty => "directory not empty",
            Error::NameTooLong => "file name too long",
            Error::Invalid => "invalid argument",
            Error::Loop => "too many levels of symbolic links",
            Error::NoSpace => "no space left on the chip",
            Error::TooManyFiles => "the volume was made for no more files (`mkfs --files`)",
            Error::TooBig => "file too large",
            Error::ReadOnly => "read-only file system",
            Error::TooManyLinks => "too many links",
            Error::NotPermitted => "operation not permitted",
            Error::NoAttribute => "no such extended attribute",
            Error::Unsupported => "operation not supported",
            Error::Damaged(what) | Error::Io(what) => what,
        })
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The errno of Linux.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotPermitted => 1,
            Error::NotFound => 2,
            Error::Damaged(_) | Error::Io(_) => 5,
            Error::Exists => 17,
            Error::NotDir => 20,
            Error::IsDir => 21,
            Error::Invalid => 22,
            Error::TooBig => 27,
            Error::NoSpace | Error::TooManyFiles => 28,
            Error::ReadOnly => 30,
            Error::TooManyLinks => 31,
            Error::NameTooLong => 36,
            Error::NotEmpty => 39,
            Error::Loop => 40,
            Error::NoAttribute => 61,
            Error::Unsupported => 95,
            Error::Stale => 116,
        }
    }
}
