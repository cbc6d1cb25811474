//! Long scripts that force something to happen, which the search then checks that they did.

use flashkit_sim::Rng;

use super::single::TREE;
use super::{BARE_CHIP, Chip, Group, SMALL_CHIP, Script, TABLE_CHIP, parse};
use crate::forced::Forced;
use crate::op::Op;

/// For directories and files that are large for such chips.
const WIDER: Chip = Chip::new(1024, 40, 8, 128);
const WIDER_BARE: Chip = Chip::new(1024, 0, 8, 128);

/// Seeds with which a failed program leaves a page that is uncorrectable, reads as erased, or as
/// written.
pub(crate) const FAILURE_SEEDS: [u64; 3] = [4, 3, 0];

/// A script under work.
struct Draft {
    ops: Vec<Op>,
    rng: Rng,
    from: usize,
}

impl Draft {
    fn new(seed: u64) -> Draft {
        Draft {
            ops: Vec::new(),
            rng: Rng::new(seed),
            from: 0,
        }
    }

    fn add(&mut self, text: &str) {
        self.ops.extend(parse(text));
    }

    /// Cuts begin here.
    fn cut_from_here(&mut self) {
        self.from = self.ops.len();
    }

    fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n)
    }

    fn script(self, name: &str, chip: Chip, forces: &[Forced]) -> Script {
        Script {
            from: self.from,
            forces: forces.to_vec(),
            ..Script::new(Group::Forcing, name, chip, self.ops)
        }
    }
}

pub(super) fn scripts() -> Vec<Script> {
    let mut all = Vec::new();
    for chip in [SMALL_CHIP, BARE_CHIP, SMALL_CHIP.paper(), BARE_CHIP.paper()] {
        all.extend([
            data_cleaning(chip.clone()),
            metadata_cleaning(chip.clone()),
            compaction(chip.clone()),
            full_chip(chip.clone()),
            wear_move(chip.clone()),
        ]);
        all.extend((0..12).map(|n| refresh(chip.clone(), n)));
    }
    for chip in [WIDER, WIDER_BARE] {
        all.extend([
            hash_maps(chip.clone()),
            removals(chip.clone()),
            extent_maps(chip.clone()),
            many_directories(chip.clone()),
            block_tails(chip),
        ]);
    }
    for chip in [SMALL_CHIP, BARE_CHIP] {
        all.extend([leaf_switch(chip.clone()), root_switch(chip.clone())]);
        for seed in FAILURE_SEEDS {
            all.extend((0..24).map(|n| failing_program(chip.clone(), n, seed)));
            all.extend((0..12).map(|n| failing_removal(chip.clone(), n, seed)));
            all.extend((0..8).map(|n| failing_erase(chip.clone(), n, seed)));
        }
        all.push(retirement(chip));
    }
    for chip in [Chip::new(2048, 40, 16, 96), Chip::new(1024, 0, 16, 96)] {
        all.push(many_links(chip));
    }
    all.extend([
        updates(SMALL_CHIP),
        updates(WIDER),
        updates(Chip::new(2048, 40, 16, 96)),
        tails(SMALL_CHIP),
        tails(Chip::new(2048, 40, 16, 96)),
    ]);
    all.push(bad_from_the_factory());
    all.push(hash_index());
    all.push(extent_index());
    all.extend([waiting(0), waiting(1), waiting(2)]);
    all.extend([
        kept(metadata_cleaning(SMALL_CHIP)),
        kept(hash_maps(WIDER)),
        kept(extent_maps(WIDER)),
        kept(many_directories(WIDER_BARE)),
        // Levelling, which counts erases there, leaves nothing to clean.
        Script {
            forces: vec![Forced::ExtentIndex],
            ..kept(waiting(2))
        },
    ]);
    all.extend(with_table_on_flash());
    all.extend(with_a_short_list());
    all
}

/// The same with a dirty list that is soon full, so that what it has no room for is written.
fn with_a_short_list() -> Vec<Script> {
    let [small, wider] = [SMALL_CHIP, WIDER].map(|chip| chip.dirty(6));
    let mut all = vec![
        metadata_cleaning(small.clone()),
        updates(Chip::new(2048, 40, 16, 96).dirty(6)),
        full_chip(small.clone()),
        data_cleaning(small.clone()),
        compaction(small.clone()),
        wear_move(small.clone()),
        extent_maps(wider.clone()),
        updates(wider),
        leaf_switch(small.clone()),
        retirement(small.clone()),
    ];
    all.extend((0..12).map(|n| refresh(small.clone(), n)));
    for (n, seed) in (0..24).zip(FAILURE_SEEDS.into_iter().cycle()) {
        all.push(failing_program(small.clone(), n, seed));
    }
    for (n, seed) in (0..8).zip(FAILURE_SEEDS.into_iter().cycle()) {
        all.push(failing_erase(small.clone(), n, seed));
    }
    for script in &mut all {
        script.name = script.name.replace("force-", "force-validity-");
    }
    for n in [0, 1, 6, 7] {
        all[n].forces.push(Forced::ValidityPage);
    }
    all
}

/// The same where the block table lies on flash, in pages that are written often.
fn with_table_on_flash() -> Vec<Script> {
    let [small, bare] = [40, 0].map(|spare| Chip {
        spare,
        ..TABLE_CHIP
    });
    let wider = WIDER.table(32);
    let mut all = vec![
        data_cleaning(small.clone()),
        metadata_cleaning(bare.clone()),
        full_chip(small.clone()),
        wear_move(small.clone()),
        hash_maps(wider.clone()),
        removals(wider.clone()),
        extent_maps(wider.clone()),
        many_directories(wider.clone()),
        leaf_switch(small.clone()),
        root_switch(bare),
        retirement(small.clone()),
        updates(wider),
        tails(small.clone()),
    ];
    all.extend((0..12).map(|n| refresh(small.clone(), n)));
    for (i, seed) in FAILURE_SEEDS.into_iter().enumerate() {
        let turn = |n: &u64| *n as usize % 3 == i;
        all.extend(
            (0..24)
                .filter(turn)
                .map(|n| failing_program(small.clone(), n, seed)),
        );
        all.extend(
            (0..8)
                .filter(turn)
                .map(|n| failing_erase(small.clone(), n, seed)),
        );
    }
    for script in &mut all {
        script.name = script.name.replace("force-", "force-table-");
    }
    for script in &mut all[..3] {
        script.forces.push(Forced::TablePage);
    }
    all
}

/// The same where metadata pages are kept in RAM.
fn kept(script: Script) -> Script {
    Script {
        name: script.name.replace("force-", "force-kept-"),
        chip: script.chip.clone().kept(),
        ..script
    }
}

/// Overwrites on a chip that is nearly full: blocks of file data are cleaned.
fn data_cleaning(chip: Chip) -> Script {
    let mut d = Draft::new(1);
    for f in 0..9 {
        d.add(&format!("create f{f}; write f{f} 0 {}; sync", 18 * 1024));
    }
    for _ in 0..40 {
        let (f, page) = (d.below(9), d.below(18));
        d.add(&format!("write f{f} {} 1024", page * 1024));
    }
    d.cut_from_here();
    for i in 0..40 {
        let (f, page) = (d.below(9), d.below(16));
        d.add(&format!("write f{f} {} 1500", page * 1024));
        if i % 4 == 3 {
            d.add(&format!("fsync f{f}"));
        }
    }
    d.script(
        "force-data-cleaning",
        chip,
        &[Forced::Cleaning, Forced::DataMove, Forced::Checkpoint],
    )
}

/// Two logs that grow by synced pieces and whole pages, and begin anew when they are long;
/// other changes now and then.
fn tails(chip: Chip) -> Script {
    let mut d = Draft::new(6);
    let page = chip.page as usize;
    let long = 8 * chip.pages as usize * page;
    let mut ends = [0; 2];
    for f in ["f", "g"] {
        d.add(&format!("create {f}; fsync {f}"));
    }
    for i in 0..320 {
        if i == 240 {
            d.cut_from_here();
        }
        let n = usize::from(d.below(4) == 0);
        let (f, end) = (["f", "g"][n], ends[n]);
        if end > long {
            ends[n] = [0, page, page / 2][d.below(3) as usize];
            d.add(&format!("truncate {f} {}; fsync {f}", ends[n]));
            continue;
        }
        let rest = page - end % page;
        let len = match d.below(5) {
            0 => rest,
            1 if rest == page => 2 * page,
            2 => page / 2,
            _ => page / 4,
        };
        ends[n] += len;
        d.add(&format!("write {f} {end} {len}"));
        if d.below(8) > 0 {
            d.add(&format!("fsync {f}"));
        }
        match i {
            260 => d.add("rename f h; rename h f; fsync f"),
            280 => d.add("sync"),
            300 => d.add("gc"),
            _ => {}
        }
    }
    d.script("force-tails", chip, &[Forced::Update])
}

/// Whole pages of two files overwritten and synced in turn, and cleaned between, until the log is
/// full and moves to maps; other changes now and then.
fn updates(chip: Chip) -> Script {
    let mut d = Draft::new(5);
    let page = chip.page as usize;
    // Updates need free blocks for the recovery.
    let pages = u64::from(chip.pages) * if chip.blocks < 96 { 6 } else { 12 };
    for f in ["f", "g"] {
        d.add(&format!(
            "create {f}; write {f} 0 {}; fsync {f}",
            pages as usize * page
        ));
    }
    for i in 0..160 {
        if i == 100 {
            d.cut_from_here();
        }
        let f = if d.below(8) == 0 { "g" } else { "f" };
        let (at, count) = (d.below(pages - 3) as usize * page, 1 + d.below(3) as usize);
        d.add(&format!("write {f} {at} {}", count * page));
        if d.below(4) > 0 {
            d.add(&format!("fsync {f}"));
        }
        match i {
            110 => d.add(&format!(
                "write f {at} 300; fsync f; write f {at} {page}; fsync f"
            )),
            120 => d.add("rename f h; rename h f; fsync f"),
            130 => d.add("chmod g 600; write g 0 4096"),
            140 => d.add("sync"),
            150 => d.add("gc"),
            _ => {}
        }
    }
    // Elsewhere the log holds them all.
    let forces: &[Forced] = match chip.blocks {
        128 => &[Forced::Update, Forced::ExtentMap],
        _ => &[Forced::Update],
    };
    d.script("force-updates", chip, forces)
}

/// Overwrites beside files that stay: their blocks are moved to take their share of erases.
fn wear_move(chip: Chip) -> Script {
    let mut d = Draft::new(9);
    d.add("mkdir stays");
    for f in 0..8 {
        d.add(&format!(
            "create stays/{f}; write stays/{f} 0 {}; fsync stays/{f}",
            14 * 1024
        ));
    }
    d.add("create hot; write hot 0 16384; sync");
    for i in 0..116 {
        // From here on the search for free blocks comes by what stays.
        if i == 88 {
            d.cut_from_here();
        }
        let page = d.below(8);
        d.add(&format!("write hot {} 8192", page * 1024));
        if i % 4 == 3 {
            d.add("fsync hot");
        }
    }
    d.script("force-wear-move", chip, &[Forced::WearMove])
}

/// More names than an inode holds: pages of names.
fn many_links(chip: Chip) -> Script {
    let long = |i: usize| format!("{i:03}{}", "n".repeat(60));
    let dir = |i: usize| if i.is_multiple_of(3) { "d/" } else { "" };
    let mut d = Draft::new(11);
    d.add("mkdir d; create f; write f 0 3000; fsync f");
    for i in 0..24 {
        d.add(&format!("link f {}{}", dir(i), long(i)));
        match i % 8 {
            3 => d.add(&format!("unlink {}", long(i - 1))),
            5 => d.add(&format!("rename {} d/{}", long(i - 1), long(100 + i))),
            7 => d.add(&format!(
                "create x; write x 0 200; rename x {}; gc",
                long(i)
            )),
            _ => {}
        }
        if i == 14 {
            d.cut_from_here();
        }
    }
    d.add("sync");
    for i in (0..24).rev() {
        d.add(&format!("unlink {}{}", dir(i), long(i)));
    }
    d.add("unlink f; create f; fsync f");
    d.script("force-names", chip, &[Forced::NamesPage])
}

/// Blocks of all sorts whose bits have to be corrected: they are written anew.
fn refresh(chip: Chip, n: u64) -> Script {
    let mut d = Draft::new(10);
    d.add(TREE);
    d.add("create big; write big 0 20000; sync; remount");
    d.cut_from_here();
    d.add(&format!(
        "weak-read {}; scrub; weak-read {}; scrub; gc; write big 5000 3000; fsync big",
        5 * n,
        7 * n + 3
    ));
    d.script(&format!("force-refresh-{n}"), chip, &[Forced::Refresh])
}

/// Small files come and go among some that stay: blocks of inodes are cleaned.
fn metadata_cleaning(chip: Chip) -> Script {
    let mut d = Draft::new(2);
    d.add("mkdir d0; mkdir d1; mkdir d2");
    for f in 0..120 {
        d.add(&format!(
            "create d{}/f{f}; write d{}/f{f} 0 300; fsync d{}/f{f}",
            f % 3,
            f % 3,
            f % 3
        ));
    }
    d.add("sync");
    for f in (0..120).filter(|f| f % 7 != 0) {
        d.add(&format!(
            "unlink d{}/f{f}; create d{}/g{f}; fsync d{}/g{f}",
            f % 3,
            f % 3,
            f % 3
        ));
    }
    d.cut_from_here();
    for f in 0..60 {
        d.add(&format!(
            "chmod d{}/g{} 600; fsync d{}/g{}",
            f % 3,
            f,
            f % 3,
            f
        ));
        if f % 8 == 7 {
            d.add("gc");
        }
    }
    d.script(
        "force-metadata-cleaning",
        chip,
        &[Forced::Cleaning, Forced::MetaMove],
    )
}

/// Files that leave blocks with an unwritten tail, then too few free blocks.
fn compaction(chip: Chip) -> Script {
    let mut d = Draft::new(3);
    for f in 0..18 {
        d.add(&format!(
            "create f{f}; write f{f} 0 {}; fsync f{f}",
            5 * 1024
        ));
        d.add(&format!("write f{f} 1024 1024; fsync f{f}"));
    }
    d.cut_from_here();
    for f in 0..18 {
        d.add(&format!("truncate f{f} 1024; fsync f{f}"));
    }
    for f in 0..6 {
        d.add(&format!(
            "create g{f}; write g{f} 0 {}; fsync g{f}; gc",
            4 * 1024
        ));
    }
    d.script("force-compaction", chip, &[Forced::Compaction])
}

/// A chip that is filled until nothing fits, then emptied a little, and filled again.
fn full_chip(chip: Chip) -> Script {
    let mut d = Draft::new(4);
    for f in 0..8 {
        d.add(&format!(
            "create f{f}; write f{f} 0 {}; fsync f{f}",
            22 * 1024
        ));
    }
    for i in 0..40 {
        d.add(&format!("write f{} {} 1024", i % 8, i % 22 * 1024));
    }
    d.cut_from_here();
    for i in 0..8 {
        d.add(&format!("write f{i} {} 2048; fsync f{i}", i * 2048));
    }
    for f in 0..4 {
        d.add(&format!(
            "create g{f}; write g{f} 0 {}; fsync g{f}",
            30 * 1024
        ));
    }
    d.add("create h; mkdir m; symlink s 3000; rename f0 f1; unlink f2; sync; create h; write h 0 9000; fsync h");
    d.add("write h 0 30000; fsync h; unlink f3; mkdir m; rename h m/h; sync");
    d.script("force-full", chip, &[Forced::Full, Forced::Cleaning])
}

/// A directory that outgrows its page, and then a hash map.
fn hash_maps(chip: Chip) -> Script {
    let mut d = Draft::new(5);
    d.add("mkdir d");
    for f in 0..100 {
        d.add(&format!("create d/f{f}; fsync d/f{f}"));
    }
    d.add("sync");
    d.cut_from_here();
    for f in 100..250 {
        d.add(&format!("create d/f{f}; fsync d/f{f}"));
        if f % 5 == 0 {
            d.add(&format!("unlink d/f{}", f / 2));
        }
        if f % 7 == 0 {
            d.add(&format!("rename d/f{} d/g{f}", f / 3));
        }
        if f % 60 == 0 {
            d.add("sync");
        }
    }
    d.script(
        "force-hash-maps",
        chip,
        &[Forced::HashMap, Forced::HashSplit],
    )
}

/// A file whose extents outgrow its page, and then an extent map.
fn extent_maps(chip: Chip) -> Script {
    let mut d = Draft::new(6);
    d.add("create a");
    for i in 0..60 {
        d.add(&format!("write a {} 1024", i * 3072));
    }
    d.add("sync");
    d.cut_from_here();
    for i in 60..240 {
        let page = d.below(600);
        d.add(&format!("write a {} 1024", page * 1024));
        match i % 20 {
            9 => d.add("fsync a"),
            14 => d.add(&format!("write a {} 300", page * 1024 + 5000)),
            19 => d.add("truncate a 500000"),
            _ => {}
        }
    }
    d.add("punch a 30000 9000; punch a 60100 100000; fsync a; write a 70000 3000; punch a 0 90000");
    d.add("truncate a 100000; fsync a; unlink a; fsync /; sync");
    d.script(
        "force-extent-maps",
        chip,
        &[Forced::ExtentMap, Forced::ExtentSplit],
    )
}

/// More directories than a page of the DirInode map holds.
fn many_directories(chip: Chip) -> Script {
    let mut d = Draft::new(7);
    for i in 0..8 {
        d.add(&format!("mkdir d{i}"));
    }
    for i in 0..236 {
        d.add(&format!("mkdir d{}/e{i}", i % 8));
    }
    d.add("sync");
    d.cut_from_here();
    for i in 236..250 {
        d.add(&format!("mkdir d{}/e{i}", i % 8));
        if i % 5 == 0 {
            d.add(&format!(
                "rmdir d{}/e{}; create d1/x{i}; fsync d1/x{i}",
                (i - 20) % 8,
                i - 20
            ));
        }
    }
    d.add("sync; rename d1 d2/d; sync");
    d.script("force-directory-map", chip, &[Forced::MapPage])
}

/// More blocks with an unwritten tail than are remembered, and one being written.
fn block_tails(chip: Chip) -> Script {
    let mut d = Draft::new(8);
    for f in 0..36 {
        d.add(&format!("create f{f}; write f{f} 0 {}", 6 * 1024));
    }
    d.add("create x; write x 0 6144; sync");
    d.cut_from_here();
    d.add("write x 6144 2048; fsync x; write f3 6144 1024; write f30 6144 3000; fsync f30; fsync f3; sync");
    d.script("force-tails", chip, &[Forced::Checkpoint])
}

/// Checkpoints fill a leaf block and begin the next.
fn leaf_switch(chip: Chip) -> Script {
    let mut d = Draft::new(9);
    d.add(TREE);
    for i in 0..10 {
        d.add(&format!("write d/b {i} 40; sync"));
    }
    d.cut_from_here();
    for i in 0..10 {
        d.add(&format!("write d/b {i} 50; sync"));
    }
    d.script("force-leaf", chip, &[Forced::Leaf, Forced::SecondLevel])
}

/// Checkpoints that fill the second level and both root blocks.
fn root_switch(chip: Chip) -> Script {
    let mut d = Draft::new(10);
    d.add("create a");
    for i in 0..320 {
        d.add(&format!("write a 0 {}; sync", 10 + i));
    }
    d.cut_from_here();
    for i in 0..72 {
        d.add(&format!("write a 0 {}; sync", 10 + i));
    }
    let forces = [Forced::SecondLevelBlock, Forced::Root, Forced::RootBlock];
    d.script("force-root", chip, &forces)
}

const WORK: &str =
    "create d/n; write d/n 0 2500; fsync d/n; write d/a 0 1200; rename d/a d/b; mkdir d/t;
    sync; unlink d/n; write d/b 3000 2000; fsync d/b; rename d/b d/a; rmdir d/t; sync";

/// Files are removed in a directory with hash maps, some at a time, and new ones come.
fn removals(chip: Chip) -> Script {
    let mut d = Draft::new(14);
    d.add("mkdir d; mkdir e");
    for f in 0..90 {
        d.add(&format!("create d/f{f}; write d/f{f} 0 {}", 100 + 40 * f));
    }
    d.add("sync");
    d.cut_from_here();
    let mut next = 90;
    for round in 0..20 {
        for _ in 0..=round % 5 {
            let f = d.below(next);
            d.add(&format!("unlink d/f{f}"));
        }
        match round % 4 {
            0 => {
                let f = d.below(next);
                d.add(&format!("rename d/f{f} d/f{}", next / 2));
            }
            1 => d.add("create e/x; fsync e/x; unlink e/x"),
            2 => d.add(&format!("create d/f{}", next / 3)),
            _ => {}
        }
        for f in next..next + 3 {
            d.add(&format!(
                "create d/f{f}; write d/f{f} 0 {}; fsync d/f{f}",
                50 * (f - 85)
            ));
        }
        next += 3;
    }
    d.script("force-removals", chip, &[Forced::Removal, Forced::HashMap])
}

const REMOVALS: &str = "create d/n; write d/n 0 3000; fsync d/n; create d/m; fsync d/m; unlink d/n; unlink d/m; create d/n; fsync d/n;
    unlink d/n; create d/o; write d/o 0 2500; create d/p; fsync d/p; unlink d/a; unlink d/o; create d/o; fsync d/o; sync";

/// The N-th program fails, also of a page that records removals.
fn failing_removal(chip: Chip, n: u64, seed: u64) -> Script {
    let mut d = Draft::new(15);
    d.add(TREE);
    d.cut_from_here();
    d.add(&format!("fail-program {n} {seed}; {REMOVALS}"));
    let forces = [Forced::ProgramFailure, Forced::Removal];
    d.script(&format!("force-removal-failure-{n}-{seed}"), chip, &forces)
}

/// The N-th program fails.
fn failing_program(chip: Chip, n: u64, seed: u64) -> Script {
    let mut d = Draft::new(11);
    d.add(TREE);
    d.cut_from_here();
    d.add(&format!("fail-program {n} {seed}; {WORK}"));
    d.script(
        &format!("force-program-failure-{n}-{seed}"),
        chip,
        &[Forced::ProgramFailure],
    )
}

/// The N-th erase fails.
fn failing_erase(chip: Chip, n: u64, seed: u64) -> Script {
    let mut d = Draft::new(12);
    d.add(TREE);
    // Blocks that were never used need no erase: all must have been.
    for i in 0..100 {
        d.add(&format!(
            "write e/a {} 1024; write d/a 0 1024; sync",
            i % 4 * 1024
        ));
    }
    d.cut_from_here();
    d.add(&format!("fail-erase {n} {seed}; {WORK}; {WORK}"));
    d.script(
        &format!("force-erase-failure-{n}-{seed}"),
        chip,
        &[Forced::EraseFailure, Forced::BlockRetired],
    )
}

/// A block whose program has failed dies and is marked bad.
fn retirement(chip: Chip) -> Script {
    let mut d = Draft::new(13);
    d.add(TREE);
    d.add("create x; write x 0 3000; fail-program 1 0; write x 4096 2048; fsync x");
    d.cut_from_here();
    d.add("unlink x; fsync /; sync; create x; write x 0 3000; sync");
    d.script("force-retirement", chip, &[Forced::BlockRetired])
}

/// The first blocks, where the anchors would be, are bad.
fn bad_from_the_factory() -> Script {
    let chip = Chip {
        bad: vec![0, 2, 3, 9, 63],
        ..SMALL_CHIP
    };
    let mut d = Draft::new(14);
    d.add(TREE);
    d.cut_from_here();
    d.add(WORK);
    d.script("force-factory-bad", chip, &[Forced::Checkpoint])
}

/// A directory of so many names that its hash maps need an index page.
fn hash_index() -> Script {
    let mut d = Draft::new(15);
    d.add("mkdir d");
    for f in 0..2670 {
        d.add(&format!("create d/f{f}"));
    }
    d.add("sync");
    d.cut_from_here();
    for f in 2670..2730 {
        d.add(&format!("create d/f{f}"));
    }
    let script = d.script(
        "force-hash-index",
        Chip::new(1024, 24, 16, 512),
        &[Forced::HashIndex],
    );
    Script {
        costly: true,
        ..script
    }
}

/// A file of so many extents that their maps need an index page.
fn extent_index() -> Script {
    let mut d = Draft::new(16);
    d.add("create a");
    for i in 0..2460u64 {
        d.add(&format!("write a {} 1024", i * 1024 * 2));
    }
    d.add("sync");
    d.cut_from_here();
    for i in 2460..2540u64 {
        d.add(&format!("write a {} 1024", i * 1024 * 2));
    }
    d.add("punch a 1000000 2000000; fsync a; punch a 0 500000; sync");
    let script = d.script(
        "force-extent-index",
        Chip::new(1024, 24, 16, 256),
        &[Forced::ExtentIndex],
    );
    Script {
        costly: true,
        ..script
    }
}

/// Overwrites of a file of so many extents that what its log says waits in index pages, on a chip
/// so full that they are cleaned: pages are given back that maps, or what waits, go on naming.
/// Then it is cut in three ways.
fn waiting(way: u64) -> Script {
    let mut d = Draft::new(17 + way);
    d.add("create a");
    for i in 0..2400u64 {
        d.add(&format!("write a {} 1024", i * 1024 * 2));
    }
    d.add("fsync a; create b; write b 0 940000; sync");
    for i in 0..700 {
        if i == 686 {
            d.cut_from_here();
        }
        let page = d.below(2400) * 2;
        d.add(&format!("write a {} 1024", page * 1024));
        if i % 3 == 0 {
            d.add("fsync a");
        }
    }
    d.add(match way {
        0 => "truncate a 4000000; fsync a; write a 4500000 1024; fsync a; truncate a 0; sync",
        1 => "punch a 1000000 200000; fsync a; punch a 3000000 20480; fsync a",
        _ => "rename a c; write c 2048000 2048; fsync c; unlink c; sync; unlink b; sync",
    });
    let script = d.script(
        &format!("force-waiting-{way}"),
        Chip::new(1024, 40, 16, 256),
        &[Forced::ExtentIndex, Forced::DataMove],
    );
    Script {
        costly: true,
        ..script
    }
}
