//! State of every erase block, one byte each (two where a block has more than 120 pages).
//!
//! The paper's bitmap holds one bit a block: free or not. Here the same page holds the number of
//! valid pages, so that a victim is found without reading, a block whose last page becomes
//! invalid is known at once, and no cap on the number of dirty blocks is needed for correctness.

use crate::wellformed::blocks;
use flashkit_nand::Geometry;

/// What a block is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
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

/// Byte `i` of the entry of a state without a count.
pub(crate) fn raw_byte(state: State, size: usize, i: usize) -> u8 {
    let v = match state {
        State::Bad => BAD,
        _ => FREE,
    };
    if size == 2 && i == 1 { 0xff } else { v as u8 }
}

/// The table, in the caller's RAM.
pub(crate) struct Table<'r> {
    bytes: &'r mut [u8],
    wide: bool,
}

/// Bytes of an entry for this many pages per block.
pub(crate) const fn entry_size(pages_per_block: u32) -> usize {
    if pages_per_block <= 120 { 1 } else { 2 }
}

/// Bytes of the table of a chip.
pub(crate) const fn size(geo: &Geometry) -> usize {
    blocks(geo) as usize * entry_size(geo.pages_per_block())
}

impl<'r> Table<'r> {
    pub fn new(bytes: &'r mut [u8], pages_per_block: u32) -> Self {
        Table {
            bytes,
            wide: entry_size(pages_per_block) == 2,
        }
    }

    pub fn blocks(&self) -> u32 {
        (self.bytes.len() / if self.wide { 2 } else { 1 }) as u32
    }

    /// The bytes as they go to flash.
    pub fn raw(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// First value of a state without a count, less its one-byte value, and first value of
    /// [`State::Data`].
    fn bases(&self) -> (u32, u32) {
        if self.wide {
            (0xff00, 0x7f80)
        } else {
            (0, 121)
        }
    }

    /// State of a block; media contents that mean nothing read as [`State::Bad`].
    pub fn get(&self, block: u32) -> State {
        let i = block as usize;
        let v = if self.wide {
            u32::from(u16::from_le_bytes([
                self.bytes[2 * i],
                self.bytes[2 * i + 1],
            ]))
        } else {
            u32::from(self.bytes[i])
        };
        let (special, data) = self.bases();
        match v.wrapping_sub(special) {
            SYSTEM => State::System,
            DEAD => State::Dead,
            FREE => State::Free,
            CLEAN => State::Clean,
            _ if v < data => State::Meta(v),
            _ if v < 2 * data => State::Data(v - data),
            _ => State::Bad,
        }
    }

    pub fn set(&mut self, block: u32, state: State) {
        let (special, data) = self.bases();
        let v = match state {
            State::Meta(n) => n,
            State::Data(n) => n + data,
            State::System => special + SYSTEM,
            State::Bad => special + BAD,
            State::Dead => special + DEAD,
            State::Free => special + FREE,
            State::Clean => special + CLEAN,
        };
        let i = block as usize;
        if self.wide {
            self.bytes[2 * i..2 * i + 2].copy_from_slice(&(v as u16).to_le_bytes());
        } else {
            self.bytes[i] = v as u8;
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
            let mut t = Table::new(&mut bytes, ppb);
            let mut states = vec![
                State::System,
                State::Bad,
                State::Dead,
                State::Free,
                State::Clean,
            ];
            states.extend((0..=ppb).flat_map(|n| [State::Meta(n), State::Data(n)]));
            for s in states {
                t.set(3, s);
                assert_eq!(t.get(3), s, "{ppb}");
            }
        }
    }
}
