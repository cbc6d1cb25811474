//! GigaDevice. Ids, shapes, spare bytes and status codes: Linux, drivers/mtd/nand/spi/gigadevice.c.
//! Copies between blocks of the same parity: espressif/idf-extra-components, pull requests 735 and
//! 800, after the data sheets; taken for all parts of the maker. Times: typical ones of Espressif's
//! nand_gigadevice.c are 25 us, 380 us and 3.2 ms.

use super::{USUAL, bare};
use crate::{CacheRead, CopyRule, Ecc, IdRead, Part, Run, Times};

/// Of each 16 bytes the first eight, but for the mark.
const SECTIONS_OF_8: [Run; 4] = [bare(1, 7), bare(16, 8), bare(32, 8), bare(48, 8)];
/// The lower half, but for the mark.
const HALF: [Run; 1] = [bare(1, 63)];
const HALF_OF_256: [Run; 1] = [bare(1, 127)];

const Q4A: Part = Part {
    maker: "GigaDevice",
    spare: &SECTIONS_OF_8,
    ecc: Ecc::SevenOrEight,
    ecc_bits: 8,
    copy: CopyRule::SameParity,
    times: Times {
        read_us: 250,
        program_us: 3_800,
        erase_us: 32_000,
    },
    ..USUAL
};

/// The data sheet of the 1 Gbit part speaks of an ECC of 4 bits, Linux of 8. The lower is taken:
/// data is moved earlier then.
const Q4E: Part = Part {
    raw_spare: 128,
    spare: &HALF,
    ecc: Ecc::UpToEightF0,
    ecc_bits: 4,
    ..Q4A
};

const Q4F: Part = Part {
    id_read: IdRead::Direct,
    cache_read: CacheRead::DummyFirst,
    raw_spare: 128,
    spare: &HALF,
    ecc: Ecc::Counted,
    ..Q4A
};

const Q5: Part = Part {
    ecc: Ecc::UpToFourF0,
    ..Q4E
};

const GM: Part = Part { ecc_bits: 8, ..Q4E };

/// GigaDevice's parts. U is for 3.3 V, R for 1.8 V.
pub static GIGADEVICE: [Part; 19] = [
    Part {
        name: "GD5F1GQ4UA",
        id: &[0xC8, 0xF1],
        ..Q4A
    },
    Part {
        name: "GD5F2GQ4UA",
        id: &[0xC8, 0xF2],
        blocks: 2048,
        ..Q4A
    },
    Part {
        name: "GD5F4GQ4UA",
        id: &[0xC8, 0xF4],
        blocks: 4096,
        ..Q4A
    },
    Part {
        name: "GD5F1GQ4UE",
        id: &[0xC8, 0xD1],
        ..Q4E
    },
    Part {
        name: "GD5F1GQ4RE",
        id: &[0xC8, 0xC1],
        ..Q4E
    },
    Part {
        name: "GD5F2GQ4UE",
        id: &[0xC8, 0xD2],
        blocks: 2048,
        ..Q4E
    },
    Part {
        name: "GD5F2GQ4RE",
        id: &[0xC8, 0xC2],
        blocks: 2048,
        ..Q4E
    },
    Part {
        name: "GD5F1GQ4UF",
        id: &[0xC8, 0xB1, 0x48],
        ..Q4F
    },
    Part {
        name: "GD5F4GQ4UC",
        id: &[0xC8, 0xB4, 0x68],
        page_size: 4096,
        raw_spare: 256,
        spare: &HALF_OF_256,
        blocks: 2048,
        ..Q4F
    },
    Part {
        name: "GD5F1GQ5UE",
        id: &[0xC8, 0x51],
        ..Q5
    },
    Part {
        name: "GD5F1GQ5RE",
        id: &[0xC8, 0x41],
        ..Q5
    },
    Part {
        name: "GD5F2GQ5UE",
        id: &[0xC8, 0x52],
        blocks: 2048,
        ..Q5
    },
    Part {
        name: "GD5F2GQ5RE",
        id: &[0xC8, 0x42],
        blocks: 2048,
        ..Q5
    },
    // Two LUNs of 2,048 blocks in one row of numbers.
    Part {
        name: "GD5F4GQ6UE",
        id: &[0xC8, 0x55],
        blocks: 4096,
        copy: CopyRule::SameParityAndHalf,
        ..Q5
    },
    Part {
        name: "GD5F1GM7UE",
        id: &[0xC8, 0x91],
        ..GM
    },
    Part {
        name: "GD5F1GM7RE",
        id: &[0xC8, 0x81],
        ..GM
    },
    Part {
        name: "GD5F2GM7UE",
        id: &[0xC8, 0x92],
        blocks: 2048,
        ..GM
    },
    Part {
        name: "GD5F2GM7RE",
        id: &[0xC8, 0x82],
        blocks: 2048,
        ..GM
    },
    // "Within the same 2 Gbit": pull request 735, of data sheet DS-00846.
    Part {
        name: "GD5F4GM8UE",
        id: &[0xC8, 0x95],
        blocks: 4096,
        copy: CopyRule::SameParityAndHalf,
        ..GM
    },
];
