//! Power cuts: FlashLight at every modifying flash operation, with every tear, and again in the
//! recovery; what is found must be one of the states that the model allows.
//!
//! A failure names what replays it: `FLASHKIT_CUT=script:point.tear:point.tear` (the later ones
//! within the recoveries). `FLASHKIT_CUT_FULL=1` cuts deeper. `FLASHKIT_CUT_SHRINK=1` looks for the shortest script that fails in
//! the same way; `FLASHKIT_CUT_SEEDS=n` runs so many random scripts.

mod cut;

use cut::model::Seen;
use cut::script::{self, Mix, Op, SMALL};
use cut::search::{Found, Outcome, Run, Search, chip, formatted, look, survive};
use flashkit_flashlight::Config;
use flashkit_sim::Rng;

/// Without optimisation there is time for less.
const SLOW: bool = cfg!(debug_assertions);
const SLOWER: usize = if SLOW { 8 } else { 1 };

fn directed(name: &str, deep: bool, text: &str) {
    let full = std::env::var("FLASHKIT_CUT_FULL").is_ok();
    let search = Search {
        ways: if SLOW { 3 } else { usize::MAX },
        deep: if full {
            vec![3, 1]
        } else {
            vec![1; usize::from(deep && !SLOW)]
        },
        strict: true,
        ..Search::new(name)
    };
    search.demand(&script::parse(text));
    let bare = Search {
        chip: (2048, 0, 16, 96),
        ways: 4,
        strict: true,
        ..Search::new(format!("{name}_bare"))
    };
    bare.demand(&script::parse(text));
}

#[test]
fn create() {
    directed(
        "create",
        true,
        "create a; write a 0 100; fsync a; create b; write b 0 5000; fsync b;
         create c; write c 0 3000; create d; create e; fsync e; sync; create f",
    );
}

#[test]
fn append_and_overwrite() {
    directed(
        "append",
        true,
        "create a; write a 0 100; fsync a; write a 100 100; fsync a; write a 200 2500; fsync a;
         write a 2700 50; write a 2750 7000; fsync a; sync; write a 9750 10; fsync a",
    );
    directed(
        "overwrite",
        true,
        "create a; write a 0 9000; fsync a; write a 2048 2048; fsync a; write a 100 4000; fsync a;
         write a 0 9000; write a 0 9000; fsync a; write a 5 10; fsync a; sync; write a 4096 4096; fsync a",
    );
    directed(
        "two_files",
        false,
        "create a; create b; write a 0 3000; write b 0 3000; write a 3000 3000; fsync b; write b 0 9000;
         create c; write c 0 100; write a 0 100; fsync c; write b 100 100; fsync a; fsync b",
    );
}

#[test]
fn truncate() {
    directed(
        "truncate",
        true,
        "create a; write a 0 9000; fsync a; truncate a 5000; fsync a; truncate a 20000; fsync a;
         write a 15000 10; fsync a; truncate a 14000; truncate a 16000; fsync a; truncate a 0; fsync a;
         write a 100 100; fsync a; truncate a 150; truncate a 300; fsync a; write a 250 5000; truncate a 2048; fsync a",
    );
}

#[test]
fn unlink() {
    directed(
        "unlink",
        true,
        "create a; write a 0 5000; fsync a; unlink a; create b; write b 0 100; fsync b; unlink b;
         create b; write b 0 200; fsync b; unlink b; create a; fsync a; unlink a; sync;
         mkdir d; create d/x; write d/x 0 3000; fsync d/x; unlink d/x; create d/x; fsync d/x; fsync d;
         unlink d/x; fsync d; create d/x; create d/y; fsync d",
    );
    directed(
        "unlink_other_dirs",
        false,
        "mkdir d; mkdir e; mkdir f; create d/a; write d/a 0 100; fsync d/a; unlink d/a; create e/a; fsync e/a;
         unlink e/a; create f/a; fsync f/a; create d/a; fsync d/a; unlink f/a; create e/b; fsync e/b;
         create f/b; fsync f/b; unlink d/a; create e/c; create f/c; fsync e/c; create d/c; fsync d/c",
    );
}

#[test]
fn unlink_open() {
    directed(
        "unlink_open",
        true,
        "create a; write a 0 5000; fsync a; open a; unlink a; create a; write a 0 100; fsync a; close;
         open a; unlink a; create b; fsync b; sync; create c; fsync c; close; create d; fsync d;
         open b; rename c b; create e; fsync e; close; sync; create f; fsync f",
    );
    directed(
        "unlink_open_many",
        false,
        "create a; create b; create c; write a 0 5000; write b 0 100; open a; open b; open c; unlink a; unlink b; unlink c;
         create a; create b; write a 0 4000; fsync b; close; fsync a; close; close; unlink a; unlink b; sync",
    );
}

#[test]
fn rename_files() {
    directed(
        "rename",
        true,
        "create a; write a 0 5000; fsync a; rename a b; create a; write a 0 100; fsync a; rename a b;
         create a; write a 0 3000; rename a b; write b 0 10; fsync b; rename b c; rename c b; create c; fsync c; rename c b;
         sync; rename b a; rename a b; sync; create t; write t 0 4000; fsync t; rename t b; unlink b; create b; fsync b",
    );
    directed(
        "rename_across",
        true,
        "mkdir d; mkdir e; create d/a; write d/a 0 5000; fsync d/a; rename d/a e/a; create d/a; write d/a 0 100; fsync d/a;
         rename d/a e/a; create d/a; fsync d/a; rename e/a d/a; mkdir f; rename d/a f/b; create e/a; write e/a 0 10;
         rename e/a f/b; unlink f/b; create f/b; fsync f/b; sync; rename f/b d/z; rename d/z e/z; unlink e/z; create e/y; fsync e/y",
    );
    directed(
        "rename_open",
        true,
        "create a; write a 0 100; fsync a; create b; write b 0 5000; fsync b; open b; rename a b; close; open b;
         create c; write c 0 3000; rename c b; create d; fsync d; sync; close; mkdir e; create e/a; fsync e/a; open b; rename e/a b; sync; close",
    );
}

#[test]
fn links() {
    directed(
        "link",
        true,
        "create a; write a 0 100; fsync a; link a b; link b c; write c 50 100; fsync b; unlink a; unlink c; unlink b;
         create a; write a 0 5000; link a b; write a 0 10; fsync b; unlink a; create a; fsync a; link b c; sync; unlink b; unlink c;
         create d; link d e; link d f; sync; unlink d; link e d; rename e g; rename g f; unlink f; fsync d",
    );
    directed(
        "link_across",
        true,
        "mkdir d; mkdir e; create d/a; write d/a 0 3000; fsync d/a; link d/a e/a; unlink d/a; link e/a d/b; create d/c; link d/c e/c;
         unlink e/c; link d/c e/d; rename d e/x; link e/x/b f; unlink e/x/b; rename f e/x/b; link e/a f; sync; rename e/x g; unlink f; unlink g/b",
    );
    directed(
        "link_over",
        true,
        "create a; write a 0 100; fsync a; link a b; link a c; create x; write x 0 3000; fsync x; rename x b; create x; write x 0 10; rename x c;
         link a b; unlink c; link b c; rename c a; rename a x; link x y; mkdir d; rename y d/y; create z; rename z d/y; rename b d/y; sync; create q; rename q x; fsync d/y",
    );
    directed(
        "link_open",
        true,
        "create a; write a 0 100; fsync a; link a b; open a; unlink a; unlink b; create c; fsync c; close; create d; link d e; open d; create f; write f 0 20;
         rename f d; rename c e; sync; close; create g; link g h; open g; unlink g; close; unlink h; symlink s 20; link s t; unlink s; rename t u; fsync u",
    );
    directed(
        "link_removals",
        false,
        "create a; fsync a; create b; fsync b; unlink a; link b a; create c; link b d; unlink b; create e; unlink a; create a; fsync a;
         mkdir x; create x/a; create y; link y x/b; create z; unlink x/a; link z x/a; unlink y; unlink x/b; rmdir x; link d x; fsync x",
    );
}

/// A mount that is read-only recovers as others do: links are counted right, and a check finds
/// nothing.
#[test]
fn links_read_only() {
    let mut run = Run::new(formatted(chip(2048, 40, 16, 96)), Config::default());
    let read_only = Config {
        read_only: true,
        ..Config::default()
    };
    let mut points = 0;
    for op in script::parse(
        "create a; write a 0 3000; link a b; link a c; create x; write x 0 10; fsync x; rename x b; create x; fsync x;
         rename x c; create x; fsync x; rename x a; link b d; open d; unlink b; unlink d; create y; fsync y",
    ) {
        assert!(run.model.begin(&op));
        run.execute(&op).unwrap();
        for point in std::mem::take(run.points()) {
            points += 1;
            for way in point.ways(false) {
                let allows = |seen: &Seen| run.model.allows(seen);
                look(point.cut(*way), read_only, &allows)
                    .unwrap_or_else(|e| panic!("{op}, {way:?}, {}: {e}", point.what()));
            }
        }
        run.model.finish(&op);
    }
    assert!(points > 20, "{points}");
}

/// More names than an inode holds: pages of names.
#[test]
fn many_links() {
    let long = |i: usize| format!("{i:03}{}", "n".repeat(60));
    let mut ops = script::parse("mkdir d; create f; write f 0 3000; fsync f");
    for i in 0..24 {
        let dir = if i % 3 == 0 { "d/" } else { "" };
        ops.push(Op::Link("f".into(), format!("{dir}{}", long(i))));
        match i % 8 {
            3 => ops.push(Op::Unlink(long(i - 1))),
            5 => ops.push(Op::Rename(long(i - 1), format!("d/{}", long(100 + i)))),
            7 => ops.extend(script::parse(&format!(
                "create x; write x 0 200; rename x {}; gc",
                long(i)
            ))),
            _ => {}
        }
    }
    ops.push(Op::Sync);
    for i in (0..24).rev() {
        let dir = if i % 3 == 0 { "d/" } else { "" };
        ops.push(Op::Unlink(format!("{dir}{}", long(i))));
    }
    ops.extend(script::parse("unlink f; create f; fsync f"));
    for (name, chip) in [
        ("many_links", (2048, 40, 16, 96)),
        ("many_links_small", (1024, 0, 16, 96)),
    ] {
        let search = Search {
            chip,
            ways: if SLOW { 2 } else { 4 },
            every: SLOWER,
            strict: true,
            ..Search::new(name)
        };
        search.demand(&ops);
    }
}

#[test]
fn directories() {
    directed(
        "mkdir",
        true,
        "mkdir a; mkdir a/b; mkdir a/b/c; create a/b/c/f; write a/b/c/f 0 100; fsync a/b/c/f; unlink a/b/c/f; rmdir a/b/c;
         mkdir a/b/c; create a/b/c/f; fsync a/b/c/f; sync; unlink a/b/c/f; rmdir a/b/c; rmdir a/b; rmdir a; mkdir a; mkdir b;
         rmdir a; create a; fsync a; rmdir b; mkdir b; create b/x; fsync b/x",
    );
    directed(
        "rename_dirs",
        true,
        "mkdir a; create a/f; write a/f 0 3000; fsync a/f; rename a b; create b/g; fsync b/g; mkdir c; rename b c/b;
         mkdir d; rename c/b d; create c/x; fsync c/x; mkdir e; unlink c/x; rename e c/e; rename c/e e; rename e c;
         rename d/f c/f; rename d c/d; sync; rename c/d d; rename d/g g; rmdir d; rename c/f f; rmdir c",
    );
    directed(
        "symlinks",
        false,
        "symlink a 20; fsync a; symlink b 3000; fsync b; rename a b; create f; write f 0 100; fsync f; rename b f; unlink f; symlink f 10; fsync f; sync",
    );
}

#[test]
fn evicted_directories() {
    directed(
        "evicted",
        false,
        "mkdir a; mkdir b; mkdir c; mkdir d; create a/x; create b/x; create c/x; create d/x; write a/x 0 100; write b/x 0 100;
         unlink c/x; create d/y; fsync d/y; create a/y; unlink a/x; create b/y; create c/y; create d/z; fsync a/y;
         rename b/x c/x; unlink c/x; create a/z; create b/z; fsync b/z; create c/z; fsync c/z; rename c/z d/q; unlink d/q;
         create a/q; create b/q; create d/q; fsync d/q; rename d/q a/q; unlink a/q; create a/r; fsync a/r",
    );
}

#[test]
fn session_begins() {
    directed(
        "session",
        true,
        "create a; write a 0 100; remount; create b; fsync b; remount; write b 0 5000; fsync b; remount; remount; unlink a;
         create c; fsync c; remount; open b; unlink b; remount; mkdir d",
    );
}

/// A directory that outgrows its page, and its hash maps.
#[test]
fn hash_maps() {
    let mut ops = Vec::new();
    for i in 0..420 {
        ops.push(Op::Create(format!("f{i}")));
        if i % 3 == 0 {
            ops.push(Op::Fsync(format!("f{i}")));
        }
        if i % 7 == 0 {
            ops.push(Op::Unlink(format!("f{}", i / 2)));
        }
        if i % 11 == 0 {
            ops.push(Op::Rename(format!("f{}", i / 3), format!("g{i}")));
        }
        if i % 150 == 149 {
            ops.push(Op::Sync);
        }
    }
    let search = Search {
        chip: (2048, 40, 32, 128),
        ways: 2,
        every: 3 * SLOWER,
        ..Search::new("hash_maps")
    };
    search.demand(&ops);
    let small = Search {
        chip: (1024, 24, 32, 160),
        ..search
    };
    small.demand(&ops);
}

/// A file whose extents outgrow its page, and its extent maps.
#[test]
fn extent_maps() {
    for (seed, name) in ["extent_maps", "extent_maps_bare"].into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let mut ops = vec![Op::Create("a".into())];
        for i in 0..420 {
            ops.push(Op::Write("a".into(), 2048 * rng.below(700), 2048));
            match i % 40 {
                9 => ops.push(Op::Fsync("a".into())),
                19 => ops.push(Op::Write("a".into(), rng.below(500_000), 300)),
                29 => ops.push(Op::Truncate("a".into(), 400_000 + rng.below(500_000))),
                39 => ops.push(Op::Sync),
                _ => {}
            }
        }
        ops.push(Op::Truncate("a".into(), 100_000));
        ops.push(Op::Fsync("a".into()));
        ops.push(Op::Unlink("a".into()));
        ops.push(Op::Fsync("/".into()));
        let search = Search {
            chip: (2048, if seed == 0 { 40 } else { 0 }, 32, 128),
            ways: 2,
            every: 2 * SLOWER,
            ..Search::new(name)
        };
        search.demand(&ops);
    }
}

/// Writes on a chip that is nearly full: cleaning.
#[test]
fn cleaning() {
    for (seed, spare) in [(0, 40), (1, 0)] {
        let mut rng = Rng::new(seed);
        let mut ops = Vec::new();
        for f in 0..12 {
            ops.push(Op::Create(format!("f{f}")));
            ops.push(Op::Write(format!("f{f}"), 0, 2048 * 60));
            ops.push(Op::Sync);
        }
        let skip = ops.len();
        for _ in 0..300 {
            let f = format!("f{}", rng.below(12));
            match rng.below(10) {
                0 => ops.push(Op::Rename(f, format!("f{}", rng.below(12)))),
                1 => {
                    ops.push(Op::Create(f.clone()));
                    ops.push(Op::Write(f, 0, 40_000));
                }
                2 => ops.push(Op::Fsync(f)),
                _ => ops.push(Op::Write(f, 2048 * rng.below(60), 2048 * 3)),
            }
        }
        let search = Search {
            ways: 2,
            every: 20 * SLOWER,
            skip,
            chip: (2048, spare, 16, 96),
            ..Search::new(format!("cleaning-{seed}"))
        };
        search.demand(&ops);
    }
}

/// Many checkpoints: new leaf blocks, second levels and roots.
#[test]
fn checkpoints() {
    let mut ops = vec![Op::Create("a".into())];
    for i in 0..600 {
        ops.push(Op::Write("a".into(), 0, 10 + i));
        ops.push(Op::Sync);
    }
    let search = Search {
        chip: (2048, 40, 8, 160),
        ways: 2,
        every: 8 * SLOWER,
        ..Search::new("checkpoints")
    };
    search.demand(&ops);
    let deep = Search {
        ways: 1,
        every: 50 * SLOWER,
        // The first root block is full soon after.
        skip: 800,
        deep: vec![1],
        ..search
    };
    deep.demand(&ops);
}

/// A block whose pages the recovery replaces must not die while later pages of it are in use.
#[test]
fn block_open_at_the_checkpoint() {
    let search = Search::new("open_block");
    search.demand(&script::parse(
        "mkdir d1; create d; write d 0 1960; rename d c",
    ));
}

/// What a recovery that was cut has written is not erased any more.
#[test]
fn recovery_cut_twice() {
    let search = Search {
        deep: vec![12],
        ..Search::new("cut_twice")
    };
    search.demand(&script::parse("create a; fsync a"));
}

/// Nothing has been written yet, but there is something to write.
#[test]
fn sync_is_the_first_to_write() {
    let search = Search::new("sync_first");
    search.demand(&script::parse("create a; write a 0 100; sync"));
    search.demand(&script::parse("create a; remount; unlink a; sync"));
}

/// The index directory is written in the middle of a rename: two names and it take turns in the
/// cache.
#[test]
fn rename_over_an_indirect_file() {
    let search = Search::new("over_indirect");
    search.demand(&script::parse(
        "mkdir d0; create d0/c; write d0/c 0 3919; rename d0/c c; create d0/b; write d0/b 0 4849;
         rename d0 d1; rename d1/b c",
    ));
}

/// More blocks with an unwritten tail than are remembered, and one being written.
#[test]
fn many_blocks_with_a_tail() {
    let mut ops = Vec::new();
    for i in 0..40 {
        ops.push(Op::Create(format!("f{i}")));
        ops.push(Op::Write(format!("f{i}"), 0, 6 * 2048));
    }
    ops.push(Op::Create("x".into()));
    ops.push(Op::Write("x".into(), 0, 6 * 2048));
    ops.push(Op::Sync);
    let skip = ops.len();
    ops.push(Op::Write("x".into(), 6 * 2048, 2 * 2048));
    ops.push(Op::Fsync("x".into()));
    let search = Search {
        skip,
        chip: (2048, 40, 16, 160),
        ..Search::new("tails")
    };
    search.demand(&ops);
}

/// A script from the environment, for the search.
#[test]
#[ignore = "a tool"]
fn given() {
    let text = std::env::var("FLASHKIT_CUT_SCRIPT").unwrap();
    let env = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let search = Search {
        deep: env("FLASHKIT_CUT_DEEP").map_or(vec![], |n| vec![n]),
        unstable: std::env::var("FLASHKIT_CUT_UNSTABLE").is_ok(),
        strict: std::env::var("FLASHKIT_CUT_STRICT").is_ok(),
        ..Search::new("given")
    };
    search.demand(&script::parse(&text));
}

/// Three cuts: of a random script, of its recovery, and of the recovery from that.
#[test]
fn random_recoveries() {
    let search = Search {
        ways: 1,
        every: 3 * SLOWER,
        deep: vec![1, 1],
        ..Search::new("")
    };
    random("deep", 0..seeds(3), &SMALL, &search);
}

/// Cut after cut on one chip, with work between them.
fn again_and_again(name: &str, seed: u64, cuts: usize, shape: (u32, u32, u32, u32), mix: &Mix) {
    let mut rng = Rng::keyed(seed, 5);
    let (page, spare, pages, blocks) = shape;
    let mut disk = formatted(chip(page, spare, pages, blocks));
    let mut seen = None;
    for round in 0..cuts {
        let at = format!("{name} seed {seed} round {round}");
        let mut run = Run::new(disk, Config::default());
        if let Some(seen) = &seen {
            run.model.rebase(seen);
        }
        run.remove_probe();
        if std::env::var("FLASHKIT_CUT_VERBOSE").is_ok() {
            for point in run.points() {
                println!("{at}: mount {}", point.what());
            }
        }
        run.points().clear();
        let mut ops = Vec::new();
        let want = 1 + rng.below(60) as usize;
        // The mount itself may be cut as well; then the points of the operations.
        let mut last = None;
        let mut done = 0;
        while last.is_none() && done < 5000 {
            ops.clear();
            script::random_op(&mut rng, mix, &mut ops);
            for op in &ops {
                if !run.model.begin(op) {
                    continue;
                }
                let outcome = run
                    .execute(op)
                    .unwrap_or_else(|e| panic!("{at}: {op}: {e}"));
                let points = std::mem::take(run.points());
                if std::env::var("FLASHKIT_CUT_VERBOSE").is_ok() {
                    println!("{at}: {op}");
                    for point in &points {
                        println!("    {}", point.what());
                    }
                }
                done += points.len().max(1);
                if done >= want && !points.is_empty() {
                    let point = &points[rng.below(points.len() as u64) as usize];
                    let ways = point.ways(false);
                    let way = ways[rng.below(ways.len() as u64) as usize];
                    let what = format!("{at}: cut in {op}, {way:?}, {}", point.what());
                    let allows = |seen: &Seen| run.model.allows(seen);
                    let cut = point.cut(way);
                    let (points, now, after) = survive(cut.clone(), Config::default(), &allows)
                        .unwrap_or_else(|e| panic!("{what}: {e}"));
                    last = Some((now.clone(), if rng.one_in(2) { after } else { cut }));
                    // Now and then the recovery is cut, too.
                    if rng.one_in(3) && !points.is_empty() {
                        let point = &points[rng.below(points.len() as u64) as usize];
                        let ways = point.ways(false);
                        let way = ways[rng.below(ways.len() as u64) as usize];
                        let same = |seen: &Seen| {
                            if seen.text() == now.text() {
                                Ok(())
                            } else {
                                Err(format!("another tree: {}", seen.text()))
                            }
                        };
                        let cut = point.cut(way);
                        survive(cut.clone(), Config::default(), &same).unwrap_or_else(|e| {
                            panic!("{what}; and in the recovery {way:?}, {}: {e}", point.what())
                        });
                        last = Some((now, cut));
                    }
                    break;
                }
                match outcome {
                    Outcome::Done => run.model.finish(op),
                    Outcome::Full(content) => run.model.fail(op, content),
                }
            }
        }
        match last {
            Some((now, chip)) => (seen, disk) = (Some(now), chip),
            None => panic!("{at}: nothing is written any more"),
        }
    }
}

#[test]
fn cut_after_cut() {
    let mix = Mix {
        names: 8,
        write_max: 12_000,
        ..SMALL
    };
    for seed in 0..seeds(3) {
        again_and_again("cut_after_cut", seed, 200, (2048, 40, 16, 96), &mix);
        again_and_again("cut_after_cut, small", seed, 200, (2048, 40, 16, 48), &mix);
        again_and_again("cut_after_cut, bare", seed, 200, (2048, 0, 8, 96), &mix);
    }
}

#[test]
fn unstable_pages() {
    let search = Search {
        unstable: true,
        ..Search::new("")
    };
    random("unstable", 0..seeds(10), &SMALL, &search);
}

/// Names of one directory come and go strictly in their order.
#[test]
fn strict_order() {
    let search = Search {
        ways: 2,
        strict: true,
        ..Search::new("")
    };
    random("strict", 0..seeds(10), &SMALL, &search);
}

fn seeds(default: u64) -> u64 {
    match std::env::var("FLASHKIT_CUT_SEEDS") {
        Ok(n) => n.parse().unwrap(),
        Err(_) => default.div_ceil(if SLOW { 5 } else { 1 }),
    }
}

fn random(name: &str, seeds: std::ops::Range<u64>, mix: &Mix, of: &Search) {
    let start = std::time::Instant::now();
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
    println!(
        "{name}: {} points, {} mounts, {:.1} s",
        total.points,
        total.mounts,
        start.elapsed().as_secs_f64()
    );
    assert!(total.failures.is_empty(), "\n{}", total.text());
}

/// Random scripts on a chip so small that it is cleaned all the time.
#[test]
fn random_cleaning() {
    let mix = Mix {
        ops: 150,
        names: 6,
        dirs: 4,
        write_max: 30_000,
        offset_max: 20_000,
    };
    for spare in [40, 0] {
        let search = Search {
            ways: 2,
            every: 2 * SLOWER,
            skip: 40,
            chip: (2048, spare, 16, 48),
            ..Search::new("")
        };
        random(&format!("small{spare}"), 0..seeds(6), &mix, &search);
    }
}

#[test]
fn random_scripts() {
    let search = Search {
        ways: 3,
        ..Search::new("")
    };
    random("random", 0..seeds(10), &SMALL, &search);
}
