//! What tests of experiments look at.

use flashkit_experiments::report::{Cell, Table};

/// The number in a row and a column of a table.
pub fn number(table: &Table, row: usize, column: usize) -> f64 {
    match table.rows[row][column] {
        Cell::Count(n) => n as f64,
        Cell::Measure(x, _) => x,
        _ => panic!("{}: no number at {row}, {column}", table.title),
    }
}
