//! Changes of an image that know what a page is: one field, one record, one page at a time, with
//! the checksum made right again.
//!
//! An edit is ten bytes: what to do, which page (its kind, and its place in the list of that kind,
//! the newest first), where in it (two bytes), and which value (what it is made of, four bytes
//! more). So edits mean the same in an image that was made anew.

use crate::image::{Image, Page};
use crate::input::EDIT;
use crate::seal::{self, HEADER, is_metadata, u16_at, u32_at, used};

/// A field: its first byte, and its bytes.
type Field = (usize, usize);

/// Fields of the header.
const OF_ALL: [Field; 8] = [
    (24, 2),
    (8, 8),
    (20, 4),
    (28, 4),
    (6, 1),
    (7, 1),
    (16, 4),
    (26, 2),
];
/// Fields of each kind of record, in the order of the kinds.
const OF_KIND: [&[Field]; 14] = [
    &[
        (32, 4),
        (36, 4),
        (40, 4),
        (44, 4),
        (48, 4),
        (52, 4),
        (56, 4),
        (60, 4),
    ],
    &[(32, 4)],
    &[
        (32, 1),
        (33, 1),
        (34, 1),
        (35, 1),
        (36, 2),
        (38, 2),
        (40, 4),
        (44, 4),
        (48, 4),
        (52, 4),
        (56, 4),
        (60, 2),
        (62, 2),
        (64, 2),
        (66, 2),
        (68, 2),
        (70, 2),
        (72, 2),
        (74, 2),
        (76, 2),
        (78, 2),
        (80, 2),
        (82, 2),
        (84, 2),
        (86, 2),
        (100, 1),
        (101, 1),
        (102, 2),
        (104, 8),
        (112, 4),
        (116, 4),
        (120, 4),
        (124, 2),
    ],
    &[(32, 2), (36, 2), (38, 1), (40, 2), (42, 1)],
    &[(32, 2)],
    &[(36, 4), (40, 4), (44, 4), (48, 4)],
    INODE,
    MAP,
    MAP,
    INODE,
    MAP,
    MAP,
    MAP,
    MAP,
];
const INODE: &[Field] = &[
    (32, 4),
    (36, 4),
    (40, 2),
    (42, 1),
    (43, 1),
    (52, 4),
    (56, 8),
    (64, 8),
    (88, 4),
    (100, 4),
    (104, 4),
    (108, 4),
    (112, 4),
    (116, 2),
    (118, 2),
    (120, 1),
    (121, 1),
    (122, 2),
    (124, 4),
    (128, 2),
    (130, 2),
];
const MAP: &[Field] = &[(32, 4), (36, 4), (40, 4), (44, 4), (48, 4), (52, 2)];
/// Fields of a data page's tag.
const OF_TAG: [Field; 6] = [(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4)];

/// Kind of page that stands for erased ones.
const BLANK: usize = 14;

/// The list of pages of one kind.
fn list(image: &Image, kind: u8) -> Vec<u32> {
    let kind = usize::from(kind) % 16;
    match kind {
        0 => image.kinds[0].clone(),
        // Pages of names and of attributes have the same layout.
        13 => image.kinds[13..=14].concat(),
        BLANK => next_blank(image),
        15 => image.kinds.iter().flatten().copied().collect(),
        kind => image.kinds[kind].clone(),
    }
}

/// For each block its first page that may be programmed.
fn next_blank(image: &Image) -> Vec<u32> {
    let pages = image.geometry.pages_per_block();
    (0..image.geometry.blocks())
        .map(|block| (block, image.attempted(block)))
        .filter(|(_, next)| *next < pages)
        .map(|(block, next)| block * pages + next)
        .collect()
}

fn select(image: &Image, kind: u8, nth: u8) -> Option<u32> {
    let list = list(image, kind);
    list.get(usize::from(nth) % list.len().max(1)).copied()
}

/// First byte, length and number of the records of an inode or a map page, and of
/// the pointers of an inode.
fn records(page: &[u8], of_pointers: bool) -> (usize, usize, usize) {
    let count = |at| usize::from(u16_at(page, at));
    match page[6] {
        7 | 10 => {
            let names = if page[6] == 10 { count(130) } else { 0 };
            let pointers = 132 + usize::from(page[43]) + names;
            if of_pointers {
                return (pointers, 8, count(118));
            }
            let size = if page[6] == 7 { 8 } else { 12 };
            let at = pointers + 8 * count(118) + count(122);
            (at, size, count(116))
        }
        11 => (56, 12, count(52)),
        8 | 9 | 12 => (56, 8, count(52)),
        13 | 14 => (56, 4, count(52) / 4),
        4 => (36, 4, count(32)),
        3 if of_pointers => (140, 4, usize::from(page[100])),
        3 => (
            140 + 4 * usize::from(page[100]),
            4,
            usize::from(page[101]) + 8,
        ),
        _ => (HEADER, 4, (used(page) - HEADER) / 4),
    }
}

/// What a field is to be set to.
fn value(image: &Image, edit: &[u8; EDIT], now: u64, width: usize) -> u64 {
    let args = u64::from(u32_at(edit, 6));
    let bits = 8 * width as u64;
    let page = || {
        let found = select(image, edit[6], edit[7]).unwrap_or(0);
        (found, &image.pages[found as usize])
    };
    let word = |at: usize| match page().1 {
        Page::Written(data, _) => u64::from(u32_at(data, at)),
        _ => 0,
    };
    let geo = &image.geometry;
    match edit[5] % 28 {
        0 => 0,
        1 => 1,
        2 => u64::MAX,
        3 => u64::MAX - 1,
        4 => u64::MAX - 2,
        5 => now.wrapping_add(1),
        6 => now.wrapping_sub(1),
        7 => now ^ 1 << (args % bits),
        8 => now.wrapping_add(args & 0xff),
        9 => now.wrapping_sub(args & 0xff),
        10 => geo.pages().into(),
        11 => u64::from(geo.pages()) - 1,
        12 => geo.blocks().into(),
        13 => u64::from(geo.blocks()) - 1,
        14 => geo.pages_per_block().into(),
        15 => geo.page_size().into(),
        16..=18 => args,
        19 => page().0.into(),
        20 => u64::from(page().0 / geo.pages_per_block()),
        21 => u64::from(page().0).wrapping_add(u64::from(edit[8])),
        22 => word(HEADER),
        23 => word(HEADER + 4),
        24 => args & 0xff,
        25 => u64::MAX >> (args % 64),
        26 => u64::MAX - 15,
        _ => now.wrapping_mul(2),
    }
}

fn get(bytes: &[u8], (at, width): Field) -> u64 {
    let mut word = [0; 8];
    word[..width].copy_from_slice(&bytes[at..at + width]);
    u64::from_le_bytes(word)
}

fn put(bytes: &mut [u8], (at, width): Field, value: u64) {
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// Applies an edit; one that makes no sense here does nothing.
pub fn apply(image: &mut Image, edit: &[u8; EDIT]) {
    let Some(at) = select(image, edit[1], edit[2]) else {
        return;
    };
    let geo = image.geometry;
    match edit[0] % 16 {
        0..=4 => set_field(image, at, edit),
        5..=7 => set_record(image, at, edit),
        8 => move_record(image, at, edit),
        9 => copy_page(image, at, edit),
        10 => append_page(image, at, edit),
        11 => image.pages[at as usize] = lost(image, at, edit),
        12 => {
            let block = (at / geo.pages_per_block()) as usize;
            image.bad[block] = !edit[3].is_multiple_of(4);
        }
        // Not made right again: what rots.
        13 => {
            if let Page::Written(data, spare) = &mut image.pages[at as usize] {
                let bit = usize::from(u16_at(edit, 3)) % (8 * (data.len() + spare.len()));
                let byte = data.iter_mut().chain(spare).nth(bit / 8);
                *byte.expect("within the page") ^= 1 << (bit % 8);
            }
        }
        14 => set_bytes(image, at, edit),
        _ => set_tag(image, at, edit),
    }
    image.index();
}

fn set_field(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    let Page::Written(mut data, spare) = image.pages[at as usize].clone() else {
        return;
    };
    if !is_metadata(&data) {
        return set_tag(image, at, edit);
    }
    let of_kind = match data[6] {
        kind @ 1..=14 => OF_KIND[usize::from(kind) - 1],
        _ => &[],
    };
    let n = usize::from(edit[3]) % (of_kind.len() + 2);
    let field = match of_kind.get(n) {
        Some(field) => *field,
        None => OF_ALL[usize::from(edit[4]) % OF_ALL.len()],
    };
    let new = value(image, edit, get(&data, field), field.1);
    put(&mut data, field, new);
    seal::seal(&mut data);
    image.pages[at as usize] = Page::Written(data, spare);
}

fn set_record(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    let Page::Written(mut data, spare) = image.pages[at as usize].clone() else {
        return;
    };
    if !is_metadata(&data) {
        return;
    }
    let (first, size, count) = records(&data, edit[0] % 16 == 5);
    let words = size / 4;
    let n = usize::from(edit[3]) % count.max(1);
    let field = (first + n * size + 4 * (usize::from(edit[4]) % words), 4);
    if field.0 + 4 > data.len() {
        return;
    }
    let new = value(image, edit, get(&data, field), 4);
    put(&mut data, field, new);
    seal::seal(&mut data);
    image.pages[at as usize] = Page::Written(data, spare);
}

/// Puts one record in the place of another, or exchanges the two.
fn move_record(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    let Page::Written(data, _) = &mut image.pages[at as usize] else {
        return;
    };
    if !is_metadata(data) {
        return;
    }
    let (first, size, count) = records(data, edit[5] % 2 == 1);
    let place = |n: u8| first + size * (usize::from(n) % count.max(1));
    let (a, b) = (place(edit[3]), place(edit[4]));
    if a.max(b) + size > data.len() {
        return;
    }
    if edit[6].is_multiple_of(2) {
        data.copy_within(a..a + size, b);
    } else {
        (0..size).for_each(|k| data.swap(a + k, b + k));
    }
    seal::seal(data);
}

/// A page's bytes as a page somewhere else, with an address that is right there.
fn moved(page: &Page, to: u32) -> Page {
    let mut page = page.clone();
    if let Page::Written(data, _) = &mut page
        && is_metadata(data)
    {
        put(data, (16, 4), to.into());
        seal::seal(data);
    }
    page
}

fn copy_page(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    if let Some(from) = select(image, edit[6], edit[7]) {
        image.pages[at as usize] = moved(&image.pages[from as usize], at);
    }
}

/// Copies a page behind the others of some block, as a newer one.
fn append_page(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    let Some(to) = select(image, BLANK as u8, edit[3]) else {
        return;
    };
    let to = if edit[4].is_multiple_of(2) {
        // The block of another page: most likely one in use.
        let near = select(image, edit[6], edit[7]).unwrap_or(to);
        let block = near / image.geometry.pages_per_block();
        let next = image.attempted(block);
        if next == image.geometry.pages_per_block() {
            return;
        }
        block * image.geometry.pages_per_block() + next
    } else {
        to
    };
    let mut page = moved(&image.pages[at as usize], to);
    if let Page::Written(data, _) = &mut page
        && is_metadata(data)
    {
        let newer = get(data, (8, 8)).wrapping_add(edit[5].into());
        put(data, (8, 8), newer);
        seal::seal(data);
    }
    image.pages[to as usize] = page;
}

fn lost(image: &Image, at: u32, edit: &[u8; EDIT]) -> Page {
    match (&image.pages[at as usize], edit[3] % 3) {
        (Page::Blank, _) => Page::Blank,
        (_, 0) => Page::Garbage,
        (_, 1) => Page::LooksBlank,
        (Page::Written(data, spare), _) => Page::Written(vec![edit[4]; data.len()], spare.clone()),
        (page, _) => page.clone(),
    }
}

/// Fills a piece of a page with one byte.
fn set_bytes(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    let Page::Written(data, spare) = &mut image.pages[at as usize] else {
        return;
    };
    let from = usize::from(u16_at(edit, 3)) % data.len();
    let to = (from + 1 + usize::from(edit[6])).min(data.len());
    data[from..to].fill(edit[5]);
    if is_metadata(data) {
        seal::seal(data);
    } else {
        seal::seal_data(data, spare);
    }
}

fn set_tag(image: &mut Image, at: u32, edit: &[u8; EDIT]) {
    let Page::Written(data, mut spare) = image.pages[at as usize].clone() else {
        return;
    };
    let field = OF_TAG[usize::from(edit[3]) % OF_TAG.len()];
    if spare.len() < seal::TAG {
        return;
    }
    let new = value(image, edit, get(&spare, field), field.1);
    put(&mut spare, field, new);
    if field.0 != 0 {
        seal::seal_data(&data, &mut spare);
    }
    image.pages[at as usize] = Page::Written(data, spare);
}
