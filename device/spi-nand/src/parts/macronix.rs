//! Macronix. Ids, shapes, spare bytes and status codes: Linux, drivers/mtd/nand/spi/macronix.c.
//! Planes in the column of reads and loads: linux-mtd, "insertion of the Plane Select bit" for
//! MX35LF2GE4AB and MX35LF2G14AC. Status codes of the AD parts, their copies and typical times
//! (10 us, 400 us, 6 ms): Espressif's ECC_DECODE_CHECKLIST.md, nand_copy and nand_macronix.c.

use super::{USUAL, bare};
use crate::{CopyRule, Ecc, Part, Run, Times};

/// All but the mark: the parity is elsewhere.
const ALL_OF_64: [Run; 1] = [bare(2, 62)];
const ALL_OF_128: [Run; 1] = [bare(2, 126)];

const AB: Part = Part {
    maker: "Macronix",
    spare: &ALL_OF_64,
    ecc: Ecc::Command7c,
    ecc_bits: 4,
    times: Times {
        read_us: 250,
        program_us: 4_400,
        erase_us: 60_000,
    },
    ..USUAL
};

const AD: Part = Part {
    ecc: Ecc::Command7cOrThreshold,
    ecc_bits: 8,
    blocks: 2048,
    copy: CopyRule::Any,
    ..AB
};

/// Macronix's parts.
pub static MACRONIX: [Part; 7] = [
    Part {
        name: "MX35LF1GE4AB",
        id: &[0xC2, 0x12],
        ..AB
    },
    // Linux reads no count of it.
    Part {
        name: "MX35LF2GE4AB",
        id: &[0xC2, 0x22],
        blocks: 2048,
        planes: 2,
        ecc: Ecc::TwoBits,
        ..AB
    },
    Part {
        name: "MX35LF2G14AC",
        id: &[0xC2, 0x20],
        blocks: 2048,
        planes: 2,
        ..AB
    },
    Part {
        name: "MX35LF2GE4AD",
        id: &[0xC2, 0x26],
        ..AD
    },
    Part {
        name: "MX35LF4GE4AD",
        id: &[0xC2, 0x37],
        page_size: 4096,
        raw_spare: 128,
        spare: &ALL_OF_128,
        ..AD
    },
    Part {
        name: "MX35UF1GE4AC",
        id: &[0xC2, 0x92],
        ..AB
    },
    Part {
        name: "MX35UF2GE4AC",
        id: &[0xC2, 0xA2],
        blocks: 2048,
        ..AB
    },
];
