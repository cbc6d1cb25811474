//! What went wrong, as C knows it. Where Linux has a number for it, this is that one, negative.

use core::ffi::{c_char, c_int};

use flashkit_flashlight::Error as VolumeError;
use flashkit_flashlight_files::Error;
use flashkit_nand_c::{gate, memory, Failure};

/// No such file or directory.
pub const FLASHLIGHT_E_NOENT: c_int = -2;
/// The chip's driver failed: unmount, and mount again.
pub const FLASHLIGHT_E_IO: c_int = -5;
/// Not an open handle of this volume, or the file was not opened for that.
pub const FLASHLIGHT_E_BADF: c_int = -9;
/// The slice of RAM is too small: see `flashlight_ram_needed`.
pub const FLASHLIGHT_E_NOMEM: c_int = -12;
/// A pointer is null, or does not have the alignment of what it points to.
pub const FLASHLIGHT_E_FAULT: c_int = -14;
/// A call is under way (this one came from a callback), the lock was refused, the volume is mounted
/// already, the handle is open already, or files are open at an unmount.
pub const FLASHLIGHT_E_BUSY: c_int = -16;
/// The name is taken.
pub const FLASHLIGHT_E_EXIST: c_int = -17;
/// Not a directory.
pub const FLASHLIGHT_E_NOTDIR: c_int = -20;
/// A directory.
pub const FLASHLIGHT_E_ISDIR: c_int = -21;
/// An argument that cannot be: flags, a position before the start, more than SIZE_MAX / 2 bytes, a
/// directory moved into itself.
pub const FLASHLIGHT_E_INVAL: c_int = -22;
/// Can never fit: a file that is too large, or too many names of one hash in a directory.
pub const FLASHLIGHT_E_FBIG: c_int = -27;
/// No space left: deleting makes room.
pub const FLASHLIGHT_E_NOSPC: c_int = -28;
/// Mounted read-only, or stopped by damage or a driver's failure before: see `flashlight_health`.
pub const FLASHLIGHT_E_ROFS: c_int = -30;
/// Too many links.
pub const FLASHLIGHT_E_MLINK: c_int = -31;
/// A name of more than 255 bytes, or a path of more than 4,095.
pub const FLASHLIGHT_E_NAMETOOLONG: c_int = -36;
/// The directory still has entries.
pub const FLASHLIGHT_E_NOTEMPTY: c_int = -39;
/// No such extended attribute.
pub const FLASHLIGHT_E_NODATA: c_int = -61;
/// A page on the chip cannot be read, or is not what it should be.
pub const FLASHLIGHT_E_CORRUPT: c_int = -84;
/// The volume is not mounted.
pub const FLASHLIGHT_E_NOTMOUNTED: c_int = -107;
/// The chip holds no FlashLight volume: format it.
pub const FLASHLIGHT_E_NOTFORMATTED: c_int = -1001;
/// A volume of another version of the format.
pub const FLASHLIGHT_E_VERSION: c_int = -1002;
/// The chip's shape cannot be, cannot hold a volume, or is not the volume's.
pub const FLASHLIGHT_E_GEOMETRY: c_int = -1003;
/// More blocks are bad than the volume was made for.
pub const FLASHLIGHT_E_TOOMANYBAD: c_int = -1004;
/// A callback of the chip is missing, or gave what it may not give.
pub const FLASHLIGHT_E_CALLBACK: c_int = -1005;
/// A programmer has written a volume to the chip, from an image of `mkfs --slack`: only the library
/// for Rust mounts such. Do not format it.
pub const FLASHLIGHT_E_TRANSFERRED: c_int = -1006;

const _: () = assert!(
    FLASHLIGHT_E_FAULT == memory::FAULT
        && FLASHLIGHT_E_INVAL == memory::TOO_MANY
        && FLASHLIGHT_E_BUSY == gate::BUSY
        && FLASHLIGHT_E_NOTMOUNTED == gate::NOT_MOUNTED
);

/// A code of the volume's error.
pub(crate) fn of_volume(error: &VolumeError<Failure>) -> c_int {
    match error {
        VolumeError::Driver(Failure::Driver(_)) => FLASHLIGHT_E_IO,
        VolumeError::Driver(Failure::Nonsense) => FLASHLIGHT_E_CALLBACK,
        VolumeError::NoSpace => FLASHLIGHT_E_NOSPC,
        VolumeError::TooBig => FLASHLIGHT_E_FBIG,
        VolumeError::Corrupt(..) => FLASHLIGHT_E_CORRUPT,
        VolumeError::ReadOnly => FLASHLIGHT_E_ROFS,
        VolumeError::NotFound => FLASHLIGHT_E_NOENT,
        VolumeError::Exists => FLASHLIGHT_E_EXIST,
        VolumeError::NoAttribute => FLASHLIGHT_E_NODATA,
        VolumeError::NotDir => FLASHLIGHT_E_NOTDIR,
        VolumeError::IsDir => FLASHLIGHT_E_ISDIR,
        VolumeError::NotEmpty => FLASHLIGHT_E_NOTEMPTY,
        VolumeError::NameTooLong => FLASHLIGHT_E_NAMETOOLONG,
        VolumeError::TooManyLinks => FLASHLIGHT_E_MLINK,
        VolumeError::Invalid => FLASHLIGHT_E_INVAL,
        VolumeError::NotFormatted => FLASHLIGHT_E_NOTFORMATTED,
        VolumeError::Version(_) => FLASHLIGHT_E_VERSION,
        VolumeError::Geometry => FLASHLIGHT_E_GEOMETRY,
        VolumeError::TooManyBad(_) => FLASHLIGHT_E_TOOMANYBAD,
        VolumeError::RamTooSmall(_) => FLASHLIGHT_E_NOMEM,
    }
}

/// A code of a path call's error.
pub(crate) fn of(error: &Error<Failure>) -> c_int {
    match error {
        Error::Volume(error) => of_volume(error),
        // Places for open files are the caller's: they do not run out.
        Error::TooManyOpen | Error::InUse => FLASHLIGHT_E_BUSY,
        Error::NotOpenedSo => FLASHLIGHT_E_BADF,
    }
}

/// What C is given.
pub(crate) fn answer(result: Result<c_int, c_int>) -> c_int {
    match result {
        Ok(value) => value,
        Err(code) => code,
    }
}

/// Says in words what a code means. The text ends with a zero and is never null.
#[no_mangle]
pub extern "C" fn flashlight_strerror(code: c_int) -> *const c_char {
    let text: &'static str = match code {
        FLASHLIGHT_E_NOENT => "no such file or directory\0",
        FLASHLIGHT_E_IO => "the chip's driver failed\0",
        FLASHLIGHT_E_BADF => "not an open handle of this volume, or not opened for that\0",
        FLASHLIGHT_E_NOMEM => "the slice of RAM is too small\0",
        FLASHLIGHT_E_FAULT => "a pointer is null or misaligned\0",
        FLASHLIGHT_E_BUSY => "in use\0",
        FLASHLIGHT_E_EXIST => "the name is taken\0",
        FLASHLIGHT_E_NOTDIR => "not a directory\0",
        FLASHLIGHT_E_ISDIR => "is a directory\0",
        FLASHLIGHT_E_INVAL => "invalid argument\0",
        FLASHLIGHT_E_FBIG => "too large for this file system\0",
        FLASHLIGHT_E_NOSPC => "no space left on the chip\0",
        FLASHLIGHT_E_ROFS => "read-only, or stopped\0",
        FLASHLIGHT_E_MLINK => "too many links\0",
        FLASHLIGHT_E_NAMETOOLONG => "name too long\0",
        FLASHLIGHT_E_NOTEMPTY => "directory not empty\0",
        FLASHLIGHT_E_NODATA => "no such extended attribute\0",
        FLASHLIGHT_E_CORRUPT => "a damaged page\0",
        FLASHLIGHT_E_NOTMOUNTED => "not mounted\0",
        FLASHLIGHT_E_NOTFORMATTED => "no FlashLight volume found\0",
        FLASHLIGHT_E_VERSION => "another version of the format\0",
        FLASHLIGHT_E_GEOMETRY => "the chip's geometry does not fit\0",
        FLASHLIGHT_E_TOOMANYBAD => "too many bad blocks\0",
        FLASHLIGHT_E_TRANSFERRED => "a volume that was written by a programmer\0",
        FLASHLIGHT_E_CALLBACK => "a callback is missing or gave nonsense\0",
        0.. => "success\0",
        _ => "unknown error\0",
    };
    text.as_ptr().cast()
}
