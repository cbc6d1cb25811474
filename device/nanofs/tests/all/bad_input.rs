//! Media that hold anything: an error that names it, never a panic, wrong data or a call that does
//! not end.
//!
//! A failure prints its seed; `NANOFS_SEED=n cargo test -p flashkit-nanofs bad_input`
//! replays it. `NANOFS_RUNS=n` runs more seeds.

use crate::common::{KEY, checked, content, formatted, mounted, read_all, used_card};
use flashkit_block::BlockDevice;
use flashkit_nanofs::{Error, NODE_DATA, NanoFs};
use flashkit_sim::{CARD_BLOCK, CardError, CardTiming, Rng, SimCard};
use flashkit_vfs::nanofs::check::{check, seal, seals};

/// A card that fails the test when a call does not come to an end.
struct Patient {
    card: SimCard,
    left: u32,
}

impl Patient {
    fn count(&mut self) {
        assert!(self.left > 0, "no end to it");
        self.left -= 1;
    }
}

impl BlockDevice for Patient {
    type Error = CardError;

    const TEARS: bool = true;

    fn sector_size(&self) -> u32 {
        CARD_BLOCK as u32
    }

    fn sector_count(&self) -> u32 {
        self.card.sector_count()
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), CardError> {
        self.count();
        self.card.read(first, buf)
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), CardError> {
        self.count();
        self.card.write(first, data)
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), CardError> {
        self.count();
        self.card.trim(first, count)
    }

    fn flush(&mut self) -> Result<(), CardError> {
        Ok(())
    }
}

/// Uses what is on a card in every way; no call may take more operations than any sound volume of
/// that size could ask for.
fn use_it<const N: usize>(card: SimCard) {
    let patience = 60 * card.sector_count() + 5_000;
    let mut fs: NanoFs<Patient, N> = NanoFs::new(Patient {
        card,
        left: patience,
    });
    macro_rules! call {
        ($e:expr) => {{
            fs.device().left = patience;
            $e
        }};
    }
    if call!(fs.mount(KEY)).is_err() {
        // Nothing is there then.
        assert!(fs.open(b"f0").is_err());
        return;
    }
    let mut cursor = 0;
    for _ in 0..20 {
        match call!(fs.next_file(cursor)) {
            Ok(0) | Err(_) => break,
            Ok(next) => cursor = next,
        }
        assert!(fs.entry().name.len() <= 64);
    }
    let mut data = vec![0; 30_000];
    for i in 0..4 {
        let Ok(file) = call!(fs.open(format!("f{i}").as_bytes())) else {
            continue;
        };
        let _ = call!(fs.read(file, &mut data));
        let _ = call!(fs.append(file, &data[..1_700]));
        let _ = call!(fs.seek(file, 1_234));
        let _ = call!(fs.write(file, &data[..900]));
        let _ = call!(fs.read(file, &mut data[..2_000]));
        let _ = call!(fs.truncate(file, 700));
        let _ = call!(fs.append(file, &data[..3_000]));
        let _ = call!(fs.close(file));
        let _ = call!(fs.clean(500));
    }
    let _ = call!(fs.rename(b"f2", b"g"));
    let _ = call!(fs.delete(b"f0"));
    if let Ok(file) = call!(fs.create(b"new")) {
        let _ = call!(fs.write(file, &data));
    }
    for _ in 0..20 {
        if !matches!(call!(fs.clean(500)), Ok(true)) {
            break;
        }
    }
    let _ = call!(fs.space_left());
    let _ = call!(fs.sync());
    let card = &fs.device().card;
    let _ = check(&mut |block| block_of(card, block));
}

fn block_of(card: &SimCard, block: u32) -> Option<[u8; CARD_BLOCK]> {
    let at = block as usize * CARD_BLOCK;
    card.bytes().get(at..at + CARD_BLOCK)?.try_into().ok()
}

fn env(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn for_seeds(default: u64, run: impl Fn(&mut Rng) + std::panic::RefUnwindSafe) {
    let seeds = match env("NANOFS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..env("NANOFS_RUNS").unwrap_or(default),
    };
    for seed in seeds {
        if std::panic::catch_unwind(|| run(&mut Rng::new(seed))).is_err() {
            panic!("NANOFS_SEED={seed}");
        }
    }
}

#[test]
fn random_media() {
    for_seeds(100, |rng| {
        let mut card = SimCard::new(40 + rng.below(300) as u32, CardTiming::default());
        card.bytes_mut().fill_with(|| rng.below(256) as u8);
        assert_eq!(
            NanoFs::<_>::new(card.clone()).mount(KEY),
            Err(Error::NotFormatted)
        );
        use_it::<3>(card);
    });
}

/// Blocks of random bytes in a volume, and blocks that cannot be read.
#[test]
fn damaged_blocks() {
    let used = used_card();
    for_seeds(300, |rng| {
        let mut card = used.clone();
        for _ in 0..1 + rng.below(4) {
            let block = pick(rng, &card);
            let at = block as usize * CARD_BLOCK;
            match rng.below(3) {
                0 => card.bytes_mut()[at..at + CARD_BLOCK].fill_with(|| rng.below(256) as u8),
                1 => card.bytes_mut()[at + rng.below(512) as usize] ^= 1 << rng.below(8),
                _ => card.spoil(block),
            }
        }
        use_it::<3>(card);
    });
}

/// A block that matters more often than one of many.
fn pick(rng: &mut Rng, card: &SimCard) -> u32 {
    let blocks = u64::from(card.sector_count());
    let most = if rng.one_in(2) { 30 } else { blocks };
    rng.below(most) as u32
}

/// Blocks with a check that is right, and contents that are not: loops, numbers out of range,
/// bitmaps that disagree.
#[test]
fn sealed_nonsense() {
    let used = used_card();
    for_seeds(600, |rng| {
        let mut card = used.clone();
        for _ in 0..1 + rng.below(3) {
            nonsense(rng, &mut card);
        }
        match rng.below(3) {
            0 => use_it::<3>(card),
            1 => use_it::<4>(card),
            _ => use_it::<6>(card),
        }
    });
}

/// Changes words of a block and seals it again.
fn nonsense(rng: &mut Rng, card: &mut SimCard) {
    let seals = seals(&mut |block| block_of(card, block));
    if seals.is_empty() {
        return;
    }
    let (block, init) = seals[rng.below(seals.len() as u64) as usize];
    let mut bytes = block_of(card, block).unwrap();
    for _ in 0..1 + rng.below(3) {
        let word = match rng.below(4) {
            0 => rng.below(3),
            1 => rng.below(24),
            _ => rng.below(128),
        } as usize;
        let value = match rng.below(6) {
            0 => 0,
            1 => u32::MAX,
            2 => 1 << rng.below(32),
            3 => rng.below(400) as u32,
            4 => rng.next_u64() as u32,
            _ => {
                u32::from_le_bytes(bytes[4 * word..][..4].try_into().unwrap()) ^ 1 << rng.below(32)
            }
        };
        bytes[4 * word..][..4].copy_from_slice(&value.to_le_bytes());
    }
    seal(&mut bytes, init);
    card.bytes_mut()[block as usize * CARD_BLOCK..][..CARD_BLOCK].copy_from_slice(&bytes);
}

/// Writes words into the block that holds a node, and seals it; gives the block.
fn change_node(card: &mut SimCard, file: &[u8], index: u32, words: &[(usize, u32)]) -> u32 {
    let seen = checked(card);
    let file = seen.files.iter().find(|f| f.name == file).unwrap();
    let (block, init) = file.seals[index as usize];
    let mut bytes = block_of(card, block).unwrap();
    for (word, value) in words {
        bytes[4 * word..][..4].copy_from_slice(&value.to_le_bytes());
    }
    seal(&mut bytes, init);
    card.bytes_mut()[block as usize * CARD_BLOCK..][..CARD_BLOCK].copy_from_slice(&bytes);
    block
}

/// A card with one closed file of 40 nodes.
fn one_file() -> (SimCard, Vec<u8>) {
    let mut fs: NanoFs<SimCard> = mounted(formatted(300, 6));
    let data = content(5, 0, 20_100);
    let file = fs.create(b"f").unwrap();
    fs.write(file, &data).unwrap();
    fs.close(file).unwrap();
    (fs.into_device(), data)
}

#[test]
fn a_loop_in_the_list() {
    let (card, data) = one_file();
    for (index, pointer, to) in [
        (20, 0, 20),
        (20, 0, 30),
        (20, 1, 25),
        (13, 2, 13),
        (13, 2, 5),
    ] {
        let mut card = card.clone();
        let seen = checked(&card);
        let target = seen.files[0].seals[to].0;
        change_node(&mut card, b"f", index, &[(pointer, target)]);
        let seen = checked(&card);
        assert!(!seen.findings.is_empty(), "{index} {pointer} {to}");
        let mut fs: NanoFs<Patient> = mounted(Patient { card, left: 10_000 });
        let file = fs.open(b"f").unwrap();
        let mut all = vec![0; data.len()];
        let mut failed = 0;
        for at in (0..data.len()).step_by(500) {
            fs.seek(file, at as u32).unwrap();
            let end = data.len().min(at + 500);
            match fs.read(file, &mut all[at..end]) {
                Ok(_) => assert!(all[at..end] == data[at..end], "{at}"),
                Err(e) => {
                    assert_eq!(e, Error::BadNode);
                    failed += 1;
                }
            }
        }
        assert!(failed < 40, "{index} {pointer} {to}");
        // Deleting it ends, too.
        fs.close(file).unwrap();
        fs.delete(b"f").unwrap();
        while fs.clean(1_000).unwrap() {}
    }
}

#[test]
fn a_damaged_node_is_an_error_and_no_data() {
    let (card, data) = one_file();
    let block = checked(&card).files[0].seals[7].0 as usize;
    for byte in [0, 1, 3, 11, 12, 300, 511] {
        for bit in 0..8 {
            let mut card = card.clone();
            card.bytes_mut()[block * CARD_BLOCK + byte] ^= 1 << bit;
            let mut fs: NanoFs<SimCard> = mounted(card);
            match read_all(&mut fs, "f") {
                // Bits of the check that tell of the epoch only.
                Ok(found) => assert!(found == data && byte == 3, "byte {byte}"),
                Err(e) => assert_eq!(e, Error::BadNode, "byte {byte}"),
            }
            let file = fs.open(b"f").unwrap();
            let mut part = [0; 4_000];
            assert_eq!(fs.read(file, &mut part[..3_500]), Ok(3_500));
            assert!(part[..3_500] == data[..3_500]);
            // The rest of the file is there, and it grows.
            fs.seek(file, 8_000).unwrap();
            assert_eq!(fs.read(file, &mut part), Ok(4_000));
            assert!(part == data[8_000..12_000]);
            fs.append(file, b"more").unwrap();
            fs.seek(file, 20_090).unwrap();
            assert_eq!(fs.read(file, &mut part), Ok(14));
            assert_eq!(&part[10..14], b"more");
        }
    }
}

#[test]
fn a_bitmap_that_disagrees() {
    let (card, _) = one_file();
    let seen = checked(&card);
    let data = seen.blocks - seen.data_blocks;
    let node = seen.files[0].seals[3].0 - data;
    for state in [0, 2] {
        let mut card = card.clone();
        for copy in 0..2 {
            // One block of the bitmap, its two copies before the data.
            let block = data - 2 + copy;
            let mut bytes = block_of(&card, block).unwrap();
            let Some(&(_, init)) = seals(&mut |b| block_of(&card, b))
                .iter()
                .find(|s| s.0 == block)
            else {
                continue;
            };
            let at = 12 + node as usize / 4;
            bytes[at] = bytes[at] & !(3 << (node % 4 * 2)) | state << (node % 4 * 2);
            seal(&mut bytes, init);
            card.bytes_mut()[block as usize * CARD_BLOCK..][..CARD_BLOCK].copy_from_slice(&bytes);
        }
        assert_eq!(checked(&card).findings.len(), 1, "state {state}");
        let mut fs: NanoFs<SimCard> = mounted(card);
        fs.delete(b"f").unwrap();
        let cleaned = fs.clean(10_000);
        match state {
            // A node that is called free may be another file's by now: nothing is given up.
            0 => assert_eq!(cleaned, Err(Error::BadBitmap)),
            _ => assert_eq!(cleaned, Ok(false)),
        }
    }
}

#[test]
fn a_card_smaller_than_the_volume() {
    let (card, _) = one_file();
    let mut smaller = SimCard::new(299, CardTiming::default());
    let n = smaller.bytes().len();
    smaller.bytes_mut().copy_from_slice(&card.bytes()[..n]);
    assert_eq!(
        NanoFs::<_>::new(smaller).mount(KEY),
        Err(Error::DeviceTooSmall)
    );
    let mut larger = SimCard::new(400, CardTiming::default());
    larger.bytes_mut()[..card.bytes().len()].copy_from_slice(card.bytes());
    let mut fs: NanoFs<SimCard> = mounted(larger);
    assert_eq!(read_all(&mut fs, "f").unwrap().len(), 20_100);
}

#[test]
fn other_keys_and_versions() {
    let (card, _) = one_file();
    assert_eq!(
        NanoFs::<_>::new(card.clone()).mount(KEY ^ 1),
        Err(Error::WrongKey)
    );
    let mut newer = card.clone();
    for (block, init) in seals(&mut |b| block_of(&card, b)) {
        let mut bytes = block_of(&card, block).unwrap();
        if bytes[68..72] == *b"NaFS" {
            bytes[72] += 1;
            seal(&mut bytes, init);
            newer.bytes_mut()[block as usize * CARD_BLOCK..][..CARD_BLOCK].copy_from_slice(&bytes);
        }
    }
    assert_eq!(NanoFs::<_>::new(newer).mount(KEY), Err(Error::Version));
    let blank = SimCard::new(300, CardTiming::default());
    assert_eq!(NanoFs::<_>::new(blank).mount(KEY), Err(Error::NotFormatted));
    let small = SimCard::new(20, CardTiming::default());
    assert_eq!(
        NanoFs::<_>::new(small).format(KEY, 6, 1),
        Err(Error::Geometry)
    );
    let many = SimCard::new(20_000, CardTiming::default());
    assert_eq!(
        NanoFs::<_>::new(many).format(KEY, 4_097, 1),
        Err(Error::Geometry)
    );
}

#[test]
fn a_full_card() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(100, 3));
    let (a, b) = (fs.create(b"a").unwrap(), fs.create(b"b").unwrap());
    let data = content(1, 0, 60_000);
    assert_eq!(fs.write(a, &data), Err(Error::Full));
    let written = fs.size(a).unwrap() as usize;
    assert_eq!(fs.position(a).unwrap() as usize, written);
    assert!(written > 40_000, "{written}");
    assert!(fs.space_left().unwrap() <= 500);
    // A file without nodes has its tail still.
    fs.append(b, &data[..500]).unwrap();
    assert_eq!(fs.append(b, b"x"), Err(Error::Full));
    fs.sync().unwrap();
    let mut fs: NanoFs<SimCard> = mounted(fs.into_device());
    assert!(read_all(&mut fs, "a").unwrap() == data[..written]);
    assert!(read_all(&mut fs, "b").unwrap() == data[..500]);
    fs.delete(b"a").unwrap();
    let b = fs.open(b"b").unwrap();
    fs.append(b, &data[..30_000]).unwrap();
    assert_eq!(fs.size(b), Ok(30_500));
}

/// A file that takes nearly all of the card is overwritten as a whole: each time that the blocks
/// for its new nodes are used up, cleaning makes room again.
#[test]
fn a_full_card_is_overwritten() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(300, 1));
    let file = fs.create(b"f").unwrap();
    let len = (fs.space_left().unwrap() - 30 * NODE_DATA) as usize;
    for version in 0..3 {
        fs.seek(file, 0).unwrap();
        fs.write(file, &content(version, 0, len)).unwrap();
    }
    assert!(read_all(&mut fs, "f").unwrap() == content(2, 0, len));
    fs.close(file).unwrap();
    let mut fs: NanoFs<SimCard> = mounted(fs.into_device());
    assert!(read_all(&mut fs, "f").unwrap() == content(2, 0, len));
}

/// A device that fails is an error, and a mount finds what was synced.
#[test]
fn a_device_that_fails() {
    struct Failing(SimCard, u32);
    impl Failing {
        fn count(&mut self) -> Result<(), CardError> {
            self.1 = self.1.saturating_sub(1);
            (self.1 > 0).then_some(()).ok_or(CardError::Range)
        }
    }
    impl BlockDevice for Failing {
        type Error = CardError;
        fn sector_size(&self) -> u32 {
            512
        }
        fn sector_count(&self) -> u32 {
            self.0.sector_count()
        }
        fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), CardError> {
            self.count()?;
            self.0.read(first, buf)
        }
        fn write(&mut self, first: u32, data: &[u8]) -> Result<(), CardError> {
            self.count()?;
            self.0.write(first, data)
        }
        fn flush(&mut self) -> Result<(), CardError> {
            self.count()?;
            self.0.flush()
        }
    }
    let (card, data) = one_file();
    for after in 1..200 {
        let mut fs: NanoFs<Failing> = NanoFs::new(Failing(card.clone(), after));
        let mut work = || -> Result<(), Error> {
            fs.mount(KEY)?;
            let f = fs.open(b"f")?;
            fs.append(f, &content(5, 20_100, 4_000))?;
            fs.seek(f, 100)?;
            fs.write(f, &data[100..3_000])?;
            fs.close(f)?;
            let g = fs.create(b"g")?;
            fs.close(g)?;
            fs.rename(b"g", b"h")?;
            fs.delete(b"h")?;
            fs.clean(1_000)?;
            fs.sync()
        };
        match work() {
            Ok(()) => return assert!(after > 50, "{after}"),
            Err(e) => assert_eq!(e, Error::Device, "operation {after}"),
        }
        assert_eq!(fs.device_error(), Some(&CardError::Range));
        let mut fs: NanoFs<SimCard> = mounted(fs.into_device().0);
        let found = read_all(&mut fs, "f").unwrap();
        assert!(found[..20_100] == data, "operation {after}");
    }
    panic!("it never came to an end");
}

/// A damaged node that was overwritten is its reader's error alone: the file is cleaned, shortened
/// and deleted like any other.
#[test]
fn a_damaged_node_that_was_overwritten_is_in_the_way_of_nothing() {
    let (card, data) = one_file();
    let mut fs: NanoFs<SimCard> = mounted(card);
    let file = fs.open(b"f").unwrap();
    fs.seek(file, 5 * NODE_DATA).unwrap();
    fs.write(file, &content(6, 0, 3 * NODE_DATA as usize))
        .unwrap();
    fs.close(file).unwrap();
    let mut card = fs.into_device();
    let block = checked(&card).files[0].seals[6].0 as usize;
    card.bytes_mut()[block * CARD_BLOCK + 300] ^= 4;
    let read_seventh = |fs: &mut NanoFs<SimCard>, file| {
        let mut node = [0; NODE_DATA as usize];
        fs.seek(file, 6 * NODE_DATA).unwrap();
        fs.read(file, &mut node)
    };

    // Cleaned: the node is neither its old self nor a sound one.
    let mut fs: NanoFs<SimCard> = mounted(card.clone());
    while fs.clean(u32::MAX).unwrap() {}
    let file = fs.open(b"f").unwrap();
    assert_eq!(read_seventh(&mut fs, file), Err(Error::BadNode));
    let mut rest = vec![0; 10_000];
    fs.seek(file, 7 * NODE_DATA).unwrap();
    fs.read(file, &mut rest[..500]).unwrap();
    assert!(rest[..500] == content(6, 1_000, 500));
    fs.seek(file, 8 * NODE_DATA).unwrap();
    fs.read(file, &mut rest).unwrap();
    assert!(rest == data[4_000..14_000]);
    // The way to the others is in it, so it is not written anew.
    fs.seek(file, 6 * NODE_DATA).unwrap();
    let written = fs.write(file, &content(7, 0, 500));
    assert_eq!(written, Err(Error::BadNode));
    fs.append(file, b"more").unwrap();
    fs.close(file).unwrap();

    let mut fs: NanoFs<SimCard> = mounted(card.clone());
    let file = fs.open(b"f").unwrap();
    fs.truncate(file, 10_000).unwrap();
    assert_eq!(read_seventh(&mut fs, file), Err(Error::BadNode));
    fs.close(file).unwrap();

    let mut fs: NanoFs<SimCard> = mounted(card);
    fs.delete(b"f").unwrap();
    while fs.clean(u32::MAX).unwrap() {}
    assert_eq!(fs.open(b"f"), Err(Error::NotFound));
}

/// A volume that did not mount is not written: the header of a new file would go where block 0 is,
/// and the others be gone at the next mount.
#[test]
fn what_did_not_mount_is_not_written() {
    let card = used_card();
    let mut damaged = card.clone();
    damaged.bytes_mut()[CARD_BLOCK..3 * CARD_BLOCK].fill(0);
    let blank = SimCard::new(300, CardTiming::default());
    for (card, key, why) in [
        (&card, KEY ^ 1, Error::WrongKey),
        (&damaged, KEY, Error::BadHeader),
        (&blank, KEY, Error::NotFormatted),
    ] {
        for tried in [false, true] {
            let mut fs: NanoFs<SimCard> = NanoFs::new(card.clone());
            if tried {
                assert_eq!(fs.mount(key), Err(why));
            }
            let none = Error::NotFormatted;
            assert_eq!(fs.create(b"new"), Err(none), "{why:?}");
            assert_eq!(fs.open(b"f0"), Err(none), "{why:?}");
            assert_eq!(fs.rename(b"f0", b"f9"), Err(none), "{why:?}");
            assert_eq!(fs.delete(b"f0"), Err(none), "{why:?}");
            assert_eq!(fs.clean(u32::MAX), Err(none), "{why:?}");
            assert_eq!(fs.next_file(0), Err(none), "{why:?}");
            fs.sync().unwrap();
            assert!(fs.device_ref().bytes() == card.bytes(), "{why:?}");
        }
    }
}
