//! Random operations.

use flashkit_sim::Rng;

use super::{BARE_CHIP, Group, SMALL_CHIP, Script};
use crate::op::Op;

/// What a random script is made of.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Operations.
    pub ops: usize,
    /// Names in each directory, at most 26.
    pub names: u64,
    /// Directories that files go to.
    pub dirs: u64,
    /// Longest write in bytes.
    pub write_max: u64,
    /// Largest offset of a write, and largest size.
    pub offset_max: u64,
    /// So many operations more of 104 overwrite whole pages.
    pub updates: u64,
    /// Data bytes of these pages.
    pub page: u64,
}

/// Few names and small files.
pub const SMALL: Mix = Mix {
    ops: 60,
    names: 4,
    dirs: 4,
    write_max: 3000,
    offset_max: 6000,
    updates: 0,
    page: 1024,
};

/// Files that fill a small chip, so that it is cleaned all the time.
const FULL: Mix = Mix {
    ops: 200,
    names: 6,
    dirs: 4,
    write_max: 16_000,
    offset_max: 12_000,
    updates: 0,
    page: 1024,
};

/// Scripts of each kind and chip.
const SEEDS: u64 = 24;

fn path(rng: &mut Rng, mix: &Mix) -> String {
    let name = (b'a' + rng.below(mix.names) as u8) as char;
    match rng.below(mix.dirs + 2) {
        0..=1 => name.to_string(),
        2 => format!("d0/{name}"),
        3 => format!("d1/{name}"),
        4 => format!("d0/d2/{name}"),
        n => format!("d{n}/{name}"),
    }
}

fn dir(rng: &mut Rng, mix: &Mix) -> String {
    match rng.below(mix.dirs) {
        0 => "d0".into(),
        1 => "d1".into(),
        2 => "d0/d2".into(),
        3 => "d1/d2".into(),
        n => format!("d{}", n + 1),
    }
}

/// Appends a random operation, or a few that belong together.
pub fn random_op(rng: &mut Rng, mix: &Mix, ops: &mut Vec<Op>) {
    let p = path(rng, mix);
    match rng.below(104 + mix.updates) {
        0..=17 => make(rng, mix, p, ops),
        18..=32 => write(rng, mix, p, ops),
        33..=35 => ops.push(Op::Truncate(p, rng.below(mix.offset_max))),
        36..=37 => {
            let (offset, len) = (rng.below(mix.offset_max), rng.below(mix.write_max));
            ops.push(Op::Punch(p, offset, len));
        }
        38..=50 => ops.push(Op::Unlink(p)),
        51..=66 => ops.push(Op::Rename(p, path(rng, mix))),
        67..=71 => ops.push(Op::Mkdir(dir(rng, mix))),
        72..=75 => ops.push(Op::Rmdir(dir(rng, mix))),
        76..=78 => ops.push(Op::Rename(dir(rng, mix), dir(rng, mix))),
        79..=80 => ops.push(Op::Symlink(p, 1 + rng.below(200) as usize)),
        81..=85 => ops.push(Op::Fsync(p)),
        86 => ops.push(Op::Fsync(dir(rng, mix))),
        87..=89 => ops.push(Op::Open(p)),
        90..=91 => ops.push(Op::Close),
        92 => ops.push(Op::Read(p)),
        93 if rng.one_in(3) => {
            let name = if rng.one_in(2) { "user.x" } else { "user.y" }.to_owned();
            let p = if rng.one_in(3) { dir(rng, mix) } else { p };
            ops.push(if rng.one_in(3) {
                Op::RemoveXattr(p, name)
            } else {
                Op::SetXattr(p, name, rng.below(400) as usize)
            });
        }
        93 => ops.push(Op::Chmod(p, 0o600 | rng.below(0o200) as u16)),
        94 => ops.push(Op::Utimes(dir(rng, mix), 1, rng.below(1000) as i64)),
        95..=96 => ops.push(Op::Sync),
        97 => ops.push(Op::Gc),
        98 => ops.push(Op::Remount),
        99 => ops.push(Op::Scrub),
        100..=102 => ops.push(Op::Link(p, path(rng, mix))),
        103 => ops.push(Op::Chown(p, rng.below(9) as u32, 3)),
        _ => update(rng, mix, p, 8, ops),
    }
}

/// A file that is created, written as a rule, and synced at times; or a special file.
fn make(rng: &mut Rng, mix: &Mix, p: String, ops: &mut Vec<Op>) {
    if rng.one_in(12) {
        ops.push(Op::Mknod(p, rng.below(1 << 20) as u32));
        return;
    }
    ops.push(Op::Create(p.clone()));
    if !rng.one_in(3) {
        ops.push(Op::Write(
            p.clone(),
            0,
            1 + rng.below(mix.write_max) as usize,
        ));
    }
    if rng.one_in(2) {
        ops.push(Op::Fsync(p));
    }
}

/// A write: to whole pages, at the end of the file, or anywhere.
fn write(rng: &mut Rng, mix: &Mix, p: String, ops: &mut Vec<Op>) {
    if rng.one_in(4) {
        update(rng, mix, p, 3, ops);
        return;
    }
    if rng.one_in(6) {
        // At the end of the file: a tail, or pages.
        let (mut end, steps) = (rng.below(mix.offset_max), 1 + rng.below(4));
        ops.push(Op::Truncate(p.clone(), end));
        for _ in 0..steps {
            ops.push(Op::Fsync(p.clone()));
            let rest = 1024 - end % 1024;
            let len = [rest, 1 + rng.below(rest), 1 + rng.below(900)][rng.below(3) as usize];
            ops.push(Op::Write(p.clone(), end, len as usize));
            end += len;
        }
        return;
    }
    let off = rng.below(mix.offset_max);
    let len = if rng.one_in(2) { 300 } else { mix.write_max };
    ops.push(Op::Write(p.clone(), off, 1 + rng.below(len) as usize));
    if rng.one_in(2) {
        ops.push(Op::Fsync(p));
    }
}

/// Whole pages: an update, if the file has them.
fn update(rng: &mut Rng, mix: &Mix, path: String, most: u64, ops: &mut Vec<Op>) {
    let (at, pages) = (rng.below(mix.offset_max / mix.page), 1 + rng.below(most));
    ops.push(Op::Fsync(path.clone()));
    ops.push(Op::Write(
        path.clone(),
        at * mix.page,
        (pages * mix.page) as usize,
    ));
    if rng.one_in(2) {
        ops.push(Op::Fsync(path));
    }
}

fn random(seed: u64, mix: &Mix) -> Vec<Op> {
    let mut rng = Rng::keyed(seed, 77);
    let mut ops: Vec<Op> = ["d0", "d1", "d0/d2"].map(|d| Op::Mkdir(d.into())).to_vec();
    while ops.len() < mix.ops {
        random_op(&mut rng, mix, &mut ops);
    }
    ops
}

pub(super) fn scripts() -> Vec<Script> {
    let mut all = Vec::new();
    for seed in 0..SEEDS {
        for chip in [SMALL_CHIP, BARE_CHIP, SMALL_CHIP.paper()] {
            let (small, full) = (random(seed, &SMALL), random(seed, &FULL));
            let name = format!("random-{seed}");
            all.push(Script::new(Group::Random, name, chip.clone(), small));
            let name = format!("random-full-{seed}");
            all.push(Script {
                from: 50,
                ..Script::new(Group::Random, name, chip, full)
            });
        }
    }
    all
}
