//! Chips of any sort as one type. What is generic over chips is compiled once for that type, here,
//! and the crates above use what is compiled: half a minute for each other type of chip in each
//! program.
//!
//! A chip is given away, or lent:
//!
//! ```no_run
//! use flashkit_flashlight::{Config, New, ram_needed};
//! use flashkit_nand::Nand;
//! use flashkit_vfs::any::{self, AnyNand, Chip};
//!
//! fn twice<C: Chip>(mut chip: C) -> C {
//!     let mut ram = vec![0; ram_needed(&chip.geometry())];
//!     let lent = AnyNand::lent(&mut chip);
//!     any::format(lent, &mut ram, 1, &New::default(), Config::default()).unwrap();
//!     let fs = any::mount(AnyNand::new(chip), &mut ram, Config::default()).unwrap();
//!     fs.into_volume().unmount().unwrap_or_else(|(_, e)| panic!("{e}")).take()
//! }
//! ```

use std::any::Any;
use std::fmt::{self, Debug};

use flashkit_flashlight::{Config, Error, FlashLight, New, Visitor};
use flashkit_meter::{Counters, Metered};
use flashkit_nand::{BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus};

use crate::Measured;
use crate::check::{check, repair};
use crate::flashlight::FlashLightFs;

/// FlashLight on a chip of any sort.
pub type AnyFs<'r, 'c> = FlashLightFs<'r, AnyNand<'c>>;

/// The error of a driver of any sort, in its own words.
#[derive(Clone, PartialEq, Eq)]
pub struct AnyError(String);

impl AnyError {
    /// What [`AnyNand`] makes of that error.
    pub fn of(error: &impl Debug) -> AnyError {
        AnyError(format!("{error:?}"))
    }
}

impl Debug for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AnyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AnyError {}

/// A chip that can be an [`AnyNand`]: one that counts, is not tied to a
/// thread, and borrows nothing.
pub trait Chip: Nand + Metered + Send + 'static {}

impl<C: Nand + Metered + Send + 'static> Chip for C {}

/// [`Nand`] without a type of its own for errors.
trait Erased: Metered + Send {
    fn any(&self) -> &dyn Any;
    fn any_mut(&mut self) -> &mut dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
    fn geometry(&self) -> Geometry;
    fn correctable_bits(&self) -> u32;
    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, AnyError>;
    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, AnyError>;
    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, AnyError>;
    fn copies(&self, from: PageAddr, to: PageAddr) -> bool;
    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, AnyError>;
    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, AnyError>;
    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, AnyError>;
    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), AnyError>;
    fn flush(&mut self) -> Result<(), AnyError>;
}

impl<C: Chip> Erased for C {
    fn any(&self) -> &dyn Any {
        self
    }

    fn any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn geometry(&self) -> Geometry {
        Nand::geometry(self)
    }

    fn correctable_bits(&self) -> u32 {
        Nand::correctable_bits(self)
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, AnyError> {
        Nand::read(self, page, offset, data, spare).map_err(|e| AnyError::of(&e))
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, AnyError> {
        Nand::read_used(self, page, data, head, used).map_err(|e| AnyError::of(&e))
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, AnyError> {
        Nand::program(self, page, data, spare).map_err(|e| AnyError::of(&e))
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        Nand::copies(self, from, to)
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, AnyError> {
        Nand::copy(self, from, to, spare, page).map_err(|e| AnyError::of(&e))
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, AnyError> {
        Nand::erase(self, block).map_err(|e| AnyError::of(&e))
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, AnyError> {
        Nand::is_bad(self, block).map_err(|e| AnyError::of(&e))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), AnyError> {
        Nand::mark_bad(self, block).map_err(|e| AnyError::of(&e))
    }

    fn flush(&mut self) -> Result<(), AnyError> {
        Nand::flush(self).map_err(|e| AnyError::of(&e))
    }
}

enum Held<'c> {
    Own(Box<dyn Erased>),
    Lent(&'c mut dyn Erased),
}

/// A chip of any sort. Its own type is asked for by [`AnyNand::get`].
pub struct AnyNand<'c>(Held<'c>);

impl AnyNand<'static> {
    /// Takes a chip.
    pub fn new(chip: impl Chip) -> AnyNand<'static> {
        AnyNand(Held::Own(Box::new(chip)))
    }
}

impl<'c> AnyNand<'c> {
    /// Borrows a chip.
    pub fn lent(chip: &'c mut impl Chip) -> AnyNand<'c> {
        AnyNand(Held::Lent(chip))
    }

    fn chip(&self) -> &dyn Erased {
        match &self.0 {
            Held::Own(chip) => &**chip,
            Held::Lent(chip) => &**chip,
        }
    }

    fn chip_mut(&mut self) -> &mut dyn Erased {
        match &mut self.0 {
            Held::Own(chip) => &mut **chip,
            Held::Lent(chip) => &mut **chip,
        }
    }

    /// The chip as what it is.
    ///
    /// # Panics
    /// It is of another type.
    pub fn get<C: Chip>(&self) -> &C {
        self.chip().any().downcast_ref().expect("of that type")
    }

    /// The chip as what it is, to be changed.
    ///
    /// # Panics
    /// It is of another type.
    pub fn get_mut<C: Chip>(&mut self) -> &mut C {
        self.chip_mut()
            .any_mut()
            .downcast_mut()
            .expect("of that type")
    }

    /// Gives a chip back that was taken.
    ///
    /// # Panics
    /// It is of another type, or lent.
    pub fn take<C: Chip>(self) -> C {
        match self.0 {
            Held::Own(chip) => *chip.into_any().downcast().expect("of that type"),
            Held::Lent(_) => panic!("a chip that is lent"),
        }
    }
}

impl Nand for AnyNand<'_> {
    type Error = AnyError;

    fn geometry(&self) -> Geometry {
        self.chip().geometry()
    }

    fn correctable_bits(&self) -> u32 {
        self.chip().correctable_bits()
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, AnyError> {
        self.chip_mut().read(page, offset, data, spare)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, AnyError> {
        self.chip_mut().read_used(page, data, head, used)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, AnyError> {
        self.chip_mut().program(page, data, spare)
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        self.chip().copies(from, to)
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, AnyError> {
        self.chip_mut().copy(from, to, spare, page)
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, AnyError> {
        self.chip_mut().erase(block)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, AnyError> {
        self.chip_mut().is_bad(block)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), AnyError> {
        self.chip_mut().mark_bad(block)
    }

    fn flush(&mut self) -> Result<(), AnyError> {
        self.chip_mut().flush()
    }
}

impl Metered for AnyNand<'_> {
    fn counters(&self) -> Counters {
        self.chip().counters()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.chip().erase_counts()
    }

    fn idle(&mut self, ns: u64) {
        self.chip_mut().idle(ns);
    }
}

/// [`FlashLight::format_with`]; the chip comes back.
///
/// # Errors
/// As there.
pub fn format<'c>(
    chip: AnyNand<'c>,
    ram: &mut [u8],
    number: u32,
    root: &New,
    config: Config,
) -> Result<AnyNand<'c>, Error<AnyError>> {
    FlashLight::format_with(chip, ram, number, root, config)
}

/// [`FlashLight::mount`].
///
/// # Errors
/// As there.
pub fn mount<'r, 'c>(
    chip: AnyNand<'c>,
    ram: &'r mut [u8],
    config: Config,
) -> Result<AnyFs<'r, 'c>, Error<AnyError>> {
    let size = ram.len();
    Ok(FlashLightFs::new(
        FlashLight::mount(chip, ram, config)?,
        size,
    ))
}

/// Names what else the crates above call, so that it is compiled here too. Nobody calls this.
#[doc(hidden)]
pub fn compiled_here(mut fs: AnyFs<'_, '_>, visitor: &mut dyn Visitor) -> Result<(), String> {
    let _: &mut dyn Measured = &mut fs;
    let volume = fs.volume();
    check(volume)?;
    repair(volume)?;
    volume.walk(visitor).map_err(|e| e.to_string())?;
    volume.scrub(1).map_err(|e| e.to_string())?;
    volume.ram_use();
    fs.into_volume().unmount().map_err(|(_, e)| e.to_string())?;
    Ok(())
}
