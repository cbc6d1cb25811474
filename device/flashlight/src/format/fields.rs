//! Fields of pages that may say anything: what is beyond the end is 0, or empty. So no view of a
//! page panics, whatever leads it to look there.
//!
//! On a target without an operating system these are calls: there are hundreds of them, and code
//! counts. That of four bytes is not: in the boot reader it is shorter in place.

/// Bytes of a slice, as an array; zeros where there are not so many.
#[inline]
fn field<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let bytes = b.get(at..).and_then(<[u8]>::first_chunk);
    bytes.copied().unwrap_or([0; N])
}

/// The field of a byte at `at`.
#[cfg_attr(target_os = "none", inline(never))]
#[cfg_attr(not(target_os = "none"), inline)]
pub(crate) fn get_u8(b: &[u8], at: usize) -> u8 {
    b.get(at).copied().unwrap_or_default()
}

/// The field of 2 bytes at `at`.
#[cfg_attr(target_os = "none", inline(never))]
#[cfg_attr(not(target_os = "none"), inline)]
pub(crate) fn get_u16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(b, at))
}

/// The field of 4 bytes at `at`.
#[inline]
pub(crate) fn get_u32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(b, at))
}

/// The field of 8 bytes at `at`.
#[cfg_attr(target_os = "none", inline(never))]
#[cfg_attr(not(target_os = "none"), inline)]
pub(crate) fn get_u64(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(b, at))
}

/// Sets the field of 2 bytes at `at`, if there is room.
#[inline]
pub(crate) fn put_u16(b: &mut [u8], at: usize, v: u16) {
    if let Some(field) = b.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = v.to_le_bytes();
    }
}

/// Sets the field of 4 bytes at `at`, if there is room.
#[inline]
pub(crate) fn put_u32(b: &mut [u8], at: usize, v: u32) {
    if let Some(field) = b.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = v.to_le_bytes();
    }
}

/// So many bytes from `at` on; none where there are not so many.
#[cfg_attr(target_os = "none", inline(never))]
#[cfg_attr(not(target_os = "none"), inline)]
pub(crate) fn part(b: &[u8], at: usize, len: usize) -> &[u8] {
    b.get(at..).and_then(|b| b.get(..len)).unwrap_or_default()
}

/// Of `n` records of `size` bytes, in order of their first words, the first whose word, shifted
/// right by `shift`, is at least `key`.
#[cfg_attr(target_os = "none", inline(never))]
pub(crate) fn search(records: &[u8], size: usize, n: usize, key: u32, shift: u32) -> usize {
    let (mut lo, mut hi) = (0, n);
    while lo < hi {
        let mid = usize::midpoint(lo, hi);
        if get_u32(records, size * mid) >> shift < key {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    lo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_end_is_nothing() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(get_u32(&bytes, 5), 0x0908_0706);
        assert_eq!((get_u32(&bytes, 6), get_u64(&bytes, 2)), (0, 0));
        assert_eq!((get_u16(&bytes, usize::MAX), get_u8(&bytes, 9)), (0, 0));
        assert_eq!(part(&bytes, 7, 2), [8, 9]);
        assert_eq!(part(&bytes, 7, 3), [0; 0]);
        assert_eq!(part(&bytes, usize::MAX, usize::MAX), [0; 0]);
    }
}
