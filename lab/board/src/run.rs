//! Session after session, each ended by a cut.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use flashkit_meter::Metered;
use flashkit_sim::spi::{BusCount, SpiCut, SpiNandChip, spi_part};
use flashkit_sim::{ChipSpec, EraseTear, Faults, Rate, Rng, SimNand, Tear};

use crate::emulator::{Emulator, Ended};
use crate::figures::{APPEND, Call, Figures};
use crate::ledger::Ledger;
use crate::link::{End, serve};
use crate::look;

/// The chip.
const PART: &str = "W25N01GV";
/// Pages that are free in a volume once it is filled: some ten sessions use them up.
const PAGES_FREE: u64 = 1_024;
/// Bytes over the bus that a first cut comes within: a format takes half of them.
const FIRST: u64 = 600_000;
/// The same, of a session that goes on from a mount: some hundred rounds.
const ROUNDS: u64 = 1_400_000;

/// What to do.
pub struct Plan {
    pub image: PathBuf,
    pub cuts: u32,
    pub seed: u64,
    /// What the image is told.
    pub word: Option<&'static str>,
}

/// What came of it.
pub struct Done {
    /// What was lost or is wrong on the chip; with this the run ended.
    pub lost: Option<String>,
    pub text: String,
    /// The most stack.
    pub stack: u32,
}

/// A board, its chip, and what is known of both.
struct Board<'p> {
    plan: &'p Plan,
    chip: Option<SpiNandChip<SimNand>>,
    ledger: Ledger,
    figures: Figures,
    /// Bytes over the bus until everything was read, in the last session that got there.
    ready: Option<u64>,
    /// Cuts before everything was read.
    early: u32,
    filled: bool,
    bus: BusCount,
}

/// Runs an image.
///
/// # Errors
/// QEMU does not run, or the image did what it may not do.
pub fn run(plan: &Plan) -> anyhow::Result<Done> {
    let part = *spi_part(PART).context("no such part")?;
    let mut chip = SimNand::new(ChipSpec::new(part.geometry(), part.timing));
    chip.set_faults(faults(plan.seed, part.blocks))?;
    let mut board = Board {
        plan,
        chip: Some(SpiNandChip::over(chip, part)),
        ledger: Ledger::default(),
        figures: Figures::default(),
        ready: None,
        early: 0,
        filled: false,
        bus: BusCount::default(),
    };
    let folder = tempfile::tempdir().context("a temporary folder")?;
    for session in 0..plan.cuts {
        let lost = board
            .session(session, folder.path())
            .with_context(|| format!("session {session}"))?;
        if let Some(lost) = lost {
            let lost = Some(format!("session {session}: {lost}"));
            return Ok(board.done(lost));
        }
    }
    let chip = board.chip.as_ref().context("a chip")?.chip();
    let lost = match board.filled {
        true => look::check_filled(chip).err(),
        false => None,
    };
    Ok(board.done(lost))
}

/// Bits that flip, and blocks that are bad from the beginning.
fn faults(seed: u64, blocks: u32) -> Faults {
    let mut rng = Rng::keyed(seed, u64::MAX);
    // The maker says that the first block is good.
    let bad = |_| 1 + rng.below(u64::from(blocks) - 1) as u32;
    Faults {
        seed,
        bad_blocks: (0..6).map(bad).collect(),
        ecc: 1,
        bitflips: 1,
        bitflip_rate: Rate(4_096),
        ..Faults::default()
    }
}

/// Programs and erases that fail as well, once the volume is filled: they are for the image.
fn worse(faults: Faults) -> Faults {
    Faults {
        program_fail: Rate(1_500),
        erase_fail: Rate(500),
        failing_max: 8,
        ..faults
    }
}

/// What a cut may leave.
fn tears(rng: &mut Rng) -> (Tear, EraseTear) {
    let reads = 1 + rng.below(31) as u32;
    let program = [
        Tear::NotBegun,
        Tear::Prefix(1 + rng.below(2_000) as u32),
        Tear::Random,
        Tear::LooksBlank,
        Tear::Garbage,
        Tear::Complete,
        Tear::Unstable { reads },
        Tear::UnstableBlank { reads },
        Tear::UnstableMixed { reads },
        Tear::Late { reads },
        Tear::Fitful { late: 2, reads: 2 },
    ];
    let erase = [
        EraseTear::NotBegun,
        EraseTear::Partial,
        EraseTear::LooksErased,
        EraseTear::Mixed,
        EraseTear::Complete,
    ];
    (rng.one_of(&program), rng.one_of(&erase))
}

impl Board<'_> {
    /// When and how the power goes in a session.
    fn cut(&self, session: u32) -> SpiCut {
        let mut rng = Rng::keyed(self.plan.seed, u64::from(session));
        let bytes = match self.ready {
            None => rng.below(FIRST),
            // In the mount, or in the look at what is there.
            Some(ready) if rng.one_in(3) => rng.below(ready),
            Some(ready) => ready + rng.below(ROUNDS),
        };
        let (program, erase) = tears(&mut rng);
        let seed = rng.next_u64();
        SpiCut {
            bytes,
            program,
            erase,
            seed,
        }
    }

    /// One start of the image, until its power goes. What is lost on the chip then, if anything.
    fn session(&mut self, number: u32, folder: &Path) -> anyhow::Result<Option<String>> {
        let mut chip = self.chip.take().context("a chip")?;
        chip.power_on();
        let before = chip.count();
        chip.cut_after(self.cut(number));
        let (end, ended) = self.serve(&mut chip, folder)?;
        let moved = chip.count() - before;
        self.bus.transactions += moved.transactions;
        self.bus.bytes += moved.bytes;
        self.bus.data_bytes += moved.data_bytes;
        let said = self.ledger.take(&ended.printed);
        self.ledger.cut();
        let lost = match (end, said) {
            // What it has said before it ended says more than how it did.
            (_, Err(wrong)) => Some(wrong),
            (End::Cut, Ok(())) => self.look(chip.chip()),
            (End::Gone, Ok(())) => bail!("{}", ended.how),
            (End::Wrong(what), Ok(())) => bail!("over the bus: {what}"),
        };
        if lost.is_none() && self.ready.is_some() && !self.filled {
            let chip = chip.chip_mut();
            look::fill(chip, PAGES_FREE).map_err(anyhow::Error::msg)?;
            chip.set_faults(worse(chip.faults()))?;
            self.filled = true;
        }
        self.chip = Some(chip);
        Ok(lost)
    }

    /// Runs the image until its power goes or it ends.
    fn serve(
        &mut self,
        chip: &mut SpiNandChip<SimNand>,
        folder: &Path,
    ) -> anyhow::Result<(End, Ended)> {
        let words: Vec<&str> = ["logger"].into_iter().chain(self.plan.word).collect();
        let mut emulator = Emulator::start(&self.plan.image, &words, folder)?;
        let beats = emulator.beats.clone();
        let begin = chip.count().bytes;
        let (mut ready, mut unknown) = (None, None);
        let figures = &mut self.figures;
        let mut call = |call: Call| {
            if call.which == APPEND && ready.is_none() {
                ready = Some(call.at - begin);
            }
            if !figures.add(&call) {
                unknown = Some(call.which);
            }
        };
        let mut beat = || {
            beats.fetch_add(1, Ordering::Relaxed);
        };
        let end = serve(
            chip,
            &mut emulator.from,
            &mut emulator.to,
            &mut call,
            &mut beat,
        );
        match ready {
            Some(_) => self.ready = ready,
            None => self.early += 1,
        }
        if let Some(which) = unknown {
            bail!("the image has measured call {which}, which nobody knows");
        }
        // One that dies while it is answered is gone as well.
        Ok((end.unwrap_or(End::Gone), emulator.end()?))
    }

    /// What the host finds on the chip.
    fn look(&self, chip: &SimNand) -> Option<String> {
        match look::look(chip) {
            Err(what) => Some(what),
            Ok(None) if self.ledger.is_formatted() => Some("no volume is there any more".into()),
            Ok(None) => None,
            Ok(Some(found)) => {
                let checked = self.ledger.check(&found);
                checked
                    .err()
                    .map(|what| format!("by the host's mount: {what}"))
            }
        }
    }

    /// What is known at the end.
    fn done(self, lost: Option<String>) -> Done {
        let [mount, most] = self.ledger.stack;
        let flash = self.chip.map(|chip| chip.chip().counters());
        let flash = flash.unwrap_or_default();
        let bus = self.bus;
        let text = format!(
            "{} cuts (seed {}), {} of them in a mount or in the reading behind it: {} records \
             synced, all there\n\
             the bus: {} bytes in {} transactions, {} of them of pages\n\
             the chip: {} reads, {} programs, {} erases\n\
             stack: {mount} bytes of a mount, {most} of all calls\n{}",
            self.plan.cuts,
            self.plan.seed,
            self.early,
            self.ledger.synced(),
            bus.bytes,
            bus.transactions,
            bus.data_bytes,
            flash.page_reads,
            flash.page_programs,
            flash.block_erases,
            self.figures,
        );
        Done {
            lost,
            text,
            stack: most,
        }
    }
}
