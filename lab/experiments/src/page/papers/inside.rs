//! Verdicts on what FlashLight's paper tells of its own inside.

use super::{Judged, Look, better, column, holds, number};
use crate::report::{Cell, Table, grouped};

const STUDY: &str = "inside";

/// Of the paper: files to one collision.
const TO_ONE: f64 = 50.0;
/// Per cent of the programs within 1 ms.
const WITHIN: f64 = 96.5;
/// MB/s that erasing at allocation costs at most.
const ERASES: f64 = 0.08;
/// Per cent that compaction often costs.
const COMPACTION: f64 = 12.5;
/// Per cent of the data that remnants take, and of the space from which on it is compacted.
const REMNANTS: (f64, f64) = (0.001, 96.4);
/// The longest waits, in ms: cleaning not asked for, and asked for.
const WAITS: (f64, f64) = (512.1, 304.9);
const SECONDS: f64 = 1_000.0;

/// The rows that begin with these words.
fn rows<'a>(table: &'a Table, key: &'a str) -> impl Iterator<Item = usize> + 'a {
    let of = move |row: &[Cell]| {
        let mut keys = row.iter().take(table.keys);
        keys.any(|cell| matches!(cell, Cell::Text(text) if text.starts_with(key)))
    };
    (0..table.rows.len()).filter(move |row| of(&table.rows[*row]))
}

fn row(table: &Table, key: &str) -> Option<usize> {
    rows(table, key).next()
}

pub fn collisions(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Figure 6 (b)")?;
    let sets = [row(table, "a user's home")?, row(table, "/usr")?];
    let files: f64 = sets
        .iter()
        .filter_map(|row| number(table, *row, "number"))
        .sum();
    let all = |name| -> f64 {
        sets.iter()
            .filter_map(|row| number(table, *row, name))
            .sum()
    };
    let papers = all("collisions, 7,680 IDs");
    let here = all("collisions, FlashLight here");
    let to_one = |row| number(table, row, "files to one").unwrap_or(f64::INFINITY);
    better(
        here < papers && files / here.max(1.0) > TO_ONE,
        (to_one(sets[0]) / TO_ONE - 1.0).abs() < 0.2,
        format!(
            "{here:.0} in {} files: IDs have 28 bits. With the paper's 7,680 one in {:.0} files of a home and one in {:.0} \
             of /usr collides",
            grouped(files as u64),
            to_one(sets[0]),
            to_one(sets[1])
        ),
        "Directories have other sizes than those of the paper's users",
    )
}

pub fn remnants(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Remnants")?;
    let most = column(table, "% of the data")
        .into_iter()
        .fold(0.0, f64::max);
    let compacted = |row: &usize| number(table, *row, "blocks compacted") > Some(0.0);
    let first = (0..table.rows.len()).find(compacted);
    let from = first.and_then(|row| number(table, row, "filled, %"));
    let begins = from.map_or("at no fill up to 98 %".into(), |from| {
        format!("at {from:.0} % of the space")
    });
    holds(
        most <= REMNANTS.0 && from.is_none_or(|from| from >= REMNANTS.1),
        format!("at most {most:.2} % of the data; compaction begins {begins}"),
        "0.001 % of 250 MB are one page, and a file that ends within a block leaves 32 in the mean: so the paper's sizes \
         were whole blocks. Here files that follow fill up what is left in 32 blocks, which need not be compacted",
    )
}

pub fn intervals(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Figure 9")?;
    let at = (0..table.rows.len()).find(|row| number(table, *row, "ms") == Some(1.0))?;
    let own = number(table, at, "FlashLight, %")?;
    let other = number(table, at, "YAFFS2, %");
    let said = other.map_or("not in that build".into(), |other| format!("{other:.1} %"));
    holds(
        own >= WITHIN && other.is_some_and(|other| other < own - 1.0),
        format!("{own:.1} % of FlashLight's programs, YAFFS2's {said}"),
        "The paper's difference is what its hosts compute between two writes. On the chip YAFFS2 does no more between two \
         programs than FlashLight does",
    )
}

pub fn erase_at_allocation(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Variants")?;
    let sysbench: Vec<usize> = rows(table, "SysBench").collect();
    let of = |row: Option<&usize>, name| number(table, *row?, name);
    let rates = [sysbench.first(), sysbench.get(1)].map(|row| of(row, "MB/s"));
    let times = [sysbench.first(), sysbench.get(1)].map(|row| of(row, "flash s"));
    let ([Some(first), Some(again)], [Some(before), Some(after)]) = (rates, times) else {
        return None;
    };
    holds(
        first - again <= ERASES,
        format!("{first:.2} MB/s on an erased chip, {again:.2} where each block is erased first"),
        &format!(
            "The erases take {:.1} s of {after:.1} here. 1,500 of the paper's, at its 64 MB/s, take 3.0, which is 0.08 MB/s \
             only of 2.3 MB/s in all: with its host's time, which is not in flash time",
            after - before
        ),
    )
}

pub fn compaction(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Variants")?;
    let at = *rows(table, "Create/DeleteFiles")
        .collect::<Vec<_>>()
        .get(1)?;
    let lost = -number(table, at, "over the first, %")?;
    let of = |name| number(table, at, name);
    let (reads, programs, erases) = (
        of("of reads, %")?,
        of("of programs, %")?,
        of("of erases, %")?,
    );
    better(
        lost < COMPACTION - 1.0,
        (lost - COMPACTION).abs() <= 1.0,
        format!(
            "{lost:.1} % slower; it takes {reads:.1} % of the reads, {programs:.1} of the programs, {erases:.1} of the erases"
        ),
        "All is cleaned that is worth it, not only remnants",
    )
}

pub fn metadata(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Metadata space")?;
    let (here, paper) = (column(table, "MB at most"), column(table, "paper"));
    let ubifs = column(table, "its UBIFS");
    let less = |than: &[f64], by: f64| here.iter().zip(than).all(|(a, b)| *a <= b * by);
    let said = here.iter().map(|mb| format!("{mb:.3}")).collect::<Vec<_>>();
    better(
        less(&paper, 1.0),
        less(&paper, 1.1),
        format!(
            "{} MB in SysBench, Postmark and Create/DeleteFiles; {} than UBIFS's in the paper",
            said.join(", "),
            if less(&ubifs, 1.0) {
                "less"
            } else {
                "not less"
            }
        ),
        "A file has a page, its inode, there as here: 1,600 of them are 3.3 MB, and the paper's 2.6 have room for 1,270",
    )
}

pub fn table_vii(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Table VII")?;
    let (fit, ran) = (0, 1);
    let seconds = number(table, ran, "flash s")?;
    let of = |row, name| number(table, row, name).map_or(0, |n| n as u64);
    holds(
        seconds >= SECONDS,
        format!(
            "{seconds:.0} s with {} of the 2,000 files at first, as Filebench's scripts have it: {} come and go, {:.2} MB/s. \
             Of 2,000 at first {} fit",
            grouped(of(ran, "files at first")),
            grouped(of(ran, "created")),
            number(table, ran, "MB/s")?,
            grouped(of(fit, "of them fit"))
        ),
        "It ended before",
    )
}

pub fn waits(look: &Look<'_>) -> Judged {
    let table = look.table(STUDY, "Figure 12")?;
    let longest = |name| column(table, name).into_iter().fold(0.0, f64::max);
    let (without, with) = (longest("not asked, ms"), longest("asked for all, ms"));
    let means = column(look.table(STUDY, "Cleaning on request")?, "mean, ms");
    let [plain, asked, ..] = means[..] else {
        return None;
    };
    better(
        without < WAITS.0 && with < WAITS.1 && with <= without && asked < plain,
        false,
        format!(
            "{without:.1} ms, and {with:.1} when cleaning is asked for before each write; the mean is {plain:.1} and \
             {asked:.1} ms. The longest come at the end, when nothing is left that is worth cleaning: they fall by {:.0} %, \
             the paper's by 40",
            100.0 * (1.0 - with / without)
        ),
        "Cleaning goes in steps with the writes, and asking does not make the longest shorter",
    )
}
