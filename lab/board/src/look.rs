//! The chip as FlashLight on the host finds it, and a volume that it has filled.

use flashkit_flashlight::Config;
use flashkit_sim::{Rng, SimNand};
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileSystem, NewInode, Time};

use crate::ledger::{Found, SLOTS};

/// RAM of a mount: what the image has.
const RAM: usize = 16 << 10;
/// Bytes of a record, of a page of the ring, and of what is written at a time.
const RECORD: usize = 100;
const PAGE: usize = 2048;
const PIECE: usize = 64 << 10;
/// The file that fills a volume.
const BALLAST: &str = "ballast";

/// A word of what belongs to a number, as the image has it.
fn word(number: u32, index: u32) -> u32 {
    let mixed = number.wrapping_mul(0x9E37_79B1) ^ index.wrapping_mul(0x85EB_CA6B);
    mixed.rotate_left(index % 31)
}

/// The number that bytes begin with, if they are what belongs to it; 0 of zeros.
fn number_of(bytes: &[u8]) -> Option<u32> {
    let words = bytes.chunks_exact(4);
    let words: Vec<u32> = words
        .map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        .collect();
    let number = *words.first()?;
    let belongs = |(index, found): (u32, &u32)| match number {
        0 => *found == 0,
        _ => *found == word(number, index),
    };
    (1..).zip(&words[1..]).all(belongs).then_some(number)
}

/// Mounts a copy of the chip, which recovers it there, checks every structure as `fsck` does, and
/// reads what the image has written.
///
/// # Errors
/// It does not mount, is damaged, or holds what the image never wrote. `None`: no volume.
pub fn look(chip: &SimNand) -> Result<Option<Found>, String> {
    let copy = chip.snapshot().map_err(|error| error.to_string())?;
    let mut ram = vec![0; RAM];
    let mut fs = match any::mount(AnyNand::new(copy), &mut ram, Config::default()) {
        Err(flashkit_flashlight::Error::NotFormatted) => return Ok(None),
        mounted => mounted.map_err(|error| format!("the host's mount: {error}"))?,
    };
    let checked = check(fs.volume())?;
    if let Some(first) = checked.findings.first() {
        return Err(format!("the host's check: {}", first.what));
    }
    let mut found = Found {
        old: log(&mut fs, "log.old")?,
        log: log(&mut fs, "log")?,
        ..Found::default()
    };
    let ring = file(&mut fs, "ring")?.unwrap_or_default();
    for (page, bytes) in ring.chunks(PAGE).enumerate() {
        let number = number_of(bytes).filter(|_| bytes.len() == PAGE && page < 2 * SLOTS);
        let number = number.ok_or_else(|| format!("page {page} of the ring is torn"))?;
        found.slots[page / 2][page % 2] = number;
    }
    Ok(Some(found))
}

/// The first and the last record of a log.
fn log(fs: &mut AnyFs<'_, '_>, name: &str) -> Result<Option<(u32, u32)>, String> {
    let bytes = file(fs, name)?.unwrap_or_default();
    let mut found: Option<(u32, u32)> = None;
    for record in bytes.chunks(RECORD) {
        let number = number_of(record).filter(|_| record.len() == RECORD);
        found = match (found, number) {
            (None, Some(number)) if number > 0 => Some((number, number)),
            (Some((first, last)), Some(number)) if number == last + 1 => Some((first, number)),
            _ => return Err(format!("{name} is not whole behind {found:?}")),
        };
    }
    Ok(found)
}

/// A file of the root directory, whole.
fn file(fs: &mut AnyFs<'_, '_>, name: &str) -> Result<Option<Vec<u8>>, String> {
    let root = fs.root();
    let attr = match fs.lookup(root, name.as_bytes()) {
        Err(Error::NotFound) => return Ok(None),
        attr => attr.map_err(|error| format!("{name}: {error}"))?,
    };
    let mut bytes = vec![0; attr.size as usize];
    let mut at = 0;
    while at < bytes.len() {
        let read = fs.read(attr.ino, at as u64, &mut bytes[at..]);
        match read.map_err(|error| format!("{name}: {error}"))? {
            0 => return Err(format!("{name} ends at {at}")),
            n => at += n,
        }
    }
    Ok(Some(bytes))
}

/// Bytes of the file that fills a volume.
fn ballast(piece: u64) -> Vec<u8> {
    let mut bytes = vec![0; PIECE];
    Rng::keyed(0xBA11, piece).fill(&mut bytes);
    bytes
}

/// Mounts the chip and writes a file until so many pages are free; unmounts it. From then on there
/// is cleaning to do.
///
/// # Errors
/// FlashLight's, in words.
pub fn fill(chip: &mut SimNand, pages_free: u64) -> Result<(), String> {
    let mut ram = vec![0; RAM];
    let lent = AnyNand::lent(chip);
    let mounted = any::mount(lent, &mut ram, Config::default());
    let mut fs = mounted.map_err(|error| format!("the host's mount: {error}"))?;
    let told = |error: Error| format!("the host fills the volume: {error}");
    let root = fs.root();
    let made = fs.create(root, BALLAST.as_bytes(), &NewInode::default());
    let ino = made.map_err(told)?.ino;
    for piece in 0.. {
        if free_pages(&mut fs)? <= pages_free {
            break;
        }
        let written = fs.write(ino, piece * PIECE as u64, &ballast(piece), Time::default());
        written.map_err(told)?;
    }
    fs.unmount().map_err(told)
}

fn free_pages(fs: &mut AnyFs<'_, '_>) -> Result<u64, String> {
    Ok(u64::from(fs.volume().statfs().pages_free))
}

/// Whether the file that fills the volume is as it was written; `None`: there is none.
///
/// # Errors
/// It is not.
pub fn check_filled(chip: &SimNand) -> Result<Option<u64>, String> {
    let copy = chip.snapshot().map_err(|error| error.to_string())?;
    let mut ram = vec![0; RAM];
    let mounted = any::mount(AnyNand::new(copy), &mut ram, Config::default());
    let mut fs = mounted.map_err(|error| format!("the host's mount: {error}"))?;
    let Some(bytes) = file(&mut fs, BALLAST)? else {
        return Ok(None);
    };
    let pieces = (0..).zip(bytes.chunks(PIECE));
    for (piece, found) in pieces {
        if found != ballast(piece) {
            return Err(format!("{BALLAST} has changed in piece {piece}"));
        }
    }
    Ok(Some(bytes.len() as u64))
}

#[cfg(test)]
mod tests {
    use flashkit_flashlight::New;
    use flashkit_sim::{ChipSpec, Timing};

    use super::*;

    fn chip() -> SimNand {
        let geometry = flashkit_nand::Geometry::new(2048, 24, 64, 64).unwrap();
        let timing = Timing {
            read_ns: 1,
            program_ns: 1,
            erase_ns: 1,
        };
        SimNand::new(ChipSpec::new(geometry, timing))
    }

    fn formatted() -> SimNand {
        let mut ram = vec![0; RAM];
        let new = New::default();
        let made = any::format(AnyNand::new(chip()), &mut ram, 1, &new, Config::default());
        made.unwrap().take()
    }

    fn write(chip: &mut SimNand, name: &str, bytes: &[u8]) {
        let mut ram = vec![0; RAM];
        let lent = AnyNand::lent(chip);
        let mut fs = any::mount(lent, &mut ram, Config::default()).unwrap();
        let root = fs.root();
        let made = fs.create(root, name.as_bytes(), &NewInode::default());
        let ino = made.unwrap().ino;
        fs.write(ino, 0, bytes, Time::default()).unwrap();
        fs.unmount().unwrap();
    }

    fn record(number: u32, len: usize) -> Vec<u8> {
        let word = |index| {
            if index == 0 {
                number
            } else {
                word(number, index)
            }
        };
        (0..len as u32 / 4)
            .flat_map(|index| word(index).to_le_bytes())
            .collect()
    }

    #[test]
    fn what_an_image_has_written_is_found() {
        assert_eq!(look(&chip()), Ok(None));
        let mut chip = formatted();
        assert_eq!(look(&chip), Ok(Some(Found::default())));
        let log: Vec<u8> = (7..10).flat_map(|number| record(number, RECORD)).collect();
        write(&mut chip, "log", &log);
        let slot = [vec![0; 2 * PAGE], record(4, PAGE), record(68, PAGE)].concat();
        write(&mut chip, "ring", &slot);
        let found = look(&chip).unwrap().unwrap();
        assert_eq!((found.old, found.log), (None, Some((7, 9))));
        assert_eq!(found.slots[..2], [[0, 0], [4, 68]]);
    }

    #[test]
    fn what_is_torn_is_found_out() {
        let log: Vec<u8> = (7..10).flat_map(|number| record(number, RECORD)).collect();
        for (name, bytes) in [
            ("log", &log[..299]),
            ("log", &[&log[..100], &log[200..]].concat()),
            ("log.old", &[&log[..150], &[0; 150]].concat()),
            ("ring", &record(4, PAGE)[..2000]),
            ("ring", &[&record(4, PAGE)[..2000], &[0; 48]].concat()),
        ] {
            let mut chip = formatted();
            write(&mut chip, name, bytes);
            assert!(look(&chip).is_err(), "{name}, {}", bytes.len());
        }
    }

    #[test]
    fn a_volume_is_filled_and_that_is_checked() {
        let mut chip = formatted();
        assert_eq!(check_filled(&chip), Ok(None));
        fill(&mut chip, 1_000).unwrap();
        let bytes = check_filled(&chip).unwrap().unwrap();
        assert!(bytes > 1 << 20);
        assert_eq!(look(&chip), Ok(Some(Found::default())));
    }
}
