//! What FlashLight is mounted on: a chip in an image, or a real one.

use std::path::Path;

use anyhow::{Result, bail};
use flashkit_mtd::{MtdError, MtdNand, Overlay};
use flashkit_nand::{BlockAddr, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Counters, EraseTear, Metered, SimError, SimNand, Tear, Tearable};

use super::{Access, patiently};

/// A chip.
pub enum Medium {
    /// Simulated, in an image or in RAM.
    Image(SimNand),
    /// `/dev/mtdN`.
    Device(MtdNand),
    /// `/dev/mtdN`, which stays as it is.
    Looked(Overlay<MtdNand>),
}

/// Why a chip could not do something, through no fault of its medium.
#[derive(Debug)]
pub enum MediumError {
    Image(SimError),
    Device(MtdError),
    /// Real chips are not torn on purpose.
    Tear,
}

impl std::fmt::Display for MediumError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MediumError::Image(e) => e.fmt(f),
            MediumError::Device(e) => e.fmt(f),
            MediumError::Tear => f.write_str("the power of a real chip is not cut"),
        }
    }
}

impl std::error::Error for MediumError {}

impl From<SimError> for MediumError {
    fn from(error: SimError) -> Self {
        MediumError::Image(error)
    }
}

impl From<MtdError> for MediumError {
    fn from(error: MtdError) -> Self {
        MediumError::Device(error)
    }
}

/// Does the same with each sort of chip.
macro_rules! each {
    ($medium:expr, $chip:ident => $done:expr) => {
        match $medium {
            Medium::Image($chip) => $done,
            Medium::Device($chip) => $done,
            Medium::Looked($chip) => $done,
        }
    };
}

impl Medium {
    /// Opens an image or a device, for some time while an image is in use.
    pub fn open(path: &Path, access: Access) -> Result<Medium> {
        if !flashkit_mtd::is_device(path) {
            let image = patiently(|| SimNand::open(path, access.into()))?;
            return Ok(Medium::Image(image));
        }
        let write = access == Access::ReadWrite;
        let chip = patiently(|| MtdNand::open(path, write))?;
        Ok(match access {
            Access::ReadWrite => Medium::Device(chip),
            Access::ReadOnly => Medium::Looked(Overlay::new(chip)),
        })
    }

    /// What chip it is.
    pub fn name(&self) -> &str {
        match self {
            Medium::Image(chip) => chip.spec().name(),
            Medium::Device(chip) => chip.name(),
            Medium::Looked(chip) => chip.inner().name(),
        }
    }

    /// Bad blocks.
    pub fn bad_blocks(&mut self) -> Result<Vec<u32>> {
        let mut bad = Vec::new();
        for block in 0..self.geometry().blocks() {
            if self.is_bad(BlockAddr(block))? {
                bad.push(block);
            }
        }
        Ok(bad)
    }

    /// Begins to count anew.
    pub fn clear_counters(&mut self) {
        match self {
            Medium::Image(chip) => chip.clear_counters(),
            Medium::Device(chip) => chip.clear_counters(),
            Medium::Looked(_) => {}
        }
    }

    /// Refuses to lose what may be somebody's: a device is either erased or has a volume on it. `way_out` says
    /// what to do where it is somebody's, and may go.
    pub fn check_disposable(&mut self, way_out: &str) -> Result<()> {
        let geometry = self.geometry();
        let mut page = vec![0; geometry.page_size() as usize];
        for block in 0..geometry.blocks() {
            let first = PageAddr(block * geometry.pages_per_block());
            if self.is_bad(BlockAddr(block))? {
                continue;
            }
            let status = self.read(first, 0, &mut page, &mut [])?;
            if !status.is_readable() || page.iter().any(|&byte| byte != 0xff) {
                bail!("holds something that is no volume of flashkit's; {way_out}");
            }
        }
        Ok(())
    }
}

impl Nand for Medium {
    type Error = MediumError;

    fn geometry(&self) -> Geometry {
        each!(self, chip => chip.geometry())
    }

    fn correctable_bits(&self) -> u32 {
        each!(self, chip => chip.correctable_bits())
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, MediumError> {
        Ok(each!(self, chip => chip.read(page, offset, data, spare)?))
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, MediumError> {
        Ok(each!(self, chip => chip.program(page, data, spare)?))
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, MediumError> {
        Ok(each!(self, chip => chip.erase(block)?))
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, MediumError> {
        Ok(each!(self, chip => chip.is_bad(block)?))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), MediumError> {
        each!(self, chip => chip.mark_bad(block)?);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        each!(self, chip => chip.flush()?);
        Ok(())
    }
}

impl Tearable for Medium {
    fn program_torn(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
        tear: Tear,
        seed: u64,
    ) -> Result<(), MediumError> {
        match self {
            Medium::Image(chip) => Ok(chip.program_torn(page, data, spare, tear, seed)?),
            _ => Err(MediumError::Tear),
        }
    }

    fn erase_torn(
        &mut self,
        block: BlockAddr,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), MediumError> {
        match self {
            Medium::Image(chip) => Ok(chip.erase_torn(block, tear, seed)?),
            _ => Err(MediumError::Tear),
        }
    }
}

impl Metered for Medium {
    fn counters(&self) -> Counters {
        each!(self, chip => chip.counters())
    }

    fn erase_counts(&self) -> Vec<u32> {
        each!(self, chip => chip.erase_counts())
    }

    fn idle(&mut self, ns: u64) {
        each!(self, chip => chip.idle(ns));
    }
}
