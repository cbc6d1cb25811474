//! Which block the next page of a file's data goes to (paper, 4.3).

use crate::error::{Fault, sound};
use crate::format::area::Head;
use crate::format::limits::REMNANTS;
use crate::index::Index;
use crate::index::slots::FileSlot;
use flashkit_nand::{Nand, PageAddr};

/// Blocks of others that files go on in, until one block fewer is kept for who left it.
const INTERLEAVED: u16 = 16;

impl<N: Nand> Index<'_, N> {
    /// Chooses the block that a file's next page goes to (paper, 4.3: erase-unit allocation).
    ///
    /// A file goes on in the block where its last page is. A new file gets a block of its own,
    /// unless the file before it was small: then the two share one, until the file has grown past
    /// a quarter of a block. Overwrites of files in turn share blocks too.
    pub(crate) fn choose_data_head(&mut self, i: FileSlot, index: u32) -> Result<(), Fault> {
        let share = self.store.ppb() / 4;
        let head = self.store.heads.data[i.data_head()];
        if head.block != u32::MAX {
            if self.has_many_tails() {
                if head.next >= self.store.ppb() {
                    return self.open_roomiest(i);
                }
            } else if self.files[i].shares && index >= share {
                self.store.save_remnant(i.data_head());
                self.files[i].shares = false;
            }
            return Ok(());
        }
        self.files[i].shares = false;
        if index > 0 && self.store.remnants.len > 0 {
            let last = sound(self.map_lookup(i, index - 1))?.map_or(PageAddr::NONE, |m| m.page);
            if last.is_some() {
                let geo = self.store.geo;
                let head = Head {
                    block: geo.block_of(last).0,
                    next: geo.index_of(last) + 1,
                };
                let found = self.store.remnants.find(head.block);
                if let Some(r) = found.filter(|&r| self.store.remnants.get(r) == head) {
                    let others = (self.store.remnants.len - r) as u16;
                    self.interleaved = self.interleaved.max(INTERLEAVED * others);
                    return self.store.resume_remnant(i.data_head(), r);
                }
            }
        }
        let page_size = self.store.page_size() as u64;
        if index < share || self.has_many_tails() {
            self.open_shared(i)?;
        } else if u64::from(index) * page_size < self.files[i].file().size() {
            // An overwrite. The tails of many files' blocks would stay unwritten.
            let n = self.store.remnants.len;
            if n > 0 {
                self.store.resume_remnant(i.data_head(), n - 1)?;
            }
        }
        Ok(())
    }

    /// Lets a file that is probably small share a block with others.
    pub(crate) fn open_shared(&mut self, i: FileSlot) -> Result<(), Fault> {
        if self.has_many_tails() {
            return self.open_roomiest(i);
        }
        let n = self.store.remnants.len;
        if n > 0 && self.small_files {
            self.store.resume_remnant(i.data_head(), n - 1)?;
            self.files[i].shares = true;
        }
        Ok(())
    }

    /// Whether there are more blocks with an unwritten tail than a chip of this size can
    /// afford, beside those that files come back to. Before the list is full, of which the
    /// oldest would be forgotten.
    fn has_many_tails(&self) -> bool {
        let few = (self.store.geo.blocks() as usize / 64).clamp(2, 3 * REMNANTS / 4);
        self.store.remnants.len > (few + self.files_interleaved()).min(REMNANTS - 2)
    }

    /// How many files write in turn, each in a block of its own.
    fn files_interleaved(&self) -> usize {
        usize::from(self.interleaved.div_ceil(INTERLEAVED))
    }

    /// Goes on in the block with the longest unwritten tail, but for those left last by as many
    /// files as come back to theirs.
    fn open_roomiest(&mut self, i: FileSlot) -> Result<(), Fault> {
        let all = &self.store.remnants;
        let interleaved = self.files_interleaved().min(all.len.saturating_sub(1));
        self.interleaved = self.interleaved.saturating_sub(1);
        if let Some(r) = (0..all.len - interleaved).min_by_key(|&r| all.get(r).next) {
            self.store.resume_remnant(i.data_head(), r)?;
            self.files[i].shares = true;
        }
        Ok(())
    }
}
