//! The rules of the house, on the sources of this tree.

use flashkit_tidy::tree::{File, files, top};
use flashkit_tidy::{allowed, columns, floors, layers, sizes};

fn all() -> Vec<File> {
    files(&top())
}

/// FlashLight's sources count once they stand in folders.
fn counted() -> Vec<File> {
    let mut files = all();
    if !layers::are_there(&files) {
        files.retain(|file| !file.path.starts_with(layers::SOURCES));
    }
    files
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
    let files = all();
    if layers::are_there(&files) {
        none(&layers::findings(&files));
    } else {
        println!("passed over: FlashLight's sources stand in no folders");
    }
}

#[test]
fn no_file_and_no_function_is_longer_than_can_be_read_at_one_go() {
    none(&sizes::findings(&counted(), allowed::LONG));
}

#[test]
fn no_comment_line_is_longer_than_100_columns() {
    none(&columns::findings(&counted()));
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
    ] {
        assert!(files.iter().any(|file| file.path == path), "{path}");
    }
    assert!(files.len() > 300, "{}", files.len());
}
