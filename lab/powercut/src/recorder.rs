//! A chip that keeps a snapshot of itself before every modifying operation, counts what is
//! written, and lets an operation fail on demand.

use std::borrow::Cow;
use std::collections::BTreeMap;

use flashkit_flashlight::Kind;
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_nand_xts::XtsNand;
use flashkit_sim::{Counters, Faults, Metered, Rate, SimError, SimNand, Tearable};

use crate::forced::{Forced, forced_by};
use crate::guard::Invariants;
use crate::outcome::Outcome;

/// A modifying operation.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Program {
        page: PageAddr,
        /// What it is, if it is metadata. `data` may be encrypted.
        kind: Option<Kind>,
        data: Vec<u8>,
        spare: Vec<u8>,
    },
    Erase(BlockAddr),
    MarkBad(BlockAddr),
}

/// A place to cut: the chip before an operation, and the operation.
pub(crate) struct Point {
    /// Counted from the mount or the beginning of the script.
    pub number: u64,
    chip: SimNand,
    change: Change,
}

impl Point {
    /// What a cut here may leave.
    pub fn outcomes(&self) -> Vec<Outcome> {
        match &self.change {
            Change::Program { data, spare, .. } => {
                Outcome::of_program(data.len() as u32, spare.len() as u32)
            }
            Change::Erase(_) => Outcome::of_erase(),
            Change::MarkBad(_) => vec![Outcome::NotBegun, Outcome::Whole],
        }
    }

    /// Those, and in one point of three pages that change what they are, and mixtures. Chance draws
    /// from the first alone, so that what it has found is found again.
    pub fn all_outcomes(&self) -> Vec<Outcome> {
        let mut all = self.outcomes();
        match &self.change {
            _ if !self.number.is_multiple_of(3) => {}
            Change::Program { .. } => all.extend(Outcome::more_of_program()),
            Change::Erase(_) => all.extend(Outcome::more_of_erase()),
            Change::MarkBad(_) => {}
        }
        all
    }

    /// The chip as a cut leaves it.
    ///
    /// # Errors
    /// It is not an outcome of this operation.
    pub fn cut(&self, outcome: Outcome) -> Result<SimNand, String> {
        let mut chip = self.chip.clone();
        let done = match &self.change {
            Change::Program {
                page, data, spare, ..
            } => outcome
                .program()
                .map(|(tear, seed)| chip.program_torn(*page, data, spare, tear, seed)),
            Change::Erase(block) => outcome
                .erase()
                .map(|(tear, seed)| chip.erase_torn(*block, tear, seed)),
            Change::MarkBad(_) if outcome == Outcome::NotBegun => Some(Ok(())),
            Change::MarkBad(block) if outcome == Outcome::Whole => Some(chip.mark_bad(*block)),
            Change::MarkBad(_) => None,
        };
        match done {
            Some(Ok(())) => Ok(chip),
            Some(Err(e)) => Err(e.to_string()),
            None => Err(format!("not an outcome of this operation: {outcome}")),
        }
    }

    /// The operation, for people.
    pub fn text(&self) -> String {
        let geo = self.chip.geometry();
        match &self.change {
            Change::Program {
                page, kind, data, ..
            } => {
                let what = match kind {
                    Some(kind) => name_of(*kind).to_owned(),
                    None => format!("{} bytes of data", data.len()),
                };
                let (block, index) = (geo.block_of(*page).0, geo.index_of(*page));
                format!("program {what}, block {block} page {index}")
            }
            Change::Erase(block) => format!("erase block {}", block.0),
            Change::MarkBad(block) => format!("mark block {} bad", block.0),
        }
    }
}

/// The kind of a metadata page; none for file data, which could only by chance look like one.
pub(crate) fn kind_of(data: &[u8]) -> Option<Kind> {
    let is_meta = data.len() >= 32 && data[4..6] == *b"FL";
    Kind::ALL
        .into_iter()
        .find(|k| is_meta && *k as u8 == data[6])
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Root => "root page",
        Kind::Second => "second-level page",
        Kind::Checkpoint => "checkpoint",
        Kind::Alloc => "allocation record",
        Kind::Snapshot => "block table",
        Kind::DirMap => "DirInode map",
        Kind::Dir => "DirInode",
        Kind::HashMap => "hash map",
        Kind::HashIndex => "hash index",
        Kind::File => "FileInode",
        Kind::ExtentMap => "extent map",
        Kind::ExtentIndex => "extent index",
        Kind::Names => "page of names",
        Kind::Table => "page of the block table",
        Kind::Validity => "page of valid pages",
        Kind::Attributes => "extended attributes",
        Kind::Places => "page of places of the DirInode map",
    }
}

/// What the chip's kind is called on which volumes are encrypted.
pub(crate) const ENCRYPTED: &str = "encrypted";

/// The chip with its pages in the clear, if they are encrypted on it.
fn encrypted<'c>(
    chip: &'c mut SimNand,
    page: &'c mut Vec<u8>,
) -> Option<XtsNand<'c, &'c mut SimNand>> {
    if chip.spec().name() != ENCRYPTED {
        return None;
    }
    page.resize(chip.geometry().page_size() as usize, 0);
    let key: [u8; 32] = std::array::from_fn(|i| i as u8);
    Some(XtsNand::new(chip, &key, page).expect("a key and a page"))
}

/// See the module's text.
pub(crate) struct Recorder {
    chip: SimNand,
    /// Whether snapshots are kept.
    pub recording: bool,
    pub points: Vec<Point>,
    /// Modifying operations so far.
    pub changes: u64,
    /// What has been forced to happen, and how often.
    pub census: BTreeMap<Forced, u64>,
    /// Programs, and erases, that still succeed before one fails, and the seed of that.
    pub fail_program: Option<(u64, u64)>,
    pub fail_erase: Option<(u64, u64)>,
    /// Reads that are as they are before one corrects many bits.
    pub weak_read: Option<u64>,
    /// What is kept watch over, if anything is.
    pub invariants: Option<Invariants>,
}

impl Recorder {
    pub fn new(chip: SimNand) -> Recorder {
        Recorder {
            chip,
            recording: true,
            points: Vec::new(),
            changes: 0,
            census: BTreeMap::new(),
            fail_program: None,
            fail_erase: None,
            weak_read: None,
            invariants: None,
        }
    }

    pub fn chip(&self) -> &SimNand {
        &self.chip
    }

    pub fn into_inner(self) -> SimNand {
        self.chip
    }

    fn note(&mut self, change: impl FnOnce() -> Change) {
        if self.recording {
            self.points.push(Point {
                number: self.changes,
                chip: self.chip.clone(),
                change: change(),
            });
        }
        self.changes += 1;
    }

    fn count(&mut self, what: Forced) {
        *self.census.entry(what).or_default() += 1;
    }

    /// Does `op`; with faults that make it fail if there is a seed for them.
    fn failing<T>(
        &mut self,
        seed: Option<u64>,
        op: impl FnOnce(&mut SimNand) -> Result<T, SimError>,
    ) -> Result<T, SimError> {
        let Some(seed) = seed else {
            return op(&mut self.chip);
        };
        let before = self.chip.faults();
        let always = Faults {
            seed,
            program_fail: Rate(1),
            erase_fail: Rate(1),
            ..before.clone()
        };
        self.chip.set_faults(always)?;
        let result = op(&mut self.chip);
        self.chip.set_faults(before)?;
        result
    }
}

/// Counts down. At the end, the seed of the failure.
fn turn(left: &mut Option<(u64, u64)>) -> Option<u64> {
    match left {
        Some((0, seed)) => {
            let seed = *seed;
            *left = None;
            Some(seed)
        }
        Some((n, _)) => {
            *n -= 1;
            None
        }
        None => None,
    }
}

impl Recorder {
    /// What a read tells, if it is the one that is to be at its limit.
    fn weakened(&mut self, status: ReadStatus) -> ReadStatus {
        match self.weak_read {
            Some(0) if status.is_readable() => {
                self.weak_read = None;
                ReadStatus::Corrected(self.correctable_bits())
            }
            n => {
                self.weak_read = n.map(|n| n.saturating_sub(1));
                status
            }
        }
    }
}

impl Nand for Recorder {
    type Error = SimError;

    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.chip.correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        let status = match encrypted(&mut self.chip, &mut Vec::new()) {
            Some(mut nand) => nand.read(page, offset, data, spare)?,
            None => self.chip.read(page, offset, data, spare)?,
        };
        Ok(self.weakened(status))
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, SimError> {
        let status = match encrypted(&mut self.chip, &mut Vec::new()) {
            Some(mut nand) => nand.read_used(page, data, head, used)?,
            None => self.chip.read_used(page, data, head, used)?,
        };
        Ok(self.weakened(status))
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, SimError> {
        let mut ram = Vec::new();
        let sealed = match encrypted(&mut self.chip, &mut ram) {
            Some(mut nand) => Cow::Owned(nand.sealed(page, data).1.to_vec()),
            None => Cow::Borrowed(data),
        };
        self.note(|| Change::Program {
            page,
            kind: kind_of(data),
            data: sealed.to_vec(),
            spare: spare.to_vec(),
        });
        let seed = turn(&mut self.fail_program);
        let status = self.failing(seed, |chip| chip.program(page, &sealed, spare))?;
        if status == OpStatus::Failed {
            self.count(Forced::ProgramFailure);
        }
        if let Some(kept) = &mut self.invariants {
            kept.programmed(status, page, data, &self.chip);
        }
        let index = self.geometry().index_of(page);
        for what in forced_by(kind_of(data), data, index) {
            self.count(what);
        }
        Ok(status)
    }

    /// The copy itself is a read and a program, as by default: those are what is looked at.
    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.chip.copies(from, to)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, SimError> {
        self.note(|| Change::Erase(block));
        if let Some(kept) = &self.invariants {
            kept.erasing(block);
        }
        let seed = turn(&mut self.fail_erase);
        let status = self.failing(seed, |chip| chip.erase(block))?;
        if status == OpStatus::Failed {
            self.count(Forced::EraseFailure);
        }
        Ok(status)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, SimError> {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), SimError> {
        self.note(|| Change::MarkBad(block));
        self.count(Forced::BlockRetired);
        self.chip.mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), SimError> {
        self.chip.flush()
    }
}

impl Metered for Recorder {
    fn counters(&self) -> Counters {
        self.chip.counters()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.chip.erase_counts()
    }

    fn idle(&mut self, ns: u64) {
        self.chip.idle(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{FAILURE_SEEDS, SMALL_CHIP};

    #[test]
    fn failures_leave_what_the_catalogue_says() {
        let mut left = Vec::new();
        for seed in FAILURE_SEEDS {
            let mut recorder = Recorder::new(SMALL_CHIP.formatted().unwrap());
            recorder.erase(BlockAddr(9)).unwrap();
            recorder.fail_program = Some((1, seed));
            let data = vec![7; 1024];
            let mut program = |page| recorder.program(PageAddr(page), &data, &[]).unwrap();
            assert_eq!(
                (program(72), program(73)),
                (OpStatus::Done, OpStatus::Failed)
            );
            assert_eq!(recorder.census[&Forced::ProgramFailure], 1);
            let mut chip = recorder.into_inner();
            let mut reads = |page| {
                let mut data = vec![0; 1024];
                let status = chip.read(PageAddr(page), 0, &mut data, &mut []);
                status.unwrap().is_readable().then_some(data)
            };
            // More often than a page that fails after some reads is read well.
            left.push((0..100).map(|_| reads(73)).last().unwrap());
        }
        assert_eq!(left, [None, Some(vec![0xff; 1024]), Some(vec![7; 1024])]);
    }
}
