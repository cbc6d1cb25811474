//! Files come and go and hold what was written.

use crate::common::{KEY, assert_sound, content, formatted, mounted, read_all, read_tree};
use flashkit_nanofs::{Error, NanoFs, SEEK_END};
use flashkit_sim::SimCard;

#[test]
fn a_file_holds_what_was_written() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(600, 8));
    for (i, len) in [0, 1, 499, 500, 501, 1000, 1001, 25_000]
        .into_iter()
        .enumerate()
    {
        let name = format!("f{i}");
        let file = fs.create(name.as_bytes()).unwrap();
        fs.write(file, &content(i as u32, 0, len)).unwrap();
        assert_eq!(fs.size(file).unwrap() as usize, len);
        fs.close(file).unwrap();
        assert!(
            read_all(&mut fs, &name).unwrap() == content(i as u32, 0, len),
            "{len}"
        );
    }
    let card = fs.into_device();
    let seen = assert_sound(&card, "written");
    assert_eq!(seen.files.len(), 8);
    let mut fs: NanoFs<SimCard> = mounted(card);
    assert_eq!(read_tree(&mut fs).unwrap().len(), 8);
    assert!(read_all(&mut fs, "f7").unwrap() == content(7, 0, 25_000));
}

#[test]
fn pieces_add_up() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(600, 4));
    let (a, b) = (fs.create(b"a").unwrap(), fs.create(b"b").unwrap());
    for i in 0..200 {
        fs.append(a, &content(1, i * 60, 60)).unwrap();
        fs.append(b, &content(2, i * 37, 37)).unwrap();
        if i % 7 == 0 {
            fs.sync().unwrap();
        }
    }
    fs.close(a).unwrap();
    fs.close(b).unwrap();
    assert!(read_all(&mut fs, "a").unwrap() == content(1, 0, 12_000));
    assert!(read_all(&mut fs, "b").unwrap() == content(2, 0, 7_400));
    assert_sound(&fs.into_device(), "pieces");
}

#[test]
fn overwritten_cut_deleted() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(600, 4));
    let file = fs.create(b"a").unwrap();
    let mut expected = content(1, 0, 20_250);
    fs.write(file, &expected).unwrap();
    for (at, len) in [
        (0, 1),
        (499, 2),
        (3_000, 7_000),
        (20_000, 249),
        (19_900, 350),
        (100, 20_000),
    ] {
        let new = content(at as u32, at, len);
        fs.seek(file, at as u32).unwrap();
        fs.write(file, &new).unwrap();
        expected[at..at + len].copy_from_slice(&new);
        let mut data = vec![0; 20_250];
        fs.seek(file, 0).unwrap();
        assert_eq!(fs.read(file, &mut data).unwrap(), 20_250);
        assert!(data == expected, "{at} {len}");
    }
    for size in [20_249, 20_000, 19_999, 7_777, 7_500, 300, 0] {
        fs.truncate(file, size).unwrap();
        fs.append(file, b"tail").unwrap();
        fs.truncate(file, size).unwrap();
        let mut data = vec![0; 20_250];
        fs.seek(file, 0).unwrap();
        let n = fs.read(file, &mut data).unwrap();
        assert_eq!(n, size);
        assert!(data[..n as usize] == expected[..n as usize], "{size}");
    }
    fs.append(file, &content(9, 0, 3_000)).unwrap();
    assert_eq!(fs.delete(b"a"), Err(Error::Busy));
    fs.close(file).unwrap();
    assert!(read_all(&mut fs, "a").unwrap() == content(9, 0, 3_000));
    assert_eq!(fs.rename(b"a", b"b"), Ok(()));
    fs.delete(b"b").unwrap();
    assert_eq!(fs.open(b"b"), Err(Error::NotFound));
    while fs.clean(1_000).unwrap() {}
    let space = fs.space_left().unwrap();
    let seen = assert_sound(&fs.into_device(), "deleted");
    assert_eq!(seen.states[0], seen.data_blocks);
    assert_eq!(space, 500 * seen.data_blocks);
}

/// The least budget that does anything comes to an end, and no slice takes more than its budget.
#[test]
fn cleaning_in_the_smallest_slices() {
    // Blocks of the deleted file, and nodes that go home, in three blocks of the bitmap.
    let mut fs: NanoFs<SimCard> = mounted(formatted(6_000, 4));
    for name in [b"a", b"b"] {
        let file = fs.create(name).unwrap();
        fs.write(file, &content(1, 0, 1_300_000)).unwrap();
        for at in 0..21 {
            fs.seek(file, 60_100 * at).unwrap();
            fs.write(file, b"changed").unwrap();
        }
        fs.close(file).unwrap();
    }
    fs.delete(b"a").unwrap();
    assert_eq!(fs.clean(139), Ok(true));
    let mut slices = 0;
    let mut more = true;
    while more {
        fs.device().clear_counters();
        more = fs.clean(140).unwrap();
        let spent = fs.device().counters();
        assert!(spent.blocks_read + spent.blocks_written + spent.trims <= 140);
        slices += 1;
        assert!(slices < 500);
    }
    assert_eq!(assert_sound(&fs.into_device(), "cleaned").states[2], 0);
}

/// The end is a place like any other, and that of the call: another handle's bytes come behind it.
#[test]
fn the_position_at_the_end() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(600, 3));
    let (a, other) = (fs.create(b"a").unwrap(), fs.create(b"other").unwrap());
    let b = fs.open(b"a").unwrap();
    fs.append(a, &content(1, 0, 700)).unwrap();
    fs.append(other, b"of another file").unwrap();
    fs.seek(b, SEEK_END).unwrap();
    assert_eq!(fs.position(b), Ok(700));
    fs.append(a, b"more").unwrap();
    assert_eq!(fs.position(b), Ok(700));
    assert_eq!(fs.read(b, &mut [0; 10]), Ok(4));
    assert_eq!(fs.position(b), Ok(704));
    fs.seek(b, SEEK_END).unwrap();
    fs.append(b, b"").unwrap();
    assert_eq!(fs.position(b), Ok(704));
}

#[test]
fn callers_mistakes() {
    let mut fs: NanoFs<SimCard> = mounted(formatted(600, 3));
    assert_eq!(fs.open(b"a"), Err(Error::NotFound));
    assert_eq!(fs.open(b""), Err(Error::BadName));
    assert_eq!(fs.create(&[b'n'; 65]), Err(Error::NameTooLong));
    let a = fs.create(&[b'n'; 64]).unwrap();
    assert_eq!(fs.create(&[b'n'; 64]), Err(Error::Exists));
    fs.create(b"b").unwrap();
    fs.create(b"c").unwrap();
    assert_eq!(fs.create(b"d"), Err(Error::TooManyFiles));
    for _ in 3..64 {
        fs.open(b"b").unwrap();
    }
    assert_eq!(fs.open(b"b"), Err(Error::TooManyOpen));
    fs.close(a).unwrap();
    assert_eq!(fs.close(a), Err(Error::BadHandle));
    assert_eq!(
        fs.read(flashkit_nanofs::Handle(64), &mut [0]),
        Err(Error::BadHandle)
    );
    assert_eq!(
        fs.read(flashkit_nanofs::Handle(u32::MAX), &mut [0]),
        Err(Error::BadHandle)
    );
    let b = flashkit_nanofs::Handle(1);
    fs.write(b, b"0123").unwrap();
    fs.seek(b, 5).unwrap();
    assert_eq!(fs.write(b, b"x"), Err(Error::BeyondEnd));
    assert_eq!(fs.read(b, &mut [0; 4]), Ok(0));
    assert_eq!(fs.truncate(b, 5), Err(Error::BeyondEnd));
    assert_eq!(fs.rename(b"b", b"c"), Err(Error::Exists));
    assert_eq!(fs.rename(b"x", b"y"), Err(Error::NotFound));
    assert_eq!(fs.size(b), Ok(4));
    // What a listing in C goes on with after an error, as a cursor.
    assert_eq!(fs.next_file(-1i32 as u32), Ok(0));
    assert_eq!(fs.next_file(u32::MAX - 1), Ok(0));
    let mut other: NanoFs<SimCard> = NanoFs::new(fs.into_device());
    assert_eq!(other.mount(KEY + 1), Err(Error::WrongKey));
}
