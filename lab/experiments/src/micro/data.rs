//! Results as curves over the size of requests.

use flashkit_workload::Phase;

use super::TEST;
use super::pattern::Baseline;
use crate::study::{Outcome, System};

/// A figure of a test.
pub type Metric = fn(&Phase) -> f64;
/// Size of requests in KiB, and a figure.
pub type Curve = Vec<(f64, f64)>;

/// Flash time of the test over its requests, in ms. What requests have left to do later is in it:
/// written-back pages, background cleaning, the sync at the end.
pub fn response_ms(phase: &Phase) -> f64 {
    phase.flash_us as f64 / phase.ops.max(1) as f64 / 1e3
}

/// Flash time until a request returns, in ms.
pub fn own_ms(phase: &Phase) -> f64 {
    phase.latency_us.mean / 1e3
}

/// Erases per block of the partition.
pub fn erases(phase: &Phase) -> f64 {
    phase.erases.mean
}

/// Their standard deviation over the blocks.
pub fn deviation(phase: &Phase) -> f64 {
    phase.erases.stddev
}

/// Which tests of the micro study.
#[derive(Clone, Copy, Debug)]
pub struct Tests {
    /// `saturated`, `durable`, `fill`, `pause`.
    pub group: &'static str,
    /// Requests.
    pub kind: Baseline,
    /// MiB of the filler, times of ageing.
    pub amount: u64,
    /// ms.
    pub pause: u64,
    /// An fsync after each request.
    pub fsync: bool,
}

impl Tests {
    /// The first group.
    pub fn saturated(kind: Baseline) -> Tests {
        Tests {
            group: "saturated",
            kind,
            amount: 0,
            pause: 0,
            fsync: false,
        }
    }

    /// The first group's writes, each followed by an fsync.
    pub fn durable(kind: Baseline) -> Tests {
        Tests {
            group: "durable",
            fsync: true,
            ..Tests::saturated(kind)
        }
    }

    /// The second group.
    pub fn fill(mib: u64, fsync: bool) -> Tests {
        Tests {
            group: "fill",
            amount: mib,
            fsync,
            ..Tests::saturated(Baseline::Rw)
        }
    }

    /// The third group.
    pub fn pause(ms: u64, fsync: bool) -> Tests {
        Tests {
            group: "pause",
            pause: ms,
            fsync,
            ..Tests::saturated(Baseline::Rw)
        }
    }

    fn has(self, outcome: &Outcome) -> bool {
        outcome.param("group") == Some(self.group)
            && outcome.param("kind") == Some(self.kind.name())
            && outcome.number("amount") == Some(self.amount as f64)
            && outcome.number("pause") == Some(self.pause as f64)
            && outcome
                .params
                .get("fsync")
                .and_then(serde_json::Value::as_bool)
                == Some(self.fsync)
    }
}

/// All results.
#[derive(Clone, Copy)]
pub struct Data<'a>(pub &'a [Outcome]);

impl Data<'_> {
    /// A figure of one system's tests, by size of requests.
    pub fn curve(&self, tests: Tests, system: System, metric: Metric) -> Curve {
        let of = self.0.iter().filter(|o| o.system == system && tests.has(o));
        let point = |outcome: &Outcome| {
            let value = metric(outcome.phase(TEST)?);
            let size = outcome.number("size")? / 1024.0;
            value.is_finite().then_some((size, value))
        };
        let mut curve: Curve = of.filter_map(point).collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        curve
    }

    /// Why a system's tests of a size have no figures.
    pub fn failure(&self, tests: Tests, system: System) -> Option<(f64, &str)> {
        let of = self.0.iter().filter(|o| o.system == system && tests.has(o));
        let failed = |outcome: &'_ &Outcome| outcome.error.is_some();
        let outcome = of.filter(failed).min_by(|a, b| {
            let size = |o: &Outcome| o.number("size").unwrap_or(0.0);
            size(a).total_cmp(&size(b))
        })?;
        Some((outcome.number("size")? / 1024.0, outcome.error.as_deref()?))
    }
}

/// One curve over another, where both have a point and the other is above zero.
pub fn ratio(over: &Curve, under: &Curve) -> Curve {
    let at = |size: f64| under.iter().find(|(s, v)| *s == size && *v > 0.0);
    over.iter()
        .filter_map(|(size, value)| Some((*size, value / at(*size)?.1)))
        .collect()
}

/// The point of a size.
pub fn at(curve: &Curve, kib: f64) -> Option<f64> {
    curve.iter().find(|(size, _)| *size == kib).map(|(_, v)| *v)
}

/// Least and largest figure.
pub fn span(curve: &Curve) -> Option<(f64, f64)> {
    let values = || curve.iter().map(|(_, value)| *value);
    let least = values().min_by(f64::total_cmp)?;
    Some((least, values().max_by(f64::total_cmp)?))
}
