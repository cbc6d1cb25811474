//! Updates as they are found: pages of one write, by their tags.

use crate::format::tag::{self, Form, PAGES_MOST, Tag, Update};
use flashkit_nand::PageAddr;

/// A page of an update, as a recovery finds it.
#[derive(Clone, Copy)]
pub(crate) struct FoundUpdate {
    pub(crate) at: PageAddr,
    pub(crate) tag: Tag,
    pub(crate) seq: u64,
    pub(crate) update: Update,
    /// Bytes of it that belong to the file.
    pub(crate) len: u16,
}

/// What a page of a block of updates is.
pub(crate) enum SeenRun {
    Page(FoundUpdate),
    /// Erased, or from before the checkpoint: none of this block follows.
    Nothing,
    Damaged,
}

/// Pages of one update: consecutive pages of a file.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) first: FoundUpdate,
    pub(crate) last: FoundUpdate,
    pub(crate) pages: [PageAddr; PAGES_MOST],
    pub(crate) len: usize,
}

impl SeenRun {
    /// Of a page that was read, with its spare bytes, at `at`: of a session from the number `since`
    /// on, in which none as large as `end` was given.
    pub(crate) fn of(
        form: Form,
        page: &[u8],
        spare: &mut [u8; tag::UPDATE_SIZE],
        at: PageAddr,
        (since, end): (u64, u64),
    ) -> SeenRun {
        let Some(tag) = spare.first_chunk_mut() else {
            return SeenRun::Nothing;
        };
        if Tag::decode(form, tag).is_none() && page.iter().all(|&b| b == 0xff) {
            return SeenRun::Nothing;
        }
        let checked = Tag::check(form, tag, page, end);
        let (Some(checked), Some(tag)) = (checked, Tag::decode(form, tag)) else {
            return SeenRun::Damaged;
        };
        let seq = tag.seq_after(since);
        let seq = seq.filter(|seq| form == Form::Wide || seq >> 32 == checked.high.into());
        match seq.and_then(|seq| Some((seq, Update::decode(form, spare, seq)?))) {
            Some((seq, update)) => SeenRun::Page(FoundUpdate {
                at,
                tag,
                seq,
                update,
                len: update.len(page) as u16,
            }),
            None => SeenRun::Nothing,
        }
    }
}

impl Run {
    /// The pages, in their order.
    pub(crate) fn pages(&self) -> &[PageAddr] {
        self.pages.get(..self.len).unwrap_or_default()
    }

    fn begin(page: FoundUpdate) -> Run {
        let mut pages = [PageAddr::NONE; PAGES_MOST];
        pages[0] = page.at;
        Run {
            first: page,
            last: page,
            pages,
            len: 1,
        }
    }

    /// Adds a page to the run that it goes on with, or begins another with it.
    // A call of its own: a run is large, and a recovery goes on below who holds one.
    #[inline(never)]
    pub(crate) fn add_to(run: &mut Option<Run>, page: &FoundUpdate) {
        if !run.as_mut().is_some_and(|run| run.goes_on(page)) {
            *run = Some(Run::begin(*page));
        }
    }

    /// Adds the next page, if it is that; or the last once more, whose program had
    /// failed and that reads well.
    fn goes_on(&mut self, page: &FoundUpdate) -> bool {
        let place = |page: &FoundUpdate| (page.tag.owner.ino, page.tag.index, page.update.left);
        if place(page) == place(&self.last) {
            if let Some(last) = self.pages.get_mut(self.len.wrapping_sub(1)) {
                *last = page.at;
            }
            self.last = *page;
            return true;
        }
        let next = (self.last.tag.owner.ino, self.last.tag.index.wrapping_add(1));
        let is_next = (page.tag.owner.ino, page.tag.index) == next
            && self.last.update.left.checked_sub(1) == Some(page.update.left)
            && self.len < PAGES_MOST;
        if is_next && let Some(place) = self.pages.get_mut(self.len) {
            *place = page.at;
            self.len += 1;
            self.last = *page;
        }
        is_next
    }
}
