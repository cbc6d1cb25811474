//! Fields of the checkpoint page, the leaf to which a root leads.

use crate::format::header::SEQ;
use flashkit_bytes::{get_u16, get_u64};

pub(crate) const COPY_OF: usize = 104;

pub(crate) const AFTER_NEXT: usize = 112;

pub(crate) const COUNTS: usize = 114;

pub(crate) const DIR_COPIES: usize = 116;

pub(crate) const FAILING: usize = 124;

pub(crate) const LEVELLING: usize = 140;

pub(crate) const SCRUB: usize = 148;

pub(crate) const PER_PAGE: usize = 150;

pub(crate) const FIELDS: usize = 152;

/// Flags of a checkpoint page.
pub(crate) const UNMOUNTED: u8 = 1;

pub(crate) const CONFIRMED: u8 = 2;

pub(crate) const WIDE: u8 = 4;

/// What a mount has cleaned after its recovery, and was cut in, has numbers of a recovery.
pub(crate) const TOLD: u8 = 8;

/// The checkpoint before, in the same leaf, says the same.
pub(crate) const REPEATED: u8 = 16;

pub(crate) const FLAGS: u8 = UNMOUNTED | CONFIRMED | WIDE | TOLD | REPEATED;

pub(crate) fn block_number(v: u16) -> u32 {
    if v == u16::MAX {
        u32::MAX
    } else {
        u32::from(v)
    }
}

/// What a checkpoint page calls the root page of that round and index: 0 for none.
pub(crate) fn root_name(round: u32, index: u32) -> u16 {
    1 << 15 | (index as u16 & 7) << 8 | round as u16 & 0xff
}

/// The root page that counted when a checkpoint page was written.
pub(crate) fn counted(page: &[u8]) -> u16 {
    get_u16(page, COUNTS)
}

/// The leaves that a checkpoint page names.
pub(crate) fn next_leaves(page: &[u8]) -> [u32; 2] {
    [38, AFTER_NEXT].map(|at| block_number(get_u16(page, at)))
}

/// The number of the checkpoint that a checkpoint page repeats, or its own: pages with
/// larger ones are changes since.
pub(crate) fn since(page: &[u8]) -> u64 {
    // What it is a copy of is older.
    let own = get_u64(page, SEQ);
    match get_u64(page, COPY_OF) {
        seq if (1..own).contains(&seq) => seq,
        _ => own,
    }
}

/// Whether the flags of a checkpoint page agree: there are no others, and
/// only an unmount is confirmed.
pub(crate) fn flags_agree(page: &[u8]) -> bool {
    page[32] & !FLAGS == 0 && (page[32] & CONFIRMED == 0 || is_unmounted(page))
}

/// Whether a checkpoint page says that the volume was unmounted.
pub(crate) fn is_unmounted(page: &[u8]) -> bool {
    page[32] & UNMOUNTED != 0
}
