//! Finds the end of the log.

use flashkit_nand::{Nand, PageAddr};

use crate::error::Error;
use crate::layout::NONE;
use crate::ram::State;
use crate::record::{Anchor, Header, OPEN};
use crate::state::Jftl;

/// What the newest page of the log says.
pub(crate) struct End {
    pub header: Header,
    pub page: u32,
    /// Whether it, or what follows of a transaction without an end, names the anchor that led here,
    /// or is of a program that did not write names.
    pub is_named: bool,
    /// The number of the very last page.
    pub last: u32,
    /// Whether the log goes on in pages that name an anchor that is lost.
    pub goes_on: bool,
}

impl<N: Nand> Jftl<'_, N> {
    /// Reads a page into the scratch page; whether that could be.
    pub(crate) fn load_page(&mut self, page: u32) -> Result<bool, Error<N::Error>> {
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let Self { nand, ram, .. } = self;
        let status = nand.read(PageAddr(page), 0, ram.scratch, &mut [])?;
        Ok(status.is_readable())
    }

    /// Reads a page of the log's list into the scratch page.
    pub(crate) fn load_log_page(
        &mut self,
        i: u32,
        page: u32,
    ) -> Result<Option<Header>, Error<N::Error>> {
        let (block, _) = self.ram.log(i);
        if !self.load_page(block * self.lay.pages + page)? {
            return Ok(None);
        }
        Ok(self.parse_log_page(i))
    }

    /// What the scratch page says, if it is a page of that block of the list.
    fn parse_log_page(&self, i: u32) -> Option<Header> {
        let header = Header::parse(self.volume, self.ram.scratch);
        let counts = |h: &Header| !self.ram.is_log_ahead(i) || h.anchor == self.anchors.name;
        header.filter(|h| self.is_of(h, i) && counts(h))
    }

    fn is_of(&self, header: &Header, i: u32) -> bool {
        header.ordinal == self.log.ordinal.wrapping_add(i)
    }

    /// Finds the last page that counts, and leaves it in the scratch page.
    pub(crate) fn find_end(&mut self) -> Result<Option<End>, Error<N::Error>> {
        let mut last = None;
        let mut has_others = false;
        // The anchor that the block before names. Those behind it were begun later, and name no
        // older one: what does is left from before.
        let mut name = 0;
        for i in 0..self.log.len {
            let begins = |h: &Header| !Anchor::is_older(h.anchor, name);
            let Some(header) = self.load_log_page(i, 0)?.filter(&begins) else {
                let header = Header::parse(self.volume, self.ram.scratch);
                has_others |= header.is_some_and(|header| self.is_of(&header, i));
                if !self.nothing_behind(i, 0, 0, &begins)? {
                    return Ok(None);
                }
                continue;
            };
            self.begin_block(i, header.seq);
            name = header.anchor;
            last = Some(i);
        }
        let Some(at) = last else {
            // A first format that was cut leaves the first anchor, and no page that it leads to.
            return Err(match self.anchors.seq {
                0 | 1 => self.no_anchor(1)?,
                _ => self.damaged_log(0, 0),
            });
        };
        self.log.at = at;
        let mut end: Option<(u32, Header, u32)> = None;
        for page in 0..self.lay.pages {
            let follows = |h: &Header| end.is_none_or(|(seq, _, _)| h.seq.wrapping_sub(seq) <= 1);
            match self.load_log_page(at, page)?.filter(&follows) {
                Some(header) => end = Some((header.seq, header, page)),
                None => {
                    let seq = end.map_or(0, |(seq, _, _)| seq);
                    if !self.nothing_behind(at, page, seq, &follows)? {
                        return Ok(None);
                    }
                    break;
                }
            }
        }
        let Some((seq, header, page)) = end else {
            return Ok(None);
        };
        let (block, _) = self.ram.log(at);
        let place = if header.flags & OPEN == 0 {
            Some((block * self.lay.pages + page, header.seq))
        } else {
            self.find_before(header.part.wrapping_sub(1))?
        };
        let Some((page, last)) = place else {
            return Ok(None);
        };
        let is_named = [0, self.anchors.name].contains(&header.anchor);
        let goes_on = has_others && self.goes_on(seq)?;
        if has_others {
            self.note_copies(last)?;
        }
        let header = self.load_log_end(page)?.filter(|h| h.seq == last);
        Ok(header.map(|header| End {
            header,
            page,
            is_named,
            last: seq,
            goes_on,
        }))
    }

    /// Whether a block of those ahead has the page after the last one, and it names an anchor that
    /// is newer than all there are. What cuts leave does not: the newest complete anchor stays.
    fn goes_on(&mut self, last: u32) -> Result<bool, Error<N::Error>> {
        for i in self.log.at + 1..self.log.len {
            let (block, _) = self.ram.log(i);
            let Some(header) = self.load_log_end(block * self.lay.pages)? else {
                continue;
            };
            let above = Anchor::number_above(header.anchor, self.anchors.seq);
            if self.is_of(&header, i) && header.seq == last.wrapping_add(1) && above > 0 {
                self.anchors.seq = self.anchors.seq.saturating_add(above);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Notes which blocks without a page that counts hold a copy of the last one all the same. What
    /// was read may be a copy that a cut has left and that does not last, and one of these the only
    /// one that does.
    fn note_copies(&mut self, seq: u32) -> Result<(), Error<N::Error>> {
        for i in 0..self.log.len {
            let (block, first) = self.ram.log(i);
            if first == NONE
                && let Some(header) = self.load_log_end(block * self.lay.pages)?
                && self.is_of(&header, i)
                && header.seq == seq
            {
                self.ram.set_log_stale(i);
            }
        }
        Ok(())
    }

    /// Notes the number of a block's first page.
    pub(crate) fn begin_block(&mut self, i: u32, first: u32) {
        // A transaction that had no end may have gone on into blocks of its own.
        for void in 0..i {
            let (block, began) = self.ram.log(void);
            if began != NONE && began > first {
                self.ram.set_log(void, block, NONE);
            }
        }
        let (block, _) = self.ram.log(i);
        self.ram.set_log(i, block, first);
    }

    /// What a cut has torn is the last page of its block. If there is a newer one anywhere behind
    /// a page that cannot be read, that is lost, and the log does not end there. Nor does it where
    /// the page `counts` now: it could not be read before. Whether it does end.
    fn nothing_behind(
        &mut self,
        i: u32,
        page: u32,
        seq: u32,
        counts: &dyn Fn(&Header) -> bool,
    ) -> Result<bool, Error<N::Error>> {
        let (block, _) = self.ram.log(i);
        if self.load_page(block * self.lay.pages + page)? {
            return Ok(!self.parse_log_page(i).is_some_and(|header| counts(&header)));
        }
        for behind in page + 1..self.lay.pages {
            let header = self.load_log_page(i, behind)?;
            if header.is_some_and(|header| header.seq > seq) {
                return Err(self.damaged_log(i, page));
            }
        }
        Ok(true)
    }

    /// Chooses where the last page is repeated, and returns the page to repeat. Usually that is the
    /// next block that is set aside. When mounts in a row were cut, each after it had repeated the
    /// page or while it did, the list must not grow with each: then it is one that a cut has left
    /// without a page, or the oldest of four that hold nothing but this page.
    pub(crate) fn go_back(&mut self, end: &End) -> Result<u32, Error<N::Error>> {
        if self.lay.index_of(end.page) != 0 {
            return Ok(end.page);
        }
        let (seq, at) = (end.header.seq, self.log.at);
        let holds = |disk: &Self, i: u32| disk.ram.log(i).1;
        let mut begin = at;
        while begin > 0 && [NONE, seq].contains(&holds(self, begin - 1)) {
            begin -= 1;
        }
        let is_void = |disk: &Self, i: u32, stale: bool| {
            holds(disk, i) == NONE
                && disk.ram.state(disk.ram.log(i).0) == State::Log
                && disk.ram.is_log_stale(i) == stale
        };
        let void = (begin..at).find(|i| is_void(self, *i, false));
        if void.is_none() && self.give_up_copy(begin, seq) {
            return Ok(end.page);
        }
        if void.is_none() && self.log_ahead() == 0 {
            self.set_aside()?;
        }
        let repeats = (begin..=at).filter(|i| holds(self, *i) == seq).count();
        let is_last = self.log_ahead() == 0;
        // What follows the page needs a block behind it, or it could not be repeated itself.
        let is_tight = self.log_ahead() <= 1 && self.log.len == self.lay.log_list();
        let oldest = (begin..=at).find(|i| holds(self, *i) == seq);
        let mut page = end.page;
        let target = match (void, oldest) {
            (Some(void), _) => void,
            (None, Some(oldest)) if repeats >= 4 || is_tight && repeats >= 2 => oldest,
            _ if is_last => match (begin..at).find(|i| is_void(self, *i, true)) {
                Some(copy) => copy,
                None => match self.find_repeated(begin, seq)? {
                    Some(repeated) => {
                        page = repeated;
                        at
                    }
                    None => return Ok(page),
                },
            },
            _ => return Ok(page),
        };
        for i in target..=at {
            if i != target && (holds(self, i) == seq || self.ram.is_log_stale(i)) {
                self.ram.set_log_stale(i);
            } else {
                let (block, _) = self.ram.log(i);
                self.ram.set_log(i, block, NONE);
            }
        }
        self.log.at = target.wrapping_sub(1);
        Ok(page)
    }

    /// Of four copies of the last page, the block behind the newest gives up its own, if it holds
    /// one: it is the oldest. Passed over, such blocks would be in the list for nothing, and fill
    /// it.
    fn give_up_copy(&mut self, begin: u32, seq: u32) -> bool {
        let is_copy = |i: &u32| self.ram.log(*i).1 == seq || self.ram.is_log_stale(*i);
        let next = self.log.at + 1;
        let is_one = next < self.log.len && self.ram.is_log_stale(next);
        if !is_one || (begin..self.log.len).filter(is_copy).count() < 4 {
            return false;
        }
        let (block, _) = self.ram.log(next);
        self.ram.set_log(next, block, NONE);
        true
    }

    /// The page that a block repeats, in the one before.
    fn find_repeated(&mut self, i: u32, seq: u32) -> Result<Option<u32>, Error<N::Error>> {
        let Some(before) = i.checked_sub(1) else {
            return Ok(None);
        };
        let (block, _) = self.ram.log(before);
        for page in 0..self.lay.pages {
            match self.load_log_page(before, page)? {
                Some(header) if header.seq == seq => {
                    return Ok(Some(block * self.lay.pages + page));
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }

    pub(crate) fn load_log_end(&mut self, page: u32) -> Result<Option<Header>, Error<N::Error>> {
        let readable = self.load_page(page)?;
        Ok(Header::parse(self.volume, self.ram.scratch).filter(|_| readable))
    }

    /// Finds the page before a transaction that has no end, and its number.
    fn find_before(&mut self, seq: u32) -> Result<Option<(u32, u32)>, Error<N::Error>> {
        let at = (0..=self.log.at).rev().find(|i| {
            let first = self.ram.log(*i).1;
            first != NONE && first <= seq
        });
        let Some(at) = at else {
            return Err(self.damaged_log(0, 0));
        };
        let mut end = None;
        for page in 0..self.lay.pages {
            match self.load_log_page(at, page)? {
                Some(header) if header.seq <= seq => end = Some(page),
                _ => break,
            }
        }
        let Some(page) = end else {
            return Err(self.damaged_log(at, 0));
        };
        let (block, _) = self.ram.log(at);
        let page = block * self.lay.pages + page;
        match self.load_log_end(page)? {
            Some(header) if header.seq == seq => Ok(Some((page, seq))),
            _ => Err(self.damaged_log(at, 0)),
        }
    }

    pub(crate) fn damaged_log(&self, i: u32, page: u32) -> Error<N::Error> {
        Error::Damaged {
            what: "a page of the log",
            page: self.ram.log(i).0 * self.lay.pages + page,
        }
    }
}
