//! The `flashkit` command.
fn main() {}
