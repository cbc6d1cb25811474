//! The simulated NOR chip.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use flashkit_nor::{
    BankedNorFlash, EraseStatus, ErrorType, MultiwriteNorFlash, NorFlash, ReadNorFlash,
};

use super::image::Stored;
use super::tear::{Weak, some_bits, tear_bytes};
use super::{
    NOR_SEGMENT, NOR_WORD, NorCounters, NorEraseTear, NorSpec, NorTearable, SimNorError, WordTear,
};
use crate::Rng;

/// The last erase of the segment did not complete: no program before the next one.
pub(crate) const HALF_ERASED: u8 = 1;

/// One erase segment. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub bytes: Arc<Vec<u8>>,
    pub erase_count: u32,
    pub flags: u8,
    weak: Option<Box<Weak>>,
}

impl Segment {
    pub fn new(bytes: Vec<u8>, erase_count: u32, flags: u8) -> Segment {
        Segment {
            bytes: Arc::new(bytes),
            erase_count,
            flags,
            weak: None,
        }
    }

    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        Arc::make_mut(&mut self.bytes)
    }
}

/// A bank at work.
#[derive(Clone, Copy, Debug)]
struct Erasing {
    segment: u32,
    until_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Bank {
    erasing: Option<Erasing>,
    failed: bool,
}

/// A simulated NOR chip with erase segments of `SEGMENT` bytes.
///
/// Reads and programs may begin at any byte; each [`NOR_WORD`] bytes, or part of such a word, cost
/// one operation. An erase occupies its bank on the virtual clock, which only operations, waits and
/// [`SimNor::idle`] move.
///
/// # Panics
/// When the caller breaks a promise of [`flashkit_nor`]: a program or an erase in a bank that
/// erases, a read of the segment being erased, a program of a segment whose last erase did not
/// complete, a byte other than `0xFF` programmed where it would have to set bits. Offsets that are
/// out of range or not aligned are errors, as `embedded-storage` has them. After
/// [`SimNor::distrust`] all of these are errors.
///
/// # Snapshots
/// `clone()` is a snapshot in RAM that shares all segments until one side changes them; it does not
/// write to the image file, if there is one.
pub struct SimNor<const SEGMENT: usize = NOR_SEGMENT> {
    pub(crate) spec: Arc<NorSpec>,
    pub(crate) segments: Vec<Segment>,
    banks: Vec<Bank>,
    counters: NorCounters,
    now_ns: u64,
    powered: bool,
    distrusted: bool,
    pub(crate) stored: Option<Stored<SEGMENT>>,
}

impl<const SEGMENT: usize> Clone for SimNor<SEGMENT> {
    fn clone(&self) -> SimNor<SEGMENT> {
        SimNor {
            spec: self.spec.clone(),
            segments: self.segments.clone(),
            banks: self.banks.clone(),
            counters: self.counters,
            now_ns: self.now_ns,
            powered: self.powered,
            distrusted: self.distrusted,
            stored: None,
        }
    }
}

impl<const SEGMENT: usize> core::fmt::Debug for SimNor<SEGMENT> {
    /// The chip's kind and its counters, not its contents.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SimNor")
            .field("spec", &self.spec)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<const SEGMENT: usize> SimNor<SEGMENT> {
    /// A new, wholly erased chip in RAM.
    pub fn new(spec: NorSpec) -> SimNor<SEGMENT> {
        let blank = Segment::new(vec![0xFF; SEGMENT], 0, 0);
        let segments = vec![blank; spec.segments() as usize];
        SimNor::with_segments(spec, segments, None)
    }

    pub(crate) fn with_segments(
        spec: NorSpec,
        segments: Vec<Segment>,
        stored: Option<Stored<SEGMENT>>,
    ) -> SimNor<SEGMENT> {
        const { assert!(SEGMENT > 0 && SEGMENT.is_multiple_of(NOR_WORD)) };
        SimNor {
            banks: vec![Bank::default(); spec.banks() as usize],
            spec: Arc::new(spec),
            segments,
            counters: NorCounters::default(),
            now_ns: 0,
            powered: true,
            distrusted: false,
            stored,
        }
    }

    /// What kind of chip it is.
    pub fn spec(&self) -> &NorSpec {
        &self.spec
    }

    /// Operations so far.
    pub fn counters(&self) -> NorCounters {
        NorCounters {
            time_ns: self.now_ns,
            ..self.counters
        }
    }

    /// Erases of each segment in its life; persistent in an image file.
    pub fn erase_counts(&self) -> Vec<u32> {
        self.segments.iter().map(|s| s.erase_count).collect()
    }

    /// Virtual time in nanoseconds since the chip was made or opened.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Lets virtual time pass. Erases go on meanwhile.
    pub fn idle(&mut self, ns: u64) {
        self.now_ns = self.now_ns.saturating_add(ns);
    }

    /// Operations take their time; how long a file may say, so it has an end.
    fn pass(&mut self, words: u64, word_ns: u64) {
        self.idle(words.saturating_mul(word_ns));
    }

    /// For a chip in a file that may be damaged: an operation that breaks a promise of the contract
    /// is an error from now on, [`SimNorError::Promise`], and no panic. The file may be what is
    /// wrong.
    pub fn distrust(&mut self) {
        self.distrusted = true;
    }

    /// A promise of the software above.
    fn demand(&self, kept: bool, broken: impl FnOnce() -> String) -> Result<(), SimNorError> {
        if kept {
            return Ok(());
        }
        let broken = broken();
        assert!(self.distrusted, "{broken}");
        Err(SimNorError::Promise(broken))
    }

    /// Cuts or restores the power between operations. Without power every operation returns
    /// [`SimNorError::PowerOff`]; what an erase under way leaves,
    /// [`NorTearable::tear_erases`] says.
    pub fn set_power(&mut self, on: bool) {
        self.powered = on;
    }

    /// A number that stands for the segments' bytes, and for which are half erased. Erase counts,
    /// counters, the clock and unstable bits are left out. Looks at every byte.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for segment in &self.segments {
            (segment.flags, &segment.bytes).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Changes one byte behind everybody's back, as rot does.
    pub fn corrupt(&mut self, offset: u32, change: impl FnOnce(u8) -> u8) {
        let (segment, at) = (offset as usize / SEGMENT, offset as usize % SEGMENT);
        let byte = &mut self.segments[segment].bytes_mut()[at];
        *byte = change(*byte);
    }

    /// Brings an image file to the disk, for the machine's own crashes: what has been done so far
    /// is not lost then. Costs a sync of the file, if anything has been done since the last.
    ///
    /// # Errors
    /// [`SimNorError::Io`].
    pub fn sync(&mut self) -> Result<(), SimNorError> {
        match &mut self.stored {
            Some(stored) => Ok(stored.journal.sync()?),
            None => Ok(()),
        }
    }

    /// Before a change of a segment.
    fn prepare(&mut self, segment: u32) -> Result<(), SimNorError> {
        match &mut self.stored {
            Some(stored) => Ok(stored.prepare(segment, &self.segments)?),
            None => Ok(()),
        }
    }

    fn check_power(&self) -> Result<(), SimNorError> {
        if self.powered {
            Ok(())
        } else {
            Err(SimNorError::PowerOff)
        }
    }

    fn bank_of(&self, segment: u32) -> usize {
        (segment / self.spec.segments_per_bank()) as usize
    }

    /// Completes an erase whose time is over.
    fn settle(&mut self, bank: usize) -> Result<(), SimNorError> {
        let Some(erasing) = self.banks[bank].erasing else {
            return Ok(());
        };
        if self.now_ns < erasing.until_ns {
            return Ok(());
        }
        self.prepare(erasing.segment)?;
        self.banks[bank].erasing = None;
        let endurance = self.spec.endurance();
        let segment = &mut self.segments[erasing.segment as usize];
        segment.weak = None;
        if endurance != 0 && segment.erase_count >= endurance {
            let seed = Rng::keyed(u64::from(erasing.segment), u64::from(segment.erase_count));
            tear_bytes(
                segment.bytes_mut(),
                NorEraseTear::Partial,
                seed.clone().next_u64(),
            );
            segment.erase_count = segment.erase_count.saturating_add(1);
            self.banks[bank].failed = true;
        } else {
            segment.bytes_mut().fill(0xFF);
            segment.erase_count = segment.erase_count.saturating_add(1);
            segment.flags &= !HALF_ERASED;
            return self.save_record(erasing.segment, true);
        }
        self.save_segment(erasing.segment)
    }

    /// Writes a segment through.
    fn save_segment(&mut self, segment: u32) -> Result<(), SimNorError> {
        self.save_bytes(segment, 0, SEGMENT)?;
        self.save_record(segment, false)
    }

    /// Writes erase count and flags of a segment through, and that it was erased.
    fn save_record(&mut self, segment: u32, erased: bool) -> Result<(), SimNorError> {
        if let Some(stored) = &mut self.stored {
            stored.note_record(segment, &self.segments[segment as usize], erased)?;
        }
        Ok(())
    }

    /// Checks every promise about a program within one segment; gives the segment.
    fn admit_write(&mut self, offset: u32, bytes: &[u8]) -> Result<u32, SimNorError> {
        let segment = offset / SEGMENT as u32;
        let bank = self.bank_of(segment);
        self.settle(bank)?;
        let erasing = self.banks[bank].erasing.map(|erasing| erasing.segment);
        self.demand(erasing.is_none(), || {
            let erasing = erasing.unwrap_or_default();
            format!("program at {offset:#x}: bank {bank} is erasing segment {erasing}")
        })?;
        let state = &self.segments[segment as usize];
        self.demand(state.flags & HALF_ERASED == 0, || {
            format!("program at {offset:#x}: the last erase of segment {segment} did not complete")
        })?;
        let at = offset as usize % SEGMENT;
        let old = &state.bytes[at..at + bytes.len()];
        let bad = old
            .iter()
            .zip(bytes)
            .position(|(o, n)| *n != 0xFF && n & !o != 0);
        self.demand(bad.is_none(), || {
            let i = bad.unwrap_or_default();
            let (at, new, old) = (offset as usize + i, bytes[i], old[i]);
            format!("program at {at:#x}: {new:#04x} over {old:#04x} would have to set bits")
        })?;
        Ok(segment)
    }

    /// Programs bytes within one segment.
    fn write_part(&mut self, offset: u32, bytes: &[u8]) -> Result<(), SimNorError> {
        let segment = self.admit_write(offset, bytes)?;
        let at = offset as usize % SEGMENT;
        let words = words_touched(at, bytes.len());
        self.counters.word_programs += words;
        self.pass(words, self.spec.timing().program_ns);
        self.prepare(segment)?;
        let state = &mut self.segments[segment as usize];
        for (old, new) in state.bytes_mut()[at..].iter_mut().zip(bytes) {
            *old &= new;
        }
        if let Some(weak) = &mut state.weak {
            for (i, byte) in bytes.iter().enumerate() {
                let (word, in_word) = ((at + i) / NOR_WORD, (at + i) % NOR_WORD);
                weak.programmed(word as u32, in_word, core::slice::from_ref(byte));
            }
            if weak.is_empty() {
                state.weak = None;
            }
        }
        self.save_bytes(segment, at, bytes.len())
    }

    fn save_bytes(&mut self, segment: u32, at: usize, len: usize) -> Result<(), SimNorError> {
        if let Some(stored) = &mut self.stored {
            let bytes = &self.segments[segment as usize].bytes[at..at + len];
            stored.note_bytes(segment, at, bytes)?;
        }
        Ok(())
    }
}

impl<const SEGMENT: usize> Drop for SimNor<SEGMENT> {
    /// What cannot be written now is in the journal.
    fn drop(&mut self) {
        if let Some(mut stored) = self.stored.take() {
            let _ = stored.close(&self.segments);
        }
    }
}

/// Words that a range of bytes touches.
fn words_touched(at: usize, len: usize) -> u64 {
    if len == 0 {
        return 0;
    }
    ((at + len).div_ceil(NOR_WORD) - at / NOR_WORD) as u64
}

impl<const SEGMENT: usize> ErrorType for SimNor<SEGMENT> {
    type Error = SimNorError;
}

impl<const SEGMENT: usize> ReadNorFlash for SimNor<SEGMENT> {
    const READ_SIZE: usize = 1;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), SimNorError> {
        self.check_power()?;
        embedded_check_read(self, offset, bytes.len())?;
        let (mut offset, mut rest) = (offset as usize, bytes);
        while !rest.is_empty() {
            let (segment, at) = (offset / SEGMENT, offset % SEGMENT);
            let (part, after) = rest.split_at_mut(rest.len().min(SEGMENT - at));
            let bank = self.bank_of(segment as u32);
            self.settle(bank)?;
            let words = words_touched(at, part.len());
            let mut ns = words.saturating_mul(self.spec.timing().read_ns);
            let erasing = self.banks[bank].erasing.map(|erasing| erasing.segment);
            self.demand(erasing != Some(segment as u32), || {
                format!("read at {offset:#x}: segment {segment} is being erased")
            })?;
            if let Some(erasing) = &mut self.banks[bank].erasing {
                ns = ns.saturating_add(self.spec.timing().suspend_ns);
                erasing.until_ns = erasing.until_ns.saturating_add(ns);
                self.counters.suspends += 1;
            }
            self.counters.word_reads += words;
            self.idle(ns);
            let state = &mut self.segments[segment];
            part.copy_from_slice(&state.bytes[at..at + part.len()]);
            if let Some(weak) = &mut state.weak {
                weak.show(at, part);
            }
            offset += part.len();
            rest = after;
        }
        Ok(())
    }

    fn capacity(&self) -> usize {
        self.segments.len() * SEGMENT
    }
}

fn embedded_check_read<F: ReadNorFlash>(
    flash: &F,
    offset: u32,
    len: usize,
) -> Result<(), SimNorError> {
    let end = (offset as usize).checked_add(len);
    if end.is_some_and(|end| end <= flash.capacity()) {
        Ok(())
    } else {
        Err(SimNorError::OutOfBounds)
    }
}

impl<const SEGMENT: usize> NorFlash for SimNor<SEGMENT> {
    const WRITE_SIZE: usize = 1;
    const ERASE_SIZE: usize = SEGMENT;

    /// Erases segment after segment, each to its end.
    fn erase(&mut self, from: u32, to: u32) -> Result<(), SimNorError> {
        if from > to || to as usize > self.capacity() {
            return Err(SimNorError::OutOfBounds);
        }
        if !(from as usize).is_multiple_of(SEGMENT) || !(to as usize).is_multiple_of(SEGMENT) {
            return Err(SimNorError::NotAligned);
        }
        for segment in from / SEGMENT as u32..to / SEGMENT as u32 {
            self.erase_start(segment * SEGMENT as u32)?;
            if self.erase_wait(self.bank_of(segment) as u32)? == EraseStatus::Failed {
                return Err(SimNorError::EraseFailed);
            }
        }
        Ok(())
    }

    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), SimNorError> {
        self.check_power()?;
        embedded_check_read(self, offset, bytes.len())?;
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let room = SEGMENT - offset as usize % SEGMENT;
            let (part, after) = rest.split_at(rest.len().min(room));
            self.write_part(offset, part)?;
            offset += part.len() as u32;
            rest = after;
        }
        Ok(())
    }
}

impl<const SEGMENT: usize> MultiwriteNorFlash for SimNor<SEGMENT> {}

impl<const SEGMENT: usize> BankedNorFlash for SimNor<SEGMENT> {
    fn banks(&self) -> u32 {
        self.spec.banks()
    }

    fn erase_start(&mut self, offset: u32) -> Result<(), SimNorError> {
        self.check_power()?;
        embedded_check_read(self, offset, SEGMENT)?;
        if !(offset as usize).is_multiple_of(SEGMENT) {
            return Err(SimNorError::NotAligned);
        }
        let segment = offset / SEGMENT as u32;
        let bank = self.bank_of(segment);
        self.settle(bank)?;
        let erasing = self.banks[bank].erasing.map(|erasing| erasing.segment);
        self.demand(erasing.is_none(), || {
            let erasing = erasing.unwrap_or_default();
            format!("erase of segment {segment}: bank {bank} is erasing segment {erasing}")
        })?;
        self.counters.erases += 1;
        let until_ns = self.now_ns.saturating_add(self.spec.timing().erase_ns);
        self.banks[bank] = Bank {
            erasing: Some(Erasing { segment, until_ns }),
            failed: false,
        };
        self.prepare(segment)?;
        self.segments[segment as usize].flags |= HALF_ERASED;
        self.save_record(segment, false)
    }

    fn erase_status(&mut self, bank: u32) -> Result<EraseStatus, SimNorError> {
        self.check_power()?;
        self.settle(bank as usize)?;
        let bank = &mut self.banks[bank as usize];
        Ok(if bank.erasing.is_some() {
            EraseStatus::Busy
        } else if core::mem::take(&mut bank.failed) {
            EraseStatus::Failed
        } else {
            EraseStatus::Done
        })
    }

    fn erase_wait(&mut self, bank: u32) -> Result<EraseStatus, SimNorError> {
        self.check_power()?;
        if let Some(erasing) = self.banks[bank as usize].erasing {
            self.now_ns = self.now_ns.max(erasing.until_ns);
        }
        self.erase_status(bank)
    }
}

impl<const SEGMENT: usize> NorTearable for SimNor<SEGMENT> {
    fn write_torn(
        &mut self,
        offset: u32,
        bytes: &[u8],
        tear: WordTear,
        seed: u64,
    ) -> Result<(), SimNorError> {
        let at = offset as usize % SEGMENT;
        assert_eq!(
            words_touched(at, bytes.len()),
            1,
            "one word is torn at a time"
        );
        if tear == WordTear::Complete {
            return self.write(offset, bytes);
        }
        self.check_power()?;
        embedded_check_read(self, offset, bytes.len())?;
        let segment = self.admit_write(offset, bytes)?;
        self.counters.word_programs += 1;
        self.pass(1, self.spec.timing().program_ns);
        if tear == WordTear::NotBegun {
            return Ok(());
        }
        self.prepare(segment)?;
        let state = &mut self.segments[segment as usize];
        let (word, in_word) = (at / NOR_WORD, at % NOR_WORD);
        let mut mask = [0; NOR_WORD];
        for (i, byte) in bytes.iter().enumerate() {
            mask[in_word + i] = state.bytes[at + i] & !byte;
        }
        if tear == WordTear::Partial {
            let cleared = some_bits(mask, seed);
            let word_bytes = &mut state.bytes_mut()[word * NOR_WORD..][..NOR_WORD];
            for (byte, bits) in word_bytes.iter_mut().zip(cleared) {
                *byte &= !bits;
            }
            self.save_bytes(segment, word * NOR_WORD, NOR_WORD)
        } else {
            let weak = state.weak.get_or_insert_default();
            weak.add(word as u32, mask, tear, seed);
            Ok(())
        }
    }

    fn tear_erases(&mut self, tear: NorEraseTear, seed: u64) -> Result<(), SimNorError> {
        for bank in 0..self.banks.len() {
            self.settle(bank)?;
            let Some(Erasing { segment, until_ns }) = self.banks[bank].erasing else {
                continue;
            };
            if tear == NorEraseTear::Complete {
                let now = self.now_ns;
                self.now_ns = until_ns;
                self.settle(bank)?;
                self.now_ns = now;
                continue;
            }
            self.prepare(segment)?;
            self.banks[bank].erasing = None;
            let state = &mut self.segments[segment as usize];
            if tear == NorEraseTear::NotBegun {
                state.flags &= !HALF_ERASED;
                continue;
            }
            state.erase_count = state.erase_count.saturating_add(1);
            tear_bytes(state.bytes_mut(), tear, seed ^ u64::from(segment));
            state.weak = match tear {
                NorEraseTear::LooksErased { reads } => {
                    Some(Box::new(Weak::looks_erased(reads, seed)))
                }
                _ => None,
            };
            self.save_segment(segment)?;
        }
        Ok(())
    }
}
