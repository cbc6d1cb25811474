//! Directories that a volume lists in another, in itself, or twice: who lists all of it comes to an
//! end, and sees each directory once.

use std::collections::HashSet;

use flashkit_hostile::Guard;
use flashkit_hostile::edit;
use flashkit_hostile::image::{self, stored};
use flashkit_nand::Nand;
use flashkit_vfs::any::{self, AnyNand};
use flashkit_vfs::{FileKind, FileSystem};

/// Lists all directories from the root on, by the numbers that listings give. Whether one came
/// twice.
fn goes_round(image: &image::Image) -> bool {
    let mut guard = Guard::new(image);
    guard.allow("all", u64::MAX);
    let mut ram = image::ram(&guard.geometry());
    let Ok(mut fs) = any::mount(AnyNand::new(guard), &mut ram, image::config()) else {
        return false;
    };
    let (mut pending, mut seen) = (vec![fs.root()], HashSet::new());
    while let Some(dir) = pending.pop() {
        if !seen.insert(dir) {
            return true;
        }
        let _ = fs.readdir(dir, 0, &mut |entry| {
            if entry.kind == FileKind::Dir {
                pending.push(entry.ino);
            }
            true
        });
    }
    false
}

#[test]
fn no_directory_is_listed_in_a_circle_or_twice() {
    let mut changed = 0;
    for (name, image) in stored() {
        for page in 0..6 {
            for record in 0..6 {
                for number in 0..9 {
                    let mut edited = image.clone();
                    let point = [6, 7, page, record, 1, 16, number, 0, 0, 0];
                    edit::apply(&mut edited, &point);
                    changed += u32::from(edited.pages != image.pages);
                    assert!(!goes_round(&edited), "{name}: {point:?}");
                }
            }
        }
    }
    assert!(changed > 500, "{changed}");
}
