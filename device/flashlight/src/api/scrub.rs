//! Bits that rot: blocks whose pages had to be corrected are written anew, and an application can
//! have everything in use read for that.
//!
//! The driver says of each read how many bits were wrong. From three quarters of what the ECC can
//! correct on ([`Config::refresh_bits`](crate::Config::refresh_bits)) the page's block is put on a
//! short list, wherever the page is read; the next change, [`FlashLight::gc`] or
//! [`FlashLight::scrub`] moves what is valid in it. Retention and reads wear on all pages of a block
//! alike, so the block is moved, not the page. A list that is full forgets; the next read, or the
//! next round of scrubbing, notices again.

use crate::FlashLight;
use crate::api::walk::{self, Page, Visitor};
use crate::checkpoint::take::ANCHOR_PAGES;
use crate::cleaning::room::FLOOR;
use crate::cleaning::sweep::Why;
use crate::error::Error;
use crate::format::header;
use crate::format::tag::{self, Tag};
use crate::space::store::{Area, Head};
use crate::space::table::State;
use flashkit_nand::{Nand, PageAddr, ReadStatus};

/// Blocks that are remembered at most.
const LIST: usize = 8;

/// Blocks to be written anew, the first noticed first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefreshList {
    blocks: [u32; LIST],
    len: usize,
    /// Corrected bits of a page from which on its block is listed.
    bits: u32,
    pages_per_block: u32,
}

impl RefreshList {
    pub fn new(bits: u32, pages_per_block: u32) -> Self {
        RefreshList {
            blocks: [0; LIST],
            len: 0,
            bits: bits.max(1),
            pages_per_block,
        }
    }

    pub fn note(&mut self, page: PageAddr, status: ReadStatus) {
        if matches!(status, ReadStatus::Corrected(n) if n >= self.bits) {
            self.add(page.0 / self.pages_per_block);
        }
    }

    pub fn add(&mut self, block: u32) {
        if self.len < LIST && !self.blocks[..self.len].contains(&block) {
            self.blocks[self.len] = block;
            self.len += 1;
        }
    }

    pub fn remove(&mut self, block: u32) {
        if let Some(i) = self.blocks[..self.len].iter().position(|&b| b == block) {
            self.blocks.copy_within(i + 1..self.len, i);
            self.len -= 1;
        }
    }

    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.blocks[..self.len].first().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// What one call of [`FlashLight::scrub`] has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    /// Pages read.
    pub read: u32,
    /// Blocks written anew because bits in them had to be corrected: 0 or 1.
    pub refreshed: u32,
    /// A page in use that cannot be read, and whose it is (inode 0: not known). Reading went no
    /// further; the next call goes on behind it.
    pub unreadable: Option<Page>,
    /// Everything in use has been read since the round began, and nothing is left to be written
    /// anew; the next call begins another round.
    pub done: bool,
}

impl<N: Nand> FlashLight<'_, N> {
    /// Reads on through all blocks in use, at most `pages` pages, and checks them; or writes one
    /// block anew, if one is noticed that needs it. Where the round goes on is remembered over
    /// unmounts, by the block. On a read-only volume nothing is written.
    ///
    /// A page that cannot be read costs a search for its owner besides: in file data, of the files
    /// in the cache, then of all inodes; else of all metadata.
    ///
    /// # Errors
    /// As of other operations; a page that cannot be read is no error.
    pub fn scrub(&mut self, pages: u32) -> Result<Scrub, Error<N::Error>> {
        let mut out = Scrub::default();
        if self.writable().is_ok() && self.reading(Self::refresh_in_room)? {
            out.refreshed = 1;
            return Ok(out);
        }
        let end = self.store.table.blocks() * self.store.ppb();
        while out.read < pages && out.unreadable.is_none() && self.store.scrub_at < end {
            let at = PageAddr(self.store.scrub_at);
            if !self.is_in_use(at) {
                self.skip_block();
                continue;
            }
            self.store.scrub_at += 1;
            let listed = self.listed_valid(at);
            if listed != Some(false) {
                out.read += 1;
                out.unreadable = self.scrub_page(at, listed.is_some())?;
            }
        }
        if self.store.scrub_at >= end
            && out.unreadable.is_none()
            && (!self.is_writable() || self.store.nand.refresh.is_empty())
        {
            self.store.scrub_at = 0;
            out.done = true;
        }
        Ok(out)
    }

    fn refresh_in_room(&mut self) -> Result<bool, Error<N::Error>> {
        if self.store.session {
            self.make_room()?;
        }
        self.refresh()
    }

    /// Whether a page, or one behind it in its block, may be in use.
    fn is_in_use(&mut self, at: PageAddr) -> bool {
        let (block, index) = (self.store.geo.block_of(at).0, self.store.geo.index_of(at));
        match self.store.state(block) {
            State::Meta(1..) | State::Data(1..) => index < self.store.programmed(block),
            State::System => self.anchor.is_written(block) || self.store.is_log(block),
            _ => false,
        }
    }

    fn skip_block(&mut self) {
        let block = self.store.scrub_at / self.store.ppb();
        self.store.scrub_at = (block + 1) * self.store.ppb();
    }

    /// Reads one page, which is in use if that is `known`, and gives it back when it cannot be read.
    fn scrub_page(&mut self, at: PageAddr, known: bool) -> Result<Option<Page>, Error<N::Error>> {
        let block = self.store.geo.block_of(at).0;
        let state = self.store.state(block);
        self.store.scratch_at = PageAddr::NONE;
        if let State::Data(n) = state {
            let known = known || n == self.store.programmed(block);
            return self.scrub_data(at, known);
        }
        if self.store.read_meta(at, self.scratch)?.is_some() {
            return Ok(None);
        }
        if header::is_blank(self.scratch) {
            self.skip_block();
            return Ok(None);
        }
        if state == State::System {
            // What it says is in RAM too.
            self.store.nand.refresh.add(block);
            return Ok(None);
        }
        let mut search = Search { at, found: None };
        self.walk(&mut search)?;
        Ok(search.found)
    }

    fn scrub_data(&mut self, at: PageAddr, known: bool) -> Result<Option<Page>, Error<N::Error>> {
        let mut spare = [0u8; tag::SIZE];
        let n = if self.store.has_tags() { tag::SIZE } else { 0 };
        let status = self.store.nand.read(at, 0, self.scratch, &mut spare[..n])?;
        if status.is_readable() && (n == 0 || Tag::matches(&spare, self.scratch)) {
            return Ok(None);
        }
        if status.is_readable() && header::is_blank(self.scratch) && !known {
            self.skip_block();
            return Ok(None);
        }
        if let Some(t) = Tag::decode(&spare).filter(|_| status.is_readable() && n > 0) {
            // Very likely the owner: it is asked first when it is in the cache.
            crate::error::sound(self.load_file(t.owner).map(|_| ()).or_else(not_there))?;
        }
        let area = walk::Area::Data;
        let ino = match crate::error::sound(self.search_owner(at))? {
            Some(Some((file, _))) => file.ino,
            _ if known => 0,
            _ => return Ok(None),
        };
        Ok(Some(Page {
            page: at,
            area,
            ino,
        }))
    }

    /// Writes the first block of the list anew, if there is one and there is room; whether it has
    /// done so. Moves of a block's pages, or a checkpoint.
    pub(crate) fn refresh(&mut self) -> Result<bool, Error<N::Error>> {
        let Some(block) = self.store.nand.refresh.first() else {
            return Ok(false);
        };
        if self.store.available() <= FLOOR {
            return Ok(false);
        }
        self.begin()?;
        if self.is_stored(block) {
            let mut sweep = self.begin_sweep(block, Why::Rot);
            return self.sweep_on(&mut sweep, u32::MAX);
        }
        let in_use = block < self.store.table.blocks() && self.store.state(block) == State::System;
        let result = if in_use { self.renew(block) } else { Ok(false) };
        self.store.nand.refresh.remove(block);
        self.store.written.refreshed += u64::from(matches!(result, Ok(true)));
        result
    }

    /// Writes what a block of the checkpoint or the allocation log holds anew, elsewhere or, of a
    /// root block, after an erase; `false` when it holds nothing.
    fn renew(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        let anchor = &mut self.anchor;
        if anchor.is_written(block) {
            if anchor.roots.contains(&block) {
                // Another round, in both root blocks.
                anchor.root_next = ANCHOR_PAGES;
            }
            if block != anchor.leaf.block {
                anchor.second_next = ANCHOR_PAGES;
            }
            anchor.leaf.next = self.store.ppb();
        } else if self.store.is_log(block) {
            if self.store.heads[Area::Bitmap as usize].block == block {
                self.store.heads[Area::Bitmap as usize] = Head::NONE;
            }
        } else {
            return Ok(false);
        }
        self.checkpoint(false)?;
        Ok(true)
    }
}

fn not_there<E>(e: Error<E>) -> Result<(), Error<E>> {
    match e {
        Error::NotFound => Ok(()),
        e => Err(e),
    }
}

/// Looks for the owner of a metadata page.
struct Search {
    at: PageAddr,
    found: Option<Page>,
}

impl Visitor for Search {
    fn page(&mut self, page: Page) {
        if page.page == self.at {
            self.found = Some(page);
        }
    }

    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}

    fn damaged(&mut self, page: PageAddr, ino: u32, _: &'static str) {
        if page == self.at && self.found.is_none() {
            let area = walk::Area::Dir;
            self.found = Some(Page { page, area, ino });
        }
    }
}
