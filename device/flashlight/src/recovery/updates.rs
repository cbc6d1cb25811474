//! Pages of data that an fsync wrote without their inode are found by their tags.

use crate::error::{Bool, Damaged, Fault, sound};
use crate::format::extent::{self, INDEX_END};
use crate::format::header::SEQ;
use crate::format::inode::Stamp;
use crate::format::tag::{self, Form};
use crate::format::update_run::{Run, SeenRun};
use crate::index::Index;
use crate::index::slots::FileSlot;
use flashkit_bytes::get_u64;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// What a recovery must know to tell which updates an inode page shows.
#[derive(Clone, Copy)]
struct Since {
    /// The newest record, written anew, and the number that it had before.
    pub(crate) copy: Option<(PageAddr, u64)>,
    /// Pages with numbers from here on show the updates looked at so far.
    pub(crate) replay: u64,
    /// The checkpoint's number.
    pub(crate) checkpoint: u64,
}

impl<N: Nand> Index<'_, N> {
    /// At the end of a recovery: changes files as the updates did that their inode pages do not
    /// show. A read for each page; for what has changed, what the writes of so many pages cost.
    /// `since` is the checkpoint's number.
    #[inline(never)]
    pub(crate) fn replay_updates(
        &mut self,
        since: u64,
        copy: Option<(PageAddr, u64)>,
    ) -> Result<(), Fault> {
        let known = Since {
            copy,
            replay: self.store.seq,
            checkpoint: since,
        };
        // The run that is read, and whether all of it is.
        let (mut run, mut whole): (Option<Run>, bool) = (None, false);
        let mut from = self.store.updates_to_replay.from;
        for n in 0..self.store.updates_to_replay.blocks.len() {
            let block = self.store.updates_to_replay.blocks.as_slice()[n];
            let mut gap = PageAddr::NONE;
            for index in from..self.store.ppb() {
                let at = self.store.geo.page(BlockAddr(block.into()), index);
                let page = match self.find_update(at, since)? {
                    SeenRun::Page(page) => page,
                    SeenRun::Nothing => break,
                    SeenRun::Damaged => {
                        gap = at;
                        continue;
                    }
                };
                if gap.is_some() {
                    // Neither was power cut then nor did its program fail.
                    self.note_damage(gap, Damaged::Change);
                    gap = PageAddr::NONE;
                }
                if whole && let Some(update) = &run {
                    self.replay_update(update, known, false)?;
                    run = None;
                }
                whole = page.update.is_last();
                Run::add_to(&mut run, &page);
            }
            from = 0;
        }
        if whole && let Some(update) = &run {
            self.replay_update(update, known, true)?;
        }
        for n in 0..self.store.updates_to_replay.blocks.len() {
            let block = self.store.updates_to_replay.blocks.as_slice()[n];
            self.store.close(block.into());
        }
        self.store.updates_to_replay.blocks.clear();
        Ok(())
    }

    /// Reads a page of a block of updates. One read.
    fn find_update(&mut self, at: PageAddr, since: u64) -> Result<SeenRun, Fault> {
        let mut spare = [0u8; tag::UPDATE_SIZE];
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let len = self.store.tags.map_or(0, Form::update_size);
        let status = self.store.nand.read(at, 0, page, &mut spare[..len])?;
        let Some(form) = self.store.tags else {
            return Ok(SeenRun::Nothing);
        };
        if !status.is_readable() {
            return Ok(SeenRun::Damaged);
        }
        Ok(SeenRun::of(
            form,
            page,
            &mut spare,
            at,
            (since, self.store.seq),
        ))
    }

    /// Changes a file as an update did; the `last` of all counts only if it can be read again.
    fn replay_update(&mut self, run: &Run, known: Since, last: bool) -> Result<(), Fault> {
        let i = match self.load_data_file(run.first.tag.owner) {
            // It has been deleted.
            Err(Fault::NotFound | Fault::Invalid) => return Ok(()),
            Err(e) if e.is_damage() => {
                self.note_damage(run.last.at, Damaged::Change);
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
            self.first_after(run, shown, known.checkpoint)?
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
            if !self.replay_page(i, run, k, again)?.is_true() {
                return Ok(());
            }
        }
        let slot = &mut self.files[i];
        slot.file_mut().end_at_least(end);
        // The inode that was written in the middle says when the write began.
        let page = if from == 0 { &run.first } else { &run.last };
        let time = page.update.when.time(slot.file().time(Stamp::Modify));
        slot.file_mut().set_modified(time);
        slot.dirty = true;
        Ok(())
    }

    /// The first page of an update with a number above one.
    fn first_after(&mut self, run: &Run, shown: u64, since: u64) -> Result<usize, Fault> {
        for (k, &at) in run.pages[..run.len].iter().enumerate() {
            if let SeenRun::Page(page) = self.find_update(at, since)?
                && page.seq > shown
            {
                return Ok(k);
            }
        }
        Ok(run.len)
    }

    /// Maps page `k` of an update, or a copy of it; `false` when it cannot be read again.
    fn replay_page(
        &mut self,
        i: FileSlot,
        run: &Run,
        k: usize,
        again: bool,
    ) -> Result<Bool, Fault> {
        let (index, at) = (run.first.tag.index + k as u32, run.pages[k]);
        self.file_room(i, 4 * extent::SIZE)?;
        if again {
            let ino = self.files[i].ino;
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            let read = self.store.read_data(at, page, ino, index);
            if sound(read)?.is_none() {
                return Ok(Bool::False);
            }
            return self.write_scratch(i, index).map(|()| Bool::True);
        }
        self.store.validate(at);
        self.put_page(i, index, at).map(|()| Bool::True)
    }
}
