//! The volume and its files, in the caller's memory.

use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;

use flashkit_flashlight::boot::{Boot, File, FileKind, PATH_MAX};
use flashkit_nand_c::gate::{mark, Gate, Lock};
use flashkit_nand_c::memory::{place, room};
use flashkit_nand_c::Chip;

use crate::chip::flashlight_boot_chip;
use crate::codes::{told, FLASHLIGHT_BOOT_E_INVAL, FLASHLIGHT_BOOT_E_NAMETOOLONG};

/// Words of 64 bits of a `flashlight_boot`.
pub const FLASHLIGHT_BOOT_NUMBERS: usize = 24;
/// Words of a pointer's size of a `flashlight_boot`.
pub const FLASHLIGHT_BOOT_POINTERS: usize = 32;
/// Words of 64 bits of a `flashlight_boot_file` besides what it shows.
pub const FLASHLIGHT_BOOT_FILE_NUMBERS: usize = 8;

/// A file with data.
pub const FLASHLIGHT_BOOT_FILE: u32 = 1;
/// A directory.
pub const FLASHLIGHT_BOOT_DIR: u32 = 2;
/// A device, a pipe or a socket.
pub const FLASHLIGHT_BOOT_SPECIAL: u32 = 4;

const _: () = assert!(
    FLASHLIGHT_BOOT_FILE == FileKind::File as u32
        && FLASHLIGHT_BOOT_DIR == FileKind::Dir as u32
        && FLASHLIGHT_BOOT_SPECIAL == FileKind::Special as u32
);

/// An open volume, besides its slice of RAM. All zeros before the first open, as a `static` is. It
/// stays where it is until it is closed.
#[repr(C)]
pub struct flashlight_boot {
    opaque_numbers: [u64; FLASHLIGHT_BOOT_NUMBERS],
    opaque_pointers: [usize; FLASHLIGHT_BOOT_POINTERS],
}

/// A file that was found. It is not open: nothing has to be closed.
#[repr(C)]
pub struct flashlight_boot_file {
    /// Bytes.
    pub size: u64,
    /// FLASHLIGHT_BOOT_FILE, FLASHLIGHT_BOOT_DIR or FLASHLIGHT_BOOT_SPECIAL.
    pub kind: u32,
    opaque: u32,
    opaque_numbers: [u64; FLASHLIGHT_BOOT_FILE_NUMBERS],
    opaque_pointer: usize,
}

type Volume = Boot<'static, Chip>;

/// What a `flashlight_boot` is.
struct State {
    gate: Gate,
    volume: MaybeUninit<Volume>,
}

const _: () = assert!(!core::mem::needs_drop::<Volume>());
const _: () = assert!(size_of::<State>() <= size_of::<flashlight_boot>());
const _: () = assert!(align_of::<State>() <= align_of::<flashlight_boot>());
const _: () = assert!(size_of::<File>() <= 8 * FLASHLIGHT_BOOT_FILE_NUMBERS);
const _: () = assert!(align_of::<File>() <= align_of::<u64>());

/// In a file that was found: of which volume.
const FOUND: usize = 0x464c_4246;

/// A call, or an open, that is under way. Its end lets the next one in.
struct Entered(*mut State);

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: it was let in.
        unsafe { Gate::leave(self.gate()) };
    }
}

impl Entered {
    fn gate(&self) -> *mut Gate {
        // SAFETY: a state is there.
        unsafe { addr_of_mut!((*self.0).gate) }
    }

    /// # Safety
    /// `boot` is null or points to a `flashlight_boot`, all zeros before its first open.
    unsafe fn begin(boot: *mut flashlight_boot) -> Result<Self, c_int> {
        let state: *mut State = place(boot.cast_const())?.as_ptr().cast();
        // SAFETY: the caller's promise.
        unsafe { Gate::enter(addr_of_mut!((*state).gate))? };
        Ok(Entered(state))
    }

    fn volume(&mut self) -> &mut Volume {
        // SAFETY: only what `begin` let in asks for it: it is open.
        unsafe { (*addr_of_mut!((*self.0).volume)).assume_init_mut() }
    }
}

/// Opens the volume of a chip. Of `ram` FLASHLIGHT_BOOT_RAM(page_size) bytes are used until it is
/// closed; they need no alignment. Nothing is written to the chip, now or later. Opened while
/// somebody writes to the chip, it shows anything: open it again after that.
///
/// # Safety
/// `boot` and `chip` are null or valid, `ram` is null or points to `ram_len` bytes. The chip's
/// functions may be called until the volume is closed.
#[no_mangle]
pub unsafe extern "C" fn flashlight_boot_open(
    boot: *mut flashlight_boot,
    chip: *const flashlight_boot_chip,
    ram: *mut c_void,
    ram_len: usize,
) -> c_int {
    let open = || {
        let state: *mut State = place(boot.cast_const())?.as_ptr().cast();
        // SAFETY: the caller's promise.
        unsafe {
            let gate = addr_of_mut!((*state).gate);
            Gate::prepare(gate, Lock::NONE)?;
            let _entered = Entered(state);
            let chip = place(chip)?.as_ref().chip()?;
            let volume = told(Boot::open(chip, room(ram, ram_len)?))?;
            (*addr_of_mut!((*state).volume)).write(volume);
            Gate::set_mounted(gate, true);
        }
        Ok(0)
    };
    open().unwrap_or_else(|code: c_int| code)
}

/// Forgets the volume: its RAM and the chip are the caller's again.
///
/// # Safety
/// `boot` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_boot_close(boot: *mut flashlight_boot) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Entered::begin(boot) } {
        Ok(entered) => {
            // SAFETY: it was let in.
            unsafe { Gate::set_mounted(entered.gate(), false) };
            0
        }
        Err(code) => code,
    }
}

/// Finds what a path leads to, from the root of the volume. Symbolic links are followed; a path
/// with `..` is refused.
///
/// # Safety
/// `boot` and `file` are null or valid; `path` is null or ends with a zero.
#[no_mangle]
pub unsafe extern "C" fn flashlight_boot_find(
    boot: *mut flashlight_boot,
    path: *const c_char,
    file: *mut flashlight_boot_file,
) -> c_int {
    let find = || {
        // SAFETY: the caller's promise.
        unsafe {
            let mut entered = Entered::begin(boot)?;
            let (path, file) = (place(path.cast::<u8>())?, place(file.cast_const())?);
            let len = (0..=PATH_MAX).find(|&i| path.as_ptr().add(i).read() == 0);
            let len = len.ok_or(FLASHLIGHT_BOOT_E_NAMETOOLONG)?;
            let path = core::slice::from_raw_parts(path.as_ptr(), len);
            let found = told(entered.volume().find(path))?;
            let file = file.as_ptr();
            addr_of_mut!((*file).size).write(found.size());
            addr_of_mut!((*file).kind).write(found.kind() as u32);
            addr_of_mut!((*file).opaque_numbers)
                .cast::<File>()
                .write(found);
            addr_of_mut!((*file).opaque_pointer).write(mark(FOUND, entered.0));
        }
        Ok(0)
    };
    find().unwrap_or_else(|code: c_int| code)
}

/// Reads `len` bytes of a file from byte `offset`. Gives 0 when all of them are read. Bytes beyond
/// its end are FLASHLIGHT_BOOT_E_INVAL. After a failure there is anything in `data`.
///
/// # Safety
/// `boot` and `file` are null or valid; `data` is null or points to room for `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn flashlight_boot_read(
    boot: *mut flashlight_boot,
    file: *const flashlight_boot_file,
    offset: u64,
    data: *mut c_void,
    len: usize,
) -> c_int {
    let read = || {
        // SAFETY: the caller's promise.
        unsafe {
            let mut entered = Entered::begin(boot)?;
            let file = place(file)?.as_ref();
            let data = room(data, len)?;
            if file.opaque_pointer != mark(FOUND, entered.0) {
                return Err(FLASHLIGHT_BOOT_E_INVAL);
            }
            // The mark says that `flashlight_boot_find` has written it.
            let found = file.opaque_numbers.as_ptr().cast::<File>().read();
            match told(entered.volume().read(&found, offset, data))? {
                read if read == len => Ok(0),
                _ => Err(FLASHLIGHT_BOOT_E_INVAL),
            }
        }
    };
    read().unwrap_or_else(|code: c_int| code)
}
