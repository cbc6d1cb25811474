//! Operations and power cuts, against the model.

use flashkit_powercut::{BARE_CHIP, Chip, Draw, Op, Planned, SMALL_CHIP, cut_sequence};

/// Bytes of a step.
const STEP: usize = 6;
/// Steps, cuts and failures of the chip at most: what is beyond is ignored. Each cut may leave a
/// file that proved the volume writable, and there are twelve names for such.
const STEPS_MAX: usize = 240;
const CUTS_MAX: usize = 5;
const FAILURES_MAX: usize = 2;

/// Names, of files and of directories.
const NAMES: [&str; 16] = [
    "a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/b", "f", "f/a", "f/b", "f/e", "f/e/a",
    "g", "g/a",
];

fn path(n: u8) -> String {
    match n {
        // So many that a directory needs maps.
        0x60.. => format!("{}/{n}", if n.is_multiple_of(8) { "f" } else { "d" }),
        0x5f => format!("d/{}", "n".repeat(255)),
        n => NAMES[usize::from(n) % NAMES.len()].to_owned(),
    }
}

fn operation(step: &[u8; STEP], failures: &mut usize) -> Option<Op> {
    let [what, at, b, c, ..] = *step;
    let (p, number) = (path(at), u64::from(b));
    Some(match what % 32 {
        0 | 1 => Op::Create(p),
        2..=5 => Op::Write(p, number << (c % 12), usize::from(c) * 36 + 1),
        6 => Op::Write(p, number * 1024, 1024),
        7 if c >= 240 => Op::Punch(p, number << (c % 12), number * 64),
        7 => Op::Truncate(p, number << (c % 12)),
        8 | 9 => Op::Unlink(p),
        11 if c >= 192 => Op::Exchange(p, path(b)),
        10..=12 => Op::Rename(p, path(b)),
        13..=15 => Op::Link(p, path(b)),
        16 => Op::Mkdir(p),
        17 => Op::Rmdir(p),
        18 if b == 255 => Op::Mknod(p, c.into()),
        18 => Op::Symlink(p, usize::from(c) * 8 + 1),
        19 if c >= 192 => Op::SetXattr(p, format!("user.{}", b % 4), usize::from(b)),
        19 if c >= 160 => Op::RemoveXattr(p, format!("user.{}", b % 4)),
        19 => Op::Chmod(p, u16::from(b)),
        20 => Op::Chown(p, b.into(), c.into()),
        21 => Op::Utimes(p, b.into(), c.into()),
        22..=24 => Op::Fsync(p),
        25 => Op::Open(p),
        26 => Op::Close,
        27 => Op::Sync,
        28 => Op::Gc,
        29 => Op::Remount,
        30 => Op::Read(p),
        _ => {
            *failures += 1;
            if *failures > FAILURES_MAX {
                return None;
            } else if at.is_multiple_of(2) {
                Op::FailProgram(number % 16, c.into())
            } else {
                Op::FailErase(number % 4, c.into())
            }
        }
    })
}

/// Runs an input: a byte for the chip, then steps of six bytes: operation, path, two arguments, and
/// two for cuts.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some((chip, rest)) = bytes.split_first() else {
        return;
    };
    let mut chip: Chip = [SMALL_CHIP, BARE_CHIP][usize::from(chip % 2)].clone();
    if bytes[0] & 2 != 0 {
        chip = chip.paper();
    }
    if bytes[0] & 4 != 0 {
        chip.bad = vec![0, 7];
    }
    if bytes[0] & 8 != 0 {
        chip = chip.dirty(6);
    }
    let (mut cuts, mut failures) = (0, 0);
    let (steps, _) = rest.as_chunks::<STEP>();
    let steps: Vec<Planned> = (steps.iter().take(STEPS_MAX))
        .map(|step| {
            let op = operation(step, &mut failures);
            let [.., cut, outcome] = *step;
            // A cut, or one and another in its recovery.
            let n = match cut % 16 {
                0 => 1,
                1 => 2,
                _ => 0,
            };
            let n = if cuts + n > CUTS_MAX { 0 } else { n };
            cuts += n;
            let draws = (0..n as u8).map(|k| Draw {
                point: (cut >> 4).wrapping_mul(17).wrapping_add(k * outcome),
                outcome: outcome.wrapping_add(k * 5),
            });
            Planned {
                op,
                cuts: draws.collect(),
            }
        })
        .collect();
    if let Err(what) = cut_sequence(&chip, &steps) {
        panic!("{what}");
    }
}
