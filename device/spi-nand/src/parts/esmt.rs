//! ESMT, with GigaDevice's maker byte. Ids, shapes, spare bytes and status codes: Linux,
//! drivers/mtd/nand/spi/esmt.c; its drawing has four covered bytes in each section of the
//! F50L1G41LB that Linux leaves unused. No source for copies and times.

use super::{SECTIONS_OF_6, USUAL, bare};
use crate::{Part, Run};

/// What Linux uses: of each 32 bytes two.
const SECTIONS_OF_2: [Run; 4] = [bare(2, 2), bare(34, 2), bare(66, 2), bare(98, 2)];

const F50: Part = Part {
    maker: "ESMT",
    spare: &SECTIONS_OF_6,
    ..USUAL
};

/// ESMT's parts.
pub static ESMT: [Part; 3] = [
    Part {
        name: "F50L1G41LB",
        id: &[0xC8, 0x01, 0x7F, 0x7F, 0x7F],
        ..F50
    },
    Part {
        name: "F50D1G41LB",
        id: &[0xC8, 0x11, 0x7F, 0x7F, 0x7F],
        ..F50
    },
    Part {
        name: "F50D2G41KA",
        id: &[0xC8, 0x51, 0x7F, 0x7F, 0x7F],
        raw_spare: 128,
        blocks: 2048,
        spare: &SECTIONS_OF_2,
        ecc_bits: 8,
        ..F50
    },
];
