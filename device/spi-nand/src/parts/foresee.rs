//! FORESEE. Ids, shapes, spare bytes and status codes: Linux, drivers/mtd/nand/spi/foresee.c. No
//! source for copies and times.

use super::{USUAL, bare};
use crate::{Ecc, Part, Run};

/// All but the mark: the parity is elsewhere.
const ALL_OF_64: [Run; 1] = [bare(2, 62)];

const F35SQA: Part = Part {
    maker: "FORESEE",
    spare: &ALL_OF_64,
    ecc: Ecc::OneBit,
    ..USUAL
};

/// FORESEE's parts.
pub static FORESEE: [Part; 2] = [
    Part {
        name: "F35SQA001G",
        id: &[0xCD, 0x71, 0x71],
        ..F35SQA
    },
    Part {
        name: "F35SQA002G",
        id: &[0xCD, 0x72, 0x72],
        blocks: 2048,
        ..F35SQA
    },
];
