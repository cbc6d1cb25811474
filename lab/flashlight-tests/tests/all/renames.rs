//! What a rename between two directories costs, when neither they nor the index directory are in
//! RAM before it.

use crate::common::{Fs, NOW, clean, cost, file, of_paper};
use flashkit_vfs::{FileSystem, Ino, NewInode};

const DIRS: usize = 8;

/// Directories that do not all have a place in RAM, with a file each.
fn dirs(fs: &mut Fs, size: usize) -> Vec<Ino> {
    let root = fs.root();
    let make = |i: usize| {
        let name = format!("d{i}");
        let dir = fs
            .mkdir(root, name.as_bytes(), &NewInode::default())
            .unwrap();
        file(fs, dir.ino, b"f0", size);
        dir.ino
    };
    let dirs = (0..DIRS).map(make).collect();
    fs.sync().unwrap();
    dirs
}

/// Reads and programs of a rename of each file, in four rounds.
fn rounds(size: usize) -> [(u64, u64); 4] {
    let mut fs = of_paper();
    let dirs = dirs(&mut fs, size);
    file(&mut fs, dirs[0], b"first of the session", 1);
    let costs = [0, 1, 2, 3].map(|round| {
        let (from, to) = (format!("f{round}"), format!("f{}", round + 1));
        let (from, to) = (from.as_bytes(), to.as_bytes());
        cost(&mut fs, |fs| {
            for i in 0..DIRS {
                fs.rename(dirs[i], from, dirs[(i + 3) % DIRS], to, false, NOW)
                    .unwrap();
            }
        })
    });
    clean(&mut fs);
    costs
}

/// The two directories and the file. The index directory is read once to see what room it has.
#[test]
fn each_directory_is_read_once() {
    assert_eq!(rounds(100), [(26, 8), (24, 8), (24, 8), (24, 8)]);
}

/// A file with data pages comes into the index directory, which pushes one of the two out. From
/// then on it is found by that directory.
#[test]
fn the_index_directory_is_read_for_files_with_pages() {
    assert_eq!(rounds(5_000), [(42, 8), (64, 8), (64, 8), (64, 8)]);
}
