//! A page of the snapshot: a piece of the string that says what every block is used for.
//!
//! ```text
//! the string: block table, places of the DirInode map's pages, number of blocks with an unwritten
//!             tail u16, bytes of deferred changes u16, those blocks: block u16, next page u16
//!             (32768 more: of updates), deferred changes (`deferred.rs`)
//! a page:     32 at u24   35 form u8   36 bytes
//!   form 0, of before there were others: `at` is the page's number, and its bytes begin with byte
//!           `at` * (page size - 36) of the string
//!   form 1: the bytes begin with byte `at` of the string
//!   form 2: the same, and they are coded
//!   4 more: the string is without the block table, which lies on flash itself (`paged.rs`)
//! coded, in units of the size of an entry of the table:
//!   0 to 127  n; n + 1 units      they follow one another
//!   128 to 254 n; one unit        n - 125 times
//!   255; n u16; one unit          n times
//! ```
//!
//! Most tables are runs: free blocks, blocks full of data. Coded, that of 65,535 blocks takes one
//! page to four where it took 33. Invariants:
//! * A page's units are whole, and what is coded is complete in it: each is read by itself.
//! * A page holds as much of the string as it would hold plainly, or all that is left. So there are
//!   never more pages than of plain ones, though taking blocks for the first changes the table
//!   before the last is put together.

use crate::format::area::DATA_HEADS;
use crate::format::blockstate;
use crate::format::deferred::Assembly;
use crate::format::fields::{get_u8, get_u16, get_u32};
use crate::format::header::HEADER;
use crate::format::limits::{MAP_PAGES, REMNANTS};
use core::iter;
use flashkit_bytes::{put_u16, put_u32};
use flashkit_nand::Geometry;

/// Where a page's bytes begin.
pub(crate) const PIECE: usize = HEADER + 4;
const NUMBERED: u8 = 0;
const PLAIN: u8 = 1;
const CODED: u8 = 2;
const TABLELESS: u8 = 4;
/// The shortest run worth a token of its own.
const RUN_MIN: usize = 3;
/// The longest with a length of one byte, and with one of two.
const RUN_SHORT: usize = 129;
const RUN_MAX: usize = 0xffff;
const LONG: u8 = 255;
/// A control byte less the length of its run.
const RUN: usize = 125;
const LITERALS_MAX: u8 = 127;

/// Bytes of the string at most, without deferred changes.
pub(crate) const fn longest(geo: &Geometry) -> usize {
    blockstate::size(geo) + 4 * MAP_PAGES + 4 + 4 * (REMNANTS + DATA_HEADS)
}

/// The same with them: as many as a tail of 16 bits' bytes has.
fn most(geo: &Geometry) -> usize {
    longest(geo) + u16::MAX as usize
}

/// Bytes of the page, each so many times one after another.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub bytes: &'a [u8],
    pub times: usize,
}

impl Run<'_> {
    fn len(&self) -> usize {
        self.bytes.len() * self.times
    }
}

/// What a page's bytes stand for. Ends before what means nothing.
#[derive(Clone)]
struct Runs<'a> {
    rest: &'a [u8],
    unit: usize,
    coded: bool,
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let &control = self.rest.first()?;
        if !self.coded {
            let bytes = core::mem::take(&mut self.rest);
            return Some(Run { bytes, times: 1 });
        }
        let (head, units, times) = match control {
            0..=LITERALS_MAX => (1, usize::from(control) + 1, 1),
            LONG if self.rest.len() < 3 => return None,
            LONG => (3, 1, usize::from(get_u16(self.rest, 1))),
            _ => (1, 1, usize::from(control) - RUN),
        };
        let end = head + units * self.unit;
        let bytes = self.rest.get(head..end)?;
        self.rest = self.rest.get(end..)?;
        Some(Run { bytes, times })
    }
}

/// A page of the snapshot, `used` bytes of which count.
#[derive(Clone)]
pub(crate) struct Piece<'a> {
    /// The first byte of the string that it holds.
    pub from: usize,
    pub coded: bool,
    /// Whether the block table is not in the string.
    pub tableless: bool,
    runs: Runs<'a>,
}

impl<'a> Piece<'a> {
    pub fn on(geo: &Geometry, page: &'a [u8], used: usize) -> Option<Self> {
        let rest = page.get(PIECE..used)?;
        let (at, form) = (get_u32(page, HEADER) & 0xff_ffff, get_u8(page, HEADER + 3));
        let tableless = form & TABLELESS != 0 && form != TABLELESS;
        let form = if tableless { form - TABLELESS } else { form };
        let from = match form {
            NUMBERED => (at as usize).checked_mul(geo.page_size() as usize - PIECE)?,
            PLAIN | CODED => at as usize,
            _ => return None,
        };
        let coded = form == CODED;
        let unit = blockstate::entry_size(geo.pages_per_block());
        let runs = Runs { rest, unit, coded };
        Some(Piece {
            from,
            coded,
            tableless,
            runs,
        })
    }

    /// Hands out the bytes of the string that it stands for, until that fails. Loops are shorter
    /// code than the iterators of [`Piece::bytes`].
    pub fn try_each<E>(&self, each: &mut dyn FnMut(u8) -> Result<(), E>) -> Result<(), E> {
        for run in self.runs.clone() {
            for _ in 0..run.times {
                for &byte in run.bytes {
                    each(byte)?;
                }
            }
        }
        Ok(())
    }

    /// The same, one by one.
    pub fn bytes(&self) -> impl Iterator<Item = &'a u8> + use<'a> {
        let runs = self.runs.clone();
        runs.flat_map(|run| iter::repeat_n(run.bytes, run.times))
            .flatten()
    }

    /// Whether all of it means something, and is not more than there can be.
    pub fn is_sane(&self, geo: &Geometry) -> bool {
        let (mut runs, most) = (self.runs.clone(), most(geo));
        let mut len = 0;
        let fits = self.from <= most
            && runs.by_ref().all(|run| {
                len += run.len();
                run.times > 0 && len <= most - self.from
            });
        fits && runs.rest.is_empty()
    }
}

/// A part of the string, as its bytes come.
pub(crate) enum Part<'a> {
    /// A byte of the block table, and which.
    Table(usize, u8),
    /// A byte of the places of the DirInode map's pages, and which.
    Place(usize, u8),
    /// A block with an unwritten tail.
    Open([u8; 4]),
    /// A group of deferred changes.
    Deferred(&'a mut [u8]),
    /// Nothing whole yet.
    Nothing,
}

/// Takes the string apart.
pub(crate) struct Parts {
    /// Bytes taken.
    pub at: usize,
    /// Where the places end, and the blocks with an unwritten tail.
    places: usize,
    opens: usize,
    table: usize,
    end: usize,
    word: [u8; 4],
    group: Assembly,
}

impl Parts {
    /// Of a string with a block table of so many bytes, and so many of places.
    pub fn new(table: usize, places: usize) -> Self {
        let places = table + places;
        Parts {
            at: 0,
            places,
            opens: places + 4,
            table,
            end: usize::MAX,
            word: [0; 4],
            group: Assembly::EMPTY,
        }
    }

    /// Takes the next byte; gives what it completes.
    pub fn next(&mut self, byte: u8) -> Part<'_> {
        let at = self.at;
        self.at += 1;
        if at < self.table {
            return Part::Table(at, byte);
        }
        if at < self.places {
            return Part::Place(at - self.table, byte);
        }
        if at >= self.opens {
            return self.group.push(byte).map_or(Part::Nothing, Part::Deferred);
        }
        let i = (at - self.places) % 4;
        self.word[i] = byte;
        if at == self.places + 3 {
            self.opens += 4 * usize::from(get_u16(&self.word, 0));
            self.end = self.opens + usize::from(get_u16(&self.word, 2));
            return Part::Nothing;
        }
        if i == 3 {
            return Part::Open(self.word);
        }
        Part::Nothing
    }

    /// Whether that was all.
    pub fn is_whole(&self) -> bool {
        self.at == self.end && self.group.is_empty()
    }
}

/// Fills a page with the string, with the block table or `tableless`, from byte `from` of `total`
/// on; gives its length, and where the string goes on. `byte` gives the bytes of the string.
pub(crate) fn fill(
    geo: &Geometry,
    page: &mut [u8],
    (from, total): (usize, usize),
    tableless: bool,
    mut byte: impl FnMut(usize) -> u8,
) -> (usize, usize) {
    let unit = blockstate::entry_size(geo.pages_per_block());
    let (head, out) = page.split_at_mut(PIECE);
    let plain = out.len().min(total - from);
    let (len, end) = code(out, unit, (from, total), &mut byte);
    let (form, len, end) = if end > from + plain || (end == from + plain && len < plain) {
        (CODED, len, end)
    } else {
        for (k, b) in out[..plain].iter_mut().enumerate() {
            *b = byte(from + k);
        }
        (PLAIN, plain, from + plain)
    };
    let form = form | if tableless { TABLELESS } else { 0 };
    put_u32(head, HEADER, from as u32 | u32::from(form) << 24);
    (PIECE + len, end)
}

/// Codes as much of the string as fits; gives the bytes taken, and where the string goes on.
fn code(
    out: &mut [u8],
    unit: usize,
    (from, total): (usize, usize),
    mut byte: impl FnMut(usize) -> u8,
) -> (usize, usize) {
    let mut read = |at: usize| [byte(at), if unit == 2 { byte(at + 1) } else { 0 }];
    let (mut at, mut len) = (from, 0);
    // The control byte of the units that follow one another.
    let mut open: Option<usize> = None;
    while at < total {
        let value = read(at);
        let left = ((total - at) / unit).min(RUN_MAX);
        let run = 1
            + (1..left)
                .take_while(|&i| read(at + i * unit) == value)
                .count();
        let last = open.filter(|&control| run < RUN_MIN && out[control] < LITERALS_MAX);
        let head = match last {
            Some(_) => 0,
            None if run > RUN_SHORT => 3,
            None => 1,
        };
        if len + head + unit > out.len() {
            break;
        }
        let units = if run < RUN_MIN { 1 } else { run };
        match last {
            Some(control) => out[control] += 1,
            None if run < RUN_MIN => {
                open = Some(len);
                out[len] = 0;
            }
            None => {
                open = None;
                out[len] = if run > RUN_SHORT {
                    put_u16(out, len + 1, run as u16);
                    LONG
                } else {
                    (run + RUN) as u8
                };
            }
        }
        out[len + head..][..unit].copy_from_slice(&value[..unit]);
        len += head + unit;
        at += units * unit;
    }
    (len, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// 2 KiB a page: entries of one byte and of two.
    fn chips() -> [Geometry; 2] {
        [64, 128].map(|ppb| Geometry::new(2048, 64, ppb, 65_536).unwrap())
    }

    fn write(geo: &Geometry, string: &[u8]) -> Vec<Vec<u8>> {
        let (mut pages, mut from) = (vec![], 0);
        while from < string.len() {
            let mut page = vec![0xff; geo.page_size() as usize];
            let (len, end) = fill(geo, &mut page, (from, string.len()), false, |k| string[k]);
            page.truncate(len);
            pages.push(page);
            // Also when the string changes before the next page, there are
            // no more than of plain ones.
            let plain = geo.page_size() as usize - PIECE;
            assert!(end - from >= plain.min(string.len() - from));
            from = end;
        }
        pages
    }

    fn read(geo: &Geometry, pages: &[Vec<u8>]) -> Vec<u8> {
        let mut string = vec![];
        for page in pages {
            let piece = Piece::on(geo, page, page.len()).unwrap();
            assert!(piece.is_sane(geo));
            assert_eq!(piece.from, string.len());
            string.extend(piece.bytes());
        }
        string
    }

    fn plain(geo: &Geometry, len: usize) -> usize {
        len.div_ceil(geo.page_size() as usize - PIECE)
    }

    /// Writes and reads; gives the pages.
    fn there_and_back(geo: &Geometry, string: &[u8]) -> usize {
        let pages = write(geo, string);
        assert!(read(geo, &pages) == string);
        assert!(pages.len() <= plain(geo, string.len()));
        pages.len()
    }

    fn random(seed: u32) -> impl FnMut(u32) -> u32 {
        let mut state = seed;
        move |below| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % below
        }
    }

    #[test]
    fn runs_take_a_page() {
        for geo in chips() {
            let len = longest(&geo);
            assert_eq!(there_and_back(&geo, &vec![0xff; len]), 1);
            // What is full and what is free, and half an erase block between.
            let mut string = vec![0xff; len];
            string[..len / 2].fill(185);
            string[len / 2..][..4].copy_from_slice(&[140, 0, 7, 1]);
            assert_eq!(there_and_back(&geo, &string), 1);
        }
    }

    #[test]
    fn what_has_no_runs_takes_no_more_than_before() {
        for geo in chips() {
            let size = blockstate::entry_size(geo.pages_per_block());
            let len = longest(&geo);
            let mut next = random(7);
            let noise: Vec<u8> = (0..len).map(|_| next(256) as u8).collect();
            assert_eq!(there_and_back(&geo, &noise), plain(&geo, len));
            let in_turn: Vec<u8> = (0..len).map(|k| (k / size % 2) as u8).collect();
            assert_eq!(there_and_back(&geo, &in_turn), plain(&geo, len));
            // Twice the same is no run.
            let twos: Vec<u8> = (0..len).map(|k| (k / size / 2 % 2) as u8).collect();
            assert_eq!(there_and_back(&geo, &twos), plain(&geo, len));
        }
    }

    #[test]
    fn entries_of_two_bytes_are_units() {
        let [narrow, wide] = chips();
        let string: Vec<u8> = [0x85, 0x7f].repeat(blockstate::size(&wide) / 2);
        assert_eq!(there_and_back(&wide, &string), 1);
        let half = &string[..blockstate::size(&narrow)];
        assert_eq!(there_and_back(&narrow, half), plain(&narrow, half.len()));
    }

    /// Runs of all lengths among others, and the ends of all lengths.
    #[test]
    fn any_string_comes_back() {
        for geo in chips() {
            let unit = blockstate::entry_size(geo.pages_per_block());
            let mut next = random(3);
            for round in 0..300 {
                let len = (1 + next(6_000) as usize) * unit;
                let longest_run = [2, 4, 40, 140, 3_000][round % 5];
                let mut string = vec![];
                while string.len() < len {
                    let value = next(0x1_0000).to_le_bytes();
                    let times = 1 + next(longest_run) as usize;
                    string.extend(value[..unit].repeat(times));
                }
                string.truncate(len);
                there_and_back(&geo, &string);
            }
        }
    }

    #[test]
    fn pages_numbered_as_before_are_read() {
        for geo in chips() {
            let mut next = random(5);
            let string: Vec<u8> = (0..longest(&geo)).map(|_| next(9) as u8).collect();
            let pages: Vec<Vec<u8>> = string
                .chunks(geo.page_size() as usize - PIECE)
                .enumerate()
                .map(|(number, bytes)| {
                    let mut page = vec![0; PIECE];
                    put_u16(&mut page, HEADER, number as u16);
                    page.extend(bytes);
                    page
                })
                .collect();
            assert!(read(&geo, &pages) == string);
        }
    }

    #[test]
    fn what_means_nothing_is_not_sane() {
        for geo in chips() {
            let unit = blockstate::entry_size(geo.pages_per_block());
            let sane = |form: u8, at: u32, bytes: &[u8]| {
                let mut page = vec![0; PIECE];
                put_u32(&mut page, HEADER, at | u32::from(form) << 24);
                page.extend(bytes);
                Piece::on(&geo, &page, page.len()).is_some_and(|piece| piece.is_sane(&geo))
            };
            let end = most(&geo) as u32;
            let three = [&[128][..], &[7; 2][..unit]].concat();
            assert!(sane(CODED, 0, &three));
            assert!(sane(CODED, end - 3 * unit as u32, &three));
            assert!(!sane(CODED, end - 3 * unit as u32 + 1, &three));
            assert!(!sane(CODED, 0xff_ffff, &three));
            assert!(!sane(3, 0, &three));
            assert!(!sane(TABLELESS, 0, &three));
            assert!(sane(CODED | TABLELESS, 0, &three));
            assert!(!sane(CODED, 0, &three[..unit]));
            assert!(!sane(CODED, 0, &[&three[..], &[0]].concat()));
            assert!(!sane(CODED, 0, &[255, 9]));
            assert!(!sane(CODED, 0, &[255, 0, 0, 1, 1][..3 + unit]));
            assert!(sane(CODED, 0, &[255, 1, 0, 1, 1][..3 + unit]));
            assert!(!sane(CODED, 0, &[1, 1, 1][..1 + unit]));
            // Long runs, one after another.
            let long = [255, 255, 255, 1, 1];
            assert!(!sane(CODED, 0, &long[..3 + unit].repeat(3)));
            assert!(sane(PLAIN, end - 5, &[1; 5]));
            assert!(!sane(PLAIN, end - 5, &[1; 6]));
            assert!(!sane(NUMBERED, 100, &[1; 6]));
        }
    }
}
