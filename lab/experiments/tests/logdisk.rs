//! The 1995 paper's counts, and what the policies beyond it reach.
//!
//! By default the quickest of each; `FLASHKIT_FULL=1` runs them all.

use flashkit_experiments::logdisk::load::{Load, Outcome, Pattern};
use flashkit_experiments::logdisk::paper::{self, TESTS, Test};
use flashkit_logdisk::Config;

fn full() -> bool {
    std::env::var_os("FLASHKIT_FULL").is_some_and(|v| v == "1")
}

/// Repeats a test of the paper and compares its counts with the paper's: within 15 %.
fn reproduces(test: &Test) {
    let ours = test.load().run().unwrap();
    println!("{test:?}: {} erased, {} copied", ours.erased, ours.copied);
    for (what, ours, papers) in [
        ("erased", ours.erased, test.erased.unwrap()),
        ("copied", ours.copied, test.copied.unwrap()),
    ] {
        let within = ours.abs_diff(papers) * 100 <= papers * 15;
        assert!(within, "{test:?}: {ours} {what}, the paper has {papers}");
    }
}

#[test]
fn the_papers_counts() {
    let known: Vec<_> = TESTS.iter().filter(|t| t.copied.is_some()).collect();
    assert_eq!(known.len(), 10);
    for test in known {
        let quick = test.table == 4 && test.percent == 30 || test.table == 5 && test.percent == 90;
        if full() || quick {
            reproduces(test);
        }
    }
}

/// The disk alone, with the default policies.
fn best(pattern: Pattern, aged: u32) -> Outcome {
    let load = Load {
        aged,
        still: 0,
        host_ns: 0,
        steps: 0,
        ..paper::load(pattern, 90, Config::new())
    };
    load.run().unwrap()
}

#[test]
fn ahead_of_the_paper() {
    // Scattered by one pass of random writes; the tidy layout and the long-aged one as well.
    let layouts: &[u32] = if full() { &[0, 1, 3, 15] } else { &[1] };
    for aged in layouts {
        let hot = best(Pattern::HotCold, *aged);
        println!("640-116 aged {aged}: {:.3}", hot.amplification());
        assert!(
            hot.amplification() <= 1.7,
            "aged {aged}: {}",
            hot.amplification()
        );
        assert!(hot.ram <= 64 * 1024, "{} bytes", hot.ram);
    }
    let random = best(Pattern::Random, 0);
    println!("random: {:.3}", random.amplification());
    assert!(random.amplification() <= 3.1, "{}", random.amplification());
}
