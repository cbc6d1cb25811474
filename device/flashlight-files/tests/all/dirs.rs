//! Paths and directories.

use crate::{Room, chip, content, formatted, mount, put, reading, volume_error};
use flashkit_flashlight::{Config, Error as VolumeError, New, Node, ROOT_DIR, Time};
use flashkit_flashlight_files::{Files, Kind, OpenOptions};
use flashkit_nand::{BlockAddr, Nand};

#[test]
fn paths_lead_where_they_say() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    fs.mkdir("a").unwrap();
    fs.mkdir("a/b/").unwrap();
    put(&fs, "/a//b/./f", b"f");
    for path in ["a/b/f", "a/b/../b/f", "../a/b/f", "/a/./b//f"] {
        assert_eq!(content(&fs, path), b"f", "{path}");
    }
    for root in ["", "/", ".", "..", "a/..", "a/b/../.."] {
        assert_eq!(fs.stat(root).unwrap().node, Node::Dir(ROOT_DIR), "{root}");
    }
    let cases = [
        ("a/b/f/", VolumeError::NotDir),
        ("a/b/f/g", VolumeError::NotDir),
        ("a/x/f", VolumeError::NotFound),
        ("x/..", VolumeError::NotFound),
    ];
    for (path, expected) in cases {
        let found = volume_error(fs.stat(path).unwrap_err());
        assert_eq!(found, expected, "{path}");
    }
    for path in ["", "/", "..", "a/..", "."] {
        let refused = volume_error(fs.remove(path).unwrap_err());
        assert_eq!(refused, VolumeError::Invalid, "{path}");
    }
    assert_eq!(
        volume_error(fs.mkdir("/").unwrap_err()),
        VolumeError::Exists
    );
    let long = "n".repeat(256);
    assert_eq!(
        volume_error(fs.mkdir(&long).unwrap_err()),
        VolumeError::NameTooLong
    );
    fs.mkdir(&long[..255]).unwrap();
}

#[test]
fn files_and_directories_are_told_apart() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    fs.mkdir("d").unwrap();
    put(&fs, "d/f", b"f");
    let refused = |e| volume_error(e);
    assert_eq!(
        refused(fs.open("d", reading()).err().unwrap()),
        VolumeError::IsDir
    );
    assert_eq!(refused(fs.create("d").err().unwrap()), VolumeError::IsDir);
    assert_eq!(
        refused(fs.create("new/").err().unwrap()),
        VolumeError::NotFound
    );
    assert_eq!(
        refused(fs.read_dir("d/f").err().unwrap()),
        VolumeError::NotDir
    );
    assert_eq!(refused(fs.remove("d").unwrap_err()), VolumeError::NotEmpty);
    assert_eq!(refused(fs.remove("d/f/").unwrap_err()), VolumeError::NotDir);
    assert_eq!(
        refused(fs.rename("d/f/", "g").unwrap_err()),
        VolumeError::NotDir
    );
    assert_eq!(
        refused(fs.rename("d", "d/in").unwrap_err()),
        VolumeError::Invalid
    );
    fs.rename("d/f", "f").unwrap();
    fs.remove("d/").unwrap();
    assert_eq!(refused(fs.stat("d").unwrap_err()), VolumeError::NotFound);
    assert_eq!(content(&fs, "f"), b"f");
}

#[test]
fn a_listing_has_each_entry_once_while_entries_go() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    fs.mkdir("d").unwrap();
    let mut expected = Vec::new();
    for n in 0..120 {
        let name = format!("file-{n}");
        put(&fs, &format!("d/{name}"), name.as_bytes());
        expected.push(name);
    }
    fs.mkdir("d/sub").unwrap();
    expected.push("sub".into());
    let mut dir = fs.read_dir("d").unwrap();
    let mut found = Vec::new();
    while let Some(entry) = dir.next().unwrap() {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        let is_dir = entry.kind == Kind::Dir;
        assert_eq!(is_dir, name == "sub");
        let path = format!("d/{name}");
        assert_eq!(fs.stat(&path).unwrap().node, entry.node);
        fs.remove(&path).unwrap();
        found.push(name);
    }
    assert!(dir.next().unwrap().is_none());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    fs.remove("d").unwrap();
}

#[test]
fn what_other_programs_made_is_listed_and_not_opened() {
    let (chip, mut room) = formatted();
    let mut fs = mount(chip, &mut room);
    let new = New::default();
    fs.volume().symlink(ROOT_DIR, b"link", b"f", &new).unwrap();
    let fifo = flashkit_flashlight::Special::Fifo;
    fs.volume()
        .create_special(ROOT_DIR, b"fifo", fifo, &new)
        .unwrap();
    for (name, kind) in [("link", Kind::Symlink), ("fifo", Kind::Special)] {
        assert_eq!(Kind::of_mode(fs.stat(name).unwrap().mode), kind);
        let refused = fs.open(name, reading()).err().unwrap();
        assert_eq!(volume_error(refused), VolumeError::Invalid, "{name}");
        fs.remove(name).unwrap();
    }
    assert!(fs.read_dir("").unwrap().next().unwrap().is_none());
}

#[test]
fn changes_have_the_time_that_was_set() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    let (secs, nanos) = (1_700_000_000, 5);
    fs.set_time(Time { secs, nanos });
    put(&fs, "f", b"f");
    fs.mkdir("d").unwrap();
    assert_eq!(fs.stat("f").unwrap().mtime, Time { secs, nanos });
    assert_eq!(fs.stat("d").unwrap().ctime, Time { secs, nanos });
}

#[test]
fn a_chip_without_a_volume_is_told() {
    let (_, mut room) = formatted();
    let found = Files::mount(chip(), &mut room.ram, &mut room.open, Config::default());
    let error = volume_error(found.err().unwrap());
    assert_eq!(error, VolumeError::NotFormatted);
}

#[test]
fn a_volume_mounted_in_its_place_keeps_what_was_there_when_it_was_closed() {
    let (chip, mut room) = formatted();
    let mut blank = chip.clone();
    for block in 0..2 {
        blank.erase(BlockAddr(block)).unwrap();
    }
    let mut chips = [chip, blank];
    for (n, mounts) in [(0, true), (0, true), (1, false)] {
        let Room { ram, open } = &mut room;
        let mut place = None;
        let mounted = Files::mount_into(&mut place, &mut chips[n], ram, open, Config::default());
        assert_eq!((mounted.is_ok(), place.is_some()), (mounts, mounts));
        let Some(fs) = &mut place else {
            continue;
        };
        let append = OpenOptions::new().append(true).create(true);
        fs.open("f", append).unwrap().write(b"once more ").unwrap();
        fs.close().unwrap();
    }
    let [chip, _] = chips;
    assert_eq!(
        content(&mount(chip, &mut room), "f"),
        b"once more once more "
    );
}
