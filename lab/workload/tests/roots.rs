//! Root blocks that are erased by recoveries that are cut in a row: one of them always leads to the volume.
//!
//! A failure names the seed and the round.

mod common;

use common::{chip, clean, file, formatted, try_mount};
use flashkit_flashlight::Config;
use flashkit_sim::{Cut, EraseTear, PowerCut, Rng, SimNand, Tear};
use flashkit_vfs::FileSystem;

fn any_cut(rng: &mut Rng, ops: u64) -> Cut {
    Cut {
        after: rng.below(ops),
        program: match rng.below(5) {
            0 => Tear::LooksBlank,
            1 => Tear::Garbage,
            2 => Tear::Complete,
            3 => Tear::Prefix(1 + rng.below(1000) as u32),
            _ => Tear::Unstable {
                reads: 1 + rng.below(8) as u32,
            },
        },
        erase: match rng.below(4) {
            0 => EraseTear::NotBegun,
            1 => EraseTear::LooksErased,
            2 => EraseTear::Complete,
            _ => EraseTear::Partial,
        },
        seed: rng.below(u64::MAX),
    }
}

/// Cuts recoveries, each of which erases both root blocks. One in four comes to its end.
fn cut_recoveries(mut chip: SimNand, seed: u64, after_transfer: bool) {
    let config = Config {
        after_transfer,
        ..Config::default()
    };
    let mut rng = Rng::new(seed);
    for round in 0..100 {
        let ends = rng.one_in(4);
        let cut = any_cut(&mut rng, 24);
        let mut cut_chip = if ends {
            PowerCut::never(chip)
        } else {
            PowerCut::new(chip, cut)
        };
        let mounted = try_mount(&mut cut_chip, config);
        match mounted {
            Ok(mut fs) => {
                let found = fs.lookup(fs.root(), b"f");
                assert!(
                    found.is_ok_and(|f| f.size == 5000),
                    "seed {seed}, round {round}"
                );
            }
            Err(e) => assert!(
                e.contains("PowerOff"),
                "seed {seed}, round {round}, {cut:?}: {e}"
            ),
        }
        chip = cut_chip.into_inner();
    }
    clean(&mut try_mount(chip, config).unwrap());
}

#[test]
fn a_root_is_left_whichever_recovery_is_cut() {
    for seed in 0..400 {
        let mut fs = formatted(chip(1024, 40, 8, 64));
        let root = fs.root();
        file(&mut fs, root, b"f", 5000);
        cut_recoveries(fs.volume().nand().clone(), seed, seed % 2 == 0);
    }
}
