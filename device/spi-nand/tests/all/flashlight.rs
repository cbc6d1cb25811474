//! FlashLight on SPI NAND chips, through the driver and its bus, with the power cut after bytes.

use flashkit_flashlight::{Config, FlashLight, New, Node, ROOT_DIR, Time, ram_needed};
use flashkit_nand::Nand;
use flashkit_sim::spi::{SpiCut, SpiDelay, SpiNandChip};
use flashkit_sim::{EraseTear, Faults, Tear};
use flashkit_spi_nand::{Idle, SpiNand, parts};

/// Of several makers: 24 spare bytes in runs, 63 in one, two planes, pages of 4 KiB.
const PARTS: [&str; 4] = [
    "W25N01GV",
    "GD5F1GQ5UE",
    "MT29F2G01ABAGD",
    "TC58CVG2S0HRAIG",
];
const FILES: u32 = 6;
const CUTS: u64 = 24;
const NOW: Time = Time { secs: 1, nanos: 0 };

type Chip = SpiNandChip;
type Driver<'c> = SpiNand<'static, &'c mut Chip, SpiDelay, Idle>;
type Volume<'c, 'r> = FlashLight<'r, Driver<'c>>;

fn open(chip: &mut Chip) -> Driver<'_> {
    let delay = chip.delay();
    SpiNand::open(chip, delay, Idle, &parts::ALL).unwrap()
}

fn name(file: u32) -> Vec<u8> {
    format!("file {file}").into_bytes()
}

fn content(file: u32, version: u32) -> Vec<u8> {
    let len = 300 + 700 * file as usize;
    let byte = |i: usize| (i as u32 * 31 + file * 7 + version * 131) as u8;
    (0..len).map(byte).collect()
}

/// Writes a version of a file over the one before, and syncs it. Whether that went well.
fn write(fs: &mut Volume<'_, '_>, file: u32, version: u32) -> bool {
    let node = match fs.lookup(ROOT_DIR, &name(file)) {
        Ok(found) => found.node,
        Err(_) => return false,
    };
    let Node::File(inode) = node else {
        panic!("{node:?}");
    };
    fs.write(inode, 0, &content(file, version), NOW).is_ok() && fs.fsync(node).is_ok()
}

fn read(fs: &mut Volume<'_, '_>, file: u32) -> Vec<u8> {
    let node = fs.lookup(ROOT_DIR, &name(file)).unwrap().node;
    let Node::File(inode) = node else {
        panic!("{node:?}");
    };
    let mut data = vec![0; 8192];
    let len = fs.read(inode, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

/// A volume with its files, on a chip with bad blocks.
fn made(part: &str, ram: &mut [u8]) -> Chip {
    let mut chip = Chip::new(part);
    let last = chip.chip().geometry().blocks() - 1;
    let faults = Faults {
        bad_blocks: vec![1, 2, 9, last],
        ..Faults::default()
    };
    chip.chip_mut().set_faults(faults).unwrap();
    let new = New {
        mode: 0o755,
        now: NOW,
        ..New::default()
    };
    let driver = FlashLight::format(open(&mut chip), ram, 1, &new).unwrap();
    let mut fs = FlashLight::mount(driver, ram, Config::default()).unwrap();
    for file in 0..FILES {
        fs.create(ROOT_DIR, &name(file), &new).unwrap();
        assert!(write(&mut fs, file, 0));
    }
    assert!(fs.unmount().is_ok());
    chip
}

/// How many bytes go over the bus in a session without a cut, from the opened driver on.
fn session(chip: &mut Chip, ram: &mut [u8], versions: &mut [u32]) -> u64 {
    let mut driver = open(chip);
    let before = driver.spi_mut().count().bytes;
    let mut fs = FlashLight::mount(driver, ram, Config::default()).unwrap();
    for file in 0..FILES {
        versions[file as usize] += 1;
        assert!(write(&mut fs, file, versions[file as usize]));
    }
    let Ok(mut driver) = fs.unmount() else {
        panic!("it cannot be unmounted");
    };
    driver.spi_mut().count().bytes - before
}

/// Writes the next version of each file until the power goes. Which one was being written then.
fn until_cut(driver: Driver<'_>, ram: &mut [u8], versions: &mut [u32]) -> Option<(u32, u32)> {
    let mut fs = FlashLight::mount(driver, ram, Config::default()).ok()?;
    for file in 0..FILES {
        let next = versions[file as usize] + 1;
        if !write(&mut fs, file, next) {
            return Some((file, next));
        }
        versions[file as usize] = next;
    }
    None
}

/// Whether each page of what was found is of the old or of the new.
fn is_old_or_new(found: &[u8], old: &[u8], new: &[u8], page: usize) -> bool {
    let pages = found
        .chunks(page)
        .zip(old.chunks(page).zip(new.chunks(page)));
    let mut each = pages.map(|(found, (old, new))| found == old || found == new);
    found.len() == old.len() && each.all(|good| good)
}

/// A session with the power cut, and the look at its files. Whether the power went.
fn cut_session(
    chip: &mut Chip,
    ram: &mut [u8],
    versions: &mut [u32],
    cut: SpiCut,
    what: &str,
) -> bool {
    let page = chip.chip().geometry().page_size() as usize;
    let mut driver = open(chip);
    driver.spi_mut().cut_after(cut);
    let unsure = until_cut(driver, ram, versions);
    let was_cut = chip.is_off();
    chip.power_on();
    let mut fs = FlashLight::mount(open(chip), ram, Config::default())
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    for file in 0..FILES {
        let (found, kept) = (read(&mut fs, file), versions[file as usize]);
        let new = match unsure {
            Some((unsure, next)) if unsure == file => next,
            _ => kept,
        };
        let good = is_old_or_new(&found, &content(file, kept), &content(file, new), page);
        assert!(good, "{what}, file {file}");
    }
    if let Some((file, next)) = unsure {
        assert!(write(&mut fs, file, next), "{what}");
        versions[file as usize] = next;
    }
    assert!(fs.unmount().is_ok(), "{what}");
    was_cut
}

/// What was synced is there after every cut, and of what was being written each page is old or new.
#[test]
fn files_survive_cuts_on_the_bus() {
    let tears = [
        (Tear::Garbage, EraseTear::LooksErased),
        (Tear::Random, EraseTear::Mixed),
        (Tear::Complete, EraseTear::Partial),
    ];
    for part in PARTS {
        let mut ram = vec![0; ram_needed(&Chip::new(part).chip().geometry())];
        let mut chip = made(part, &mut ram);
        let mut versions = [0; FILES as usize];
        let whole = session(&mut chip, &mut ram, &mut versions);
        let mut cuts = 0;
        for at in 0..CUTS {
            let (program, erase) = tears[at as usize % tears.len()];
            let cut = SpiCut {
                // A different place in each session, in the mount as well.
                bytes: whole * at / CUTS + at * 7 % 13,
                program,
                erase,
                seed: at,
            };
            let what = format!("{part}, cut {at}");
            cuts += u64::from(cut_session(&mut chip, &mut ram, &mut versions, cut, &what));
        }
        assert!(cuts >= CUTS / 2, "{part}: {cuts}");
    }
}

/// A mount after a clean unmount reads 37 pages, and no more than these go over the bus.
#[test]
fn what_a_mount_moves() {
    for part in PARTS {
        let geometry = Chip::new(part).chip().geometry();
        let mut ram = vec![0; ram_needed(&geometry)];
        let mut chip = made(part, &mut ram);
        let mut driver = open(&mut chip);
        let before = driver.spi_mut().count();
        let fs = FlashLight::mount(driver, &mut ram, Config::default()).unwrap();
        let Ok(mut driver) = fs.unmount() else {
            panic!("it cannot be unmounted");
        };
        let moved = driver.spi_mut().count() - before;
        let page = geometry.page_size() + geometry.spare_size();
        assert!(
            moved.data_bytes <= 37 * u64::from(page),
            "{part}: {moved:?}"
        );
    }
}
