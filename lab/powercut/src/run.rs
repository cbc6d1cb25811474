//! Runs a script on a volume and its model, step by step.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use flashkit_nand::Nand;
use flashkit_sim::SimNand;

use crate::chip::Chip;
use crate::forced::Forced;
use crate::guard::Invariants;
use crate::live::{Done, Live};
use crate::model::Model;
use crate::op::Op;
use crate::recorder::{Point, Recorder};

/// One operation of a script.
pub(crate) struct Step<'a> {
    /// Its place in the script, from 0.
    pub number: usize,
    pub op: &'a Op,
    /// Whether there was space for it.
    pub well: bool,
    /// Its modifying flash operations, if they were wanted.
    pub points: Vec<Point>,
}

/// Is told what happens.
pub(crate) trait Watch {
    /// Whether the points of a step are wanted.
    fn wants(&self, step: usize) -> bool;
    /// An operation has ended on the chip; for the model it is still at work.
    fn during(&mut self, model: &Model, step: &Step<'_>) -> ControlFlow<()>;
    /// And now it has ended.
    fn after(&mut self, model: &Model, step: &Step<'_>, chip: &SimNand) -> ControlFlow<()>;
}

/// What a run has forced to happen in the steps that were wanted.
pub(crate) type Census = BTreeMap<Forced, u64>;

/// Runs operations on the volume of `chip`, which is one of that shape.
///
/// # Errors
/// An operation, a mount or an unmount failed, or panicked; the step is named.
pub(crate) fn run(
    chip: SimNand,
    shape: &Chip,
    model: &mut Model,
    ops: &mut dyn Iterator<Item = Op>,
    watch: &mut dyn Watch,
) -> Result<Census, String> {
    let (mut ram, config) = (vec![0; shape.ram(&chip.geometry())], shape.config());
    let mut recorder = Recorder::new(chip);
    recorder.recording = false;
    recorder.invariants = Some(Invariants::new(recorder.chip(), config));
    let mut steps = ops.enumerate();
    let mut remounting: Option<(usize, Op)> = None;
    loop {
        let mut live = Live::mount(recorder, &mut ram, config)?;
        if let Some((number, op)) = remounting.take()
            && conclude(&mut live, model, watch, number, &op, &Done::Well)?.is_break()
        {
            return Ok(census(live));
        }
        loop {
            let Some((number, op)) = steps.next() else {
                return Ok(census(live));
            };
            if !model.begin(&op) {
                continue;
            }
            let wanted = watch.wants(number);
            if wanted && !live.recorder().recording {
                // Only what happens from here on counts.
                live.note_forced();
                live.recorder().census.clear();
            }
            live.recorder().recording = wanted;
            let at = |e: String| format!("step {number}: {e}");
            if op == Op::Remount {
                recorder = live.unmount().map_err(at)?;
                remounting = Some((number, op));
                break;
            }
            let done = live.execute(&op, model.op()).map_err(at)?;
            if conclude(&mut live, model, watch, number, &op, &done)?.is_break() {
                return Ok(census(live));
            }
        }
    }
}

fn conclude(
    live: &mut Live<'_>,
    model: &mut Model,
    watch: &mut dyn Watch,
    number: usize,
    op: &Op,
    done: &Done,
) -> Result<ControlFlow<()>, String> {
    let points = std::mem::take(&mut live.recorder().points);
    let well = matches!(done, Done::Well);
    let step = Step {
        number,
        op,
        well,
        points,
    };
    if watch.during(model, &step).is_break() {
        return Ok(ControlFlow::Break(()));
    }
    match done {
        Done::Well => model.finish(op),
        Done::Full(found) => {
            let failed = model.fail(op, found.as_ref());
            failed.map_err(|e| format!("step {number} ({op}): {e}"))?;
        }
    }
    Ok(watch.after(model, &step, live.recorder().chip()))
}

fn census(mut live: Live<'_>) -> Census {
    live.note_forced();
    std::mem::take(&mut live.recorder().census)
}
