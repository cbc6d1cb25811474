//! The volume as a whole: unmounting it, and what can be asked of it.

use crate::FlashLight;
use crate::cleaning::Volume;
use crate::config::Config;
use crate::error::Error;
use crate::format::node::FileRef;
use crate::index::inodes::New;
use crate::space::latch::Stopped;
use crate::space::limits::low;
use crate::space::written::Written;
use flashkit_nand::{Nand, PageAddr};

impl<'r, N: Nand> FlashLight<'r, N> {
    /// Makes an empty volume, erasing all good blocks. `volume` should differ from those of earlier
    /// volumes on the chip: it keys the name hashes, and pages of other volumes are not believed.
    ///
    /// # Errors
    /// [`Error::Geometry`] when the chip is too small, or has too few good blocks: 44 on one of
    /// less than 64, and one more for each 64 blocks, good or not. [`Error::RamTooSmall`].
    pub fn format(
        nand: N,
        ram: &'r mut [u8],
        volume: u32,
        root: &New,
    ) -> Result<N, Error<N::Error>> {
        Self::format_with(nand, ram, volume, root, Config::default())
    }

    /// The same with a choice: [`Config::table_page`]; no other matters here.
    ///
    /// # Errors
    /// As of [`FlashLight::format`].
    pub fn format_with(
        nand: N,
        ram: &'r mut [u8],
        volume: u32,
        root: &New,
        config: Config,
    ) -> Result<N, Error<N::Error>> {
        let mut place = None;
        let fs = Self::place_into(&mut place, nand, ram, &config, |fs| fs)?;
        fs.format_placed(volume, root, &config)?;
        place
            .map(|fs: Self| fs.volume.durable.index.store.nand.inner)
            .ok_or(Error::NotFormatted)
    }

    /// The same in the caller's memory, for 2 KiB less on the stack. `place` is empty afterwards,
    /// and the chip dropped: lend it (`&mut chip`) to have it again. `place` borrows `ram` as long
    /// as it is there.
    ///
    /// # Errors
    /// As of [`FlashLight::format`].
    pub fn format_into(
        place: &mut Option<Self>,
        nand: N,
        ram: &'r mut [u8],
        volume: u32,
        root: &New,
        config: Config,
    ) -> Result<(), Error<N::Error>> {
        let fs = Self::place_into(place, nand, ram, &config, |fs| fs)?;
        let formatted = fs.format_placed(volume, root, &config);
        *place = None;
        formatted
    }

    /// Mounts a volume. After a clean unmount 37 reads on a chip of 64 pages a block, one more for
    /// each doubling of these and for each page more than one of the snapshot of the block table;
    /// after an unclean stop also three to five reads for each inode page written since the last
    /// checkpoint (at most some 500), and the writes of a checkpoint.
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Version`], [`Error::Geometry`], [`Error::RamTooSmall`],
    /// [`Error::Corrupt`].
    pub fn mount(nand: N, ram: &'r mut [u8], config: Config) -> Result<Self, Error<N::Error>> {
        let mut place = None;
        Self::mount_into(&mut place, nand, ram, config)?;
        place.ok_or(Error::NotFormatted)
    }

    /// The same, in the caller's memory: on the stack of the mount there is no copy of the volume
    /// while what power has cut is recovered. That is 2 KiB less, or 4. After an error `place` is
    /// empty.
    ///
    /// # Errors
    /// As of [`FlashLight::mount`].
    pub fn mount_into(
        place: &mut Option<Self>,
        nand: N,
        ram: &'r mut [u8],
        config: Config,
    ) -> Result<(), Error<N::Error>> {
        let fs = Self::place_into(place, nand, ram, &config, |fs| fs)?;
        let mounted = fs.mount_placed(&config);
        if mounted.is_err() {
            *place = None;
        }
        mounted
    }

    /// The first half of [`FlashLight::mount_into`] and [`FlashLight::format_into`]; nothing but
    /// the other half may follow. For interfaces that keep a volume in something of their own, and
    /// so that the chip that is handed over is gone from the stack when the recovery begins.
    #[doc(hidden)]
    pub fn place_into<'p, T>(
        place: &'p mut Option<T>,
        nand: N,
        ram: &'r mut [u8],
        config: &Config,
        wrap: impl FnOnce(Self) -> T,
    ) -> Result<&'p mut T, Error<N::Error>> {
        let wrap = |volume| wrap(FlashLight { volume });
        Volume::make(place, nand, ram, config, wrap)
    }

    /// The other half of a mount. After an error the volume is to be dropped.
    #[doc(hidden)]
    pub fn mount_placed(&mut self, config: &Config) -> Result<(), Error<N::Error>> {
        self.told(|fs| fs.volume.bring_back(config))
    }

    /// The other half of a format. The volume is to be dropped.
    #[doc(hidden)]
    pub fn format_placed(
        &mut self,
        volume: u32,
        root: &New,
        config: &Config,
    ) -> Result<(), Error<N::Error>> {
        self.told(|fs| fs.volume.begin(volume, root, config))
    }

    /// Makes everything durable and marks the volume as cleanly unmounted. Writes nothing when
    /// nothing was written since the mount, and no [`FlashLight::patrol`] has come far. Returns the
    /// chip.
    #[allow(clippy::type_complexity)]
    pub fn unmount(mut self) -> Result<N, (N, Error<N::Error>)> {
        let result = self.close();
        match result {
            Ok(()) => Ok(self.volume.durable.index.store.nand.inner),
            Err(e) => Err((self.volume.durable.index.store.nand.inner, e)),
        }
    }

    /// What [`FlashLight::unmount`] does, keeping the value: nothing may be changed afterwards.
    pub fn close(&mut self) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            let changed = fs.store().log.session || fs.index().is_dirty();
            if fs.index().read_only || !(changed || fs.store().since.patrolled) {
                fs.index_mut().read_only = true;
                return Ok(());
            }
            fs.index_mut().writable()?;
            fs.volume.checkpoint(true)?;
            fs.index_mut().read_only = true;
            fs.index_mut().tell_lost_change()
        })
    }

    /// Why nothing is written any more until the next mount; `None`: the volume can be written, or
    /// was mounted read-only.
    pub fn stopped(&self) -> Option<Stopped> {
        self.store().nand.stopped()
    }

    /// The chip.
    pub fn nand(&self) -> &N {
        &self.store().nand.inner
    }

    /// The chip, for what does not change its contents.
    pub fn nand_mut(&mut self) -> &mut N {
        &mut self.store_mut().nand.inner
    }

    /// Whether the mount found that the volume had not been unmounted, and
    /// brought it to where it was.
    pub fn is_recovered(&self) -> bool {
        self.index().recovered
    }

    /// Whether what the mount has recovered is durable. It is not when one root block is left and
    /// full, or with [`Config::discarded`]: then the next mount does it again.
    pub fn recovery_lasts(&self) -> bool {
        !self.index().recovered || !self.store().log.together
    }

    /// The volume's number.
    pub fn volume(&self) -> u32 {
        self.store().volume
    }

    /// What has been written since the mount.
    pub fn written(&self) -> Written {
        self.store().written
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// How many pages can be written at least before cleaning for space begins, metadata among them
    /// (of whole pages of data about one in fifty): those of the blocks that are free, or will be
    /// with the next checkpoint, but for the last of them. Blocks that lose all their pages
    /// meanwhile add to it. With 0 each write may pay its share of cleaning; [`FlashLight::gc`]
    /// makes room before. No flash operation.
    pub fn pages_before_cleaning(&self) -> u32 {
        let free = self.free_blocks();
        free.saturating_sub(low(&self.store().geo)) * self.store().ppb()
    }

    /// Blocks that are free, or will be with the next checkpoint: what cleaning wins adds to them.
    /// Those that are kept for a recovery do not count. No flash operation.
    pub fn free_blocks(&self) -> u32 {
        self.store().available() + self.store().tally.dead
    }

    /// The damage for which changes were lost last: a file's whose directory could not be read when
    /// it was to be written, or, at the mount, what a page said that was written before the power
    /// went. What they concern may be as it was before, or give an error. The next
    /// [`FlashLight::sync`] or [`FlashLight::unmount`] has it as its result, once.
    pub fn lost_change(&self) -> Option<(PageAddr, &'static str)> {
        self.index()
            .lost_change
            .map(|(at, what, _)| (at, what.as_str()))
    }

    /// Cleans in idle time, or writes a block anew that needs it: about as much as the moves of
    /// `pages` pages cost at most, where pages that are only looked at and maps count as well, and
    /// the checkpoint that makes the blocks free. Returns whether more could be won by going on.
    pub fn gc(&mut self, pages: u32) -> Result<bool, Error<N::Error>> {
        self.told(|fs| Ok(fs.volume.gc(pages)?.is_true()))
    }

    /// Whether more blocks have gone bad in use than one in fifty and eight, or all but one of
    /// those kept for roots. Then nothing is changed any more: the rest will follow soon, and what
    /// is stored can still be read.
    pub fn is_worn(&self) -> bool {
        self.volume.durable.is_worn()
    }

    /// Whether the dirty list calls a page valid; `None` for a block that is not on it, or in part.
    pub fn listed_valid(&self, page: PageAddr) -> Option<bool> {
        self.index().listed_valid(page)
    }

    /// Ends the life of a file that lost its name while in use.
    pub fn reap(&mut self, file: FileRef) -> Result<(), Error<N::Error>> {
        self.told(|fs| fs.volume.reap(file))
    }
}
