//! The allocation log: a record names blocks before they are taken.

use crate::error::{Bool, Fault};
use crate::format::area::{HEADS, Head, LogArea};
use crate::format::blockstate::BlockState;
use crate::format::header::{HEADER, Kind};
use crate::format::limits::{BITMAP_BLOCKS, RESERVES};
use crate::space::allocation::{DATA_BATCH, FILE_BATCH, SINGLES, UPDATE_BATCH};
use crate::space::block_list::BlockList;
use crate::space::store::Store;
use flashkit_bytes::{put_u16, put_u32};
use flashkit_nand::{Nand, PageAddr};

/// Blocks reserved ahead for the allocation log: one may fail when it is erased or programmed.
pub(crate) const LOG_AHEAD: usize = 2;

/// Pages left in a block of the allocation log when the next one is erased: more than the records
/// of one change.
const LOG_MARGIN: u32 = 8;

/// Blocks that are reserved, in the order in which they will be taken, and the blocks of the log
/// whose records name them.
pub(crate) struct AllocLog {
    pub reserves: [(u16, u8); RESERVES],
    pub reserved: usize,
    /// How many of them, the last ones, no page on flash names yet.
    pub unnamed: usize,
    /// The reserved block of the allocation log that has been erased already.
    pub ready: u32,
    /// While a session begins: the blocks of the allocation log in which a mount looks for that.
    pub beginning: Option<[u32; LOG_AHEAD]>,
    /// No block that a page on flash names is left for the allocation log: only a checkpoint helps.
    pub lost: bool,
    /// A checkpoint is being written, that will name the block of the log.
    pub naming: bool,
    /// It has taken blocks that no page names yet.
    pub took_unnamed: bool,
    /// Whether this session has written yet (see [`Store::begin_session`]).
    pub session: bool,
    /// In a recovery, and while the mount restores room after it: the checkpoint that ends it names
    /// all blocks that it takes, so there are no records of them, and nobody looks for inode pages
    /// among what it writes. So metadata of all areas, little of each, goes to one block.
    pub together: bool,
    /// Set while formatting: no allocation records.
    pub formatting: bool,
    pub blocks: BlockList<BITMAP_BLOCKS>,
}

impl AllocLog {
    pub fn new() -> Self {
        AllocLog {
            reserves: [(0, 0); RESERVES],
            reserved: 0,
            unnamed: 0,
            ready: u32::MAX,
            beginning: None,
            lost: false,
            naming: false,
            took_unnamed: false,
            formatting: false,
            session: false,
            together: false,
            blocks: BlockList::new(),
        }
    }
}

impl<N: Nand> Store<'_, N> {
    /// The first write of a session goes to a freshly erased block of the allocation log: an
    /// unclean stop before it leaves the volume as the clean unmount did, and no page that an
    /// interrupted program may have touched is ever programmed.
    ///
    /// The session has begun with the *second* record: when that is being programmed, the first is
    /// complete and stays readable. Two programs.
    pub fn begin_session(&mut self) -> Result<(), Fault> {
        if self.log.session {
            return Ok(());
        }
        self.log.session = true;
        let mut named = [u32::MAX; LOG_AHEAD];
        let mut count = 0;
        for i in 0..self.log.reserved {
            let block = u32::from(self.log.reserves[i].0);
            if self.log.reserves[i].1 == LogArea::Bitmap as u8 && count < LOG_AHEAD {
                named[count] = block;
                count += 1;
            }
            if self.state(block) == BlockState::Clean {
                self.set_state(block, BlockState::Free);
            }
        }
        self.heads.log[LogArea::Bitmap as usize] = Head::NONE;
        for area in 0..HEADS {
            let block = self.heads.log[area].block;
            if block != u32::MAX && !self.is_good(block)?.is_true() {
                self.heads.log[area] = Head::NONE;
            }
        }
        let block = self.table.head().block;
        if block != u32::MAX && !self.is_good(block)?.is_true() {
            self.table.set_head(Head::NONE);
        }
        if self.log.formatting || self.log.together {
            return self.reserve(None);
        }
        self.log.beginning = Some(named);
        let mut shown = self.reserve(None).and_then(|()| self.write_alloc_record());
        if shown.is_ok() && self.heads.log[LogArea::Bitmap as usize].next < 2 {
            // A program has failed between the two, and they do not show that the session began.
            shown = self.write_alloc_record();
        }
        let head = self.heads.log[LogArea::Bitmap as usize];
        if matches!(shown, Err(Fault::NoSpace)) || (shown.is_ok() && head.next < 2) {
            return self.miss_beginning(named);
        }
        self.log.beginning = None;
        shown
    }

    /// None of the blocks that could show the beginning of the session can be written. A mount that
    /// follows a cut finds the volume as it was unmounted, and trusts it: what the block
    /// table calls erased must be so, and the open blocks must not have been written. What
    /// may be done then is to write another checkpoint, at once ([`Durable::begin`]). Marking
    /// the blocks bad makes that mount do the same as this one does now, with the same
    /// blocks, which it erases first.
    fn miss_beginning(&mut self, named: [u32; LOG_AHEAD]) -> Result<(), Fault> {
        for block in named {
            if block != u32::MAX && self.is_good(block)?.is_true() {
                self.mark_bad(block)?;
            }
        }
        self.heads.log[LogArea::Bitmap as usize] = Head::NONE;
        self.log.lost = true;
        Err(Fault::NoSpace)
    }

    /// Makes sure, while the block of the allocation log has room for it to be named, that the next
    /// one can be erased. `false` when only a checkpoint can name another.
    pub fn ready_log(&mut self) -> Result<Bool, Fault> {
        if self.log.lost {
            return Ok(Bool::False);
        }
        while self.log.session && self.heads.log[LogArea::Bitmap as usize].block != u32::MAX {
            let room = self.ppb() - self.heads.log[LogArea::Bitmap as usize].next;
            if room > LOG_MARGIN {
                break;
            }
            let next = (0..self.log.reserved - self.log.unnamed)
                .find(|&i| self.log.reserves[i].1 == LogArea::Bitmap as u8);
            match next {
                Some(i) if u32::from(self.log.reserves[i].0) == self.log.ready => break,
                Some(i) => {
                    let block = u32::from(self.log.reserves[i].0);
                    let erased = self.is_clean(block)?.is_true();
                    if self.prepare(block, !erased)?.is_true() {
                        self.log.ready = block;
                    } else {
                        self.unreserve(i);
                    }
                }
                None if room < 2 => return Ok(Bool::False),
                None => self.reserve(None)?,
            }
        }
        Ok(Bool::True)
    }

    fn reserve_one(&mut self, area: LogArea) -> Result<(), Fault> {
        let block = match area {
            LogArea::Data | LogArea::Update => self.pick()?,
            _ => self.pick_for(area as usize)?,
        };
        self.push_reserve(block, area);
        Ok(())
    }

    pub(crate) fn push_reserve(&mut self, block: u32, area: LogArea) {
        self.log.reserves[self.log.reserved] = (block as u16, area as u8);
        self.log.reserved += 1;
        self.log.unnamed += 1;
        self.drawn += 1;
        self.since.update_blocks += u32::from(area == LogArea::Update);
    }

    /// Reserves blocks for an area, and two for the allocation log when it has none ahead, and
    /// makes the reservation durable by one allocation record.
    pub(crate) fn reserve(&mut self, area: Option<LogArea>) -> Result<(), Fault> {
        if let Some(area) = area.filter(|&a| a != LogArea::Bitmap) {
            let want = match area {
                LogArea::Data => (self.tally.free / 32).clamp(1, DATA_BATCH),
                LogArea::Update => (self.tally.free / 32).clamp(1, UPDATE_BATCH),
                LogArea::File => (self.tally.free / 64).clamp(1, FILE_BATCH),
                _ => 1,
            };
            for i in 0..want {
                if i > 0 && self.log.reserved + LOG_AHEAD + 1 + SINGLES >= RESERVES {
                    break;
                }
                match self.reserve_one(area) {
                    Err(Fault::NoSpace) if i > 0 => break,
                    r => r?,
                }
            }
        }
        if self.log.formatting || self.log.together {
            if area == Some(LogArea::Bitmap) {
                self.reserve_one(LogArea::Bitmap)?;
            }
            return Ok(());
        }
        self.record_reserves()
    }

    /// Makes reservations durable, and some for the allocation log when it has none ahead.
    pub(crate) fn record_reserves(&mut self) -> Result<(), Fault> {
        let head = self.heads.log[LogArea::Bitmap as usize];
        let full = head.block == u32::MAX || head.next >= self.ppb();
        for i in self.log_ahead()..LOG_AHEAD + usize::from(full) {
            match self.reserve_one(LogArea::Bitmap) {
                // The checkpoint names those ahead itself.
                Err(Fault::NoSpace) if self.log.naming && i >= usize::from(full) => break,
                r => r?,
            }
        }
        self.write_alloc_record()
    }

    /// Makes sure that blocks for the allocation log are reserved; the checkpoint that follows
    /// names them.
    pub fn reserve_bitmap(&mut self) -> Result<(), Fault> {
        for i in self.log_ahead()..LOG_AHEAD {
            match self.reserve_one(LogArea::Bitmap) {
                Err(Fault::NoSpace) if i > 0 => break,
                r => r?,
            }
        }
        Ok(())
    }

    /// Pages that the allocation log has in the block being written and in those kept for
    /// it, but the last of them.
    pub fn log_room(&self) -> u32 {
        let head = self.heads.log[LogArea::Bitmap as usize];
        let open = match head.block {
            u32::MAX => 0,
            _ => self.ppb() - head.next,
        };
        open + (self.log_ahead() as u32).saturating_sub(1) * self.ppb()
    }

    /// Blocks kept for the allocation log.
    fn log_ahead(&self) -> usize {
        let kept = self.log.reserves[..self.log.reserved].iter();
        kept.filter(|r| r.1 == LogArea::Bitmap as u8).count()
    }

    /// ```text
    /// 32 count u16   34 written by a checkpoint u16   36 entries: block u16, area u8, 0
    /// ```
    fn write_alloc_record(&mut self) -> Result<(), Fault> {
        let mut page = [0u8; HEADER + 4 + 4 * RESERVES];
        let new = &self.log.reserves[self.log.reserved - self.log.unnamed..self.log.reserved];
        put_u16(&mut page, HEADER, new.len() as u16);
        put_u16(&mut page, HEADER + 2, self.log.naming.into());
        let mut len = HEADER + 4;
        for &(block, area) in new {
            put_u32(&mut page, len, u32::from(block) | u32::from(area) << 16);
            len += 4;
        }
        self.append(
            LogArea::Bitmap,
            &mut page[..len],
            Kind::Alloc,
            PageAddr::NONE,
        )?;
        self.log.unnamed = 0;
        Ok(())
    }
}
