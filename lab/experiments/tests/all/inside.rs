//! The small part of what FlashLight's paper tells of its inside: every table is there, and says
//! what it must.

use std::path::Path;

use crate::common::number;
use flashkit_experiments::report::{Cell, Table};
use flashkit_experiments::{Only, Scale, experiments};

#[test]
fn each_table_says_what_it_must() {
    let experiment = experiments().iter().find(|e| e.name == "inside").unwrap();
    let report = (experiment.run)(Scale::Quick, Only(&[]), Path::new(""), &|_| ()).unwrap();
    let [
        names,
        metadata,
        remnants,
        intervals,
        variants,
        served,
        waits,
        asked,
    ] = &report.tables[..]
    else {
        panic!("{} tables", report.tables.len());
    };
    for table in &report.tables {
        let width = table.columns.len();
        assert!(!table.rows.is_empty(), "{}", table.title);
        assert!(
            table.rows.iter().all(|row| row.len() == width),
            "{}",
            table.title
        );
    }
    // Hashes of 28 bits collide no more often than their rest modulo 7,680.
    for row in 0..names.rows.len() {
        assert!(number(names, row, 6) <= number(names, row, 4));
        assert!(number(names, row, 3) <= number(names, row, 2));
    }
    // An inode and a directory at least, and less than a hundredth of the chip. The small part of
    // Create/DeleteFiles ends before metadata is looked at.
    for row in 0..2 {
        let mb = number(metadata, row, 1);
        assert!((0.004..2.7).contains(&mb), "{mb} MB");
    }
    // A file leaves a part of a block at most.
    assert!((1.0..4_000.0).contains(&number(remnants, 0, 2)));
    // Each block begins with an erase or does not; all programs come within some time.
    let last = intervals.rows.len() - 1;
    assert_eq!(number(intervals, last, 1), 100.0);
    assert!((0..last).all(|row| number(intervals, row, 1) <= number(intervals, row + 1, 1)));
    // A block is erased first on a chip that was written, and shares are shares.
    let time = |row| number(variants, row, 2);
    assert!(time(0) > 0.0 && time(1) > 0.0);
    assert!((0.0..=100.0).contains(&number(variants, 3, 6)));
    // It ran for the time that it was to, and all files fit that were there.
    assert!(number(served, 1, 2) >= 2.0);
    assert_eq!(number(served, 1, 0), number(served, 1, 1));
    assert!(number(served, 0, 1) > 0.0);
    let longest = |table: &Table, column| {
        let of = (0..table.rows.len()).map(|row| number(table, row, column));
        of.fold(0.0, f64::max)
    };
    // Both tables are of the same streams: a page's program is 0.25 ms, and 32 of them come.
    for (row, column) in [1, 2, 3].into_iter().enumerate() {
        assert_eq!(longest(waits, column), number(asked, row, 3));
        assert!(number(asked, row, 1) > 8.0);
    }
    assert_eq!(number(asked, 0, 5), 0.0);
    assert!(matches!(&asked.rows[1][0], Cell::Text(how) if how == "asked for all"));
    // Figure 9 and Figure 12 are drawn.
    assert_eq!(report.figures.len(), 2);
}
