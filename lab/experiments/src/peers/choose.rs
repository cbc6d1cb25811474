//! Which file system for which load, from what was measured.

use super::{LOADS, Set, TRACES};
use crate::study::{Outcome, System};

/// A load, and what it costs on each file system that was measured.
pub struct Choice {
    /// The load, in words.
    pub load: &'static str,
    /// The chip's preset.
    pub chip: &'static str,
    /// The case, but for its last word.
    pub case: String,
    /// Seconds of flash time and the milliseconds of the longest operation, the fastest first; none
    /// where one operation is the whole of a file.
    pub ranked: Vec<(System, f64, Option<f64>)>,
}

/// What traces and loads are like, in the words of somebody who has one.
const WORDS: [(&str, &str); 17] = [
    ("append", "a log: short records appended, each synced"),
    (
        "config",
        "settings: small files replaced by a rename, each synced",
    ),
    (
        "small",
        "many small files, made and rewritten, each write synced",
    ),
    ("randupd", "a database file: 4 KiB at random, each synced"),
    ("randupd75", "the same, on a chip three quarters full"),
    ("sqlite", "SQLite: inserts by its rollback journal"),
    ("sensor", "a sensor's readings, a record at a time"),
    ("mail", "mails in 40 directories, each synced"),
    ("tree", "deep directories, each change synced"),
    (
        "cache",
        "a cache of files that come and go, 80 % full, each synced",
    ),
    (
        "postmark",
        "small files that come and go by the thousand, each synced",
    ),
    ("varmail", "a mail server, synced as it does"),
    ("seq", "one large file, written once"),
    ("fileserver", "a file server, nothing synced"),
    ("webserver", "a web server: reads, and a log"),
    ("dbench", "clients of a file server"),
    ("compile", "a compiler's run, nothing synced"),
];

/// All loads of which two file systems or more were measured.
pub fn choices(outcomes: &[Outcome]) -> Vec<Choice> {
    let mut found = Vec::new();
    for (name, load) in WORDS {
        let of = |set: &'static Set| ranked(set, name, outcomes);
        let Some((case, ranked)) = of(&TRACES).or_else(|| of(&LOADS)) else {
            continue;
        };
        found.push(Choice {
            load,
            chip: flashkit_sim::DEFAULT_PRESET,
            case,
            ranked,
        });
    }
    found
}

type Ranked = (String, Vec<(System, f64, Option<f64>)>);

fn ranked(set: &Set, name: &str, outcomes: &[Outcome]) -> Option<Ranked> {
    let run = set.runs.iter().find(|run| run.name == name)?;
    let mut ranked: Vec<_> = set
        .systems
        .iter()
        .filter_map(|system| {
            let id = set.id(run, *system);
            let phase = run.phase(outcomes.iter().find(|held| held.case == id)?)?;
            let seconds = phase.flash_us as f64 / 1e6;
            let longest = (name != "seq").then_some(phase.latency_us.max / 1e3);
            Some((*system, seconds, longest))
        })
        .collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    (ranked.len() >= 2).then(|| (format!("{}/{name}", set.name), ranked))
}
