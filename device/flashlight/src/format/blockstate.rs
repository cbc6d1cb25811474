//! The state of a block in the block table.

use crate::format::wellformed::blocks;
use flashkit_bytes::{get_u16, put_u16};
use flashkit_nand::Geometry;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Metadata, with this many valid pages.
    Meta(u32),
    /// File data, with this many valid pages.
    Data(u32),
    /// Anchors, checkpoints, and the allocation log.
    System,
    /// Bad.
    Bad,
    /// Nothing valid; free after the next checkpoint.
    Dead,
    /// Free; to be erased before use.
    Free,
    /// Free and erased.
    Clean,
}

const SYSTEM: u32 = 250;

const BAD: u32 = 251;

const DEAD: u32 = 253;

const FREE: u32 = 254;

const CLEAN: u32 = 255;

/// Bytes of an entry for this many pages per block.
pub(crate) const fn entry_size(pages_per_block: u32) -> usize {
    if pages_per_block <= 120 { 1 } else { 2 }
}

/// Bytes of the table of a chip.
pub(crate) const fn size(geo: &Geometry) -> usize {
    blocks(geo) as usize * entry_size(geo.pages_per_block())
}

/// Entries as they are in RAM and on flash.
#[derive(Clone, Copy)]
pub(crate) struct Entries {
    pub(crate) wide: bool,
}

impl Entries {
    pub const fn of(pages_per_block: u32) -> Self {
        Entries {
            wide: entry_size(pages_per_block) == 2,
        }
    }

    pub const fn size(self) -> usize {
        if self.wide { 2 } else { 1 }
    }

    /// First value of a state without a count, less its one-byte value, and first value of
    /// [`BlockState::Data`].
    fn bases(self) -> (u32, u32) {
        if self.wide {
            (0xff00, 0x7f80)
        } else {
            (0, 121)
        }
    }

    /// The entry at `i`; media contents that mean nothing read as [`BlockState::Bad`].
    #[inline]
    pub fn get(self, bytes: &[u8], i: usize) -> BlockState {
        let v = if self.wide {
            u32::from(get_u16(bytes, 2 * i))
        } else {
            u32::from(bytes[i])
        };
        let (special, data) = self.bases();
        match v.wrapping_sub(special) {
            SYSTEM => BlockState::System,
            DEAD => BlockState::Dead,
            FREE => BlockState::Free,
            CLEAN => BlockState::Clean,
            _ if v < data => BlockState::Meta(v),
            _ if v < 2 * data => BlockState::Data(v - data),
            _ => BlockState::Bad,
        }
    }

    #[inline]
    pub fn set(self, bytes: &mut [u8], i: usize, state: BlockState) {
        let (special, data) = self.bases();
        let v = match state {
            BlockState::Meta(n) => n,
            BlockState::Data(n) => n + data,
            BlockState::System => special + SYSTEM,
            BlockState::Bad => special + BAD,
            BlockState::Dead => special + DEAD,
            BlockState::Free => special + FREE,
            BlockState::Clean => special + CLEAN,
        };
        if self.wide {
            put_u16(bytes, 2 * i, v as u16);
        } else {
            bytes[i] = v as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_round_trips() {
        for ppb in [32, 64, 120, 128, 1024] {
            let mut bytes = [0u8; 32];
            let t = Entries::of(ppb);
            let mut states = vec![
                BlockState::System,
                BlockState::Bad,
                BlockState::Dead,
                BlockState::Free,
                BlockState::Clean,
            ];
            states.extend((0..=ppb).flat_map(|n| [BlockState::Meta(n), BlockState::Data(n)]));
            for s in states {
                t.set(&mut bytes, 3, s);
                assert_eq!(t.get(&bytes, 3), s, "{ppb}");
            }
        }
    }

    #[test]
    fn what_means_nothing_is_a_bad_block() {
        let narrow = Entries::of(64);
        for value in 0..=255u8 {
            let mut bytes = [value];
            let state = narrow.get(&bytes, 0);
            let meant = value < 242 || [250, 251, 253, 254, 255].contains(&value);
            assert_eq!(state == BlockState::Bad, !meant || value == 251, "{value}");
            narrow.set(&mut bytes, 0, state);
            assert_eq!(bytes[0] == value, meant, "{value}");
        }
        let wide = Entries::of(128);
        for value in [0xff00, 0xfff9, 0xfffc] {
            assert_eq!(
                wide.get(&u16::to_le_bytes(value), 0),
                BlockState::Bad,
                "{value:x}"
            );
        }
        assert_eq!(wide.get(&[0xff, 0xff], 0), BlockState::Clean);
    }

    #[test]
    fn an_entry_leaves_its_neighbours() {
        for ppb in [64, 128] {
            let (t, mut bytes) = (Entries::of(ppb), [0x33; 10]);
            t.set(&mut bytes, 2, BlockState::Data(ppb));
            let (from, to) = (2 * t.size(), 3 * t.size());
            assert!(
                bytes[..from]
                    .iter()
                    .chain(&bytes[to..])
                    .all(|byte| *byte == 0x33)
            );
        }
    }
}
