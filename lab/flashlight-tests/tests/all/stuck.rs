//! Volumes that the build of commit b2b233b has left after sessions of writes and removals, each
//! cut, and mounts for writing no more: the recoveries have taken their last free blocks. They
//! mount, and what is removed gives its room back.
//!
//! The names say page size, spare bytes, pages of a block, blocks, directories and the seed.

use crate::common::{Fs, LATER, clean, mount, try_mount, try_unmount};
use flashkit_flashlight::Config;
use flashkit_sim::{Access, SimNand};
use flashkit_vfs::{FileKind, FileSystem, Ino, NewInode};
use std::io::Read;

const STUCK: [(&str, &[u8]); 5] = [
    (
        "1024-64-16-64-4-10",
        include_bytes!("stuck/1024-64-16-64-4-10.img.gz"),
    ),
    (
        "1024-64-16-64-4-24",
        include_bytes!("stuck/1024-64-16-64-4-24.img.gz"),
    ),
    (
        "1024-64-8-64-1-105",
        include_bytes!("stuck/1024-64-8-64-1-105.img.gz"),
    ),
    (
        "1024-64-8-64-6-141",
        include_bytes!("stuck/1024-64-8-64-6-141.img.gz"),
    ),
    (
        "2048-64-8-70-6-105",
        include_bytes!("stuck/2048-64-8-70-6-105.img.gz"),
    ),
];

fn image(gz: &[u8]) -> SimNand {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(gz)
        .read_to_end(&mut bytes)
        .unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    SimNand::open(file.path(), Access::ReadOnlyCow).unwrap()
}

/// All files: directory, name and bytes.
fn files(fs: &mut Fs) -> Vec<(Ino, Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![fs.root()];
    while let Some(dir) = dirs.pop() {
        let mut names = Vec::new();
        fs.readdir(dir, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.ino, entry.kind));
            true
        })
        .unwrap();
        for (name, ino, kind) in names {
            match kind {
                FileKind::Dir => dirs.push(ino),
                _ => {
                    let file = fs.lookup(dir, &name).unwrap();
                    let mut bytes = vec![0; file.size as usize];
                    fs.read(file.ino, 0, &mut bytes).unwrap();
                    found.push((dir, name, bytes));
                }
            }
        }
    }
    found
}

#[test]
fn volumes_that_could_not_be_mounted_any_more_mount_and_give_room_back() {
    for (name, gz) in STUCK {
        let reading = Config {
            read_only: true,
            ..Config::default()
        };
        let held = files(&mut try_mount(image(gz), reading).unwrap());
        assert!(held.len() > 40, "{name}: {} files", held.len());
        let mut fs =
            try_mount(image(gz), Config::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        clean(&mut fs);
        assert!(files(&mut fs) == held, "{name}: other files");
        for (dir, file, _) in held {
            fs.unlink(dir, &file, LATER)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
        }
        let root = fs.root();
        fs.create(root, b"new", &NewInode::default())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let all = fs.statfs().unwrap();
        let (free, of) = (all.blocks_free, all.blocks);
        assert!(free * 20 > of * 19, "{name}: {free} of {of} pages free");
        clean(&mut mount(try_unmount(fs).unwrap()));
    }
}
