//! A page of several sectors, each as [`squeeze`] codes it.
//!
//! ```text
//! | "JP" | count | 0 |  10 bytes a slot: sector, home, where it begins (16 bits)
//! | ... | slot 2 | slot 1 |
//! ```
//!
//! A slot ends where the one before begins, and slot 1 with the page. All of it can be read
//! without any other page. A place in the map is the page's number in 28 bits, and above it the
//! slot; 0: the page is one sector.

use flashkit_bytes::{get_u16, get_u32, put_u16, put_u32};

use crate::layout::{NONE, PAGE_BITS, SLOTS};
use crate::squeeze;

/// Stands for the first owner in the tag of such a page.
pub(crate) const MARK: u32 = NONE - 1;
/// The number of the page that is not programmed yet; it is beyond any chip.
pub(crate) const OPEN_PAGE: u32 = (1 << PAGE_BITS) - 3;

const MAGIC: [u8; 2] = *b"JP";
const HEAD: usize = 4;
const ENTRY: usize = 10;

/// Slots of a page; 0 if it is no such page.
pub(crate) fn count(page: &[u8]) -> u32 {
    let count = u32::from(page[2]);
    if page[..2] == MAGIC && page[3] == 0 && count <= SLOTS {
        count
    } else {
        0
    }
}

fn entry(slot: u32) -> usize {
    HEAD + ENTRY * (slot as usize - 1)
}

/// Where a slot begins; slot 0 is the page's end.
fn start(page: &[u8], slot: u32) -> usize {
    match slot {
        0 => page.len(),
        _ => {
            let at = entry(slot) + 8;
            usize::from(get_u16(page, at))
        }
    }
}

/// The sector and the home that a slot was written for.
pub(crate) fn owners(page: &[u8], slot: u32) -> [u32; 2] {
    if slot == 0 || slot > count(page) {
        return [NONE; 2];
    }
    let at = entry(slot);
    [get_u32(page, at), get_u32(page, at + 4)]
}

/// What codes a slot's sector.
pub(crate) fn bytes(page: &[u8], slot: u32) -> Option<&[u8]> {
    if slot == 0 || slot > count(page) {
        return None;
    }
    let (from, to) = (start(page, slot), start(page, slot - 1));
    (from >= entry(count(page) + 1))
        .then(|| page.get(from..to))
        .flatten()
}

/// Makes a page with no slots.
pub(crate) fn clear(page: &mut [u8]) {
    page.fill(0);
    page[..2].copy_from_slice(&MAGIC);
}

/// Makes a page whose only slot says that what these owners held is lost: nothing codes it.
pub(crate) fn lose(page: &mut [u8], owners: [u32; 2]) {
    clear(page);
    set_entry(page, 1, owners, page.len());
}

fn set_entry(page: &mut [u8], slot: u32, owners: [u32; 2], start: usize) {
    let at = entry(slot);
    put_u32(page, at, owners[0]);
    put_u32(page, at + 4, owners[1]);
    put_u16(page, at + 8, start as u16);
    page[2] = slot as u8;
}

/// What became of a sector that was to get a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    Slot(u32),
    /// The page is too full for it.
    NoRoom,
    /// It takes too much of any page.
    TooLong,
}

/// Adds a sector.
pub(crate) fn add(page: &mut [u8], owners: [u32; 2], data: &[u8]) -> Added {
    let slot = count(page) + 1;
    let (from, to) = (entry(slot + 1), start(page, slot - 1));
    let gap = page.get_mut(from..to).unwrap_or_default();
    let room = gap.len();
    let len = squeeze::encode(data, gap);
    // What is longer closes the page for others; of the limits tried, Postmark takes the
    // fewest pages with this one.
    let is_long = len > data.len() / 4 * 3;
    if is_long || len > room || slot > SLOTS {
        gap.fill(0);
        return if is_long {
            Added::TooLong
        } else {
            Added::NoRoom
        };
    }
    page.copy_within(from..from + len, to - len);
    page[from..(to - len).min(from + len)].fill(0);
    set_entry(page, slot, owners, to - len);
    Added::Slot(slot)
}

/// Leaves one slot of a page, as the first one, for these owners; whether there is such a slot.
pub(crate) fn keep_one(page: &mut [u8], slot: u32, owners: [u32; 2]) -> bool {
    let Some(len) = bytes(page, slot).map(<[u8]>::len) else {
        return false;
    };
    let (from, end) = (start(page, slot), page.len());
    page.copy_within(from..from + len, end - len);
    page[entry(2)..end - len].fill(0);
    set_entry(page, 1, owners, end - len);
    true
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use flashkit_sim::Rng;

    #[test]
    fn slots_come_back() {
        let mut page = [0xA5; 512];
        clear(&mut page);
        let data = |i: u32| {
            let mut data = [0; 512];
            put_u32(&mut data, 4 * i as usize, 0xABCD_EF01);
            data
        };
        let mut slots = 0;
        while let Added::Slot(slot) = add(&mut page, [slots, 100 + slots], &data(slots)) {
            slots += 1;
            assert_eq!(slot, slots);
        }
        // Of 512 bytes 4 are the head, 10 a slot's entry, and 21 its code.
        assert_eq!(slots, 14);
        for slot in 1..=slots {
            let code = bytes(&page, slot).unwrap();
            assert!(squeeze::is_code_of(code, &data(slot - 1)) && code.len() == 21);
            assert_eq!(owners(&page, slot), [slot - 1, 99 + slot]);
        }
        let mut noise = [0; 512];
        Rng::new(1).fill(&mut noise);
        assert_eq!(add(&mut page, [0, 0], &noise), Added::TooLong);
        assert!(keep_one(&mut page, 3, [7, 8]));
        assert_eq!((count(&page), owners(&page, 1)), (1, [7, 8]));
        assert!(squeeze::is_code_of(bytes(&page, 1).unwrap(), &data(2)));
        assert_eq!(owners(&page, 2), [NONE; 2]);
    }

    #[test]
    fn a_lost_slot_has_owners_and_no_contents() {
        let (mut page, mut out) = ([0xA5; 512], [0; 512]);
        lose(&mut page, [7, 8]);
        assert!(keep_one(&mut page, 1, [7, 8]), "it is moved as any other");
        assert_eq!((count(&page), owners(&page, 1)), (1, [7, 8]));
        assert!(!squeeze::decode(bytes(&page, 1).unwrap(), &mut out));
    }

    /// Whatever a page holds, a slot is within it, or there is none.
    #[test]
    fn noise_is_borne() {
        let mut rng = Rng::new(3);
        for _ in 0..2_000 {
            let mut page = [0; 512];
            rng.fill(&mut page[..160]);
            page[..4].copy_from_slice(&[b'J', b'P', rng.below(17) as u8, 0]);
            for slot in 0..16 {
                owners(&page, slot);
                let found = bytes(&page, slot).is_some();
                assert_eq!(keep_one(&mut page.clone(), slot, [1, 2]), found);
            }
        }
    }
}
