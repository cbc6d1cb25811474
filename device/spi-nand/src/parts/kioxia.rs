//! Kioxia, formerly Toshiba. Ids, shapes, spare bytes and status codes: Linux,
//! drivers/mtd/nand/spi/toshiba.c. Times: drivers of Ingenic's U-Boot have 30 us, 360 us and 2 ms
//! for the TC58CVG0S3HRAIG, 300 us, 600 us and 7 ms for the TC58CVG2S0HRAIJ; these are ten times
//! the longer ones. No source for copies.

use super::{USUAL, bare};
use crate::{Ecc, Part, Run, Times};

/// The lower half, but for the mark.
const HALF: [Run; 1] = [bare(2, 62)];
const HALF_OF_256: [Run; 1] = [bare(2, 126)];

const OF_2K: Part = Part {
    maker: "Kioxia",
    raw_spare: 128,
    spare: &HALF,
    ecc: Ecc::Register30,
    ecc_bits: 8,
    times: Times {
        read_us: 3_000,
        program_us: 6_000,
        erase_us: 70_000,
    },
    ..USUAL
};

const OF_4K: Part = Part {
    page_size: 4096,
    raw_spare: 256,
    spare: &HALF_OF_256,
    blocks: 2048,
    ..OF_2K
};

/// Kioxia's parts. G is the first generation, J the second.
pub static KIOXIA: [Part; 7] = [
    Part {
        name: "TC58CVG0S3HRAIG",
        id: &[0x98, 0xC2],
        ..OF_2K
    },
    Part {
        name: "TC58CVG1S3HRAIG",
        id: &[0x98, 0xCB],
        blocks: 2048,
        ..OF_2K
    },
    Part {
        name: "TC58CVG2S0HRAIG",
        id: &[0x98, 0xCD],
        ..OF_4K
    },
    Part {
        name: "TC58CVG0S3HRAIJ",
        id: &[0x98, 0xE2],
        ..OF_2K
    },
    Part {
        name: "TC58CVG1S3HRAIJ",
        id: &[0x98, 0xEB],
        blocks: 2048,
        ..OF_2K
    },
    Part {
        name: "TC58CVG2S0HRAIJ",
        id: &[0x98, 0xED],
        ..OF_4K
    },
    Part {
        name: "TH58CVG3S0HRAIJ",
        id: &[0x98, 0xE4],
        blocks: 4096,
        ..OF_4K
    },
];
