//! Chips that copy pages by themselves: cleaning and levelling let them.

use flashkit_flashlight::inspect::data_tag;
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::spi::CopyRange;
use flashkit_sim::{Counters, Metered, Rng, Rot, SimNand};
use flashkit_vfs::{Error, FileSystem, Ino};

use crate::common::{self, Fs, NOW, chip, clean, cut, file, formatted, remount};

const PAGE: usize = 1024;
const PAGES: u64 = 1_000;

fn nand(fs: &mut Fs) -> &mut SimNand {
    fs.volume().nand_mut().get_mut()
}

/// A file that fills half of a chip.
fn volume(spare: u32, copies: CopyRange) -> (Fs, Ino) {
    let mut chip = chip(PAGE as u32, spare, 16, 128);
    chip.set_copies(copies);
    let mut fs = formatted(chip);
    let root = fs.root();
    let ino = file(&mut fs, root, b"file", PAGES as usize * PAGE);
    (fs, ino)
}

fn page(index: u64, round: u64) -> Vec<u8> {
    let mut bytes = vec![round as u8; PAGE];
    bytes[..8].copy_from_slice(&(index << 32 | round).to_le_bytes());
    bytes
}

/// So many pages, at random; the last version of each. What it costs.
fn overwrite(fs: &mut Fs, ino: Ino, writes: u64, versions: &mut [u64]) -> Counters {
    let mut rng = Rng::new(7);
    let before = nand(fs).counters();
    for n in 1..=writes {
        let index = rng.below(PAGES);
        versions[index as usize] = n;
        fs.write(ino, index * PAGE as u64, &page(index, n), NOW)
            .unwrap();
        if n % 4 == 0 {
            fs.fsync(ino).unwrap();
        }
    }
    nand(fs).counters() - before
}

fn is_whole(fs: &mut Fs, versions: &[u64]) {
    let ino = fs.lookup(fs.root(), b"file").unwrap().ino;
    for (index, version) in (0..).zip(versions) {
        let mut found = vec![0; PAGE];
        fs.read(ino, index * PAGE as u64, &mut found).unwrap();
        let expected = match version {
            0 => vec![0x5a; PAGE],
            n => page(index, *n),
        };
        assert!(found == expected, "page {index}");
    }
    clean(fs);
}

/// The same operations in the same order, but that a page that cleaning moves is copied where the
/// chip copies. Where it does not, all is as it was.
#[test]
fn pages_that_move_are_copied_where_the_chip_copies() {
    for spare in [0, 24, 40] {
        let mut costs = Vec::new();
        for copies in [CopyRange::Nothing, CopyRange::Parity, CopyRange::All] {
            let (mut fs, ino) = volume(spare, copies);
            let mut versions = vec![0; PAGES as usize];
            let moves = |fs: &mut Fs| {
                let written = fs.volume().written();
                written.moved_data + written.levelled_pages
            };
            let before = moves(&mut fs);
            let cost = overwrite(&mut fs, ino, 3_000, &mut versions);
            let moved = moves(&mut fs) - before;
            costs.push((cost, moved));
            is_whole(&mut fs, &versions);
            let mut fs = cut(fs);
            is_whole(&mut fs, &versions);
            is_whole(&mut remount(fs), &versions);
        }
        let [(nothing, moved), (parity, _), (all, moved_by_copies)] = costs[..] else {
            panic!("three costs");
        };
        assert!(moved > 500, "{spare}: {moved} pages moved");
        assert_eq!(nothing.page_copies, 0);
        // All pages of data. Levelling has moved pages of metadata too, which are written anew.
        assert!(
            (moved - 10..=moved).contains(&all.page_copies),
            "{spare}: {all:?}, {moved} pages moved"
        );
        assert!(
            parity.page_copies > moved / 4 && parity.page_copies < moved,
            "{spare}: {parity:?}"
        );
        let programs = |cost: Counters| cost.page_programs + cost.page_copies;
        assert_eq!(programs(all), programs(nothing), "{spare}");
        assert_eq!(programs(parity), programs(nothing), "{spare}");
        assert_eq!(
            (all.block_erases, moved_by_copies),
            (nothing.block_erases, moved)
        );
    }
}

/// The place of a page of the file, by its bytes: the one with the newest tag.
fn place(chip: &SimNand, index: u64, version: u64) -> PageAddr {
    let mut chip = chip.clone();
    let (mut found, mut spare) = (vec![0; PAGE], [0; 24]);
    let mut newest = None;
    for at in (0..chip.geometry().pages()).map(PageAddr) {
        chip.read(at, 0, &mut found, &mut spare).unwrap();
        if found == page(index, version) {
            let tag = data_tag(&found, &spare).unwrap();
            newest = newest.max(Some((tag.seq, at)));
        }
    }
    newest.unwrap().1
}

/// The pages of data of a chip.
fn tagged(chip: &SimNand) -> Vec<PageAddr> {
    let mut chip = chip.clone();
    let (mut found, mut spare) = (vec![0; PAGE], [0; 24]);
    let pages = (0..chip.geometry().pages()).map(PageAddr);
    let is_data = |at: &PageAddr| {
        chip.read(*at, 0, &mut found, &mut spare).unwrap();
        data_tag(&found, &spare).is_some_and(|tag| tag.intact)
    };
    pages.filter(is_data).collect()
}

/// A page that cannot be read, and one whose data has changed, are errors to their readers before
/// and after their blocks were cleaned; no other page is lost.
#[test]
fn what_is_wrong_does_not_become_right_by_a_copy() {
    for spare in [24, 40] {
        for copies in [CopyRange::Nothing, CopyRange::All] {
            let (mut fs, ino) = volume(spare, copies);
            let mut versions = vec![0; PAGES as usize];
            overwrite(&mut fs, ino, 1_000, &mut versions);
            fs.sync().unwrap();
            let mut rotten = Vec::new();
            for (n, index) in (0..PAGES)
                .filter(|i| versions[*i as usize] > 0)
                .step_by(40)
                .enumerate()
            {
                let at = place(nand(&mut fs), index, versions[index as usize]);
                let rot = match n % 2 {
                    0 => Rot::Lost,
                    _ => Rot::Silent {
                        offset: 500,
                        mask: 4,
                    },
                };
                assert!(nand(&mut fs).rot(at, rot).unwrap());
                rotten.push(index);
            }
            assert!(rotten.len() > 8, "{rotten:?}");
            // All other pages, so that every block with such a page is worth cleaning.
            let mut rng = Rng::new(9);
            for n in 2_000..5_000 {
                let index = rng.below(PAGES);
                if rotten.contains(&index) {
                    continue;
                }
                versions[index as usize] = n;
                match fs.write(ino, index * PAGE as u64, &page(index, n), NOW) {
                    Ok(()) => {}
                    Err(e) => panic!("{spare}, {copies:?}, write {n}: {e}"),
                }
            }
            fs.sync().unwrap();
            for index in 0..PAGES {
                let mut found = vec![0; PAGE];
                let read = fs.read(ino, index * PAGE as u64, &mut found);
                if rotten.contains(&index) {
                    assert!(
                        matches!(read, Err(Error::Io(_))),
                        "{spare}: page {index}: {read:?}"
                    );
                    continue;
                }
                let expected = match versions[index as usize] {
                    0 => vec![0x5a; PAGE],
                    n => page(index, n),
                };
                assert!(
                    read == Ok(PAGE) && found == expected,
                    "{spare}: page {index}"
                );
            }
        }
    }
}

/// One bit of a tag, and then another: a block that is written anew is read, so that what was
/// mended is not handed on.
#[test]
fn a_block_that_is_written_anew_is_read() {
    let (mut fs, ino) = volume(24, CopyRange::All);
    let mut versions = vec![0; PAGES as usize];
    overwrite(&mut fs, ino, 200, &mut versions);
    fs.sync().unwrap();
    let index = (0..PAGES).find(|i| versions[*i as usize] > 0).unwrap();
    for round in 0..24 {
        let at = place(nand(&mut fs), index, versions[index as usize]);
        let (offset, mask) = (PAGE as u32 + round, 1 << (round % 8));
        assert!(nand(&mut fs).rot(at, Rot::Silent { offset, mask }).unwrap());
        is_whole(&mut fs, &versions);
        let before = nand(&mut fs).counters();
        while fs.gc(16).unwrap() {}
        let cost = nand(&mut fs).counters() - before;
        assert_eq!(cost.page_copies, 0, "round {round}");
        assert_ne!(
            place(nand(&mut fs), index, versions[index as usize]),
            at,
            "round {round}"
        );
        fs.sync().unwrap();
    }
    common::try_unmount(fs).unwrap();
}

/// By the tag alone a page whose tag has a flipped bit is nobody's, or another's. Cleaning that
/// leaves it where it is would never free its block.
#[test]
fn a_flipped_bit_of_a_tag_keeps_no_page_where_it_is() {
    let chips = [
        (24, CopyRange::Nothing),
        (24, CopyRange::All),
        (40, CopyRange::Nothing),
        (40, CopyRange::All),
    ];
    for (seed, (spare, copies)) in (0..8).zip(chips.into_iter().cycle()) {
        let (mut fs, ino) = volume(spare, copies);
        let mut versions = vec![0; PAGES as usize];
        overwrite(&mut fs, ino, 1_000, &mut versions);
        fs.sync().unwrap();
        let mut rng = Rng::new(seed);
        for at in tagged(nand(&mut fs)) {
            let (offset, mask) = (PAGE as u32 + rng.below(24) as u32, 1 << rng.below(8));
            nand(&mut fs).rot(at, Rot::Silent { offset, mask }).unwrap();
        }
        // One page in two, so that the others are in blocks that are worth cleaning.
        for n in 2_000..6_000 {
            let index = rng.below(PAGES / 2) * 2;
            versions[index as usize] = n;
            if let Err(e) = fs.write(ino, index * PAGE as u64, &page(index, n), NOW) {
                panic!("seed {seed}: {spare}, {copies:?}, write {n}: {e}");
            }
        }
        is_whole(&mut fs, &versions);
        is_whole(&mut cut(fs), &versions);
    }
}
