//! The patrol: pages that nobody asks for while the disk is mounted, and that the next mount needs.
//!
//! Sectors and the map are written anew as cleaning moves them. The log and the anchors never move:
//! they are begun anew, in other blocks.

use flashkit_nand::{Nand, PageAddr};

use crate::error::Error;
use crate::layout::NONE;
use crate::ram::State;
use crate::record::FIRST_BLOCKS;
use crate::state::Jftl;

impl<N: Nand> Jftl<'_, N> {
    /// Reads the `n`-th page of what the disk keeps for itself: its map, its log, its anchors.
    /// Whether there are so many. A patrol reads all sectors and all of these, now and then: then
    /// [`Jftl::background`] writes anew what rots of sectors and map, and this call the log with
    /// its anchors.
    ///
    /// Costs a read. Where the log or an anchor rots, it also writes the map pages that have
    /// changed, a snapshot, an anchor or two and a page of the log: once in what a page lasts.
    ///
    /// # Errors
    /// As [`Jftl::write`].
    pub fn patrol(&mut self, n: u32) -> Result<bool, Error<N::Error>> {
        let Some(page) = self.own_page(n) else {
            return Ok(false);
        };
        if page == NONE {
            return Ok(true);
        }
        self.scratch_uses = self.scratch_uses.wrapping_add(1);
        let Self { nand, ram, .. } = self;
        let status = nand.read(PageAddr(page), 0, ram.scratch, &mut [])?;
        match self.ram.state(self.lay.block_of(page)) {
            State::Log | State::Anchor => {
                // What is lost there is in RAM as long as the disk is mounted.
                let rots = self.rots(status) || !status.is_readable();
                if rots && self.damage.is_none() && !self.latched {
                    self.changing(Self::renew_log)?;
                }
            }
            _ => self.note_read(page, status),
        }
        Ok(true)
    }

    /// A page of the map, of the log as far as it is written, or of the blocks where a mount finds
    /// the newest anchor. [`NONE`]: none yet.
    fn own_page(&self, n: u32) -> Option<u32> {
        if n < self.lay.map_pages {
            return Some(self.ram.place(n));
        }
        let n = n - self.lay.map_pages;
        let used = self.log.at.wrapping_add(1);
        let block = match n / self.lay.pages {
            i if i < used => self.ram.log(i).0,
            i if i == used => self.anchors.home,
            i if i == used + 1 => self.anchors.root,
            _ => return None,
        };
        Some(block * self.lay.pages + n % self.lay.pages)
    }

    /// Begins the log anew in another block, and the anchors in others.
    fn renew_log(&mut self) -> Result<(), Error<N::Error>> {
        self.write_changed()?;
        self.commit()?;
        self.log.page = self.lay.pages;
        let [places, bad, _] = self.snapshot_parts();
        self.snapshot(places + bad)?;
        self.commit()?;
        self.anchors.page = self.lay.pages;
        self.anchor()?;
        if self.anchors.set != FIRST_BLOCKS {
            self.write_root(self.anchors.set)?;
        }
        // What is before is given up when a page names the anchor.
        self.commit()
    }
}
