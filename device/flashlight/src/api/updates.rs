//! Updates: pages overwritten or appended so that an fsync has nothing more to write.
//!
//! A FileInode page for each fsync doubles what the overwrite of a page costs. An update is a write
//! of a few whole pages of a file that has just been synced, within it or at its end, or of a *tail*: a piece that
//! is appended to its last page and does not fit the inode. Its pages go to blocks that are
//! reserved for updates in the allocation log, and their tags say besides when that was, and how many
//! pages of the write follow. As long as nothing but updates has changed a file since its page on
//! flash was written, these pages are all that an fsync has to see on flash.
//!
//! After a cut ([`FlashLight::replay_updates`]) the blocks of updates taken since the checkpoint are
//! read. An update counts if all its pages are there and its file's inode page is older; the file is
//! changed as the write changed it. Invariants:
//! * The page of the inode that a recovery finds, with the updates after it, is a state of the file: other
//!   changes wait for an inode page, and from there on the file's writes are no updates until it is synced
//!   again.
//! * Where a page has been moved to since, or which map names it, needs no inode page: nothing that
//!   the inode page or the update named is erased before the next checkpoint, which writes the inode.
//! * The last update of all may be the page whose program was cut: what reads well now may fail
//!   later. It counts when it reads well again, and is written anew.

use crate::error::{Error, sound};
use crate::format::bytes::get_u64;
use crate::format::extent::{self, INDEX_END};
use crate::format::header::SEQ;
use crate::format::inode::Time;
use crate::format::tag::{self, PAGES_MOST, Tag, Update};
use crate::index::file::KEPT_BY_WRITES;
use crate::recovery::recover::CHANGE;
use crate::space::store::{Area, Store, UPDATE};
use crate::{FileRef, FlashLight};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Pages at the end of a file at most: with more of them the inode page weighs little, and they had better lie in the
/// file's own block than among what is overwritten.
const GROWTH: usize = 4;
/// Pages written to a file without an fsync in between, from which on they are no updates.
const UNSYNCED_MAX: u32 = 64;
/// Blocks reserved for updates between two checkpoints at most.
pub(crate) const UPDATE_BLOCKS: usize = 40;
/// Blocks that one update may have reserved, with some to spare for programs that fail.
const BLOCKS_MARGIN: usize = 12;
/// Free blocks that recoveries may need beside those for what the updates have changed: for each page of
/// them a map page, an index page and a quarter of an inode page at most.
const FOR_REPLAY: u32 = 15;

/// A page of an update, as a recovery finds it.
#[derive(Clone, Copy)]
struct Found {
    at: PageAddr,
    tag: Tag,
    seq: u64,
    update: Update,
    /// Bytes of it that belong to the file.
    len: u16,
}

/// What a page of a block of updates is.
enum Seen {
    Page(Found),
    /// Erased, or from before the checkpoint: none of this block follows.
    Nothing,
    Damaged,
}

/// Pages of one update: consecutive pages of a file.
#[derive(Clone, Copy)]
struct Run {
    first: Found,
    last: Found,
    pages: [PageAddr; PAGES_MOST],
    len: usize,
}

impl Run {
    fn begin(page: Found) -> Run {
        let mut pages = [PageAddr::NONE; PAGES_MOST];
        pages[0] = page.at;
        Run {
            first: page,
            last: page,
            pages,
            len: 1,
        }
    }

    /// Adds the next page, if it is that; or the last once more, whose program had failed and that reads well.
    fn goes_on(&mut self, page: Found) -> bool {
        let place = |page: &Found| (page.tag.owner.ino, page.tag.index, page.update.left);
        if place(&page) == place(&self.last) {
            self.pages[self.len - 1] = page.at;
            self.last = page;
            return true;
        }
        let next = (self.last.tag.owner.ino, self.last.tag.index.wrapping_add(1));
        let is_next = (page.tag.owner.ino, page.tag.index) == next
            && self.last.update.left.checked_sub(1) == Some(page.update.left)
            && self.len < PAGES_MOST;
        if is_next {
            self.pages[self.len] = page.at;
            self.len += 1;
            self.last = page;
        }
        is_next
    }
}

/// What a recovery must know to tell which updates an inode page shows.
#[derive(Clone, Copy)]
struct Since {
    /// The newest record, written anew, and the number that it had before.
    copy: Option<(PageAddr, u64)>,
    /// Pages with numbers from here on show the updates looked at so far.
    replay: u64,
}

impl<N: Nand> Store<'_, N> {
    /// Counts what is reserved for updates, after a checkpoint.
    pub fn count_updates(&mut self) {
        self.updates = 0;
        let reserved = self.reserves[..self.reserved].iter();
        let reserved = reserved.filter(|r| r.1 == Area::Update as u8).count();
        self.update_blocks = reserved + usize::from(self.fronts[UPDATE].block != u32::MAX);
    }

    /// Whether there is room for the tags of updates.
    pub fn has_updates(&self) -> bool {
        self.geo.spare_size() as usize >= tag::UPDATE_SIZE
    }

    /// Blocks that a recovery from the last checkpoint cannot have, though they were free: those taken since,
    /// and those reserved.
    fn spent(&self) -> u32 {
        self.taken + self.reserved as u32
    }

    /// Whether a recovery could replay more updates.
    fn takes_updates(&self) -> bool {
        self.has_updates()
            && self.update_blocks + BLOCKS_MARGIN <= UPDATE_BLOCKS
            && self.spent() + FOR_REPLAY + self.updates * 3 / (2 * self.ppb()) <= self.sure
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// Whether a write can be an update.
    pub(crate) fn is_update(&self, node: FileRef, offset: u64, len: usize, now: Time) -> bool {
        let ps = self.store.page_size();
        let Some(i) = (self.file_slot(node.ino)).filter(|&i| self.files[i].updates.is_some())
        else {
            return false;
        };
        let (pages, end) = (len / ps, offset.saturating_add(len as u64));
        let view = self.files[i].file();
        let indexes = offset / ps as u64..end / ps as u64;
        (1..=PAGES_MOST).contains(&pages)
            && len.is_multiple_of(ps)
            && offset.is_multiple_of(ps as u64)
            && (end <= view.size()
                || offset == view.size() && pages <= GROWTH && !self.is_half_cut(i))
            && view
                .fragment()
                .is_none_or(|f| !indexes.contains(&u64::from(f.page)))
            && self.takes_updates(i, pages as u32, now)
    }

    /// Writes whole pages, within the file or at its end. A program for each.
    pub(crate) fn write_update(
        &mut self,
        node: FileRef,
        offset: u64,
        data: &[u8],
        now: Time,
    ) -> Result<(), Error<N::Error>> {
        let ps = self.store.page_size();
        let (first, pages) = ((offset / ps as u64) as u32, data.len() / ps);
        for (k, page) in data.chunks_exact(ps).enumerate() {
            let update = Update {
                time: now,
                left: (pages - 1 - k) as u8,
            };
            let written = self.write_update_page(node, first + k as u32, page, update);
            if let Err(e) = written {
                if let Some(i) = self.file_slot(node.ino) {
                    self.files[i].change();
                }
                return Err(e);
            }
        }
        Ok(())
    }

    fn write_update_page(
        &mut self,
        node: FileRef,
        index: u32,
        data: &[u8],
        update: Update,
    ) -> Result<(), Error<N::Error>> {
        self.make_room()?;
        let i = self.load_data_file(node)?;
        self.need_page()?;
        self.need_place(i, KEPT_BY_WRITES)?;
        self.file_room(i, 4 * extent::SIZE)?;
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self.store.append_update(data, owner, index, update)?;
        self.put_update(i, index, at)?;
        let mut view = self.files[i].file_mut();
        view.end_at_least((u64::from(index) + 1) * data.len() as u64);
        view.set_modified(update.time);
        Ok(())
    }

    /// Maps a page of an update that has just been written.
    fn put_update(&mut self, i: usize, index: u32, at: PageAddr) -> Result<(), Error<N::Error>> {
        self.put_page(i, index, at)?;
        // Cleaning may have needed the slot meanwhile: then an fsync writes the inode.
        let slot = &mut self.files[i];
        slot.updates = slot.updates.map(|n| n + 1);
        Ok(())
    }

    /// Writes the scratch page, which ends with a piece that was appended, as an update. A program.
    pub(crate) fn write_tail(
        &mut self,
        i: usize,
        index: u32,
        update: Update,
    ) -> Result<(), Error<N::Error>> {
        let owner = self.files[i].file().file_ref(self.store.volume);
        let at = self
            .store
            .append_update(self.scratch, owner, index, update)?;
        self.put_update(i, index, at)
    }

    /// Whether the write of a piece of one page can be a tail.
    pub(crate) fn tail(&self, i: usize, offset: u64, data: &[u8], now: Time) -> Option<Update> {
        let can_be = offset == self.files[i].file().size()
            && !self.is_half_cut(i)
            && self.takes_updates(i, 1, now);
        can_be.then(|| Update::tail(now, data)).flatten()
    }

    /// Whether so many pages more of a file can be updates.
    fn takes_updates(&self, i: usize, pages: u32, now: Time) -> bool {
        (self.files[i].updates).is_some_and(|n| n + pages <= UNSYNCED_MAX)
            && Update::holds(now)
            && self.store.takes_updates()
    }

    /// Makes a cached file durable: writes its page, unless a recovery finds all that has changed.
    /// Writes that follow can be updates.
    pub(crate) fn sync_file(&mut self, i: usize) -> Result<(), Error<N::Error>> {
        if self.files[i].updates.is_none() || self.store.update_blocks > UPDATE_BLOCKS {
            self.flush_file(i)?;
        }
        self.files[i].updates = Some(0);
        Ok(())
    }

    /// At the end of a recovery: changes files as the updates did that their inode pages do not show.
    /// A read for each page; for what has changed, what the writes of so many pages cost. `since` is
    /// the checkpoint's number.
    pub(crate) fn replay_updates(
        &mut self,
        since: u64,
        copy: Option<(PageAddr, u64)>,
    ) -> Result<(), Error<N::Error>> {
        let known = Since {
            copy,
            replay: self.store.seq,
        };
        let (blocks, count) = (self.store.looked_through, self.store.looked_count);
        let (mut run, mut whole): (Option<Run>, Option<Run>) = (None, None);
        for (n, &block) in blocks[..count].iter().enumerate() {
            let mut gap = PageAddr::NONE;
            let from = if n == 0 { self.store.looked_from } else { 0 };
            for index in from..self.store.ppb() {
                let at = self.store.geo.page(BlockAddr(block.into()), index);
                let page = match self.find_update(at, since)? {
                    Seen::Page(page) => page,
                    Seen::Nothing => break,
                    Seen::Damaged => {
                        gap = at;
                        continue;
                    }
                };
                if gap.is_some() {
                    // Neither was power cut then nor did its program fail.
                    self.note_damage(gap, CHANGE);
                    gap = PageAddr::NONE;
                }
                if let Some(update) = whole.take() {
                    self.replay_update(&update, known, false)?;
                }
                if !run.as_mut().is_some_and(|run| run.goes_on(page)) {
                    run = Some(Run::begin(page));
                }
                if page.update.is_last() {
                    whole = run.take();
                }
            }
        }
        if let Some(update) = whole {
            self.replay_update(&update, known, true)?;
        }
        self.store.looked_count = 0;
        for &block in &blocks[..count] {
            self.store.close(block.into());
        }
        Ok(())
    }

    /// Reads a page of a block of updates. One read.
    fn find_update(&mut self, at: PageAddr, since: u64) -> Result<Seen, Error<N::Error>> {
        let mut spare = [0u8; tag::UPDATE_SIZE];
        self.store.scratch_at = PageAddr::NONE;
        let status = self.store.nand.read(at, 0, self.scratch, &mut spare)?;
        let Some(short) = spare.first_chunk().filter(|_| status.is_readable()) else {
            return Ok(Seen::Damaged);
        };
        let Some(tag) = Tag::decode(short) else {
            let blank = self.scratch.iter().all(|&b| b == 0xff);
            return Ok(if blank { Seen::Nothing } else { Seen::Damaged });
        };
        if !Tag::matches(short, self.scratch) {
            return Ok(Seen::Damaged);
        }
        let seq = tag.seq_after(since);
        match seq.and_then(|seq| Some((seq, Update::decode(&spare, seq)?))) {
            Some((seq, update)) => Ok(Seen::Page(Found {
                at,
                tag,
                seq,
                update,
                len: update.len(self.scratch) as u16,
            })),
            None => Ok(Seen::Nothing),
        }
    }

    /// Changes a file as an update did; the `last` of all counts only if it can be read again.
    fn replay_update(
        &mut self,
        run: &Run,
        known: Since,
        last: bool,
    ) -> Result<(), Error<N::Error>> {
        let i = match self.load_data_file(run.first.tag.owner) {
            // It has been deleted.
            Err(Error::NotFound | Error::Invalid) => return Ok(()),
            Err(e) if e.is_damage() => {
                self.note_damage(run.last.at, CHANGE);
                return Ok(());
            }
            i => i?,
        };
        let mut shown = get_u64(self.files[i].buf, SEQ);
        if let Some((_, before)) = known.copy.filter(|copy| copy.0 == self.files[i].loc) {
            shown = before;
        }
        if shown < known.replay && run.last.seq <= shown {
            return Ok(());
        }
        let from = if shown >= known.replay || run.first.seq > shown {
            0
        } else {
            // Its inode was written in the middle of it.
            self.first_after(run, shown)?
        };
        let ps = self.store.page_size() as u64;
        let page = |index: u32| u64::from(index) * ps;
        let end = page(run.last.tag.index) + u64::from(run.last.len);
        if run.last.tag.index >= INDEX_END
            || page(run.first.tag.index) > self.files[i].file().size()
        {
            return Ok(());
        }
        // The one that may fail yet comes first.
        for k in (from..run.len).rev() {
            let again = last && k + 1 == run.len;
            if !self.replay_page(i, run, k, again)? {
                return Ok(());
            }
        }
        let slot = &mut self.files[i];
        slot.file_mut().end_at_least(end);
        slot.file_mut().set_modified(run.last.update.time);
        slot.dirty = true;
        Ok(())
    }

    /// The first page of an update with a number above one.
    fn first_after(&mut self, run: &Run, shown: u64) -> Result<usize, Error<N::Error>> {
        for (k, &at) in run.pages[..run.len].iter().enumerate() {
            let mut spare = [0u8; tag::SIZE];
            self.store.nand.read(at, 0, &mut [], &mut spare)?;
            let seq = Tag::decode(&spare).map_or(0, |tag| tag.seq);
            let back = (run.last.seq as u32).wrapping_sub(seq);
            if run.last.seq.saturating_sub(back.into()) > shown {
                return Ok(k);
            }
        }
        Ok(run.len)
    }

    /// Maps page `k` of an update, or a copy of it; `false` when it cannot be read again.
    fn replay_page(
        &mut self,
        i: usize,
        run: &Run,
        k: usize,
        again: bool,
    ) -> Result<bool, Error<N::Error>> {
        let (index, at) = (run.first.tag.index + k as u32, run.pages[k]);
        self.file_room(i, 4 * extent::SIZE)?;
        if again {
            self.store.scratch_at = PageAddr::NONE;
            let ino = self.files[i].ino;
            let read = self.store.read_data(at, self.scratch, ino, index);
            if sound(read)?.is_none() {
                return Ok(false);
            }
            return self.write_scratch(i, index).map(|()| true);
        }
        self.store.validate(at);
        self.put_page(i, index, at).map(|()| true)
    }
}
