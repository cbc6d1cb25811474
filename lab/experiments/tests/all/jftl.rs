//! The small part of the JFTL experiment, on a real kernel; and the page of its results.

use std::path::Path;

use crate::common;
use flashkit_experiments::jftl::{MOUNTS, Measured, Mounts, Piece, Ran, Recovery, Tally, pieces};
use flashkit_experiments::kept::Results;
use flashkit_experiments::page::Page;
use flashkit_experiments::report::Table;
use flashkit_experiments::study::{Folder, Made};
use flashkit_experiments::{Only, Scale, experiments};

fn number(table: &Table, row: usize, column: &str) -> f64 {
    let at = table.columns.iter().position(|c| *c == column).unwrap();
    common::number(table, row, at)
}

#[test]
fn a_journal_costs_less_and_recovers_faster() {
    let experiment = experiments().iter().find(|e| e.name == "jftl").unwrap();
    let required = std::env::var_os("FLASHKIT_REQUIRE_FUSE").is_some_and(|v| v == "1");
    let report = match (experiment.run)(Scale::Quick, Only(&[]), Path::new("none"), &|_| ()) {
        Err(why) if !required && why.to_string().starts_with("this needs") => {
            println!("skipped: {why}");
            return;
        }
        other => other.unwrap(),
    };
    let find = |title: &str| {
        let mut tables = report.tables.iter();
        let found = tables.find(|table| table.title.starts_with(title));
        found.unwrap_or_else(|| panic!("{title}"))
    };
    let tar = find("Figure 9: Tar");
    // Writeback, ordered, journaled: journaled mode is where the programs go.
    assert!(number(tar, 2, "fewer, %") >= 40.0, "{tar:?}");
    assert!(number(tar, 2, "elided") > 500.0, "{tar:?}");
    // Asked for the same, remapping never costs.
    let all = find("All benchmarks");
    for row in 0..all.rows.len() {
        for mode in ["writeback: slower, %", "ordered: slower, %"] {
            assert!(number(all, row, mode) <= 1.0, "{all:?}");
        }
    }
    let mounts = find("Table II");
    let (page, stock, explicit) = (0, 1, 2);
    let programs = |row| number(mounts, row, "programs");
    assert!(programs(stock) * 2.0 < programs(page), "{mounts:?}");
    assert!(number(mounts, explicit, "recovery") <= 32.0, "{mounts:?}");
    // What is small is not kept.
    assert!(!Path::new("none").exists());
}

/// A result that might be.
fn made_up(i: u64, piece: &Piece) -> Measured {
    let ran = |programs: u64| Ran {
        page_reads: 10,
        page_programs: programs,
        block_erases: 3,
        busy_ns: programs * 200_000,
        elided: 7,
        rate: piece
            .id()
            .contains("dbench")
            .then_some(1e6 / programs as f64),
        ..Ran::default()
    };
    let mut tally = Tally::default();
    tally.journal.insert("data".into(), 40 + i);
    tally.home.insert("bitmaps".into(), 30);
    Measured {
        id: piece.id(),
        chip: "small-256m".into(),
        page: ran(1_000 + 10 * i),
        jftl: ran(700 + 10 * i),
        again: None,
        alone: Some(ran(800 + 10 * i)),
        input: String::new(),
        tally,
        made: Made::here(Some("6.1 (test)".into())),
    }
}

/// What is between two marks, each time.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from)
        .skip(1)
        .filter_map(|rest| rest.split(to).next())
        .collect()
}

#[test]
fn every_figure_of_the_paper_is_on_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let all = pieces(Scale::Full);
    for (i, piece) in (0..).zip(&all) {
        folder.save_as(&piece.id(), &made_up(i, piece)).unwrap();
    }
    let recovery = Recovery {
        mount_ns: 7_000_000,
        recovery_ns: 20_000_000,
        programs: 70,
    };
    let mounts = Mounts {
        plain: recovery,
        hints: recovery,
        explicit: recovery,
        ..Mounts::default()
    };
    folder.save_as(MOUNTS, &mounts).unwrap();
    let page = Page::of(&Results::of(&folder)).unwrap();
    let html = page.html().unwrap();
    let figures = between(&html, "<figure", "</figure>");
    for (title, points) in [
        ("Figure 9: Tar<", 18),
        ("Figure 9: Tar: ours beside", 12),
        ("Figure 10: Postmark<", 18),
        ("Figure 10: Postmark: ours beside", 12),
        ("Figure 11: Dbench", 30),
        ("Figure 12 (a): Filebench", 24),
        ("Figure 12 (b): Filebench", 18),
        ("Figure 13: block writes", 30),
        ("Figure 14: random writes", 36),
        ("Figure 14 (b): latency", 36),
        ("Figure 15: 4 MiB", 36),
        ("Table II: recovery", 5),
    ] {
        let caption = format!("<figcaption>{title}");
        let found: Vec<_> = figures.iter().filter(|f| f.contains(&caption)).collect();
        assert_eq!(found.len(), 1, "{title}");
        let drawn = found[0].matches("<circle").count() + found[0].matches("<rect").count();
        assert_eq!(drawn, points, "{title}");
        assert!(found[0].contains("class=\"legend\""), "{title}");
    }
    assert_eq!(figures.len(), 12);
    for word in ["NaN", "inf", "null"] {
        let shown = |text: &str| {
            text.split(|c: char| !c.is_alphanumeric())
                .any(|w| w == word)
        };
        assert!(!html.lines().any(shown), "{word} on the page");
    }
    let csv = page.csv().unwrap();
    for piece in &all {
        let of = format!("{},", piece.id());
        assert_eq!(csv.matches(&of).count(), 2, "{of}");
    }
    // Every line has all 26 columns.
    let commas = |line: &str| line.matches(',').count();
    assert!(csv.lines().all(|line| commas(line) == 25), "{csv}");
}

#[test]
fn a_part_of_the_results_has_a_page_too() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    // One mode of three: nothing to draw, and nothing that fails.
    let one = &pieces(Scale::Full)[0];
    folder.save_as(&one.id(), &made_up(1, one)).unwrap();
    let html = Page::of(&Results::of(&folder)).unwrap().html().unwrap();
    assert!(html.contains("cases have no result yet"));
    assert!(!html.contains("NaN"));
}
