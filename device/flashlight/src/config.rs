//! What the one who mounts decides.

/// Erases between two moves, by default: `0.6 * 52 / sqrt(12)` is 9, less than one in a hundred of
/// a thousand erases, with 60 % of the data at rest; and each move is one erase more in 51.
pub(crate) const INTERVAL: u32 = 52;

/// When blocks with obsolete pages are cleaned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cleaner {
    /// The paper's: as soon as the dirty list is longer than a threshold.
    Paper,
    /// When free blocks run low.
    #[default]
    Space,
}

/// Choices of a mount. Any choice mounts any volume.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Refuses every change. A volume that was not unmounted needs its recovery all the same,
    /// so the chip is written then.
    pub read_only: bool,
    /// Nothing of what is written is kept: the chip is a copy, or one laid over an image that is to
    /// stay as it is. A recovery makes nothing durable then and needs no free block: where there is
    /// none, it takes those of the checkpoint that it began from. Only with `read_only`, and never
    /// on the chip itself: that loses the volume.
    pub discarded: bool,
    /// Default: [`Cleaner::Space`].
    pub cleaner: Cleaner,
    /// [`Cleaner::Paper`]: blocks on the dirty list that start cleaning (paper: 140).
    pub dirty_threshold: usize,
    /// [`Cleaner::Paper`]: blocks cleaned at a time (paper: 9).
    pub gc_batch: usize,
    /// Erases between two moves of a block whose data stays, for the sake of wear; 0: none is
    /// moved. Fewer erases level more and cost more: the erase counts deviate by about a sixth of
    /// this number, and one erase in as many is for levelling. Default: 52.
    pub wear_interval: u32,
    /// Corrected bits of a page from which on its block is written anew; `None`: three quarters of
    /// those that the chip corrects
    /// ([`Nand::correctable_bits`](flashkit_nand::Nand::correctable_bits)),
    /// rounded up. `u32::MAX`: never.
    pub refresh_bits: Option<u32>,
    /// Pages that look erased may have been programmed, by a programmer that wrote the
    /// volume to the chip (`transfer.rs`): only blocks that are erased first are written,
    /// as after an unclean stop.
    pub after_transfer: bool,
    /// Blocks that a page of the block table has entries for, on a volume that is made so
    /// ([`FlashLight::format_with`](crate::FlashLight::format_with)) or was. 0: as many as fit, on
    /// a chip whose table is longer than a page; on others all of it is in RAM. Small numbers let
    /// small chips have tables of many pages, for tests; with more of them than half of those of a
    /// block, a change may take more blocks than room is kept for. `u32::MAX`: all of it is in RAM
    /// on any chip, as on volumes that were made before there was a choice; a mount finds out by
    /// itself, and says what RAM it needs.
    pub table_page: u32,
    /// Entries of the dirty list at most, 4 or more; 0: as many as there is RAM for. With small
    /// numbers small chips do what others do when it is full.
    pub dirty_entries: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            read_only: false,
            discarded: false,
            cleaner: Cleaner::default(),
            dirty_threshold: 140,
            gc_batch: 9,
            wear_interval: INTERVAL,
            refresh_bits: None,
            after_transfer: false,
            table_page: 0,
            dirty_entries: 0,
        }
    }
}
