//! Scripts: operations on paths, as text and at random.

use flashkit_sim::Rng;

/// One operation. What makes no sense where it comes is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Create(String),
    Write(String, u64, usize),
    Truncate(String, u64),
    Unlink(String),
    Rename(String, String),
    Link(String, String),
    Mkdir(String),
    Rmdir(String),
    Symlink(String, usize),
    Fsync(String),
    Open(String),
    /// Closes the oldest open file.
    Close,
    Read(String),
    Sync,
    Gc,
    Remount,
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Op::Create(p) => write!(f, "create {p}"),
            Op::Write(p, off, len) => write!(f, "write {p} {off} {len}"),
            Op::Truncate(p, size) => write!(f, "truncate {p} {size}"),
            Op::Unlink(p) => write!(f, "unlink {p}"),
            Op::Rename(p, q) => write!(f, "rename {p} {q}"),
            Op::Link(p, q) => write!(f, "link {p} {q}"),
            Op::Mkdir(p) => write!(f, "mkdir {p}"),
            Op::Rmdir(p) => write!(f, "rmdir {p}"),
            Op::Symlink(p, len) => write!(f, "symlink {p} {len}"),
            Op::Fsync(p) => write!(f, "fsync {p}"),
            Op::Open(p) => write!(f, "open {p}"),
            Op::Close => f.write_str("close"),
            Op::Read(p) => write!(f, "read {p}"),
            Op::Sync => f.write_str("sync"),
            Op::Gc => f.write_str("gc"),
            Op::Remount => f.write_str("remount"),
        }
    }
}

/// Operations as their text has them, one a line or separated by semicolons. `/` is the root.
pub fn parse(text: &str) -> Vec<Op> {
    let lines = text.split(['\n', ';']).map(str::trim);
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let w: Vec<&str> = line.split_whitespace().collect();
            let path = |i: usize| w[i].to_owned();
            let n = |i: usize| w[i].parse::<u64>().unwrap();
            match w[0] {
                "create" => Op::Create(path(1)),
                "write" => Op::Write(path(1), n(2), n(3) as usize),
                "truncate" => Op::Truncate(path(1), n(2)),
                "unlink" => Op::Unlink(path(1)),
                "rename" => Op::Rename(path(1), path(2)),
                "link" => Op::Link(path(1), path(2)),
                "mkdir" => Op::Mkdir(path(1)),
                "rmdir" => Op::Rmdir(path(1)),
                "symlink" => Op::Symlink(path(1), n(2) as usize),
                "fsync" => Op::Fsync(path(1)),
                "open" => Op::Open(path(1)),
                "close" => Op::Close,
                "read" => Op::Read(path(1)),
                "sync" => Op::Sync,
                "gc" => Op::Gc,
                "remount" => Op::Remount,
                other => panic!("no such operation: {other}"),
            }
        })
        .collect()
}

pub fn text(ops: &[Op]) -> String {
    let ops: Vec<String> = ops.iter().map(Op::to_string).collect();
    ops.join("; ")
}

/// What a random script is made of.
#[derive(Clone, Copy)]
pub struct Mix {
    pub ops: usize,
    pub names: u64,
    pub dirs: u64,
    pub write_max: u64,
    pub offset_max: u64,
}

pub const SMALL: Mix = Mix {
    ops: 100,
    names: 4,
    dirs: 4,
    write_max: 5000,
    offset_max: 12_000,
};

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

/// A random script.
pub fn random(seed: u64, mix: &Mix) -> Vec<Op> {
    let mut rng = Rng::keyed(seed, 77);
    let mut ops: Vec<Op> = ["d0", "d1", "d0/d2"].map(|d| Op::Mkdir(d.into())).to_vec();
    while ops.len() < mix.ops {
        random_op(&mut rng, mix, &mut ops);
    }
    ops
}

/// Appends a random operation, or a few that belong together.
pub fn random_op(rng: &mut Rng, mix: &Mix, ops: &mut Vec<Op>) {
    let p = path(rng, mix);
    match rng.below(100) {
        0..=17 => {
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
        18..=32 => {
            let off = rng.below(mix.offset_max);
            let len = if rng.one_in(2) { 300 } else { mix.write_max };
            ops.push(Op::Write(p.clone(), off, 1 + rng.below(len) as usize));
            if rng.one_in(2) {
                ops.push(Op::Fsync(p));
            }
        }
        33..=37 => ops.push(Op::Truncate(p, rng.below(mix.offset_max))),
        38..=50 => ops.push(Op::Unlink(p)),
        51..=62 => ops.push(Op::Rename(p, path(rng, mix))),
        63..=66 => ops.push(Op::Link(p, path(rng, mix))),
        67..=71 => ops.push(Op::Mkdir(dir(rng, mix))),
        72..=75 => ops.push(Op::Rmdir(dir(rng, mix))),
        76..=78 => ops.push(Op::Rename(dir(rng, mix), dir(rng, mix))),
        79..=80 => ops.push(Op::Symlink(p, 1 + rng.below(200) as usize)),
        81..=86 => ops.push(Op::Fsync(p)),
        87 => ops.push(Op::Fsync(dir(rng, mix))),
        88..=90 => ops.push(Op::Open(p)),
        91..=92 => ops.push(Op::Close),
        93..=94 => ops.push(Op::Read(p)),
        95..=96 => ops.push(Op::Sync),
        97 => ops.push(Op::Gc),
        98 => ops.push(Op::Remount),
        _ => ops.push(Op::Unlink(p)),
    }
}
