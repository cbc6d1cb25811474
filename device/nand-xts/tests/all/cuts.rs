//! FlashLight on an encrypted chip: the power is cut at every program and erase, in every way that
//! one is torn. Each file is then what it was before its last synced write, or what that wrote.
//!
//! FlashLight has one type of chip here, lent: each is compiled anew.

use flashkit_flashlight::{Config, Error, FlashLight, New, Node, ROOT_DIR, Time, ram_needed};
use flashkit_nand::{Geometry, Nand, PageAddr, ReadStatus};
use flashkit_nand_xts::XtsNand;
use flashkit_sim::{ChipSpec, Cut, EraseTear, Metered, PowerCut, SimNand, Tear, preset};

use crate::pages::key;

const FILES: u32 = 3;
const ROUNDS: u32 = 24;
const NOW: Time = Time { secs: 1, nanos: 0 };

fn spec(spare: u32) -> ChipSpec {
    let geometry = Geometry::new(1024, spare, 8, 64).unwrap();
    ChipSpec::new(geometry, preset("w25n01gv").unwrap().timing)
}

fn name(file: u32) -> Vec<u8> {
    format!("a secret name {file}").into_bytes()
}

/// Of half a page to some pages, and never one that is in another.
fn content(file: u32, round: u32) -> Vec<u8> {
    let len = 500 + 900 * file as usize;
    let text = format!("secret {file} of round {round}. ");
    text.bytes().cycle().take(len).collect()
}

/// Writes the file whose turn it is anew, and syncs it.
fn write<N: Nand>(fs: &mut FlashLight<'_, N>, round: u32) -> bool {
    let file = round % FILES;
    let Ok(Node::File(inode)) = fs.lookup(ROOT_DIR, &name(file)).map(|found| found.node) else {
        return false;
    };
    fs.write(inode, 0, &content(file, round), NOW).is_ok() && fs.fsync(Node::File(inode)).is_ok()
}

fn read<N: Nand>(fs: &mut FlashLight<'_, N>, file: u32) -> Vec<u8> {
    let Node::File(inode) = fs.lookup(ROOT_DIR, &name(file)).unwrap().node else {
        panic!("file {file} is none");
    };
    let mut data = vec![0; 8192];
    let len = fs.read(inode, 0, &mut data).unwrap();
    data.truncate(len);
    data
}

/// A volume with its files, all of round 0 written.
fn made(spare: u32, key: &[u8]) -> SimNand {
    let mut page = [0; 1024];
    let chip = PowerCut::never(SimNand::new(spec(spare)));
    let mut chip = XtsNand::new(chip, key, &mut page).unwrap();
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let new = New::default();
    FlashLight::format(&mut chip, &mut ram, 1, &new).unwrap();
    let mut fs = FlashLight::mount(&mut chip, &mut ram, Config::default()).unwrap();
    for file in 0..FILES {
        fs.create(ROOT_DIR, &name(file), &new).unwrap();
        assert!(write(&mut fs, file));
    }
    assert!(fs.unmount().is_ok(), "it unmounts");
    chip.into_inner().into_inner()
}

/// Works until the cut; gives the chip, and the round that was not synced.
fn worked(chip: SimNand, key: &[u8], cut: Cut) -> (SimNand, Option<u32>) {
    let mut page = [0; 1024];
    let mut chip = XtsNand::new(PowerCut::new(chip, cut), key, &mut page).unwrap();
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let at = match FlashLight::mount(&mut chip, &mut ram, Config::default()) {
        Err(_) => Some(FILES),
        Ok(mut fs) => (FILES..ROUNDS).find(|round| !write(&mut fs, *round)),
    };
    (chip.into_inner().into_inner(), at)
}

/// What is wrong after a cut in a round.
fn verify(chip: SimNand, key: &[u8], cut_in: Option<u32>) -> Result<(), String> {
    let mut page = [0; 1024];
    let mut chip = XtsNand::new(PowerCut::never(chip), key, &mut page).unwrap();
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let mut fs = FlashLight::mount(&mut chip, &mut ram, Config::default())
        .map_err(|error| format!("mount: {error:?}"))?;
    let end = cut_in.unwrap_or(ROUNDS);
    for file in 0..FILES {
        let written = (0..end).rev().find(|round| round % FILES == file).unwrap();
        let found = read(&mut fs, file);
        let is_new = cut_in.is_some_and(|round| {
            // Of a write of several pages each is old or new.
            round % FILES == file
                && is_mixed(&found, &content(file, written), &content(file, round))
        });
        if found != content(file, written) && !is_new {
            return Err(format!(
                "file {file} is not of round {written} or {cut_in:?}"
            ));
        }
    }
    Ok(())
}

/// Whether each page is that of one or of the other.
fn is_mixed(found: &[u8], old: &[u8], new: &[u8]) -> bool {
    let pages = found
        .chunks(1024)
        .zip(old.chunks(1024).zip(new.chunks(1024)));
    found.len() == old.len() && { pages }.all(|(page, (old, new))| page == old || page == new)
}

/// Cuts everywhere with these tears; how many there were.
fn search(spare: u32, tears: &[(Tear, EraseTear)]) -> u64 {
    let key = key(32);
    let before = made(spare, &key);
    let mut cuts = 0;
    for (number, (program, erase)) in (0..).zip(tears) {
        for after in 0.. {
            let cut = Cut {
                after,
                program: *program,
                erase: *erase,
                seed: after * 31 + number,
            };
            let (chip, cut_in) = worked(before.clone(), &key, cut);
            if let Err(what) = verify(chip, &key, cut_in) {
                panic!("{spare} spare bytes, {cut:?}: {what}");
            }
            if cut_in.is_none() {
                break;
            }
            cuts += 1;
        }
    }
    cuts
}

#[test]
fn a_cut_anywhere_leaves_the_old_or_the_new() {
    let tears = [
        (Tear::Random, EraseTear::Mixed),
        (Tear::Complete, EraseTear::Complete),
        (Tear::LooksBlank, EraseTear::LooksErased),
        (Tear::UnstableMixed { reads: 2 }, EraseTear::Partial),
    ];
    // With tags and without.
    for spare in [24, 0] {
        let cuts = search(spare, &tears);
        assert!(cuts > 4 * 40, "{cuts}");
    }
}

/// Counts what is written.
fn is_refused(chip: SimNand, key: &[u8]) {
    let before = chip.counters();
    let mut page = [0; 1024];
    let mut nand = XtsNand::new(PowerCut::never(chip), key, &mut page).unwrap();
    let mut ram = vec![0; ram_needed(&nand.geometry())];
    let mounted = FlashLight::mount(&mut nand, &mut ram, Config::default()).map(drop);
    assert!(matches!(mounted, Err(Error::NotFormatted)), "{mounted:?}");
    let done = nand.inner().inner().counters() - before;
    assert_eq!((done.page_programs, done.block_erases), (0, 0));
}

#[test]
fn another_key_finds_no_volume_and_writes_nothing() {
    let mut other = key(32);
    for bit in [0, 100, 255] {
        other[bit / 8] ^= 1 << (bit % 8);
        is_refused(made(24, &key(32)), &other);
    }
    is_refused(made(24, &key(32)), &key(64));
}

/// Neither names nor contents are on the chip; and in the clear they would be found.
#[test]
fn nothing_of_the_files_can_be_read_off_the_chip() {
    let found = |mut chip: SimNand| {
        let geometry = chip.geometry();
        let (mut data, mut spare) = (vec![0; 1024], vec![0; 24]);
        (0..geometry.pages()).any(|page| {
            let status = chip.read(PageAddr(page), 0, &mut data, &mut spare).unwrap();
            let all: Vec<u8> = data.iter().chain(&spare).copied().collect();
            status != ReadStatus::Uncorrectable && all.windows(6).any(|w| w == b"secret")
        })
    };
    assert!(!found(made(24, &key(64))));
    let mut clear = SimNand::new(spec(24));
    clear.program(PageAddr(0), b"secret", &[]).unwrap();
    assert!(found(clear));
}
