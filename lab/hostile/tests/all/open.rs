//! Blocks that a checkpoint calls open or erased, and that are not: nothing is programmed there.

use flashkit_flashlight::Config;
use flashkit_hostile::image::{self, Image, Page, stored};
use flashkit_hostile::{Guard, seal};
use flashkit_nand::Nand;
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::{FileSystem, NewInode, SetXattr, Time};

/// Puts something behind what is in a block, or in one that is `erased`, as if it had been written
/// since the checkpoint; whether there is such a place.
fn write_behind(image: &mut Image, block: u32, erased: bool) -> bool {
    let geo = image.geometry;
    let next = image.attempted(block);
    if erased != (next == 0) || next == geo.pages_per_block() {
        return false;
    }
    let data = vec![0x5a; geo.page_size() as usize];
    let mut spare = vec![0xff; geo.spare_size() as usize];
    seal::seal_data(&data, &mut spare);
    image.pages[(block * geo.pages_per_block() + next) as usize] = Page::Written(data, spare);
    true
}

/// Changes of every kind, and an unmount. What they come to is another question.
fn change(image: &Image) {
    let mut guard = Guard::new(image).strict();
    guard.allow("all", u64::MAX);
    let mut ram = image::ram(&guard.geometry());
    let config = Config {
        wear_interval: 7,
        ..image::config()
    };
    let Ok(mut fs) = any::mount(AnyNand::new(guard), &mut ram, config) else {
        return;
    };
    let (root, new, now) = (fs.root(), NewInode::default(), Time::default());
    for n in 0..12u8 {
        let Ok(dir) = fs.mkdir(root, format!("dir {n}").as_bytes(), &new) else {
            break;
        };
        let Ok(file) = fs.create(dir.ino, b"file", &new) else {
            break;
        };
        for len in [100, 5_000, 30_000] {
            let _ = fs.write(file.ino, u64::from(n) * 400, &vec![n; len], now);
            let _ = fs.fsync(file.ino);
        }
        let _ = fs.set_xattr(file.ino, b"user.a", &[n; 200], SetXattr::Any, now);
        let _ = (fs.sync(), fs.gc(50));
        if n % 3 == 0 {
            let _ = fs.unlink(dir.ino, b"file", now);
        }
    }
    drop(fs.into_volume().unmount());
}

/// In all blocks, and in one alone. Returns in how many.
fn forge(erased: bool) -> u32 {
    let mut forged_blocks = 0;
    for (name, image) in stored() {
        if matches!(
            *name,
            "clean" | "bare" | "hash" | "extents" | "wide" | "table"
        ) {
            let mut all = image.clone();
            for block in 0..image.geometry.blocks() {
                write_behind(&mut all, block, erased);
                let mut forged = image.clone();
                if write_behind(&mut forged, block, erased) {
                    change(&forged);
                    forged_blocks += 1;
                }
            }
            change(&all);
        }
    }
    forged_blocks
}

#[test]
fn what_is_behind_an_open_block_is_not_written_over() {
    assert!(forge(false) > 50);
}

#[test]
fn what_is_in_a_block_that_is_called_erased_is_not_written_over() {
    assert!(forge(true) > 50);
}
