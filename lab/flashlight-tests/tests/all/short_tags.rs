//! Chips with 24 to 37 usable spare bytes, where an update has no more room than any other tag; and
//! spare bytes that no ECC covers.

use flashkit_flashlight::boot::{Boot, ram_needed};
use flashkit_flashlight::inspect::data_tag;
use flashkit_flashlight::{Config, Error as Damage};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Rng, Rot, SimNand};
use flashkit_vfs::{FileSystem, SetAttr, Time};

use crate::common::{self, Fs, NOW, chip, clean, cost, cut, file, formatted, remount};

const PAGE: usize = 1024;
/// What a time of an update is rounded down to.
const TICK_NS: u64 = 1_000_000_000 / 256;

fn small(spare: u32) -> SimNand {
    chip(PAGE as u32, spare, 16, 64)
}

fn nand(fs: &mut Fs) -> &mut SimNand {
    fs.volume().nand_mut().get_mut()
}

fn at(index: u64) -> u64 {
    index * PAGE as u64
}

fn content(fs: &mut Fs) -> (Vec<u8>, Time) {
    let ino = fs.lookup(fs.root(), b"file").unwrap().ino;
    let attr = fs.getattr(ino).unwrap();
    let mut all = vec![0; attr.size as usize];
    let n = fs.read(ino, 0, &mut all);
    assert_eq!(n, Ok(all.len()));
    (all, attr.mtime)
}

/// The same by the boot reader, without the time.
fn booted(chip: SimNand) -> Vec<u8> {
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let mut boot = Boot::open(chip, &mut ram).unwrap();
    let file = boot.find(b"file").unwrap();
    let mut all = vec![0; file.size() as usize];
    assert_eq!(boot.read(&file, 0, &mut all), Ok(all.len()));
    all
}

/// The pages of data of a chip, with tags that are as they were written.
fn tagged(chip: &SimNand) -> Vec<PageAddr> {
    let mut chip = chip.clone();
    let (mut page, mut spare) = (
        vec![0; PAGE],
        vec![0; chip.geometry().spare_size() as usize],
    );
    let pages = (0..chip.geometry().pages()).map(PageAddr);
    let is_data = |at: &PageAddr| {
        chip.read(*at, 0, &mut page, &mut spare).unwrap();
        data_tag(&page, &spare).is_some_and(|tag| tag.intact)
    };
    pages.filter(is_data).collect()
}

/// A file with pages of each sort, synced and cut: whole ones, updates of one page and of several,
/// a tail.
fn with_updates(spare: u32) -> Fs {
    let mut fs = formatted(small(spare));
    let root = fs.root();
    let ino = file(&mut fs, root, b"file", 6 * PAGE);
    for (n, (index, len)) in [(1, PAGE), (3, 2 * PAGE), (6, PAGE), (7, 900)]
        .into_iter()
        .enumerate()
    {
        let now = Time {
            secs: NOW.secs + 1 + n as i64,
            ..NOW
        };
        fs.write(ino, at(index), &vec![n as u8 + 1; len], now)
            .unwrap();
        fs.fsync(ino).unwrap();
    }
    fs
}

/// A chip with short tags takes as many programs as one with wide ones.
#[test]
fn an_update_is_one_program_with_24_spare_bytes_too() {
    for spare in [24, 31, 37, 38, 64] {
        let mut fs = formatted(small(spare));
        let root = fs.root();
        let ino = file(&mut fs, root, b"file", 8 * PAGE);
        fs.write(ino, 0, &[1; PAGE], NOW).unwrap();
        fs.fsync(ino).unwrap();
        for n in 1..8 {
            let now = Time {
                nanos: NOW.nanos + 5_000_000 * n as u32,
                ..NOW
            };
            let of_both = cost(&mut fs, |fs| {
                fs.write(ino, at(n), &[n as u8 + 1; PAGE], now).unwrap();
                fs.fsync(ino).unwrap();
            });
            assert_eq!(of_both.1, 1, "{spare} spare bytes, page {n}");
        }
        let mut fs = cut(fs);
        for n in 0..8 {
            assert_eq!(content(&mut fs).0[at(n) as usize], n as u8 + 1);
        }
        clean(&mut fs);
    }
}

/// Of every page of data, with wide and with short tags: after a power cut, where updates are
/// found by their tags, and after an unmount.
#[test]
fn any_flipped_bit_of_any_spare_byte_changes_nothing() {
    for spare in [24, 40] {
        let mut fs = with_updates(spare);
        let expected = content(&mut fs);
        let unclean = nand(&mut fs).clone();
        let clean = common::try_unmount(remount(fs)).unwrap();
        for (chip, least) in [(unclean, 11), (clean, 8)] {
            let pages = tagged(&chip);
            assert!(pages.len() >= least, "{pages:?}");
            for &page in &pages {
                for bit in 0..8 * spare.min(38) {
                    let mut chip = chip.clone();
                    let (offset, mask) = (PAGE as u32 + bit / 8, 1 << (bit % 8));
                    assert!(chip.rot(page, Rot::Silent { offset, mask }).unwrap());
                    let what = format!("{spare}: page {}, bit {bit}", page.0);
                    assert!(booted(chip.clone()) == expected.0, "boot reader, {what}");
                    let found = content(&mut common::mount(chip));
                    assert_eq!(found, expected, "{what}");
                }
            }
        }
    }
}

/// A second bit would be one too many.
#[test]
fn a_page_whose_tag_was_mended_is_written_anew() {
    for spare in [24, 40] {
        let mut fs = with_updates(spare);
        let expected = content(&mut fs);
        let mut rng = Rng::new(1);
        for round in 0..40 {
            let chip = nand(&mut fs);
            let pages = tagged(chip);
            for page in pages {
                let (offset, mask) = (PAGE as u32 + rng.below(24) as u32, 1 << rng.below(8));
                chip.rot(page, Rot::Silent { offset, mask }).unwrap();
            }
            assert_eq!(content(&mut fs), expected, "{spare}, round {round}");
            while fs.gc(16).unwrap() {}
            fs.sync().unwrap();
        }
        clean(&mut fs);
        assert_eq!(content(&mut remount(fs)), expected);
    }
}

/// What is said to the program is what a mount after a power cut says, a 256th of a second before
/// what the write said at most.
#[test]
fn times_are_the_same_after_a_cut() {
    let mut rng = Rng::new(1);
    let mut fs = formatted(small(24));
    let root = fs.root();
    let ino = file(&mut fs, root, b"file", 8 * PAGE);
    let mut now = NOW;
    let (mut updates, mut inodes) = (0, 0);
    for round in 0..600 {
        // Now and then as long as no tag can say, and back.
        now.secs += match rng.below(16) {
            0 => 4_000,
            1 => -1,
            2..6 => rng.below(2_040) as i64,
            _ => 0,
        };
        now.nanos = rng.below(1_000_000_000) as u32;
        let before = fs.getattr(ino).unwrap().mtime;
        let pages = 1 + rng.below(3);
        let written = fs.volume().written().updates;
        let data = vec![round as u8; pages as usize * PAGE];
        fs.write(ino, at(rng.below(8)), &data, now).unwrap();
        fs.fsync(ino).unwrap();
        let mtime = fs.getattr(ino).unwrap().mtime;
        if fs.volume().written().updates > written {
            let ns = |time: Time| i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
            let early = ns(now) - ns(mtime);
            assert!((0..i128::from(TICK_NS)).contains(&early), "{early} ns");
            assert!(mtime >= before);
            updates += 1;
        } else {
            assert_eq!(mtime, now);
            inodes += 1;
        }
        if rng.one_in(8) {
            fs.setattr(
                ino,
                &SetAttr {
                    mtime: Some(now),
                    ..SetAttr::default()
                },
            )
            .unwrap();
            fs.fsync(ino).unwrap();
        }
        let live = (content(&mut fs), fs.getattr(ino).unwrap().ctime);
        let mut after = common::mount(nand(&mut fs).clone());
        let ino = after.lookup(root, b"file").unwrap().ino;
        let found = (content(&mut after), after.getattr(ino).unwrap().ctime);
        assert_eq!(found, live, "round {round}");
    }
    assert!(
        updates > 200 && inodes > 200,
        "{updates} updates, {inodes} inodes"
    );
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}

/// The root pages of a chip get this version; how many there are.
fn set_version(chip: &mut SimNand, version: u8) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw");
    chip.export_raw(&raw, true).unwrap();
    let mut bytes = std::fs::read(&raw).unwrap();
    let mut found = 0;
    for page in bytes.chunks_mut(chip.raw_page_len(true)) {
        if page[4..7] != *b"FL\x01" {
            continue;
        }
        let len = usize::from(u16::from_le_bytes([page[24], page[25]]));
        page[7] = version;
        let crc = crc32c(&page[4..len]);
        page[..4].copy_from_slice(&crc.to_le_bytes());
        found += 1;
    }
    std::fs::write(&raw, bytes).unwrap();
    chip.import_raw(&raw, true).unwrap();
    found
}

/// What programs until then have made on such a chip differs in its root pages alone, before there
/// is a page of data: its tags are wide, and updates have no room in them.
#[test]
fn a_volume_with_wide_tags_and_no_room_for_updates_stays_so() {
    let mut chip = common::format(small(24), 1);
    assert_eq!(set_version(&mut chip, 1), 2);
    let mut fs = common::mount(chip);
    let root = fs.root();
    file(&mut fs, root, b"file", 8 * PAGE);
    for round in 0..3 {
        let ino = fs.lookup(root, b"file").unwrap().ino;
        fs.fsync(ino).unwrap();
        for n in 0..8 {
            let of_both = cost(&mut fs, |fs| {
                fs.write(ino, at(n), &[round + n as u8; PAGE], NOW).unwrap();
                fs.fsync(ino).unwrap();
            });
            assert!(of_both.1 >= 2, "page {n}");
        }
        let ino_of = |page: PageAddr, fs: &mut Fs| {
            let mut spare = [0; 24];
            nand(fs).read(page, 0, &mut [], &mut spare).unwrap();
            u32::from_le_bytes(spare[4..8].try_into().unwrap())
        };
        let pages = tagged(nand(&mut fs));
        assert!(pages.iter().all(|page| ino_of(*page, &mut fs) == 1 << 20));
        let expected = content(&mut fs);
        fs = cut(fs);
        assert_eq!(content(&mut fs), expected);
        // Root pages that are written later say the same.
        for _ in 0..40 {
            fs = remount(fs);
            fs.mkdir(root, b"d", &Default::default()).unwrap();
            fs.sync().unwrap();
            fs.rmdir(root, b"d", NOW).unwrap();
        }
        clean(&mut fs);
    }
}

/// Programs until then know one version, and say which this is. These know two.
#[test]
fn the_version_is_told_where_it_is_not_known() {
    let mut chip = common::format(small(24), 1);
    assert_eq!(set_version(&mut chip, 3), 2);
    let error = common::try_mount(chip, Config::default()).err().unwrap();
    let said = Damage::<()>::Version(3).to_string();
    assert!(error.ends_with(&said), "{error}");
    // A chip without room for tags has none, whatever a root page says.
    let mut bare = common::format(small(0), 1);
    assert_eq!(set_version(&mut bare, 2), 2);
    let error = common::try_mount(bare, Config::default()).err().unwrap();
    assert!(
        error.ends_with(&Damage::<()>::Geometry.to_string()),
        "{error}"
    );
}
