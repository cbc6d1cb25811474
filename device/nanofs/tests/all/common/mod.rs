//! What the tests share: contents, a reference, and the check of a card.

use std::collections::BTreeMap;

use flashkit_block::BlockDevice;
use flashkit_nanofs::{Error, Handle, NanoFs};
use flashkit_sim::{CARD_BLOCK, CardTiming, Rng, SimCard};
use flashkit_vfs::nanofs::check::{Checked, check};

pub const KEY: u32 = 0x1234_5678;

/// A card with an empty volume.
pub fn formatted(blocks: u32, files: u32) -> SimCard {
    let mut fs: NanoFs<SimCard> = NanoFs::new(SimCard::new(blocks, CardTiming::default()));
    fs.format(KEY, files, 7).unwrap();
    let mut card = fs.into_device();
    card.clear_counters();
    card
}

/// Mounts what is on a device.
pub fn mounted<D: BlockDevice, const N: usize>(dev: D) -> NanoFs<D, N> {
    let mut fs = NanoFs::new(dev);
    fs.mount(KEY).unwrap();
    fs
}

/// A card with files of every kind: with copies, with trash, deleted, open when power failed.
pub fn used_card() -> SimCard {
    let mut fs: NanoFs<SimCard> = mounted(formatted(300, 6));
    let mut left_open = Handle(0);
    for (i, len) in [20_000, 9_300, 500, 4_444].into_iter().enumerate() {
        let file = fs.create(format!("f{i}").as_bytes()).unwrap();
        fs.write(file, &content(i as u32, 0, len)).unwrap();
        match i {
            1 => left_open = file,
            _ => fs.close(file).unwrap(),
        }
    }
    fs.delete(b"f3").unwrap();
    let file = fs.open(b"f0").unwrap();
    fs.seek(file, 3_000).unwrap();
    fs.write(file, &content(0, 3_000, 2_000)).unwrap();
    fs.truncate(file, 15_100).unwrap();
    fs.seek(file, 7_000).unwrap();
    fs.write(file, &content(0, 7_000, 2_000)).unwrap();
    fs.close(file).unwrap();
    fs.append(left_open, &content(1, 9_300, 2_345)).unwrap();
    fs.sync().unwrap();
    fs.into_device()
}

/// Bytes that tell their file, place and version.
pub fn content(tag: u32, from: usize, len: usize) -> Vec<u8> {
    (from..from + len)
        .map(|i| {
            let mixed = (tag.wrapping_mul(0x9e37_79b1) ^ i as u32).wrapping_mul(0x85eb_ca77);
            (mixed >> 24) as u8
        })
        .collect()
}

/// The whole of a file.
pub fn read_all<D: BlockDevice, const N: usize>(
    fs: &mut NanoFs<D, N>,
    name: &str,
) -> Result<Vec<u8>, Error> {
    let file = fs.open(name.as_bytes())?;
    let size = fs.size(file)? as usize;
    let mut data = vec![0; size + 10];
    let n = fs.read(file, &mut data)?;
    assert_eq!(n as usize, size, "{name}: read less than the size");
    data.truncate(size);
    fs.close(file)?;
    Ok(data)
}

/// All files, by name.
pub fn read_tree<D: BlockDevice, const N: usize>(
    fs: &mut NanoFs<D, N>,
) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let mut names = Vec::new();
    let mut cursor = 0;
    loop {
        cursor = fs.next_file(cursor)?;
        if cursor == 0 {
            break;
        }
        let entry = fs.entry();
        names.push((String::from_utf8(entry.name.to_vec()).unwrap(), entry.size));
    }
    let mut tree = BTreeMap::new();
    for (name, size) in names {
        let data = read_all(fs, &name)?;
        assert_eq!(data.len(), size as usize, "{name}: the listing's size");
        assert!(
            tree.insert(name.clone(), data).is_none(),
            "{name} is there twice"
        );
    }
    Ok(tree)
}

/// Checks every block of a card that was mounted and closed.
pub fn checked(card: &SimCard) -> Checked {
    check(&mut |block| {
        let bytes = card
            .bytes()
            .get(block as usize * CARD_BLOCK..)?
            .get(..CARD_BLOCK)?;
        bytes.try_into().ok()
    })
    .unwrap()
}

/// Fails unless a card is as it must be.
pub fn assert_sound(card: &SimCard, what: &str) -> Checked {
    let seen = checked(card);
    assert!(seen.findings.is_empty(), "{what}: {:#?}", seen.findings);
    seen
}

/// A length that shows what happens around nodes.
pub fn some_len(rng: &mut Rng, max: u64) -> usize {
    let len = match rng.below(6) {
        0 => rng.below(20),
        1 => 490 + rng.below(20),
        2 => 500 * rng.below(6),
        3 => rng.below(500),
        _ => rng.below(max),
    };
    len.min(max) as usize
}
