use super::*;

#[test]
fn parts_do_not_disturb_each_other() {
    let mut page = [0xaau8; 512];
    let mut f = FileMut::on(&mut page[..]);
    f.init(7, 1, MODE_FILE | 0o644, b"hello");
    f.record_insert(0, &[1; 12]);
    f.record_insert(1, &[3; 12]);
    f.record_insert(1, &[2; 12]);
    f.fragment_resize(9, 4, 6);
    f.fragment_mut().copy_from_slice(b"abcdef");
    f.pointer_insert(0, 50, PageAddr(500));
    f.pointer_insert(0, 10, PageAddr(100));
    f.pointer_insert(1, 20, PageAddr(200));
    f.set_name(b"a longer name");
    assert_eq!(f.name(), b"a longer name");
    assert_eq!((f.ino(), f.parent(), f.mode()), (7, 1, 0o100_644));
    assert_eq!(f.pointer(1), (20, PageAddr(200)));
    assert_eq!(f.fragment_bytes(), b"abcdef");
    assert_eq!(f.record(2), &[3; 12]);
    f.fragment_resize(9, 4, 8);
    assert_eq!(f.fragment_bytes(), b"abcdef\0\0");
    f.fragment_resize(0, 0, 0);
    assert_eq!(f.fragment(), None);
    f.pointer_remove(0);
    f.record_remove(0);
    assert_eq!(f.pointer(0), (20, PageAddr(200)));
    assert_eq!(f.record(0), &[2; 12]);
    assert_eq!(f.len(), NAME + 13 + 16 + 24);
    assert_eq!(f.room(), 512 - f.len());
}

#[test]
fn pointer_for_picks_the_range() {
    let mut page = [0u8; 512];
    let mut d = DirMut::on(&mut page[..]);
    d.init(1, 1, MODE_DIR, b"");
    for (i, key) in [0, 100, 200].into_iter().enumerate() {
        d.pointer_insert(i, key, PageAddr(key));
    }
    for (key, want) in [(0, 0), (99, 0), (100, 1), (199, 1), (200, 2), (u32::MAX, 2)] {
        assert_eq!(d.pointer_for(key), want, "{key}");
    }
}

fn file(page: &mut [u8]) -> FileMut<'_> {
    let mut f = FileMut::on(page);
    f.init(7, 1, MODE_FILE | 0o644, b"name");
    f
}

#[test]
fn fields_are_where_the_drawing_says() {
    let mut page = [0u8; 512];
    let mut f = file(&mut page);
    f.set_parent(0x11);
    f.set_flags(0x12);
    f.set_uid(0x13);
    f.set_gid(0x14);
    f.set_nlink(0x15);
    f.set_size(0x16);
    f.set_moved(0x17, 0x18);
    f.set_replaced(Some((0x19, 0x1a)));
    f.set_xattr(PageAddr(0x1b));
    f.set_levels(2);
    f.fragment_resize(0x1c, 0x1d, 1);
    for (at, value) in [
        (32, 7),
        (36, 0x11),
        (42, 0x12),
        (43, 4),
        (44, 0x13),
        (48, 0x14),
        (52, 0x15),
        (56, 0x16),
        (100, 0x17),
        (104, 0x18),
        (108, 0x1a),
        (112, 0x1b),
        (120, 2),
        (121, 0x19),
        (122, 1),
        (124, 0x1c),
        (128, 0x1d),
    ] {
        assert_eq!(page[at], value, "byte {at}");
    }
    assert_eq!(page[40..42], (MODE_FILE | 0o644).to_le_bytes());
    assert_eq!(&page[132..136], b"name");
}

#[test]
fn each_time_is_its_own_and_may_be_before_1970() {
    let mut page = [0u8; 512];
    let mut f = file(&mut page);
    let time = |secs, nanos| Time { secs, nanos };
    f.set_time(Stamp::Access, time(-1, 1));
    f.set_time(Stamp::Modify, time(i64::MIN, 2));
    f.set_time(Stamp::Change, time(i64::MAX, 999_999_999));
    assert_eq!(f.time(Stamp::Access), time(-1, 1));
    assert_eq!(f.time(Stamp::Modify), time(i64::MIN, 2));
    assert_eq!(f.time(Stamp::Change), time(i64::MAX, 999_999_999));
    f.set_modified(time(5, 6));
    assert_eq!(
        (f.time(Stamp::Access), f.time(Stamp::Modify)),
        (time(-1, 1), time(5, 6))
    );
}

#[test]
fn counts_beyond_the_page_are_refused() {
    let mut page = [0u8; 512];
    file(&mut page);
    for (at, value) in [
        (RECORDS, 32),
        (RECORDS, 0xffff),
        (POINTERS, 48),
        (POINTERS, 0xffff),
        (FRAG_LEN, 377),
        (FRAG_LEN, 0xffff),
        (NAMES_LEN, 377),
        (NAMES_LEN, 0xffff),
    ] {
        let mut damaged = page;
        damaged[LEVELS] = u8::from(at == POINTERS);
        put_u16(&mut damaged, at, value);
        assert!(!FileView::on(&damaged).is_sane(), "{value} at {at}");
    }
    let mut most = page;
    put_u16(&mut most, RECORDS, 31);
    assert!(FileView::on(&most).is_sane());
}

#[test]
fn levels_without_pointers_and_pointers_without_levels_are_refused() {
    let mut page = [0u8; 512];
    file(&mut page).set_levels(1);
    assert!(!FileView::on(&page).is_sane());
    FileMut::on(&mut page[..]).pointer_insert(0, 0, PageAddr(3));
    assert!(FileView::on(&page).is_sane());
    for levels in [0, 3] {
        FileMut::on(&mut page[..]).set_levels(levels);
        assert!(!FileView::on(&page).is_sane(), "{levels}");
    }
}

#[test]
fn further_names_beyond_the_page_are_none() {
    let mut page = [0u8; 512];
    file(&mut page);
    put_u16(&mut page, NAMES_LEN, 512);
    assert_eq!(FileView::on(&page).names().iter().count(), 0);
    assert_eq!(FileView::on(&page).into_names().iter().count(), 0);
}

#[test]
fn a_name_that_becomes_a_further_one_loses_nothing() {
    let mut page = [0u8; 512];
    let mut f = file(&mut page);
    f.pointer_insert(0, 5, PageAddr(50));
    f.fragment_resize(3, 0, 2);
    f.fragment_mut().copy_from_slice(b"ab");
    f.record_insert(0, &[9; 12]);
    f.name_demote();
    f.set_name(b"new");
    f.set_parent(2);
    let view = FileView::on(&page);
    let names: std::vec::Vec<_> = view.names().iter().map(|(_, item)| item).collect();
    let was = names::Item::Name {
        dir: 1,
        name: b"name",
    };
    assert_eq!((view.name(), names), (&b"new"[..], vec![was]));
    assert_eq!(view.pointer(0), (5, PageAddr(50)));
    assert_eq!(
        (view.fragment_bytes(), view.record(0)),
        (&b"ab"[..], &[9; 12][..])
    );
    let mut f = FileMut::on(&mut page[..]);
    f.names_remove(0, names::HEAD + 4);
    assert_eq!(
        (f.names_len(), f.pointer(0).0, f.record(0)),
        (0, 5, &[9; 12][..])
    );
}

/// A directory has another number where a file has the length of its names.
#[test]
fn a_directory_has_no_further_names() {
    let mut page = [0u8; 512];
    let mut d = DirMut::on(&mut page[..]);
    d.init(1, 1, MODE_DIR, b"d");
    d.set_as_of(u64::MAX);
    assert_eq!(
        (d.as_of(), d.names_len(), d.names().iter().count()),
        (u64::MAX, 0, 0)
    );
    assert!(DirView::on(&page).is_sane());
}

#[test]
fn an_inode_that_replaced_nothing_says_so() {
    let mut page = [0u8; 512];
    let mut f = file(&mut page);
    assert_eq!(
        (f.replaced(), f.moved(), f.xattr()),
        (None, (0, 0), PageAddr::NONE)
    );
    f.set_replaced(Some((1, 0)));
    assert_eq!(f.replaced(), Some((1, 0)));
    f.set_replaced(None);
    assert_eq!(f.replaced(), None);
}

#[test]
fn notes_of_freed_pages_are_no_pages_of_the_file() {
    let mut page = [0u8; 512];
    let mut f = file(&mut page);
    f.record_insert(0, &Extent::new(4, 40, 3).encode());
    f.record_insert(1, &Extent::new(extent::FREED_RUN, 50, 9).encode());
    assert_eq!(f.pages_in_log(), 3);
    let most = Extent::new(5, 60, (1 << 30) - 1);
    for i in 0..6 {
        f.record_insert(i, &most.encode());
    }
    assert_eq!(f.pages_in_log(), u32::MAX, "a page made to deceive");
}
