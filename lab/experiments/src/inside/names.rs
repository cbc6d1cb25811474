//! Names of a real set of files, and how many share an ID within a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use flashkit_flashlight::inspect::hash_of_name;

use crate::parts::Rows;
use crate::report::Cell;

/// File IDs of the paper: buckets of 15 hash maps.
const IDS: u32 = 7_680;
/// Files of the paper's sets.
const USERS: usize = 5_000;
const ROOT: usize = 15_070;
/// A directory that is as large as the paper's log takes, and larger ones.
const DIRECTORIES: [usize; 4] = [240, 500, 1_000, USERS];
const VOLUME: u32 = 1;

/// Names by their directory.
type Names = BTreeMap<PathBuf, Vec<Vec<u8>>>;

pub fn rows(quick: bool) -> Result<Rows> {
    let scale = if quick { 50 } else { 1 };
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let sets = [
        ("a user's home", home, USERS / scale),
        ("/usr", Some(PathBuf::from("/usr")), ROOT / scale),
    ];
    let mut rows = Vec::new();
    for (what, top, most) in sets {
        let Some(top) = top else { continue };
        let mut names = Names::new();
        collect(&top, most, &mut names)?;
        rows.push(row(what.into(), &names));
    }
    // Names of the root file system, in one directory.
    let mut all = Names::new();
    collect(Path::new("/usr"), ROOT, &mut all)?;
    let distinct: BTreeSet<Vec<u8>> = all.into_values().flatten().collect();
    for size in DIRECTORIES {
        let names: Vec<_> = distinct.iter().take(size / scale).cloned().collect();
        let what = format!("one directory of {}", names.len());
        rows.push(row(what, &Names::from([(PathBuf::new(), names)])));
    }
    Ok(rows)
}

/// The first files below a folder, in the order of their paths.
fn collect(top: &Path, most: usize, names: &mut Names) -> Result<()> {
    let mut left = most;
    let mut pending = vec![top.to_owned()];
    while let Some(dir) = pending.pop() {
        // What may not be read is passed over.
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        let mut dirs = Vec::new();
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => dirs.push(entry.path()),
                false => files.push(entry.file_name().into_vec()),
            }
        }
        files.sort();
        files.truncate(left);
        left -= files.len();
        if !files.is_empty() {
            names.insert(dir, files);
        }
        if left == 0 {
            break;
        }
        dirs.sort();
        pending.extend(dirs.into_iter().rev());
    }
    Ok(())
}

/// Files whose ID is that of one before in their directory.
fn collisions(names: &Names, id: fn(&[u8]) -> u32) -> u64 {
    let of = |names: &Vec<Vec<u8>>| {
        let ids: BTreeSet<u32> = names.iter().map(|name| id(name)).collect();
        (names.len() - ids.len()) as u64
    };
    names.values().map(of).sum()
}

fn row(what: String, names: &Names) -> Vec<Cell> {
    let files: usize = names.values().map(Vec::len).sum();
    let papers = collisions(names, |name| hash_of_name(VOLUME, name) % IDS);
    let to_one = (papers > 0).then(|| Cell::Measure(files as f64 / papers as f64, 1));
    vec![
        what.into(),
        Cell::Count(names.len() as u64),
        Cell::Count(files as u64),
        Cell::Count(names.values().map(Vec::len).max().unwrap_or(0) as u64),
        Cell::Count(papers),
        to_one.into(),
        Cell::Count(collisions(names, |name| hash_of_name(VOLUME, name))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_collide_as_often_as_chance_has_it() {
        let names = |n: u32| (0..n).map(|n| format!("{n}.h").into_bytes()).collect();
        let one = |n| Names::from([(PathBuf::new(), names(n))]);
        let papers = |names: &Names| collisions(names, |name| hash_of_name(1, name) % IDS);
        // 7,680 (1 - e^(-n / 7,680)) IDs of n names.
        assert!((1_150..1_350).contains(&papers(&one(5_000))));
        assert!(papers(&one(100)) < 5);
        // In two directories the same names collide no more often.
        let two = Names::from([
            (PathBuf::from("a"), names(50)),
            (PathBuf::from("b"), names(50)),
        ]);
        assert!(papers(&two) <= 2);
        assert_eq!(collisions(&one(100), |_| 1), 99);
    }
}
