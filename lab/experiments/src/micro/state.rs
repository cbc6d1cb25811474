//! Initial states, and what the counters must say of them.
//!
//! The paper's point (section IV.C): a fresh chip says little, so each test begins in a
//! state that was made on purpose. The first phases of a case make it; a result whose
//! counters say otherwise is none.

use flashkit_workload::{Op, Report, Rng};

use super::pattern::TARGET;
use crate::study::Case;

/// A state of the chip before a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Formatted and mounted.
    Clean,
    /// Filled with one file, which was then deleted (section IV.C).
    Dirty,
    /// Beside a file of so many MiB that stays; a region of 20 MiB was filled and deleted
    /// (section IV.C, second group).
    Filled(u64),
    /// A file of random overwrites, until so many times the chip's size was written.
    Aged(u64),
}

/// A file that is as large as the chip allows.
const WITHOUT_END: u64 = 1 << 40;
/// Region of the second group's tests.
const REGION: u64 = 20 << 20;
/// The file that is aged, and the size of its overwrites.
const AGED: u64 = 10 << 20;
const CHURN: u64 = 4096;
const SYNC_EVERY: u64 = 32;

impl State {
    /// `clean`, `dirty`, `filled`, `aged`.
    pub fn name(self) -> &'static str {
        match self {
            State::Clean => "clean",
            State::Dirty => "dirty",
            State::Filled(_) => "filled",
            State::Aged(_) => "aged",
        }
    }

    /// What makes the state. `chip` has so many bytes.
    pub fn ops(self, chip: u64, seed: u64) -> Vec<Op> {
        let path = |name: &str| name.to_owned();
        let phase = |name: &str| Op::Phase { name: path(name) };
        // The test begins right after, or a sync would have what is dirty erased before it.
        let at_once = |name: &str| Op::Mark { name: path(name) };
        let fill = |name: &str, size| Op::Fill {
            path: path(name),
            size,
        };
        let delete = |name: &str| Op::Unlink { path: path(name) };
        match self {
            State::Clean => Vec::new(),
            State::Dirty => vec![
                fill("dirt", WITHOUT_END),
                phase("fill"),
                delete("dirt"),
                at_once("delete"),
            ],
            State::Filled(mib) => vec![
                Op::Create {
                    path: path("filler"),
                    size: mib << 20,
                },
                phase("filler"),
                fill("dirt", REGION),
                phase("fill"),
                delete("dirt"),
                at_once("delete"),
            ],
            State::Aged(times) => {
                let mut rng = Rng::new(seed);
                let mut ops = vec![Op::Create {
                    path: path("aged"),
                    size: AGED,
                }];
                for i in 1..=chip * times / CHURN {
                    ops.push(Op::Update {
                        path: path("aged"),
                        offset: rng.below(AGED / CHURN) * CHURN,
                        size: CHURN,
                    });
                    // Or a page cache would keep most of it from the chip.
                    if i.is_multiple_of(SYNC_EVERY) {
                        ops.push(Op::Fsync { path: path("aged") });
                    }
                }
                // The test takes the place of what was aged.
                ops.extend([phase("age"), delete("aged"), phase("delete")]);
                ops
            }
        }
    }

    /// Whether the counters agree.
    ///
    /// # Errors
    /// What they say instead.
    pub fn verify(self, case: &Case, report: &Report) -> Result<(), String> {
        let page = u64::from(case.chip.page_size);
        let pages = u64::from(case.chip.blocks * case.chip.pages_per_block);
        let of = |name: &str| {
            let phase = report.phases.iter().find(|phase| phase.name == name);
            phase.ok_or_else(|| format!("phase {name} is missing"))
        };
        // What was asked for must have reached the chip, and as much of it as the state is about.
        let programmed = |name: &str, least: u64| {
            let programs = of(name)?.page_programs;
            if programs < least {
                return Err(format!("{programs} programs in phase {name}, not {least}"));
            }
            Ok(())
        };
        match self {
            State::Clean => Ok(()),
            State::Dirty => {
                programmed("fill", of("fill")?.user_bytes / page)?;
                programmed("fill", pages / 2)
            }
            State::Filled(mib) => {
                programmed("filler", (mib << 20) / page)?;
                programmed("fill", of("fill")?.user_bytes / page)?;
                // Where the filler leaves less, less is dirty.
                programmed("fill", REGION / page / 4)
            }
            State::Aged(times) => programmed("age", pages * times),
        }
    }
}

/// Bytes of the tested file where it must be there before the test, as a phase of its own.
pub fn target(size: u64) -> [Op; 2] {
    let path = TARGET.to_owned();
    [
        Op::Create { path, size },
        Op::Phase {
            name: "target".to_owned(),
        },
    ]
}
