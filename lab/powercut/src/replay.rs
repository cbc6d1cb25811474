//! Shows step by step what an id stands for.

use std::io::{self, Write};
use std::ops::ControlFlow;

use flashkit_flashlight::Config;
use flashkit_sim::SimNand;

use crate::again::{Loop, again_told};
use crate::id::{Cut, Id, Place};
use crate::model::Model;
use crate::recorder::Point;
use crate::run::{Step, Watch, run};
use crate::script::Script;
use crate::survive::{cuts_again, look, recover, survive};

/// What a replay has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What was found is allowed.
    Allowed,
    /// It is not: what is wrong.
    Violation(String),
    /// The id leads nowhere: there is no such point, or no such outcome of it.
    NoSuchCut(String),
}

/// Replays the cuts of an id and tells: the operations with their flash operations, the cuts, the
/// recoveries, what may be seen, and what is.
///
/// # Errors
/// `out` failed.
pub fn replay(id: &Id, out: &mut dyn Write) -> io::Result<Verdict> {
    let cuts = match &id.place {
        Place::Cuts(cuts) => cuts,
        Place::Round(round) => return replay_round(id, *round, out),
    };
    let script = match Script::find(&id.script, &id.chip) {
        Ok(script) => script,
        Err(what) => return Ok(Verdict::NoSuchCut(what)),
    };
    let chip = match script.chip.formatted() {
        Ok(chip) => chip,
        Err(what) => return Ok(Verdict::Violation(what)),
    };
    writeln!(out, "chip {}, script {}", script.chip, script.name)?;
    let mut model = Model::new(script.chip.page as usize);
    let config = script.chip.config();
    let mut teller = Teller {
        out,
        config,
        cuts,
        end: None,
        failed: None,
    };
    let mut ops = script.ops.iter().cloned();
    let ran = run(chip, &script.chip, &mut model, &mut ops, &mut teller);
    if let Some(error) = teller.failed {
        return Err(error);
    }
    if let Some(verdict) = teller.end {
        return Ok(verdict);
    }
    if let Err(what) = ran {
        return Ok(Verdict::Violation(what));
    }
    match cuts.first() {
        None => Ok(Verdict::Allowed),
        Some(cut) => Ok(Verdict::NoSuchCut(format!(
            "the script does not come to {cut}"
        ))),
    }
}

/// Prints lines, all of them if they are few.
fn list(out: &mut dyn Write, title: &str, lines: &[String]) -> io::Result<()> {
    const MANY: usize = 200;
    writeln!(out, "{title}")?;
    for line in lines.iter().take(MANY) {
        writeln!(out, "    {line}")?;
    }
    if lines.len() > MANY {
        writeln!(out, "    and {} lines more", lines.len() - MANY)?;
    }
    Ok(())
}

struct Teller<'a> {
    out: &'a mut dyn Write,
    config: Config,
    cuts: &'a [Cut],
    end: Option<Verdict>,
    failed: Option<io::Error>,
}

impl Watch for Teller<'_> {
    fn wants(&self, _: usize) -> bool {
        true
    }

    fn during(&mut self, model: &Model, step: &Step<'_>) -> ControlFlow<()> {
        let told = self.tell(model, step);
        self.note(told)
    }

    fn after(&mut self, model: &Model, step: &Step<'_>, chip: &SimNand) -> ControlFlow<()> {
        if self.cuts.first() != Some(&Cut::Between(step.number)) {
            return ControlFlow::Continue(());
        }
        let told = self.tell_after(model, chip);
        self.note(told)
    }
}

impl Teller<'_> {
    fn note(&mut self, told: io::Result<Option<Verdict>>) -> ControlFlow<()> {
        match told {
            Ok(None) => return ControlFlow::Continue(()),
            Ok(Some(verdict)) => self.end = Some(verdict),
            Err(error) => self.failed = Some(error),
        }
        ControlFlow::Break(())
    }

    fn tell(&mut self, model: &Model, step: &Step<'_>) -> io::Result<Option<Verdict>> {
        writeln!(self.out, "step {}: {}", step.number, step.op)?;
        let cut = match self.cuts.first() {
            Some(Cut::In(point, _)) => step.points.iter().position(|p| p.number == *point),
            _ => None,
        };
        for point in step.points.iter().take(cut.unwrap_or(step.points.len())) {
            writeln!(self.out, "    {:4} {}", point.number, point.text())?;
        }
        match cut {
            None => Ok(None),
            Some(at) => self.tell_cuts(&step.points[at], self.cuts, model).map(Some),
        }
    }

    fn tell_after(&mut self, model: &Model, chip: &SimNand) -> io::Result<Option<Verdict>> {
        writeln!(self.out, "the power is cut between two operations")?;
        self.tell_recovery(chip.clone(), &self.cuts[1..], model)
            .map(Some)
    }

    /// The first of the cuts is in `point`.
    fn tell_cuts(&mut self, point: &Point, cuts: &[Cut], model: &Model) -> io::Result<Verdict> {
        let Some(Cut::In(_, outcome)) = cuts.first() else {
            unreachable!("the caller found it")
        };
        let text = point.text();
        writeln!(
            self.out,
            "    {:4} {text}: the power is cut, left of it: {outcome}",
            point.number
        )?;
        match point.cut(*outcome) {
            Ok(chip) => self.tell_recovery(chip, &cuts[1..], model),
            Err(what) => Ok(Verdict::NoSuchCut(what)),
        }
    }

    /// Mounts the chip, and cuts that or looks at it.
    fn tell_recovery(&mut self, chip: SimNand, cuts: &[Cut], model: &Model) -> io::Result<Verdict> {
        writeln!(self.out, "mount")?;
        let (points, mounted) = recover(chip.clone(), self.config);
        let cut = match cuts.first() {
            Some(Cut::In(point, _)) => points.iter().position(|p| p.number == *point),
            _ => None,
        };
        for point in points.iter().take(cut.unwrap_or(points.len())) {
            writeln!(self.out, "    {:4} {}", point.number, point.text())?;
        }
        if let Some(at) = cut {
            return self.tell_cuts(&points[at], cuts, model);
        }
        if let Some(cut) = cuts.first() {
            return Ok(Verdict::NoSuchCut(format!(
                "the recovery does not come to {cut}"
            )));
        }
        if let Err(what) = mounted {
            return Ok(Verdict::Violation(what));
        }
        list(self.out, "may be seen:", &model.lines())?;
        let (config, again) = (self.config, cuts_again(&chip));
        match look(chip.clone(), config) {
            Ok(seen) => list(self.out, "is seen:", &seen.lines())?,
            Err(what) => writeln!(self.out, "the tree cannot be read: {what}")?,
        }
        Ok(
            match survive(chip, config, again, &|seen| model.allows(seen)) {
                Ok(_) => Verdict::Allowed,
                Err(what) => Verdict::Violation(what),
            },
        )
    }
}

fn replay_round(id: &Id, round: u64, out: &mut dyn Write) -> io::Result<Verdict> {
    let seed = id
        .script
        .strip_prefix("loop-")
        .and_then(|seed| seed.parse().ok());
    let Some(seed) = seed else {
        return Ok(Verdict::NoSuchCut(format!("not a loop: {}", id.script)));
    };
    let config = Loop {
        chip: id.chip.clone(),
        seed,
        cuts: round + 1,
    };
    writeln!(out, "chip {}, loop {seed}, after {round} cuts", id.chip)?;
    let mut told = Vec::new();
    let found = again_told(&config, Some(&mut told));
    for line in told {
        writeln!(out, "{line}")?;
    }
    Ok(match found.classes().first() {
        None => Verdict::Allowed,
        Some((_, violation, _)) => Verdict::Violation(violation.what.clone()),
    })
}
