//! Who may use what lies behind: nobody before a mount, and one call at a time.
//!
//! A gate is the first field of what C calls a volume or a disk. It is read by raw pointers before
//! anything else: a call from inside a callback finds it while the call above has what is behind
//! it. Its words are made of a number and the address they lie at, so that memory of anything else
//! is not taken for a mount.

use core::ffi::{c_int, c_void};

/// A call is under way, or the lock was refused, or there is a mount already.
pub const BUSY: c_int = -16;
/// Nothing is mounted there.
pub const NOT_MOUNTED: c_int = -107;

const MOUNTED: usize = 0x464c_4d31;
const IN_CALL: usize = 0x464c_4231;

/// What stands at an address that is what the number says.
pub fn mark<T>(number: usize, at: *const T) -> usize {
    number ^ (at as usize).rotate_left(7)
}

/// A lock of C, if it has one.
#[derive(Clone, Copy)]
pub struct Lock {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Gives 0 when no other thread is in a call.
    pub lock: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// The end of it.
    pub unlock: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Lock {
    /// No lock.
    pub const NONE: Lock = Lock {
        context: core::ptr::null_mut(),
        lock: None,
        unlock: None,
    };

    fn is(&self, other: Lock) -> bool {
        let words = |lock: &Lock| {
            let functions = (
                lock.lock.map(|f| f as usize),
                lock.unlock.map(|f| f as usize),
            );
            (lock.context, functions)
        };
        words(self) == words(&other)
    }

    unsafe fn lock(&self) -> Result<(), c_int> {
        // SAFETY: the promise of who made it.
        match self.lock.map(|lock| unsafe { lock(self.context) }) {
            None | Some(0) => Ok(()),
            Some(_) => Err(BUSY),
        }
    }

    unsafe fn unlock(&self) {
        if let Some(unlock) = self.unlock {
            // SAFETY: as above.
            unsafe { unlock(self.context) };
        }
    }
}

/// The first field of what C calls a volume or a disk. All zeros is closed.
pub struct Gate {
    mounted: usize,
    in_call: usize,
    lock: Lock,
}

impl Gate {
    /// Whether there is a mount, and a call under way.
    unsafe fn marks(gate: *mut Gate) -> (bool, bool) {
        // SAFETY: the caller's promise; every bit pattern is a number.
        let (mounted, in_call) = unsafe { ((*gate).mounted, (*gate).in_call) };
        (
            mounted == mark(MOUNTED, gate),
            in_call == mark(IN_CALL, gate),
        )
    }

    /// Begins a call of what is mounted; [`Gate::leave`] ends it.
    ///
    /// # Safety
    /// `gate` points to memory of a gate, all zeros before its first mount; of others that use it,
    /// each comes through here.
    ///
    /// # Errors
    /// [`BUSY`], [`NOT_MOUNTED`].
    pub unsafe fn enter(gate: *mut Gate) -> Result<(), c_int> {
        // SAFETY: the caller's promise.
        unsafe {
            match Gate::marks(gate) {
                (true, _) => {}
                (false, true) => return Err(BUSY),
                (false, false) => return Err(NOT_MOUNTED),
            }
            let lock = (*gate).lock;
            lock.lock()?;
            let refusal = match Gate::marks(gate) {
                // While this call waited, the mount may have ended, and one with another lock
                // begun.
                (true, false) if lock.is((*gate).lock) => {
                    (*gate).in_call = mark(IN_CALL, gate);
                    return Ok(());
                }
                (false, false) => NOT_MOUNTED,
                _ => BUSY,
            };
            lock.unlock();
            Err(refusal)
        }
    }

    /// Ends a call, or a mount that was begun.
    ///
    /// # Safety
    /// [`Gate::enter`] or [`Gate::prepare`] let it in.
    pub unsafe fn leave(gate: *mut Gate) {
        // SAFETY: the caller's promise.
        unsafe {
            let lock = (*gate).lock;
            (*gate).in_call = 0;
            lock.unlock();
        }
    }

    /// Begins a mount: calls are refused until [`Gate::leave`].
    ///
    /// # Safety
    /// As [`Gate::enter`].
    ///
    /// # Errors
    /// [`BUSY`].
    pub unsafe fn prepare(gate: *mut Gate, lock: Lock) -> Result<(), c_int> {
        // SAFETY: the caller's promise.
        unsafe {
            if Gate::marks(gate) != (false, false) {
                return Err(BUSY);
            }
            lock.lock()?;
            // Another mount may have been quicker.
            if Gate::marks(gate) != (false, false) {
                lock.unlock();
                return Err(BUSY);
            }
            (*gate).lock = lock;
            (*gate).in_call = mark(IN_CALL, gate);
        }
        Ok(())
    }

    /// From now on there is a mount, or none any more.
    ///
    /// # Safety
    /// In a call, or in a mount that was begun.
    pub unsafe fn set_mounted(gate: *mut Gate, is: bool) {
        let mounted = if is { mark(MOUNTED, gate) } else { 0 };
        // SAFETY: the caller's promise.
        unsafe { (*gate).mounted = mounted };
    }
}
