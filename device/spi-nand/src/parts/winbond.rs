//! Winbond. Ids, shapes, spare bytes and status codes: Linux, drivers/mtd/nand/spi/winbond.c, and
//! ECC_DECODE_CHECKLIST.md of Espressif's spi_nand_flash, which cites the data sheets. What is
//! covered of the six bytes: blog.troed.se/posts/winbond_nand_ecc and nick-black.com/dankwiki, both
//! after the data sheet of the W25N01GV. Times: the data sheet's tRD, tPP and tBE as ArduPilot's
//! AP_Logger_W25NXX names them, 60 us, 700 us and 10 ms. Buffer mode (BUF) and that a program load
//! sets the rest to 0xFF: data sheet of the W25N01GV, configuration register and command 02h.
//! Copies: Espressif's nand_copy does them between any blocks of the parts that it knows.

use super::{SECTIONS_OF_6, USUAL, bare};
use crate::{Config, CopyRule, Ecc, Part, Run, Times};

/// Of each 16 bytes of the first 64, all but the first two.
const SECTIONS_OF_14: [Run; 4] = [bare(2, 14), bare(18, 14), bare(34, 14), bare(50, 14)];

/// Chips that correct one bit.
const GV: Part = Part {
    maker: "Winbond",
    spare: &SECTIONS_OF_6,
    ecc: Ecc::OneBit,
    copy: CopyRule::Any,
    config: Config { set: 8, clear: 0 },
    load_clears: true,
    times: Times {
        read_us: 60,
        program_us: 700,
        erase_us: 10_000,
    },
    ..USUAL
};

/// Chips that correct several.
const KV: Part = Part {
    raw_spare: 128,
    spare: &SECTIONS_OF_14,
    ecc: Ecc::Register30,
    ecc_bits: 8,
    blocks: 2048,
    ..GV
};

/// Winbond's parts.
pub static WINBOND: [Part; 9] = [
    // Not in Linux; its 1.8 V sister W25N512GW is.
    Part {
        name: "W25N512GV",
        id: &[0xEF, 0xAA, 0x20],
        blocks: 512,
        ..GV
    },
    Part {
        name: "W25N512GW",
        id: &[0xEF, 0xBA, 0x20],
        blocks: 512,
        ..GV
    },
    Part {
        name: "W25N01GV",
        id: &[0xEF, 0xAA, 0x21],
        ..GV
    },
    Part {
        name: "W25N01GW",
        id: &[0xEF, 0xBA, 0x21],
        ..GV
    },
    // Espressif does not know it: no source for its copies.
    Part {
        name: "W25N01KV",
        id: &[0xEF, 0xAE, 0x21],
        raw_spare: 96,
        blocks: 1024,
        ecc_bits: 4,
        copy: CopyRule::Never,
        ..KV
    },
    Part {
        name: "W25N02KV",
        id: &[0xEF, 0xAA, 0x22],
        ..KV
    },
    Part {
        name: "W25N02KW",
        id: &[0xEF, 0xBA, 0x22],
        copy: CopyRule::Never,
        ..KV
    },
    // Its data sheet forbids copies between planes and does not say which blocks are in which
    // (ECC_DECODE_CHECKLIST.md).
    Part {
        name: "W25N04KV",
        id: &[0xEF, 0xAA, 0x23],
        blocks: 4096,
        copy: CopyRule::Never,
        ..KV
    },
    Part {
        name: "W25N04KW",
        id: &[0xEF, 0xBA, 0x23],
        blocks: 4096,
        copy: CopyRule::Never,
        ..KV
    },
];
