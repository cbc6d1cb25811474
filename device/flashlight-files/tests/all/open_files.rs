//! Positions, options, and files that are renamed or removed while they are open.

use crate::{content, formatted, mount, put, reading, rest, volume_error};
use embedded_io::{Read, Seek, SeekFrom, Write};
use flashkit_flashlight::Error as VolumeError;
use flashkit_flashlight_files::{Error, OpenOptions};

#[test]
fn positions_are_as_of_any_file() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    let options = OpenOptions::new().read(true).write(true).create_new(true);
    let mut file = fs.open("a", options).unwrap();
    file.write(b"0123456789").unwrap();
    assert_eq!(file.position().unwrap(), 10);
    assert_eq!(file.seek(SeekFrom::End(-4)).unwrap(), 6);
    assert_eq!(rest(&mut file), b"6789");
    assert_eq!(file.seek(SeekFrom::Current(-9)).unwrap(), 1);
    file.write(b"xy").unwrap();
    assert_eq!(file.position().unwrap(), 3);
    // Beyond the end, and a hole.
    assert_eq!(file.seek(SeekFrom::End(5_000)).unwrap(), 5_010);
    assert_eq!(file.read(&mut [0]).unwrap(), 0);
    file.write(b"z").unwrap();
    assert_eq!(file.size().unwrap(), 5_011);
    file.seek(SeekFrom::Start(0)).unwrap();
    let all = rest(&mut file);
    assert_eq!(&all[..10], b"0xy3456789");
    assert!(all[10..5_010].iter().all(|byte| *byte == 0));
    assert_eq!(all[5_010], b'z');
    file.truncate(4).unwrap();
    assert_eq!(file.position().unwrap(), 5_011, "a truncation leaves it");
    for to in [
        SeekFrom::Current(-5_012),
        SeekFrom::End(-5),
        SeekFrom::Start(u64::MAX),
        SeekFrom::End(i64::MAX),
    ] {
        let refused = file.seek(to).unwrap_err();
        assert_eq!(volume_error(refused), VolumeError::Invalid, "{to:?}");
    }
    assert_eq!(file.position().unwrap(), 5_011);
    assert_eq!(content(&fs, "a"), b"0xy3");
}

#[test]
fn options_say_what_may_be_done() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    let new = OpenOptions::new();
    for bad in [
        new,
        new.read(true).create(true),
        new.read(true).create_new(true),
        new.read(true).truncate(true),
    ] {
        let refused = fs.open("a", bad).err().unwrap();
        assert_eq!(volume_error(refused), VolumeError::Invalid, "{bad:?}");
    }
    let refused = fs.open("a", new.write(true)).err().unwrap();
    assert_eq!(volume_error(refused), VolumeError::NotFound);
    put(&fs, "a", b"old");
    let refused = fs
        .open("a", new.write(true).create_new(true))
        .err()
        .unwrap();
    assert_eq!(volume_error(refused), VolumeError::Exists);
    let mut file = fs.open("a", new.write(true)).unwrap();
    assert_eq!(file.read(&mut [0]).unwrap_err(), Error::NotOpenedSo);
    file.write(b"O").unwrap();
    drop(file);
    let mut file = fs.open("a", reading()).unwrap();
    assert_eq!(file.write(b"x").unwrap_err(), Error::NotOpenedSo);
    assert_eq!(file.truncate(0).unwrap_err(), Error::NotOpenedSo);
    assert_eq!(rest(&mut file), b"Old");
    drop(file);
    // At the end each time, wherever the position was.
    let mut one = fs.open("a", new.append(true).read(true)).unwrap();
    let mut two = fs.open("a", new.append(true)).unwrap();
    one.write(b"1").unwrap();
    two.write(b"22").unwrap();
    one.seek(SeekFrom::Start(0)).unwrap();
    one.write(b"3").unwrap();
    assert_eq!(one.position().unwrap(), 7);
    one.seek(SeekFrom::Start(0)).unwrap();
    assert_eq!(rest(&mut one), b"Old1223");
    drop((one, two));
    drop(fs.open("a", new.write(true).truncate(true)).unwrap());
    assert_eq!(fs.stat("a").unwrap().size, 0);
}

#[test]
fn the_traits_do_what_the_calls_do() {
    fn copy<F: Read + Write + Seek>(file: &mut F) -> Result<u64, F::Error> {
        let mut three = [0; 3];
        file.rewind()?;
        let n = file.read(&mut three)?;
        file.write_all(&three[..n])?;
        file.flush()?;
        file.stream_position()
    }
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    put(&fs, "a", b"abc");
    let options = OpenOptions::new().read(true).write(true);
    assert_eq!(copy(&mut fs.open("a", options).unwrap()).unwrap(), 6);
    assert_eq!(content(&fs, "a"), b"abcabc");
    let refused = copy(&mut fs.open("a", reading()).unwrap()).unwrap_err();
    let kind = embedded_io::Error::kind(&refused);
    assert_eq!(kind, embedded_io::ErrorKind::PermissionDenied);
}

#[test]
fn a_file_that_is_renamed_or_removed_stays_usable() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    let both = OpenOptions::new().read(true).write(true);
    fs.mkdir("d").unwrap();
    put(&fs, "moved", b"moved");
    put(&fs, "gone", b"gone");
    put(&fs, "replaced", b"replaced");
    let mut moved = fs.open("moved", both).unwrap();
    let mut gone = fs.open("gone", both).unwrap();
    let mut again = fs.open("gone", both).unwrap();
    let mut replaced = fs.open("replaced", both).unwrap();
    fs.remove("gone").unwrap();
    fs.rename("moved", "d/replaced").unwrap();
    fs.rename("d/replaced", "replaced").unwrap();
    // Another takes the name, and many pass through the cache of inodes.
    put(&fs, "gone", b"another");
    for n in 0..40 {
        let name = format!("d/{n}");
        put(&fs, &name, name.as_bytes());
        assert_eq!(content(&fs, &name), name.as_bytes());
    }
    fs.sync().unwrap();
    assert_eq!(rest(&mut moved), b"moved");
    assert_eq!(rest(&mut gone), b"gone");
    assert_eq!(rest(&mut replaced), b"replaced");
    moved.write(b"!").unwrap();
    moved.sync().unwrap();
    gone.write(b"?").unwrap();
    gone.sync().unwrap();
    moved.seek(SeekFrom::Start(0)).unwrap();
    assert_eq!(rest(&mut moved), b"moved!");
    drop(gone);
    // Another still has it.
    assert_eq!(rest(&mut again), b"gone?");
    again.close().unwrap();
    replaced.close().unwrap();
    moved.close().unwrap();
    assert_eq!(content(&fs, "gone"), b"another");
    let chip = fs.unmount().map_err(|(_, e)| e).unwrap();
    let fs = mount(chip, &mut room);
    assert_eq!(content(&fs, "replaced"), b"moved!");
}

/// A file that is removed while it is open gives its pages back when it is closed.
#[test]
fn pages_are_free_after_the_last_close() {
    let (chip, mut room) = formatted();
    let fs = mount(chip, &mut room);
    put(&fs, "other", b"x");
    fs.sync().unwrap();
    let data = vec![0x5a; 300_000];
    put(&fs, "large", &data);
    fs.sync().unwrap();
    let used = fs.space().unwrap().pages_free;
    let mut file = fs.open("large", reading()).unwrap();
    fs.remove("large").unwrap();
    assert!(fs.space().unwrap().pages_free < used + 20);
    assert!(rest(&mut file) == data);
    file.close().unwrap();
    let free = fs.space().unwrap().pages_free;
    assert!(free >= used + 300_000 / 2048, "{used}, then {free}");
}

/// Power fails while a file without a name is open: the next mount gives it back.
#[test]
fn an_open_file_without_a_name_is_gone_after_a_cut() {
    let (chip, mut room) = formatted();
    let mut fs = mount(chip, &mut room);
    put(&fs, "large", &[1; 300_000]);
    fs.sync().unwrap();
    let before = fs.space().unwrap().pages_free;
    let file = fs.open("large", reading()).unwrap();
    fs.remove("large").unwrap();
    core::mem::forget(file);
    let chip = fs.volume().nand().clone();
    let (_, mut second) = formatted();
    let fs = mount(chip, &mut second);
    assert!(fs.stat("large").is_err());
    let free = fs.space().unwrap().pages_free;
    assert!(
        free >= before + 300_000 / 2048 - 20,
        "{before}, then {free}"
    );
}
