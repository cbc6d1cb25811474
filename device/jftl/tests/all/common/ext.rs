//! A file system that is nothing but its journal: superblock, inode 8, indirect block.

use flashkit_jftl::{Jftl, JournalState, MapCache};
use flashkit_nand::Nand;
use flashkit_sim::SimNand;
use flashkit_sim::spi::CopyRange;

use super::Setup;

/// A chip of which it takes a small part.
pub const SETUP: Setup = Setup {
    name: "whole",
    page: 512,
    spare: 8,
    pages: 16,
    blocks: 96,
    cache: MapCache::Whole,
    copies: CopyRange::Nothing,
};
pub const IN_BAND: Setup = Setup {
    name: "in-band",
    spare: 0,
    ..SETUP
};
pub const SMALL: Setup = Setup {
    cache: MapCache::Pieces(4),
    ..SETUP
};

pub const BLOCK: usize = 1024;
/// Blocks of the journal.
pub const JOURNAL: u32 = 64;
const DIRECT: u32 = 20;
const INDIRECT: u32 = 40;
const BEHIND: u32 = 41;
const INODES: u32 = 5;

pub const WATCHED: JournalState = JournalState::Watched {
    blocks: JOURNAL,
    block_size: BLOCK as u32,
};

/// The features of a journal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Features {
    pub wide: bool,
    pub v2: bool,
    pub v3: bool,
    pub fast: bool,
}

impl Features {
    /// Bytes of a tag.
    pub fn tag(&self) -> usize {
        let wide = if self.wide { 4 } else { 0 };
        match (self.v3, self.v2) {
            (true, _) => 16,
            (_, true) => 10 + wide,
            _ => 8 + wide,
        }
    }
}

pub fn le32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub fn be32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// The file system's block of a block of the journal.
pub fn journal_block(index: u32) -> u32 {
    if index < 12 {
        DIRECT + index
    } else {
        BEHIND + index - 12
    }
}

/// The first 110 blocks: all there is.
pub fn image(features: Features) -> Vec<u8> {
    let mut image = vec![0; 110 * BLOCK];
    let sb = &mut image[1024..2048];
    le32(sb, 0x04, 400);
    le32(sb, 0x14, 1);
    le32(sb, 0x20, 8192);
    le32(sb, 0x28, 64);
    sb[0x38..0x3A].copy_from_slice(&[0x53, 0xEF]);
    le32(sb, 0x4C, 1);
    le32(sb, 0x58, 128);
    le32(sb, 0x5C, 4);
    le32(sb, 0xE0, 8);
    le32(&mut image, 2 * BLOCK + 8, INODES);
    let node = &mut image[INODES as usize * BLOCK + 7 * 128..][..128];
    le32(node, 4, JOURNAL * BLOCK as u32);
    for i in 0..12 {
        le32(node, 0x28 + 4 * i as usize, DIRECT + i);
    }
    le32(node, 0x28 + 48, INDIRECT);
    for i in 0..JOURNAL - 12 {
        let at = INDIRECT as usize * BLOCK + 4 * i as usize;
        le32(&mut image, at, BEHIND + i);
    }
    let journal = &mut image[DIRECT as usize * BLOCK..][..BLOCK];
    let bits = [
        (features.wide, 2),
        (features.v2, 8),
        (features.v3, 0x10),
        (features.fast, 0x20),
    ];
    let incompat = bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
    be32(journal, 0, 0xC03B_3998);
    be32(journal, 4, 4);
    be32(journal, 12, BLOCK as u32);
    be32(journal, 16, JOURNAL);
    be32(journal, 20, 1);
    be32(journal, 0x28, incompat);
    be32(journal, 0x54, 8);
    image
}

/// A descriptor of so many homes.
pub fn descriptor(features: Features, sequence: u32, homes: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    be32(&mut bytes, 0, 0xC03B_3998);
    be32(&mut bytes, 4, 1);
    be32(&mut bytes, 8, sequence);
    let mut at = 12;
    for (i, home) in homes.iter().enumerate() {
        let last = if i + 1 == homes.len() { 8 } else { 0 };
        let same = if i > 0 { 2 } else { 0 };
        be32(&mut bytes, at, *home);
        be32(&mut bytes, at + 4, last | same);
        if features.v3 {
            be32(&mut bytes, at + 12, 0x1234_5678);
        }
        at += features.tag() + if i == 0 { 16 } else { 0 };
    }
    bytes
}

/// Writes a block of the file system.
pub fn write<N: Nand>(disk: &mut Jftl<'_, N>, block: u32, bytes: &[u8]) {
    let per = BLOCK as u32 / disk.sector_size();
    disk.write(block * per, bytes).unwrap();
}

/// The table that following the journal takes.
pub fn table() -> Vec<u8> {
    vec![0; 512 + 4 * JOURNAL as usize + 8 * 4]
}

/// A disk with the file system on it.
pub fn made(setup: &Setup, features: Features) -> SimNand {
    let mut chip = setup.formatted();
    let mut ram = setup.ram();
    let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
    disk.write(0, &image(features)).unwrap();
    disk.close().unwrap();
    chip
}
