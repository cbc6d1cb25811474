//! The disk, in the caller's memory.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;

use flashkit_jftl::Jftl;
use flashkit_nand_c::gate::{Gate, Lock};
use flashkit_nand_c::memory::{bytes, place, room};
use flashkit_nand_c::Chip;

use crate::chip::jftl_chip;
use crate::codes::{told, JFTL_E_INVAL};

/// Words of 64 bits of a `jftl`.
pub const JFTL_NUMBERS: usize = 100;
/// Words of a pointer's size of a `jftl`.
pub const JFTL_POINTERS: usize = 44;

/// A disk, besides its slice of RAM. All zeros before the first mount, as a `static` is. It stays
/// where it is until the unmount.
#[repr(C)]
pub struct jftl {
    opaque_numbers: [u64; JFTL_NUMBERS],
    opaque_pointers: [usize; JFTL_POINTERS],
}

/// Choices of a mount. All zeros, or no `jftl_options` at all: one thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct jftl_options {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Waits until no other thread is in a call of this disk, and gives 0. Anything else: this
    /// thread is in one already, and the call gives JFTL_E_BUSY. May be null.
    pub lock: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    /// The end of it. Null if `lock` is.
    pub unlock: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

type Disk = Jftl<'static, Chip>;

/// What a `jftl` is.
struct State {
    gate: Gate,
    disk: MaybeUninit<Disk>,
}

const _: () = assert!(!core::mem::needs_drop::<Disk>());
const _: () = assert!(size_of::<State>() <= size_of::<jftl>());
const _: () = assert!(align_of::<State>() <= align_of::<jftl>());

/// A call, or a mount, that is under way. Its end lets the next one in.
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
    /// `disk` is null or points to a `jftl`, all zeros before its first mount.
    unsafe fn begin(disk: *mut jftl) -> Result<Self, c_int> {
        let state: *mut State = place(disk.cast_const())?.as_ptr().cast();
        // SAFETY: the caller's promise.
        unsafe { Gate::enter(addr_of_mut!((*state).gate))? };
        Ok(Entered(state))
    }

    /// # Safety
    /// As `begin`; `options` is null or valid.
    unsafe fn prepare(disk: *mut jftl, options: *const jftl_options) -> Result<Self, c_int> {
        let state: *mut State = place(disk.cast_const())?.as_ptr().cast();
        let mut lock = Lock::NONE;
        if !options.is_null() {
            // SAFETY: the caller's promise.
            let options = unsafe { place(options)?.as_ref() };
            if options.lock.is_some() != options.unlock.is_some() {
                return Err(JFTL_E_INVAL);
            }
            lock = Lock {
                context: options.context,
                lock: options.lock,
                unlock: options.unlock,
            };
        }
        // SAFETY: the caller's promise.
        unsafe { Gate::prepare(addr_of_mut!((*state).gate), lock)? };
        Ok(Entered(state))
    }

    fn disk(&mut self) -> &mut Disk {
        // SAFETY: only what `begin` let in asks for it: it is mounted.
        unsafe { (*addr_of_mut!((*self.0).disk)).assume_init_mut() }
    }
}

/// Does something with a disk.
///
/// # Safety
/// `disk` is null or points to a `jftl`.
unsafe fn with(disk: *mut jftl, work: impl FnOnce(&mut Disk) -> Result<c_int, c_int>) -> c_int {
    // SAFETY: the caller's promise.
    let entered = unsafe { Entered::begin(disk) };
    entered
        .and_then(|mut entered| work(entered.disk()))
        .unwrap_or_else(|code| code)
}

/// Makes an empty disk: all sectors read as zeros. Anything on the chip is lost. `number` should be
/// one that no earlier disk on this chip had: a random one will do. `disk` must not be mounted.
///
/// # Safety
/// As for `jftl_mount`.
#[no_mangle]
pub unsafe extern "C" fn jftl_format(
    disk: *mut jftl,
    chip: *const jftl_chip,
    ram: *mut c_void,
    ram_len: usize,
    number: u32,
) -> c_int {
    let format = || {
        // SAFETY: the caller's promise.
        unsafe {
            let entered = Entered::prepare(disk, core::ptr::null())?;
            let chip = place(chip)?.as_ref().chip()?;
            let place = &mut *addr_of_mut!((*entered.0).disk);
            told(Jftl::format_into(place, chip, room(ram, ram_len)?, number)).map(|()| 0)
        }
    };
    format().unwrap_or_else(|code: c_int| code)
}

/// Mounts a disk, and recovers what was durable when power failed. `ram` is a slice of as many
/// bytes as `jftl_ram_needed` says or more, at any address; it is the disk's until the unmount.
/// `options` may be null.
///
/// # Safety
/// Each pointer is null or valid; `disk` is all zeros, or was mounted before; `ram` has `ram_len`
/// bytes that nobody else uses.
#[no_mangle]
pub unsafe extern "C" fn jftl_mount(
    disk: *mut jftl,
    chip: *const jftl_chip,
    ram: *mut c_void,
    ram_len: usize,
    options: *const jftl_options,
) -> c_int {
    let mount = || {
        // SAFETY: the caller's promise; there is room for a disk, as asserted above.
        unsafe {
            let entered = Entered::prepare(disk, options)?;
            let chip = place(chip)?.as_ref().chip()?;
            let place = &mut *addr_of_mut!((*entered.0).disk);
            told(Jftl::mount_into(place, chip, room(ram, ram_len)?))?;
            Gate::set_mounted(entered.gate(), true);
            Ok(0)
        }
    };
    mount().unwrap_or_else(|code: c_int| code)
}

/// Ends in good order: the next mount is short. After an error the mount has ended as well; the
/// next one recovers what was durable.
///
/// # Safety
/// `disk` is null or points to a `jftl`.
#[no_mangle]
pub unsafe extern "C" fn jftl_unmount(disk: *mut jftl) -> c_int {
    let unmount = || {
        // SAFETY: the caller's promise.
        unsafe {
            let mut entered = Entered::begin(disk)?;
            let closed = entered.disk().close();
            Gate::set_mounted(entered.gate(), false);
            told(closed).map(|()| 0)
        }
    };
    unmount().unwrap_or_else(|code: c_int| code)
}

/// Gives the number of sectors. A sector is as long as a page.
///
/// # Safety
/// `disk` is null or points to a `jftl`.
#[no_mangle]
pub unsafe extern "C" fn jftl_capacity(disk: *mut jftl) -> c_int {
    // SAFETY: the caller's promise. A chip has fewer than 2^28 pages.
    unsafe { with(disk, |disk| Ok(disk.sector_count() as c_int)) }
}

/// Bytes of so many sectors.
fn length(disk: &Disk, count: u32) -> Result<usize, c_int> {
    let size = disk.sector_size() as usize;
    (count as usize).checked_mul(size).ok_or(JFTL_E_INVAL)
}

/// Reads `count` sectors from `first` on. What was never written, or trimmed, reads as zeros. One
/// read a sector, and one for each piece of the map that is not in RAM.
///
/// # Safety
/// `disk` is null or points to a `jftl`; `data` is null or has room for the sectors.
#[no_mangle]
pub unsafe extern "C" fn jftl_read(
    disk: *mut jftl,
    first: u32,
    data: *mut c_void,
    count: u32,
) -> c_int {
    let read = |disk: &mut Disk| {
        // SAFETY: the caller's promise.
        let data = unsafe { room(data, length(disk, count)?)? };
        told(disk.read(first, data)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(disk, read) }
}

/// Writes `count` sectors from `first` on. Durable after `jftl_sync`. One program a sector that is
/// not all zeros, and its share of log, map and cleaning.
///
/// # Safety
/// `disk` is null or points to a `jftl`; `data` is null or has the sectors.
#[no_mangle]
pub unsafe extern "C" fn jftl_write(
    disk: *mut jftl,
    first: u32,
    data: *const c_void,
    count: u32,
) -> c_int {
    let write = |disk: &mut Disk| {
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, length(disk, count)?)? };
        told(disk.write(first, data)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(disk, write) }
}

/// Forgets `count` sectors from `first` on: they read as zeros, after `jftl_sync` for good.
///
/// # Safety
/// `disk` is null or points to a `jftl`.
#[no_mangle]
pub unsafe extern "C" fn jftl_trim(disk: *mut jftl, first: u32, count: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(disk, |disk| told(disk.trim(first, count)).map(|()| 0)) }
}

/// Makes everything durable that was written or trimmed before: one program, unless there is
/// nothing to say, and now and then an erase or two.
///
/// # Safety
/// `disk` is null or points to a `jftl`.
#[no_mangle]
pub unsafe extern "C" fn jftl_sync(disk: *mut jftl) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(disk, |disk| told(disk.flush()).map(|()| 0)) }
}

/// Cleans for a moment ahead of need; 1 if there is more to do, else 0.
///
/// # Safety
/// `disk` is null or points to a `jftl`.
#[no_mangle]
pub unsafe extern "C" fn jftl_gc(disk: *mut jftl) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(disk, |disk| told(disk.background()).map(c_int::from)) }
}
