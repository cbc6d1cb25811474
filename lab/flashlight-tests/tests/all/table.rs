//! A block table that lies on flash.

use crate::common::{
    Fs, NOW, chip, clean, file, format_with, on_preset, try_mount, try_mount_in, try_unmount,
};
use flashkit_flashlight::{
    Area, BlockState, Config, Error, FlashLight, Page, Patrol, Visitor, ram_for_table, ram_needed,
    ram_needed_for,
};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Cut, EraseTear, Metered, PowerCut, Rng, Rot, SimNand, Tear, preset};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::check::check;
use flashkit_vfs::{FileSystem, SetAttr};

/// The area that pages of the table are in.
const MAP: usize = 1;

/// Pages of a block of the table, so few that the chips here have tables of many pages.
fn config() -> Config {
    Config {
        table_page: 64,
        ..Config::default()
    }
}

/// A file system on a chip of 512 blocks, whose table takes 8 pages.
fn formatted() -> Fs {
    try_mount(format_with(chip(2048, 40, 16, 512), 1, config()), config()).unwrap()
}

fn remount(fs: Fs) -> Fs {
    try_mount(try_unmount(fs).unwrap(), config()).unwrap()
}

/// Overwrites pieces of a file at random.
fn overwrite(fs: &mut Fs, rng: &mut Rng, pages: u64, times: u64) {
    let ino = fs.lookup(fs.root(), b"file").unwrap().ino;
    for n in 0..times {
        let at = rng.below(pages) * 2048;
        fs.write(ino, at, &[n as u8; 2048], NOW).unwrap();
        fs.fsync(ino).unwrap();
    }
}

fn full_of_overwrites(pages: u64, times: u64) -> Fs {
    let mut fs = formatted();
    let root = fs.root();
    file(&mut fs, root, b"file", pages as usize * 2048);
    overwrite(&mut fs, &mut Rng::new(1), pages, times);
    fs
}

/// The copies of the table's pages.
#[derive(Default)]
struct Copies(Vec<PageAddr>);

impl Visitor for Copies {
    fn page(&mut self, page: Page) {
        if page.area == Area::Table {
            self.0.push(page.page);
        }
    }
    fn problem(&mut self, page: PageAddr, _: u32, what: &'static str) {
        panic!("{page:?}: {what}");
    }
}

fn copies(fs: &mut Fs) -> Vec<PageAddr> {
    let mut copies = Copies::default();
    fs.volume().walk(&mut copies).unwrap();
    copies.0
}

/// RAM does not grow with the blocks of a chip, nor do the reads of a mount.
#[test]
fn ram_is_constant() {
    let small = preset("slc-256m").unwrap().geometry();
    let large = preset("slc-8g").unwrap().geometry();
    assert_eq!((ram_needed(&small), ram_needed(&large)), (16_330, 16_369));
    assert_eq!(ram_for_table(&small), ram_needed(&small));
    assert_eq!(ram_for_table(&large), 81_905);
    // Beside that.
    let size = size_of::<FlashLight<'_, SimNand>>() - size_of::<SimNand>();
    assert!(size < 2_048, "{size}");
}

/// Pages are written for many changes each, two copies of each, and a mount reads none of them.
#[test]
fn a_page_is_written_for_many_changes() {
    let mut fs = full_of_overwrites(5_000, 3_000);
    clean(&mut fs);
    assert_eq!(copies(&mut fs).len(), 16);
    let written = fs.volume().written();
    // Twice a page for some 16 overwrites.
    assert_eq!((written.data, written.areas[1]), (8_000, 358));
    let mut chip = try_unmount(fs).unwrap();
    chip.clear_counters();
    let mut fs = try_mount(chip, config()).unwrap();
    let spent = fs.volume().nand().counters();
    assert_eq!(spent.page_reads + spent.spare_reads, 35);
    clean(&mut fs);
}

/// Blocks that a chip has beyond those that a volume uses are not called bad.
#[test]
fn no_block_of_a_new_chip_is_bad() {
    let mut fs = on_preset("slc-8g");
    let blocks = 0..fs.volume().nand().geometry().blocks();
    let bad = blocks.filter(|block| fs.volume().block_state(*block) == BlockState::Bad);
    assert_eq!(bad.collect::<Vec<_>>(), [0; 0]);
}

/// With all of the table in RAM none of it is read.
#[test]
fn more_ram_holds_more_of_it() {
    let needed = ram_needed_for(&chip(2048, 40, 16, 512).geometry(), 64);
    let spent = [0, 8 * 1024, 64 * 1024].map(|more| {
        let fs = full_of_overwrites(5_000, 0);
        let chip = try_unmount(fs).unwrap();
        let mut fs = try_mount_in(AnyNand::new(chip), needed + more, config()).unwrap();
        let before = fs.volume().nand().counters();
        overwrite(&mut fs, &mut Rng::new(2), 5_000, 2_000);
        let spent = fs.volume().nand().counters() - before;
        clean(&mut fs);
        (spent.page_reads + spent.spare_reads, spent.page_programs)
    });
    assert_eq!(spent, [(1_166, 3_037), (468, 3_037), (205, 3_035)]);
}

/// One copy of a page is enough, and it is written anew. Without both nothing is changed any more,
/// and what is stored is still read.
#[test]
fn a_copy_that_rots_is_made_again() {
    let fs = full_of_overwrites(2_000, 500);
    let chip = try_unmount(fs).unwrap();
    let all = copies(&mut try_mount(chip.clone(), config()).unwrap());
    // Uncorrectable, and what the checksum alone notices.
    let silent = Rot::Silent {
        offset: 40,
        mask: 1,
    };
    for way in [Rot::Lost, silent] {
        for first in (0..all.len()).step_by(2) {
            for lost in [
                &all[first..=first],
                &all[first + 1..first + 2],
                &all[first..first + 2],
            ] {
                let mut chip = chip.clone();
                for page in lost {
                    assert!(chip.rot(*page, way).unwrap());
                }
                loses(chip, lost);
            }
        }
    }
}

fn loses(chip: SimNand, lost: &[PageAddr]) {
    let mut fs = try_mount(chip, config()).unwrap();
    let ino = fs.lookup(fs.root(), b"file").unwrap().ino;
    let mut page = [0; 2048];
    if lost.len() == 1 {
        overwrite(&mut fs, &mut Rng::new(3), 2_000, 600);
        let mut fs = remount(fs);
        assert!(!copies(&mut fs).contains(&lost[0]), "{lost:?}");
        clean(&mut fs);
        return;
    }
    let mut rng = Rng::new(3);
    let failed = (0..600).any(|_| {
        let at = rng.below(2_000) * 2048;
        let written = fs.write(ino, at, &[9; 2048], NOW);
        written.and_then(|_| fs.fsync(ino)).is_err()
    });
    // Or nothing has asked for that page yet.
    let found = check(fs.volume()).map_or(1, |checked| checked.findings.len());
    assert!(failed || found > 0, "{lost:?}");
    for at in 0..2_000 {
        assert_eq!(fs.read(ino, at * 2048, &mut page).unwrap(), 2048);
    }
}

/// A copy that nobody needs as long as there is the other: the patrol finds that it is lost, and it
/// is written anew before the other is lost too.
#[test]
fn a_patrol_makes_a_copy_again() {
    let mut fs = remount(full_of_overwrites(5_000, 1_000));
    let copies = copies(&mut fs);
    for &at in copies.iter().skip(1).step_by(2) {
        let nand = fs.volume().nand_mut().get_mut::<SimNand>();
        assert!(nand.rot(at, Rot::Lost).unwrap());
    }
    loop {
        match fs.volume().patrol().unwrap() {
            Patrol::Done => break,
            Patrol::Noted => while fs.volume().gc(16).unwrap() {},
            Patrol::Read => {}
            lost @ Patrol::Unreadable { .. } => panic!("{lost:?}"),
        }
    }
    let mut fs = remount(fs);
    for &at in copies.iter().step_by(2) {
        let nand = fs.volume().nand_mut().get_mut::<SimNand>();
        nand.rot(at, Rot::Lost).unwrap();
    }
    overwrite(&mut fs, &mut Rng::new(2), 5_000, 1_000);
    clean(&mut remount(fs));
}

/// A volume of a large chip from before there were such tables is mounted with
/// as much RAM as it asks for.
#[test]
fn a_volume_of_before_asks_for_its_ram() {
    let whole = Config {
        table_page: u32::MAX,
        ..Config::default()
    };
    let chip = chip(1024, 40, 8, 2_000);
    let mut fs = try_mount(format_with(chip, 1, whole), whole).unwrap();
    let root = fs.root();
    file(&mut fs, root, b"file", 5_000);
    let mut chip = try_unmount(fs).unwrap();
    let needed = ram_needed(&chip.geometry());
    let mut ram = vec![0; needed];
    let refused = FlashLight::mount(AnyNand::lent(&mut chip), &mut ram, Config::default());
    let Err(Error::RamTooSmall(asked)) = refused.map(drop) else {
        panic!("it is mounted in {needed} bytes");
    };
    for name in [b"a", b"b"] {
        let mut fs = try_mount_in(AnyNand::new(chip), asked, Config::default()).unwrap();
        file(&mut fs, root, name, 5_000);
        clean(&mut fs);
        assert_eq!(copies(&mut fs), []);
        chip = try_unmount(fs).unwrap();
    }
}

/// A file whose pages lie all over the chip: what it makes free is more than its blocks,
/// and there are few others.
#[test]
fn a_file_that_is_all_over_the_chip_goes() {
    let config = Config {
        table_page: 128,
        ..Config::default()
    };
    let mut fs = try_mount(format_with(chip(2048, 40, 16, 2_048), 1, config), config).unwrap();
    let (root, pages) = (fs.root(), 27_000);
    let before = fs.statfs().unwrap().blocks_free;
    let ino = file(&mut fs, root, b"file", 0);
    // Each page once, far from the one before.
    for n in 0..pages {
        fs.write(ino, n * 7_919 % pages * 2048, &[n as u8; 2048], NOW)
            .unwrap();
    }
    fs.fsync(ino).unwrap();
    for (way, gone) in ["unlink", "truncate", "cut"].into_iter().enumerate() {
        let mut fs = try_mount(fs.volume().nand().get::<SimNand>().clone(), config).unwrap();
        let ino = fs.lookup(root, b"file").unwrap().ino;
        if way == 1 {
            let set = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            fs.setattr(ino, &set).unwrap();
            fs.fsync(ino).unwrap();
        } else {
            fs.unlink(root, b"file", NOW).unwrap();
            fs.fsync(root).unwrap();
        }
        if way == 2 {
            fs = try_mount(fs.into_volume().nand().get::<SimNand>().clone(), config).unwrap();
        }
        fs.sync().unwrap();
        assert!(system(&mut fs, 2_048) < 16, "{gone}");
        clean(&mut fs);
        let free = fs.statfs().unwrap().blocks_free;
        assert!(
            before - free < 400,
            "{gone}: {before} pages were free, {free} are"
        );
        file(&mut fs, root, b"new", 1_000_000);
        let mut fs = try_mount(try_unmount(fs).unwrap(), config).unwrap();
        clean(&mut fs);
    }
}

/// A file of single pages, each part of which lies all over a part of the chip: one page of the
/// table after another is written often, and then no more.
#[test]
fn a_change_takes_few_blocks_for_the_table() {
    let config = config();
    let blocks = 1_024;
    // A table of 16 pages, and room for 16 with both copies in a block.
    let mut fs = try_mount(format_with(chip(1024, 64, 32, blocks), 1, config), config).unwrap();
    let (root, mut rng) = (fs.root(), Rng::new(7));
    let ino = file(&mut fs, root, b"file", 0);
    for part in 0..14 {
        let mut pages: Vec<u64> = (part * 1_600..(part + 1) * 1_600).collect();
        while !pages.is_empty() {
            let page = pages.swap_remove(rng.below(pages.len() as u64) as usize);
            fs.write(ino, 2 * page * 1024, &[1; 1024], NOW).unwrap();
        }
    }
    fs.sync().unwrap();
    let free = |fs: &mut Fs| {
        let is_free = |s| matches!(s, BlockState::Free | BlockState::Clean);
        (0..blocks)
            .filter(|&b| is_free(fs.volume().block_state(b)))
            .count()
    };
    let before = (free(&mut fs), fs.volume().written().areas[MAP]);
    fs.unlink(root, b"file", NOW).unwrap();
    let written = fs.volume().written().areas[MAP] - before.1;
    assert!(written > 400, "{written}");
    let taken = before.0 - free(&mut fs);
    assert!(
        taken <= 8,
        "{taken} of {} blocks for {written} copies",
        before.0
    );
    fs.sync().unwrap();
    clean(&mut fs);
}

/// Recoveries that are cut one after another, each when it has written its copy of the checkpoint.
#[test]
fn recoveries_may_be_cut_for_ever() {
    let mut fs = full_of_overwrites(2_000, 300);
    overwrite(&mut fs, &mut Rng::new(4), 2_000, 20);
    let mut chip = fs.into_volume().nand().get::<SimNand>().clone();
    let needed = ram_needed_for(&chip.geometry(), 64);
    for round in 0..3000 {
        let cut = Cut {
            after: round % 13,
            program: Tear::Random,
            erase: EraseTear::Partial,
            seed: round,
        };
        let (mut cut, mut ram) = (PowerCut::new(chip, cut), vec![0; needed]);
        let mounted = FlashLight::mount(AnyNand::lent(&mut cut), &mut ram, config()).map(drop);
        assert!(
            !matches!(mounted, Err(Error::NoSpace | Error::ReadOnly)),
            "{round}"
        );
        chip = cut.into_inner();
    }
    let mut fs = try_mount(chip, config()).unwrap();
    fs.sync().unwrap();
    fs.sync().unwrap();
    assert!(system(&mut fs, 512) < 16);
    clean(&mut fs);
}

/// Blocks of the checkpoint and of the allocation log.
fn system(fs: &mut Fs, blocks: u32) -> usize {
    let states = (0..blocks).map(|block| fs.volume().block_state(block));
    states.filter(|state| *state == BlockState::System).count()
}
