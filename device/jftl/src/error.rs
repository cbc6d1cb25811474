//! What can go wrong, told apart by what the caller can do about it.

/// Errors of a disk over a NAND driver with errors `E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The driver's. After one that met a change or a mount, the outcome is unknown and the disk
    /// answers further changes with [`Error::Latched`].
    Flash(E),
    /// A driver error or damage came before; mount again.
    Latched,
    /// Sectors beyond the end of the disk were asked for.
    OutOfRange {
        /// The first of them.
        sector: u32,
    },
    /// A buffer is not a whole number of sectors.
    BufferLength {
        /// Its length in bytes.
        len: usize,
    },
    /// The RAM handed over is too small.
    RamTooSmall {
        /// Bytes needed.
        need: usize,
    },
    /// After a cut the disk must be mounted with as much cache as before it, once.
    CacheTooSmall,
    /// The disk cannot be on this chip; the text says why.
    Config(&'static str),
    /// No block is left to write to: too many have gone bad.
    Full,
    /// A sector's page has more wrong bits than can be corrected. Writing the sector mends it.
    Unreadable {
        /// The sector.
        sector: u32,
    },
    /// The chip holds no disk.
    NotFormatted,
    /// The disk on the chip was made for another geometry.
    Geometry,
    /// A page that the disk needs is not as it was written.
    Damaged {
        /// What it is.
        what: &'static str,
        /// The page.
        page: u32,
    },
}

impl<E> From<E> for Error<E> {
    fn from(e: E) -> Error<E> {
        Error::Flash(e)
    }
}

impl<E: core::fmt::Debug> core::fmt::Display for Error<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Flash(e) => write!(f, "flash driver: {e:?}"),
            Error::Latched => f.write_str("not written: there was an error before"),
            Error::OutOfRange { sector } => write!(f, "sector {sector} is beyond the disk's end"),
            Error::BufferLength { len } => {
                write!(f, "{len} bytes are not a whole number of sectors")
            }
            Error::RamTooSmall { need } => write!(f, "RAM is too small: {need} bytes are needed"),
            Error::CacheTooSmall => {
                f.write_str("after a power cut the disk needs as much cache as before it")
            }
            Error::Config(why) => f.write_str(why),
            Error::Full => f.write_str("no block is left to write to"),
            Error::Unreadable { sector } => write!(f, "sector {sector} cannot be read"),
            Error::NotFormatted => f.write_str("the chip holds no disk"),
            Error::Geometry => f.write_str("the disk was made for another geometry"),
            Error::Damaged { what, page } => write!(f, "page {page}, {what}, is damaged"),
        }
    }
}

impl<E: core::fmt::Debug> core::error::Error for Error<E> {}
