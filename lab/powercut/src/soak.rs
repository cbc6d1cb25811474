//! Everything at once, on one chip after another, each until it is worn out.
//!
//! A round is a session: random operations, then an unmount or a cut in the middle of an operation,
//! and at times further cuts in the recoveries. All the while bits flip, reads disturb, time
//! passes, programs and erases fail, seldom on one chip and often on another. After each round the
//! tree must be one that the guarantees allow. The blocks of a chip stand so many erases; when too
//! many have failed, the volume is read-only and everything synced must be there.

use flashkit_flashlight::Config;
use flashkit_nand::Nand;
use flashkit_sim::{Faults, Metered, Rate, Rng, SimNand, Weak};

use crate::chip::Chip;
use crate::guard::Invariants;
use crate::live::{Done, Live};
use crate::model::Model;
use crate::op::Op;
use crate::recorder::{Point, Recorder};
use crate::script::{Mix, random_op};
use crate::seen::SeenDir;
use crate::survive::{Looked, last_look, same_but_for_probe, survive_or_wear_out};

/// What a soak is made of. Equal ones do the same.
#[derive(Clone, Debug)]
pub struct Soak {
    /// The chip; without one the seed says.
    pub chip: Option<Chip>,
    /// What all chance follows from. The next chip's is one more.
    pub seed: u64,
    /// Erases that a block stands.
    pub endurance: u32,
}

/// What a soak did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Soaked {
    /// Chips used up.
    pub chips: u64,
    /// Sessions.
    pub rounds: u64,
    /// Operations.
    pub ops: u64,
    /// Power cuts, those in recoveries included.
    pub cuts: u64,
    /// Files compared byte by byte, counted anew in every round.
    pub files: u64,
    /// Flash operations.
    pub reads: u64,
    /// Pages programmed.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Blocks that went bad in use.
    pub bad_blocks: u64,
    /// Simulated time, in hours.
    pub hours: f64,
    /// What was not as guaranteed: seed, round and what.
    pub violation: Option<(u64, u64, String)>,
}

const MIX: Mix = Mix {
    ops: 0,
    names: 12,
    dirs: 6,
    write_max: 20_000,
    offset_max: 40_000,
    updates: 0,
    page: 1024,
};
const HOUR_NS: u64 = 3_600_000_000_000;

/// How a round ended.
enum End {
    Goes(SeenDir, SimNand),
    Worn(SimNand),
}

struct Chipful<'a> {
    rng: Rng,
    mix: Mix,
    config: Config,
    model: Model,
    soaked: &'a mut Soaked,
    ram: Vec<u8>,
    /// How the session ended.
    text: String,
}

/// A small chip.
fn drawn(seed: u64) -> Chip {
    let mut rng = Rng::keyed(seed, 27);
    let page = rng.one_of(&[1024, 2048]);
    let spare = rng.one_of(&[0, 24, 40, 64, 64]);
    let pages = rng.one_of(&[8, 16, 16, 32]);
    let blocks = 64 + rng.below(65) as u32;
    let mut chip = Chip::new(page, spare, pages, blocks);
    chip.paper = spare >= 24 && rng.one_in(8);
    chip.kept = rng.one_in(4);
    if rng.one_in(8) {
        chip.table = rng.one_of(&[32, 64]);
    }
    chip
}

impl Soak {
    fn faults(&self) -> Faults {
        let mut rng = Rng::keyed(self.seed, 28);
        // What fails and what is cut come together only where much fails.
        let often = !rng.one_in(4);
        let program_fail = rng.one_of(&[30, 150, 400, 1500, 5000]);
        let erase_fail = rng.one_of(&[15, 60, 150, 500]);
        // Of the few blocks of the roots hardly one fails by chance.
        let roots = if rng.one_in(4) { 0..3 } else { 0..0 };
        let weak = |at| Weak {
            at,
            good: rng.below(10) as u32,
        };
        let weak_blocks = roots.map(weak).collect();
        Faults {
            seed: self.seed,
            endurance: self.endurance,
            // With six bits a block is written anew, those of the roots as well; two more may rot.
            bitflips: rng.one_of(&[3, 6]),
            bitflip_rate: Rate(rng.one_of(&[256, 64, 16])),
            // A wrong bit a page in so many reads of its block, and in half a year.
            read_disturb: 2_000,
            retention_ns: 4_380 * HOUR_NS,
            program_fail: Rate(if often { program_fail } else { 200_000 }),
            erase_fail: Rate(if often { erase_fail } else { 100_000 }),
            weak_blocks,
            fail_again: Rate(rng.one_of(&[1, 2, 4])),
            ..Faults::default()
        }
    }

    /// Uses up chips for as long as `more`, asked before each round, says so.
    pub fn run(&self, more: &mut dyn FnMut(&Soaked) -> bool) -> Soaked {
        let mut soaked = Soaked::default();
        let mut soak = self.clone();
        while more(&soaked) && soaked.violation.is_none() {
            let (mut round, seed) = (0, soak.seed);
            if let Err(what) = soak.chipful(&mut soaked, &mut round, more) {
                soaked.violation = Some((seed, round, what));
            }
            soak.seed = soak.seed.wrapping_add(1);
        }
        soaked
    }

    fn chipful(
        &self,
        soaked: &mut Soaked,
        round: &mut u64,
        more: &mut dyn FnMut(&Soaked) -> bool,
    ) -> Result<(), String> {
        let shape = self.chip.clone().unwrap_or_else(|| drawn(self.seed));
        let mut chip = shape.formatted()?;
        let good = chip.bad_blocks().len() as u64;
        chip.set_faults(self.faults()).map_err(|e| e.to_string())?;
        let geometry = chip.geometry();
        let least = flashkit_flashlight::ram_needed_for(&geometry, shape.table);
        let ram = vec![0; flashkit_flashlight::ram_to_level(&geometry).max(least)];
        let mut rng = Rng::keyed(self.seed, 6);
        let mix = Mix {
            updates: rng.one_of(&[0, 0, 50, 200]),
            page: shape.page.into(),
            ..MIX
        };
        let mut chipful = Chipful {
            rng,
            mix,
            config: shape.config(),
            model: Model::new(chip.geometry().page_size() as usize),
            soaked,
            ram,
            text: String::new(),
        };
        loop {
            *round += 1;
            chipful.soaked.rounds += 1;
            chip.idle(chipful.rng.below(48) * HOUR_NS);
            chipful.text.clear();
            let end = chipful.round(chip);
            let end = end.map_err(|what| format!("{what} ({})", chipful.text))?;
            let (End::Goes(_, left) | End::Worn(left)) = &end;
            let (now, bad) = (left.counters(), left.bad_blocks().len() as u64 - good);
            let over = matches!(end, End::Worn(_)) || !more(chipful.soaked);
            match end {
                End::Goes(seen, left) if !over => {
                    chipful.model.rebase(&seen);
                    chip = left;
                    continue;
                }
                End::Goes(..) => {}
                End::Worn(_) => chipful.soaked.chips += 1,
            }
            let soaked = chipful.soaked;
            soaked.reads += now.page_reads + now.spare_reads;
            soaked.programs += now.page_programs;
            soaked.erases += now.block_erases;
            soaked.bad_blocks += bad;
            soaked.hours += now.time_ns as f64 / HOUR_NS as f64;
            return Ok(());
        }
    }
}

impl Chipful<'_> {
    /// One session and its end.
    fn round(&mut self, chip: SimNand) -> Result<End, String> {
        let mut recorder = Recorder::new(chip);
        recorder.recording = false;
        if self.soaked.rounds.is_multiple_of(8) {
            recorder.invariants = Some(Invariants::new(recorder.chip(), self.config));
        }
        let mut ram = std::mem::take(&mut self.ram);
        let mut live = Live::mount(recorder, &mut ram, self.config)?;
        let end = self.session(&mut live);
        let worn = live.is_worn();
        let end = match end {
            // What fails because the chip is worn out fails rightly.
            Err(_) if worn => {
                let chip = live.recorder().chip().clone();
                let allows = |seen: &SeenDir| self.model.allows(seen);
                last_look(chip, self.config, &allows).map(End::Worn)
            }
            Err(what) => Err(what),
            Ok(Some(point)) => {
                drop(live);
                self.cut(&point)
            }
            Ok(None) => {
                let all = self.model.begin(&Op::Remount);
                let chip = live.unmount()?.into_inner();
                if all {
                    self.model.finish(&Op::Remount);
                }
                self.look(&chip)
            }
        };
        self.ram = ram;
        end
    }

    /// Does some operations. Returns a place to cut in the last one, if it is to be cut.
    fn session(&mut self, live: &mut Live<'_>) -> Result<Option<Point>, String> {
        let (mut left, cut) = (1 + self.rng.below(60), !self.rng.one_in(4));
        let mut ops: Vec<Op> = Vec::new();
        // What rots for want of reading is found before it is lost.
        live.scrub(1 + self.rng.below(128) as u32)
            .map_err(|e| e.to_string())?;
        while left > 0 {
            if ops.is_empty() {
                random_op(&mut self.rng, &self.mix, &mut ops);
                ops.reverse();
            }
            let Some(op) = ops.pop() else { continue };
            if op == Op::Remount || !self.model.begin(&op) {
                continue;
            }
            left -= 1;
            self.soaked.ops += 1;
            live.recorder().points.clear();
            live.recorder().recording = left == 0 && cut;
            let done = live.execute(&op, self.model.op())?;
            if left == 0 {
                self.text = format!("the session ends with {op}");
            }
            let points = &mut live.recorder().points;
            if !points.is_empty() {
                let n = self.rng.below(points.len() as u64) as usize;
                return Ok(Some(points.swap_remove(n)));
            }
            match done {
                Done::Well => self.model.finish(&op),
                Done::Full(found) => self.model.fail(&op, found.as_ref())?,
            }
        }
        Ok(None)
    }

    /// Cuts, and now and then the recovery from that, and so on.
    fn cut(&mut self, point: &Point) -> Result<End, String> {
        let mut chip = self.torn(point)?;
        while self.rng.one_in(3) {
            let (points, result) = crate::survive::recover(chip.clone(), self.config);
            result?;
            if points.is_empty() {
                break;
            }
            let n = self.rng.below(points.len() as u64) as usize;
            chip = self.torn(&points[n])?;
        }
        self.look(&chip)
    }

    fn torn(&mut self, point: &Point) -> Result<SimNand, String> {
        let outcomes = point.outcomes();
        let n = self.rng.below(outcomes.len() as u64) as usize;
        self.soaked.cuts += 1;
        self.text += &format!("; {}, {}", point.text(), outcomes[n]);
        point.cut(outcomes[n])
    }

    /// Mounts a copy of the chip and compares all of it.
    fn look(&mut self, chip: &SimNand) -> Result<End, String> {
        let again = self.rng.one_in(2);
        let allows = |seen: &SeenDir| self.model.allows(seen);
        match survive_or_wear_out(chip.clone(), self.config, again, &allows) {
            Ok(Looked::Survived(survived)) => {
                self.soaked.files += survived.seen.files();
                Ok(End::Goes(survived.seen, chip.clone()))
            }
            Ok(Looked::WornOut(worn)) => {
                let (seen, chip) = *worn;
                let Some(seen) = seen else {
                    return last_look(chip, self.config, &allows).map(End::Worn);
                };
                self.soaked.files += seen.files();
                // The write that was too much for it may have left a name.
                last_look(chip, self.config, &|now| same_but_for_probe(&seen, now)).map(End::Worn)
            }
            // The mount, or the file that the look has written, may have been too much for it.
            Err(what) => match last_look(chip.clone(), self.config, &allows) {
                Ok(worn) => Ok(End::Worn(worn)),
                Err(_) => Err(what),
            },
        }
    }
}
