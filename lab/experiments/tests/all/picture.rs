//! The picture of the README is what the project's command draws.

use std::path::Path;

use flashkit_experiments::picture;

#[test]
fn the_picture_in_the_tree_is_what_is_drawn() {
    let drawn = picture::draw(&picture::record().unwrap());
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/chip.svg");
    let kept = std::fs::read_to_string(kept).unwrap();
    assert!(
        drawn == kept,
        "draw it anew: flashkit lab picture --output docs/chip.svg"
    );
}
