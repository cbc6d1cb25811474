//! A chip that keeps a copy of itself before every modifying operation.

use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, EraseTear, Metered, SimError, SimNand, Tear, Tearable};

/// A modifying operation.
pub enum Change {
    Program(PageAddr, Vec<u8>, Vec<u8>),
    Erase(BlockAddr),
}

/// A place to cut: the chip before an operation, and the operation.
pub struct Point {
    chip: SimNand,
    pub change: Change,
}

/// What a cut leaves of a program or an erase, and the seed of the tear.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Program(Tear, u64),
    /// A prefix of so many eighths.
    Part(u32, u64),
    Erase(EraseTear, u64),
}

const PROGRAMS: [Way; 12] = [
    Way::Program(Tear::Complete, 0),
    Way::Program(Tear::Garbage, 0),
    Way::Program(Tear::LooksBlank, 0),
    Way::Program(Tear::NotBegun, 0),
    Way::Program(Tear::Random, 0),
    Way::Program(Tear::Random, 1),
    Way::Program(Tear::Random, 2),
    Way::Part(4, 0),
    Way::Part(4, 1),
    Way::Part(4, 2),
    Way::Program(Tear::Prefix(40), 1),
    Way::Program(Tear::Prefix(1), 2),
];
const ERASES: [Way; 7] = [
    Way::Erase(EraseTear::LooksErased, 0),
    Way::Erase(EraseTear::Partial, 0),
    Way::Erase(EraseTear::Complete, 0),
    Way::Erase(EraseTear::NotBegun, 0),
    Way::Erase(EraseTear::Partial, 1),
    Way::Erase(EraseTear::LooksErased, 1),
    Way::Erase(EraseTear::Partial, 2),
];
const UNSTABLE: [Way; 6] = [
    Way::Program(Tear::Unstable { reads: 1 }, 0),
    Way::Program(Tear::Unstable { reads: 2 }, 0),
    Way::Program(Tear::Unstable { reads: 3 }, 0),
    Way::Program(Tear::Unstable { reads: 5 }, 0),
    Way::Program(Tear::Unstable { reads: 10 }, 0),
    Way::Program(Tear::Unstable { reads: 30 }, 0),
];

impl Point {
    pub fn ways(&self, unstable: bool) -> &'static [Way] {
        match self.change {
            Change::Program(..) if unstable => &UNSTABLE,
            Change::Program(..) => &PROGRAMS,
            Change::Erase(_) if unstable => &[],
            Change::Erase(_) => &ERASES,
        }
    }

    /// The operation, for people.
    pub fn what(&self) -> String {
        let geo = self.chip.geometry();
        match &self.change {
            Change::Program(page, data, _) if data.len() > 7 && data[4..6] == *b"FL" => format!(
                "kind {} to page {} of block {}",
                data[6],
                geo.index_of(*page),
                geo.block_of(*page).0
            ),
            Change::Program(page, data, _) => format!(
                "{} bytes to page {} of block {}",
                data.len(),
                geo.index_of(*page),
                geo.block_of(*page).0
            ),
            Change::Erase(block) => format!("erase of block {}", block.0),
        }
    }

    /// The chip as a cut in this operation leaves it.
    pub fn cut(&self, way: Way) -> SimNand {
        let mut chip = self.chip.clone();
        let torn = match (&self.change, way) {
            (Change::Program(page, data, spare), Way::Program(tear, seed)) => {
                chip.program_torn(*page, data, spare, tear, seed)
            }
            (Change::Program(page, data, spare), Way::Part(eighths, seed)) => {
                let n = (data.len() + spare.len()) as u32 * eighths / 8;
                chip.program_torn(*page, data, spare, Tear::Prefix(n), seed)
            }
            (Change::Erase(block), Way::Erase(tear, seed)) => chip.erase_torn(*block, tear, seed),
            _ => unreachable!("a way of the other operation"),
        };
        torn.expect("the simulated chip has no driver errors");
        chip
    }
}

/// See the module's text.
pub struct Recorder {
    chip: SimNand,
    pub recording: bool,
    pub points: Vec<Point>,
    pub changes: u64,
}

impl Recorder {
    pub fn new(chip: SimNand) -> Recorder {
        Recorder {
            chip,
            recording: true,
            points: Vec::new(),
            changes: 0,
        }
    }

    pub fn chip(&self) -> &SimNand {
        &self.chip
    }

    pub fn into_inner(self) -> SimNand {
        self.chip
    }

    fn note(&mut self, change: impl FnOnce() -> Change) {
        self.changes += 1;
        if self.recording {
            self.points.push(Point {
                chip: self.chip.clone(),
                change: change(),
            });
        }
    }
}

impl Nand for Recorder {
    type Error = SimError;

    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }
    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, SimError> {
        self.chip.read(page, offset, data, spare)
    }
    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, SimError> {
        self.note(|| Change::Program(page, data.to_vec(), spare.to_vec()));
        self.chip.program(page, data, spare)
    }
    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, SimError> {
        self.note(|| Change::Erase(block));
        self.chip.erase(block)
    }
    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, SimError> {
        self.chip.is_bad(block)
    }
    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), SimError> {
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
