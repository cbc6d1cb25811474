//! Finds the anchor that counts, and by it the log.
//!
//! What a cut has left of an anchor may read as complete and be gone later, or the other way round.
//! So an anchor counts only if a page of the log names it: such a page was programmed after it. See
//! `docs/jftl.md`, 3.

use core::ops::Range;

use flashkit_nand::{BlockAddr, Nand};

use crate::anchor::NAMED;
use crate::error::Error;
use crate::layout::{ANCHORS, NONE};
use crate::record::{Anchor, FIRST_BLOCKS, Header};
use crate::scan::End;
use crate::state::{Anchors, Jftl, Log};

/// A search for the anchor that counts.
pub(crate) enum Search {
    /// It may be the newest one.
    Newest,
    /// It is older than a place.
    Below((u32, u32)),
}

impl Search {
    /// Among all there are.
    pub const ALL: Search = Search::Below(NEWEST);
}

/// Higher than the place of any anchor.
const NEWEST: (u32, u32) = (NONE, NONE);

/// An anchor that was found.
pub(crate) struct Found {
    anchor: Anchor,
    page: u32,
    /// Which block of its set.
    at: usize,
    /// The one of the first blocks that leads to it.
    root: u32,
}

impl Found {
    /// Of two the newer one has the higher.
    fn place(&self) -> (u32, u32) {
        (self.anchor.seq, self.page)
    }

    /// Whether a root leads to it.
    fn is_by(&self, root: &Found) -> bool {
        self.anchor.volume == root.anchor.volume && self.anchor.set == root.anchor.set
    }

    fn newer(one: Option<Found>, other: Option<Found>) -> Option<Found> {
        match (one, other) {
            (Some(one), Some(other)) if other.place() > one.place() => Some(other),
            (one, other) => one.or(other),
        }
    }

    /// This one, a root, or a newer one in the blocks that it names.
    fn or_by(mut self, found: Option<Found>) -> Found {
        // An older one: the root has replaced another, and the block with it is the last one. None:
        // there is none yet.
        self.at = found.as_ref().map_or(NAMED, |found| found.at);
        match found {
            Some(found) if found.anchor.seq > self.anchor.seq => Found {
                root: self.root,
                ..found
            },
            _ => self,
        }
    }
}

impl<N: Nand> Jftl<'_, N> {
    /// The anchor in a page, if it is one of a disk of this shape; notes one of another.
    fn read_anchor(
        &mut self,
        page: u32,
        is_other: &mut bool,
    ) -> Result<Option<Anchor>, Error<N::Error>> {
        if !self.load_page(page)? {
            return Ok(None);
        }
        let found = Anchor::parse(&self.lay, self.ram.scratch);
        *is_other |= found.is_some_and(|(_, fits)| !fits);
        Ok(found.filter(|(_, fits)| *fits).map(|(anchor, _)| anchor))
    }

    /// The newest anchor in a set of blocks: the newest of the block whose first one is the newest.
    /// What a cut has left may come up in another block later; then it is not the newest.
    fn newest_in(
        &mut self,
        set: [u32; 4],
        is_other: &mut bool,
    ) -> Result<Option<Found>, Error<N::Error>> {
        let mut best: Option<Found> = None;
        // A block whose first page is lost may hold the newest all the same.
        let mut lost = [false; 4];
        for at in (0..set.len()).filter(|at| set[*at] != NONE) {
            let page = set[at] * self.lay.pages;
            let found = self.find_in(set, at, page..page + 1, NEWEST, is_other)?;
            if found.is_none() {
                lost[at] = !self.ram.scratch.iter().all(|byte| *byte == 0xFF);
            }
            best = Found::newer(best, found);
        }
        let newest = best.as_ref().map(|found| found.at);
        for at in 0..set.len() {
            if newest == Some(at) || lost[at] {
                let first = set[at] * self.lay.pages;
                let pages = first + 1..first + self.lay.pages;
                let found = self.find_in(set, at, pages, NEWEST, is_other)?;
                best = Found::newer(best, found);
            }
        }
        Ok(best)
    }

    /// The newest anchor in some pages of a set's block that is older than a place.
    fn find_in(
        &mut self,
        set: [u32; 4],
        at: usize,
        pages: Range<u32>,
        below: (u32, u32),
        is_other: &mut bool,
    ) -> Result<Option<Found>, Error<N::Error>> {
        let mut best: Option<Found> = None;
        for page in pages {
            let found = self.read_anchor(page, is_other)?.map(|anchor| Found {
                anchor,
                page,
                at,
                root: set[at],
            });
            best = Found::newer(best, found.filter(|found| found.place() < below));
        }
        Ok(best)
    }

    /// The newest anchor.
    fn newest_anchor(&mut self) -> Result<Found, Error<N::Error>> {
        let mut is_other = false;
        match self.newest_in(FIRST_BLOCKS, &mut is_other)? {
            Some(root) => {
                if root.anchor.set == FIRST_BLOCKS {
                    return Ok(root);
                }
                let found = self.newest_in(root.anchor.set, &mut is_other)?;
                let found = found.filter(|found| found.is_by(&root));
                Ok(root.or_by(found))
            }
            None if is_other => Err(Error::Geometry),
            None => Err(self.no_anchor(0)?),
        }
    }

    /// What is said of a chip without an anchor. Where the first pages of two of the first blocks
    /// cannot be read there may be a disk, which who is told of none would format. A first format
    /// that was cut once leaves one such page. There is one where an anchor can be read now: reads
    /// have failed for a while. `known`: anchors that count for none.
    pub(crate) fn no_anchor(&mut self, known: u32) -> Result<Error<N::Error>, Error<N::Error>> {
        let mut signs = 0;
        for block in FIRST_BLOCKS {
            let page = block * self.lay.pages;
            if self.load_page(page)? {
                let found = Anchor::parse(&self.lay, self.ram.scratch);
                signs += 2 * u32::from(found.is_some());
            } else {
                signs += u32::from(!self.nand.is_bad(BlockAddr(block))?);
            }
            if signs >= 2 + known {
                let what = "the anchors";
                return Ok(Error::Damaged { what, page });
            }
        }
        Ok(Error::NotFormatted)
    }

    /// The newest anchor that is older than a place. It reads all pages that may hold anchors, some
    /// of them often, and is asked for when a cut has hit the newest one.
    fn anchor_below(&mut self, below: (u32, u32)) -> Result<Option<Found>, Error<N::Error>> {
        let mut best: Option<Found> = None;
        for (at, block) in FIRST_BLOCKS.into_iter().enumerate() {
            let first = block * self.lay.pages;
            for page in first..first + self.lay.pages {
                let here = page..page + 1;
                let Some(mut root) = self.find_in(FIRST_BLOCKS, at, here, NEWEST, &mut false)?
                else {
                    continue;
                };
                if root.anchor.set != FIRST_BLOCKS {
                    let found = self.newest_by(&root, below)?;
                    root.at = found.as_ref().map_or(NAMED, |found| found.at);
                    best = Found::newer(best, found);
                }
                best = Found::newer(best, Some(root).filter(|root| root.place() < below));
            }
        }
        Ok(best)
    }

    /// The newest anchor in the blocks that a root names that is older than a place.
    fn newest_by(
        &mut self,
        root: &Found,
        below: (u32, u32),
    ) -> Result<Option<Found>, Error<N::Error>> {
        let set = root.anchor.set;
        let mut best: Option<Found> = None;
        for at in (0..set.len()).filter(|at| set[*at] != NONE) {
            let first = set[at] * self.lay.pages;
            let pages = first..first + self.lay.pages;
            let found = self.find_in(set, at, pages, below, &mut false)?;
            let found = found.filter(|found| found.is_by(root));
            best = Found::newer(best, found);
        }
        Ok(best.map(|found| Found {
            root: root.root,
            ..found
        }))
    }

    /// The next anchor to be tried: first the newest. When that does not count, all there are, from
    /// the newest on.
    pub(crate) fn next_anchor(
        &mut self,
        search: &mut Search,
    ) -> Result<Option<Found>, Error<N::Error>> {
        let found = match *search {
            Search::Newest => {
                *search = Search::ALL;
                Some(self.newest_anchor()?)
            }
            Search::Below(place) => {
                let found = self.anchor_below(place)?;
                *search = Search::Below(found.as_ref().map_or(place, Found::place));
                found
            }
        };
        if let Some(found) = &found
            && found.anchor.seq >= self.anchors.seq
        {
            self.anchors.seq = found.anchor.seq;
            self.anchors.newer = self.lay.block_of(found.page);
        }
        Ok(found)
    }

    /// Makes an anchor the one that counts, and takes up its list; whether it stayed what it was.
    /// `is_strict`: in blocks that were ahead, only pages that name it count.
    pub(crate) fn take_up(
        &mut self,
        newest: &Found,
        is_strict: bool,
    ) -> Result<bool, Error<N::Error>> {
        let page = newest.page;
        let readable = self.load_page(page)?;
        let found = Anchor::parse(&self.lay, self.ram.scratch).filter(|_| readable);
        if found.is_none_or(|(anchor, _)| anchor != newest.anchor) {
            return Ok(false);
        }
        let anchor = newest.anchor;
        self.volume = anchor.volume;
        self.log = Log {
            ordinal: anchor.ordinal,
            len: anchor.count,
            ..Log::EMPTY
        };
        self.anchors = Anchors {
            set: anchor.set,
            at: newest.at,
            // Pages behind it may have been cut: the next one goes to another block.
            page: self.lay.pages,
            name: Anchor::name(self.ram.scratch),
            home: self.lay.block_of(page),
            named: self.lay.block_of(page),
            root: newest.root,
            ..self.anchors
        };
        for i in 0..anchor.count {
            let (block, is_ahead) = Anchor::block(self.ram.scratch, i);
            if block < ANCHORS || block >= self.lay.blocks {
                return Err(Error::Damaged {
                    what: "an anchor",
                    page,
                });
            }
            self.ram.set_log(i, block, NONE);
            if is_ahead && is_strict {
                self.ram.set_log_ahead(i);
            }
        }
        Ok(true)
    }

    /// Finds the newest anchor that counts and the last page that does, and leaves this in the
    /// scratch page. Nothing: what a cut has left has changed in between.
    ///
    /// An older anchor may see less of the log because a page has gone since a newer one was tried;
    /// then another try sees it no more. `is_first`: there is another.
    pub(crate) fn find_log(&mut self, is_first: bool) -> Result<Option<End>, Error<N::Error>> {
        let mut search = Search::Newest;
        // The last page by newer ones.
        let mut last = 0;
        while let Some(found) = self.next_anchor(&mut search)? {
            if !self.take_up(&found, true)? {
                return Ok(None);
            }
            match self.find_end() {
                Ok(None) => return Ok(None),
                Ok(Some(end)) if end.last < last && is_first => return Ok(None),
                // An old one: another that counted has been lost, or had to make room.
                Ok(Some(end)) if end.last < last => break,
                Ok(Some(end)) if !end.is_named => last = end.last,
                Ok(Some(end)) if !end.goes_on => return Ok(Some(end)),
                // The anchor that they name is lost.
                Ok(Some(_)) if self.take_up(&found, false)? => return self.find_end(),
                Ok(Some(_)) => return Ok(None),
                Err(e @ (Error::Damaged { .. } | Error::NotFormatted)) => {
                    match self.last_named()? {
                        (true, _) => return Err(e),
                        (false, seq) => last = last.max(seq),
                    }
                }
                Err(e) => return Err(e),
            }
        }
        // The one that the log's end names is lost.
        if !self.take_newest()? {
            return Ok(None);
        }
        self.find_end()
    }

    /// Takes up the newest anchor there is, whatever the log's pages name.
    fn take_newest(&mut self) -> Result<bool, Error<N::Error>> {
        let mut search = Search::ALL;
        match self.next_anchor(&mut search)? {
            Some(newest) => self.take_up(&newest, false),
            None => Ok(false),
        }
    }

    /// Takes up the newest anchor that the last page of its log names, or the newest there is. That
    /// last page.
    pub(crate) fn find_anchor(&mut self) -> Result<Option<Header>, Error<N::Error>> {
        let mut search = Search::Newest;
        let mut last = 0;
        while let Some(found) = self.next_anchor(&mut search)? {
            if !self.take_up(&found, true)? {
                return Ok(None);
            }
            match self.last_readable()? {
                Some(end) if end.seq >= last && end.anchor == self.anchors.name => {
                    return Ok(Some(end));
                }
                Some(end) if end.seq >= last => last = end.seq,
                None if last == 0 => {}
                _ => break,
            }
        }
        if !self.take_newest()? {
            return Ok(None);
        }
        self.last_readable()
    }

    /// Whether the last page of the log that can be read names the anchor taken up, and its number.
    fn last_named(&mut self) -> Result<(bool, u32), Error<N::Error>> {
        let end = self.last_readable()?;
        Ok(end.map_or((false, 0), |h| (h.anchor == self.anchors.name, h.seq)))
    }
}
