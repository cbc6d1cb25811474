//! Repair, one class of damage after another: what is derived from the rest of the volume is put
//! right, and nothing else changes.

use crate::common::{Fs, NOW, chip, clean, file, formatted, mount, remount, try_unmount};
use flashkit_flashlight::{Area, Kind, Page, Visitor};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Rot, SimNand};
use flashkit_vfs::check::{check, repair};
use flashkit_vfs::{FileSystem, Ino, NewInode};

const CRC: [u32; 256] = {
    let mut table = [0; 256];
    let mut n = 0;
    while n < 256 {
        let (mut v, mut bit) = (n as u32, 0);
        while bit < 8 {
            v = if v & 1 == 1 {
                v >> 1 ^ 0x82f6_3b78
            } else {
                v >> 1
            };
            bit += 1;
        }
        table[n] = v;
        n += 1;
    }
    table
};

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc: u32, &b| {
        CRC[((crc ^ u32::from(b)) & 0xff) as usize] ^ crc >> 8
    })
}

/// Changes a metadata page as if it had been written so.
fn patch(chip: &mut SimNand, at: PageAddr, change: &dyn Fn(&mut [u8])) {
    let mut page = vec![0; chip.geometry().page_size() as usize];
    assert!(chip.read(at, 0, &mut page, &mut []).unwrap().is_readable());
    let before = page.clone();
    change(&mut page);
    let len = usize::from(u16::from_le_bytes([page[24], page[25]]));
    let sum = crc(&page[4..len]).to_le_bytes();
    page[..4].copy_from_slice(&sum);
    for (offset, (was, is)) in before.iter().zip(&page).enumerate() {
        if was != is {
            let (offset, mask) = (offset as u32, was ^ is);
            assert!(chip.rot(at, Rot::Silent { offset, mask }).unwrap());
        }
    }
}

fn put(at: usize, v: u32) -> impl Fn(&mut [u8]) {
    move |page| page[at..at + 4].copy_from_slice(&v.to_le_bytes())
}

/// Pages by area and inode.
#[derive(Default)]
struct Pages(Vec<Page>);

impl Visitor for Pages {
    fn page(&mut self, page: Page) {
        self.0.push(page);
    }
    fn problem(&mut self, _: PageAddr, _: u32, what: &'static str) {
        panic!("{what}");
    }
}

struct Volume {
    chip: SimNand,
    pages: Vec<Page>,
    /// Its directories d and e, e's directory s; files d/small, d/large, and one of
    /// two names, d/one and e/two.
    d: Ino,
    e: Ino,
    s: Ino,
    small: Ino,
    large: Ino,
    linked: Ino,
}

impl Volume {
    fn new() -> Volume {
        let mut fs = formatted(chip(2048, 40, 32, 128));
        let (root, new) = (fs.root(), NewInode::default());
        let d = fs.mkdir(root, b"d", &new).unwrap().ino;
        let e = fs.mkdir(root, b"e", &new).unwrap().ino;
        let s = fs.mkdir(e, b"s", &new).unwrap().ino;
        let small = file(&mut fs, d, b"small", 100);
        let large = file(&mut fs, d, b"large", 20_000);
        let linked = file(&mut fs, d, b"one", 5_000);
        fs.link(linked, e, b"two", NOW).unwrap();
        file(&mut fs, s, b"kept", 7_000);
        fs.sync().unwrap();
        let mut pages = Pages::default();
        fs.volume().walk(&mut pages).unwrap();
        let chip = try_unmount(fs).unwrap();
        Volume {
            chip,
            pages: pages.0,
            d,
            e,
            s,
            small,
            large,
            linked,
        }
    }

    fn page(&self, area: Area, ino: Ino) -> PageAddr {
        let is = |page: &&Page| page.area == area && Ino::from(page.ino) == ino;
        self.pages.iter().find(is).unwrap().page
    }

    /// Damages it, finds that, repairs it, and finds nothing more.
    fn repaired(&self, finding: &str, damage: &dyn Fn(&mut SimNand)) -> Fs {
        let mut chip = self.chip.clone();
        damage(&mut chip);
        let mut fs = mount(chip);
        let found = check(fs.volume()).unwrap().findings;
        let told = found.iter().any(|f| f.what.contains(finding));
        assert!(told, "{finding}: {found:#?}");
        repair(fs.volume()).unwrap();
        clean(&mut fs);
        let mut fs = remount(fs);
        clean(&mut fs);
        // What is not concerned is as it was.
        let e = fs.lookup(fs.root(), b"e").unwrap().ino;
        if let Ok(s) = fs.lookup(e, b"s") {
            let kept = fs.lookup(s.ino, b"kept").unwrap().ino;
            let mut bytes = vec![0; 7_001];
            assert_eq!(fs.read(kept, 0, &mut bytes), Ok(7_000));
            assert!(bytes[..7_000].iter().all(|&b| b == 0x5a));
        }
        fs
    }
}

const NLINK: usize = 52;
const SIZE: usize = 56;
const PARENT: usize = 36;

#[test]
fn numbers_of_a_directory() {
    let v = Volume::new();
    let at = v.page(Area::Dir, v.e);
    let fs = v.repaired("the number of entries is wrong", &|chip| {
        patch(chip, at, &put(SIZE, 9));
    });
    drop(fs);
    let mut fs = v.repaired("the number of subdirectories is wrong", &|chip| {
        patch(chip, at, &put(NLINK, 7));
    });
    assert_eq!(fs.getattr(v.e).unwrap().nlink, 3);
}

#[test]
fn numbers_of_names() {
    let v = Volume::new();
    let at = v.page(Area::File, v.linked);
    let mut fs = v.repaired("the number of names is wrong", &|chip| {
        patch(chip, at, &put(NLINK, 5));
    });
    assert_eq!(fs.lookup(v.e, b"two").unwrap().nlink, 2);
}

#[test]
fn a_directory_that_is_elsewhere() {
    let v = Volume::new();
    let at = v.page(Area::Dir, v.s);
    let mut fs = v.repaired("an entry leads to another's directory", &|chip| {
        patch(chip, at, &put(PARENT, v.d as u32));
    });
    assert_eq!(fs.lookup(v.d, b"s").unwrap().ino, v.s);
    assert!(fs.lookup(v.e, b"s").is_err());
    assert_eq!(fs.getattr(v.d).unwrap().nlink, 3);
}

#[test]
fn what_is_beyond_the_end() {
    let v = Volume::new();
    let at = v.page(Area::File, v.large);
    let mut fs = v.repaired("an extent beyond the end of the file", &|chip| {
        patch(chip, at, &put(SIZE, 6_000));
    });
    let mut bytes = vec![0; 8_000];
    let large = fs_ino(&mut fs, v.d, b"large");
    assert_eq!(fs.read(large, 0, &mut bytes), Ok(6_000));
    assert!(bytes[..6_000].iter().all(|&b| b == 0x5a));
}

/// More files than inode pages may be written between two checkpoints: one is taken in the
/// middle of the repair, and it is still the right file that is repaired next. In one
/// pass, without another look.
#[test]
fn more_files_than_a_checkpoint_waits_for() {
    let mut fs = formatted(chip(2048, 40, 32, 128));
    let (root, files) = (fs.root(), 560);
    for i in 0..files {
        file(&mut fs, root, format!("file {i}").as_bytes(), 4_096);
    }
    fs.sync().unwrap();
    let mut pages = Pages::default();
    fs.volume().walk(&mut pages).unwrap();
    let mut chip = try_unmount(fs).unwrap();
    let inodes = pages.0.iter().filter(|page| page.area == Area::File);
    for page in inodes {
        patch(&mut chip, page.page, &put(SIZE, 2_000));
    }
    let mut fs = mount(chip);
    let beyond = |fs: &mut Fs| {
        let found = check(fs.volume()).unwrap().findings;
        let beyond = found.iter().filter(|f| f.what.contains("beyond the end"));
        beyond.count()
    };
    assert_eq!(beyond(&mut fs), files);
    fs.volume().repair().unwrap();
    assert_eq!(beyond(&mut fs), 0);
    repair(fs.volume()).unwrap();
    clean(&mut remount(fs));
}

fn fs_ino(fs: &mut Fs, dir: Ino, name: &[u8]) -> Ino {
    fs.lookup(dir, name).unwrap().ino
}

#[test]
fn inodes_that_cannot_be_read() {
    let v = Volume::new();
    for (ino, area, dir, name) in [
        (v.small, Area::File, v.d, "small"),
        (v.large, Area::File, v.d, "large"),
        (v.linked, Area::File, v.e, "two"),
        (v.s, Area::Dir, v.e, "s"),
    ] {
        let at = v.page(area, ino);
        let mut fs = v.repaired("damaged ", &|chip| {
            assert!(chip.rot(at, Rot::Lost).unwrap());
        });
        let name = name.as_bytes();
        assert!(fs.lookup(dir, name).is_err());
        // The name can be used again, and the space.
        file(&mut fs, dir, name, 30_000);
        clean(&mut remount(fs));
    }
}

/// Makes a page of the snapshot, if it is coded, one that is not.
fn write_out(page: &mut [u8]) {
    if page[35] != 2 {
        return;
    }
    let len = usize::from(u16::from_le_bytes([page[24], page[25]]));
    let (mut coded, mut plain) = (&page[36..len], Vec::new());
    while let [control, rest @ ..] = coded {
        let (unit, times, next) = match control {
            0..=127 => (
                &rest[..=usize::from(*control)],
                1,
                usize::from(*control) + 1,
            ),
            128..=254 => (&rest[..1], usize::from(*control) - 125, 1),
            255 => (
                &rest[2..3],
                usize::from(u16::from_le_bytes([rest[0], rest[1]])),
                3,
            ),
        };
        plain.extend(unit.repeat(times));
        coded = &rest[next..];
    }
    page[35] = 1;
    page[24..26].copy_from_slice(&(36 + plain.len() as u16).to_le_bytes());
    page[36..][..plain.len()].copy_from_slice(&plain);
}

/// The counts of the block table are those of the walk.
#[test]
fn counts_of_valid_pages() {
    let v = Volume::new();
    let geometry = v.chip.geometry();
    let mut page = vec![0; geometry.page_size() as usize];
    let mut chip = v.chip.clone();
    // The snapshots of the last checkpoints.
    let snapshots: Vec<PageAddr> = (0..geometry.pages())
        .map(PageAddr)
        .filter(|at| {
            let read = chip.read(*at, 0, &mut page, &mut []).unwrap();
            read.is_readable() && &page[4..6] == b"FL" && page[6] == Kind::Snapshot as u8
        })
        .collect();
    let block = geometry.block_of(v.page(Area::File, v.small)).0;
    for by in [1, 255] {
        let fs = v.repaired("the block table says", &|chip| {
            for at in &snapshots {
                patch(chip, *at, &|page| {
                    write_out(page);
                    let at = 36 + block as usize;
                    page[at] = page[at].wrapping_add(by);
                });
            }
        });
        drop(fs);
    }
}
