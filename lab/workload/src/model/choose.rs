//! What the driver draws: kinds of operations, names, sizes.

use crate::rng::Rng;

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Create,
    Write,
    Append,
    Truncate,
    Punch,
    Seek,
    Read,
    Mkdir,
    Rmdir,
    Unlink,
    Rename,
    Exchange,
    Link,
    Symlink,
    Mknod,
    Readlink,
    Open,
    Release,
    SetAttr,
    Xattr,
    List,
    ListAcross,
    Lookup,
    Wrong,
    Forget,
    Fsync,
    Sync,
    StatFs,
    Gc,
}

/// The kinds with how often they come in an even mix.
const KINDS: [(Kind, u64); 29] = [
    (Kind::Create, 12),
    (Kind::Write, 20),
    (Kind::Append, 10),
    (Kind::Truncate, 6),
    (Kind::Punch, 4),
    (Kind::Seek, 2),
    (Kind::Read, 10),
    (Kind::Mkdir, 5),
    (Kind::Rmdir, 3),
    (Kind::Unlink, 4),
    (Kind::Rename, 10),
    (Kind::Exchange, 4),
    (Kind::Link, 8),
    (Kind::Symlink, 3),
    (Kind::Mknod, 2),
    (Kind::Readlink, 2),
    (Kind::Open, 3),
    (Kind::Release, 3),
    (Kind::SetAttr, 4),
    (Kind::Xattr, 4),
    (Kind::List, 3),
    (Kind::ListAcross, 2),
    (Kind::Lookup, 4),
    (Kind::Wrong, 4),
    (Kind::Forget, 2),
    (Kind::Fsync, 6),
    (Kind::Sync, 1),
    (Kind::StatFs, 1),
    (Kind::Gc, 1),
];

/// The character of a run, drawn from its seed.
pub(super) struct Swarm {
    weights: [u64; KINDS.len()],
    /// Of 100 sizes, how many are tiny, and how many tiny or medium.
    tiny: u64,
    medium: u64,
    /// Of 100 objects, how many go into the directory made last, and how many into the root.
    pub deep: u64,
    pub wide: u64,
    /// Of 100 links, how many go to the file with the most names.
    pub hub: u64,
    /// One in so many names is long.
    long_names: u64,
    /// Numbers that short names are made of: few make them collide.
    short_names: u64,
}

impl Swarm {
    pub fn new(rng: &mut Rng) -> Swarm {
        let mut weights = KINDS.map(|(_, weight)| weight * 4);
        for (weight, (kind, _)) in weights.iter_mut().zip(KINDS) {
            let kept = matches!(kind, Kind::Create | Kind::Write | Kind::Append);
            match rng.below(8) {
                0 if !kept => *weight = 0,
                1 => *weight /= 4,
                2 if kind != Kind::Unlink => *weight *= 4,
                _ => {}
            }
        }
        let tiny = *rng.pick(&[20, 45, 80]).unwrap_or(&45);
        Swarm {
            weights,
            tiny,
            medium: tiny + (100 - tiny) * rng.between(4, 9) / 10,
            deep: *rng.pick(&[0, 10, 60]).unwrap_or(&0),
            wide: *rng.pick(&[0, 30, 90]).unwrap_or(&0),
            hub: *rng.pick(&[0, 30, 95]).unwrap_or(&0),
            long_names: *rng.pick(&[4, 20, 100]).unwrap_or(&20),
            short_names: *rng.pick(&[20, 200, 100_000]).unwrap_or(&200),
        }
    }

    pub fn kind(&self, rng: &mut Rng) -> Kind {
        let mut draw = rng.below(self.weights.iter().sum());
        for (weight, (kind, _)) in self.weights.iter().zip(KINDS) {
            if draw < *weight {
                return kind;
            }
            draw -= weight;
        }
        Kind::Write
    }

    /// A size from 1 to `max`.
    pub fn size(&self, rng: &mut Rng, max: u64) -> u64 {
        let draw = rng.below(100);
        let top = if draw < self.tiny {
            99
        } else if draw < self.medium {
            8192
        } else {
            max
        };
        // Sizes about a page's are where layouts change.
        let size = if rng.one_in(6) {
            2048 * rng.between(1, 4) - 8 + rng.below(17)
        } else {
            rng.between(1, top)
        };
        size.clamp(1, max.max(1))
    }

    /// An offset into a file of `size` bytes: anywhere in it, at a page's edge, at its end or
    /// beyond.
    pub fn offset(&self, rng: &mut Rng, size: u64) -> u64 {
        match rng.below(10) {
            0 => size + rng.below(10_000),
            1 => size,
            2 => 0,
            3 if rng.one_in(4) => size + rng.below(100_000),
            3 | 4 => rng.below(size / 2048 + 1) * 2048,
            _ => rng.below(size + 1),
        }
    }

    /// A name that can be.
    pub fn name(&self, rng: &mut Rng) -> Vec<u8> {
        if !rng.one_in(self.long_names) {
            return format!("{:x}", rng.below(self.short_names)).into_bytes();
        }
        let len = if rng.one_in(3) {
            255
        } else {
            rng.between(1, 255)
        };
        let any = rng.one_in(2);
        let mut name: Vec<u8> = (0..len)
            .map(|_| match rng.below(256) as u8 {
                byte if any && byte != 0 && byte != b'/' => byte,
                byte => b'a' + byte % 26,
            })
            .collect();
        if name == b"." || name == b".." {
            name[0] = b'x';
        }
        name
    }
}

/// A name for people; the middle of a long one does not help them.
pub(super) fn show(name: &[u8]) -> String {
    if name.len() > 40 {
        format!("{}..({} bytes)", name[..16].escape_ascii(), name.len())
    } else {
        name.escape_ascii().to_string()
    }
}
