//! What C points to, checked as far as can be.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use core::slice;

/// A pointer is null, or does not have the alignment of what it points to.
pub const FAULT: c_int = -14;
/// More than half of all addresses: there cannot be so many bytes.
pub const TOO_MANY: c_int = -22;

/// A place that C points to: not null, and aligned.
///
/// # Errors
/// [`FAULT`].
pub fn place<T>(at: *const T) -> Result<NonNull<T>, c_int> {
    match NonNull::new(at.cast_mut()) {
        Some(place) if at.is_aligned() => Ok(place),
        _ => Err(FAULT),
    }
}

/// Whether there can be so many bytes there. No bytes may be anywhere.
fn check_bytes(at: *const c_void, len: usize) -> Result<NonNull<u8>, c_int> {
    if len > usize::MAX / 2 {
        return Err(TOO_MANY);
    }
    match NonNull::new(at.cast_mut().cast()) {
        Some(place) => Ok(place),
        None if len == 0 => Ok(NonNull::dangling()),
        None => Err(FAULT),
    }
}

/// Bytes from C.
///
/// # Safety
/// `at` is null or points to `len` bytes that stay as they are for as long as this is used.
///
/// # Errors
/// [`FAULT`], [`TOO_MANY`].
pub unsafe fn bytes<'a>(at: *const c_void, len: usize) -> Result<&'a [u8], c_int> {
    let at = check_bytes(at, len)?;
    // SAFETY: the caller's promise; not null and not too many.
    Ok(unsafe { slice::from_raw_parts(at.as_ptr(), len) })
}

/// Room for bytes from C.
///
/// # Safety
/// As [`bytes`], and nobody else uses them.
///
/// # Errors
/// As of [`bytes`].
pub unsafe fn room<'a>(at: *mut c_void, len: usize) -> Result<&'a mut [u8], c_int> {
    let at = check_bytes(at, len)?;
    // SAFETY: the caller's promise; not null and not too many.
    Ok(unsafe { slice::from_raw_parts_mut(at.as_ptr(), len) })
}
