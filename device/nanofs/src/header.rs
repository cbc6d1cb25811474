//! The header of a file: one sealed block, written whole.
//!
//! Its three numbers: the file's id, the block that is the spare slot once this header is written,
//! and the first block behind the slots in use. Then words:
//!
//! ```text
//!   3 flags    4 count    5 used      6 next     7 epoch    8 0        9 copies
//!  10 trash_top  11 trash_count 12 trash_head  13 trash_next
//!  14 uid     15 seq      16 length of the name
//!  17 magic   18 version  19 key      20 blocks  21 files   22 salt
//!  23 name, 16 words
//!  39 0
//!  40 roots, 24 words, the oldest first
//!  64 21 copies of 3 words: index of a node, and in bit 31 whether its second block holds it; its
//!     home, where its neighbours point to; its second block
//! 127 unlike that of any other header
//! ```
//!
//! The metadata block, block 0, is a header that has words 17 to 22 only.

pub(crate) const ID: usize = 0;
pub(crate) const SPARE: usize = 1;
pub(crate) const END: usize = 2;
pub(crate) const FLAGS: usize = 3;
/// Nodes in the list.
pub(crate) const COUNT: usize = 4;
/// Bytes in the tail. The header on the medium is right about it when the file is not open.
pub(crate) const USED: usize = 5;
/// Where the next node goes; 0: nowhere yet.
pub(crate) const NEXT: usize = 6;
/// Nodes and tails that were written after this header have it.
pub(crate) const EPOCH: usize = 7;
/// Words of the copies: 3 for each node that has two blocks.
pub(crate) const COPIES: usize = 9;
/// The list that is to be given up: `TRASH_COUNT` nodes from the index `TRASH_TOP` - 1 down, the
/// first at `TRASH_HEAD`; and a block that was promised, or 0.
pub(crate) const TRASH_TOP: usize = 10;
pub(crate) const TRASH_COUNT: usize = 11;
pub(crate) const TRASH_HEAD: usize = 12;
pub(crate) const TRASH_NEXT: usize = 13;
/// Unlike that of any file before it.
pub(crate) const UID: usize = 14;
/// Counts the headers written.
pub(crate) const SEQ: usize = 15;
pub(crate) const NAME_LEN: usize = 16;
pub(crate) const MAGIC: usize = 17;
pub(crate) const VERSION: usize = 18;
pub(crate) const KEY: usize = 19;
pub(crate) const BLOCKS: usize = 20;
pub(crate) const FILES: usize = 21;
pub(crate) const SALT: usize = 22;
/// In bytes.
pub(crate) const NAME: usize = 23 * 4;
/// Before the first root there is a word that is always 0.
pub(crate) const ROOTS: usize = 40;
/// The words of a copy, from here on.
pub(crate) const INDEX: usize = 64;
pub(crate) const HOME: usize = 65;
pub(crate) const SECOND: usize = 66;
/// Of the second half; it depends on all that the header holds.
pub(crate) const LAST: usize = 127;

/// The bytes `NaFS`.
pub(crate) const NAFS: u32 = u32::from_le_bytes(*b"NaFS");
/// Version of the format.
pub const FORMAT_VERSION: u32 = 1;
/// Longest name, in bytes.
pub const NAME_MAX: usize = 64;
/// Files that a volume can be made for at most.
pub const FILES_MAX: u32 = 4096;
/// Nodes that can have two blocks at a time.
pub(crate) const COPIES_MAX: u32 = 21;
/// Words of one.
pub(crate) const COPY: u32 = 3;

/// Flags: the slot holds a file. Without it, the file is deleted.
pub(crate) const FILE: u32 = 1;
/// More may have been written than the header says.
pub(crate) const OPEN: u32 = 4;

/// In the first word of a copy: the second block holds the node, not its home.
pub(crate) const AWAY: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_header_lies_over_another() {
        assert_eq!(NAME + NAME_MAX, 39 * 4);
        assert_eq!((ROOTS + 24, HOME, SECOND), (INDEX, INDEX + 1, INDEX + 2));
        assert_eq!(INDEX + (COPIES_MAX * COPY) as usize, LAST);
        assert_eq!(4 * (LAST + 1), crate::block::BLOCK);
        let words = [
            ID,
            SPARE,
            END,
            FLAGS,
            COUNT,
            USED,
            NEXT,
            EPOCH,
            COPIES,
            TRASH_TOP,
            TRASH_COUNT,
            TRASH_HEAD,
            TRASH_NEXT,
            UID,
            SEQ,
            NAME_LEN,
            MAGIC,
            VERSION,
            KEY,
            BLOCKS,
            FILES,
            SALT,
        ];
        assert!(words.is_sorted_by(|a, b| a < b) && SALT < NAME / 4);
    }
}
