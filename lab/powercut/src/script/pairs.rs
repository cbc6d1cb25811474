//! All pairs of operations from a small alphabet, and some sequences of three, on one and two
//! directories, each followed by an operation that makes them durable: bounded black-box testing
//! as CrashMonkey does it (J. Mohan et al., *Finding Crash-Consistency Bugs with Bounded Black-Box
//! Crash Testing*, OSDI 2018, section 4), with a cut at every flash operation in place of one
//! after each persistence point.

use flashkit_sim::Rng;

use super::single::TREE;
use super::{BARE_CHIP, Group, SMALL_CHIP, Script, parse};

/// Name, operations, what an fsync after them is asked for. A letter that ends in `2` is of the
/// second directory or of both.
const ALPHABET: [(&str, &str, &str); 40] = [
    ("create", "create d/n", "d/n"),
    ("recreate", "create d/a", "d/a"),
    ("write", "write d/b 0 1500", "d/b"),
    ("append", "write d/a 2600 600", "d/a"),
    ("overwrite", "write d/a 900 300", "d/a"),
    ("update", "read d/a; fsync d/a; write d/a 0 2048", "d/a"),
    ("tail", "read d/a; fsync d/a; write d/a 2600 400", "d/a"),
    ("truncate", "truncate d/a 1200", "d/a"),
    ("rename", "rename d/a d/n", "d/n"),
    ("over", "rename d/a d/b", "d/b"),
    ("back", "rename d/b d/a", "d/a"),
    ("exchange", "exchange d/a d/b", "d/a"),
    ("unlink", "unlink d/a", "d"),
    ("unlinkb", "unlink d/b", "d"),
    ("link", "link d/a d/n", "d/n"),
    ("mkdir", "mkdir d/t", "d"),
    ("rmdir", "rmdir d/s", "d"),
    ("fsync", "fsync d/a", "d/a"),
    ("fsyncb", "fsync d/b", "d/b"),
    ("fsyncdir", "fsync d", "d"),
    ("sync", "sync", "d/a"),
    ("create2", "create e/n", "e/n"),
    ("append2", "write e/a 1500 600", "e/a"),
    ("update2", "read e/a; fsync e/a; write e/a 0 1024", "e/a"),
    ("truncate2", "truncate e/a 1000", "e/a"),
    ("rename2", "rename d/a e/n", "e/n"),
    ("over2", "rename d/a e/a", "e/a"),
    ("back2", "rename e/a d/a", "d/a"),
    ("exchange2", "exchange d/a e/s", "e"),
    ("unlink2", "unlink e/a", "e"),
    ("link2", "link d/a e/n", "e/n"),
    ("linkback2", "link e/a d/n", "d/n"),
    ("mkdir2", "mkdir e/t", "e"),
    ("rmdir2", "rmdir e/s", "e"),
    ("movedir2", "rename d/s e/t", "e"),
    ("overdir2", "rename d/s e/s", "e"),
    ("fsync2", "fsync e/a", "e/a"),
    ("fsyncdir2", "fsync e", "e"),
    ("punch", "punch d/a 500 1700", "d/a"),
    ("punch2", "punch e/a 0 1024", "e/a"),
];

/// Sequences of three that are drawn for each chip.
const TRIPLES: u64 = 600;

pub(super) fn scripts() -> Vec<Script> {
    let mut all = Vec::new();
    for chip in [SMALL_CHIP, BARE_CHIP] {
        for (first, a, _) in ALPHABET {
            for (second, b, target) in ALPHABET {
                for (ending, last) in [
                    ("fsync", format!("fsync {target}")),
                    ("sync", "sync".to_owned()),
                ] {
                    let ops = parse(&format!("{TREE}; {a}; {b}; {last}"));
                    let name = format!("pair-{first}-{second}-{ending}");
                    // The first operation is one of those that are cut by themselves.
                    let from = parse(&format!("{TREE}; {a}")).len();
                    let script = Script {
                        from,
                        ..Script::new(Group::Pair, name, chip.clone(), ops)
                    };
                    let alone = Script {
                        from: from - 1,
                        ..script.clone()
                    };
                    if alone.senseless().is_none() {
                        all.push(script);
                    }
                }
            }
        }
    }
    all
}

/// Three operations drawn from the alphabet and one that makes them durable. The first two
/// are a pair, and cut there.
pub(super) fn triples() -> Vec<Script> {
    let mut all: Vec<Script> = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for (seed, chip) in [(0, SMALL_CHIP), (1, BARE_CHIP)] {
        let mut rng = Rng::keyed(seed, 78);
        for _ in 0..TRIPLES {
            let mut draw = || ALPHABET[rng.below(ALPHABET.len() as u64) as usize];
            let [(first, a, _), (second, b, _), (third, c, target)] = [draw(), draw(), draw()];
            let (ending, last) = match rng.one_in(2) {
                true => ("sync", "sync".to_owned()),
                false => ("fsync", format!("fsync {target}")),
            };
            let name = format!("triple-{first}-{second}-{third}-{ending}");
            let ops = parse(&format!("{TREE}; {a}; {b}; {c}; {last}"));
            let whole = Script {
                from: parse(TREE).len(),
                ..Script::new(Group::Triple, name, chip.clone(), ops)
            };
            if whole.senseless().is_none() && names.insert((seed, whole.name.clone())) {
                let from = parse(&format!("{TREE}; {a}; {b}")).len();
                all.push(Script { from, ..whole });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_of_three_are_many() {
        assert!(triples().len() > 400, "{}", triples().len());
    }

    #[test]
    fn letters_make_sense_after_some_other() {
        let all = scripts();
        for (name, ..) in ALPHABET {
            let found = all
                .iter()
                .filter(|s| s.name.starts_with("pair-") && s.name.contains(&format!("-{name}-")));
            assert!(found.count() > 10, "{name}");
        }
    }
}
