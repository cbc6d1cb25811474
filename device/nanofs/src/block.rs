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
//! the check: c0 its lowest, c2 its highest. The check is a CRC of 27 bits (x^27 + x^10 + x^8 +
//! x^7 + 1, which is primitive; reflected, without a final XOR) over all 512 bytes with the check's
//! own bits zero. It starts from a number of 32 bits, added to the first four bytes, that says what
//! the block must be, so that a block of another kind, file or place is not taken for it. Into the
//! lower 9 bits of a node's check its epoch is mixed (XOR): who does not know the epoch has 18 bits
//! to check, and sees any change within 8 bits in a row; with all of the check, within 27.

use core::sync::atomic::{Ordering, compiler_fence};

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
/// What an epoch is in the check.
pub(crate) const EPOCH_BITS: u32 = 0x1ff;

/// Takes the check off a block, so that the numbers are bare; gives what it
/// must be, and what it was.
#[inline(never)]
pub(crate) fn unseal(block: &mut Block, init: u32) -> (u32, u32) {
    let mut held = 0;
    for word in block.iter_mut().take(3) {
        held = held >> 9 | u32::from_le(*word) >> NUMBER_BITS << 18;
        *word &= NUMBER.to_le();
    }
    let mut crc = init;
    let halves: &[u16; BLOCK / 2] = bytemuck::cast_ref(block);
    for half in halves {
        crc ^= u32::from(u16::from_le(*half));
        // The terms are so few and so far down that 16 bits can leave at a time, without a table.
        let out = crc & 0xffff;
        crc = crc >> 16 ^ out << 1 ^ out << 3 ^ out << 4 ^ out << 11;
    }
    (crc, held)
}

/// Sets the check of a block, with something mixed in.
#[inline(never)]
pub(crate) fn seal(block: &mut Block, init: u32, mix: u32) {
    let mut crc = unseal(block, init).0 ^ mix;
    for word in block.iter_mut().take(3) {
        *word |= (crc << NUMBER_BITS).to_le();
        crc >>= 9;
    }
}

/// Makes a block all zeros.
// The loop must not become a call of `memset`: that would be larger than all that calls it.
#[inline(never)]
pub(crate) fn clear(block: &mut Block) {
    for word in block {
        *word = 0;
        compiler_fence(Ordering::SeqCst);
    }
}

/// The bytes of a block.
#[inline(always)]
pub(crate) fn bytes(block: &mut Block) -> &mut [u8; BLOCK] {
    bytemuck::cast_mut(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check as the text above tells it, bit by bit.
    fn bit_by_bit(block: &Block, init: u32) -> u32 {
        const TERMS: u32 = 1 << 26 | 1 << (26 - 7) | 1 << (26 - 8) | 1 << (26 - 10);
        let mut crc = init;
        for (i, word) in block.iter().enumerate() {
            let word = if i < 3 { word & NUMBER } else { *word };
            for bit in 0..32 {
                crc ^= word >> bit & 1;
                crc = crc >> 1 ^ if crc & 1 == 1 { TERMS } else { 0 };
            }
        }
        crc
    }

    fn sealed(init: u32, mix: u32) -> Block {
        let mut block = core::array::from_fn(|i| (i as u32).wrapping_mul(0x9e37_79b9));
        block[..3].copy_from_slice(&[NUMBER, 0, 5]);
        seal(&mut block, init, mix);
        block
    }

    #[test]
    fn the_check_is_the_polynomial_of_the_text() {
        for init in [0, 1, 0xdead_beef, u32::MAX] {
            let mut block = sealed(init, 0);
            let want = bit_by_bit(&block, init);
            assert_eq!(unseal(&mut block, init), (want, want), "{init:x}");
            assert_eq!(block[..3], [NUMBER, 0, 5], "the numbers are bare");
        }
    }

    #[test]
    fn no_changed_bit_of_a_block_is_believed() {
        let block = sealed(7, 0);
        for bit in 0..8 * BLOCK {
            let mut damaged = block;
            damaged[bit / 32] ^= 1 << (bit % 32);
            let (must, was) = unseal(&mut damaged, 7);
            assert_ne!(must, was, "bit {bit}");
        }
    }

    #[test]
    fn a_block_of_another_kind_or_place_is_not_taken_for_it() {
        for other in [0, 6, 8, 7 | 1 << 31] {
            let (must, was) = unseal(&mut sealed(7, 0), other);
            assert_ne!(must, was, "{other}");
        }
    }

    #[test]
    fn an_epoch_is_in_the_lowest_bits_of_the_check_alone() {
        for epoch in [1, 0x155, EPOCH_BITS] {
            let (must, was) = unseal(&mut sealed(7, epoch), 7);
            assert_eq!(must ^ was, epoch);
        }
    }
}
