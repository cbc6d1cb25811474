//! Image files when the host crashes: what is left is what the chip was at some moment at or after
//! the last flush.

use std::path::Path;

use crate::common::{self, at, block};
use flashkit_nand::Nand;
use flashkit_nor::{BankedNorFlash, NorFlash, ReadNorFlash};
use flashkit_sim::nor::{NorSpec, NorTiming, SimNor};
use flashkit_sim::{
    Access, EraseTear, ImageError, Metered, Rng, SimNand, Tear, Tearable, TestHost,
};
use tempfile::TempDir;

/// Crashes that each test makes: `FLASHKIT_CRASHES`, or 500. What fails names the crash, from 0 on;
/// that many and one come to it again.
fn crashes() -> u64 {
    std::env::var("FLASHKIT_CRASHES").map_or(500, |n| n.parse().expect("a number"))
}

/// A chip in RAM, and one in an image, that are asked the same.
trait Twins: Clone {
    fn image(path: &Path, host: &TestHost) -> Result<Self, ImageError>;
    fn unchanged(path: &Path) -> Self;
    fn barrier(&mut self, on: bool);
    fn flush(&mut self);
    /// Completes what needs nothing but time; whether there may be more of it.
    fn settle(&mut self, _: u32) -> bool {
        false
    }
    /// One operation, the same for equal chips and equal random numbers.
    fn work(&mut self, rng: &mut Rng);
    /// All that a chip is.
    fn state(&mut self) -> Vec<u64>;
    /// The one in RAM, when the image is the same and was closed.
    fn reopened(self, path: &Path) -> Self;
}

impl Twins for SimNand {
    fn image(path: &Path, host: &TestHost) -> Result<Self, ImageError> {
        SimNand::open_on(path, Access::ReadWrite, Some(host))
    }

    fn unchanged(path: &Path) -> Self {
        SimNand::open(path, Access::ReadOnlyCow).unwrap()
    }

    fn barrier(&mut self, on: bool) {
        self.set_barrier(on);
    }

    fn flush(&mut self) {
        Nand::flush(self).unwrap();
    }

    fn work(&mut self, rng: &mut Rng) {
        self.distrust();
        let (b, index, seed) = (rng.below(6) as u32, rng.below(8) as u32, rng.next_u64());
        let mut data = [0; 512];
        rng.fill(&mut data);
        let tear = rng.one_of(&[
            Tear::Complete,
            Tear::Complete,
            Tear::Garbage,
            Tear::Random,
            Tear::LooksBlank,
            Tear::Unstable { reads: 2 },
        ]);
        match rng.below(20) {
            0 => drop(self.erase_torn(block(b), EraseTear::Partial, seed)),
            1..4 => drop(self.erase(block(b))),
            4..6 => drop(common::read(self, at(b, index))),
            6 if rng.one_in(20) => drop(self.mark_bad(block(6 + b))),
            _ => {
                let first = (0..8).find(|index| {
                    let torn = self.program_torn(at(b, *index), &data, b"ab", tear, seed);
                    torn.is_ok()
                });
                // A block that is full, or half erased.
                if first.is_none() {
                    drop(self.erase(block(b)));
                }
            }
        }
    }

    fn state(&mut self) -> Vec<u64> {
        let erases = self.erase_counts().into_iter().map(u64::from);
        let bad = self.bad_blocks().len() as u64;
        [self.digest().unwrap(), bad]
            .into_iter()
            .chain(erases)
            .collect()
    }

    fn reopened(self, _: &Path) -> Self {
        self
    }
}

type Nor = SimNor<256>;

impl Twins for Nor {
    fn image(path: &Path, host: &TestHost) -> Result<Self, ImageError> {
        SimNor::open_on(path, Access::ReadWrite, Some(host))
    }

    fn unchanged(path: &Path) -> Self {
        SimNor::open(path, Access::ReadOnlyCow).unwrap()
    }

    fn barrier(&mut self, on: bool) {
        self.set_barrier(on);
    }

    fn flush(&mut self) {
        self.sync().unwrap();
    }

    fn settle(&mut self, bank: u32) -> bool {
        self.erase_status(bank).unwrap();
        bank == 0
    }

    fn work(&mut self, rng: &mut Rng) {
        self.distrust();
        let offset = rng.below(8 * 256 - 40) as u32;
        let bank = offset / 1024;
        match rng.below(8) {
            0 => drop(self.erase_start(offset / 256 * 256)),
            1 => drop(self.erase_wait(bank)),
            _ => {
                let mut bytes = vec![0; 1 + rng.below(40) as usize];
                rng.fill(&mut bytes);
                let mut old = vec![0; bytes.len()];
                // Clears bits alone, within a segment.
                bytes.truncate(256 - offset as usize % 256);
                old.truncate(bytes.len());
                if self.clone().read(offset, &mut old).is_ok() {
                    bytes.iter_mut().zip(old).for_each(|(new, old)| *new &= old);
                    drop(self.write(offset, &bytes));
                }
            }
        }
    }

    fn state(&mut self) -> Vec<u64> {
        let erases = self.erase_counts().into_iter().map(u64::from);
        [self.digest()].into_iter().chain(erases).collect()
    }

    fn reopened(self, path: &Path) -> Self {
        // Nothing is being erased any more.
        Self::unchanged(path)
    }
}

/// Makes crash after crash, each in the life that follows the last. Gives the first that has left
/// what it must not.
fn search<C: Twins>(mut ram: C, path: &Path, barrier: bool, crashes: u64) -> Result<(), String> {
    for seed in 0..crashes {
        let mut rng = Rng::keyed(seed, 1);
        let host = TestHost::default();
        // The longest fill the journal.
        let most = if seed % 200 == 99 {
            60_000
        } else {
            rng.one_of(&[10, 100, 1000])
        };
        host.crash_after(rng.below(most), seed);
        // What the image may be: the first of these, or a later one.
        let mut states = vec![ram.clone()];
        let mut file = C::image(path, &host).map_err(|e| format!("crash {seed}: {e}"))?;
        file.barrier(barrier);
        let left = loop {
            if let Some(left) = host.left() {
                break left;
            }
            if rng.one_in(15) {
                file.flush();
                // The crash may have come before the end of it.
                match host.left() {
                    Some(left) => break left,
                    None => states = vec![ram.clone()],
                }
            } else if rng.one_in(200) {
                drop(file);
                ram = ram.reopened(path);
                states.push(ram.clone());
                file = C::image(path, &host).map_err(|e| format!("crash {seed}: {e}"))?;
                file.barrier(barrier);
            } else {
                for bank in 0.. {
                    let more = ram.settle(bank);
                    states.push(ram.clone());
                    file.settle(bank);
                    if !more {
                        break;
                    }
                }
                let same = rng.clone();
                ram.work(&mut rng);
                file.work(&mut same.clone());
                states.push(ram.clone());
            }
        };
        drop(file);
        std::fs::write(path, left).unwrap();
        let found = C::unchanged(path).state();
        let is = states.iter_mut().position(|state| state.state() == found);
        let Some(is) = is else {
            let last = states.len() - 1;
            return Err(format!(
                "crash {seed}: none of {last} states since the last flush"
            ));
        };
        ram = states.swap_remove(is).reopened(path);
    }
    Ok(())
}

fn nand(barrier: bool, crashes: u64) -> Result<(), String> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.img");
    drop(SimNand::create(&path, common::spec()).unwrap());
    search(SimNand::new(common::spec()), &path, barrier, crashes)
}

fn nor(barrier: bool, crashes: u64) -> Result<(), String> {
    let timing = NorTiming {
        read_ns: 1,
        program_ns: 10,
        erase_ns: 1_000,
        suspend_ns: 5,
    };
    let spec = NorSpec::new(2, 4, timing);
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("x.img");
    drop(Nor::create(&path, spec.clone()).unwrap());
    search(Nor::new(spec), &path, barrier, crashes)
}

#[test]
fn of_a_nand_chip_the_first_operations_are_left() {
    nand(true, crashes()).unwrap();
}

#[test]
fn of_a_nor_chip_the_first_operations_are_left() {
    nor(true, crashes()).unwrap();
}

/// These tests can fail.
#[test]
fn without_barriers_anything_is_left() {
    nand(false, 500).unwrap_err();
    nor(false, 500).unwrap_err();
}
