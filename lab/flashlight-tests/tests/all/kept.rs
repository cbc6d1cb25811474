//! Metadata pages that are kept in RAM, where there is enough: they are not read again, and what
//! checks the chip reads them all the same.

use crate::common::{self, Fs, NOW, chip, clean, cost, format, try_mount_in, try_unmount};
use flashkit_flashlight::{Area, Config, Page, Visitor, ram_needed, ram_to_level, ram_useful};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Rot, SimNand};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileSystem, Ino, NewInode};

fn mount(chip: SimNand, ram: usize) -> Fs {
    try_mount_in(AnyNand::new(chip), ram, Config::default()).unwrap()
}

fn name(i: usize) -> String {
    format!("file {i}")
}

const NAMES: usize = 900;

/// A directory with hash maps, and the same volume mounted with so much RAM.
fn names_in(ram: impl Fn(&flashkit_nand::Geometry) -> usize) -> (Fs, Ino) {
    let chip = chip(2048, 40, 64, 128);
    let ram = ram(&chip.geometry());
    let mut fs = mount(format(chip, 1), ram);
    let root = fs.root();
    let dir = fs.mkdir(root, b"dir", &NewInode::default()).unwrap().ino;
    for i in 0..NAMES {
        fs.create(dir, name(i).as_bytes(), &NewInode::default())
            .unwrap();
    }
    (mount(try_unmount(fs).unwrap(), ram), dir)
}

/// Pages of an area that a directory or file has.
struct Of(Area, Ino, Vec<PageAddr>);

impl Visitor for Of {
    fn page(&mut self, page: Page) {
        if page.area == self.0 && u64::from(page.ino) == self.1 {
            self.2.push(page.page);
        }
    }
    fn problem(&mut self, _: PageAddr, _: u32, what: &'static str) {
        panic!("{what}");
    }
}

fn pages(fs: &mut Fs, area: Area, ino: Ino) -> Vec<PageAddr> {
    let mut of = Of(area, ino, Vec::new());
    fs.volume().walk(&mut of).unwrap();
    of.2
}

/// Reads of a look for each name, after one for each.
fn looks(fs: &mut Fs, dir: Ino) -> u64 {
    let look = |fs: &mut Fs| {
        for i in 0..NAMES {
            fs.lookup(dir, name(i).as_bytes()).unwrap();
        }
    };
    look(fs);
    let (reads, programs) = cost(fs, look);
    assert_eq!(programs, 0);
    reads
}

#[test]
fn what_is_kept_is_not_read_again() {
    // For nearly all names the hash map, and the file that it leads to: the look
    // before has left another map.
    let (mut fs, dir) = names_in(ram_needed);
    let all = looks(&mut fs, dir);
    assert!(all > 17 * NAMES as u64 / 10, "{all}");
    let (mut fs, dir) = names_in(ram_to_level);
    assert_eq!(looks(&mut fs, dir), all);
    // The file alone, if the directory's log does not lead to the one looked for last.
    let (mut fs, dir) = names_in(ram_useful);
    let maps = pages(&mut fs, Area::HashMap, dir).len();
    assert!((5..60).contains(&maps), "{maps}");
    let few = looks(&mut fs, dir);
    assert!(few <= NAMES as u64, "{few}");
}

#[test]
fn what_was_written_is_not_read() {
    let (mut fs, dir) = names_in(ram_useful);
    looks(&mut fs, dir);
    // New names move to hash maps, which are written anew.
    let written = fs.volume().written().areas;
    let (reads, _) = cost(&mut fs, |fs| {
        for i in 0..1_000 {
            let name = format!("new {i}");
            let new = fs.create(dir, name.as_bytes(), &NewInode::default());
            fs.fsync(new.unwrap().ino).unwrap();
        }
    });
    let maps = fs.volume().written().areas[3] - written[3];
    assert!(maps > 20, "{maps}");
    // Of each log that the checkpoint calls open, the page that is written next; the first of each
    // block that is written for the first time. And the two directories that a checkpoint copies.
    assert_eq!(reads, 22);
    clean(&mut fs);
}

/// The index page and the maps of a file that is overwritten at random, and what waits there.
#[test]
fn overwrites_read_fewer_maps() {
    let reads = |ram: fn(&flashkit_nand::Geometry) -> usize| {
        // Of so few blocks that nothing of the dirty list goes to flash.
        let chip = chip(2048, 40, 256, 160);
        let ram = ram(&chip.geometry());
        let mut fs = mount(format(chip, 1), ram);
        let root = fs.root();
        let pages = 20_000u64;
        let ino = common::file(&mut fs, root, b"large", 2048 * pages as usize);
        let mut rng = flashkit_workload::Rng::new(5);
        let (reads, programs) = cost(&mut fs, |fs| {
            for _ in 0..8_000 {
                let at = 2048 * rng.below(pages);
                fs.write(ino, at, &[7; 2048], NOW).unwrap();
            }
        });
        clean(&mut fs);
        (reads, programs)
    };
    let (all, programs) = reads(ram_needed);
    let (few, same) = reads(ram_useful);
    println!("{all} reads, {few} with pages kept; {programs} programs");
    assert_eq!(programs, same);
    assert!(all > 500 && few * 4 < all, "{few} of {all}");
}

/// One hash map rots while it is kept. Names are found without a read of it; but a
/// check, and scrubbing, tell of it, and after them, or when the map has left the RAM,
/// whoever needs it is told too.
#[test]
fn rot_is_not_hidden() {
    let (mut fs, dir) = names_in(ram_useful);
    let map = pages(&mut fs, Area::HashMap, dir)[0];
    looks(&mut fs, dir);
    let found = |fs: &mut Fs| {
        let all = (0..NAMES).map(|i| fs.lookup(dir, name(i).as_bytes()));
        all.filter(Result::is_ok).count()
    };
    assert!(
        fs.volume()
            .nand_mut()
            .get_mut::<SimNand>()
            .rot(map, Rot::Lost)
            .unwrap()
    );
    assert_eq!(found(&mut fs), NAMES, "the map is kept");
    let findings = check(fs.volume()).unwrap().findings;
    assert!(!findings.is_empty());
    assert!(
        found(&mut fs) < NAMES,
        "the check has dropped what was kept"
    );

    let (mut fs, dir) = names_in(ram_useful);
    let map = pages(&mut fs, Area::HashMap, dir)[0];
    looks(&mut fs, dir);
    assert!(
        fs.volume()
            .nand_mut()
            .get_mut::<SimNand>()
            .rot(map, Rot::Lost)
            .unwrap()
    );
    let told = loop {
        let scrub = fs.volume().scrub(100).unwrap();
        if let Some(page) = scrub.unreadable {
            break page;
        }
        assert!(!scrub.done, "scrubbing misses the page");
    };
    assert_eq!((told.page, u64::from(told.ino)), (map, dir));

    // Without either: the next mount knows nothing.
    let (mut fs, dir) = names_in(ram_useful);
    let map = pages(&mut fs, Area::HashMap, dir)[0];
    looks(&mut fs, dir);
    assert!(
        fs.volume()
            .nand_mut()
            .get_mut::<SimNand>()
            .rot(map, Rot::Lost)
            .unwrap()
    );
    let ram = ram_useful(&fs.volume().nand().geometry());
    let mut fs = mount(try_unmount(fs).unwrap(), ram);
    let lost = (0..NAMES).find_map(|i| fs.lookup(dir, name(i).as_bytes()).err());
    assert!(matches!(lost, Some(Error::Damaged(_))), "{lost:?}");
}
