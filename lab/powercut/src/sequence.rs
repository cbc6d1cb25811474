//! A sequence of operations with cuts in it, as a fuzzer draws it.

use std::ops::ControlFlow;

use flashkit_nand::Nand;
use flashkit_sim::SimNand;

use crate::chip::Chip;
use crate::model::Model;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::recorder::Point;
use crate::run::{Step, Watch, run};
use crate::seen::SeenDir;
use crate::survive::{PROBES, survive};

/// A cut: numbers that choose among the places and the outcomes that there are, whatever their
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Which of the flash operations.
    pub point: u8,
    /// What it leaves.
    pub outcome: u8,
}

/// Operations, and cuts on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// What is done.
    pub op: Option<Op>,
    /// A cut in this operation, or in the next one that writes; then, cuts in its recovery, in the
    /// recovery from that, and so on.
    pub cuts: Vec<Draw>,
}

/// What is left at a cut, and what is seen there.
type Left = (SeenDir, SimNand);

/// Runs the steps up to the first cut.
struct Session<'a> {
    steps: &'a [Planned],
    config: flashkit_flashlight::Config,
    /// The chip after the last step.
    chip: Option<SimNand>,
    /// The number of the step that was cut, and what came of it.
    end: Option<(usize, Result<Left, String>)>,
    story: &'a mut Vec<String>,
}

impl Session<'_> {
    /// The cuts to be made in this step: those of the first that has any.
    fn cuts(&self, number: usize) -> Option<&[Draw]> {
        let so_far = &self.steps[..=number.checked_sub(PROBES.len())?];
        let mut cuts = so_far.iter().map(|step| &step.cuts[..]);
        cuts.find(|cuts| !cuts.is_empty())
    }

    fn cut(&mut self, model: &Model, points: &[Point], cuts: &[Draw]) -> Result<Left, String> {
        let allows = |seen: &SeenDir| model.allows(seen);
        let mut chip = self.torn(points, cuts[0])?;
        let again = cuts[0].outcome >= 0x80;
        let mut survived = survive(chip.clone(), self.config, again, &allows)?;
        for draw in &cuts[1..] {
            if survived.points.is_empty() {
                break;
            }
            chip = self.torn(&survived.points, *draw)?;
            survived = survive(chip.clone(), self.config, again, &allows)?;
        }
        Ok(if cuts[0].point >= 0x80 {
            (survived.left, survived.chip)
        } else {
            (survived.seen, chip)
        })
    }

    fn torn(&mut self, points: &[Point], draw: Draw) -> Result<SimNand, String> {
        let point = &points[usize::from(draw.point) % points.len()];
        let outcomes = point.outcomes();
        let outcome: Outcome = outcomes[usize::from(draw.outcome) % outcomes.len()];
        self.story.push(format!("cut: {}, {outcome}", point.text()));
        point.cut(outcome)
    }
}

impl Watch for Session<'_> {
    fn wants(&self, number: usize) -> bool {
        self.cuts(number).is_some()
    }

    fn during(&mut self, model: &Model, step: &Step<'_>) -> ControlFlow<()> {
        self.story.push(step.op.to_string());
        let Some(cuts) = self.cuts(step.number).map(<[Draw]>::to_vec) else {
            return ControlFlow::Continue(());
        };
        if step.points.is_empty() {
            return ControlFlow::Continue(());
        }
        let end = self.cut(model, &step.points, &cuts);
        self.end = Some((step.number, end));
        ControlFlow::Break(())
    }

    fn after(&mut self, _: &Model, _: &Step<'_>, chip: &SimNand) -> ControlFlow<()> {
        self.chip = Some(chip.clone());
        ControlFlow::Continue(())
    }
}

/// Runs a sequence on an empty volume, and cuts it at the end as well.
/// Returns how often it was cut.
///
/// # Errors
/// Says what was not as guaranteed, and what had been done.
pub fn cut_sequence(chip: &Chip, steps: &[Planned]) -> Result<u64, String> {
    let mut story = Vec::new();
    let told = attempt(chip, steps, &mut story);
    told.map_err(|what| format!("{what}\non a chip {chip}: {}", story.join("; ")))
}

fn attempt(chip: &Chip, mut steps: &[Planned], story: &mut Vec<String>) -> Result<u64, String> {
    let (shape, config) = (chip, chip.config());
    let mut now = shape.formatted()?;
    let mut model = Model::new(now.geometry().page_size() as usize);
    let mut cut = 0;
    loop {
        let mut session = Session {
            steps,
            config,
            chip: None,
            end: None,
            story,
        };
        let probes = PROBES.map(|name| Op::Unlink(name.to_owned()));
        // Nothing to do makes no sense: the step is passed over.
        let nothing = || Op::Unlink(String::new());
        let ops = (steps.iter()).map(|step| step.op.clone().unwrap_or_else(nothing));
        let mut ops = probes.into_iter().chain(ops);
        run(now.clone(), shape, &mut model, &mut ops, &mut session)?;
        cut += 1;
        let Some((number, end)) = session.end else {
            now = session.chip.unwrap_or(now);
            story.push("cut after that".to_owned());
            let allows = |seen: &SeenDir| model.allows(seen);
            return survive(now, config, false, &allows).map(|_| cut);
        };
        let (seen, left) = end?;
        model.rebase(&seen);
        now = left;
        steps = &steps[number - PROBES.len() + 1..];
    }
}
