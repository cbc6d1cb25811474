//! The small part of the Nano-FS experiment: every figure is there, and says what it must.

use std::path::Path;

use crate::common::number;
use flashkit_experiments::{Only, Scale, experiments};

#[test]
fn figures_2_to_8() {
    let experiment = experiments().iter().find(|e| e.name == "nanofs").unwrap();
    let report = (experiment.run)(Scale::Quick, Only(&[]), Path::new(""), &|_| ()).unwrap();
    let titles: Vec<_> = report.tables.iter().map(|t| &t.title[..9]).collect();
    let figures = (2..=8).map(|n| format!("Figure {n}:")[..9].to_owned());
    let expected: Vec<_> = figures
        .chain(["Footprint", "Buffers o"].map(str::to_owned))
        .collect();
    assert_eq!(titles, expected);
    let [
        mounts,
        speed,
        linear,
        _,
        streams,
        collected,
        with_and_without,
        _,
        _,
    ] = &report.tables[..]
    else {
        panic!("{titles:?}");
    };
    // One read a file and one more.
    assert_eq!(number(mounts, 2, 1), number(mounts, 2, 0) + 1.0);
    // Write and read within 3 % and the part of a block that is not the file's.
    for row in 0..3 {
        assert!(number(speed, row, 2) >= number(speed, row, 1) * 0.97 * 500.0 / 512.0);
        assert!(number(speed, row, 5) >= number(speed, row, 4) * 0.97 * 500.0 / 512.0);
    }
    let nodes = number(linear, 0, 1);
    let per_node = |column| (number(linear, 0, column) / nodes * 10.0).round();
    assert_eq!((per_node(2), per_node(3)), (20.0, 30.0));
    // A larger buffer makes both streams together faster.
    for first in (0..streams.rows.len()).step_by(3) {
        assert!(number(streams, first + 2, 5) < number(streams, first, 5));
    }
    // More time frees more, until nothing is left.
    assert!(number(collected, 1, 1) > number(collected, 0, 1));
    // Idle time came, and without it the longest request has far more to clean.
    for on in (0..with_and_without.rows.len()).step_by(2) {
        assert!(number(with_and_without, on, 3) > 0.0);
        assert!(number(with_and_without, on + 1, 6) > 10.0 * number(with_and_without, on, 6));
    }
}
