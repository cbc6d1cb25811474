//! Every number as CSV.

use flashkit_workload::Phase;

use crate::jftl::{Measured, Ran};
use crate::study::Outcome;

/// The first line.
pub const HEAD: [&str; 26] = [
    "case",
    "system",
    "chip",
    "phase",
    "operations",
    "user_bytes",
    "page_reads",
    "spare_reads",
    "page_programs",
    "block_erases",
    "flash_us",
    "latency_mean_us",
    "latency_p50_us",
    "latency_p99_us",
    "latency_p999_us",
    "latency_max_us",
    "host_mean_us",
    "host_p99_us",
    "erases_mean",
    "erases_stddev",
    "erases_min",
    "erases_max",
    "kernel",
    "error",
    "origin",
    "stale",
];

/// A line for each phase of each result, and for each failure; and two for each
/// measurement on both layers.
pub fn csv<'a>(
    outcomes: impl Iterator<Item = &'a Outcome>,
    measured: impl Iterator<Item = &'a Measured>,
    origin: impl Fn(&str) -> [&'static str; 2],
) -> anyhow::Result<String> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(HEAD)?;
    for outcome in outcomes {
        let kernel = outcome.made.kernel.clone().unwrap_or_default();
        let names = [&outcome.case, outcome.system.name(), &outcome.chip].map(str::to_owned);
        let Some(report) = &outcome.report else {
            let mut record = names.to_vec();
            record.resize(HEAD.len() - 4, String::new());
            record.extend([kernel, outcome.error.clone().unwrap_or_default()]);
            record.extend(origin(&outcome.case).map(str::to_owned));
            out.write_record(record)?;
            continue;
        };
        for phase in report.phases.iter().chain([&report.total]) {
            let mut record = names.to_vec();
            record.push(phase.name.clone());
            record.extend(figures(phase));
            record.extend([kernel.clone(), outcome.error.clone().unwrap_or_default()]);
            record.extend(origin(&outcome.case).map(str::to_owned));
            out.write_record(record)?;
        }
    }
    for held in measured {
        for (layer, ran) in [("page", &held.page), ("jftl", &held.jftl)] {
            let mut record = on_layer(held, layer, ran);
            record.extend(origin(&held.id).map(str::to_owned));
            out.write_record(record)?;
        }
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}

/// Counts, latencies and erases of a phase.
fn figures(phase: &Phase) -> Vec<String> {
    let (flash, host, erases) = (&phase.latency_us, &phase.host_us, &phase.erases);
    let counts = [
        phase.ops,
        phase.user_bytes,
        phase.page_reads,
        phase.spare_reads,
        phase.page_programs,
        phase.block_erases,
        phase.flash_us,
    ];
    let measures = [
        flash.mean,
        flash.p50,
        flash.p99,
        flash.p999,
        flash.max,
        host.mean,
        host.p99,
        erases.mean,
        erases.stddev,
    ];
    let mut record: Vec<String> = counts.iter().map(u64::to_string).collect();
    record.extend(measures.map(|x| format!("{x:.4}")));
    record.extend([erases.min.to_string(), erases.max.to_string()]);
    record
}

/// A measurement on a layer.
fn on_layer(held: &Measured, layer: &str, ran: &Ran) -> Vec<String> {
    let mut record = vec![
        held.id.clone(),
        layer.into(),
        held.chip.clone(),
        "all".into(),
    ];
    record.resize(
        HEAD.iter().position(|c| *c == "page_reads").unwrap_or(0),
        String::new(),
    );
    let us = ran.busy_ns / 1000;
    let counts = [
        ran.page_reads,
        ran.spare_reads,
        ran.page_programs,
        ran.block_erases,
        us,
    ];
    record.extend(counts.map(|n| n.to_string()));
    record.resize(HEAD.len() - 4, String::new());
    record.extend([held.made.kernel.clone().unwrap_or_default(), String::new()]);
    record
}
