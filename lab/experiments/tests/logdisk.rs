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

/// Blocks that a sector's write moves at most on a bounded disk (`Config::bounded`): not more than
/// four segments free or under erase and five open when it cleans, so the others are closed.
fn moves_at_most(data: u32) -> u64 {
    let mean = data / (64 - 4 - 5);
    2 * u64::from(mean.div_ceil(504 - mean))
}

#[test]
fn bounded_latency_is_bounded() {
    let seeds = if full() { 1..9 } else { 1..2 };
    for seed in seeds {
        for (pattern, percent, aged) in [
            (Pattern::Sequential, 90, 0),
            (Pattern::Random, 60, 0),
            (Pattern::Random, 90, 0),
            (Pattern::HotCold, 90, 1),
        ] {
            // By default the one that copies most.
            if !full() && (pattern, percent) != (Pattern::Random, 90) {
                continue;
            }
            let load = Load {
                seed,
                aged,
                still: 0,
                host_ns: 0,
                steps: 0,
                written: 48 << 20,
                ..paper::load(pattern, percent, Config::bounded())
            };
            let ours = load.run().unwrap();
            // A sector: 134 word programs and 3 of its flags. A block moved: a read of 128 words and
            // an entry, and as many programs. Once a request: the flags of all pairs in the queue.
            let (write, moved, queue) = (1_370_000, 130_000 + 1_370_000, 800 * 30_000);
            let bound = 8 * (write + moves_at_most(load.data) * moved) + queue;
            let name = format!("{pattern:?} {percent} %, seed {seed}");
            println!(
                "{name}: {} ms of {}, {} waits, {:.2}",
                ours.longest_ns / 1_000_000,
                bound / 1_000_000,
                ours.waits,
                ours.amplification()
            );
            let erase = if ours.waits == 0 { 0 } else { 1_000_000_000 };
            assert!(
                ours.longest_ns <= bound + erase,
                "{name}: {}",
                ours.longest_ns
            );
            // One request of 12,288 may.
            assert!(ours.waits <= 2, "{name}: {} waits", ours.waits);
            assert!(ours.ram <= 64 * 1024, "{} bytes", ours.ram);
        }
    }
}
