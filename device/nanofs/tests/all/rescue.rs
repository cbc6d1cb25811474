//! Cards with damaged headers, bitmaps and metadata blocks: what is lost is what was damaged.

use flashkit_nanofs::{Error, NODE_DATA, NanoFs};
use flashkit_sim::{CARD_BLOCK, CardLog, SimCard};

use crate::common::{
    KEY, assert_sound, checked, content, formatted, mounted, read_all, read_tree, used_card,
};

/// Slots of a volume for 6 files; block 0 is before them.
const SLOTS: std::ops::Range<u32> = 1..8;
/// The blocks of its bitmap.
const BITMAP: [u32; 2] = [20, 21];

fn spoiled(mut card: SimCard, blocks: &[u32]) -> SimCard {
    for &block in blocks {
        let at = block as usize * CARD_BLOCK;
        for byte in &mut card.bytes_mut()[at..at + CARD_BLOCK] {
            *byte ^= 0x3c;
        }
    }
    card
}

/// Mounts what is damaged, and makes it whole; how many files were lost.
fn mended(card: SimCard, what: &str) -> (NanoFs<SimCard>, u32) {
    let mut fs: NanoFs<SimCard> = NanoFs::new(card);
    let lost = fs
        .mount_damaged(KEY)
        .unwrap_or_else(|e| panic!("{what}: {e}"));
    let wrong = checked(fs.device_ref()).wrong;
    fs.mend(&wrong).unwrap();
    assert_sound(fs.device_ref(), what);
    (fs, lost)
}

/// The files of a card, which go on with one more.
fn go_on(fs: &mut NanoFs<SimCard>, what: &str) {
    while fs.clean(u32::MAX).unwrap() {}
    let more = fs.create(b"more").unwrap();
    let data = content(9, 0, 30_000);
    fs.append(more, &data).unwrap();
    fs.close(more).unwrap();
    assert_eq!(read_all(fs, "more").as_ref(), Ok(&data), "{what}");
    assert_sound(fs.device_ref(), what);
}

/// One slot after the other, and two at a time: the files of the others are there.
#[test]
fn a_damaged_header_costs_its_file_alone() {
    let card = used_card();
    let whole = read_tree(&mut mounted::<_, 3>(card.clone())).unwrap();
    let (mut refused, mut most) = (0, 0);
    for one in SLOTS {
        for two in SLOTS {
            let what = format!("slots {one} and {two}");
            let mut blocks = vec![one, two];
            blocks.dedup();
            let card = spoiled(card.clone(), &blocks);
            let mut fs: NanoFs<SimCard> = NanoFs::new(card.clone());
            match fs.mount(KEY) {
                Ok(()) => continue,
                Err(e) => assert_eq!(e, Error::BadHeader, "{what}"),
            }
            refused += 1;
            let (mut fs, lost) = mended(card, &what);
            assert!((1..=2).contains(&lost), "{what}: {lost}");
            most = most.max(lost);
            let tree = read_tree(&mut fs).unwrap();
            assert!(tree.len() + lost as usize >= whole.len(), "{what}");
            for (name, data) in &tree {
                assert_eq!(whole.get(name), Some(data), "{what}");
            }
            let mut fs: NanoFs<SimCard> = mounted(fs.into_device());
            assert_eq!(read_tree(&mut fs).as_ref(), Ok(&tree), "{what}");
            go_on(&mut fs, &what);
        }
    }
    assert!(refused > 20 && most == 2, "{refused}, {most}");
}

/// Block 0, the bitmap, and these with headers.
#[test]
fn what_only_describes_the_files_is_made_anew() {
    let card = used_card();
    let whole = read_tree(&mut mounted::<_, 3>(card.clone())).unwrap();
    let [first, second] = BITMAP;
    // Of one of two blocks of the bitmap the older one is left, which knows less.
    for blocks in [&[0][..], &[first], &[second], &BITMAP, &[0, first, second]] {
        let (mut fs, lost) = mended(spoiled(card.clone(), blocks), &format!("{blocks:?}"));
        assert_eq!(lost, 0);
        assert_eq!(read_tree(&mut fs).as_ref(), Ok(&whole), "{blocks:?}");
        let mut fs: NanoFs<SimCard> = mounted(fs.into_device());
        go_on(&mut fs, &format!("{blocks:?}"));
    }
}

/// The mending is cut at any of its writes, and done once more: the files that are not damaged are
/// there.
#[test]
fn the_mending_may_be_cut() {
    let card = used_card();
    let whole = read_tree(&mut mounted::<_, 3>(card.clone())).unwrap();
    for slot in SLOTS {
        let damaged = spoiled(card.clone(), &[slot, BITMAP[0], BITMAP[1]]);
        let log = CardLog::new(damaged);
        let mut fs: NanoFs<_> = NanoFs::new(log);
        fs.mount_damaged(KEY).unwrap();
        let wrong = checked(fs.device_ref().card()).wrong;
        fs.mend(&wrong).unwrap();
        let log = fs.into_device();
        for at in (0..log.len()).filter(|&at| log.can_cut(at)) {
            for cut in crate::powercut::CUTS {
                let what = format!("slot {slot}, {}, {cut:?}", log.describe(at));
                let (mut fs, _) = mended(log.after(at, cut), &what);
                let tree = read_tree(&mut fs).unwrap();
                assert!(tree.len() + 1 >= whole.len(), "{what}");
                for (name, data) in &tree {
                    assert_eq!(whole.get(name), Some(data), "{what}");
                }
            }
        }
    }
}

/// Which nodes of a file can be read, and what they hold.
fn nodes(fs: &mut NanoFs<SimCard>, name: &str) -> Vec<Option<Vec<u8>>> {
    let file = fs.open(name.as_bytes()).unwrap();
    let size = fs.size(file).unwrap();
    let node = |at: u32| {
        let mut data = vec![0; NODE_DATA as usize];
        fs.seek(file, at).unwrap();
        fs.read(file, &mut data).is_ok().then_some(data)
    };
    let found = (0..size).step_by(NODE_DATA as usize).map(node).collect();
    fs.close(file).unwrap();
    found
}

/// Beyond a damaged node a check knows nothing of a file: its blocks stay its own.
#[test]
fn what_is_behind_a_damaged_node_is_kept() {
    let card = used_card();
    let files = checked(mounted::<_, 3>(card.clone()).device_ref()).files;
    let file = files.iter().find(|f| f.name == b"f0").unwrap();
    for &(block, _) in &file.seals {
        let what = format!("block {block}");
        let card = spoiled(card.clone(), &[0, block]);
        let before = nodes(&mut mounted(card.clone()), "f0");
        assert!(before.contains(&None), "{what}");
        let mut fs: NanoFs<SimCard> = NanoFs::new(card);
        assert_eq!(fs.mount_damaged(KEY), Ok(0));
        let wrong = checked(fs.device_ref()).wrong;
        assert_eq!(wrong, [], "{what}");
        fs.mend(&wrong).unwrap();
        while fs.clean(u32::MAX).unwrap() {}
        let more = fs.create(b"more").unwrap();
        fs.append(more, &content(9, 0, 30_000)).unwrap();
        fs.close(more).unwrap();
        assert_eq!(nodes(&mut fs, "f0"), before, "{what}");
    }
}

#[test]
fn what_is_no_volume_stays_none() {
    let mut card = formatted(300, 6);
    let wrong_key = NanoFs::<SimCard>::new(card.clone()).mount_damaged(KEY ^ 1);
    assert_eq!(wrong_key, Err(Error::WrongKey));
    card.bytes_mut().fill(0);
    let mut fs: NanoFs<SimCard> = NanoFs::new(card);
    assert_eq!(fs.mount_damaged(KEY), Err(Error::BadHeader));
    assert_eq!(fs.open(b"f0"), Err(Error::NotFormatted));
}
