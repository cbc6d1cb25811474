//! A file of more than 4 GiB on a chip of the size of `slc-8g`: written, read, cut,
//! removed, mounted in between.
//!
//! By itself the first 4,088 MiB are a hole; with `FLASHKIT_BIG_FULL=1` nothing is, which takes a
//! minute or two and half a gigabyte of RAM.

use std::collections::HashMap;
use std::convert::Infallible;

use flashkit_flashlight::{Config, FileRef, FlashLight, New, Node, ROOT_DIR, Time, ram_needed};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, Metered};
use flashkit_vfs::any::AnyNand;

/// A chip that keeps of a page of one byte only that byte: eight gigabytes are in no machine's RAM.
struct Thin {
    geometry: Geometry,
    pages: HashMap<u32, (Vec<u8>, Vec<u8>)>,
}

impl Nand for Thin {
    type Error = Infallible;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn correctable_bits(&self) -> u32 {
        1
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Infallible> {
        data.fill(0xff);
        spare.fill(0xff);
        if let Some((held, tag)) = self.pages.get(&page.0) {
            for (i, byte) in data.iter_mut().enumerate() {
                let at = if held.len() == 1 {
                    0
                } else {
                    offset as usize + i
                };
                *byte = held.get(at).copied().unwrap_or(0xff);
            }
            let n = spare.len().min(tag.len());
            spare[..n].copy_from_slice(&tag[..n]);
        }
        Ok(ReadStatus::Clean)
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, Infallible> {
        let whole = data.len() == self.geometry.page_size() as usize;
        let uniform = whole && data.iter().all(|&b| b == data[0]);
        let held = if uniform { &data[..1] } else { data };
        let before = self.pages.insert(page.0, (held.to_vec(), spare.to_vec()));
        assert!(before.is_none(), "{page:?} is programmed twice");
        Ok(OpStatus::Done)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Infallible> {
        let first = block.0 * self.geometry.pages_per_block();
        for page in first..first + self.geometry.pages_per_block() {
            self.pages.remove(&page);
        }
        Ok(OpStatus::Done)
    }

    fn is_bad(&mut self, _: BlockAddr) -> Result<bool, Infallible> {
        Ok(false)
    }

    fn mark_bad(&mut self, _: BlockAddr) -> Result<(), Infallible> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

impl Metered for Thin {
    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn erase_counts(&self) -> Vec<u32> {
        Vec::new()
    }

    fn idle(&mut self, _: u64) {}
}

const PIECE: usize = 1 << 20;

/// What is at a MiB of the file.
fn byte(piece: u64) -> u8 {
    (piece % 251) as u8
}

const BORDER: u64 = 4 << 10;

type Fs<'r> = FlashLight<'r, AnyNand<'static>>;

fn check(fs: &mut Fs<'_>, file: FileRef, pieces: std::ops::Range<u64>) {
    let mut data = vec![0; PIECE];
    for piece in pieces {
        let n = fs.read(file, piece * PIECE as u64, &mut data).unwrap();
        assert_eq!(n, PIECE, "MiB {piece}");
        assert!(data.iter().all(|&b| b == byte(piece)), "MiB {piece}");
    }
}

fn find(fs: &mut Fs<'_>) -> (FileRef, u64) {
    let attr = fs.lookup(ROOT_DIR, b"big").unwrap();
    let Node::File(file) = attr.node else {
        panic!()
    };
    (file, attr.size)
}

fn unmount(fs: Fs<'_>) -> AnyNand<'static> {
    fs.unmount().map_err(|(_, e)| e).unwrap()
}

#[test]
fn a_file_of_more_than_four_gibibytes() {
    let full = std::env::var_os("FLASHKIT_BIG_FULL").is_some_and(|v| v == "1");
    let geometry = Geometry::new(2048, 40, 64, 65_536).unwrap();
    let chip = AnyNand::new(Thin {
        geometry,
        pages: HashMap::new(),
    });
    let mut ram = vec![0; ram_needed(&geometry)];
    let chip = FlashLight::format(chip, &mut ram, 1, &New::default()).unwrap();
    let mut fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
    let now = Time::default();
    let node = fs.create(ROOT_DIR, b"big", &New::default()).unwrap();
    let Node::File(file) = node else { panic!() };
    let (first, pieces) = if full {
        (0, BORDER + 200)
    } else {
        (BORDER - 8, BORDER + 8)
    };
    for piece in first..pieces {
        let data = vec![byte(piece); PIECE];
        fs.write(file, piece * PIECE as u64, &data, now).unwrap();
    }
    let chip = unmount(fs);
    let mut fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
    let (file, size) = find(&mut fs);
    assert_eq!(size, pieces * PIECE as u64);
    let hole = fs.next_hole(file, first * PIECE as u64).unwrap();
    assert_eq!(hole, Some(size));
    assert_eq!(fs.next_data(file, 0).unwrap(), Some(first * PIECE as u64));
    check(&mut fs, file, first..pieces);
    let mut data = vec![1; PIECE];
    if !full {
        assert_eq!(fs.read(file, 3 << 30, &mut data).unwrap(), PIECE);
        assert!(data.iter().all(|&b| b == 0), "a hole");
    }
    // Across the border, in place.
    let border = BORDER * PIECE as u64;
    let at = border - 700;
    fs.write(file, at, &[0xee; 1_400], now).unwrap();
    fs.fsync(Node::File(file)).unwrap();
    let chip = unmount(fs);
    let mut fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
    let (file, _) = find(&mut fs);
    assert_eq!(fs.read(file, at - 10, &mut data[..1_420]).unwrap(), 1_420);
    assert!(data[10..1_410].iter().all(|&b| b == 0xee));
    assert_eq!((data[9], data[1_410]), (byte(BORDER - 1), byte(BORDER)));
    check(&mut fs, file, first..BORDER - 1);
    check(&mut fs, file, BORDER + 1..pieces);
    // Cut on either side of it, and grown again: what was cut off does not come back.
    for size in [border + 5, border, border - 5] {
        fs.truncate(file, size, now).unwrap();
        assert_eq!(fs.getattr(Node::File(file)).unwrap().size, size);
        let chip = unmount(fs);
        fs = FlashLight::mount(chip, &mut ram, Config::default()).unwrap();
        assert_eq!(find(&mut fs).1, size);
        assert_eq!(fs.read(file, size - 3, &mut data[..9]).unwrap(), 3);
        assert!(data[..3].iter().all(|&b| b == 0xee));
    }
    fs.truncate(file, border + 100, now).unwrap();
    assert_eq!(fs.read(file, border - 10, &mut data[..200]).unwrap(), 110);
    assert!(data[..5].iter().all(|&b| b == 0xee));
    assert!(data[5..110].iter().all(|&b| b == 0));
    check(&mut fs, file, first..BORDER - 1);
    let free = fs.statfs().pages_free;
    fs.unlink(ROOT_DIR, b"big", &|_| false, now).unwrap();
    fs.sync().unwrap();
    let pages = (BORDER - first - 1) * (PIECE as u64 / 2048);
    assert!(u64::from(fs.statfs().pages_free) >= u64::from(free) + pages);
}
