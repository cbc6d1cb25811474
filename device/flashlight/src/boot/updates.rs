//! Pages of a file that an fsync has written without its inode, found by their tags.

use crate::boot::log::{block_at, next_of};
use crate::boot::{Boot, Error, File};
use crate::format::area::LogArea;
use crate::format::extent::INDEX_END;
use crate::format::fields::get_u32;
use crate::format::fields::put_u32;
use crate::format::limits::UPDATE_BLOCKS;
use crate::format::tag::{self, Form};
use crate::format::update_run::{FoundUpdate, Run, SeenRun};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Bytes of an update that is kept: index, page.
const KEPT: usize = 8;

/// What the updates since a file's inode come to.
#[derive(Clone, Copy)]
pub(super) struct Updates {
    /// The size of the file.
    pub size: u64,
    pub pages: u32,
    /// The number of the last.
    pub last: u64,
}

impl<N: Nand> Boot<'_, N> {
    /// Looks through the updates for those of a file that its inode does not show. With an index,
    /// keeps where those from it on are, as many as there is room for. A read for each page of
    /// updates since the checkpoint.
    pub(super) fn scan_updates(
        &mut self,
        file: &File,
        from: Option<u32>,
    ) -> Result<Updates, Error> {
        let mut found = Updates {
            size: file.base,
            pages: 0,
            last: 0,
        };
        let Some(form) = self.chip.tags.filter(|form| self.has_updates(*form)) else {
            return Ok(found);
        };
        let (mut run, mut place): (Option<Run>, usize) = (None, 0);
        for _ in 0..UPDATE_BLOCKS {
            let next = next_of(self.list, self.opened, place, LogArea::Update);
            let Some(i) = next.filter(|_| self.recovers) else {
                break;
            };
            place = i + 1;
            let (block, first) = block_at(self.list, i);
            for index in first..self.chip.geo.pages_per_block() {
                let at = self.chip.geo.page(BlockAddr(block), index);
                let page = match self.read_update(form, at)? {
                    SeenRun::Page(page) => page,
                    SeenRun::Nothing => break,
                    SeenRun::Damaged => continue,
                };
                Run::add_to(&mut run, &page);
                if page.update.is_last() {
                    if let Some(run) = &run
                        && run.first.tag.owner.ino == file.ino
                    {
                        self.apply_update(form, file, run, &mut found, from)?;
                    }
                    run = None;
                }
            }
        }
        Ok(found)
    }

    fn has_updates(&self, form: Form) -> bool {
        form == Form::Short || self.chip.geo.spare_size() as usize >= tag::UPDATE_SIZE
    }

    /// Reads a page of a block of updates into the second buffer. One read.
    fn read_update(&mut self, form: Form, at: PageAddr) -> Result<SeenRun, Error> {
        let mut spare = [0; tag::UPDATE_SIZE];
        let (used, _) = spare.split_at_mut(form.update_size());
        if !self.chip.read(at, self.b, used)?.is_readable() {
            return Ok(SeenRun::Damaged);
        }
        let numbers = (self.chip.since, self.chip.end());
        Ok(SeenRun::of(form, self.b, &mut spare, at, numbers))
    }

    /// Changes what is known of a file as a whole update does.
    fn apply_update(
        &mut self,
        form: Form,
        file: &File,
        run: &Run,
        found: &mut Updates,
        from: Option<u32>,
    ) -> Result<(), Error> {
        if run.last.seq <= file.seq {
            return Ok(());
        }
        let page = u64::from(self.chip.geo.page_size());
        let begin = |update: &FoundUpdate| u64::from(update.tag.index) * page;
        if run.last.tag.index >= INDEX_END || begin(&run.first) > found.size {
            return Ok(());
        }
        let mut shown = run.first.seq <= file.seq;
        for (k, &at) in run.pages().iter().enumerate() {
            if shown {
                // The inode was written in the middle of it.
                let seen = self.read_update(form, at)?;
                shown = !matches!(seen, SeenRun::Page(page) if page.seq > file.seq);
            }
            if shown {
                continue;
            }
            found.pages += 1;
            if let Some(from) = from {
                self.keep(from, run.first.tag.index.wrapping_add(k as u32), at);
            }
        }
        found.size = found.size.max(begin(&run.last) + u64::from(run.last.len));
        found.last = run.last.seq;
        Ok(())
    }

    /// Keeps where the newest page of an index is. Where there is no room the largest indexes go.
    fn keep(&mut self, from: u32, index: u32, at: PageAddr) {
        let (_, _, end) = self.window;
        if index < from || index >= end {
            return;
        }
        let mut entries = self.spare.chunks_exact_mut(KEPT).take(self.kept);
        if let Some(entry) = entries.find(|entry| get_u32(entry, 0) == index) {
            put_u32(entry, 4, at.0);
            return;
        }
        if KEPT * (self.kept + 1) > self.spare.len() {
            let entries = self.spare.chunks_exact_mut(KEPT).take(self.kept);
            let Some(last) = entries.max_by_key(|entry| get_u32(entry, 0)) else {
                self.window.2 = from;
                return;
            };
            let largest = get_u32(last, 0);
            self.window.2 = largest.max(index);
            if index < largest {
                put_u32(last, 0, index);
                put_u32(last, 4, at.0);
            }
            return;
        }
        if let Some(entry) = self.spare.get_mut(KEPT * self.kept..KEPT * (self.kept + 1)) {
            put_u32(entry, 0, index);
            put_u32(entry, 4, at.0);
            self.kept += 1;
        }
    }

    /// The update that is a page of a file, if there is one. No read, or those of all updates.
    pub(super) fn update_of(&mut self, file: &File, index: u32) -> Result<Option<PageAddr>, Error> {
        let (of, from, end) = self.window;
        if of != file.page || !(from..end).contains(&index) {
            self.window = (file.page, index, u32::MAX);
            self.kept = 0;
            let found = self.scan_updates(file, Some(index));
            let same =
                |f: &Updates| (f.size, f.pages, f.last) == (file.size, file.updates, file.last);
            match found {
                Ok(found) if same(&found) && index < self.window.2 => {}
                other => {
                    self.window = (PageAddr::NONE, 0, 0);
                    return Err(other.err().unwrap_or(Error::Damaged));
                }
            }
        }
        let entries = self.spare.chunks_exact(KEPT).take(self.kept);
        let entry = entries.into_iter().find(|entry| get_u32(entry, 0) == index);
        Ok(entry.map(|entry| PageAddr(get_u32(entry, 4))))
    }
}
