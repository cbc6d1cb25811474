//! Files.

use core::ffi::{c_char, c_int, c_void};

use embedded_io::SeekFrom;
use flashkit_flashlight_files::{Error, OpenOptions};
use flashkit_nand_c::memory::{bytes, room};
use flashkit_nand_c::Failure;

use crate::codes::{of, FLASHLIGHT_E_INVAL};
use crate::state::{begin, flashlight, flashlight_file, Session};
use crate::volume::with;

/// For reading.
pub const FLASHLIGHT_O_RDONLY: c_int = 1;
/// For writing.
pub const FLASHLIGHT_O_WRONLY: c_int = 2;
/// For both.
pub const FLASHLIGHT_O_RDWR: c_int = 3;
/// Makes the file if there is none; for writing.
pub const FLASHLIGHT_O_CREAT: c_int = 0x100;
/// With FLASHLIGHT_O_CREAT: fails if there is one.
pub const FLASHLIGHT_O_EXCL: c_int = 0x200;
/// Cuts a file that is there to nothing; for writing.
pub const FLASHLIGHT_O_TRUNC: c_int = 0x400;
/// For writing, each time at the end.
pub const FLASHLIGHT_O_APPEND: c_int = 0x800;

/// `flashlight_seek` counts from the start.
pub const FLASHLIGHT_SEEK_SET: c_int = 0;
/// `flashlight_seek` counts from the position.
pub const FLASHLIGHT_SEEK_CUR: c_int = 1;
/// `flashlight_seek` counts from the end.
pub const FLASHLIGHT_SEEK_END: c_int = 2;

const ALL_FLAGS: c_int = FLASHLIGHT_O_RDWR
    | FLASHLIGHT_O_CREAT
    | FLASHLIGHT_O_EXCL
    | FLASHLIGHT_O_TRUNC
    | FLASHLIGHT_O_APPEND;

fn options(flags: c_int) -> Result<OpenOptions, c_int> {
    let has = |flag| flags & flag == flag;
    if flags & !ALL_FLAGS != 0 || (has(FLASHLIGHT_O_EXCL) && !has(FLASHLIGHT_O_CREAT)) {
        return Err(FLASHLIGHT_E_INVAL);
    }
    Ok(OpenOptions::new()
        .read(has(FLASHLIGHT_O_RDONLY))
        .write(has(FLASHLIGHT_O_WRONLY))
        .append(has(FLASHLIGHT_O_APPEND))
        .create(has(FLASHLIGHT_O_CREAT))
        .create_new(has(FLASHLIGHT_O_EXCL))
        .truncate(has(FLASHLIGHT_O_TRUNC)))
}

pub(crate) fn told<T>(result: Result<T, Error<Failure>>) -> Result<T, c_int> {
    result.map_err(|error| of(&error))
}

/// Opens a file, with FLASHLIGHT_O_* or'ed together. A file that is made is durable after its first
/// `flashlight_fsync`. Several handles may have one file open.
///
/// # Safety
/// Each pointer is null or valid. `file` is all zeros, or was closed; it stays where it is until it
/// is closed.
#[no_mangle]
pub unsafe extern "C" fn flashlight_open(
    fs: *mut flashlight,
    file: *mut flashlight_file,
    path: *const c_char,
    flags: c_int,
) -> c_int {
    let open = |session: &mut Session<'_>| {
        session.check_closed(file)?;
        // SAFETY: the caller's promise.
        let path = unsafe { crate::state::path(path)? };
        let opened = told(session.calls().open(path, &options(flags)?))?;
        session.add(file, opened);
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, open) }
}

/// Closes a file. What was written is no more durable than before. Whatever this gives but
/// FLASHLIGHT_E_BADF, FLASHLIGHT_E_BUSY and FLASHLIGHT_E_NOTMOUNTED, the handle is closed.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_close(
    fs: *mut flashlight,
    file: *mut flashlight_file,
) -> c_int {
    let close = |session: &mut Session<'_>| {
        let closed = session.take(file)?;
        told(session.calls().close(&closed)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, close) }
}

/// Reads from the position on; gives how many bytes, fewer than `len` only at the end. One page
/// read for each page touched, and those of its extents.
///
/// # Safety
/// Each pointer is null or valid; `data` has room for `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn flashlight_read(
    fs: *mut flashlight,
    file: *mut flashlight_file,
    data: *mut c_void,
    len: usize,
) -> isize {
    let read = || {
        // SAFETY: the caller's promise.
        let mut session = unsafe { begin(fs)? };
        let (file, volume) = session.file(file)?;
        // SAFETY: the caller's promise.
        let data = unsafe { room(data, len)? };
        told(file.read(volume, data)).map(|n| n as isize)
    };
    read().unwrap_or_else(|code: c_int| code as isize)
}

/// Writes all of `len` bytes at the position, or at the end of a file opened to append; gives
/// `len`. Durable after `flashlight_fsync`. One program for each whole page. When it fails the
/// position stays, and the pages before may be written: who appends cuts the file to the size it
/// had before another try.
///
/// # Safety
/// Each pointer is null or valid; `data` has `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn flashlight_write(
    fs: *mut flashlight,
    file: *mut flashlight_file,
    data: *const c_void,
    len: usize,
) -> isize {
    let write = || {
        // SAFETY: the caller's promise.
        let mut session = unsafe { begin(fs)? };
        let now = session.now();
        let (file, volume) = session.file(file)?;
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, len)? };
        told(file.write(volume, data, now)).map(|()| len as isize)
    };
    write().unwrap_or_else(|code: c_int| code as isize)
}

/// Sets the position and gives it. It may be beyond the end: a write there leaves a hole of zeros.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_seek(
    fs: *mut flashlight,
    file: *mut flashlight_file,
    offset: i64,
    whence: c_int,
) -> i64 {
    let seek = || {
        let to = match (whence, u64::try_from(offset)) {
            (FLASHLIGHT_SEEK_SET, Ok(at)) => SeekFrom::Start(at),
            (FLASHLIGHT_SEEK_CUR, _) => SeekFrom::Current(offset),
            (FLASHLIGHT_SEEK_END, _) => SeekFrom::End(offset),
            _ => return Err(FLASHLIGHT_E_INVAL),
        };
        // SAFETY: the caller's promise.
        let mut session = unsafe { begin(fs)? };
        let (file, volume) = session.file(file)?;
        told(file.seek(volume, to)).map(|at| at as i64)
    };
    seek().unwrap_or_else(|code: c_int| code.into())
}

/// Gives the position.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_tell(fs: *mut flashlight, file: *mut flashlight_file) -> i64 {
    let tell = || {
        // SAFETY: the caller's promise.
        let mut session = unsafe { begin(fs)? };
        Ok(session.file(file)?.0.position() as i64)
    };
    tell().unwrap_or_else(|code: c_int| code.into())
}

/// Gives the file's size in bytes.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_size(fs: *mut flashlight, file: *mut flashlight_file) -> i64 {
    let size = || {
        // SAFETY: the caller's promise.
        let mut session = unsafe { begin(fs)? };
        let (file, volume) = session.file(file)?;
        told(file.size(volume)).map(|size| size as i64)
    };
    size().unwrap_or_else(|code: c_int| code.into())
}

/// Cuts a file to `size` bytes, or extends it by a hole of zeros. The position stays.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_truncate(
    fs: *mut flashlight,
    file: *mut flashlight_file,
    size: i64,
) -> c_int {
    let truncate = |session: &mut Session<'_>| {
        let now = session.now();
        let (file, volume) = session.file(file)?;
        let size = u64::try_from(size).map_err(|_| FLASHLIGHT_E_INVAL)?;
        told(file.truncate(volume, size, now)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, truncate) }
}

/// Makes a file durable: data, size and name. One program, if anything has changed.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_fsync(
    fs: *mut flashlight,
    file: *mut flashlight_file,
) -> c_int {
    let fsync = |session: &mut Session<'_>| {
        let (file, volume) = session.file(file)?;
        told(file.sync(volume)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, fsync) }
}
