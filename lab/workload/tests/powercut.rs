//! Power cuts: FlashLight at every modifying flash operation, with every tear, and again in the
//! recovery; what is found must be one of the states that the model allows.
//!
//! A failure names what replays it: `FLASHKIT_CUT=script:point.tear:point.tear` (the later ones
//! within the recoveries). `FLASHKIT_CUT_SHRINK=1` looks for the shortest script that fails in
//! the same way; `FLASHKIT_CUT_SEEDS=n` runs so many random scripts.

mod cut;

use cut::script::{self, Mix, SMALL};
use cut::search::{Found, Search};

fn directed(name: &str, deep: &[usize], text: &str) {
    let search = Search {
        deep: deep.to_vec(),
        ..Search::new(name)
    };
    search.demand(&script::parse(text));
    let bare = Search {
        chip: (2048, 0, 16, 96),
        ways: 4,
        ..Search::new(format!("{name}_bare"))
    };
    bare.demand(&script::parse(text));
}

#[test]
fn create() {
    directed(
        "create",
        &[3],
        "create a; write a 0 100; fsync a; create b; write b 0 5000; fsync b;
         create c; write c 0 3000; create d; create e; fsync e; sync; create f",
    );
}

fn seeds(default: u64) -> u64 {
    match std::env::var("FLASHKIT_CUT_SEEDS") {
        Ok(n) => n.parse().unwrap(),
        Err(_) => default,
    }
}

fn random(name: &str, seeds: std::ops::Range<u64>, mix: &Mix, of: &Search) {
    let mut total = Found::default();
    for seed in seeds {
        let search = Search {
            name: format!("{name}-{seed}"),
            ..of.clone()
        };
        let ops = script::random(seed, mix);
        let mut found = search.run(&ops);
        if std::env::var("FLASHKIT_CUT_SHRINK").is_ok() {
            for (class, (_, example)) in &mut found.failures {
                if !total.failures.contains_key(class) {
                    let short = search.shrink(&ops, class);
                    *example += &format!("\n  by: {}", script::text(&short));
                }
            }
        }
        total.merge(found);
    }
    println!("{name}: {} points, {} mounts", total.points, total.mounts);
    assert!(total.failures.is_empty(), "\n{}", total.text());
}

#[test]
fn random_scripts() {
    let search = Search {
        ways: 3,
        ..Search::new("")
    };
    random("random", 0..seeds(10), &SMALL, &search);
}
