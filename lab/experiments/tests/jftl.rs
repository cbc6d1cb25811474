//! The small part of the JFTL experiment, on a real kernel.

mod common;

use flashkit_experiments::report::Table;
use flashkit_experiments::{Only, Scale, experiments};

fn number(table: &Table, row: usize, column: &str) -> f64 {
    let at = table.columns.iter().position(|c| *c == column).unwrap();
    common::number(table, row, at)
}

#[test]
fn a_journal_costs_less_and_recovers_faster() {
    let experiment = experiments().iter().find(|e| e.name == "jftl").unwrap();
    let required = std::env::var_os("FLASHKIT_REQUIRE_FUSE").is_some_and(|v| v == "1");
    let report = match (experiment.run)(Scale::Quick, Only(&[]), &|_| ()) {
        Err(why) if !required && why.to_string().starts_with("this needs") => {
            println!("skipped: {why}");
            return;
        }
        other => other.unwrap(),
    };
    let tar = &report.tables[0];
    assert_eq!(tar.title, "Figure 9: Tar");
    // Writeback, ordered, journaled: journaled mode is where the programs go.
    assert!(number(tar, 2, "fewer, %") >= 40.0, "{tar:?}");
    assert!(number(tar, 2, "elided") > 500.0, "{tar:?}");
    let mounts = report.tables.last().unwrap();
    assert!(mounts.title.starts_with("Table II"));
    let (page, stock, explicit) = (0, 1, 2);
    let programs = |row| number(mounts, row, "programs");
    assert!(programs(stock) * 2.0 < programs(page), "{mounts:?}");
    assert!(number(mounts, explicit, "recovery") <= 32.0, "{mounts:?}");
}
