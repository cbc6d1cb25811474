//! Deferred changes of directories are nobody's only copy of what a volume needs room for: where
//! they may lie, and how many there may be, follows from what a mount and a checkpoint can do.

use crate::common::{Fs, LATER, clean, on_preset, try_unmount};
use flashkit_vfs::{FileSystem, Ino, NewInode, SetAttr};

fn change(fs: &mut Fs, file: Ino) -> flashkit_vfs::Result<()> {
    let set = SetAttr {
        mode: Some(0o600),
        now: LATER,
        ..SetAttr::default()
    };
    fs.setattr(file, &set)?;
    fs.fsync(file)
}

/// Some directories with a file each; the numbers up to the last of the map's first page are taken,
/// and the last ones free again; `changes` in some directories; then the first directory of the
/// map's second page.
fn crossed(changes: usize) -> (Fs, Vec<Ino>) {
    let mut fs = on_preset("slc-256m");
    let (root, new) = (fs.root(), NewInode::default());
    let (mut files, mut last) = (Vec::new(), 0);
    for d in 0.. {
        last = fs
            .mkdir(root, format!("d{d}").as_bytes(), &new)
            .unwrap()
            .ino;
        if d < 20 {
            let ino = fs.create(last, b"f", &new).unwrap().ino;
            fs.fsync(ino).unwrap();
            files.push(ino);
        }
        if last >= 120 {
            break;
        }
    }
    fs.sync().unwrap();
    let mut made = 0;
    while last < 503 {
        last = fs
            .mkdir(root, format!("x{made}").as_bytes(), &new)
            .unwrap()
            .ino;
        made += 1;
    }
    for n in made - 40..made {
        fs.rmdir(root, format!("x{n}").as_bytes(), LATER).unwrap();
    }
    for n in 0..changes {
        change(&mut fs, files[n * 7 % 20]).unwrap();
    }
    let next = fs.mkdir(root, b"next", &new).unwrap().ino;
    assert_eq!(next, 504, "no checkpoint came in between");
    (fs, files)
}

/// Changes that lie in the page of the map keep all other pages of it out of RAM. A volume whose
/// map got its second page in the same call could not be synced, unmounted or changed any more.
#[test]
fn the_maps_second_page_comes_before_changes_that_would_keep_it_out() {
    for changes in 0..12 {
        let (mut fs, _) = crossed(changes);
        fs.sync().unwrap();
        clean(&mut fs);
        let (fs, _) = crossed(changes);
        try_unmount(fs).unwrap();
        let (mut fs, files) = crossed(changes);
        for n in 0..600 {
            change(&mut fs, files[n % 20]).unwrap();
        }
        clean(&mut fs);
    }
}
