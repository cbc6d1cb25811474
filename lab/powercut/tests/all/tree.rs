//! A few cuts in the copy of a tree.

use flashkit_powercut::{Chip, Tree, TreeCuts, TreeFile};
use flashkit_sim::Rng;

/// A tree in which every file is another, of no byte to some pages.
fn tree() -> Tree {
    let mut rng = Rng::new(7);
    let files = (0..40).map(|n| {
        let len = [0, 1, 700, 2048, 9000, 40_000][n % 6] + rng.below(500) as usize * (n % 2);
        let bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
        TreeFile {
            path: format!("{}file {n}", ["", "a/", "a/b/", "c/"][n % 4]),
            bytes: bytes.into(),
        }
    });
    let mut files: Vec<TreeFile> = files.collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Tree { files }
}

const CHIP: Chip = Chip::new(2048, 40, 16, 160);

#[test]
fn what_was_synced_survives_twenty_cuts() {
    let cuts = TreeCuts {
        chip: CHIP,
        seed: 1,
        cuts: 20,
    };
    let found = cuts.run(&tree(), &mut |_| true);
    assert_eq!(found.violation, None);
    assert_eq!(found.cuts, 20);
    assert!(
        found.durable_files > 200 && found.recovery_cuts > 3,
        "{found:?}"
    );
    assert!(found.durable_bytes > 1_000_000, "{found:?}");
    // Equal ones do the same.
    assert_eq!(cuts.run(&tree(), &mut |_| true), found);
}
