//! A chip's contents as a list of pages, to be changed and made a chip again.

use std::io::{Read, Write};

use flashkit_flashlight::{Config, Kind, ram_needed, ram_needed_for};
use flashkit_nand::{BlockAddr, Geometry, Nand, PageAddr};
use flashkit_sim::{Access, ChipSpec, SimNand, Tear, Tearable, Timing};

use crate::seal::{is_metadata, u32_at};

/// What a page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// Nothing: erased.
    Blank,
    /// Data and usable spare bytes.
    Written(Vec<u8>, Vec<u8>),
    /// It was attempted, and reads as erased.
    LooksBlank,
    /// It cannot be read.
    Garbage,
}

/// A chip's contents.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its shape.
    pub geometry: Geometry,
    /// All its pages.
    pub pages: Vec<Page>,
    /// For each block whether it is marked bad.
    pub bad: Vec<bool>,
    /// Where the records of each kind are, the newest first; at 0 the data pages.
    pub kinds: [Vec<u32>; Kind::ALL.len() + 1],
}

/// Latencies; nothing depends on them.
const TIMING: Timing = Timing {
    read_ns: 77_800,
    program_ns: 252_800,
    erase_ns: 1_500_000,
};

/// An erased chip of this shape.
pub fn chip(geometry: Geometry) -> SimNand {
    SimNand::new(ChipSpec::new(geometry, TIMING))
}

impl Image {
    /// Takes down what a chip holds.
    pub fn of(chip: &mut SimNand) -> Image {
        let geometry = chip.geometry();
        let bad = (0..geometry.blocks()).map(|b| chip.is_bad(BlockAddr(b)).expect("in RAM"));
        let mut image = Image {
            bad: bad.collect(),
            geometry,
            pages: Vec::new(),
            kinds: Default::default(),
        };
        for at in (0..geometry.pages()).map(PageAddr) {
            let mut data = vec![0; geometry.page_size() as usize];
            let mut spare = vec![0; geometry.spare_size() as usize];
            let status = chip.read(at, 0, &mut data, &mut spare).expect("in RAM");
            let is_blank = data.iter().chain(&spare).all(|byte| *byte == 0xff);
            image.pages.push(match status.is_readable() {
                false => Page::Garbage,
                true if is_blank => Page::Blank,
                true => Page::Written(data, spare),
            });
        }
        image.index();
        image
    }

    /// Reads what [`Image::pack`] has made.
    pub fn unpack(gz: &[u8]) -> Image {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(gz)
            .read_to_end(&mut bytes)
            .expect("a compressed image");
        file.write_all(&bytes).expect("room for an image");
        let mut chip = SimNand::open(file.path(), Access::ReadOnlyCow).expect("a valid image");
        Image::of(&mut chip)
    }

    /// The simulator's image file of this chip, compressed.
    pub fn pack(&self) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let spec = ChipSpec::new(self.geometry, TIMING);
        let mut chip = SimNand::create(file.path(), spec).expect("room for an image");
        self.fill(&mut chip);
        drop(chip);
        let bytes = std::fs::read(file.path()).expect("an image");
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gz.write_all(&bytes).expect("RAM");
        gz.finish().expect("RAM")
    }

    /// A chip with these contents.
    pub fn chip(&self) -> SimNand {
        let mut chip = chip(self.geometry);
        self.fill(&mut chip);
        chip.clear_counters();
        chip
    }

    fn fill(&self, chip: &mut SimNand) {
        for (at, page) in (0..).map(PageAddr).zip(&self.pages) {
            let done = match page {
                Page::Blank => Ok(()),
                Page::Written(data, spare) => chip.program(at, data, spare).map(drop),
                Page::LooksBlank => chip.program_torn(at, &[], &[], Tear::LooksBlank, 0),
                Page::Garbage => chip.program_torn(at, &[], &[], Tear::Garbage, 0),
            };
            done.expect("the chip is in RAM");
        }
        for (block, _) in (0..).zip(&self.bad).filter(|(_, bad)| **bad) {
            chip.mark_bad(BlockAddr(block)).expect("the chip is in RAM");
        }
    }

    /// Finds the records again.
    pub fn index(&mut self) {
        let mut found: [Vec<(u64, u32)>; Kind::ALL.len() + 1] = Default::default();
        for (at, page) in (0..).zip(&self.pages) {
            let Page::Written(data, _) = page else {
                continue;
            };
            match data[6] {
                kind if (1..=Kind::ALL.len()).contains(&kind.into()) && is_metadata(data) => {
                    let seq = u64::from(u32_at(data, 8)) | u64::from(u32_at(data, 12)) << 32;
                    found[usize::from(kind)].push((seq, at));
                }
                _ => found[0].push((at.into(), at)),
            }
        }
        self.kinds = found.map(|mut list| {
            list.sort_unstable();
            list.iter().rev().map(|(_, at)| *at).collect()
        });
    }

    /// The pages that were programmed, up to the last of each block.
    pub fn attempted(&self, block: u32) -> u32 {
        let first = (block * self.geometry.pages_per_block()) as usize;
        let pages = &self.pages[first..first + self.geometry.pages_per_block() as usize];
        let last = pages.iter().rposition(|page| *page != Page::Blank);
        last.map_or(0, |last| last as u32 + 1)
    }
}

/// Blocks of a page of the block table of the image `table`, where it lies on flash.
pub const TABLE_PAGE: u32 = 24;

/// The choices of a mount that suits every image. Its dirty list is soon full.
pub fn config() -> Config {
    Config {
        table_page: TABLE_PAGE,
        dirty_entries: 6,
        ..Config::default()
    }
}

/// The RAM for it.
pub fn ram(geometry: &Geometry) -> Vec<u8> {
    vec![0; ram_needed_for(geometry, TABLE_PAGE).max(ram_needed(geometry))]
}

/// The stored images: volumes in every state, each small. See `examples/images.rs`, which makes
/// them.
pub fn stored() -> &'static [(&'static str, Image)] {
    static STORED: std::sync::OnceLock<Vec<(&str, Image)>> = std::sync::OnceLock::new();
    STORED.get_or_init(|| {
        PACKED
            .iter()
            .map(|(name, gz)| (*name, Image::unpack(gz)))
            .collect()
    })
}

/// A volume of before the snapshot of the block table was coded, which is never made anew.
pub fn plain() -> Image {
    Image::unpack(include_bytes!("../../../fuzz/images/plain.img.gz"))
}

macro_rules! packed {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../../../fuzz/images/", $name, ".img.gz")) as &[u8])),*]
    };
}

static PACKED: [(&str, &[u8]); 10] = packed![
    "clean", "unclean", "bare", "cut", "hash", "extents", "full", "wide", "updates", "table",
];
