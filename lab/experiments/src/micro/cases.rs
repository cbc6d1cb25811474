//! The cases of the paper's three groups, of ours, and of uFLIP.

use std::sync::Arc;

use flashkit_sim::{Preset, preset};
use flashkit_workload::{Line, Op, Rng, trace};
use serde_json::{Map, Value, json};

use super::TEST;
use super::pattern::{self, Baseline, Stream, TARGET};
use super::state::{self, State};
use crate::Scale;
use crate::study::{Case, System};

/// Bytes that the requests of a test of writes have together (section IV.C). Tests of reads read
/// each byte of the file once.
const TOTAL: u64 = 20 << 20;
/// The tested file on the partition of 20 MiB. The paper does not say; UBIFS and FlashLight have
/// room for little more than 14 MiB there.
const SMALL_TARGET: u64 = 12 << 20;
/// The tested file on the partition of 100 MiB.
const LARGE_TARGET: u64 = 20 << 20;
/// Pauses between requests, in ms (section IV.C, third group).
const PAUSES: [u64; 4] = [0, 10, 100, 1000];
/// Seconds in a guest.
const LIMIT: u64 = 300;
/// Seconds of flash time of littlefs: 20 times what the slowest test takes on another system.
const FLASH_LIMIT: u64 = 600;

/// 2 to 512 KiB, by powers of two (section IV.C).
fn sizes() -> impl Iterator<Item = u64> {
    (1..=9).map(|k| 1024 << k)
}

/// What one case varies.
struct Plan {
    group: &'static str,
    chip: &'static Preset,
    state: State,
    kind: Baseline,
    size: u64,
    target: u64,
    pause: u64,
    fsync: bool,
}

impl Plan {
    fn name(&self) -> String {
        let state = match self.state {
            State::Filled(amount) | State::Aged(amount) => format!("-{amount}"),
            State::Clean | State::Dirty => String::new(),
        };
        let pause = match self.group {
            "pause" => format!("-{}ms", self.pause),
            _ => String::new(),
        };
        let sync = if self.fsync { "-fsync" } else { "" };
        let (group, kind, kib) = (self.group, self.kind.name(), self.size >> 10);
        format!("{group}/{kind}{state}{pause}{sync}/{kib}k")
    }

    fn params(&self) -> Map<String, Value> {
        let mut params = Map::new();
        let amount = match self.state {
            State::Filled(amount) | State::Aged(amount) => amount,
            State::Clean | State::Dirty => 0,
        };
        let pairs = [
            ("group", json!(self.group)),
            ("state", json!(self.state.name())),
            ("amount", json!(amount)),
            ("kind", json!(self.kind.name())),
            ("size", json!(self.size)),
            ("pause", json!(self.pause)),
            ("fsync", json!(self.fsync)),
        ];
        params.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
        params
    }

    /// All of it as a trace: the state, the file to be read, the test.
    fn lines(&self) -> Vec<Line> {
        let seed = self.size + self.pause;
        let mut ops = self.state.ops(self.chip_bytes(), seed);
        if self.kind.writes() {
            ops.push(Op::Create {
                path: TARGET.to_owned(),
                size: 0,
            });
        } else {
            ops.extend(state::target(self.target));
        }
        let stream = Stream::new(self.kind, self.size, self.target);
        let mut rng = Rng::new(seed);
        let requests = if self.kind.writes() {
            pattern::baseline(stream, TOTAL / self.size, &mut rng)
        } else {
            pattern::once(&stream, &mut rng)
        };
        ops.extend(pattern::paused(requests, self.pause));
        ops.push(Op::Phase {
            name: TEST.to_owned(),
        });
        trace::number(ops).collect()
    }

    fn chip_bytes(&self) -> u64 {
        let blocks = u64::from(self.chip.blocks * self.chip.pages_per_block);
        blocks * u64::from(self.chip.page_size)
    }

    fn case(self, system: System) -> Case {
        let state = self.state;
        let request = self.size as usize;
        Case {
            id: format!("micro/{}/{}", self.name(), system.name()),
            system,
            chip: self.chip,
            params: self.params(),
            request,
            fsync: self.fsync,
            cold: true,
            check: Arc::new(move |case, report| state.verify(case, report)),
            timed: self.pause > 0,
            limit: LIMIT,
            flash_limit: FLASH_LIMIT,
            lines: Arc::new(move || self.lines()),
        }
    }
}

/// The cases of the paper's groups and of ours. [`Scale::Quick`] has every fourth size.
pub fn cases(scale: Scale) -> Vec<Case> {
    let (Some(small), Some(large)) = (preset("micron-20m"), preset("micron-100m")) else {
        return Vec::new();
    };
    let every = if scale == Scale::Quick { 4 } else { 1 };
    let plan = |group, state, kind, size| Plan {
        group,
        chip: small,
        state,
        kind,
        size,
        target: SMALL_TARGET,
        pause: 0,
        fsync: false,
    };
    let mut cases = Vec::new();
    for system in System::RAW {
        let mut add = |plan: Plan| cases.push(plan.case(system));
        for size in sizes().step_by(every) {
            for kind in Baseline::ALL {
                add(plan("saturated", State::Dirty, kind, size));
            }
            for kind in [Baseline::Sw, Baseline::Rw] {
                add(Plan {
                    fsync: true,
                    ..plan("durable", State::Dirty, kind, size)
                });
            }
            for (mib, fsync) in [30, 60, 75]
                .into_iter()
                .flat_map(|mib| [(mib, false), (mib, true)])
            {
                add(Plan {
                    chip: large,
                    target: LARGE_TARGET,
                    fsync,
                    ..plan("fill", State::Filled(mib), Baseline::Rw, size)
                });
            }
        }
        for size in sizes().step_by(2.max(every)) {
            for (pause, fsync) in PAUSES.into_iter().flat_map(|p| [(p, false), (p, true)]) {
                add(Plan {
                    pause,
                    fsync,
                    ..plan("pause", State::Dirty, Baseline::Rw, size)
                });
            }
        }
        for size in [2048, 32_768] {
            for times in [0, 1, 4] {
                let state = if times == 0 {
                    State::Clean
                } else {
                    State::Aged(times)
                };
                add(plan("aged", state, Baseline::Rw, size));
            }
        }
    }
    cases
}

/// The nine micro-benchmarks, on the dirty partition of 20 MiB, over a file that is there.
/// [`Scale::Quick`] has every fourth value of each parameter.
pub fn uflip_cases(scale: Scale) -> Vec<Case> {
    let Some(chip) = preset("micron-20m") else {
        return Vec::new();
    };
    let every = if scale == Scale::Quick { 4 } else { 1 };
    let mut cases = Vec::new();
    for system in System::RAW {
        let mut nth = 0;
        let mut last = (String::new(), "");
        for point in pattern::uflip(SMALL_TARGET, 1) {
            nth = if (&point.kind, point.benchmark) == (&last.0, last.1) {
                nth + 1
            } else {
                0
            };
            last = (point.kind.clone(), point.benchmark);
            if nth % every == 0 {
                cases.push(uflip_case(system, chip, point));
            }
        }
    }
    cases
}

fn uflip_case(system: System, chip: &'static Preset, point: pattern::Point) -> Case {
    let pattern::Point {
        benchmark,
        kind,
        parameter,
        value,
        ops,
    } = point;
    let pauses = ops.iter().any(|op| matches!(op, Op::Idle { .. }));
    let id = format!("uflip/{benchmark}/{kind}/{value}/{}", system.name());
    let mut params = Map::new();
    let pairs = [
        ("benchmark", json!(benchmark)),
        ("kind", json!(kind)),
        ("parameter", json!(parameter)),
        ("value", json!(value)),
    ];
    params.extend(pairs.map(|(name, value)| (name.to_owned(), value)));
    Case {
        id,
        system,
        chip,
        params,
        request: 1 << 20,
        fsync: false,
        cold: true,
        check: Arc::new(|case, report| State::Dirty.verify(case, report)),
        timed: pauses,
        limit: LIMIT,
        flash_limit: FLASH_LIMIT,
        lines: Arc::new(move || {
            let bytes = u64::from(chip.blocks * chip.pages_per_block) * u64::from(chip.page_size);
            let mut all = State::Dirty.ops(bytes, 1);
            all.extend(state::target(SMALL_TARGET));
            all.extend(ops.iter().cloned());
            all.push(Op::Phase {
                name: TEST.to_owned(),
            });
            trace::number(all).collect()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cases_have_names_of_their_own() {
        let all: Vec<Case> = [cases(Scale::Full), uflip_cases(Scale::Full)].concat();
        let names: BTreeSet<&str> = all.iter().map(|case| &case.id[..]).collect();
        assert_eq!(names.len(), all.len());
        // 9 sizes: 4 patterns, 2 durable, 3 fill levels, durable or not; 5 sizes of 4
        // pauses, durable or not; aged.
        assert_eq!(cases(Scale::Full).len(), 6 * (9 * 12 + 5 * 4 * 2 + 6));
        assert_eq!(uflip_cases(Scale::Full).len(), 6 * 282);
        assert!(cases(Scale::Quick).len() < 6 * 67);
    }

    #[test]
    fn a_test_has_the_papers_amount() {
        for case in cases(Scale::Quick) {
            let lines = (case.lines)();
            let test = lines.rsplit(|line| matches!(&line.op, Op::Phase { name } if name != TEST));
            let bytes: u64 = test.take(1).flatten().map(|line| line.op.bytes()).sum();
            let reads = case.params["kind"].as_str().unwrap().ends_with('r');
            let expected = if reads { SMALL_TARGET } else { TOTAL };
            assert_eq!(bytes, expected, "{}", case.id);
        }
    }
}
