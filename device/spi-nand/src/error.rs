//! What can go wrong below the contract, and what the chip was doing then.

use flashkit_nand::GeometryError;

use crate::Onfi;

/// What the chip is busy with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// A reset.
    Reset,
    /// Reading a page of the array into the chip's cache.
    Read,
    /// Programming a page.
    Program,
    /// Erasing a block.
    Erase,
}

impl core::fmt::Display for Doing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Doing::Reset => "a reset",
            Doing::Read => "a page read",
            Doing::Program => "a program",
            Doing::Erase => "an erase",
        })
    }
}

/// Bytes that an id is told from: the maker's, and up to four of the device.
pub const ID_BYTES: usize = 5;

/// Why the driver could not do something. Faults of the medium are not among them: a failed
/// program is [`OpStatus::Failed`](flashkit_nand::OpStatus::Failed), a lost page
/// [`ReadStatus::Uncorrectable`](flashkit_nand::ReadStatus::Uncorrectable).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error<E> {
    /// The bus, in its own words.
    Bus(E),
    /// The chip stayed busy for longer than twice what its data sheet allows.
    TimedOut(Doing),
    /// Nothing answers: every byte of the id is this one, `0xFF` or `0x00`.
    NoChip {
        /// What the bus reads as.
        byte: u8,
    },
    /// No row of the table has this id.
    UnknownId {
        /// The bytes behind an address or dummy byte, as most chips send them.
        id: [u8; ID_BYTES],
        /// The bytes right behind the command, as some chips send them.
        direct: [u8; ID_BYTES],
        /// What the chip's parameter page says, if it has one.
        onfi: Option<Onfi>,
    },
    /// The row for this id contradicts the chip's parameter page.
    Contradiction {
        /// The part's name in the table.
        part: &'static str,
        /// What the chip says.
        onfi: Onfi,
    },
    /// flashkit cannot use a chip of this shape.
    Geometry(GeometryError),
    /// The row is not one of a chip: the number of pages in a block is no power of two, or spare
    /// bytes lie beside the spare area.
    Row,
    /// A register does not hold what was written: it is locked, by a pin or for good, or the chip
    /// has lost its supply since and is as after power-up. Open it anew.
    Register {
        /// Its address.
        register: u8,
        /// What it should hold.
        wanted: u8,
        /// What it holds.
        found: u8,
    },
    /// The chip does not take the command that allows a program or an erase. Nothing was changed.
    WriteDisabled,
}

impl<E: core::fmt::Debug> core::fmt::Display for Error<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::Bus(e) => write!(f, "the bus: {e:?}"),
            Error::TimedOut(doing) => write!(f, "the chip does not finish {doing}"),
            Error::NoChip { byte } => write!(f, "no chip answers: the bus reads {byte:#04x}"),
            Error::UnknownId { id, direct, onfi } => {
                write!(f, "no known part has the id {id:02x?}, or {direct:02x?}; ")?;
                match onfi {
                    Some(onfi) => onfi.fmt(f),
                    None => f.write_str("there is no parameter page"),
                }
            }
            Error::Contradiction { part, onfi } => {
                write!(f, "the id is that of {part}, but {onfi}")
            }
            Error::Geometry(e) => e.fmt(f),
            Error::Row => f.write_str("the row of the table cannot be that of a chip"),
            Error::Register {
                register,
                wanted,
                found,
            } => write!(
                f,
                "register {register:#04x} holds {found:#04x}, not {wanted:#04x}"
            ),
            Error::WriteDisabled => f.write_str("the chip does not allow a program or an erase"),
        }
    }
}

impl<E: core::fmt::Debug> core::error::Error for Error<E> {}
