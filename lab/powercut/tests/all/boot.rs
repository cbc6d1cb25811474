//! The boot reader on what cuts leave: it finds what a mount finds.

use flashkit_powercut::{Budget, search_boot};

#[test]
fn the_boot_reader_finds_what_a_mount_finds() {
    let found = search_boot(Budget::Small, "1/1".parse().unwrap(), &|_, _| {});
    println!("{found:?}");
    let classes = found.classes();
    let lines: Vec<String> = classes
        .into_iter()
        .map(|(_, v, n)| format!("{n} times {}: {}", v.id, v.what))
        .collect();
    assert!(found.violations == 0, "{}", lines.join("\n"));
}
