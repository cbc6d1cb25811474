//! Files of many pieces that are cut: what is beyond the new size is gone for good, whenever the
//! inode is written meanwhile, wherever power is cut and whatever fails.

use flashkit_flashlight::Config;
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Cut, EraseTear, PowerCut, Rot, SimNand, Tear};
use flashkit_vfs::{Error, FileSystem, Ino, NewInode, SetAttr, SetXattr};

use crate::common::{
    Fs, LentFs, NOW, chip, clean, cost, formatted, mount, remount, try_mount, try_mount_lent,
};
use crate::failures::fail_at::FailAt;

/// A file of single pages, with a hole between two of them each: sizes of page, pieces,
/// pages from one to the next.
#[derive(Clone, Copy, Debug)]
struct Shape {
    page: u32,
    pieces: u64,
    step: u64,
}

const MAPS: Shape = Shape {
    page: 1024,
    pieces: 1_200,
    step: 2,
};
const INDEXED: Shape = Shape {
    page: 1024,
    pieces: 6_000,
    step: 2,
};

impl Shape {
    fn at(self, piece: u64) -> u64 {
        self.step * piece * u64::from(self.page)
    }

    fn size(self) -> u64 {
        self.at(self.pieces - 1) + u64::from(self.page)
    }

    fn of_bytes(self, byte: u8) -> Vec<u8> {
        vec![byte; self.page as usize]
    }

    /// A synced volume with the file.
    fn made(self) -> SimNand {
        let mut fs = formatted(chip(self.page, 40, 64, 512));
        let root = fs.root();
        let ino = fs.create(root, b"f", &NewInode::default()).unwrap().ino;
        for piece in (0..self.pieces).rev() {
            let byte = 1 + (piece % 250) as u8;
            fs.write(ino, self.at(piece), &self.of_bytes(byte), NOW)
                .unwrap();
        }
        fs.fsync(ino).unwrap();
        fs.sync().unwrap();
        fs.into_volume().nand().get::<SimNand>().clone()
    }

    /// Overwrites pages far apart, which fills the log of the inode.
    fn scatter(self, fs: &mut LentFs<'_>, ino: Ino, overwrites: u64) {
        for k in 0..overwrites {
            let piece = (k * 7_919 + 3) % self.pieces;
            fs.write(ino, self.at(piece), &self.of_bytes(254), NOW)
                .unwrap();
        }
    }

    /// The chips that a truncation leaves, and the fsync after it, when power goes in each of their
    /// operations: which, and the chip.
    fn cut_anywhere(
        self,
        made: SimNand,
        size: u64,
        overwrites: u64,
    ) -> impl Iterator<Item = (u64, SimNand)> {
        let cut_at = move |after: u64| {
            let mut chip = PowerCut::new(
                made.clone(),
                Cut {
                    after,
                    program: Tear::Garbage,
                    erase: EraseTear::Partial,
                    seed: after,
                },
            );
            let mut fs = try_mount_lent(&mut chip, Config::default()).unwrap();
            let ino = found(&mut fs);
            self.scatter(&mut fs, ino, overwrites);
            let before = fs.volume().nand().get::<PowerCut<SimNand>>().ops();
            let done = truncate(&mut fs, ino, size).and_then(|()| fs.fsync(ino));
            assert_eq!(done.is_ok(), after == u64::MAX, "operation {after}");
            drop(fs);
            (before, chip.ops(), chip.into_inner())
        };
        let (first, end, _) = cut_at(u64::MAX);
        (first..end).map(move |after| (after, cut_at(after).2))
    }

    /// The file has its old size, or the new one and nothing beyond.
    fn is_whole_or_cut(self, fs: &mut Fs, size: u64, case: &str) {
        let ino = found(fs);
        clean(fs);
        let now = fs.getattr(ino).unwrap().size;
        assert!([size, self.size()].contains(&now), "{case}: {now}");
        if now == size {
            self.shows_zeros(fs, ino, case);
        }
    }

    /// Makes the file as long as it was: what is beyond its size reads as zeros.
    fn shows_zeros(self, fs: &mut LentFs<'_>, ino: Ino, case: &str) {
        let from = fs.getattr(ino).unwrap().size;
        truncate(fs, ino, self.size()).unwrap();
        let mut page = self.of_bytes(0);
        for at in (from..self.size()).step_by(self.page as usize) {
            let n = fs.read(ino, at, &mut page).unwrap();
            assert!(page[..n].iter().all(|&b| b == 0), "{case}: byte {at}");
        }
    }
}

fn truncate(fs: &mut LentFs<'_>, ino: Ino, size: u64) -> Result<(), Error> {
    let size = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    fs.setattr(ino, &size).map(|_| ())
}

fn found(fs: &mut LentFs<'_>) -> Ino {
    fs.lookup(fs.root(), b"f").unwrap().ino
}

#[test]
fn a_truncation_is_there_after_an_fsync() {
    for (shape, sizes, fills) in [
        (MAPS, [0, 100 * 1024, 1_500 * 1024], 30..70),
        (INDEXED, [0, 100 * 1024, 9_000 * 1024], 36..44),
    ] {
        let made = shape.made();
        for (size, fill) in sizes
            .into_iter()
            .flat_map(|s| fills.clone().map(move |f| (s, f)))
        {
            let case = format!("{shape:?}, size {size}, {fill} overwrites");
            let mut fs = mount(made.clone());
            let ino = found(&mut fs);
            shape.scatter(&mut fs, ino, fill);
            truncate(&mut fs, ino, size).unwrap();
            fs.fsync(ino).unwrap();
            clean(&mut fs);
            for fs in [&mut cut_of(&mut fs), &mut remount(fs)] {
                let ino = found(fs);
                assert_eq!(fs.getattr(ino).unwrap().size, size, "{case}");
                shape.shows_zeros(fs, ino, &case);
                clean(fs);
            }
        }
    }
}

fn cut_of(fs: &mut Fs) -> Fs {
    mount(fs.volume().nand().get::<SimNand>().clone())
}

#[test]
fn a_truncation_that_is_cut_leaves_nothing_to_be_seen() {
    let mut cuts = 0;
    for (shape, size, fill) in [
        (MAPS, 0, 38),
        (MAPS, 0, 56),
        (MAPS, 100 * 1024, 38),
        (MAPS, 1_500 * 1024, 40),
        (INDEXED, 0, 40),
        (INDEXED, 9_000 * 1024, 38),
    ] {
        for (after, chip) in shape.cut_anywhere(shape.made(), size, fill) {
            let case = format!("{shape:?}, size {size}, {fill} overwrites, operation {after}");
            cuts += 1;
            let mut fs = mount(chip);
            shape.is_whole_or_cut(&mut fs, size, &case);
            fs.sync().unwrap();
            clean(&mut fs);
        }
    }
    assert!(cuts > 15, "{cuts}");
}

/// Programs fail one after another, those of the allocation log among them: a truncation that is
/// refused ends the session, and the file is as it was or cut.
#[test]
fn a_truncation_that_fails_leaves_nothing_to_be_seen() {
    let mut refused = 0;
    for (shape, size, fill) in [(MAPS, 0, 38), (INDEXED, 100 * 1024, 0)] {
        let made = shape.made();
        for (from, failures) in (0..14).flat_map(|from| [6, 12, 20].map(|n| (from, n))) {
            let case = format!("{shape:?}, {failures} fail from operation {from} on");
            let fails = FailAt::new(made.clone(), u64::MAX);
            let mut fs = try_mount(fails, Config::default()).unwrap();
            let ino = found(&mut fs);
            shape.scatter(&mut fs, ino, fill);
            let chip: &mut FailAt = fs.volume().nand_mut().get_mut();
            (chip.left, chip.failures) = (chip.done + from, failures);
            if truncate(&mut fs, ino, size).is_ok() {
                continue;
            }
            refused += 1;
            assert!(fs.sync().is_err(), "{case}");
            let mut fs = mount(fs.volume().nand().get::<FailAt>().chip.clone());
            shape.is_whole_or_cut(&mut fs, size, &case);
        }
    }
    assert!(refused > 20, "{refused}");
}

/// A hole at the end of a file of many pieces costs the reads of the maps before it.
#[test]
fn a_hole_behind_many_pieces_is_passed_at_once() {
    for shape in [MAPS, INDEXED] {
        let mut fs = mount(shape.made());
        let ino = found(&mut fs);
        truncate(&mut fs, ino, shape.size() / 2).unwrap();
        truncate(&mut fs, ino, 1 << 40).unwrap();
        let (reads, _) = cost(&mut fs, |fs| {
            assert_eq!(fs.next_data(ino, shape.size()).unwrap(), None);
        });
        assert!(reads <= 4, "{shape:?}: {reads}");
    }
}

/// A piece of a page in the inode, over a page that is lost: it cannot be written out. What needs
/// the room it takes is refused for the damage, or done, in a few programs.
#[test]
fn a_piece_over_a_lost_page_takes_no_programs_without_end() {
    const UNDER: u8 = 0xee;
    let mut refused = 0;
    for (pieces, len) in [4, 40, 100]
        .into_iter()
        .flat_map(|n| (300..800).step_by(40).map(move |len| (n, len)))
    {
        let mut fs = formatted(chip(1024, 40, 8, 512));
        let root = fs.root();
        let ino = fs.create(root, b"f", &NewInode::default()).unwrap().ino;
        let shape = Shape {
            page: 1024,
            pieces,
            step: 2,
        };
        for piece in 0..pieces {
            let byte = if piece == pieces - 1 { UNDER } else { 1 };
            fs.write(ino, shape.at(piece), &shape.of_bytes(byte), NOW)
                .unwrap();
        }
        fs.sync().unwrap();
        fs.write(ino, shape.at(pieces - 1) + 100, &vec![2; len], NOW)
            .unwrap();
        fs.fsync(ino).unwrap();
        let mut lost = fs.volume().nand().get::<SimNand>().clone();
        let mut page = shape.of_bytes(0);
        let under = (0..lost.geometry().pages()).map(PageAddr).find(|&at| {
            lost.read(at, 0, &mut page, &mut []).unwrap();
            page == shape.of_bytes(UNDER)
        });
        assert!(lost.rot(under.unwrap(), Rot::Lost).unwrap());
        for what in ["truncate", "attribute", "hole"] {
            let case = format!("{what}, {pieces} pieces, {len} bytes");
            let mut fs = mount(lost.clone());
            let ino = found(&mut fs);
            let mut done = Ok(());
            let (_, programs) = cost(&mut fs, |fs| {
                done = match what {
                    "truncate" => truncate(fs, ino, 2_500),
                    "attribute" => fs.set_xattr(ino, b"user.a", &[1; 230], SetXattr::Any, NOW),
                    _ => fs.punch_hole(ino, 1_500, 3_000, NOW),
                };
            });
            refused += u32::from(done.is_err());
            assert!(programs <= 16, "{case}: {programs}");
            assert!(
                matches!(done, Ok(()) | Err(Error::Damaged(_) | Error::Io(_))),
                "{case}: {done:?}"
            );
            fs.unlink(fs.root(), b"f", NOW).unwrap();
            fs.sync().unwrap();
            clean(&mut fs);
        }
    }
    assert!(refused > 0, "{refused}");
}

/// The mount after a cut brings a truncation to its end. Else the maps that are left would go into
/// an index page with others as the file changes below its new size, or their pages to its log as
/// they are moved, and be seen when it grows.
#[test]
fn a_truncation_that_is_cut_is_finished_by_the_mount() {
    const SHAPE: Shape = Shape {
        page: 2048,
        pieces: 6_600,
        step: 4,
    };
    let mut fs = mount(SHAPE.made());
    let ino = found(&mut fs);
    SHAPE.scatter(&mut fs, ino, SHAPE.pieces / 3);
    fs.sync().unwrap();
    let (made, size) = (
        fs.into_volume().nand().get::<SimNand>().clone(),
        SHAPE.at(2_000),
    );
    let mut halves = 0;
    for fill in 184..196 {
        for (after, chip) in SHAPE.cut_anywhere(made.clone(), size, fill) {
            let mut fs = mount(chip);
            let ino = found(&mut fs);
            if fs.getattr(ino).unwrap().size != size {
                continue;
            }
            halves += 1;
            let case = format!("{fill} overwrites, operation {after}");
            changes_and_grows(SHAPE, fs, &case);
        }
    }
    assert!(halves > 5, "{halves}");
}

/// The file changes below its size, or blocks are cleaned; then it grows.
fn changes_and_grows(shape: Shape, mut fs: Fs, case: &str) {
    fs.sync().unwrap();
    let chip = fs.into_volume().nand().get::<SimNand>().clone();
    let mut fs = mount(chip.clone());
    let ino = found(&mut fs);
    for (hole, k) in (1..4).flat_map(|hole| (0..2_000).map(move |k| (hole, k))) {
        let at = shape.at((k * 7_919) % 2_000) + hole * u64::from(shape.page);
        fs.write(ino, at, &shape.of_bytes(200), NOW).unwrap();
    }
    fs.sync().unwrap();
    clean(&mut fs);
    shape.shows_zeros(&mut fs, ino, &format!("{case}, written"));
    let mut fs = mount(chip);
    let root = fs.root();
    let other = fs.create(root, b"other", &NewInode::default()).unwrap().ino;
    let page = u64::from(shape.page);
    let mut pages = 0;
    while fs
        .write(other, pages * page, &shape.of_bytes(7), NOW)
        .is_ok()
    {
        pages += 1;
    }
    for k in 0..2 * pages {
        let at = (k * 7_919) % pages * page;
        if fs.write(other, at, &shape.of_bytes(8), NOW).is_err() {
            break;
        }
    }
    truncate(&mut fs, other, 0).unwrap();
    fs.sync().unwrap();
    clean(&mut fs);
    let ino = found(&mut fs);
    shape.shows_zeros(&mut fs, ino, &format!("{case}, cleaned"));
    clean(&mut fs);
}
