//! Block by block: what a kernel wrote to the journal of an ext3, and what home.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use flashkit_sim::Rng;
use serde::{Deserialize, Serialize};

use super::record::{Event, put};

/// Bytes of a block.
const BLOCK: usize = 1024;
/// Bytes of a sector.
const SECTOR: usize = 512;
/// The first word of the journal's own blocks.
const MAGIC: u32 = 0xC03B_3998;

/// Sectors by what they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Transactions committed.
    pub commits: u64,
    /// Flushes.
    #[serde(default)]
    pub flushes: u64,
    /// Written to the journal; its own blocks, and copies by what they are copies of.
    pub journal: BTreeMap<String, u64>,
    /// Written home.
    pub home: BTreeMap<String, u64>,
}

/// Where things are in an ext3 of blocks of 1 KiB.
struct Map {
    blocks: u32,
    per_group: u32,
    itable_blocks: u32,
    /// Of each group: block bitmap, inode bitmap, inode table.
    groups: Vec<[u32; 3]>,
    /// Blocks of the journal, in order.
    journal: Vec<u32>,
    /// The number in the journal of each block that is one of it.
    index: BTreeMap<u32, usize>,
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    word.map_or(0, u32::from_le_bytes)
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    le32(bytes, at).swap_bytes()
}

impl Map {
    /// Of a disk that holds one; `None` if it does not.
    fn of(disk: &[u8]) -> Option<Map> {
        let block = |n: u32| disk.get(n as usize * BLOCK..(n as usize + 1) * BLOCK);
        let sb = block(1)?;
        let (blocks, per_group) = (le32(sb, 4), le32(sb, 0x20));
        let (inodes, inode_size) = (le32(sb, 0x28), le32(sb, 0x58) & 0xFFFF);
        if le32(sb, 0x38) & 0xFFFF != 0xEF53 || le32(sb, 0x18) != 0 || per_group == 0 {
            return None;
        }
        let count = (blocks - 1).div_ceil(per_group);
        let groups: Vec<[u32; 3]> = (0..count)
            .map(|group| {
                let at = 2 * BLOCK + 32 * group as usize;
                [0, 4, 8].map(|field| le32(disk, at + field))
            })
            .collect();
        let inode = groups[0][2] as usize * BLOCK + 7 * inode_size as usize;
        let pointers = |n: u32| -> Vec<u32> {
            let words = block(n).unwrap_or_default().chunks_exact(4);
            words.map(|w| le32(w, 0)).filter(|b| *b != 0).collect()
        };
        let i_block = |i: usize| le32(disk, inode + 0x28 + 4 * i);
        let mut journal: Vec<u32> = (0..12).map(i_block).collect();
        journal.extend(pointers(i_block(12)));
        for indirect in pointers(i_block(13)) {
            journal.extend(pointers(indirect));
        }
        let index = journal.iter().copied().zip(0..).collect();
        Some(Map {
            blocks,
            per_group,
            itable_blocks: (inodes * inode_size).div_ceil(BLOCK as u32),
            groups,
            journal,
            index,
        })
    }

    /// What a block is, by its place, and by its bytes where that does not say.
    fn kind(&self, block: u32, bytes: &[u8]) -> &'static str {
        let Some(group) = block.checked_sub(1).map(|b| b / self.per_group) else {
            return "data";
        };
        let Some([block_bitmap, inode_bitmap, table]) = self.groups.get(group as usize) else {
            return "data";
        };
        let first = 1 + group * self.per_group;
        if block == *block_bitmap || block == *inode_bitmap {
            "bitmaps"
        } else if (*table..*table + self.itable_blocks).contains(&block) {
            "inodes"
        } else if block < *block_bitmap && block >= first {
            "superblock, groups"
        } else if is_directory(bytes) {
            "directories"
        } else if self.is_indirect(bytes) {
            "indirect blocks"
        } else {
            "data"
        }
    }

    fn is_indirect(&self, bytes: &[u8]) -> bool {
        let mut words = bytes.chunks_exact(4).map(|w| le32(w, 0));
        words.clone().any(|w| w != 0) && words.all(|w| w < self.blocks)
    }
}

fn is_directory(bytes: &[u8]) -> bool {
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let len = usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        if len < 8 || !len.is_multiple_of(4) || usize::from(bytes[at + 6]) + 8 > len {
            return false;
        }
        at += len;
    }
    at == bytes.len()
}

/// A block that was written.
struct Written<'a> {
    /// The event's number, and where the block begins in its data.
    at: (usize, usize),
    bytes: &'a [u8],
    in_journal: bool,
    /// What it is, or in the journal, what it is a copy of.
    kind: &'static str,
}

/// Visits each block that was written since the benchmark began; none where there is no ext3.
fn each_block(events: &[Event], size: u64, mut visit: impl FnMut(Written<'_>)) {
    let mut disk = vec![0; size as usize];
    let begin = events.iter().position(|event| *event == Event::Begin);
    let (before, after) = events.split_at(begin.unwrap_or(0));
    before.iter().for_each(|event| put(&mut disk, event));
    let Some(map) = Map::of(&disk) else {
        return;
    };
    drop(disk);
    let mut homes = vec![None; map.journal.len()];
    for (number, event) in (before.len()..).zip(after) {
        let Event::Write(offset, data) = event else {
            continue;
        };
        let first = (*offset / BLOCK as u64) as u32;
        for (i, bytes) in data.chunks(BLOCK).enumerate() {
            let block = first + i as u32;
            let index = map.index.get(&block);
            visit(Written {
                at: (number, i * BLOCK),
                bytes,
                in_journal: index.is_some(),
                kind: match index {
                    Some(index) => journal_kind(&map, &mut homes, *index, bytes),
                    None => map.kind(block, bytes),
                },
            });
        }
    }
}

fn journal_kind(map: &Map, homes: &mut [Option<u32>], index: usize, bytes: &[u8]) -> &'static str {
    if be32(bytes, 0) != MAGIC {
        return homes[index].map_or("not described", |home| map.kind(home, bytes));
    }
    match be32(bytes, 4) {
        1 => {
            describe(homes, index, bytes);
            "descriptors"
        }
        2 => "commits",
        5 => "revokes",
        _ => "the journal's superblock",
    }
}

impl Tally {
    /// Of what was asked since the benchmark began; empty where there is no ext3.
    pub fn of(events: &[Event], size: u64) -> Tally {
        let begun = events.iter().skip_while(|event| **event != Event::Begin);
        let flushes = begun.filter(|event| **event == Event::Flush).count();
        let mut tally = Tally {
            flushes: flushes as u64,
            ..Tally::default()
        };
        each_block(events, size, |block| {
            let count = if block.in_journal {
                &mut tally.journal
            } else {
                &mut tally.home
            };
            *count.entry(block.kind.into()).or_default() +=
                block.bytes.len() as u64 / SECTOR as u64;
            tally.commits += u64::from(block.kind == "commits");
        });
        tally
    }
}

/// Puts noise for the data of files, which many benchmarks write as one byte over and over: a disk
/// that codes what can be short would have it easier than with files of anybody. Sectors that held
/// the same still do; those of zeros stay, unless they are to count.
pub fn make_noise(events: &mut [Event], size: u64, zeros: bool) {
    let mut data = Vec::new();
    each_block(events, size, |block| {
        if block.kind == "data" {
            data.push(block.at);
        }
    });
    for (number, at) in data {
        if let Event::Write(_, bytes) = &mut events[number] {
            let end = bytes.len().min(at + BLOCK);
            for sector in bytes[at..end].chunks_mut(SECTOR) {
                if zeros || sector.iter().any(|byte| *byte != 0) {
                    let mut key = DefaultHasher::new();
                    sector.hash(&mut key);
                    Rng::keyed(1, key.finish()).fill(sector);
                }
            }
        }
    }
}

/// Where the blocks behind a descriptor have their homes: tags of 8 bytes.
fn describe(homes: &mut [Option<u32>], index: usize, bytes: &[u8]) {
    let (mut at, mut next) = (12, index);
    while at + 8 <= bytes.len() {
        next = if next + 1 >= homes.len() { 1 } else { next + 1 };
        homes[next] = Some(be32(bytes, at));
        let flags = be32(bytes, at + 4);
        at += if flags & 2 == 0 { 24 } else { 8 };
        if flags & 8 != 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DESCRIPTOR: u32 = 1;
    const COMMIT: u32 = 2;
    /// Where the file system has its inodes, a directory, data, and its journal.
    const INODES: u32 = 5;
    const DIRECTORY: u32 = 20;
    const DATA: u32 = 21;
    const JOURNAL: u32 = 40;
    const SIZE: u64 = 100 * BLOCK as u64;

    fn le(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn be(bytes: &mut [u8], at: usize, value: u32) {
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// An ext3 of 100 blocks in one group, twelve of them the journal's.
    fn made() -> Event {
        let mut image = vec![0; SIZE as usize];
        let sb = &mut image[BLOCK..2 * BLOCK];
        le(sb, 4, 100);
        le(sb, 0x20, 8192);
        le(sb, 0x28, 16);
        le(sb, 0x38, 0xEF53);
        le(sb, 0x58, 128);
        for (i, block) in [3, 4, INODES].into_iter().enumerate() {
            le(&mut image, 2 * BLOCK + 4 * i, block);
        }
        let journal = INODES as usize * BLOCK + 7 * 128 + 0x28;
        for (i, block) in (JOURNAL..JOURNAL + 12).enumerate() {
            le(&mut image, journal + 4 * i, block);
        }
        Event::Write(0, image.into())
    }

    fn write(block: u32, bytes: &[u8]) -> Event {
        Event::Write(u64::from(block) * BLOCK as u64, bytes.into())
    }

    /// A block of the journal's own; a descriptor of these homes.
    fn own(kind: u32, homes: &[u32]) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        be(&mut bytes, 0, MAGIC);
        be(&mut bytes, 4, kind);
        for (i, home) in homes.iter().enumerate() {
            let at = 12 + 8 * i + if i > 0 { 16 } else { 0 };
            be(&mut bytes, at, *home);
            let last = if i + 1 == homes.len() { 8 } else { 0 };
            be(&mut bytes, at + 4, last | if i > 0 { 2 } else { 0 });
        }
        bytes
    }

    fn directory() -> Vec<u8> {
        let mut bytes = vec![0; BLOCK];
        le(&mut bytes, 0, 2);
        le(&mut bytes, 4, BLOCK as u32 | 1 << 16);
        bytes[8] = b'.';
        bytes
    }

    #[test]
    fn data_becomes_noise_and_nothing_else_does() {
        let (data, inodes) = (vec![0x5A; BLOCK], vec![0x11; BLOCK]);
        let half = [vec![0; SECTOR], vec![0x33; SECTOR]].concat();
        let mixed = [&directory()[..], &data, &half].concat();
        let log = [
            &own(DESCRIPTOR, &[DATA, INODES, DIRECTORY])[..],
            &data,
            &inodes,
            &directory(),
            &own(COMMIT, &[]),
        ]
        .concat();
        let before = [
            made(),
            write(DATA, &data),
            Event::Begin,
            write(JOURNAL + 1, &log),
            Event::Flush,
            // Nobody has said whose this is.
            write(JOURNAL + 9, &data),
            write(DIRECTORY, &mixed),
            write(INODES, &inodes),
            // Half a block.
            write(DATA + 5, &data[..SECTOR]),
            write(DATA + 6, &[0x44; BLOCK]),
        ];
        let mut tally = Tally::default();
        let count = |kind: &str, n| (kind.to_owned(), n);
        (tally.commits, tally.flushes) = (1, 1);
        tally.journal.extend(
            ["commits", "data", "descriptors", "directories", "inodes"].map(|k| count(k, 2)),
        );
        tally.journal.insert("not described".into(), 2);
        tally.home.extend([
            count("data", 7),
            count("directories", 2),
            count("inodes", 2),
        ]);
        assert_eq!(Tally::of(&before, SIZE), tally);
        for zeros in [false, true] {
            let mut after = before.clone();
            make_noise(&mut after, SIZE, zeros);
            let of = |events: &[Event], number: usize, at: usize, len: usize| {
                let Event::Write(_, bytes) = &events[number] else {
                    panic!("{number} writes nothing");
                };
                bytes[at..at + len].to_vec()
            };
            let noise = of(&after, 3, BLOCK, SECTOR);
            assert!(noise.iter().filter(|byte| **byte == 0x5A).count() < 20);
            // What was the same still is: both halves, the copy in the journal,
            // the home, the half block.
            let data = [(3, BLOCK), (3, BLOCK + SECTOR), (6, BLOCK), (8, 0)];
            for (number, at) in data {
                assert_eq!(of(&after, number, at, SECTOR), noise, "{number}");
            }
            let others = [
                of(&after, 6, 2 * BLOCK + SECTOR, SECTOR),
                of(&after, 9, 0, SECTOR),
            ];
            assert!(others[0] != noise && others[1] != noise && others[0] != others[1]);
            assert!(others[0] != [0x33; SECTOR] && others[1] != [0x44; SECTOR]);
            let blank = of(&after, 6, 2 * BLOCK, SECTOR) == [0; SECTOR];
            assert_eq!(blank, !zeros);
            // All else is as it was.
            for (number, from, to) in [
                (0, 0, SIZE as usize),
                (1, 0, BLOCK),
                (3, 0, BLOCK),
                (3, 2 * BLOCK, 5 * BLOCK),
                (5, 0, BLOCK),
                (6, 0, BLOCK),
                (7, 0, BLOCK),
            ] {
                let [was, is] = [&before, &after[..]].map(|e| of(e, number, from, to - from));
                assert!(was == is, "{number} from {from}");
            }
            assert_eq!((&after[2], &after[4]), (&Event::Begin, &Event::Flush));
        }
        // Where there is no ext3 nothing is known to be data.
        let mut after = before[1..].to_vec();
        make_noise(&mut after, SIZE, true);
        assert_eq!(after, before[1..]);
    }
}
