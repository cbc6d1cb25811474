//! A sealed block: the form of every block on the medium.
//!
//! ```text
//!  0         4         8         12                                   512
//!  +---------+---------+---------+------------------------------------+
//!  | a  | c0 | b  | c1 | c  | c2 | 500 bytes                          |
//!  +---------+---------+---------+------------------------------------+
//! ```
//!
//! Each of the first three little-endian words holds a number of 23 bits and, above it, 9 bits of
//! the check: c0 its lowest, c2 its highest. The check is the lower 27 bits of a CRC-32 (IEEE,
//! reflected, without a final XOR) over all 512 bytes with the check's own bits zero. It starts
//! from a number that says what the block must be, so that a block of another kind, file or place
//! is not taken for it. Into the upper 9 bits of a node's check its epoch is mixed (XOR): who does
//! not know the epoch has 18 bits to check.

/// Bytes in a block.
pub const BLOCK: usize = 512;
/// Bytes of a block before its payload.
pub(crate) const HEAD: usize = 12;
/// Data bytes in a node.
pub const NODE_DATA: u32 = 500;

pub(crate) type Block = [u32; BLOCK / 4];

/// Bits of a number: blocks, sizes and versions are below 2^23.
pub(crate) const NUMBER: u32 = (1 << NUMBER_BITS) - 1;
pub(crate) const NUMBER_BITS: u32 = 23;
/// Bits of the check that tell without the epoch.
pub(crate) const CHECK: u32 = (1 << EPOCH_AT) - 1;
/// The epoch's place in the check.
pub(crate) const EPOCH_AT: u32 = 18;
/// What an epoch is in the check.
pub(crate) const EPOCH_BITS: u32 = 0x1ff;

/// CRC-32 of four bits at a time.
const NIBBLES: [u32; 16] = {
    let mut table = [0; 16];
    let mut i = 0;
    while i < 16 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 4 {
            crc = (crc >> 1) ^ if crc & 1 != 0 { 0xedb8_8320 } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Sets the check to what it must be; gives how it differed from that.
#[inline(never)]
pub(crate) fn seal(block: &mut Block, init: u32) -> u32 {
    let mut held = 0;
    for word in block.iter_mut().take(3).rev() {
        held = held << 9 | u32::from_le(*word) >> NUMBER_BITS;
        *word &= NUMBER.to_le();
    }
    let mut crc = init;
    for word in block.iter() {
        crc ^= u32::from_le(*word);
        for _ in 0..8 {
            crc = (crc >> 4) ^ NIBBLES[(crc & 15) as usize];
        }
    }
    held ^= crc & ((1 << 27) - 1);
    for word in block.iter_mut().take(3) {
        *word |= (crc << NUMBER_BITS).to_le();
        crc >>= 9;
    }
    held
}

/// Makes a block all zeros.
// The loop must not become a call of `memset`: that would be larger than all that calls it.
#[inline(never)]
pub(crate) fn clear(block: &mut Block) {
    let zero = core::hint::black_box(0);
    for word in block {
        *word = zero;
    }
}

/// Copies as much as fits; returns how much that is.
#[inline(never)]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) -> u32 {
    let n = to.len().min(from.len());
    let mut i = 0;
    while i < n {
        to[i] = from[i];
        i += 1;
    }
    n as u32
}
