//! Looks for a shorter script with the same violation.

use crate::id::{Id, Place};
use crate::op::Op;
use crate::script::Script;
use crate::search::{Found, Violation, Width, search};

/// Leaves out operations of a violation's script as long as a violation of the same
/// [class](Violation::class) is found, and returns the one found last. Loops
/// are returned as they are.
///
/// Every try is a whole search of what is left of the script, as deep as the violation.
pub fn shrink(violation: &Violation) -> Violation {
    let Place::Cuts(cuts) = &violation.id.place else {
        return violation.clone();
    };
    let Ok(script) = Script::find(&violation.id.script, &violation.id.chip) else {
        return violation.clone();
    };
    let deeper = vec![3; cuts.len().saturating_sub(1)];
    let width = Width::default().deeper(&deeper);
    let class = violation.class();
    let mut best = violation.clone();
    let mut ops = script.ops.clone();
    let mut size = ops.len() / 2;
    while size > 0 {
        let mut i = 0;
        while i < ops.len() {
            let mut fewer = ops.clone();
            fewer.drain(i..(i + size).min(ops.len()));
            match try_without(&script, &fewer, &width, &class) {
                Some(found) => (best, ops) = (found, fewer),
                None => i += size,
            }
        }
        size /= 2;
    }
    best
}

fn try_without(script: &Script, ops: &[Op], width: &Width, class: &str) -> Option<Violation> {
    let shorter = Script {
        name: Id::script_of(ops),
        ops: ops.to_vec(),
        from: 0,
        forces: Vec::new(),
        ..script.clone()
    };
    let found: Found = search(&shorter, width);
    let mut examples = found.examples.into_iter();
    examples
        .find(|(v, _)| v.class() == class)
        .map(|(violation, _)| violation)
}
