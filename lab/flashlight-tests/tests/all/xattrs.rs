//! Extended attributes of FlashLight: what they cost in flash operations,
//! exactly, and their limits.

use crate::common::{Fs, LATER, NOW, chip, clean, cost, cut, file, formatted, of_paper, remount};
use flashkit_vfs::{Error, FileSystem, Ino, NewInode, SetXattr};

fn set(fs: &mut Fs, ino: Ino, name: &[u8], value: &[u8]) {
    fs.set_xattr(ino, name, value, SetXattr::Any, LATER)
        .unwrap();
}

#[test]
fn an_attribute_is_one_page_and_the_inode() {
    let mut fs = of_paper();
    let root = fs.root();
    let a = file(&mut fs, root, b"a", 100);
    fs.sync().unwrap();
    file(&mut fs, root, b"b", 1);
    fs.fsync(a).unwrap();
    let b = fs.lookup(root, b"b").unwrap().ino;
    let c = file(&mut fs, root, b"c", 1);
    set(&mut fs, b, b"user.x", b"1");
    fs.fsync(b).unwrap();
    assert_eq!(cost(&mut fs, |fs| set(fs, c, b"user.x", b"1")), (0, 1));
    fs.fsync(c).unwrap();
    set(&mut fs, a, b"user.first", b"1");
    assert_eq!(cost(&mut fs, |fs| set(fs, a, b"user.x", b"1")), (1, 1));
    assert_eq!(cost(&mut fs, |fs| fs.fsync(a).unwrap()), (0, 1));
    assert_eq!(cost(&mut fs, |fs| set(fs, a, b"user.y", b"22")), (1, 1));
    let mut value = Vec::new();
    let read = cost(&mut fs, |fs| value = fs.xattr(a, b"user.y").unwrap());
    assert_eq!((read, value.as_slice()), ((1, 0), &b"22"[..]));
    assert_eq!(fs.getattr(a).unwrap().ctime, LATER);
    assert_eq!(fs.getattr(a).unwrap().mtime, NOW);
    fs.remove_xattr(a, b"user.first", NOW).unwrap();
    fs.remove_xattr(a, b"user.y", NOW).unwrap();
    let last = cost(&mut fs, |fs| fs.remove_xattr(a, b"user.x", NOW).unwrap());
    assert_eq!(last, (1, 0));
    fs.fsync(a).unwrap();
    assert_eq!(fs.xattrs(a), Ok(vec![]));
    clean(&mut fs);
}

#[test]
fn attributes_stay_with_their_inode() {
    let mut fs = of_paper();
    let root = fs.root();
    let new = NewInode::default();
    let d = fs.mkdir(root, b"d", &new).unwrap().ino;
    let small = file(&mut fs, root, b"small", 10);
    let large = file(&mut fs, root, b"large", 10_000);
    let link = fs.symlink(root, b"link", b"nowhere", &new).unwrap().ino;
    let all = [root, d, small, large, link];
    for (i, ino) in all.into_iter().enumerate() {
        set(&mut fs, ino, b"user.n", &[i as u8; 40]);
        set(&mut fs, ino, b"trusted.of", &ino.to_le_bytes());
        fs.fsync(ino).unwrap();
    }
    fs.rename(root, b"small", d, b"moved", false, NOW).unwrap();
    fs.rename(root, b"d", root, b"e", false, NOW).unwrap();
    fs.link(large, d, b"second", NOW).unwrap();
    fs.unlink(root, b"large", NOW).unwrap();
    let holds = |fs: &mut Fs| {
        let d = fs.lookup(root, b"e").unwrap().ino;
        let small = fs.lookup(d, b"moved").unwrap().ino;
        let large = fs.lookup(d, b"second").unwrap().ino;
        let link = fs.lookup(root, b"link").unwrap().ino;
        for (i, ino) in [root, d, small, large, link].into_iter().enumerate() {
            assert_eq!(fs.xattr(ino, b"user.n"), Ok(vec![i as u8; 40]));
            assert_eq!(fs.xattr(ino, b"trusted.of"), Ok(ino.to_le_bytes().to_vec()));
            assert_eq!(fs.xattr(ino, b"user.none"), Err(Error::NoAttribute));
        }
        clean(fs);
    };
    holds(&mut fs);
    let mut fs = cut(fs);
    holds(&mut fs);
    let mut fs = remount(fs);
    holds(&mut fs);
    // With their inodes they go.
    let pages = |fs: &mut Fs| {
        fs.sync().unwrap();
        fs.statfs().unwrap().blocks_free
    };
    let before = pages(&mut fs);
    let d = fs.lookup(root, b"e").unwrap().ino;
    fs.unlink(d, b"moved", NOW).unwrap();
    fs.unlink(d, b"second", NOW).unwrap();
    fs.rmdir(root, b"e", NOW).unwrap();
    fs.unlink(root, b"link", NOW).unwrap();
    // Four inodes, four pages of attributes, five of data.
    assert_eq!(pages(&mut fs), before + 13);
    clean(&mut fs);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut fs = of_paper();
    let root = fs.root();
    let a = file(&mut fs, root, b"a", 10);
    let name = [b"user.".as_slice(), &[b'n'; 250]].concat();
    let any = SetXattr::Any;
    // 2,048 bytes less 56 before the records, 3 and the name.
    set(&mut fs, a, &name, &[1; 1992 - 3 - 255]);
    assert_eq!(fs.xattr(a, &name).unwrap().len(), 1992 - 3 - 255);
    let over = fs.set_xattr(a, &name, &[1; 1992 - 3 - 254], any, NOW);
    assert_eq!(over, Err(Error::NoSpace));
    assert_eq!(
        fs.set_xattr(a, b"user.b", b"", any, NOW),
        Err(Error::NoSpace)
    );
    assert_eq!(fs.set_xattr(a, b"", b"", any, NOW), Err(Error::Invalid));
    assert_eq!(fs.set_xattr(a, b"a\0", b"", any, NOW), Err(Error::Invalid));
    let long = [b'n'; 256];
    assert_eq!(
        fs.set_xattr(a, &long, b"", any, NOW),
        Err(Error::NameTooLong)
    );
    let how = SetXattr::Create;
    assert_eq!(fs.set_xattr(a, &name, b"", how, NOW), Err(Error::Exists));
    let how = SetXattr::Replace;
    assert_eq!(
        fs.set_xattr(a, b"user.b", b"", how, NOW),
        Err(Error::NoAttribute)
    );
    fs.set_xattr(a, &name, b"", how, NOW).unwrap();
    assert_eq!(fs.xattr(a, &name), Ok(vec![]));
    set(&mut fs, a, b"user.b", &[2; 100]);
    assert_eq!(fs.remove_xattr(a, b"user.c", NOW), Err(Error::NoAttribute));
    clean(&mut fs);
}

/// On a small chip that is cleaned all the time.
#[test]
fn cleaning_moves_attributes() {
    for spare in [40, 0] {
        let mut fs = formatted(chip(1024, spare, 16, 96));
        let root = fs.root();
        let d = fs.mkdir(root, b"d", &NewInode::default()).unwrap().ino;
        set(&mut fs, d, b"user.d", &[9; 200]);
        let kept: Vec<Ino> = (0..20u8)
            .map(|i| {
                let ino = file(&mut fs, d, &[b'a' + i], 100 * usize::from(i));
                set(&mut fs, ino, b"user.kept", &[i; 90]);
                fs.fsync(ino).unwrap();
                ino
            })
            .collect();
        let busy = file(&mut fs, root, b"busy", 10);
        for n in 0..4_000u32 {
            set(&mut fs, busy, b"user.n", &n.to_le_bytes());
            if n.is_multiple_of(3) {
                fs.fsync(busy).unwrap();
            }
        }
        assert!(fs.volume().written().moved_meta > 20);
        let mut fs = cut(fs);
        let d = fs.lookup(root, b"d").unwrap().ino;
        assert_eq!(fs.xattr(d, b"user.d"), Ok(vec![9; 200]));
        for (i, ino) in (0..20u8).zip(kept) {
            let found = fs.lookup(d, &[b'a' + i]).unwrap();
            assert_eq!(found.ino, ino);
            assert_eq!(fs.xattr(ino, b"user.kept"), Ok(vec![i; 90]));
        }
        clean(&mut fs);
    }
}
