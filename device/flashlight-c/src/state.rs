//! What lies in the caller's memory, and whether a call may use it.

use core::ffi::{c_char, c_int, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;
use core::slice;

use flashkit_flashlight::{Config, Error, FlashLight, New, Time};
use flashkit_flashlight_files::{Calls, Listing, OpenFile, OpenFiles};
use flashkit_nand_c::gate::{mark, Gate, Lock};
use flashkit_nand_c::memory::place;
use flashkit_nand_c::{Chip, Failure};

use crate::codes::{
    FLASHLIGHT_E_BADF, FLASHLIGHT_E_BUSY, FLASHLIGHT_E_INVAL, FLASHLIGHT_E_NAMETOOLONG,
};

/// Words of 64 bits of a `flashlight`.
pub const FLASHLIGHT_NUMBERS: usize = 200;
/// Words of a pointer's size of a `flashlight`.
pub const FLASHLIGHT_POINTERS: usize = 92;
/// Words of a `flashlight_file`.
pub const FLASHLIGHT_FILE_WORDS: usize = 6;
/// Words of a `flashlight_dir`.
pub const FLASHLIGHT_DIR_WORDS: usize = 5;

/// Bytes of a path, at most, without its zero.
const PATH_MAX: usize = 4095;

/// A volume, besides its slice of RAM. All zeros before the first mount, as a `static` is. It stays
/// where it is, and is given to nobody else, until the unmount.
#[repr(C)]
pub struct flashlight {
    opaque_numbers: [u64; FLASHLIGHT_NUMBERS],
    opaque_pointers: [usize; FLASHLIGHT_POINTERS],
}

/// An open file. All zeros before it is first opened. It stays where it is until it is closed.
#[repr(C)]
pub struct flashlight_file {
    opaque: [u64; FLASHLIGHT_FILE_WORDS],
}

/// A directory that is being listed.
#[repr(C)]
pub struct flashlight_dir {
    opaque: [u64; FLASHLIGHT_DIR_WORDS],
}

/// Choices of a mount. All zeros, or no `flashlight_options` at all: one thread, no clock.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct flashlight_options {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Waits until no other thread is in a call of this volume, and gives 0. Anything else: this
    /// thread is in one already, and the call gives FLASHLIGHT_E_BUSY. A recursive lock that gives
    /// 0 then will do as well. May be null.
    pub lock: Option<unsafe extern "C" fn(context: *mut c_void) -> c_int>,
    /// The end of it. Null if `lock` is.
    pub unlock: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Seconds since 1970, for the times of what is changed. May be null: all times are 0.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void) -> i64>,
    /// 1: nothing can be changed. A volume that was not unmounted is recovered all the same. Else
    /// 0.
    pub read_only: u8,
}

pub(crate) type Volume = FlashLight<'static, Chip>;

/// What a `flashlight` is.
pub(crate) struct State {
    gate: Gate,
    options: flashlight_options,
    /// The first of the open files.
    files: *mut Handle,
    /// Which mount of this memory it is.
    mount: u32,
    volume: MaybeUninit<Option<Volume>>,
}

/// What a `flashlight_file` is.
pub(crate) struct Handle {
    open: usize,
    owner: *mut State,
    next: *mut Handle,
    file: OpenFile,
}

/// What a `flashlight_dir` is.
pub(crate) struct DirHandle {
    open: usize,
    owner: *mut State,
    mount: u32,
    pub listing: Listing,
}

const _: () = assert!(!core::mem::needs_drop::<Volume>());
const _: () = assert!(size_of::<State>() <= size_of::<flashlight>());
const _: () = assert!(align_of::<State>() <= align_of::<flashlight>());
const _: () = assert!(size_of::<Handle>() <= size_of::<flashlight_file>());
const _: () = assert!(align_of::<Handle>() <= align_of::<flashlight_file>());
const _: () = assert!(size_of::<DirHandle>() <= size_of::<flashlight_dir>());
const _: () = assert!(align_of::<DirHandle>() <= align_of::<flashlight_dir>());

const FILE: usize = 0x464c_4631;
const DIR: usize = 0x464c_4431;

/// A path from C, without its zero.
///
/// # Safety
/// `at` is null or points to bytes that end with a zero, or to 4,096 others.
pub(crate) unsafe fn path<'a>(at: *const c_char) -> Result<&'a [u8], c_int> {
    let at = place(at.cast::<u8>())?.as_ptr();
    for len in 0..=PATH_MAX {
        // SAFETY: no zero was before this byte.
        if unsafe { at.add(len).read() } == 0 {
            // SAFETY: all of them were read.
            return Ok(unsafe { slice::from_raw_parts(at, len) });
        }
    }
    Err(FLASHLIGHT_E_NAMETOOLONG)
}

/// The open files of a volume: a list through the handles, which are the caller's memory.
struct List(*mut *mut Handle);

impl List {
    /// Shows each handle until `visit` returns false.
    fn each(&self, mut visit: impl FnMut(*mut Handle) -> bool) {
        // SAFETY: a handle stays where it is until it is closed, which takes it from the list.
        unsafe {
            let mut at = *self.0;
            while !at.is_null() && visit(at) {
                at = (*at).next;
            }
        }
    }

    fn contains(&self, handle: *mut Handle) -> bool {
        let mut found = false;
        self.each(|at| {
            found = at == handle;
            !found
        });
        found
    }
}

impl OpenFiles for List {
    fn visit(&self, visit: &mut dyn FnMut(&OpenFile) -> bool) {
        // SAFETY: as above; no other reference to it is in use.
        self.each(|at| visit(unsafe { &(*at).file }));
    }

    fn change(&mut self, change: &mut dyn FnMut(&mut OpenFile)) {
        self.each(|at| {
            // SAFETY: as above.
            change(unsafe { &mut (*at).file });
            true
        });
    }
}

/// A call that is under way. Its end lets the next one in.
pub(crate) struct Session<'a> {
    state: *mut State,
    volume: &'a mut Volume,
    now: Time,
    list: List,
    _state: PhantomData<&'a mut State>,
}

/// What a `flashlight` is, where there can be one.
pub(crate) fn state(fs: *mut flashlight) -> Result<*mut State, c_int> {
    Ok(place(fs.cast_const())?.as_ptr().cast())
}

/// Begins a call.
///
/// # Safety
/// `fs` is null or points to a `flashlight`, all zeros before its first mount.
pub(crate) unsafe fn begin<'a>(fs: *mut flashlight) -> Result<Session<'a>, c_int> {
    let state = state(fs)?;
    // SAFETY: the caller's promise. The fields before `volume` are those of no reference. What is
    // mounted is there.
    unsafe {
        Gate::enter(addr_of_mut!((*state).gate))?;
        let options = (*state).options;
        let secs = options.now.map_or(0, |now| now(options.context));
        Ok(Session {
            state,
            volume: (*addr_of_mut!((*state).volume))
                .assume_init_mut()
                .as_mut()
                .unwrap_unchecked(),
            now: Time { secs, nanos: 0 },
            list: List(addr_of_mut!((*state).files)),
            _state: PhantomData,
        })
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: a session is there only while its state is.
        unsafe { Gate::leave(addr_of_mut!((*self.state).gate)) };
    }
}

impl Session<'_> {
    pub fn volume(&mut self) -> &mut Volume {
        self.volume
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn calls(&mut self) -> Calls<'_, 'static, Chip> {
        Calls {
            fs: self.volume,
            open: &mut self.list,
            now: self.now,
        }
    }

    /// The file behind a handle that is open on this volume, and the volume.
    pub fn file(
        &mut self,
        handle: *mut flashlight_file,
    ) -> Result<(&mut OpenFile, &mut Volume), c_int> {
        let handle: *mut Handle = place(handle.cast_const())?.as_ptr().cast();
        if !self.list.contains(handle) {
            return Err(FLASHLIGHT_E_BADF);
        }
        // SAFETY: it is in the list, so it was opened and not closed since.
        Ok((unsafe { &mut (*handle).file }, self.volume))
    }

    /// Checks that a handle is not open already, here or elsewhere.
    pub fn check_closed(&self, handle: *mut flashlight_file) -> Result<(), c_int> {
        let handle: *mut Handle = place(handle.cast_const())?.as_ptr().cast();
        // SAFETY: the caller of the function says that a handle is there.
        let open = unsafe { (*handle).open };
        if self.list.contains(handle) || open == mark(FILE, handle) {
            return Err(FLASHLIGHT_E_BUSY);
        }
        Ok(())
    }

    /// Puts a file into a handle that is not open.
    pub fn add(&mut self, handle: *mut flashlight_file, file: OpenFile) {
        let handle: *mut Handle = handle.cast();
        // SAFETY: there is room for it, as asserted above, and nothing in it is in use.
        unsafe {
            handle.write(Handle {
                open: mark(FILE, handle),
                owner: self.state,
                next: *self.list.0,
                file,
            });
            *self.list.0 = handle;
        }
    }

    /// Takes a file out of its handle, which is closed then.
    pub fn take(&mut self, handle: *mut flashlight_file) -> Result<OpenFile, c_int> {
        let file = *self.file(handle)?.0;
        let handle: *mut Handle = handle.cast();
        // SAFETY: it is in the list, whose handles are all there.
        unsafe {
            let mut link = self.list.0;
            while *link != handle {
                link = addr_of_mut!((**link).next);
            }
            *link = (*handle).next;
            (*handle).open = 0;
            (*handle).owner = core::ptr::null_mut();
        }
        Ok(file)
    }

    pub fn has_open_files(&self) -> bool {
        // SAFETY: the list begins in the state.
        !unsafe { *self.list.0 }.is_null()
    }

    /// Opens a directory handle.
    pub fn add_dir(&mut self, handle: *mut flashlight_dir, listing: Listing) {
        let handle: *mut DirHandle = handle.cast();
        // SAFETY: as in `add`.
        unsafe {
            handle.write(DirHandle {
                open: mark(DIR, handle),
                owner: self.state,
                mount: (*self.state).mount,
                listing,
            });
        }
    }

    /// What is behind a directory handle that is open on this volume, and the volume.
    pub fn dir(
        &mut self,
        handle: *mut flashlight_dir,
    ) -> Result<(&mut DirHandle, &mut Volume), c_int> {
        let handle: *mut DirHandle = place(handle.cast_const())?.as_ptr().cast();
        // SAFETY: the caller of the function says that a handle is there.
        unsafe {
            let is_open = (*handle).open == mark(DIR, handle)
                && (*handle).owner == self.state
                && (*handle).mount == (*self.state).mount;
            match is_open {
                true => Ok((&mut *handle, self.volume)),
                false => Err(FLASHLIGHT_E_BADF),
            }
        }
    }

    /// Ends the mount. There is nothing in a volume to be dropped.
    pub fn end(self) {
        // SAFETY: as in `drop`.
        unsafe { Gate::set_mounted(addr_of_mut!((*self.state).gate), false) };
    }
}

impl DirHandle {
    pub fn close(&mut self) {
        self.open = 0;
    }
}

/// A volume that is being made or mounted: calls are refused meanwhile.
pub(crate) struct Mounting {
    state: *mut State,
    options: flashlight_options,
}

impl Mounting {
    /// # Safety
    /// As [`begin`].
    pub unsafe fn begin(fs: *mut flashlight, options: flashlight_options) -> Result<Self, c_int> {
        let state = state(fs)?;
        if options.lock.is_some() != options.unlock.is_some() || options.read_only > 1 {
            return Err(FLASHLIGHT_E_INVAL);
        }
        let lock = Lock {
            context: options.context,
            lock: options.lock,
            unlock: options.unlock,
        };
        // SAFETY: the caller's promise.
        unsafe { Gate::prepare(addr_of_mut!((*state).gate), lock)? };
        Ok(Mounting { state, options })
    }

    pub fn is_read_only(&self) -> bool {
        self.options.read_only == 1
    }

    /// Where the volume is, or will be; nothing is there yet.
    pub fn place(&mut self) -> &'static mut Option<Volume> {
        // SAFETY: there is room for it, as asserted above, and the gate lets no other call there.
        unsafe { &mut *addr_of_mut!((*self.state).volume) }.write(None)
    }

    /// The volume that has been put there.
    fn placed(&mut self) -> Result<&'static mut Volume, Error<Failure>> {
        // SAFETY: as above; something has been written there.
        let place = unsafe { (*addr_of_mut!((*self.state).volume)).assume_init_mut() };
        place.as_mut().ok_or(Error::NotFormatted)
    }

    /// Makes an empty volume of what is in its place, with the room of a mounted one.
    pub fn format(
        mut self,
        number: u32,
        root: &New,
        config: &Config,
    ) -> Result<(), Error<Failure>> {
        self.placed()?.format_placed(number, root, config)
    }

    /// Mounts the volume in its place.
    pub fn mount(&mut self, config: &Config) -> Result<(), Error<Failure>> {
        self.placed()?.mount_placed(config)?;
        // SAFETY: as above.
        unsafe {
            (*self.state).options = self.options;
            (*self.state).files = core::ptr::null_mut();
            (*self.state).mount = (*self.state).mount.wrapping_add(1);
            Gate::set_mounted(addr_of_mut!((*self.state).gate), true);
        }
        Ok(())
    }
}

impl Drop for Mounting {
    fn drop(&mut self) {
        // SAFETY: it was there at the begin.
        unsafe { Gate::leave(addr_of_mut!((*self.state).gate)) };
    }
}
