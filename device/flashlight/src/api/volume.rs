//! The volume as a whole: unmounting it, and what can be asked of it.

use crate::FlashLight;
use crate::error::Error;
use crate::space::limits::low;
use crate::space::written::Written;
use flashkit_nand::{Nand, PageAddr};

impl<'r, N: Nand> FlashLight<'r, N> {
    /// Makes everything durable and marks the volume as cleanly unmounted. Writes nothing when
    /// nothing was written since the mount. Returns the chip.
    #[allow(clippy::type_complexity)]
    pub fn unmount(mut self) -> Result<N, (N, Error<N::Error>)> {
        let result = self.close();
        match result {
            Ok(()) => Ok(self.store.nand.inner),
            Err(e) => Err((self.store.nand.inner, e)),
        }
    }

    /// What [`FlashLight::unmount`] does, keeping the value: nothing may be changed afterwards.
    pub fn close(&mut self) -> Result<(), Error<N::Error>> {
        if self.read_only || !(self.store.session || self.is_dirty()) {
            self.read_only = true;
            return Ok(());
        }
        self.writable()?;
        self.checkpoint(true)?;
        self.read_only = true;
        self.tell_given_up()
    }

    /// The chip.
    pub fn nand(&self) -> &N {
        &self.store.nand.inner
    }

    /// The chip, for what does not change its contents.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.store.nand.inner
    }

    /// Whether the mount found that the volume had not been unmounted, and brought it to where it was.
    pub fn is_recovered(&self) -> bool {
        self.recovered
    }

    /// Whether what the mount has recovered is durable. It is not when one root block is left and full, or with
    /// [`Config::discarded`]: then the next mount does it again.
    pub fn recovery_lasts(&self) -> bool {
        !self.recovered || !self.store.together
    }

    /// The volume's number.
    pub fn volume(&self) -> u32 {
        self.store.volume
    }

    /// What has been written since the mount.
    pub fn written(&self) -> Written {
        self.store.written
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// How many pages can be written at least before cleaning for space begins, metadata among them (of whole pages of
    /// data about one in fifty): those of the blocks that are free, or will be with the next checkpoint, but for the last
    /// of them. Blocks that lose all their pages meanwhile add to it. With 0 each write may pay its share of cleaning; [`FlashLight::gc`] makes room before. No flash operation.
    pub fn pages_before_cleaning(&self) -> u32 {
        let free = self.store.available() + self.store.dead;
        free.saturating_sub(low(&self.store.geo)) * self.store.ppb()
    }

    /// The damage for which changes were lost last: a file's whose directory could not be read when
    /// it was to be written, or, at the mount, what a page said that was written before the power
    /// went. What they concern may be as it was before, or give an error. The next
    /// [`FlashLight::sync`] or [`FlashLight::unmount`] has it as its result, once.
    pub fn lost_change(&self) -> Option<(PageAddr, &'static str)> {
        self.given_up.map(|(at, what, _)| (at, what))
    }
}
