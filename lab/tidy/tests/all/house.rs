//! The rules of the house, on the sources of this tree.

use flashkit_tidy::tree::{File, files, top};
use flashkit_tidy::{allowed, columns, floors, layers, programs, sizes};

fn all() -> Vec<File> {
    files(&top())
}

fn none(findings: &[String]) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn no_crate_uses_one_of_a_floor_above() {
    none(&floors::findings(&all(), allowed::UPWARDS));
}

#[test]
fn no_layer_of_flashlight_imports_from_one_above() {
    none(&layers::findings(&all()));
}

#[test]
fn no_file_and_no_function_is_longer_than_can_be_read_at_one_go() {
    none(&sizes::findings(&all(), allowed::LONG));
}

#[test]
fn no_comment_line_is_longer_than_100_columns() {
    none(&columns::findings(&all()));
}

#[test]
fn a_function_of_flashlight_that_may_program_flash_says_so() {
    none(&programs::findings(&all()));
}

/// The tree is found where this was built: the rules have something to say something of.
#[test]
fn the_sources_are_there() {
    let files = all();
    for path in [
        "Cargo.toml",
        ".ci/run",
        "sim/Cargo.toml",
        "device/flashlight/src/lib.rs",
        "device/flashlight/src/format/mod.rs",
    ] {
        assert!(files.iter().any(|file| file.path == path), "{path}");
    }
    assert!(files.len() > 300, "{}", files.len());
}
