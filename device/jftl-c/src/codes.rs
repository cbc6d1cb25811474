//! What went wrong, as C knows it. Where Linux has a number for it, this is that one, negative.

use core::ffi::{c_char, c_int};

use flashkit_jftl::Error;
use flashkit_nand_c::{gate, memory, Failure};

/// The chip's driver failed: unmount, and mount again.
pub const JFTL_E_IO: c_int = -5;
/// The slice of RAM is too small: see `jftl_ram_needed`. After a power cut it must be as large as
/// it was before, once.
pub const JFTL_E_NOMEM: c_int = -12;
/// A pointer is null, or does not have the alignment of what it points to.
pub const JFTL_E_FAULT: c_int = -14;
/// A call is under way (this one came from a callback), the lock was refused, or the disk is
/// mounted already.
pub const JFTL_E_BUSY: c_int = -16;
/// An argument that cannot be: more than SIZE_MAX / 2 bytes, or a lock without its unlock.
pub const JFTL_E_INVAL: c_int = -22;
/// No block is left to write to: too many have gone bad.
pub const JFTL_E_NOSPC: c_int = -28;
/// Not written: a failure or damage came before. Mount again.
pub const JFTL_E_ROFS: c_int = -30;
/// Sectors beyond the end of the disk.
pub const JFTL_E_RANGE: c_int = -34;
/// A sector's page has more wrong bits than can be corrected. Writing the sector mends it.
pub const JFTL_E_UNREADABLE: c_int = -74;
/// A page that the disk itself needs is damaged.
pub const JFTL_E_CORRUPT: c_int = -84;
/// The disk is not mounted.
pub const JFTL_E_NOTMOUNTED: c_int = -107;
/// The chip holds no disk: format it.
pub const JFTL_E_NOTFORMATTED: c_int = -1001;
/// The chip's shape cannot be, cannot hold a disk, or is not the disk's.
pub const JFTL_E_GEOMETRY: c_int = -1003;
/// A callback of the chip is missing, or gave what it may not give.
pub const JFTL_E_CALLBACK: c_int = -1005;

const _: () = assert!(
    JFTL_E_FAULT == memory::FAULT
        && JFTL_E_INVAL == memory::TOO_MANY
        && JFTL_E_BUSY == gate::BUSY
        && JFTL_E_NOTMOUNTED == gate::NOT_MOUNTED
);

/// A result with a code instead of an error.
pub(crate) fn told<T>(result: Result<T, Error<Failure>>) -> Result<T, c_int> {
    result.map_err(|error| match error {
        Error::Flash(Failure::Driver(_)) => JFTL_E_IO,
        Error::Flash(Failure::Nonsense) => JFTL_E_CALLBACK,
        Error::Latched => JFTL_E_ROFS,
        Error::OutOfRange { .. } => JFTL_E_RANGE,
        Error::BufferLength { .. } => JFTL_E_INVAL,
        Error::RamTooSmall { .. } | Error::CacheTooSmall => JFTL_E_NOMEM,
        Error::Config(_) | Error::Geometry => JFTL_E_GEOMETRY,
        Error::Full => JFTL_E_NOSPC,
        Error::Unreadable { .. } => JFTL_E_UNREADABLE,
        Error::NotFormatted => JFTL_E_NOTFORMATTED,
        Error::Damaged { .. } => JFTL_E_CORRUPT,
    })
}

/// Says in words what a code means. The text ends with a zero and is never null.
#[no_mangle]
pub extern "C" fn jftl_strerror(code: c_int) -> *const c_char {
    let text: &'static str = match code {
        JFTL_E_IO => "the chip's driver failed\0",
        JFTL_E_NOMEM => "the slice of RAM is too small\0",
        JFTL_E_FAULT => "a pointer is null or misaligned\0",
        JFTL_E_BUSY => "in use\0",
        JFTL_E_INVAL => "invalid argument\0",
        JFTL_E_NOSPC => "no block is left to write to\0",
        JFTL_E_ROFS => "not written: there was a failure before\0",
        JFTL_E_RANGE => "beyond the end of the disk\0",
        JFTL_E_UNREADABLE => "a sector cannot be read\0",
        JFTL_E_CORRUPT => "a damaged page\0",
        JFTL_E_NOTMOUNTED => "not mounted\0",
        JFTL_E_NOTFORMATTED => "no disk found\0",
        JFTL_E_GEOMETRY => "the chip's geometry does not fit\0",
        JFTL_E_CALLBACK => "a callback is missing or gave nonsense\0",
        0.. => "success\0",
        _ => "unknown error\0",
    };
    text.as_ptr().cast()
}
