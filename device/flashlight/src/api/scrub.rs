//! Bits that rot: blocks whose pages had to be corrected are written anew, and an application can
//! have everything in use read for that.
//!
//! The driver says of each read how many bits were wrong. From three quarters of what the ECC can
//! correct on ([`Config::refresh_bits`](crate::Config::refresh_bits)) the page's block is put on a
//! short list, wherever the page is read; the next change, [`FlashLight::gc`] or
//! [`FlashLight::scrub`] moves what is valid in it. Retention and reads wear on all pages of a
//! block alike, so the block is moved, not the page. A list that is full forgets; the next read, or
//! the next round of scrubbing, notices again.
//!
//! [`FlashLight::scrub`] is for who waits for its result. [`FlashLight::patrol`] is the same in
//! steps of a page, for the background.

use crate::api::walk::{self, Page, Visitor};
use crate::checkpoint::Durable;
use crate::cleaning::Volume;
use crate::error::{Error, Fault};
use crate::format::blockstate::BlockState;
use crate::format::header;
use crate::format::tag::{self, Tag};
use crate::index::Index;
use crate::{FileRef, FlashLight};
use flashkit_nand::{Nand, PageAddr};

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

/// What one call of [`FlashLight::patrol`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patrol {
    /// A page was read.
    Read,
    /// A page was read, and its block, or one before it, waits for [`FlashLight::gc`] to write it
    /// anew.
    Noted,
    /// A page cannot be read.
    Unreadable {
        /// Where.
        page: PageAddr,
        /// It is in use. If not, it may be, or be what a power cut has left of a program.
        in_use: bool,
    },
    /// Everything in use has been read since the round began; the next call begins another.
    Done,
}

/// What a page is found to be.
enum Look {
    /// Readable, or nothing, or noted to be written anew.
    Sound,
    /// File data that cannot be read.
    LostData {
        /// It is in use, and not only perhaps.
        in_use: bool,
        /// Very likely the owner.
        owner: Option<FileRef>,
    },
    LostMeta,
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
        self.told(|fs| {
            let mut out = Scrub::default();
            if fs.index_mut().writable().is_ok()
                && fs.volume.reading(Volume::refresh_in_room)?.is_true()
            {
                out.refreshed = 1;
                return Ok(out);
            }
            fs.store_mut().nand.only_reads = true;
            while out.read < pages && out.unreadable.is_none() {
                let Some((at, known)) = fs.volume.durable.next_to_scrub() else {
                    break;
                };
                out.read += 1;
                out.unreadable = fs.scrub_page(at, known)?;
            }
            if fs.store().scrub_at >= fs.store().table.blocks() * fs.store().ppb()
                && out.unreadable.is_none()
                && (!fs.index().is_writable() || fs.store().nand.refresh.is_empty())
            {
                fs.store_mut().scrub_at = 0;
                out.done = true;
            }
            Ok(out)
        })
    }

    /// Reads one page of those in use, or none if the round is over: about one page read, besides
    /// one of the block table where that is not in RAM. Nothing is moved, which [`FlashLight::gc`]
    /// does, and no owner is looked for. Where the round goes on is remembered over unmounts, by a
    /// sixteenth of the chip; that may cost an unmount its checkpoint.
    ///
    /// # Errors
    /// The driver's; a page that cannot be read is no error.
    pub fn patrol(&mut self) -> Result<Patrol, Error<N::Error>> {
        self.told(|fs| {
            fs.store_mut().nand.only_reads = true;
            let sixteenth = (fs.store().table.blocks() / 16).max(1) * fs.store().ppb();
            let before = fs.store().scrub_at / sixteenth;
            let next = fs.volume.durable.next_to_scrub();
            if next.is_none() {
                fs.store_mut().scrub_at = 0;
            }
            let moved = fs.store().scrub_at / sixteenth != before;
            fs.store_mut().since.patrolled |= moved;
            let Some((page, known)) = next else {
                return Ok(Patrol::Done);
            };
            Ok(match fs.index_mut().look_at(page, known)? {
                Look::Sound if fs.store().nand.refresh.is_empty() => Patrol::Read,
                Look::Sound => Patrol::Noted,
                Look::LostData { in_use, .. } => Patrol::Unreadable { page, in_use },
                Look::LostMeta => Patrol::Unreadable {
                    page,
                    in_use: false,
                },
            })
        })
    }

    /// Reads one page, which is in use if that is `known`, and gives it
    /// back when it cannot be read.
    #[inline(never)]
    fn scrub_page(&mut self, at: PageAddr, known: bool) -> Result<Option<Page>, Fault> {
        match self.index_mut().look_at(at, known)? {
            Look::Sound => Ok(None),
            Look::LostData { in_use, owner } => self.index_mut().owner_of(at, in_use, owner),
            Look::LostMeta => {
                let mut search = Search { at, found: None };
                self.volume.walk(&mut search)?;
                Ok(search.found)
            }
        }
    }
}

impl<N: Nand> Durable<'_, N> {
    /// The next page that is to be read, and whether it is known to be in use; none at the end of
    /// the chip.
    fn next_to_scrub(&mut self) -> Option<(PageAddr, bool)> {
        let end = self.index.store.table.blocks() * self.index.store.ppb();
        while self.index.store.scrub_at < end {
            let at = PageAddr(self.index.store.scrub_at);
            if !self.is_in_use(at) {
                self.index.skip_block();
                continue;
            }
            self.index.store.scrub_at += 1;
            let listed = self.index.listed_valid(at);
            if listed != Some(false) {
                return Some((at, listed.is_some()));
            }
        }
        None
    }

    /// Whether a page, or one behind it in its block, may be in use.
    fn is_in_use(&mut self, at: PageAddr) -> bool {
        let (block, index) = (
            self.index.store.geo.block_of(at).0,
            self.index.store.geo.index_of(at),
        );
        match self.index.store.state(block) {
            BlockState::Meta(1..) | BlockState::Data(1..) => {
                index < self.index.store.programmed(block)
            }
            BlockState::System => self.anchor.is_written(block) || self.index.store.is_log(block),
            _ => false,
        }
    }
}

impl<N: Nand> Index<'_, N> {
    fn skip_block(&mut self) {
        let block = self.store.scrub_at / self.store.ppb();
        self.store.scrub_at = (block + 1) * self.store.ppb();
    }

    fn look_at(&mut self, at: PageAddr, known: bool) -> Result<Look, Fault> {
        let block = self.store.geo.block_of(at).0;
        let state = self.store.state(block);
        if let BlockState::Data(n) = state {
            let known = known || n == self.store.programmed(block);
            return self.look_at_data(at, known);
        }
        if self.read_scratch(at)?.is_some() {
            return Ok(Look::Sound);
        }
        if header::is_blank(&self.scratch) {
            self.skip_block();
            return Ok(Look::Sound);
        }
        let is_copy = self.store.table.copies().any(|page| page == at);
        if state == BlockState::System || is_copy {
            // What it says is in RAM too, or in another copy.
            self.store.nand.refresh.add(block);
            return Ok(Look::Sound);
        }
        Ok(Look::LostMeta)
    }

    fn look_at_data(&mut self, at: PageAddr, in_use: bool) -> Result<Look, Fault> {
        let mut spare = [0u8; tag::SIZE];
        let n = if self.store.has_tags() { tag::SIZE } else { 0 };
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let status = self.store.nand.read(at, 0, page, &mut spare[..n])?;
        if status.is_readable() && self.store.check_tag(at, &mut spare, page) {
            return Ok(Look::Sound);
        }
        if status.is_readable() && header::is_blank(page) && !in_use {
            self.skip_block();
            return Ok(Look::Sound);
        }
        let tag = self.store.tags.and_then(|form| Tag::decode(form, &spare));
        let tag = tag.filter(|_| status.is_readable());
        let owner = tag.map(|t| t.owner);
        Ok(Look::LostData { in_use, owner })
    }

    /// Whose a page of data is that cannot be read; none if it need not be anybody's.
    fn owner_of(
        &mut self,
        at: PageAddr,
        in_use: bool,
        likely: Option<FileRef>,
    ) -> Result<Option<Page>, Fault> {
        if let Some(owner) = likely {
            // It is asked first when it is in the cache.
            crate::error::sound(self.load_file(owner).map(|_| ()).or_else(not_there))?;
        }
        let area = walk::Area::Data;
        let ino = match crate::error::sound(self.search_owner(at))? {
            Some(Some((file, _))) => file.ino,
            _ if in_use => 0,
            _ => return Ok(None),
        };
        Ok(Some(Page {
            page: at,
            area,
            ino,
        }))
    }
}

fn not_there(e: Fault) -> Result<(), Fault> {
    match e {
        Fault::NotFound => Ok(()),
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
