//! Sectors of the journal that share pages: what they cost, and that they are read back,
//! whatever becomes of the others.

use std::collections::{BTreeSet, HashMap};

use crate::common::Setup;
use crate::common::ext::{
    self, BLOCK, Features, IN_BAND, JOURNAL, SETUP, descriptor, journal_block, made, table,
};
use flashkit_jftl::{Error, Jftl, MapCache};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Counters, Faults, Metered, Rate, Rng, Rot, SimNand};

const LARGE: Setup = Setup {
    name: "large blocks",
    pages: 32,
    blocks: 300,
    ..SETUP
};

/// Two sectors of a few words that say which ones they are.
fn sparse(block: u32, version: u32) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    for half in 0..2 {
        let words = [2 * block + half, version, 0, 0x8000_0000 | version << 8];
        for (i, word) in words.into_iter().enumerate() {
            let at = 512 * half as usize + 4 * i;
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn sectors_of_the_journal_share_a_page() {
    for setup in [SETUP, IN_BAND] {
        let (mut ram, mut table) = (setup.ram(), table());
        let (mut sums, mut copies) = (vec![0; 4 * 2000], vec![0; 16 * 524]);
        // More than a page is no harm.
        let mut page = vec![0xA5; 600];
        let mut disk = Jftl::mount(made(&setup, Features::default()), &mut ram).unwrap();
        disk.watch_journal(&mut table);
        disk.remember(&mut sums, &mut copies);
        disk.pack(&mut page);
        disk.write(900, &[1; 512]).unwrap();
        disk.flush().unwrap();
        let cost = |disk: &mut Jftl<'_, SimNand>, work: &mut dyn FnMut(&mut Jftl<'_, SimNand>)| {
            let before = disk.nand().counters();
            work(disk);
            disk.nand().counters() - before
        };
        let free = Counters::default();
        let homes = [200, 201, 202];
        let spent = cost(&mut disk, &mut |disk| {
            let log = descriptor(Features::default(), 5, &homes);
            ext::write(disk, journal_block(3), &log);
            for (i, home) in (0..).zip(homes) {
                ext::write(disk, journal_block(4 + i), &sparse(home, 7));
            }
        });
        assert_eq!(spent, free, "{}", setup.name);
        // They are read from RAM.
        let read = |disk: &mut Jftl<'_, SimNand>, block: u32, expect: &[u8]| {
            let mut bytes = vec![0xEE; BLOCK];
            disk.read(2 * block, &mut bytes).unwrap();
            assert_eq!(bytes, expect, "{} {block}", setup.name);
        };
        let spent = cost(&mut disk, &mut |disk| {
            read(disk, journal_block(5), &sparse(201, 7));
            assert_eq!(disk.page_of(2 * journal_block(5)), Ok(None));
        });
        assert_eq!(spent, free);
        let spent = cost(&mut disk, &mut |disk| disk.flush().unwrap());
        // The page, and one of the log.
        assert_eq!((spent.page_programs, spent.block_erases), (2, 0));
        let spent = cost(&mut disk, &mut |disk| {
            for home in homes {
                ext::write(disk, home, &sparse(home, 7));
            }
        });
        assert_eq!(spent, free, "{}", setup.name);
        assert_eq!(disk.stats().elided, 6);
        assert_eq!(disk.shared_pages(), Ok(6));
        let spent = cost(&mut disk, &mut |disk| {
            read(disk, journal_block(6), &sparse(202, 7));
            read(disk, 200, &sparse(200, 7));
        });
        assert_eq!((spent.page_reads, spent.page_programs), (4, 0));
        // One more in the journal is not as its home, and goes into the same
        // page as the one behind it.
        ext::write(&mut disk, journal_block(5), &sparse(201, 8));
        ext::write(&mut disk, journal_block(6), &sparse(202, 7));
        let stats = disk.stats();
        assert_eq!((stats.packed, stats.packed_pages), (9, 1));
        assert_eq!(stats.unchanged, 2);
        disk.flush().unwrap();
        disk.check().unwrap();
        // With nothing lent all of it is read.
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(disk.into_nand(), &mut ram).unwrap();
        read(&mut disk, journal_block(5), &sparse(201, 8));
        for home in homes {
            read(&mut disk, home, &sparse(home, 7));
        }
        disk.check().unwrap();
    }
}

/// A file system that journals blocks and writes them home later, on a disk that is full, and what
/// each of its sectors holds.
struct Load {
    rng: Rng,
    holds: HashMap<u32, Vec<u8>>,
    version: u32,
    /// Where the log goes on, and what it holds: home, contents.
    at: u32,
    log: Vec<(u32, Vec<u8>)>,
    /// Which homes: a few, or one behind the other.
    next: Option<u32>,
    worst: [u64; 2],
}

impl Load {
    fn new(seed: u64) -> Load {
        Load {
            rng: Rng::new(seed),
            holds: HashMap::new(),
            version: 0,
            at: 1,
            log: Vec::new(),
            next: None,
            worst: [0; 2],
        }
    }

    fn write<N: Nand + Metered>(&mut self, disk: &mut Jftl<'_, N>, sector: u32, bytes: &[u8]) {
        let before = disk.nand().counters().time_ns;
        disk.write(sector, bytes).unwrap();
        let spent = disk.nand().counters().time_ns - before;
        self.worst[0] = spent.max(self.worst[0]);
        for (i, half) in (0..).zip(bytes.chunks_exact(512)) {
            self.holds.insert(sector + i, half.to_vec());
        }
    }

    fn flush<N: Nand + Metered>(&mut self, disk: &mut Jftl<'_, N>) {
        let before = disk.nand().counters().time_ns;
        disk.flush().unwrap();
        let spent = disk.nand().counters().time_ns - before;
        self.worst[1] = spent.max(self.worst[1]);
    }

    /// A transaction of up to 20 blocks, some of noise; before the log comes round all that
    /// it holds is written home.
    fn transaction<N: Nand + Metered>(&mut self, disk: &mut Jftl<'_, N>) {
        let count = 1 + self.rng.below(20) as u32;
        if self.at + count + 1 >= JOURNAL {
            for (home, bytes) in std::mem::take(&mut self.log) {
                self.write(disk, 2 * home, &bytes);
            }
            self.at = 1;
        }
        let homes: Vec<u32> = match &mut self.next {
            Some(next) => {
                *next += count;
                (*next - count..*next).collect()
            }
            None => (0..count)
                .map(|i| 110 + 4 * i + self.rng.below(4) as u32)
                .collect(),
        };
        self.version += 1;
        let log = descriptor(Features::default(), self.version, &homes);
        self.write(disk, 2 * journal_block(self.at), &log);
        self.at += 1;
        for home in homes {
            let mut bytes = sparse(home, self.version);
            match self.rng.below(8) {
                _ if self.next.is_some() => {}
                0 => self.rng.fill(&mut bytes[..512]),
                1 => self.rng.fill(&mut bytes[600..900]),
                _ => {}
            }
            self.write(disk, 2 * journal_block(self.at), &bytes);
            self.at += 1;
            self.log.push((home, bytes));
        }
        self.flush(disk);
    }

    fn compare<N: Nand>(&self, disk: &mut Jftl<'_, N>) {
        for (sector, bytes) in &self.holds {
            let mut read = [0xEE; 512];
            disk.read(*sector, &mut read).unwrap();
            assert!(read[..] == bytes[..], "sector {sector}");
        }
        disk.check().unwrap();
    }
}

#[test]
fn packed_sectors_outlive_cleaning() {
    let faults = Faults {
        program_fail: Rate(6_000),
        erase_fail: Rate(4_000),
        bitflips: 7,
        bitflip_rate: Rate(200),
        ..Faults::default()
    };
    for (setup, seed, faults) in [
        (SETUP, 1, None),
        (IN_BAND, 2, None),
        (LARGE, 3, None),
        (LARGE, 4, Some(faults)),
    ] {
        let mut chip = made(&setup, Features::default());
        let is_sound = faults.is_none();
        if let Some(faults) = faults {
            chip.set_faults(faults).unwrap();
        }
        let mut load = Load::new(seed);
        for round in 0..6 {
            let (mut ram, mut table, mut page) = (setup.ram(), table(), vec![0xA5; 512]);
            let (mut sums, mut copies) = (vec![0; 4 * 9000], vec![0; 200 * 524]);
            let mut disk = Jftl::mount(chip, &mut ram).unwrap();
            disk.watch_journal(&mut table);
            // Without the one or the other now and then.
            if round != 2 {
                disk.remember(&mut sums, &mut copies);
            }
            if round != 4 {
                disk.pack(&mut page);
            }
            let sectors = disk.sector_count();
            let full = sectors / 5 * 4;
            for sector in 400..if round == 0 { full } else { 0 } {
                load.write(&mut disk, sector, &[sector as u8 | 8; 512]);
            }
            load.worst = [0; 2];
            for _ in 0..150 {
                load.transaction(&mut disk);
                for _ in 0..load.rng.below(60) {
                    let sector = 400 + load.rng.below(u64::from(full - 400)) as u32;
                    let bytes = [load.rng.below(256) as u8 | 8; 512];
                    load.write(&mut disk, sector, &bytes);
                }
            }
            load.compare(&mut disk);
            if round % 2 == 0 {
                disk.close().unwrap();
            } else {
                disk.flush().unwrap();
            }
            let stats = disk.stats();
            println!("{} {:?} ns, {stats:?}", setup.name, load.worst);
            assert!(stats.copies > 500 && stats.elided > 300, "{stats:?}");
            assert_eq!(stats.packed > 2_000, round != 4, "{stats:?}");
            // A write of a block, and a flush.
            let [write, flush] = load.worst;
            let in_time = write <= 20_000_000 && flush <= 10_000_000;
            assert!(in_time || !is_sound, "{:?}", load.worst);
            chip = disk.into_nand();
        }
        let mut ram = setup.ram();
        load.compare(&mut Jftl::mount(chip, &mut ram).unwrap());
    }
}

/// A block takes no more slots than it can count homes for.
#[test]
fn every_home_can_be_mapped_to_its_slot() {
    let (mut ram, mut table, mut page) = (LARGE.ram(), table(), vec![0; 512]);
    let mut disk = Jftl::mount(made(&LARGE, Features::default()), &mut ram).unwrap();
    disk.watch_journal(&mut table);
    disk.pack(&mut page);
    let homes: Vec<u32> = (110..170).collect();
    for (i, homes) in (0..).zip(homes.chunks(20)) {
        let at = 1 + 21 * i;
        let log = descriptor(Features::default(), i, homes);
        ext::write(&mut disk, journal_block(at), &log);
        for (at, home) in (at + 1..).zip(homes) {
            ext::write(&mut disk, journal_block(at), &sparse(*home, 3));
        }
        disk.flush().unwrap();
    }
    let before = disk.nand().counters().page_programs;
    for home in &homes {
        ext::write(&mut disk, *home, &sparse(*home, 3));
    }
    let stats = disk.stats();
    assert!(stats.packed >= 120, "{stats:?}");
    assert_eq!(stats.elided, 120, "{stats:?}");
    // What is programmed is the log.
    assert!(disk.nand().counters().page_programs <= before + 2);
}

/// The page's program fails, and it goes elsewhere.
#[test]
fn programs_that_fail_are_repeated() {
    for seed in 0..20 {
        let mut chip = made(&LARGE, Features::default());
        let faults = Faults {
            seed,
            program_fail: Rate(150),
            ..Faults::default()
        };
        chip.set_faults(faults).unwrap();
        let (mut ram, mut table, mut page) = (LARGE.ram(), table(), vec![0; 512]);
        let mut disk = Jftl::mount(chip, &mut ram).unwrap();
        disk.watch_journal(&mut table);
        disk.pack(&mut page);
        let mut load = Load::new(seed);
        (0..60).for_each(|_| load.transaction(&mut disk));
        load.compare(&mut disk);
        let mut ram = LARGE.ram();
        load.compare(&mut Jftl::mount(disk.into_nand(), &mut ram).unwrap());
    }
}

/// Blocks of pages with many owners each are moved too, where no block can
/// count those of as many pages.
#[test]
fn many_owners_are_moved() {
    let setup = Setup {
        name: "many owners",
        pages: 64,
        ..SETUP
    };
    let (mut ram, mut table, mut page) = (setup.ram(), table(), vec![0; 512]);
    let mut chip = made(&setup, Features::default());
    // What is read is moved, sooner or later.
    let faults = Faults {
        bitflips: 7,
        bitflip_rate: Rate(60),
        ..Faults::default()
    };
    chip.set_faults(faults).unwrap();
    let mut disk = Jftl::mount(chip, &mut ram).unwrap();
    disk.watch_journal(&mut table);
    disk.pack(&mut page);
    let mut load = Load::new(4);
    load.next = Some(110);
    while load.next < Some(1_500) {
        load.transaction(&mut disk);
    }
    assert!(disk.stats().packed > 2_500, "{:?}", disk.stats());
    let full = disk.sector_count() / 20 * 19;
    for sector in 3_200..full {
        load.write(&mut disk, sector, &[8; 512]);
    }
    for _ in 0..6_000 {
        let home = 220 + load.rng.below(2_700) as u32;
        disk.read(home, &mut [0; 512]).unwrap();
        let sector = 3_200 + load.rng.below(u64::from(full - 3_200)) as u32;
        load.write(&mut disk, sector, &[9; 512]);
    }
    load.flush(&mut disk);
    load.compare(&mut disk);
    println!("{:?} ns, {:?}", load.worst, disk.stats());
    let mut ram = setup.ram();
    load.compare(&mut Jftl::mount(disk.into_nand(), &mut ram).unwrap());
}

/// Whichever page is lost: a sector holds what it held at some time, or is an error, and what is
/// not packed is lost alone.
#[test]
fn a_packed_page_that_is_lost_is_its_own_sectors_error() {
    let setup = Setup {
        blocks: 64,
        ..SETUP
    };
    let mut chip = made(&setup, Features::default());
    let mut held: HashMap<u32, Vec<Vec<u8>>> = HashMap::new();
    {
        let (mut ram, mut table, mut page) = (setup.ram(), table(), vec![0; 512]);
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        disk.watch_journal(&mut table);
        disk.pack(&mut page);
        let mut load = Load::new(9);
        for _ in 0..40 {
            load.transaction(&mut disk);
            for (sector, bytes) in &load.holds {
                let versions = held.entry(*sector).or_default();
                if versions.last() != Some(bytes) {
                    versions.push(bytes.clone());
                }
            }
        }
        assert!(disk.stats().packed > 500);
    }
    let (mut packed, mut alone) = (0, 0);
    for page in 0..chip.geometry().pages() {
        let mut chip = chip.clone();
        if !chip.rot(PageAddr(page), Rot::Lost).unwrap() {
            continue;
        }
        let mut ram = setup.ram();
        let mut disk = Jftl::mount(chip, &mut ram).unwrap();
        let mut lost = 0;
        for (sector, versions) in &held {
            let mut read = vec![0; 512];
            match disk.read(*sector, &mut read) {
                Ok(()) => {
                    let is_old = read == [0; 512] || versions.contains(&read);
                    assert!(is_old, "page {page}: sector {sector} holds another's");
                }
                Err(Error::Unreadable { .. }) => lost += 1,
                Err(e) => panic!("page {page}: {e:?}"),
            }
        }
        if disk.damage().is_none() {
            // Slots, of the journal and of homes.
            assert!(lost <= 28, "page {page}: {lost}");
            packed += u32::from(lost > 2);
            alone += u32::from(lost == 1 || lost == 2);
        }
    }
    assert!(packed > 20 && alone > 20, "{packed} {alone}");
}

/// Bits flip that no ECC tells of: what is read may be wrong, but reading,
/// cleaning and writing go on.
#[test]
fn bits_that_flip_are_borne() {
    let mut chip = made(&SETUP, Features::default());
    let mut load = Load::new(5);
    let mut pages = BTreeSet::new();
    {
        let (mut ram, mut table, mut page) = (SETUP.ram(), table(), vec![0; 512]);
        let mut disk = Jftl::mount(&mut chip, &mut ram).unwrap();
        disk.watch_journal(&mut table);
        disk.pack(&mut page);
        (0..60).for_each(|_| load.transaction(&mut disk));
        disk.close().unwrap();
        let of = |sector: &u32| disk.page_of(*sector).unwrap();
        pages.extend(load.holds.keys().filter_map(of));
    }
    let sectors = SETUP.sectors();
    let mut written = 0;
    for seed in 0..60 {
        let (mut chip, mut rng) = (chip.clone(), Rng::new(seed));
        for page in &pages {
            // The heads of packed pages, and what is behind them.
            let flip = Rot::Silent {
                offset: rng.below([4, 60, 512][seed as usize % 3]) as u32,
                mask: 1 << rng.below(8),
            };
            if rng.one_in(4) {
                chip.rot(*page, flip).unwrap();
            }
        }
        let (mut ram, mut table, mut page) = (SETUP.ram(), table(), vec![0; 512]);
        let Ok(mut disk) = Jftl::mount(chip, &mut ram) else {
            continue;
        };
        disk.watch_journal(&mut table);
        disk.pack(&mut page);
        for _ in 0..1_500 {
            let sector = rng.below(u64::from(sectors)) as u32;
            let _ = disk.read(sector, &mut [0; 512]);
            written += u32::from(disk.write(sector, &[1; 512]).is_ok());
        }
        let _ = disk.check();
    }
    assert!(written > 60 * 1_000, "{written}");
}

/// What was packed with the whole map in RAM is read, cleaned and trimmed with four pieces of it,
/// and the other way round, an orderly end between or none.
#[test]
fn packed_sectors_outlive_mounts_with_little_ram() {
    for (setup, seed) in [(SETUP, 11), (IN_BAND, 12), (LARGE, 13)] {
        let cache = MapCache::Pieces(4);
        let small = Setup { cache, ..setup };
        let mut load = Load::new(seed);
        let mut chip = made(&setup, Features::default());
        for round in 0..8 {
            let is_small = round % 2 == 1;
            let mut ram = if is_small { small.ram() } else { setup.ram() };
            let (mut table, mut page) = (table(), vec![0; 512]);
            let mut disk = Jftl::mount(chip, &mut ram).unwrap();
            load.compare(&mut disk);
            disk.watch_journal(&mut table);
            disk.pack(&mut page);
            let full = disk.sector_count() / 5 * 4;
            for sector in 400..if round == 0 { full } else { 0 } {
                load.write(&mut disk, sector, &[sector as u8 | 8; 512]);
            }
            for _ in 0..100 {
                load.transaction(&mut disk);
                // One owner of a page that has several is trimmed, in the journal or at home.
                let block = match load.rng.below(2) {
                    0 => journal_block(1 + load.rng.below(u64::from(JOURNAL) - 1) as u32),
                    _ => 110 + load.rng.below(80) as u32,
                };
                disk.trim(2 * block, 1).unwrap();
                load.holds.insert(2 * block, vec![0; 512]);
                for _ in 0..load.rng.below(60) {
                    let sector = 400 + load.rng.below(u64::from(full - 400)) as u32;
                    let bytes = [load.rng.below(256) as u8 | 8; 512];
                    load.write(&mut disk, sector, &bytes);
                }
            }
            load.compare(&mut disk);
            let stats = disk.stats();
            assert_eq!(stats.packed > 1_000, !is_small, "{round} {stats:?}");
            assert!(stats.copies > 200, "{round} {stats:?}");
            match round / 2 % 2 {
                0 => disk.close().unwrap(),
                // After a cut the first mount needs as much cache as the session before.
                _ if !is_small => disk.close().unwrap(),
                _ => disk.flush().unwrap(),
            }
            chip = disk.into_nand();
        }
    }
}
