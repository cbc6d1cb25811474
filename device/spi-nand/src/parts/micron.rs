//! Micron. Ids, shapes, planes, spare bytes, status codes, and that bit 0 of the configuration
//! (continuous read) is on at power-up in the 4 Gbit parts: Linux, drivers/mtd/nand/spi/micron.c.
//! Copies and typical times (46 us, 55 us and 115 us; 220 us and 240 us; 2 ms): Espressif's
//! nand_micron.c and nand_copy, which copies within a plane. That the 2 Gbit parts need the plane
//! in the column: the same, and zephyrproject-rtos/zephyr, issue 105161.

use super::{USUAL, bare};
use crate::{Config, CopyRule, Ecc, Part, Run, Times};

/// The lower half, but for the mark.
const HALF: [Run; 1] = [bare(2, 62)];
const HALF_OF_256: [Run; 1] = [bare(2, 126)];

const MT29F1G: Part = Part {
    maker: "Micron",
    raw_spare: 128,
    spare: &HALF,
    ecc: Ecc::ThreeBits,
    ecc_bits: 8,
    copy: CopyRule::Any,
    times: Times {
        read_us: 1_200,
        program_us: 2_400,
        erase_us: 20_000,
    },
    ..USUAL
};

const MT29F2G: Part = Part {
    blocks: 2048,
    planes: 2,
    copy: CopyRule::SamePlane,
    ..MT29F1G
};

const MT29F4G: Part = Part {
    page_size: 4096,
    raw_spare: 256,
    spare: &HALF_OF_256,
    blocks: 2048,
    config: Config { set: 0, clear: 1 },
    ..MT29F1G
};

/// Micron's parts.
pub static MICRON: [Part; 6] = [
    Part {
        name: "MT29F1G01ABAFD",
        id: &[0x2C, 0x14],
        ..MT29F1G
    },
    Part {
        name: "MT29F1G01ABBFD",
        id: &[0x2C, 0x15],
        ..MT29F1G
    },
    Part {
        name: "MT29F2G01ABAGD",
        id: &[0x2C, 0x24],
        ..MT29F2G
    },
    Part {
        name: "MT29F2G01ABBGD",
        id: &[0x2C, 0x25],
        ..MT29F2G
    },
    Part {
        name: "MT29F4G01ABAFD",
        id: &[0x2C, 0x34],
        ..MT29F4G
    },
    Part {
        name: "MT29F4G01ABBFD",
        id: &[0x2C, 0x35],
        ..MT29F4G
    },
];
