//! What went wrong, as C knows it. Where Linux has a number for it, this is that one, negative.

use core::ffi::{c_char, c_int};

use flashkit_flashlight::boot::Error;
use flashkit_nand_c::{gate, memory};

/// Nothing has this name.
pub const FLASHLIGHT_BOOT_E_NOENT: c_int = -2;
/// The chip's driver failed, or a callback gave what it may not give.
pub const FLASHLIGHT_BOOT_E_IO: c_int = -5;
/// The slice of RAM is smaller than FLASHLIGHT_BOOT_RAM.
pub const FLASHLIGHT_BOOT_E_NOMEM: c_int = -12;
/// A pointer is null, or does not have the alignment of what it points to.
pub const FLASHLIGHT_BOOT_E_FAULT: c_int = -14;
/// A call is under way (this one came from a callback), or the volume is open already.
pub const FLASHLIGHT_BOOT_E_BUSY: c_int = -16;
/// A name on the way is not a directory's.
pub const FLASHLIGHT_BOOT_E_NOTDIR: c_int = -20;
/// A directory, a device, a pipe or a socket has no data.
pub const FLASHLIGHT_BOOT_E_NODATA: c_int = -21;
/// A path with `..`; a file that `flashlight_boot_find` has not found on this volume; or more than
/// SIZE_MAX / 2 bytes.
pub const FLASHLIGHT_BOOT_E_INVAL: c_int = -22;
/// A name of more than 255 bytes, or a path of more than 512 with the links on the way.
pub const FLASHLIGHT_BOOT_E_NAMETOOLONG: c_int = -36;
/// More than 8 symbolic links on the way.
pub const FLASHLIGHT_BOOT_E_LOOP: c_int = -40;
/// More than 12 names of a directory share a hash, which no usual one comes to.
pub const FLASHLIGHT_BOOT_E_CROWDED: c_int = -75;
/// A page that is needed cannot be read, or is not what it should be.
pub const FLASHLIGHT_BOOT_E_CORRUPT: c_int = -84;
/// The volume is not open.
pub const FLASHLIGHT_BOOT_E_NOTOPEN: c_int = -107;
/// The chip holds no volume.
pub const FLASHLIGHT_BOOT_E_NOTFORMATTED: c_int = -1001;
/// The volume has another version of the format.
pub const FLASHLIGHT_BOOT_E_VERSION: c_int = -1002;
/// The chip's shape cannot be, or is not the volume's.
pub const FLASHLIGHT_BOOT_E_GEOMETRY: c_int = -1003;
/// A programmer has written the volume, from an image of `mkfs --slack`: only the library for Rust
/// opens such.
pub const FLASHLIGHT_BOOT_E_TRANSFERRED: c_int = -1006;
/// A callback of the chip is missing.
pub const FLASHLIGHT_BOOT_E_CALLBACK: c_int = -1005;

const _: () = assert!(
    FLASHLIGHT_BOOT_E_FAULT == memory::FAULT
        && FLASHLIGHT_BOOT_E_INVAL == memory::TOO_MANY
        && FLASHLIGHT_BOOT_E_BUSY == gate::BUSY
        && FLASHLIGHT_BOOT_E_NOTOPEN == gate::NOT_MOUNTED
);

/// A result with a code instead of an error.
pub(crate) fn told<T>(result: Result<T, Error>) -> Result<T, c_int> {
    result.map_err(|error| match error {
        Error::NotFound => FLASHLIGHT_BOOT_E_NOENT,
        Error::NotDir => FLASHLIGHT_BOOT_E_NOTDIR,
        Error::NoData => FLASHLIGHT_BOOT_E_NODATA,
        Error::Invalid => FLASHLIGHT_BOOT_E_INVAL,
        Error::TooLong => FLASHLIGHT_BOOT_E_NAMETOOLONG,
        Error::Links => FLASHLIGHT_BOOT_E_LOOP,
        Error::NotFormatted => FLASHLIGHT_BOOT_E_NOTFORMATTED,
        Error::Transferred => FLASHLIGHT_BOOT_E_TRANSFERRED,
        Error::Version => FLASHLIGHT_BOOT_E_VERSION,
        Error::Geometry => FLASHLIGHT_BOOT_E_GEOMETRY,
        Error::RamTooSmall => FLASHLIGHT_BOOT_E_NOMEM,
        Error::Damaged | Error::Changing => FLASHLIGHT_BOOT_E_CORRUPT,
        Error::Crowded => FLASHLIGHT_BOOT_E_CROWDED,
        Error::Driver => FLASHLIGHT_BOOT_E_IO,
    })
}

/// Says in words what a code means. The text ends with a zero and is never null.
#[no_mangle]
pub extern "C" fn flashlight_boot_strerror(code: c_int) -> *const c_char {
    let text: &'static str = match code {
        FLASHLIGHT_BOOT_E_NOENT => "no such file\0",
        FLASHLIGHT_BOOT_E_IO => "the chip's driver failed\0",
        FLASHLIGHT_BOOT_E_NOMEM => "the slice of RAM is too small\0",
        FLASHLIGHT_BOOT_E_FAULT => "a pointer is null or misaligned\0",
        FLASHLIGHT_BOOT_E_BUSY => "in use\0",
        FLASHLIGHT_BOOT_E_NOTDIR => "not a directory\0",
        FLASHLIGHT_BOOT_E_NODATA => "it has no data\0",
        FLASHLIGHT_BOOT_E_INVAL => "invalid argument\0",
        FLASHLIGHT_BOOT_E_NAMETOOLONG => "a name or path is too long\0",
        FLASHLIGHT_BOOT_E_LOOP => "too many symbolic links\0",
        FLASHLIGHT_BOOT_E_CROWDED => "too many names share a hash\0",
        FLASHLIGHT_BOOT_E_CORRUPT => "a damaged page\0",
        FLASHLIGHT_BOOT_E_NOTOPEN => "not open\0",
        FLASHLIGHT_BOOT_E_NOTFORMATTED => "no volume found\0",
        FLASHLIGHT_BOOT_E_TRANSFERRED => "a volume that was written by a programmer\0",
        FLASHLIGHT_BOOT_E_VERSION => "another version of the format\0",
        FLASHLIGHT_BOOT_E_GEOMETRY => "the chip's geometry does not fit\0",
        FLASHLIGHT_BOOT_E_CALLBACK => "a callback is missing\0",
        0.. => "success\0",
        _ => "unknown error\0",
    };
    text.as_ptr().cast()
}
