//! What the file system takes of a board's memory, beside what the paper says of its own.

use flashkit_block::BlockDevice;
use flashkit_nanofs::{BLOCK, List, NanoFs};

use crate::report::Cell;

/// A device that takes no RAM of its own.
struct Nothing;

impl BlockDevice for Nothing {
    type Error = core::convert::Infallible;

    fn sector_size(&self) -> u32 {
        BLOCK as u32
    }
    fn sector_count(&self) -> u32 {
        0
    }
    fn read(&mut self, _: u32, _: &mut [u8]) -> Result<(), Self::Error> {
        Ok(())
    }
    fn write(&mut self, _: u32, _: &[u8]) -> Result<(), Self::Error> {
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Bytes of code and constants that the build of the firmware lets it have at most: it fails with
/// more.
fn code_at_most() -> Option<u64> {
    let script = include_str!("../../../../firmware/size.py");
    let line = script
        .lines()
        .find_map(|line| line.strip_prefix("CODE_MAX = "))?;
    line.trim().parse().ok()
}

/// Bytes of a volume with a buffer of `N` - 2 blocks. No field of it is a pointer, so this is what
/// it takes on a microcontroller too, but for what tells lists apart here.
const fn ram<const N: usize>() -> usize {
    let fields = size_of::<NanoFs<Nothing, N>>() - size_of::<List>();
    fields.next_multiple_of(4)
}

/// Blocks of a buffer, and the RAM with it.
const RAM: [(usize, usize); 3] = [(1, ram::<3>()), (2, ram::<4>()), (4, ram::<6>())];

/// Rows of the table: buffer; RAM, the paper's; code, the paper's; both, the paper's.
pub fn rows() -> Vec<Vec<Cell>> {
    let count = |n: usize| Cell::Count(n as u64);
    RAM.iter()
        .map(|(blocks, ram)| {
            // Section 4: header, handles, bitmap, collector and node, a block each; 3 KB of code.
            let papers = 5 * BLOCK + blocks * BLOCK;
            let code = code_at_most();
            vec![
                count(blocks * BLOCK),
                count(*ram),
                count(papers),
                code.into(),
                count(3072),
                code.map(|code| code + *ram as u64).into(),
                count(papers + 3072),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_buffer_is_all_that_is_added() {
        // 2,164 on a Cortex-M3 with a driver whose errors have a value (`firmware/size.py`).
        assert_eq!(RAM[0].1, 2_160);
        assert_eq!(RAM[1].1 - RAM[0].1, BLOCK);
        assert_eq!(RAM[2].1 - RAM[0].1, 3 * BLOCK);
        assert_eq!(code_at_most(), Some(6_144));
    }
}
