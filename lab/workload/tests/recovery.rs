//! What a mount costs after a power cut, at most.

mod common;

use common::{Fs, NOW, file, of_paper, reads_after_cut};
use flashkit_sim::Rng;
use flashkit_vfs::{FileSystem, NewInode};

/// A directory with so many small files.
fn directory(files: u64) -> Fs {
    let mut fs = of_paper();
    let root = fs.root();
    for n in 0..files {
        let (name, new) = (n.to_string(), NewInode::default());
        let ino = fs.create(root, name.as_bytes(), &new).unwrap().ino;
        fs.write(ino, 0, &[7; 700], NOW).unwrap();
    }
    fs.sync().unwrap();
    fs
}

/// The most reads of a mount while changes are made to files at random, if the power goes then.
fn most_reads(files: u64, change: impl Fn(&mut Fs, &[u8], u64)) -> u64 {
    let mut fs = directory(files);
    let (mut rng, mut most) = (Rng::new(1), 0);
    for n in 0..1_200 {
        let name = rng.below(files).to_string();
        if fs.lookup(fs.root(), name.as_bytes()).is_ok() {
            change(&mut fs, name.as_bytes(), n);
        }
        if n % 24 == 23 {
            most = most.max(reads_after_cut(&mut fs));
        }
    }
    most
}

fn rewrite(fs: &mut Fs, name: &[u8], n: u64) {
    let ino = fs.lookup(fs.root(), name).unwrap().ino;
    fs.write(ino, 0, &[n as u8; 300], NOW).unwrap();
    fs.fsync(ino).unwrap();
}

fn rename(fs: &mut Fs, name: &[u8], n: u64) {
    let (root, to) = (fs.root(), format!("to {n}"));
    fs.rename(root, name, root, to.as_bytes(), false, NOW)
        .unwrap();
}

fn replace(fs: &mut Fs, name: &[u8], n: u64) {
    let root = fs.root();
    fs.unlink(root, name, NOW).unwrap();
    file(fs, root, format!("new {n}").as_bytes(), 300);
}

/// 5,000 names are in hash maps, 30,000 in hash maps under index pages.
#[test]
fn a_mount_after_changes_in_a_large_directory_reads_2_500_pages_at_most() {
    let reads = [5_000, 30_000]
        .map(|files| [rewrite, rename, replace].map(|change| most_reads(files, change)));
    assert_eq!(reads, [[1_789, 2_100, 1_404], [2_032, 2_347, 1_672]]);
    assert!(reads.iter().flatten().all(|&n| n <= 2_500));
}
