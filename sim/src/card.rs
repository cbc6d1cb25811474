//! A managed medium of 512-byte blocks, such as an SD card, in RAM: exact in its counts and in a
//! virtual time, and cut as the contract of [`flashkit_block`] allows.
//!
//! [`SimCard`] is the medium. [`CardLog`] around it notes every operation, and [`CardLog::after`]
//! gives a medium as a power cut at one of them may leave it.

use flashkit_block::BlockDevice;
use flashkit_meter::{CardCounters, MeteredCard};

use crate::Rng;

/// Bytes in a block.
pub const CARD_BLOCK: usize = 512;

/// What operations take, in nanoseconds of the virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardTiming {
    /// A read command, and each of its blocks.
    pub read_ns: u64,
    /// Each block of a read.
    pub read_block_ns: u64,
    /// A write command.
    pub write_ns: u64,
    /// Each block of a write.
    pub write_block_ns: u64,
    /// More for each block of a write that was not erased before.
    pub erase_ns: u64,
    /// A trim command.
    pub trim_ns: u64,
    /// Each block of a trim.
    pub trim_block_ns: u64,
}

impl CardTiming {
    /// An SD card of class 4, as E. Werbet and A. Brayner measured theirs (*A Flash File System for
    /// Resource Restricted Platforms*, 2012, section 4): reads at 10.7 MB/s by single blocks and at
    /// 12.1 MB/s by four, writes at 4.4 and 5 MB/s.
    ///
    /// The paper does not say what erasing takes. Here a write of a block that was not erased
    /// before takes twice as long, and a trim as long as a NAND chip needs for an erase block,
    /// 2 ms, and 2 us a block.
    pub const CLASS_4: CardTiming = CardTiming {
        read_ns: 7_380,
        read_block_ns: 40_470,
        write_ns: 18_630,
        write_block_ns: 97_730,
        erase_ns: 116_360,
        trim_ns: 2_000_000,
        trim_block_ns: 2_000,
    };
}

/// Time goes on, to the end of the clock.
fn pass(counters: &mut CardCounters, ns: u64) {
    counters.time_ns = counters.time_ns.saturating_add(ns);
}

impl CardTiming {
    pub(crate) fn count_read(&self, counters: &mut CardCounters, blocks: u64) {
        counters.reads += 1;
        counters.blocks_read += blocks;
        pass(counters, self.read_ns + blocks * self.read_block_ns);
    }

    pub(crate) fn count_write(&self, counters: &mut CardCounters, blocks: u64) {
        counters.writes += 1;
        counters.blocks_written += blocks;
        pass(counters, self.write_ns + blocks * self.write_block_ns);
    }

    pub(crate) fn count_trim(&self, counters: &mut CardCounters, blocks: u64) {
        counters.trims += 1;
        counters.blocks_trimmed += blocks;
        pass(counters, self.trim_ns + blocks * self.trim_block_ns);
    }
}

/// Why a card does not do what it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardError {
    /// A block beyond the end, or a buffer that is no whole number of blocks.
    Range,
    /// The block was torn and not written since.
    Unreadable(u32),
}

impl std::fmt::Display for CardError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CardError::Range => f.write_str("beyond the end of the card"),
            CardError::Unreadable(block) => write!(f, "block {block} cannot be read"),
        }
    }
}

impl std::error::Error for CardError {}

/// A card in RAM. Blocks never written read as zeros; trimmed blocks, too.
#[derive(Clone)]
pub struct SimCard {
    bytes: Vec<u8>,
    unreadable: Vec<bool>,
    /// Written since it was made or trimmed.
    written: Vec<bool>,
    timing: CardTiming,
    counters: CardCounters,
}

impl SimCard {
    /// A card of so many blocks.
    pub fn new(blocks: u32, timing: CardTiming) -> SimCard {
        let blocks = blocks as usize;
        SimCard {
            bytes: vec![0; blocks * CARD_BLOCK],
            unreadable: vec![false; blocks],
            written: vec![false; blocks],
            timing,
            counters: CardCounters::default(),
        }
    }

    /// What it has been asked to do so far.
    pub fn counters(&self) -> CardCounters {
        self.counters
    }

    /// Counts from zero again.
    pub fn clear_counters(&mut self) {
        self.counters = CardCounters::default();
    }

    /// The contents, behind the card's back.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The contents, to be changed behind the card's back.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Makes a block one that cannot be read until it is written.
    pub fn spoil(&mut self, block: u32) {
        self.unreadable[block as usize] = true;
    }

    /// Says of every block that it has been written, as after long use.
    pub fn wear_in(&mut self) {
        self.written.fill(true);
    }

    fn range(&self, first: u32, len: usize) -> Result<std::ops::Range<usize>, CardError> {
        let start = first as usize * CARD_BLOCK;
        if !len.is_multiple_of(CARD_BLOCK) || start + len > self.bytes.len() {
            return Err(CardError::Range);
        }
        Ok(start..start + len)
    }
}

impl MeteredCard for SimCard {
    fn counters(&self) -> CardCounters {
        self.counters
    }

    fn idle(&mut self, ns: u64) {
        pass(&mut self.counters, ns);
    }
}

impl BlockDevice for SimCard {
    type Error = CardError;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        CARD_BLOCK as u32
    }

    fn sector_count(&self) -> u32 {
        self.unreadable.len() as u32
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), CardError> {
        let range = self.range(first, buf.len())?;
        let n = (buf.len() / CARD_BLOCK) as u64;
        self.timing.count_read(&mut self.counters, n);
        let blocks = first..first + n as u32;
        if let Some(block) = blocks.into_iter().find(|&b| self.unreadable[b as usize]) {
            return Err(CardError::Unreadable(block));
        }
        buf.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), CardError> {
        let range = self.range(first, data.len())?;
        let n = (data.len() / CARD_BLOCK) as u64;
        self.timing.count_write(&mut self.counters, n);
        for block in first as usize..first as usize + n as usize {
            if std::mem::replace(&mut self.written[block], true) {
                pass(&mut self.counters, self.timing.erase_ns);
            }
            self.unreadable[block] = false;
        }
        self.bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), CardError> {
        let range = self.range(first, count as usize * CARD_BLOCK)?;
        self.timing.count_trim(&mut self.counters, count.into());
        self.bytes[range].fill(0);
        self.written[first as usize..][..count as usize].fill(false);
        self.unreadable[first as usize..][..count as usize].fill(false);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CardError> {
        self.counters.flushes += 1;
        Ok(())
    }
}

/// An operation that changes a card, or orders what does.
#[derive(Clone)]
enum Step {
    Write {
        block: u32,
        data: Box<[u8; CARD_BLOCK]>,
    },
    Trim {
        first: u32,
        count: u32,
    },
    Flush,
}

/// What a cut leaves of the operations since the last flush, and of the one in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardCut {
    /// All that were done; of the one in flight nothing.
    Before,
    /// All that were done; the block in flight has its first half only.
    Half,
    /// All that were done; the block in flight holds anything.
    Garbage,
    /// All that were done; the block in flight cannot be read.
    Unreadable,
    /// None since the last flush but the one in flight, as a whole.
    Last,
    /// None since the last flush; the block in flight has its last half only.
    Lost,
    /// Each by itself, drawn from this seed.
    Some(u64),
}

/// A card that notes what changes it, block by block.
#[derive(Clone)]
pub struct CardLog {
    card: SimCard,
    start: SimCard,
    steps: Vec<Step>,
}

impl CardLog {
    /// Notes from here on.
    pub fn new(card: SimCard) -> CardLog {
        CardLog {
            start: card.clone(),
            card,
            steps: Vec::new(),
        }
    }

    /// Operations so far: blocks written, trims, flushes.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether an operation can be cut: a flush cannot.
    pub fn can_cut(&self, at: usize) -> bool {
        !matches!(self.steps[at], Step::Flush)
    }

    /// What an operation is, for messages.
    pub fn describe(&self, at: usize) -> String {
        match &self.steps[at] {
            Step::Write { block, .. } => format!("write of {block}"),
            Step::Trim { first, count } => format!("trim of {count} from {first}"),
            Step::Flush => "flush".into(),
        }
    }

    /// The card.
    pub fn card(&self) -> &SimCard {
        &self.card
    }

    /// The card, changed behind the log's back.
    pub fn card_mut(&mut self) -> &mut SimCard {
        &mut self.card
    }

    /// The card as a cut of the operation `at` leaves it.
    pub fn after(&self, at: usize, cut: CardCut) -> SimCard {
        let flushed = self.steps[..at]
            .iter()
            .rposition(|step| matches!(step, Step::Flush))
            .map_or(0, |i| i + 1);
        let mut card = self.start.clone();
        for step in &self.steps[..flushed] {
            apply(&mut card, step);
        }
        let mut rng = Rng::new(match cut {
            CardCut::Some(seed) => seed ^ at as u64,
            _ => at as u64,
        });
        for step in &self.steps[flushed..at] {
            let kept = match cut {
                CardCut::Before | CardCut::Half | CardCut::Garbage | CardCut::Unreadable => true,
                CardCut::Last | CardCut::Lost => false,
                CardCut::Some(_) => rng.one_in(2),
            };
            if kept {
                apply(&mut card, step);
            }
        }
        tear(&mut card, &self.steps[at], cut, &mut rng);
        card
    }
}

fn apply(card: &mut SimCard, step: &Step) {
    match step {
        Step::Write { block, data } => {
            card.bytes[*block as usize * CARD_BLOCK..][..CARD_BLOCK].copy_from_slice(&data[..]);
            card.unreadable[*block as usize] = false;
        }
        Step::Trim { first, count } => {
            card.bytes[*first as usize * CARD_BLOCK..][..*count as usize * CARD_BLOCK].fill(0);
        }
        Step::Flush => {}
    }
}

/// What is left of the operation in flight.
fn tear(card: &mut SimCard, step: &Step, cut: CardCut, rng: &mut Rng) {
    let Step::Write { block, data } = step else {
        // Of a trim any part may have been done.
        if let Step::Trim { first, count } = step {
            for block in *first..first + count {
                let done = match cut {
                    CardCut::Before | CardCut::Lost => false,
                    CardCut::Last => true,
                    _ => rng.one_in(2),
                };
                if done {
                    apply(
                        card,
                        &Step::Trim {
                            first: block,
                            count: 1,
                        },
                    );
                }
            }
        }
        return;
    };
    let held = &mut card.bytes[*block as usize * CARD_BLOCK..][..CARD_BLOCK];
    let half = CARD_BLOCK / 2;
    let how = match cut {
        CardCut::Some(_) => match rng.below(6) {
            0 => CardCut::Before,
            1 => CardCut::Half,
            2 => CardCut::Garbage,
            3 => CardCut::Unreadable,
            4 => CardCut::Last,
            _ => CardCut::Lost,
        },
        cut => cut,
    };
    match how {
        CardCut::Before | CardCut::Some(_) => {}
        CardCut::Half => held[..half].copy_from_slice(&data[..half]),
        CardCut::Lost => held[half..].copy_from_slice(&data[half..]),
        CardCut::Last => held.copy_from_slice(&data[..]),
        CardCut::Garbage => held.fill_with(|| rng.below(256) as u8),
        CardCut::Unreadable => card.unreadable[*block as usize] = true,
    }
}

impl BlockDevice for CardLog {
    type Error = CardError;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        self.card.sector_size()
    }

    fn sector_count(&self) -> u32 {
        self.card.sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), CardError> {
        self.card.read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), CardError> {
        self.card.write(first, data)?;
        for (i, block) in data.chunks_exact(CARD_BLOCK).enumerate() {
            let mut data = Box::new([0; CARD_BLOCK]);
            data.copy_from_slice(block);
            let block = first + i as u32;
            self.steps.push(Step::Write { block, data });
        }
        Ok(())
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), CardError> {
        self.card.trim(first, count)?;
        self.steps.push(Step::Trim { first, count });
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CardError> {
        self.card.flush()?;
        self.steps.push(Step::Flush);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> [u8; CARD_BLOCK] {
        [byte; CARD_BLOCK]
    }

    #[test]
    fn counts_and_time() {
        let timing = CardTiming {
            read_ns: 7,
            read_block_ns: 40,
            write_ns: 18,
            write_block_ns: 97,
            erase_ns: 1_000,
            trim_ns: 2_000,
            trim_block_ns: 1,
        };
        let mut card = SimCard::new(8, timing);
        card.write(1, &[1; 2 * CARD_BLOCK]).unwrap();
        assert_eq!(card.counters().time_ns, 18 + 2 * 97);
        card.write(1, &block(2)).unwrap();
        assert_eq!(card.counters().time_ns, 18 + 2 * 97 + 18 + 97 + 1_000);
        card.clear_counters();
        card.trim(1, 2).unwrap();
        card.write(1, &block(3)).unwrap();
        card.read(1, &mut [0; 2 * CARD_BLOCK]).unwrap();
        assert_eq!(card.counters().time_ns, 2_002 + 115 + 87);
        assert_eq!(card.counters().blocks_read, 2);
        assert_eq!(card.write(8, &block(0)), Err(CardError::Range));
    }

    #[test]
    fn class_4_is_as_fast_as_the_paper_says() {
        // KB/s by one block and by four.
        let speed = |n: u64, ns: u64, block_ns: u64| 512_000_000 * n / (ns + n * block_ns);
        let CardTiming {
            read_ns,
            read_block_ns,
            write_ns,
            write_block_ns,
            ..
        } = CardTiming::CLASS_4;
        assert_eq!(speed(1, read_ns, read_block_ns), 10_700);
        assert_eq!(speed(4, read_ns, read_block_ns), 12_099);
        assert_eq!(speed(1, write_ns, write_block_ns), 4_400);
        assert_eq!(speed(4, write_ns, write_block_ns), 5_000);
    }

    #[test]
    fn a_cut_leaves_what_was_flushed_and_any_of_the_rest() {
        let mut log = CardLog::new(SimCard::new(4, CardTiming::default()));
        log.write(0, &block(1)).unwrap();
        log.flush().unwrap();
        log.write(1, &block(2)).unwrap();
        log.write(2, &block(3)).unwrap();
        let byte = |card: &SimCard, block: usize, at: usize| card.bytes()[block * CARD_BLOCK + at];
        let cut = |how| log.after(3, how);
        assert_eq!(byte(&cut(CardCut::Before), 1, 0), 2);
        assert_eq!(byte(&cut(CardCut::Before), 2, 0), 0);
        assert_eq!(byte(&cut(CardCut::Half), 2, 0), 3);
        assert_eq!(byte(&cut(CardCut::Half), 2, 511), 0);
        assert_eq!(byte(&cut(CardCut::Last), 1, 0), 0);
        assert_eq!(byte(&cut(CardCut::Last), 2, 0), 3);
        assert_eq!(byte(&cut(CardCut::Lost), 2, 0), 0);
        assert_eq!(byte(&cut(CardCut::Lost), 2, 511), 3);
        let mut torn = cut(CardCut::Unreadable);
        assert_eq!(torn.read(2, &mut block(0)), Err(CardError::Unreadable(2)));
        torn.write(2, &block(4)).unwrap();
        torn.read(2, &mut block(0)).unwrap();
        let kept: std::collections::HashSet<u8> = (0..16)
            .map(|seed| byte(&cut(CardCut::Some(seed)), 1, 0))
            .collect();
        assert_eq!(kept.len(), 2);
        assert!((0..16).all(|seed| byte(&cut(CardCut::Some(seed)), 0, 0) == 1));
    }
}
