//! Pages that have rotted, at a place of the caller's choice.

use flashkit_nand::PageAddr;

use crate::block::PageState;
use crate::{SimError, SimNand};

/// What has become of a programmed page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rot {
    /// Uncorrectable.
    Lost,
    /// Bits of one byte are flipped, and the ECC takes that for good.
    Silent {
        /// Which byte of the page's data; behind its data, of its usable spare bytes.
        offset: u32,
        /// The bits that are flipped.
        mask: u8,
    },
}

impl SimNand {
    /// Lets a programmed page rot until its block is erased. It stays so in an image file. Nothing
    /// is counted, and it takes no virtual time. Returns whether the page was one that can rot: one
    /// that holds nothing cannot.
    ///
    /// # Errors
    /// [`SimError::Io`], never for a chip without an image file.
    ///
    /// # Panics
    /// When the page is not on the chip, or the byte not in the page.
    pub fn rot(&mut self, page: PageAddr, rot: Rot) -> Result<bool, SimError> {
        assert!(self.geometry.contains(page), "{page:?} is not on the chip");
        let (b, index) = (self.geometry.block_of(page).0, self.geometry.index_of(page));
        self.load(b)?;
        let state = self.blocks[b as usize].page(index).state;
        if !state.has_bytes() {
            return Ok(false);
        }
        match rot {
            Rot::Lost => self.put_state(b, index, PageState::Garbage)?,
            Rot::Silent { offset, mask } => {
                let page_size = self.geometry.page_size() as usize;
                let mut bytes = vec![0; page_size + self.geometry.spare_size() as usize];
                let (data, spare) = bytes.split_at_mut(page_size);
                self.fetch(b, index, 0, data, spare)?;
                bytes[offset as usize] ^= mask;
                let (data, spare) = bytes.split_at(page_size);
                self.put(b, index, state, data, spare)?;
            }
        }
        Ok(true)
    }
}
