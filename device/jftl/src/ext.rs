//! Finds the journal of an ext3 or ext4 file system: superblock, inode, and the inode's blocks.
//!
//! All that is read here is a guess about somebody else's data. A wrong one
//! costs savings, nothing else.

use flashkit_bytes::{crc32c, get_u16, get_u32, put_u32};
use flashkit_nand::Nand;

use crate::journal::{RUN, runs};
use crate::state::Jftl;

/// The journal's shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// First sector of the file system.
    pub base: u32,
    /// Sectors of its blocks.
    pub per_block: u32,
    /// Pieces of the journal.
    pub run_count: usize,
    /// Blocks of the journal.
    pub blocks: u32,
    /// What the superblock said, to see whether it says the same later.
    pub digest: u32,
}

/// Why no journal is watched.
type Why = &'static str;

const UNREADABLE: Why = "the file system cannot be read";
const LIES: Why = "the superblock is not sound";
const SHAPE: Why = "the journal's inode is not sound";

fn le16(bytes: &[u8], at: usize) -> u32 {
    get_u16(bytes, at).into()
}

/// Bytes of a superblock that are looked at.
pub(crate) const SUPER: usize = 0x150;
/// Where a superblock begins in its file system.
pub(crate) const SUPER_AT: u64 = 1024;

/// Whether bytes may be a superblock.
pub(crate) fn is_super(sb: &[u8]) -> bool {
    le16(sb, 0x38) == 0xEF53 && get_u32(sb, 0x18) <= 6
}

/// What decides where the journal is.
pub(crate) fn digest(sb: &[u8]) -> u32 {
    let ranges = [0x14..0x1C, 0x58..0x78, 0xD0..0xE8, 0x10C..0x150];
    ranges
        .into_iter()
        .fold(0, |sum: u32, range| sum.rotate_left(5) ^ crc32c(&sb[range]))
}

/// Bytes of a block of the file system that begins at a byte, if its journal can be followed on
/// a disk with such sectors.
fn block_size(sb: &[u8], base: u64, page: u64) -> Result<u64, Why> {
    if !is_super(sb) {
        return Err("there is no ext3 or ext4 file system");
    }
    let block = 1024u64 << get_u32(sb, 0x18);
    if !base.is_multiple_of(page) {
        return Err("the partition is not aligned to the sectors");
    }
    if !block.is_multiple_of(page) {
        return Err(
            "the file system's blocks are smaller than the sectors (`mkfs.ext4 -b 4096` makes larger ones)",
        );
    }
    if get_u32(sb, 0x60) & 0x8 != 0 || (get_u32(sb, 0xE0) == 0 && get_u32(sb, 0xE4) != 0) {
        return Err("the journal is on another device");
    }
    if get_u32(sb, 0x5C) & 0x4 == 0 {
        return Err("the file system has no journal");
    }
    Ok(block)
}

/// Reads bytes of the disk through a buffer of one sector.
pub(crate) struct Reader<'r, 'a, N> {
    pub disk: &'r mut Jftl<'a, N>,
    pub buf: &'r mut [u8],
    /// The sector in the buffer.
    pub holds: Option<u32>,
}

impl<N: Nand> Reader<'_, '_, N> {
    fn bytes(&mut self, at: u64, out: &mut [u8]) -> Result<(), Why> {
        let page = self.buf.len() as u64;
        for (at, byte) in (at..).zip(out) {
            let sector = u32::try_from(at / page).map_err(|_| LIES)?;
            if self.holds != Some(sector) {
                if sector >= self.disk.lay.sectors {
                    return Err(LIES);
                }
                self.holds = None;
                let read = self.disk.read_plain(sector, self.buf);
                read.map_err(|_| UNREADABLE)?;
                self.holds = Some(sector);
            }
            *byte = self.buf[(at % page) as usize];
        }
        Ok(())
    }

    fn word(&mut self, at: u64) -> Result<u32, Why> {
        let mut word = [0; 4];
        self.bytes(at, &mut word)?;
        Ok(u32::from_le_bytes(word))
    }

    /// Finds the journal of the first file system that has one: on the whole disk, or in a
    /// partition. Its pieces are then in the table.
    pub fn find(&mut self, table: &mut [u8]) -> Result<Found, Why> {
        let mut why = match self.at(0, table) {
            Ok(found) => return Ok(found),
            Err(why) => why,
        };
        let mut partitions = [0; 66];
        self.bytes(446, &mut partitions)?;
        if partitions[64..] != [0x55, 0xAA] {
            return Err(why);
        }
        for entry in partitions[..64].chunks_exact(16) {
            let start = u64::from(get_u32(entry, 8)) * 512;
            let result = match entry[4] {
                0 => continue,
                0xEE => self.in_gpt(table),
                _ => self.at(start, table),
            };
            match result {
                Ok(found) => return Ok(found),
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    fn in_gpt(&mut self, table: &mut [u8]) -> Result<Found, Why> {
        let mut header = [0; 88];
        self.bytes(512, &mut header)?;
        let (entries, count, len) = (
            get_u32(&header, 72),
            get_u32(&header, 80),
            get_u32(&header, 84),
        );
        if &header[..8] != b"EFI PART" || get_u32(&header, 76) != 0 || len < 128 {
            return Err("the partition table is not sound");
        }
        let mut why = "there is no ext3 or ext4 file system";
        for i in 0..count.min(16) {
            let at = u64::from(entries) * 512 + u64::from(i) * u64::from(len);
            let (low, high) = (self.word(at + 32)?, self.word(at + 36)?);
            if low == 0 || high != 0 {
                continue;
            }
            match self.at(u64::from(low) * 512, table) {
                Ok(found) => return Ok(found),
                Err(other) => why = other,
            }
        }
        Err(why)
    }

    /// The journal of the file system that begins at a byte.
    fn at(&mut self, base: u64, table: &mut [u8]) -> Result<Found, Why> {
        let mut sb = [0; SUPER];
        self.bytes(base + SUPER_AT, &mut sb)?;
        let page = self.buf.len() as u64;
        let block = block_size(&sb, base, page)?;
        let mut found = Found {
            base: (base / page) as u32,
            per_block: (block / page) as u32,
            run_count: 0,
            blocks: 0,
            digest: digest(&sb),
        };
        let node = self.journal_inode(base, &sb, block)?;
        let bytes = u64::from(get_u32(&node, 0x4)) | u64::from(get_u32(&node, 0x6C)) << 32;
        let blocks = bytes / block;
        if blocks < 8 {
            return Err(SHAPE);
        }
        if blocks > table.len() as u64 / 4 {
            return Err("the journal is larger than the table for it");
        }
        found.blocks = blocks as u32;
        let mut list = List {
            runs: &mut table[4 * blocks as usize..],
            count: 0,
            block,
            blocks: found.blocks,
            next: 0,
            end: 0,
        };
        if le16(&node, 0x28) == 0xF30A {
            let mut root = [0; 60];
            root.copy_from_slice(&node[0x28..0x64]);
            self.extents(base, &root, &mut list)?;
        } else {
            self.pointers(base, &node[0x28..0x64], &mut list)?;
        }
        if !list.is_full() {
            return Err(SHAPE);
        }
        found.run_count = list.count;
        let last = self.disk.lay.sectors;
        for run in runs(table, found.blocks, found.run_count) {
            let end = (u64::from(run.block) + u64::from(run.len)) * u64::from(found.per_block);
            if u64::from(found.base) + end > u64::from(last) {
                return Err(LIES);
            }
        }
        Ok(found)
    }

    /// The journal's inode.
    fn journal_inode(&mut self, base: u64, sb: &[u8], block: u64) -> Result<[u8; 128], Why> {
        let (inode, per_group) = (get_u32(sb, 0xE0), get_u32(sb, 0x28));
        let size = if get_u32(sb, 0x4C) == 0 {
            128
        } else {
            le16(sb, 0x58)
        };
        if inode == 0 || inode > per_group || !size.is_power_of_two() || size < 128 {
            return Err(LIES);
        }
        let group = base + (u64::from(get_u32(sb, 0x14)) + 1) * block;
        let inodes = self.word(group + 8)?;
        let mut node = [0; 128];
        let at = u64::from(inode - 1) * u64::from(size);
        self.bytes(base + u64::from(inodes) * block + at, &mut node)?;
        Ok(node)
    }

    /// Blocks by an extent tree of depth 0 or 1.
    fn extents(&mut self, base: u64, root: &[u8; 60], list: &mut List<'_>) -> Result<(), Why> {
        let (count, depth) = (le16(root, 2) as usize, le16(root, 6));
        if count > 4 || depth > 1 {
            return Err(SHAPE);
        }
        for entry in root[12..12 + 12 * count].chunks_exact(12) {
            if depth == 0 {
                list.add_extent(entry)?;
                continue;
            }
            let leaf = base + u64::from(get_u32(entry, 4)) * list.block;
            let mut header = [0; 12];
            self.bytes(leaf, &mut header)?;
            let within = le16(&header, 2);
            if le16(&header, 0) != 0xF30A || le16(&header, 6) != 0 {
                return Err(SHAPE);
            }
            for i in 0..u64::from(within).min(list.block / 12 - 1) {
                let mut entry = [0; 12];
                self.bytes(leaf + 12 + 12 * i, &mut entry)?;
                list.add_extent(&entry)?;
            }
        }
        Ok(())
    }

    /// Blocks by direct and indirect pointers.
    fn pointers(&mut self, base: u64, pointers: &[u8], list: &mut List<'_>) -> Result<(), Why> {
        for i in 0..12 {
            list.add(get_u32(pointers, 4 * i), 1)?;
        }
        for level in 1..=3 {
            let pointer = get_u32(pointers, 4 * (11 + level));
            self.indirect(base, pointer, level, list)?;
        }
        Ok(())
    }

    fn indirect(
        &mut self,
        base: u64,
        block: u32,
        level: usize,
        list: &mut List<'_>,
    ) -> Result<(), Why> {
        for i in 0..list.block / 4 {
            if list.is_full() {
                return Ok(());
            }
            let pointer = self.word(base + u64::from(block) * list.block + 4 * i)?;
            if level == 1 {
                list.add(pointer, 1)?;
            } else {
                self.indirect(base, pointer, level - 1, list)?;
            }
        }
        Ok(())
    }
}

/// The pieces under construction.
struct List<'l> {
    /// Where they go.
    runs: &'l mut [u8],
    count: usize,
    /// Bytes of a block.
    block: u64,
    /// Blocks of the journal.
    blocks: u32,
    /// Its next one.
    next: u32,
    /// The block of the file system behind the last piece.
    end: u32,
}

impl List<'_> {
    fn is_full(&self) -> bool {
        self.next >= self.blocks
    }

    fn add_extent(&mut self, entry: &[u8]) -> Result<(), Why> {
        if get_u32(entry, 0) != self.next || le16(entry, 6) != 0 {
            return Err(SHAPE);
        }
        let len = le16(entry, 4);
        self.add(
            get_u32(entry, 8),
            if len > 0x8000 { len - 0x8000 } else { len },
        )
    }

    fn add(&mut self, block: u32, len: u32) -> Result<(), Why> {
        if self.is_full() {
            return Ok(());
        }
        let len = len.min(self.blocks - self.next);
        if block == 0 || len == 0 {
            return Err(SHAPE);
        }
        if self.count == 0 || block != self.end {
            let at = self.count * RUN;
            if at + RUN > self.runs.len() {
                return Err("the journal is in more pieces than the table has room for");
            }
            put_u32(self.runs, at, block);
            put_u32(self.runs, at + 4, self.next);
            self.count += 1;
        }
        self.end = block.checked_add(len).ok_or(SHAPE)?;
        self.next += len;
        Ok(())
    }
}
