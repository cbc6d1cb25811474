//! The table of parts.
//!
//! A row carries facts of public drivers and data sheets; each maker's file names its sources, and
//! a row with more or other sources says so. No row was tried on a chip by this project.
//!
//! Parts of several dies in one package, whose dies must be selected, are not in it.

use crate::{CacheRead, Config, CopyRule, Ecc, IdRead, Part, Run, Times};

mod esmt;
mod foresee;
mod gigadevice;
mod kioxia;
mod macronix;
mod micron;
mod winbond;
mod xtx;

pub use esmt::ESMT;
pub use foresee::FORESEE;
pub use gigadevice::GIGADEVICE;
pub use kioxia::KIOXIA;
pub use macronix::MACRONIX;
pub use micron::MICRON;
pub use winbond::WINBOND;
pub use xtx::XTX;

/// All of them, maker by maker.
pub static ALL: [&[Part]; 8] = [
    &WINBOND,
    &GIGADEVICE,
    &MICRON,
    &MACRONIX,
    &KIOXIA,
    &XTX,
    &FORESEE,
    &ESMT,
];

/// What most rows have in common: 1 Gbit in the usual shape. Where a row says nothing else, it is
/// cautious: no spare bytes, no copies, long waits.
pub(crate) const USUAL: Part = Part {
    maker: "",
    name: "",
    id_read: IdRead::AfterByte,
    id: &[],
    page_size: 2048,
    raw_spare: 64,
    pages_per_block: 64,
    blocks: 1024,
    planes: 1,
    spare: &[],
    ecc: Ecc::TwoBits,
    ecc_bits: 1,
    copy: CopyRule::Never,
    config: Config { set: 0, clear: 0 },
    cache_read: CacheRead::DummyLast,
    load_clears: false,
    times: Times {
        read_us: 1_000,
        program_us: 10_000,
        erase_us: 100_000,
    },
};

/// A run of which no source says that ECC covers it.
const fn bare(offset: u16, len: u16) -> Run {
    Run {
        offset,
        len,
        protected: false,
    }
}

/// A run that ECC covers.
const fn covered(offset: u16, len: u16) -> Run {
    Run {
        offset,
        len,
        protected: true,
    }
}

/// Of each 16 bytes, two for a bad-block mark or reserved, two bare, four covered, eight of parity.
const SECTIONS_OF_6: [Run; 8] = [
    bare(2, 2),
    covered(4, 4),
    bare(18, 2),
    covered(20, 4),
    bare(34, 2),
    covered(36, 4),
    bare(50, 2),
    covered(52, 4),
];
