//! Pages that are not well-formed, field by field.

use super::*;
use crate::format::inode::{DirMut, FileMut, MODE_CHAR, MODE_FIFO};
use flashkit_bytes::{put_u16, put_u32};
use std::vec::Vec;

const PAGE: usize = 1024;
/// What is done to a page.
type Change<'c> = &'c dyn Fn(&mut [u8]);
/// Pages of the chip.
const PAGES: u32 = 100 * 8;

fn geometry() -> Geometry {
    Geometry::new(PAGE as u32, 24, 8, 100).unwrap()
}

/// Whether a page of this kind would be believed, of which so many bytes are in use.
fn believed(kind: Kind, page: &[u8], used: usize) -> bool {
    let header = Header {
        kind,
        seq: 1,
        volume: 1,
        len: used,
        prev: PageAddr::NONE,
    };
    is_well_formed(&geometry(), page, &header)
}

fn extent(index: u32, page: u32, count: u32) -> [u8; 12] {
    Extent::new(index, page, count).encode()
}

fn entry(hash: u32, state: RecState, target: Target, ptr: u32) -> [u8; 8] {
    DirRec::new(hash, state, target, ptr).encode()
}

/// Demands that a page is believed as made, and not after any of the changes.
fn demand(kind: Kind, good: &[u8], used: usize, changes: &[Change<'_>]) {
    assert!(believed(kind, good, used), "{kind:?}");
    assert!(!believed(kind, good, used - 1), "{kind:?}, one byte short");
    for (i, change) in changes.iter().enumerate() {
        let mut page = good.to_vec();
        change(&mut page);
        assert!(!believed(kind, &page, used), "{kind:?}, change {i}");
    }
}

#[test]
fn special_files() {
    let mut page = vec![0; PAGE];
    let mut f = FileMut::on(&mut page[..]);
    f.init(FIRST_FILE, ROOT_DIR, MODE_CHAR | 0o644, b"null");
    f.set_size(0x0103);
    f.record_insert(0, &extent(FREED_RUN, 1, 2));
    let used = f.len();
    demand(
        Kind::File,
        &page,
        used,
        &[
            &|p| FileMut::on(p).set_size(1 << 32),
            &|p| FileMut::on(p).set_mode(MODE_FIFO),
            &|p| FileMut::on(p).set_mode(0x3000),
            &|p| FileMut::on(p).record_set(0, &extent(0, 1, 2)),
        ],
    );
}

#[test]
fn files() {
    let mut page = vec![0; PAGE];
    let mut f = FileMut::on(&mut page[..]);
    f.init(FIRST_FILE, ROOT_DIR, MODE_FILE | 0o644, b"name");
    f.set_size(9_000);
    f.fragment_resize(8, 1_000, 24);
    f.pointer_insert(0, 0, PageAddr(5));
    f.pointer_insert(1, 50, PageAddr(PAGES - 1));
    f.set_levels(1);
    f.record_insert(0, &extent(0, 10, 3));
    f.record_insert(1, &extent(3, PAGES - 2, 2));
    f.record_insert(2, &extent(REPLACED_PAGE, 7, 8));
    f.record_insert(3, &extent(REMOVED, 7, 0));
    f.record_insert(4, &extent(REPLACED_MAP, 7, 8));
    f.record_insert(5, &extent(FREED_MAP, 7, 0));
    f.record_insert(6, &extent(FREED_RUN, 1, 2));
    f.record_insert(7, &extent(FREED_RUN, 0, 1));
    let used = f.len();
    let on = |page: &mut [u8], change: &dyn Fn(&mut FileMut<'_>)| {
        change(&mut FileMut::on(page));
    };
    let set = |r: usize, rec: [u8; 12]| move |page: &mut [u8]| on(page, &|f| f.record_set(r, &rec));
    demand(
        Kind::File,
        &page,
        used,
        &[
            &|p| put_u32(p, 32, FIRST_FILE - 1),
            &|p| put_u32(p, 36, 0),
            &|p| put_u32(p, 36, FIRST_FILE),
            &|p| on(p, &|f| f.set_nlink(2)),
            &|p| on(p, &|f| f.set_mode(MODE_DIR | 0o644)),
            &|p| on(p, &|f| f.set_mode(0o644)),
            &|p| p[132] = b'/',
            &|p| p[133] = 0,
            &|p| on(p, &|f| f.set_size(u64::MAX)),
            &|p| put_u16(p, 128, 1_001),
            &|p| put_u32(p, 124, INDEX_END),
            &|p| put_u16(p, 116, 9),
            &|p| put_u16(p, 116, u16::MAX),
            &|p| put_u16(p, 118, 3),
            &|p| on(p, &|f| f.set_levels(0)),
            &|p| on(p, &|f| f.set_levels(3)),
            &|p| on(p, &|f| f.pointer_set(0, 50, PageAddr(5))),
            &|p| on(p, &|f| f.pointer_set(1, INDEX_END, PageAddr(5))),
            &|p| on(p, &|f| f.pointer_set(1, 50, PageAddr(PAGES))),
            &|p| on(p, &|f| f.pointer_set(1, 50, PageAddr::NONE)),
            &set(0, extent(0, 10, 4)),
            &set(0, extent(0, 10, 0)),
            &set(0, extent(4, 10, 1)),
            &set(1, extent(3, PAGES - 1, 2)),
            &set(1, extent(3, 0, PAGES - 2)),
            &set(1, extent(INDEX_END - 1, 0, 2)),
            &set(1, extent(3, u32::MAX, 2)),
            &set(2, extent(REPLACED_PAGE, PAGES, 8)),
            &set(2, extent(REPLACED_PAGE, 7, PAGES)),
            &set(2, extent(REPLACED_PAGE - 1, 7, 8)),
            &set(3, extent(REMOVED, PAGES, 0)),
            &set(3, extent(REPLACED_PAGE - 1, 7, 0)),
            &set(4, extent(REPLACED_MAP, 7, PAGES)),
            &set(4, extent(REPLACED_PAGE - 1, 7, 8)),
            &set(5, extent(FREED_MAP, PAGES, 0)),
            &set(6, extent(REPLACED_MAP, 7, 8)),
            &set(6, extent(FREED_RUN, 1, PAGES)),
            // With what the other frees, more than there is.
            &set(6, extent(FREED_RUN, 0, PAGES)),
        ],
    );
}

/// A further name, as it is stored.
fn name(dir: u32, name: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; names::HEAD];
    names::put_head(&mut bytes, dir, name.len());
    bytes.extend(name);
    bytes
}

#[test]
fn further_names() {
    let mut page = vec![0; PAGE];
    let mut f = FileMut::on(&mut page[..]);
    f.init(FIRST_FILE, ROOT_DIR, MODE_FILE | 0o644, b"");
    f.set_flags(FLAG_INDIRECT);
    f.set_parent(0);
    // What is inserted last stands first.
    f.names_insert(&name(3, b"b"));
    f.names_insert(&name(PAGES - 1, b""));
    f.names_insert(&name(ROOT_DIR, b"a"));
    let used = f.len();
    demand(
        Kind::File,
        &page,
        used,
        &[
            &|p| p[42] = 0,
            &|p| put_u32(p, 36, ROOT_DIR),
            &|p| put_u16(p, 130, 16),
            &|p| put_u16(p, 130, u16::MAX),
            &|p| put_u32(p, 132, 0),
            &|p| put_u32(p, 132, FIRST_FILE),
            &|p| p[137] = b'/',
            &|p| put_u32(p, 138, PAGES),
            &|p| put_u32(p, 138, u32::MAX),
            &|p| p[136] = 200,
        ],
    );
    let set = |names: &[&[u8]]| {
        let names = names.concat();
        move |page: &mut [u8]| {
            let mut f = FileMut::on(page);
            f.names_remove(0, f.names_len());
            f.names_insert(&names);
        }
    };
    let twice = set(&[&name(5, b""), &name(5, b"")]);
    let many = set(&[&name(3, &[b'n'; 60])]);
    for change in [twice, many] {
        change(&mut page);
        assert!(!believed(Kind::File, &page, PAGE));
    }
    set(&[&name(5, b""), &name(6, b"")])(&mut page);
    assert!(believed(Kind::File, &page, PAGE));
}

#[test]
fn names_pages() {
    let bytes = [name(3, b"a"), name(ROOT_DIR, b"bc")].concat();
    let records: Vec<[u8; 1]> = bytes.iter().map(|byte| [*byte]).collect();
    let page = map(FIRST_FILE, (0, 0), &records);
    demand(
        Kind::Names,
        &page,
        56 + 13,
        &[
            &|p| put_u32(p, 32, 3),
            &|p| put_u32(p, 44, 1),
            &|p| put_u32(p, 48, 1),
            &|p| put_u16(p, 52, 12),
            &|p| put_u16(p, 52, u16::MAX),
            &|p| put_u32(p, 56, FIRST_FILE),
            &|p| p[60] = 0,
            &|p| p[61] = b'/',
        ],
    );
}

#[test]
fn attributes() {
    let bytes = b"\x06\x02\0user.avv\x06\0\0user.b";
    let records: Vec<[u8; 1]> = bytes.iter().map(|byte| [*byte]).collect();
    let used = 56 + bytes.len();
    let page = map(3, (0, 0), &records);
    demand(
        Kind::Attributes,
        &page,
        used,
        &[
            &|p| put_u32(p, 32, 0),
            &|p| put_u32(p, 44, 1),
            &|p| put_u32(p, 48, 1),
            &|p| put_u16(p, 52, 0),
            &|p| put_u16(p, 52, 19),
            &|p| put_u16(p, 52, u16::MAX),
            // Without a name; of the other's name; longer than there is.
            &|p| p[56] = 0,
            &|p| p[75] = b'a',
            &|p| p[74] = 0,
            &|p| p[57] = 3,
            &|p| p[58] = 1,
        ],
    );
}

#[test]
fn directories() {
    let mut page = vec![0; PAGE];
    let mut d = DirMut::on(&mut page[..]);
    d.init(3, ROOT_DIR, MODE_DIR | 0o755, b"name");
    let records = [
        entry(5, RecState::Delete, Target::File, 700),
        entry(5, RecState::New, Target::File, u32::MAX),
        entry(9, RecState::Update, Target::Dir, 4),
        entry(9, RecState::New, Target::Indirect, FIRST_FILE),
        entry(NO_HASH, RecState::Freed, Target::Orphan, 7),
        entry(NO_HASH, RecState::Freed, Target::Dir, 4),
    ];
    for (r, rec) in records.iter().enumerate() {
        d.record_insert(r, rec);
    }
    d.pointer_insert(0, 0, PageAddr(5));
    d.pointer_insert(1, 50, PageAddr(6));
    d.set_levels(1);
    let used = d.len();
    let set = |r: usize, rec: [u8; 8]| move |page: &mut [u8]| DirMut::on(page).record_set(r, &rec);
    demand(
        Kind::Dir,
        &page,
        used,
        &[
            &|p| put_u32(p, 32, 0),
            &|p| put_u32(p, 32, FIRST_FILE),
            &|p| put_u32(p, 36, 3),
            // The root has no name.
            &|p| put_u32(p, 32, ROOT_DIR),
            &|p| p[43] = 0,
            &|p| p[132..136].copy_from_slice(b"a/..".as_slice()),
            &|p| DirMut::on(p).set_mode(MODE_FILE),
            &|p| DirMut::on(p).pointer_set(1, NO_HASH, PageAddr(6)),
            &set(0, entry(6, RecState::Delete, Target::File, 700)),
            &set(0, entry(5, RecState::Delete, Target::File, PAGES)),
            &set(2, entry(9, RecState::Update, Target::Dir, ROOT_DIR)),
            &set(2, entry(9, RecState::Update, Target::Dir, INDEX_DIR)),
            &set(2, entry(9, RecState::Update, Target::Dir, FIRST_FILE)),
            &set(3, entry(9, RecState::New, Target::Indirect, 4)),
            &set(3, entry(NO_HASH, RecState::New, Target::File, 4)),
            &set(4, entry(9, RecState::Gone, Target::Orphan, u32::MAX)),
            &set(4, entry(NO_HASH, RecState::Freed, Target::File, u32::MAX)),
        ],
    );
    let mut root = vec![0; PAGE];
    DirMut::on(&mut root[..]).init(ROOT_DIR, ROOT_DIR, MODE_DIR, b"");
    demand(Kind::Dir, &root, 132, &[&|p| put_u32(p, 36, 3)]);
}

fn map<const REC: usize>(ino: u32, range: (u32, u32), records: &[[u8; REC]]) -> Vec<u8> {
    let mut page = vec![0xff; PAGE];
    let mut m: MapPage<_, REC> = MapPage(&mut page[..]);
    let owner = mappage::Owner {
        ino,
        dir: 1,
        hash: 2,
    };
    m.init(owner, range.0, range.1);
    for (i, rec) in records.iter().enumerate() {
        m.insert(i, rec);
    }
    page
}

#[test]
fn maps() {
    let names = [
        entry(10, RecState::New, Target::File, 1),
        entry(19, RecState::New, Target::Dir, 5),
    ];
    let page = map(3, (10, 20), &names);
    let set = |r: usize, rec: [u8; 8]| move |page: &mut [u8]| MapPage::<_, 8>(page).set(r, &rec);
    demand(
        Kind::HashMap,
        &page,
        56 + 16,
        &[
            &|p| put_u32(p, 32, FIRST_FILE),
            &|p| put_u32(p, 44, 11),
            &|p| put_u32(p, 48, 19),
            &|p| put_u32(p, 48, NO_HASH + 1),
            &|p| put_u16(p, 52, 3),
            &|p| put_u16(p, 52, u16::MAX),
            &set(1, entry(10, RecState::New, Target::Orphan, 1)),
            &set(1, entry(19, RecState::Update, Target::Dir, 5)),
            &set(1, entry(19, RecState::New, Target::File, u32::MAX)),
        ],
    );
    let page = map(FIRST_FILE, (10, 20), &[extent(10, 5, 3), extent(13, 1, 7)]);
    let set = |r: usize, rec: [u8; 12]| move |page: &mut [u8]| MapPage::<_, 12>(page).set(r, &rec);
    demand(
        Kind::ExtentMap,
        &page,
        56 + 24,
        &[
            &|p| put_u32(p, 32, 3),
            &|p| put_u32(p, 44, 11),
            &|p| put_u32(p, 48, INDEX_END + 1),
            &set(0, extent(10, 5, 4)),
            &set(0, extent(9, 5, 3)),
            &set(1, extent(13, 1, 8)),
            &set(1, extent(FREED_RUN, 1, 1)),
            &set(1, extent(13, PAGES - 6, 7)),
        ],
    );
    let page = map::<8>(
        3,
        (10, 20),
        &[[10, 0, 0, 0, 1, 0, 0, 0], [11, 0, 0, 0, 2, 0, 0, 0]],
    );
    for (kind, limit) in [(Kind::HashIndex, NO_HASH), (Kind::ExtentIndex, INDEX_END)] {
        let changes: [Change<'_>; 5] = [
            &|p| put_u16(p, 52, 0),
            &|p| put_u32(p, 44, 11),
            &|p| put_u32(p, 56 + 8, 10),
            &|p| put_u32(p, 56 + 8, limit),
            &|p| put_u32(p, 56 + 12, PAGES),
        ];
        demand(kind, &page, 56 + 16, &changes);
    }
}

#[test]
fn the_rest() {
    let mut page = vec![0xff; PAGE];
    put_u16(&mut page, 32, 2);
    put_u32(&mut page, 36, 99);
    put_u32(&mut page, 40, 7 << 16 | 98);
    demand(
        Kind::Alloc,
        &page,
        44,
        &[
            &|p| put_u16(p, 32, 3),
            &|p| put_u16(p, 32, u16::MAX),
            &|p| put_u32(p, 36, 100),
            &|p| put_u32(p, 40, 8 << 16),
        ],
    );
    let mut page = vec![0xff; PAGE];
    put_u32(&mut page, 500, PAGES - 1);
    for kind in [Kind::DirMap, Kind::Places] {
        demand(kind, &page, PAGE, &[&|p| put_u32(p, 500, PAGES)]);
    }
    let mut page = vec![0; PAGE];
    put_u32(&mut page, 48, 99);
    put_u32(&mut page, 52, 3);
    demand(
        Kind::Root,
        &page,
        64,
        &[&|p| put_u32(p, 48, 100), &|p| put_u32(p, 52, ROOT_BLOCKS)],
    );
    demand(Kind::Second, &page, 36, &[]);
    demand(Kind::Snapshot, &page, 36, &[]);
    // The table, the places of 64 pages of the DirInode map, nothing open.
    page[35..].fill(0);
    page[35] = 2;
    for (i, run) in [(100, 0xff), (256, 0xff), (4, 0)].into_iter().enumerate() {
        page[36 + 4 * i] = 255;
        put_u16(&mut page, 37 + 4 * i, run.0);
        page[39 + 4 * i] = run.1;
    }
    demand(
        Kind::Snapshot,
        &page,
        48,
        &[
            &|p| p[35] = 3,
            &|p| put_u16(p, 37, 0),
            &|p| [37, 41].iter().for_each(|&run| put_u16(p, run, u16::MAX)),
            &|p| p[34] = 2,
            &|p| p[44] = 127,
        ],
    );
    page[32] = 3;
    demand(
        Kind::Checkpoint,
        &page,
        crate::format::checkpoint::FIELDS,
        &[&|p| p[32] = 2, &|p| p[32] |= 32],
    );
}
