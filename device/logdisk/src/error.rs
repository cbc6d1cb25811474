//! What can go wrong, told apart by what the caller can do about it.

/// Errors of a log disk over a flash driver with errors `E`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The flash driver's. After one that met a write, an erase or a mount's repairs, the state of
    /// the flash is unknown and the disk answers further changes with [`Error::Latched`].
    Flash(E),
    /// A driver error came before; mount again.
    Latched,
    /// The disk is damaged and there for reading alone: [`crate::LogDisk::damage`] says where.
    Damaged,
    /// What a sector held is lost: its block is damaged, or may be. Of several sectors those before
    /// it have been read.
    Lost {
        /// The sector.
        sector: u32,
    },
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
    /// The configuration cannot work on this chip; the text says why.
    Config(&'static str),
    /// With bounded latency: this would wait for an erase ([`crate::Config::moves_max`]). Sectors
    /// before are written or trimmed, the rest is untouched. [`crate::LogDisk::clean_now`] makes
    /// room, and waits; or it is tried again later. A write is tried again from the sector on that
    /// was refused ([`crate::Stats::sectors_written`] tells): as a whole, one as long as a segment
    /// may be refused for ever, and wear the chip out.
    Busy,
    /// No room: segments have worn out, and what is left holds the data alone.
    Full,
    /// A segment does not begin as one of a log disk does: a chip that was never formatted, or
    /// damage.
    Magic {
        /// The segment.
        segment: u32,
    },
    /// A segment's header has a wrong checksum and was not under erase: damage.
    Header {
        /// The segment.
        segment: u32,
    },
    /// The disk on flash was made for something else than what is asked for.
    Geometry {
        /// What differs.
        what: &'static str,
        /// What the flash says.
        found: u32,
        /// What the chip or the configuration says.
        expected: u32,
    },
    /// A segment is another volume's: a format was interrupted.
    Volume {
        /// The segment.
        segment: u32,
    },
    /// A block information entry that no power cut can leave: damage.
    Entry {
        /// The segment.
        segment: u32,
        /// The block within it.
        block: u32,
    },
    /// Two valid blocks hold the same sector: damage.
    TwoCopies {
        /// The sector.
        sector: u32,
        /// One block, counted over the chip.
        first: u32,
        /// The other.
        second: u32,
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
            Error::Latched => f.write_str("not written: the flash driver failed before"),
            Error::Damaged => f.write_str("not written: the disk is damaged, and can only be read"),
            Error::Lost { sector } => write!(f, "what sector {sector} held is lost"),
            Error::OutOfRange { sector } => write!(f, "sector {sector} is beyond the disk's end"),
            Error::BufferLength { len } => {
                write!(f, "{len} bytes are not a whole number of sectors")
            }
            Error::RamTooSmall { need } => write!(f, "RAM is too small: {need} bytes are needed"),
            Error::Config(why) => f.write_str(why),
            Error::Busy => f.write_str("busy: this would wait for an erase"),
            Error::Full => f.write_str("no room is left: segments have worn out"),
            Error::Magic { segment } => {
                write!(f, "segment {segment} has no log disk's magic number")
            }
            Error::Header { segment } => {
                write!(f, "the header of segment {segment} has a wrong checksum")
            }
            Error::Geometry {
                what,
                found,
                expected,
            } => write!(f, "{what}: {found} on flash, {expected} expected"),
            Error::Volume { segment } => write!(
                f,
                "segment {segment} is of another volume: a format was interrupted"
            ),
            Error::Entry { segment, block } => write!(
                f,
                "the entry of block {block} of segment {segment} is damaged"
            ),
            Error::TwoCopies {
                sector,
                first,
                second,
            } => write!(
                f,
                "sector {sector} has two valid copies, blocks {first} and {second}"
            ),
        }
    }
}

impl<E: core::fmt::Debug> core::error::Error for Error<E> {}
