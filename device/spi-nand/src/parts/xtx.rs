//! XTX. Ids, shapes, spare bytes and status codes: Linux, drivers/mtd/nand/spi/xtx.c. Typical times
//! (50 us, 650 us, 3.5 ms): Espressif's nand_xtx.c, for the XT26G08D. No source for copies.

use super::{USUAL, bare};
use crate::{Ecc, Part, Run, Times};

const A_RUN: [Run; 1] = [bare(1, 47)];
/// The lower half, but for the mark.
const HALF: [Run; 1] = [bare(2, 62)];
const HALF_OF_256: [Run; 1] = [bare(2, 126)];

const A: Part = Part {
    maker: "XTX",
    spare: &A_RUN,
    ecc: Ecc::FourBits,
    ecc_bits: 8,
    times: Times {
        read_us: 500,
        program_us: 6_500,
        erase_us: 35_000,
    },
    ..USUAL
};

const D: Part = Part {
    raw_spare: 128,
    spare: &HALF,
    ecc: Ecc::UpperBits,
    ..A
};

/// XTX's parts.
pub static XTX: [Part; 6] = [
    Part {
        name: "XT26G01A",
        id: &[0x0B, 0xE1],
        ..A
    },
    Part {
        name: "XT26G02A",
        id: &[0x0B, 0xE2],
        blocks: 2048,
        ..A
    },
    Part {
        name: "XT26G04A",
        id: &[0x0B, 0xE3],
        pages_per_block: 128,
        blocks: 2048,
        ..A
    },
    Part {
        name: "XT26G01D",
        id: &[0x0B, 0x31],
        ..D
    },
    Part {
        name: "XT26G02D",
        id: &[0x0B, 0x32],
        blocks: 2048,
        ..D
    },
    Part {
        name: "XT26G04D",
        id: &[0x0B, 0x33],
        page_size: 4096,
        raw_spare: 256,
        spare: &HALF_OF_256,
        blocks: 2048,
        ..D
    },
];
