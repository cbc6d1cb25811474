//! Little-endian fields in byte slices.

#[inline]
pub(crate) fn get_u16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

#[inline]
pub(crate) fn get_u32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

#[inline]
pub(crate) fn get_u64(b: &[u8], at: usize) -> u64 {
    u64::from(get_u32(b, at)) | u64::from(get_u32(b, at + 4)) << 32
}

#[inline]
pub(crate) fn put_u16(b: &mut [u8], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_le_bytes());
}

#[inline]
pub(crate) fn put_u32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

#[inline]
pub(crate) fn put_u64(b: &mut [u8], at: usize, v: u64) {
    b[at..at + 8].copy_from_slice(&v.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_byte_comes_first_and_neighbours_stay() {
        let mut b = [0xee; 20];
        put_u16(&mut b, 1, 0x0201);
        put_u32(&mut b, 4, 0x0403_0201);
        put_u64(&mut b, 9, 0x0807_0605_0403_0201);
        assert_eq!(b[..8], [0xee, 1, 2, 0xee, 1, 2, 3, 4]);
        assert_eq!(b[8..18], [0xee, 1, 2, 3, 4, 5, 6, 7, 8, 0xee]);
        assert_eq!((get_u16(&b, 1), get_u32(&b, 4)), (0x0201, 0x0403_0201));
        assert_eq!(get_u64(&b, 9), 0x0807_0605_0403_0201);
    }
}
