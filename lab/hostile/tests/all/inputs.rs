//! Every stored input of every fuzz target, without a fuzzer: small valid ones, and each that once
//! was a finding.

use std::path::{Path, PathBuf};

use flashkit_hostile::{cp, file, mount, mutate, nbd, nor, operations, record, trace, volume};

/// The stored inputs of a target, in the order of their names.
fn stored(target: &str) -> Vec<PathBuf> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut paths = Vec::new();
    for kind in ["corpus", "findings"] {
        let folder = fuzz.join(kind).join(target);
        if let Ok(entries) = folder.read_dir() {
            paths.extend(entries.map(|entry| entry.expect("a folder that can be read").path()));
        }
    }
    paths.sort_unstable();
    paths
}

/// Runs them, of a target with a corpus of its own.
fn run_all(target: &str, run: fn(&[u8])) {
    let paths = stored(target);
    assert!(paths.len() >= 10, "{target} has {} inputs", paths.len());
    run_each(paths, run);
}

/// The last path printed is that of a failure.
fn run_each(paths: Vec<PathBuf>, run: fn(&[u8])) {
    for path in paths {
        println!("{}", path.display());
        run(&std::fs::read(&path).expect("an input that can be read"));
    }
}

#[test]
fn volumes() {
    run_all("volume", volume::run);
}

/// Each of them, and some random ones: `FLASHKIT_REPAIRS` says how many.
#[test]
fn volumes_that_are_repaired() {
    run_all("volume", volume::repair);
    run_each(stored("repair"), volume::repair);
    let many = std::env::var("FLASHKIT_REPAIRS").ok();
    let many: u32 = many.and_then(|n| n.parse().ok()).unwrap_or(100);
    let stored = stored("volume");
    let first: u32 = std::env::var("FLASHKIT_REPAIRS_FROM").map_or(0, |n| n.parse().unwrap());
    for seed in first..first + many {
        let path = &stored[seed as usize % stored.len()];
        let input = std::fs::read(path).expect("an input that can be read");
        let mut size = input.len();
        let mut bytes = [input, vec![0; 200]].concat();
        for round in 0..3 {
            size = mutate(&mut bytes, size, size + 60, seed * 3 + round);
        }
        println!("{} mutated, FLASHKIT_REPAIRS_FROM={seed}", path.display());
        volume::repair(&bytes[..size]);
    }
}

#[test]
fn sequences_of_operations() {
    run_all("operations", operations::run);
}

#[test]
fn records() {
    run_all("record", record::run);
}

#[test]
fn traces() {
    run_all("trace", trace::run);
}

#[test]
fn image_files() {
    run_all("file", file::run);
}

#[test]
fn chips_of_log_disks() {
    run_all("nor", nor::run);
}

#[test]
fn clients_of_disks() {
    run_all("nbd", nbd::run);
}

#[test]
fn volumes_that_are_copied_out() {
    run_all("cp", cp::run);
}

#[test]
fn requests_to_mounts() {
    run_all("mount", mount::run);
}
