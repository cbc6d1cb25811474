//! Nano-FS for C: the interface that `include/nanofs.h` declares, over pointers from C.
//!
//! The one crate of the device floor with `unsafe` code: what C hands over cannot be checked by
//! the compiler. The file system below has none. The header is made by `cbindgen`; `.ci/run`
//! checks that it is up to date.
//!
//! | part | what it is |
//! | --- | --- |
//! | `nanofs_device` | functions of yours: read and write, and trim and flush, which may be null |
//! | `nanofs` | a volume and all its RAM; words for the linker, nothing else |
//! | `NANOFS_E_*` | what went wrong; negative |
//! | `nanofs_*` | one function for each call of [`flashkit_nanofs::NanoFs`] |
//!
//! A whole program is `examples/nanofs/image.c`, firmware `firmware/c`; `.ci/run` compiles both.
//! In short:
//!
//! ```c
//! static nanofs fs;
//! nanofs_init(&fs, &device);
//! if (nanofs_mount(&fs, KEY) == NANOFS_E_NOT_FORMATTED)
//!     nanofs_format(&fs, KEY, 16, random_number);
//! int log = nanofs_create(&fs, (const uint8_t *)"log", 3);
//! nanofs_append(&fs, log, (const uint8_t *)"up\n", 3);
//! nanofs_sync(&fs); /* durable from here on */
//! ```

#![cfg_attr(feature = "panic-handler", no_std)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(non_camel_case_types)]

use core::ffi::{c_int, c_void};
use core::ptr::{null_mut, NonNull};
use core::slice;

use flashkit_block::BlockDevice;
use flashkit_nanofs::{Error, Handle, NanoFs};

/// Bytes in a block of the device.
pub const NANOFS_BLOCK: u32 = 512;
/// Longest name in bytes.
pub const NANOFS_NAME_MAX: u32 = 64;
/// Files that can be open at a time.
pub const NANOFS_HANDLES: u32 = 64;
/// The end of the file, for `nanofs_seek`.
pub const NANOFS_END: u32 = u32::MAX;
/// Words of a `nanofs`.
pub const NANOFS_WORDS: usize = 271;

/// The device failed: mount again before going on.
pub const NANOFS_E_DEVICE: c_int = -1;
/// The device is too small for so many files.
pub const NANOFS_E_GEOMETRY: c_int = -2;
/// There is no volume: format it. A device of which none of the first three blocks can be read is
/// told so too: read one before you format. Of any call but `nanofs_mount`: no volume is mounted.
pub const NANOFS_E_NOT_FORMATTED: c_int = -3;
/// A volume of another version of the format.
pub const NANOFS_E_VERSION: c_int = -4;
/// A volume with another key.
pub const NANOFS_E_WRONG_KEY: c_int = -5;
/// The device has fewer blocks than the volume.
pub const NANOFS_E_DEVICE_TOO_SMALL: c_int = -6;
/// A file's header is damaged.
pub const NANOFS_E_BAD_HEADER: c_int = -7;
/// A block of the bitmap is damaged, or it disagrees with a file.
pub const NANOFS_E_BAD_BITMAP: c_int = -8;
/// A node or a tail is damaged, or is not what the list says.
pub const NANOFS_E_BAD_NODE: c_int = -9;
/// No free block, now: deleting makes room.
pub const NANOFS_E_FULL: c_int = -10;
/// The volume was made for no more files.
pub const NANOFS_E_TOO_MANY_FILES: c_int = -11;
/// All handles are in use.
pub const NANOFS_E_TOO_MANY_OPEN: c_int = -12;
/// A name of more than 64 bytes.
pub const NANOFS_E_NAME_TOO_LONG: c_int = -13;
/// An empty name.
pub const NANOFS_E_BAD_NAME: c_int = -14;
/// The name is taken.
pub const NANOFS_E_EXISTS: c_int = -15;
/// No such file.
pub const NANOFS_E_NOT_FOUND: c_int = -16;
/// Not a handle of an open file.
pub const NANOFS_E_BAD_HANDLE: c_int = -17;
/// Beyond the end of the file.
pub const NANOFS_E_BEYOND_END: c_int = -18;
/// The file is open.
pub const NANOFS_E_BUSY: c_int = -19;
/// No bytes where there must be some, or more than 2,147,483,647 of them.
pub const NANOFS_E_BAD_ARGUMENT: c_int = -20;

/// A device of 512-byte blocks. Each function is given `context` and returns 0, or anything else
/// when it failed. A cut write may leave a block torn or unreadable, but no other block.
///
/// A read that fails is done again, twice; a block that cannot be read then counts as one that a
/// cut has torn. So a driver repeats what fails on the way, such as a transfer with a wrong CRC.
#[repr(C)]
pub struct nanofs_device {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Blocks of the device.
    pub blocks: u32,
    /// Reads blocks.
    pub read: Option<
        unsafe extern "C" fn(context: *mut c_void, first: u32, data: *mut u8, n: u32) -> c_int,
    >,
    /// Writes blocks.
    pub write: Option<
        unsafe extern "C" fn(context: *mut c_void, first: u32, data: *const u8, n: u32) -> c_int,
    >,
    /// Says that blocks are no longer needed. May be null.
    pub trim: Option<unsafe extern "C" fn(context: *mut c_void, first: u32, n: u32) -> c_int>,
    /// Returns when all that was written is durable. May be null.
    pub flush: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
}

/// A volume and all the RAM it needs.
#[repr(C)]
pub struct nanofs {
    opaque: [u64; NANOFS_WORDS],
}

/// Where a C program keeps its device.
struct Device(*const nanofs_device);

type Fs = NanoFs<Device>;

const _: () = assert!(size_of::<Fs>() <= size_of::<nanofs>());
const _: () = assert!(align_of::<Fs>() <= align_of::<nanofs>());

impl Device {
    fn get(&self) -> &nanofs_device {
        // SAFETY: `nanofs_init` asks for a device that outlives the volume.
        unsafe { &*self.0 }
    }
}

/// 0 is success.
fn done(status: Option<c_int>) -> Result<(), ()> {
    match status {
        Some(0) => Ok(()),
        _ => Err(()),
    }
}

impl BlockDevice for Device {
    type Error = ();

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        NANOFS_BLOCK
    }

    fn sector_count(&self) -> u32 {
        self.get().blocks
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), ()> {
        let (dev, n) = (self.get(), buf.len() as u32 / NANOFS_BLOCK);
        // SAFETY: the buffer holds `n` blocks; the rest is the C program's.
        done(
            dev.read
                .map(|read| unsafe { read(dev.context, first, buf.as_mut_ptr(), n) }),
        )
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), ()> {
        let (dev, n) = (self.get(), data.len() as u32 / NANOFS_BLOCK);
        // SAFETY: as above.
        done(
            dev.write
                .map(|write| unsafe { write(dev.context, first, data.as_ptr(), n) }),
        )
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), ()> {
        let dev = self.get();
        // SAFETY: the C program's.
        done(dev.trim.map_or(Some(0), |trim| {
            Some(unsafe { trim(dev.context, first, count) })
        }))
    }

    fn flush(&mut self) -> Result<(), ()> {
        let dev = self.get();
        // SAFETY: the C program's.
        done(
            dev.flush
                .map_or(Some(0), |flush| Some(unsafe { flush(dev.context) })),
        )
    }
}

/// A result as C knows it: what is not below 0 is success.
fn code(result: Result<u32, Error>) -> c_int {
    match result {
        Ok(value) => value as c_int,
        Err(error) => -(error as c_int),
    }
}

fn status(result: Result<(), Error>) -> c_int {
    code(result.map(|()| 0))
}

/// The volume behind a pointer.
///
/// # Safety
/// `nanofs_init` was called for it, and nobody else uses it.
unsafe fn volume<'a>(fs: *mut nanofs) -> &'a mut Fs {
    // SAFETY: `nanofs_init` has put it there.
    unsafe { &mut *fs.cast() }
}

/// Where `n` bytes of C are, or null if there cannot be so many: a result says no more of them, and
/// so many are all that a slice has room for on 32 bits. No bytes may be anywhere.
#[inline(always)]
fn place(at: *mut u8, n: u32) -> *mut u8 {
    match n as i32 {
        0 => NonNull::dangling().as_ptr(),
        1.. => at,
        _ => null_mut(),
    }
}

/// Bytes from C, if there can be so many.
///
/// # Safety
/// There are `n` of them.
#[inline(always)]
unsafe fn bytes<'a>(at: *const u8, n: u32) -> Option<&'a [u8]> {
    let at = place(at.cast_mut(), n);
    // SAFETY: the caller's promise.
    (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, n as usize) })
}

/// A name from C; an empty one behind a null pointer. Of one that is too long so much that this is
/// seen.
///
/// # Safety
/// There are `n` bytes.
#[inline(always)]
unsafe fn name_of<'a>(at: *const u8, n: u32) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(at, n.min(NANOFS_NAME_MAX + 1) as usize) }
}

/// Gives C a number, at a place that need not hold one yet.
///
/// # Safety
/// The place is valid.
#[inline(always)]
unsafe fn give(result: Result<u32, Error>, to: *mut u32) -> c_int {
    status(result.map(|n| {
        // SAFETY: the caller's promise.
        unsafe { to.write(n) };
    }))
}

/// Makes a volume that knows its device. `nanofs_format` or `nanofs_mount` comes next.
///
/// # Safety
/// Both pointers are valid; the device stays for as long as the volume is used.
#[no_mangle]
pub unsafe extern "C" fn nanofs_init(fs: *mut nanofs, device: *const nanofs_device) {
    // A value made on the stack and copied would take twice its size there. All zeros is what
    // `NanoFs::new` makes but for the device: `NanoFs` says so, and a test of this crate relies on
    // it.
    for i in 0..size_of::<Fs>() / 4 {
        // SAFETY: there is room for it, as asserted above.
        unsafe { fs.cast::<u32>().add(i).write_volatile(0) };
    }
    // SAFETY: it is a `NanoFs` now; a `Device` is not dropped.
    unsafe { *volume(fs).device() = Device(device) };
}

/// Makes an empty volume for at most `files` files, and mounts it. What the device held is lost.
/// `seed` should be a number that no earlier volume on this device had.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_format(fs: *mut nanofs, key: u32, files: u32, seed: u32) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { volume(fs) }.format(key, files, seed))
}

/// Mounts the volume; recovers files that were open when power failed.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_mount(fs: *mut nanofs, key: u32) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { volume(fs) }.mount(key))
}

/// Opens a file and gives its handle.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `name` has `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_open(fs: *mut nanofs, name: *const u8, len: u32) -> c_int {
    // SAFETY: the caller's promise.
    let (fs, name) = unsafe { (volume(fs), name_of(name, len)) };
    code(fs.open(name).map(|handle| handle.0))
}

/// Makes an empty file, opens it and gives its handle. Durable when it returns.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `name` has `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_create(fs: *mut nanofs, name: *const u8, len: u32) -> c_int {
    // SAFETY: the caller's promise.
    let (fs, name) = unsafe { (volume(fs), name_of(name, len)) };
    code(fs.create(name).map(|handle| handle.0))
}

/// Closes a file.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_close(fs: *mut nanofs, handle: c_int) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { volume(fs) }.close(Handle(handle as u32)))
}

/// Reads from the position on; gives how many bytes, fewer than asked for only at the end.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `data` has room for `n` bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_read(
    fs: *mut nanofs,
    handle: c_int,
    data: *mut u8,
    n: u32,
) -> c_int {
    let data = place(data, n);
    if data.is_null() {
        return NANOFS_E_BAD_ARGUMENT;
    }
    // SAFETY: the caller's promise.
    let (fs, data) = unsafe { (volume(fs), slice::from_raw_parts_mut(data, n as usize)) };
    code(fs.read(Handle(handle as u32), data))
}

/// Writes at the position.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `data` has `n` bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_write(
    fs: *mut nanofs,
    handle: c_int,
    data: *const u8,
    n: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let (fs, Some(data)) = (unsafe { (volume(fs), bytes(data, n)) }) else {
        return NANOFS_E_BAD_ARGUMENT;
    };
    status(fs.write(Handle(handle as u32), data))
}

/// Writes at the end of the file.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `data` has `n` bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_append(
    fs: *mut nanofs,
    handle: c_int,
    data: *const u8,
    n: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let (fs, Some(data)) = (unsafe { (volume(fs), bytes(data, n)) }) else {
        return NANOFS_E_BAD_ARGUMENT;
    };
    status(fs.append(Handle(handle as u32), data))
}

/// Sets the position of the next read or write.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_seek(fs: *mut nanofs, handle: c_int, pos: u32) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { volume(fs) }.seek(Handle(handle as u32), pos))
}

/// Gives the position of the next read or write in `pos`.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `pos` is valid.
#[no_mangle]
pub unsafe extern "C" fn nanofs_tell(fs: *mut nanofs, handle: c_int, pos: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(volume(fs).position(Handle(handle as u32)), pos) }
}

/// Gives the bytes in a file in `size`.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `size` is valid.
#[no_mangle]
pub unsafe extern "C" fn nanofs_size(fs: *mut nanofs, handle: c_int, size: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(volume(fs).size(Handle(handle as u32)), size) }
}

/// Cuts a file to `size` bytes.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_truncate(fs: *mut nanofs, handle: c_int, size: u32) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { volume(fs) }.truncate(Handle(handle as u32), size))
}

/// Deletes a file that is not open. Durable when it returns.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `name` has `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_delete(fs: *mut nanofs, name: *const u8, len: u32) -> c_int {
    // SAFETY: the caller's promise.
    let (fs, name) = unsafe { (volume(fs), name_of(name, len)) };
    status(fs.delete(name))
}

/// Gives a file another name that is not taken. Durable when it returns.
///
/// # Safety
/// `fs` was given to `nanofs_init`; the names have so many bytes.
#[no_mangle]
pub unsafe extern "C" fn nanofs_rename(
    fs: *mut nanofs,
    from: *const u8,
    from_len: u32,
    to: *const u8,
    to_len: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let (fs, from, to) = unsafe { (volume(fs), name_of(from, from_len), name_of(to, to_len)) };
    status(fs.rename(from, to))
}

/// Goes on to the file behind `cursor`, 0 for the first; gives the next cursor, 0 behind the last.
/// `nanofs_entry` tells of the file.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_next_file(fs: *mut nanofs, cursor: c_int) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { volume(fs) }.next_file(cursor as u32))
}

/// The file that `nanofs_next_file` has found: its size in `size`, its name (not ended by a zero)
/// in `name`, which has room for `NANOFS_NAME_MAX` bytes. Gives the length of the name.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `name` and `size` are valid.
#[no_mangle]
pub unsafe extern "C" fn nanofs_entry(fs: *mut nanofs, name: *mut u8, size: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    let entry = unsafe { volume(fs) }.entry();
    // SAFETY: the caller's promise, and names are no longer.
    unsafe {
        size.write(entry.size);
        for (i, byte) in entry.name.iter().enumerate() {
            name.add(i).write(*byte);
        }
    }
    entry.name.len() as c_int
}

/// Makes everything written so far durable.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_sync(fs: *mut nanofs) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { volume(fs) }.sync())
}

/// Gives the bytes that can still be written in `space`.
///
/// # Safety
/// `fs` was given to `nanofs_init`; `space` is valid.
#[no_mangle]
pub unsafe extern "C" fn nanofs_space_left(fs: *mut nanofs, space: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { give(volume(fs).space_left(), space) }
}

/// Cleans with at most `budget` operations; 1 if more is left, else 0.
///
/// # Safety
/// `fs` was given to `nanofs_init`.
#[no_mangle]
pub unsafe extern "C" fn nanofs_clean(fs: *mut nanofs, budget: u32) -> c_int {
    // SAFETY: the caller's promise.
    code(unsafe { volume(fs) }.clean(budget).map(u32::from))
}

#[cfg(feature = "panic-handler")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
