//! Flash time between programs.

use std::cell::RefCell;

use anyhow::{Result, anyhow};
use flashkit_workload::generate::Sysbench;
use flashkit_workload::{Line, Options, Store, StoreError, replay_store, trace};

use super::watch::{At, Volume, Watched, chip};
use crate::parts::Rows;
use crate::report::Cell;
use crate::study::here::RAM;

/// Where the figure is drawn, in ms.
const AT: [f64; 9] = [0.25, 0.3, 0.4, 0.5, 1.0, 1.8, 2.0, 4.0, 8.0];
/// Of the paper at 1 ms, in per cent: FlashLight and YAFFS2.
const PAPER: (f64, [f64; 2]) = (1.0, [96.5, 89.1]);

pub fn rows(quick: bool) -> Result<Rows> {
    let mut memory = vec![0; RAM];
    let flashlight = intervals(Volume::new(&mut memory)?, quick)?;
    let yaffs2 = yaffs2(quick)?;
    let rows = AT.map(|ms| {
        let share = |of: &[u64]| {
            let within = of.iter().filter(|ns| **ns as f64 <= ms * 1e6).count();
            Cell::Measure(100.0 * within as f64 / of.len().max(1) as f64, 1)
        };
        let papers = |n: usize| match ms == PAPER.0 {
            true => Cell::Measure(PAPER.1[n], 1),
            false => Cell::None,
        };
        vec![
            Cell::Measure(ms, 2),
            share(&flashlight),
            yaffs2.as_deref().map(share).into(),
            papers(0),
            papers(1),
        ]
    });
    Ok(rows.to_vec())
}

fn lines(quick: bool) -> Vec<Line> {
    let size = if quick { 4 << 20 } else { 190 << 20 };
    trace::number(Sysbench { size }.ops()).collect()
}

/// Nanoseconds from the end of each program to that of the next. Of several in one request the
/// first is taken to have waited for all else that the request did.
fn intervals<S: Store>(store: S, quick: bool) -> Result<Vec<u64>> {
    let program = chip()?.timing.program_ns;
    let (found, last) = (RefCell::new(Vec::new()), RefCell::new(None));
    let watch = |store: &mut S, at: At| -> std::result::Result<(), StoreError> {
        let now = store.cost();
        if at == At::Created {
            *last.borrow_mut() = Some(now);
        }
        let mut last = last.borrow_mut();
        if let (At::Wrote, Some(before)) = (at, *last) {
            let (programs, ns) = (
                now.page_programs - before.page_programs,
                now.time_ns - before.time_ns,
            );
            if programs > 0 {
                let mut found = found.borrow_mut();
                found.push(ns - (programs - 1) * program);
                found.extend((1..programs).map(|_| program));
                *last = Some(now);
            }
        }
        Ok(())
    };
    let options = Options {
        request: 2_048,
        ..Options::default()
    };
    let watched = Watched { store, watch };
    replay_store(watched, lines(quick), options).map_err(|error| anyhow!("{error}"))?;
    Ok(found.into_inner())
}

#[cfg(feature = "yaffs2")]
fn yaffs2(quick: bool) -> Result<Option<Vec<u64>>> {
    let fs = flashkit_rivals::Yaffs2::new(flashkit_sim::SimNand::new(chip()?));
    let fs = fs.map_err(|error| anyhow!("YAFFS2: {error}"))?;
    intervals(fs, quick).map(Some)
}

/// Is not in this build.
#[cfg(not(feature = "yaffs2"))]
fn yaffs2(_: bool) -> Result<Option<Vec<u64>>> {
    Ok(None)
}
