//! `flashkit lab run jftl`: the paper's Figures 9 to 15 and Table II.

use std::cell::OnceCell;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::figures::{self, Held};
use super::keep::{Measured, Mounts, code};
use super::load::{Inputs, find};
use super::plan::{GARBAGE, GARBAGE_TITLE, MOUNTS, Piece, TABLE_2};
use super::{garbage, recovery};
use crate::kept::{Held as Saved, Marks, Results, held_or};
use crate::report::Report;
use crate::rig::missing;
use crate::study::Folder;
use crate::{Kept, Only, Scale};

/// Pieces of work: benchmarks on both layers, and the mounts.
pub fn pieces(scale: Scale) -> u64 {
    super::pieces(scale).len() as u64 + 2
}

/// Runs what is asked for and has no result yet. A small part of the work leaves no results.
///
/// # Errors
/// Where there is no ext3 to be had, and what goes wrong there.
pub fn run(
    scale: Scale,
    only: Only<'_>,
    results: &Path,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Report> {
    if let Some(why) = missing() {
        bail!("{why}");
    }
    let quick = scale == Scale::Quick;
    let folder = match quick {
        true => None,
        false => Some(Folder::at(results)),
    };
    // Only what is measured needs the tree of the Tar benchmark.
    let inputs = OnceCell::new();
    let (mut held, mut left_out, mut count) = (Vec::new(), Vec::new(), 0);
    for piece in super::pieces(scale) {
        count += 1;
        if piece.wanted(only) {
            match measured(&piece, folder.as_ref(), quick, &inputs)? {
                Some(measured) => held.push((piece, measured)),
                None => left_out.push(piece),
            }
        }
        done(count);
    }
    let mut mounts = None;
    if only.takes(TABLE_2) {
        mounts = match load_mounts(folder.as_ref())? {
            Some(held) => Some(held),
            None => Some(recovery::table(quick)?),
        };
        if let (Some(folder), Some(held)) = (&folder, &mounts) {
            folder.save_as(MOUNTS, held)?;
        }
    }
    let told = match only.takes(GARBAGE_TITLE) {
        true => held_or(folder.as_ref(), GARBAGE, &code(), || {
            garbage::measure(quick)
        })?,
        false => Vec::new(),
    };
    done(self::pieces(scale));
    let mut report = figures::report(&held, mounts.as_ref(), quick);
    report.tables.extend(garbage::table(&told));
    left_out.dedup_by_key(|piece: &mut Piece| piece.title());
    report.notes.extend(left_out.iter().map(|piece| {
        let program = piece.bench.program().unwrap_or_default();
        format!("{}: {program} is not installed.", piece.title())
    }));
    Ok(report)
}

fn load_mounts(folder: Option<&Folder>) -> Result<Option<Mounts>> {
    folder.map_or(Ok(None), |folder| folder.load_as(MOUNTS))
}

/// A result that there is, or a new one; none where the program is missing.
fn measured(
    piece: &Piece,
    folder: Option<&Folder>,
    quick: bool,
    inputs: &OnceCell<Inputs>,
) -> Result<Option<Measured>> {
    let id = piece.id();
    if let Some(folder) = folder
        && let Some(held) = folder.load_as(&id)?
    {
        return Ok(Some(held));
    }
    if piece
        .bench
        .program()
        .is_some_and(|name| find(name).is_none())
    {
        return Ok(None);
    }
    let inputs = match inputs.get() {
        Some(inputs) => inputs,
        None => {
            let made = Inputs::new(quick)?;
            inputs.get_or_init(|| made)
        }
    };
    let measured = inputs.measure(piece).with_context(|| id.clone())?;
    if let Some(folder) = folder {
        folder.save_as(&id, &measured)?;
    }
    Ok(Some(measured))
}

/// What there is of it.
///
/// # Errors
/// A result cannot be read.
pub fn kept(results: &Results) -> Result<Option<Kept>> {
    let pieces = super::pieces(Scale::Full);
    let all = pieces.len();
    let (mut held, mut marks): (Vec<Held>, _) = (Vec::new(), Marks::default());
    for piece in pieces {
        if let Some(measured) = results.load_as::<Measured>(&piece.id())? {
            marks.note(results, &piece.id(), &measured.made, &code());
            held.push((piece, measured));
        }
    }
    let mounts = results.load_as::<Mounts>(MOUNTS)?;
    if held.is_empty() && mounts.is_none() {
        return Ok(None);
    }
    let mut report = figures::report(&held, mounts.as_ref(), false);
    let measured: Vec<_> = held.into_iter().map(|(_, measured)| measured).collect();
    let mut made: Vec<_> = measured.iter().map(|held| held.made.clone()).collect();
    if let Some(mounts) = mounts {
        marks.note(results, MOUNTS, &mounts.made, &code());
        made.push(mounts.made);
    }
    if let Some(told) = results.load_as::<Saved<Vec<garbage::Told>>>(GARBAGE)? {
        marks.note(results, GARBAGE, &told.made, &code());
        made.push(told.made);
        report.tables.extend(garbage::table(&told.found));
    }
    Ok(Some(Kept {
        report,
        count: made.len(),
        measured,
        all: all + 2,
        marks,
        made,
    }))
}
