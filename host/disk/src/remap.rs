//! A transaction that a program tells of which keeps a journal itself: JFTL's own interface (paper,
//! 3.2.2 and 3.5), for programs beside the kernel's file systems.
//!
//! An entry is three numbers of 8 bytes, little-endian:
//!
//! ```text
//!  0       8            16       24
//!  +-------+------------+--------+
//!  | home  | journal    | bytes  |   the home holds from now on what the journal holds
//!  | first | 2^64 - 1   | bytes  |   nothing is needed of this any more
//!  +-------+------------+--------+
//! ```
//!
//! * All are bytes of the disk, in whole sectors.
//! * No two homes or deallocated ranges overlap, and no home a journal's range.
//! * All of it happens or, after a power cut, nothing; homes are mapped before ranges are given up.
//! * A transaction has as many sectors as the log has room for
//!   ([`flashkit_jftl::Jftl::remap_max`]).

use crate::Result;

/// Bytes of an entry.
pub const ENTRY: usize = 24;
/// The journal's place in an entry that deallocates.
pub const NOTHING: u64 = u64::MAX;

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remapped {
    /// It is carried out, and durable.
    Done,
    /// It makes no sense, or is more than one may be: nothing has happened. Why, in one line.
    Refused(String),
    /// The device maps nothing anew: nothing has happened.
    Unable,
}

/// Runs of sectors to be mapped, and to be given up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// Home and journal, sector by sector.
    pub pairs: Vec<(u32, u32)>,
    /// First sector and count.
    pub deallocated: Vec<(u32, u32)>,
}

impl Transaction {
    /// Of entries for a disk of so many sectors of so many bytes, for at most `most` sectors.
    ///
    /// # Errors
    /// What is wrong with them, in one line.
    pub fn of(entries: &[u8], sector: u64, sectors: u64, most: u32) -> Result<Transaction> {
        let (entries, []) = entries.as_chunks::<ENTRY>() else {
            return Err(format!("remap: {} bytes, not of {ENTRY}", entries.len()));
        };
        let run = |at: u64, len: u64| {
            let whole = at.is_multiple_of(sector) && len.is_multiple_of(sector);
            let end = at.checked_add(len).filter(|end| *end <= sector * sectors);
            match (whole, end) {
                (false, _) => Err(format!(
                    "remap: {len} bytes at {at}: not in whole sectors of {sector}"
                )),
                (true, None) => Err(format!("remap: {len} bytes at {at}: beyond the disk")),
                (true, Some(_)) => Ok(((at / sector) as u32, (len / sector) as u32)),
            }
        };
        let (mut found, mut changed, mut homes, mut journals) =
            (Transaction::default(), vec![], vec![], vec![]);
        for entry in entries {
            let (words, _) = entry.as_chunks::<8>();
            let [target, journal, len] = [0, 1, 2].map(|i| u64::from_le_bytes(words[i]));
            let (first, count) = run(target, len)?;
            changed.push((first, count));
            if journal == NOTHING {
                found.deallocated.push((first, count));
                continue;
            }
            homes.push((first, count));
            journals.push(run(journal, len)?);
        }
        let asked: u64 = changed.iter().map(|(_, count)| u64::from(*count)).sum();
        if asked > most.into() {
            return Err(format!(
                "remap: {asked} sectors in one transaction; the log takes {most}"
            ));
        }
        if let Some(at) = twice(changed) {
            return Err(format!("remap: sector {at} is changed twice"));
        }
        if let Some(at) = both(homes.clone(), journals.clone()) {
            return Err(format!("remap: sector {at} is a home and the journal's"));
        }
        for ((home, count), (journal, _)) in homes.into_iter().zip(journals) {
            let of = |i| (home + i, journal + i);
            found.pairs.extend((0..count).map(of));
        }
        Ok(found)
    }
}

/// A sector that is in two runs.
fn twice(mut runs: Vec<(u32, u32)>) -> Option<u32> {
    runs.retain(|(_, count)| *count > 0);
    runs.sort_unstable();
    let next = runs.iter().skip(1);
    let mut pairs = runs.iter().zip(next);
    pairs.find_map(|((first, count), (next, _))| (first + count > *next).then_some(*next))
}

/// A sector that is in a run of both. Those of `some` do not overlap.
fn both(mut some: Vec<(u32, u32)>, mut others: Vec<(u32, u32)>) -> Option<u32> {
    for runs in [&mut some, &mut others] {
        runs.retain(|(_, count)| *count > 0);
        runs.sort_unstable();
    }
    others.iter().find_map(|(first, count)| {
        // The last one that begins before this one's end is the one that reaches furthest.
        let at = some.partition_point(|(begin, _)| *begin < first + count);
        let (begin, len) = *some.get(at.checked_sub(1)?)?;
        (begin + len > *first).then_some(begin.max(*first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, OnNand, Sectors};
    use flashkit_jftl::{Jftl, MapCache, ram_bytes};
    use flashkit_nand::Nand;
    use flashkit_sim::{Metered, SimNand, preset};

    fn entries(all: &[[u64; 3]]) -> Vec<u8> {
        all.iter().flatten().flat_map(|n| n.to_le_bytes()).collect()
    }

    #[test]
    fn runs_are_told_sector_by_sector() {
        let told = entries(&[[1024, 4096, 1024], [512, NOTHING, 512], [4096, NOTHING, 0]]);
        let found = Transaction::of(&told, 512, 10, 10).unwrap();
        assert_eq!(found.pairs, [(2, 8), (3, 9)]);
        assert_eq!(found.deallocated, [(1, 1), (8, 0)]);
        assert_eq!(
            Transaction::of(&[], 512, 10, 10),
            Ok(Transaction::default())
        );
    }

    /// Each rule, broken alone.
    #[test]
    fn what_makes_no_sense_is_named() {
        let why = |all: &[[u64; 3]]| Transaction::of(&entries(all), 512, 10, 20).unwrap_err();
        let odd = Transaction::of(&[0; 25], 512, 10, 10).unwrap_err();
        assert_eq!(odd, "remap: 25 bytes, not of 24");
        for (all, said) in [
            (&[[100, 512, 512]][..], "512 bytes at 100: not in whole"),
            (&[[0, 512, 100]], "100 bytes at 0: not in whole"),
            (&[[0, 700, 512]], "512 bytes at 700: not in whole"),
            (&[[4608, 0, 1024]], "1024 bytes at 4608: beyond"),
            (&[[0, 4608, 1024]], "1024 bytes at 4608: beyond"),
            (&[[u64::MAX - 511, 0, 512]], "beyond the disk"),
            (
                &[[0, 2048, 1024], [512, 4096, 512]],
                "sector 1 is changed twice",
            ),
            (
                &[[0, 2048, 1024], [512, NOTHING, 512]],
                "sector 1 is changed twice",
            ),
            (
                &[[512, NOTHING, 512], [0, NOTHING, 5120]],
                "sector 1 is changed twice",
            ),
            (&[[0, 512, 1024]], "sector 1 is a home and the journal's"),
            (
                &[[0, 4096, 512], [2048, 0, 512]],
                "sector 0 is a home and the journal's",
            ),
        ] {
            let why = why(all);
            assert!(why.contains(said), "{all:?}: {why}");
        }
        // What has been remapped may be given up at once.
        let given_up = entries(&[[0, 2048, 1024], [2048, NOTHING, 1024]]);
        assert!(Transaction::of(&given_up, 512, 10, 10).is_ok());
    }

    /// Homes hold what was journalled, for good, and no data is programmed for that.
    #[test]
    fn a_transaction_programs_no_data_and_survives_a_cut() {
        let mut chip = SimNand::new(preset("small-256m").unwrap());
        let mut ram = vec![0; ram_bytes(&chip.geometry(), MapCache::Whole).unwrap()];
        Jftl::format(&mut chip, &mut ram, 1).unwrap();
        let mount = |chip| {
            let device = OnNand::mount(chip, false, |_| (), |_| String::new()).unwrap();
            Sectors::new(device)
        };
        let mut disk = mount(chip);
        const JOURNAL: u64 = 1 << 20;
        disk.write(0, &[1; 64 << 10]).unwrap();
        disk.write(JOURNAL, &[2; 32 << 10]).unwrap();
        disk.write(512 << 10, &[3; 4096]).unwrap();
        disk.flush().unwrap();
        let before = disk.device().disk().nand().counters();
        let told = entries(&[
            [0, JOURNAL, 16 << 10],
            [48 << 10, JOURNAL + (16 << 10), 16 << 10],
            [512 << 10, NOTHING, 4096],
            [JOURNAL, NOTHING, 32 << 10],
        ]);
        assert_eq!(disk.remap(&told), Ok(Remapped::Done));
        let cost = disk.device().disk().nand().counters() - before;
        // 64 sectors; the transaction's records, and no more.
        assert_eq!(
            (cost.page_programs, cost.page_reads, cost.block_erases),
            (1, 0, 0)
        );
        let mut disk = mount(disk.into_device().into_chip());
        let mut held = vec![0; 64 << 10];
        disk.read(0, &mut held).unwrap();
        let kib = |from: usize, to: usize| &held[from << 10..to << 10];
        assert!(kib(0, 16).iter().chain(kib(48, 64)).all(|byte| *byte == 2));
        assert!(kib(16, 48).iter().all(|byte| *byte == 1));
        for at in [512 << 10, JOURNAL, JOURNAL + (28 << 10)] {
            disk.read(at, &mut held[..4096]).unwrap();
            assert_eq!(held[..4096], [0; 4096], "{at}");
        }
        for (entry, why) in [
            ([0, 0, 512], "remap: sector 0 is a home and the journal's"),
            (
                [0, NOTHING, 128 << 20],
                "remap: 262144 sectors in one transaction; the log takes 28768",
            ),
        ] {
            let refused = Ok(Remapped::Refused(why.into()));
            assert_eq!(disk.remap(&entries(&[entry])), refused);
        }
        disk.write(0, &[4; 512]).unwrap();
    }
}
