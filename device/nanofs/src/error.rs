//! What can go wrong.

/// Why a call failed.
// The numbers are those of the C interface; that none is 0 keeps the code small.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device failed; [`crate::NanoFs::device_error`] says how. Mount again before going on.
    Device = 1,
    /// The device's sectors are not of 512 bytes, or it is too small for so many files.
    Geometry = 2,
    /// There is no volume: format it. A device of which none of the first three blocks can be read
    /// is told so too: read one before you format. Of any call but a mount: no volume is mounted.
    NotFormatted = 3,
    /// A volume of another version of the format.
    Version = 4,
    /// A volume with another key.
    WrongKey = 5,
    /// The device has fewer blocks than the volume.
    DeviceTooSmall = 6,
    /// A file's header is damaged.
    BadHeader = 7,
    /// A block of the bitmap is damaged, or it disagrees with a file.
    BadBitmap = 8,
    /// A node or a tail is damaged, or is not what the list says.
    BadNode = 9,
    /// No free block, now: deleting makes room.
    Full = 10,
    /// The volume was made for no more files.
    TooManyFiles = 11,
    /// All handles are in use.
    TooManyOpen = 12,
    /// A name of more than 64 bytes.
    NameTooLong = 13,
    /// An empty name.
    BadName = 14,
    /// The name is taken.
    Exists = 15,
    /// No such file.
    NotFound = 16,
    /// Not a handle of an open file.
    BadHandle = 17,
    /// Beyond the end of the file.
    BeyondEnd = 18,
    /// The file is open.
    Busy = 19,
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Error::Device => "the device failed",
            Error::Geometry => "the device does not suit the volume",
            Error::NotFormatted => "no volume",
            Error::Version => "a volume of another version",
            Error::WrongKey => "a volume with another key",
            Error::DeviceTooSmall => "the device has fewer blocks than the volume",
            Error::BadHeader => "a damaged file header",
            Error::BadBitmap => "a bitmap that is damaged or disagrees",
            Error::BadNode => "a damaged node",
            Error::Full => "no free block",
            Error::TooManyFiles => "no room for another file",
            Error::TooManyOpen => "too many open files",
            Error::NameTooLong => "a name of more than 64 bytes",
            Error::BadName => "an empty name",
            Error::Exists => "the name is taken",
            Error::NotFound => "no such file",
            Error::BadHandle => "not an open file",
            Error::BeyondEnd => "beyond the end of the file",
            Error::Busy => "the file is open",
        })
    }
}

impl core::error::Error for Error {}

/// What calls give back.
pub type Result<T> = core::result::Result<T, Error>;
