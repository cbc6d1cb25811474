//! Cut after cut on one chip, with work between them.

use std::ops::ControlFlow;

use flashkit_nand::Nand;
use flashkit_sim::{Rng, SimNand};

use crate::chip::Chip;
use crate::id::{Id, Place};
use crate::model::Model;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::plan::Budget;
use crate::recorder::Point;
use crate::run::{Step, Watch, run};
use crate::script::{BARE_CHIP, Mix, SMALL_CHIP, TABLE_CHIP, random_op};
use crate::search::{Found, Violation};
use crate::seen::SeenDir;
use crate::survive::{PROBES, Survived, survive};

/// A loop of cuts. Its name is `loop-SEED`.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The chip.
    pub chip: Chip,
    /// What all chance follows from.
    pub seed: u64,
    /// Cuts in a row.
    pub cuts: u64,
}

const MIX: Mix = Mix {
    ops: 0,
    names: 8,
    dirs: 4,
    write_max: 5000,
    offset_max: 6000,
    updates: 0,
    page: 1024,
};

impl Loop {
    /// The loops of a budget.
    pub(crate) fn all(budget: Budget) -> Vec<Loop> {
        let (seeds, cuts) = match budget {
            Budget::Small => (1, 100),
            Budget::Usual => (4, 1000),
            Budget::Full => (100, 1000),
        };
        let chips = [
            SMALL_CHIP,
            BARE_CHIP,
            SMALL_CHIP.paper(),
            TABLE_CHIP,
            BARE_CHIP.dirty(6),
        ];
        let all = (0..seeds).flat_map(|seed| chips.clone().map(|chip| Loop { chip, seed, cuts }));
        all.collect()
    }
}

/// What is told of operations, and has its own word on what may be seen.
pub(crate) trait Witness {
    /// An operation has returned.
    fn done(&mut self, op: &Op);
    /// An operation is cut, or has not found space.
    fn cut(&mut self, op: &Op);
    /// What is not as it must be.
    fn holds(&self, seen: &SeenDir) -> Result<(), String>;
}

/// One round: what is done, where it is cut, and what is left of it.
pub(crate) struct Round<'a> {
    pub rng: &'a mut Rng,
    pub config: flashkit_flashlight::Config,
    /// Flash operations until the cut.
    pub want: usize,
    pub so_far: usize,
    pub end: Option<Result<(SeenDir, SimNand), String>>,
    /// How often the power was cut.
    pub cuts: u64,
    /// What was cut.
    pub text: String,
    /// What was done, if that is to be told.
    pub told: Option<&'a mut Vec<String>>,
    pub witness: Option<&'a mut dyn Witness>,
}

impl Round<'_> {
    fn draw<'p>(&mut self, points: &'p [Point]) -> (&'p Point, Outcome) {
        let point = &points[self.rng.below(points.len() as u64) as usize];
        let outcomes = point.outcomes();
        (
            point,
            outcomes[self.rng.below(outcomes.len() as u64) as usize],
        )
    }

    /// Cuts at one of the points, and now and then the recovery as well. Half of the time work
    /// goes on with the chip as it was cut, so that the next mount is the recovery.
    fn end(&mut self, model: &Model, points: &[Point]) -> Result<(SeenDir, SimNand), String> {
        let witness = self.witness.take();
        let allows = |seen: &SeenDir| {
            model.allows(seen)?;
            witness.as_ref().map_or(Ok(()), |w| w.holds(seen))
        };
        let (point, outcome) = self.draw(points);
        self.text += &format!("{}, {outcome}", point.text());
        self.cuts += 1;
        let mut cut = point.cut(outcome)?;
        let mut survived = self.survive(&cut, &allows)?;
        while self.rng.one_in(3) && !survived.points.is_empty() {
            let points = std::mem::take(&mut survived.points);
            let (point, outcome) = self.draw(&points);
            self.text += &format!("; in the recovery {}, {outcome}", point.text());
            self.cuts += 1;
            cut = point.cut(outcome)?;
            survived = self.survive(&cut, &allows)?;
        }
        Ok(if self.rng.one_in(2) {
            (survived.left, survived.chip)
        } else {
            (survived.seen, cut)
        })
    }

    fn survive(
        &mut self,
        chip: &SimNand,
        allows: &dyn Fn(&SeenDir) -> Result<(), String>,
    ) -> Result<Survived, String> {
        let cut_again = self.rng.one_in(2);
        survive(chip.clone(), self.config, cut_again, allows)
    }
}

impl Watch for Round<'_> {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn during(&mut self, model: &Model, step: &Step<'_>) -> ControlFlow<()> {
        self.so_far += step.points.len().max(1);
        if let Some(told) = &mut self.told {
            told.push(format!("step {}: {}", step.number, step.op));
            told.extend(
                step.points
                    .iter()
                    .map(|p| format!("    {:4} {}", p.number, p.text())),
            );
        }
        if self.so_far < self.want || step.points.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text += &format!("cut in {}: ", step.op);
        if let Some(witness) = &mut self.witness {
            witness.cut(step.op);
        }
        self.end = Some(self.end(model, &step.points));
        ControlFlow::Break(())
    }

    fn after(&mut self, _: &Model, step: &Step<'_>, _: &SimNand) -> ControlFlow<()> {
        if let Some(witness) = &mut self.witness {
            match step.well {
                true => witness.done(step.op),
                false => witness.cut(step.op),
            }
        }
        ControlFlow::Continue(())
    }
}

/// Random operations on a volume where probes may have been left. That these are gone is made
/// durable: else cuts in a row would leave more and more of them.
fn work(seed: u64) -> impl Iterator<Item = Op> {
    let mut rng = Rng::new(seed);
    let probes = PROBES.map(|name| Op::Unlink(name.to_owned()));
    let mut some = Vec::new();
    probes
        .into_iter()
        .chain([Op::Sync])
        .chain(std::iter::from_fn(move || {
            if some.is_empty() {
                random_op(&mut rng, &MIX, &mut some);
                some.reverse();
            }
            some.pop()
        }))
}

/// Runs a loop to its end, or to the first violation.
pub fn again(config: &Loop) -> Found {
    again_told(config, None)
}

/// The same; tells what is done before the last cut.
pub(crate) fn again_told(config: &Loop, mut told: Option<&mut Vec<String>>) -> Found {
    let mut found = Found {
        scripts: 1,
        ..Found::default()
    };
    let id = |round| Id {
        chip: config.chip.clone(),
        script: format!("loop-{}", config.seed),
        place: Place::Round(round),
    };
    let mut rng = Rng::keyed(config.seed, 5);
    let mut chip = match config.chip.formatted() {
        Ok(chip) => chip,
        Err(what) => {
            found.add(Violation { id: id(0), what });
            return found;
        }
    };
    let mut model = Model::new(chip.geometry().page_size() as usize);
    for number in 0..config.cuts {
        let (want, seed) = (1 + rng.below(60) as usize, rng.next_u64());
        let mut round = Round {
            rng: &mut rng,
            config: config.chip.config(),
            want,
            so_far: 0,
            end: None,
            cuts: 0,
            text: String::new(),
            witness: None,
            told: told.as_deref_mut().filter(|_| number + 1 == config.cuts),
        };
        let mut ops = work(seed).take(5000);
        let ran = run(chip, &config.chip, &mut model, &mut ops, &mut round);
        let text = round.text;
        if let Some(told) = round.told {
            told.push(text.clone());
        }
        let end = match (ran, round.end) {
            (Err(what), _) => Err(what),
            (_, Some(end)) => end,
            (_, None) => Err("nothing is written any more".into()),
        };
        match end {
            Ok((seen, left)) => {
                model.rebase(&seen);
                chip = left;
            }
            Err(what) => {
                found.add(Violation {
                    id: id(number),
                    what: format!("{what} ({text})"),
                });
                return found;
            }
        }
        found.cut_points += 1;
        found.states += 1;
        found.loop_cuts += 1;
    }
    found
}
