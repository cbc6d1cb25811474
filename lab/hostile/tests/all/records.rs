//! Pages of other kinds in the logs that a recovery follows, and notes that would take it long.

use flashkit_flashlight::{BlockState, Error, FlashLight, Kind};
use flashkit_hostile::image::{self, Image, Page, stored};
use flashkit_hostile::{Guard, seal};
use flashkit_nand::{BlockAddr, Nand};
use flashkit_vfs::any::AnyNand;
use flashkit_vfs::check::check;

/// Bytes of a record of a file's log.
const RECORD: usize = 12;
/// A note of a run that is free.
const FREED_RUN: u32 = u32::MAX;

fn unclean() -> Image {
    let (_, image) = stored().iter().find(|i| i.0 == "unclean").unwrap();
    image.clone()
}

/// Adds notes to a FileInode page, as many as fit, each of a run of
/// `count` pages from the first on.
fn add_notes(image: &mut Image, at: u32, count: u32) {
    let Page::Written(data, _) = &mut image.pages[at as usize] else {
        panic!("page {at} is not written");
    };
    let mut used = seal::used(data);
    let mut records = seal::u16_at(data, 116);
    while used + RECORD <= data.len() {
        for word in [FREED_RUN, 0, count] {
            data[used..used + 4].copy_from_slice(&word.to_le_bytes());
            used += 4;
        }
        records += 1;
    }
    data[116..118].copy_from_slice(&records.to_le_bytes());
    data[24..26].copy_from_slice(&(used as u16).to_le_bytes());
    seal::seal(data);
}

fn set_kind(image: &mut Image, at: u32, kind: Kind) {
    let Page::Written(data, _) = &mut image.pages[at as usize] else {
        panic!("page {at} is not written");
    };
    data[6] = kind as u8;
    seal::seal(data);
}

/// What a check of a volume finds, how many pages of each block count as valid, and
/// what a sync tells of damage.
fn outcome(image: &Image) -> String {
    let mut guard = Guard::new(image);
    let geometry = guard.geometry();
    guard.allow("mount", 64 * u64::from(geometry.pages()) + 20_000);
    let mut ram = image::ram(&geometry);
    let mut fs = FlashLight::mount(AnyNand::new(guard), &mut ram, image::config()).unwrap();
    fs.nand_mut().get_mut::<Guard>().allow("check", u64::MAX);
    let found = check(&mut fs).unwrap();
    let blocks = (0..geometry.blocks()).map(BlockAddr);
    let states: Vec<_> = blocks.map(|block| fs.block_state(block.0)).collect();
    fs.nand_mut().get_mut::<Guard>().allow("sync", u64::MAX);
    format!("{found:?} {states:?} {:?}", fs.sync())
}

/// FileInode pages written since the last checkpoint: a recovery misses them. With each of
/// them the outcome without it.
fn missed(image: &Image) -> Vec<(u32, String)> {
    let newest = &image.kinds[Kind::File as usize];
    let outcomes = newest.iter().take(40).map(|&at| {
        let mut lost = image.clone();
        lost.pages[at as usize] = Page::Garbage;
        (at, outcome(&lost))
    });
    let missed: Vec<_> = outcomes
        .filter(|(_, lost)| lost.contains("record of a change"))
        .collect();
    assert!(!missed.is_empty());
    missed
}

/// Notes in such a page would be followed as those of a file's are, and they may be of any length.
#[test]
fn a_page_of_another_kind_is_no_record() {
    let image = unclean();
    for (at, lost) in missed(&image) {
        let mut other = image.clone();
        add_notes(&mut other, at, (1 << 30) - 1);
        // What a root must be like, an inode is by chance.
        set_kind(&mut other, at, Kind::Root);
        assert_eq!(outcome(&other), lost, "page {at}");
    }
}

/// One page frees no more than there is.
#[test]
fn notes_longer_than_the_chip_make_a_page_none() {
    let image = unclean();
    let pages = image.geometry.pages();
    for (at, lost) in missed(&image) {
        for count in [pages, pages + 1, (1 << 30) - 1] {
            let mut long = image.clone();
            add_notes(&mut long, at, count);
            assert_eq!(outcome(&long), lost, "page {at}: runs of {count} pages");
        }
    }
}

/// Two leaves that name each other, each with a first page that is newer than the last page
/// of the other: a mount ends.
#[test]
fn leaves_in_a_ring_are_followed_once() {
    let image = unclean();
    let pages = image.geometry.pages_per_block();
    let newest = image.kinds[Kind::Checkpoint as usize][0];
    let leaf = newest / pages;
    let word = |page: u32, at: usize| match &image.pages[page as usize] {
        Page::Written(data, _) => seal::u32_at(data, at),
        _ => panic!("page {page} is not written"),
    };
    assert!(newest > leaf * pages, "one checkpoint alone");
    let next = word(newest, 38) & 0xffff;
    let mut ring = image.clone();
    let sequences = [word(newest, 8) + 10, word(leaf * pages, 8) - 1];
    for (page, sequence) in (next * pages..).zip(sequences) {
        let mut forged = image.pages[newest as usize].clone();
        if let Page::Written(data, _) = &mut forged {
            data[8..12].copy_from_slice(&sequence.to_le_bytes());
            data[16..20].copy_from_slice(&page.to_le_bytes());
            data[38..40].copy_from_slice(&(leaf as u16).to_le_bytes());
            seal::seal(data);
        }
        ring.pages[page as usize] = forged;
    }
    assert_eq!(outcome(&ring), outcome(&image));
}

/// The checkpoint says that a block has failed: one that is free is marked bad and not taken, and
/// of an open one it is not true.
#[test]
fn a_block_that_has_failed() {
    let image = unclean();
    let newest = image.kinds[Kind::Checkpoint as usize][0];
    let Page::Written(data, _) = &image.pages[newest as usize] else {
        panic!("page {newest} is not written");
    };
    let heads = (1..6).map(|area| u32::from(seal::u16_at(data, 60 + 4 * area)));
    let open = { heads }.find(|&block| block != 0xffff).unwrap();
    // Behind those that are kept for roots.
    let free = (8..image.geometry.blocks()).find(|&block| image.attempted(block) == 0);
    for (block, is_bad) in [(free.unwrap(), true), (open, false)] {
        let mut forged = image.clone();
        if let Page::Written(data, _) = &mut forged.pages[newest as usize] {
            data[124..126].copy_from_slice(&(block as u16).to_le_bytes());
            seal::seal(data);
        }
        let mut ram = image::ram(&forged.geometry);
        let mut guard = Guard::new(&forged);
        guard.allow("all", u64::MAX);
        let mut fs = FlashLight::mount(AnyNand::new(guard), &mut ram, image::config()).unwrap();
        let state = fs.block_state(block);
        assert_eq!(state == BlockState::Bad, is_bad, "{block}: {state:?}");
    }
}

/// Root pages that say that no block where they are may be a root block: there is no root page.
#[test]
fn a_root_page_outside_the_blocks_kept_for_roots() {
    let mut image = unclean();
    image.bad[0] = true;
    let pages = image.geometry.pages_per_block();
    image.pages[..pages as usize].fill(Page::Blank);
    image.index();
    let roots = image.kinds[Kind::Root as usize].clone();
    assert!(roots.iter().all(|page| page / pages == 1) && !roots.is_empty());
    assert!(outcome(&image).contains("findings: []"));
    for at in roots {
        let Page::Written(data, _) = &mut image.pages[at as usize] else {
            panic!("page {at} is not written");
        };
        data[52..56].fill(0);
        seal::seal(data);
    }
    let mut guard = Guard::new(&image);
    let geometry = guard.geometry();
    guard.allow("mount", u64::from(geometry.pages()));
    let mut ram = image::ram(&geometry);
    let mounted = FlashLight::mount(AnyNand::new(guard), &mut ram, image::config());
    assert!(matches!(mounted, Err(Error::NotFormatted)));
}
