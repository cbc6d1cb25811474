//! More directories than the places in a checkpoint lead to.
//!
//! `FLASHKIT_DIRS_FULL=1` makes 262,144 of them on `slc-8g`.

use crate::common::{
    Fs, NOW, chip, clean, cut, formatted, map_pages, mount, on_preset, remount, try_unmount,
};
use flashkit_nand::PageAddr;
use flashkit_sim::{Rot, SimNand};
use flashkit_vfs::check::check;
use flashkit_vfs::{FileSystem, Ino, NewInode};

/// Directories below each of those in the root.
const BELOW: u32 = 200;

/// Makes directories up to so many; the numbers of those below the root.
fn fill(fs: &mut Fs, count: u32) -> Vec<Ino> {
    let (root, new) = (fs.root(), NewInode::default());
    let mut above = Vec::new();
    // Number 0 is not used; the root and the index directory have the next.
    let mut made = 3;
    while made < count {
        let name = format!("d{}", above.len());
        let dir = fs.mkdir(root, name.as_bytes(), &new).unwrap().ino;
        above.push(dir);
        made += 1;
        for i in 0..BELOW.min(count - made) {
            fs.mkdir(dir, format!("{i}").as_bytes(), &new).unwrap();
            made += 1;
        }
    }
    above
}

/// Every directory is found under its name, and no two have one number.
fn all_there(fs: &mut Fs, above: &[Ino], count: u32) {
    let (mut seen, root) = (std::collections::HashSet::new(), fs.root());
    for (n, dir) in above.iter().enumerate() {
        let found = fs.lookup(root, format!("d{n}").as_bytes()).unwrap();
        assert_eq!(found.ino, *dir);
        assert!(seen.insert(*dir));
        let mut names = Vec::new();
        fs.readdir(*dir, 0, &mut |entry| {
            names.push((entry.ino, entry.name));
            true
        })
        .unwrap();
        for (ino, name) in names {
            assert!(seen.insert(ino), "{ino}");
            assert_eq!(fs.lookup(*dir, &name).unwrap().ino, ino);
        }
    }
    assert_eq!(seen.len() as u32 + 3, count);
}

#[test]
fn the_map_becomes_wide() {
    // At pages of 1 KiB the places in a checkpoint lead to 64 pages of 248 directories.
    let narrow = 64 * 248;
    let mut fs = formatted(chip(1024, 24, 64, 420));
    let above = fill(&mut fs, narrow);
    clean(&mut fs);
    let mut fs = remount(fs);
    let (root, new) = (fs.root(), NewInode::default());
    let first = fs.mkdir(root, b"first", &new).unwrap().ino;
    assert_eq!(first, u64::from(narrow));
    // No checkpoint since: a recovery makes the map wide.
    let mut fs = cut(fs);
    assert_eq!(fs.lookup(root, b"first").unwrap().ino, first);
    clean(&mut fs);
    fs.rmdir(root, b"first", NOW).unwrap();
    for i in 0..300 {
        fs.mkdir(root, format!("more {i}").as_bytes(), &new)
            .unwrap();
    }
    fs.sync().unwrap();
    let mut fs = remount(cut(fs));
    let last = fs.lookup(root, b"more 299").unwrap().ino;
    assert!(last >= u64::from(narrow) + 299, "{last}");
    clean(&mut fs);
    // Each copy of the page of places will do.
    let places = places_of(&mut fs);
    assert_eq!(places.len(), 2);
    let chip = try_unmount(fs).unwrap();
    for page in &places {
        let mut damaged = chip.clone();
        assert!(damaged.rot(*page, Rot::Lost).unwrap());
        let mut fs = mount(damaged);
        assert_eq!(fs.lookup(root, b"more 299").unwrap().ino, last);
        assert_eq!(check(fs.volume()).unwrap().findings.len(), 1);
        fs.mkdir(root, b"another", &new).unwrap();
        let mut fs = remount(fs);
        // Both are written with the next change there.
        clean(&mut fs);
    }
    // Without both, what they lead to is lost, and nothing else.
    let mut damaged = chip.clone();
    for page in &places {
        assert!(damaged.rot(*page, Rot::Lost).unwrap());
    }
    let mut fs = mount(damaged);
    assert!(fs.lookup(root, b"more 299").is_err());
    assert_eq!(fs.lookup(root, b"d0").unwrap().ino, above[0]);
    assert!(!check(fs.volume()).unwrap().findings.is_empty());
    // Numbers that are given back are given again.
    let mut fs = mount(chip);
    for i in 0..300 {
        fs.rmdir(root, format!("more {i}").as_bytes(), NOW).unwrap();
    }
    all_there(&mut fs, &above, narrow);
    clean(&mut fs);
    while fs.volume().gc(1000).unwrap() {}
    clean(&mut remount(fs));
}

/// Pages of the map beyond those that a checkpoint leads to, and of places of such.
fn places_of(fs: &mut Fs) -> Vec<PageAddr> {
    let mut maps = map_pages(fs);
    let geometry = flashkit_nand::Nand::geometry(fs.volume().nand());
    let mut page = vec![0; geometry.page_size() as usize];
    let mut nand = fs.volume().nand().get::<SimNand>().clone();
    maps.retain(|at| {
        flashkit_nand::Nand::read(&mut nand, *at, 0, &mut page, &mut []).unwrap();
        page[6] == flashkit_flashlight::Kind::Places as u8
    });
    maps
}

#[test]
fn a_quarter_of_a_million() {
    if std::env::var_os("FLASHKIT_DIRS_FULL").is_none() {
        println!("only with FLASHKIT_DIRS_FULL=1");
        return;
    }
    let mut fs = on_preset("slc-8g");
    let count = 262_144;
    let above = fill(&mut fs, count);
    let mut fs = remount(fs);
    all_there(&mut fs, &above, count);
    clean(&mut fs);
    let cost = fs.volume().nand();
    println!("{:?}", flashkit_sim::Metered::counters(cost));
}
