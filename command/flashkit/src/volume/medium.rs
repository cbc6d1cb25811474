//! What FlashLight is mounted on: a chip in an image, or a real one, and the part
//! of it that the volume has.

use std::path::Path;

use anyhow::Result;
use flashkit_flashlight::Error;
use flashkit_flashlight::inspect::TAG_SIZE;
use flashkit_flashlight::transfer::Transferred;
use flashkit_mtd::{MtdError, MtdNand, Overlay};
use flashkit_nand::{BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_nand_xts::XtsNand;
use flashkit_sim::{Counters, EraseTear, Metered, SimError, SimNand, Tear, Tearable};

use super::{Access, key, patiently};
use crate::failure::Usage;

/// A chip with a volume, made on it or transferred to it.
pub struct Medium(Layer);

/// The part of the chip that the volume has, as it is or encrypted.
enum Layer {
    Clear(Box<Transferred<'static, Bare>>),
    Sealed(Box<XtsNand<'static, Transferred<'static, Bare>>>),
}

/// A chip.
pub enum Bare {
    /// Simulated, in an image or in RAM.
    Image(SimNand),
    /// `/dev/mtdN`.
    Device(MtdNand),
    /// `/dev/mtdN`, which stays as it is.
    Looked(Overlay<MtdNand>),
}

/// Why a chip could not do something, through no fault of its medium.
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

/// In words as well: the file systems show errors of a driver in this way.
impl std::fmt::Debug for MediumError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
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
    ($bare:expr, $chip:ident => $done:expr) => {
        match $bare {
            Bare::Image($chip) => $done,
            Bare::Device($chip) => $done,
            Bare::Looked($chip) => $done,
        }
    };
}

/// Does the same with the chip as it is and encrypted.
macro_rules! layer {
    ($layer:expr, $chip:ident => $done:expr) => {
        match $layer {
            Layer::Clear($chip) => $done,
            Layer::Sealed($chip) => $done,
        }
    };
}

/// A page of RAM for a transfer record, or for a page to be encrypted, never given back: a chip is
/// opened a handful of times.
fn leak_page(chip: &Bare) -> &'static mut [u8] {
    vec![0; chip.geometry().page_size() as usize].leak()
}

impl Medium {
    fn clear(chip: Transferred<'static, Bare>) -> Medium {
        Medium(Layer::Clear(Box::new(chip)))
    }

    /// A chip for a new volume, made on it.
    pub fn new(chip: SimNand) -> Medium {
        Medium::clear(Transferred::never(Bare::Image(chip)))
    }

    /// All of the chip in an image or of a device, whatever is on it.
    pub fn whole(path: &Path, access: Access) -> Result<Medium> {
        Ok(Medium::clear(Transferred::never(Bare::open(path, access)?)))
    }

    /// A chip for a new volume that is transferred to others of its sort, of which up to
    /// `slack` blocks may be bad.
    pub fn new_to_send(chip: SimNand, slack: u32, with_spare: bool) -> Result<Medium> {
        // As few as can be: other drivers may leave fewer of them than the simulated chip.
        let spare = match chip.geometry().spare_size() {
            spare if with_spare => spare.min(TAG_SIZE as u32),
            _ => 0,
        };
        let chip = Bare::Image(chip);
        let page = leak_page(&chip);
        match Transferred::begin(chip, page, slack, spare) {
            Ok(chip) => Ok(Medium::clear(chip)),
            Err(Error::Geometry) => {
                let why = format!("--slack {slack}: too many blocks for this chip");
                Err(Usage(why).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens an image or a device, for some time while an image is in use. The look for a
    /// transfer record is not counted.
    pub fn open(path: &Path, access: Access) -> Result<Medium> {
        let chip = Bare::open(path, access)?;
        let page = leak_page(&chip);
        let mut medium = Medium::clear(Transferred::open(chip, page)?);
        medium.clear_counters();
        medium.with_key()
    }

    /// The same encrypted, if the command was given a key.
    pub fn with_key(self) -> Result<Medium> {
        match (key::given(), self.0) {
            (Some(key), Layer::Clear(chip)) => {
                let page = leak_page(chip.inner());
                let sealed = XtsNand::new(*chip, key, page)?;
                Ok(Medium(Layer::Sealed(Box::new(sealed))))
            }
            (_, layer) => Ok(Medium(layer)),
        }
    }

    fn transferred(&self) -> &Transferred<'static, Bare> {
        match &self.0 {
            Layer::Clear(chip) => chip,
            Layer::Sealed(chip) => chip.inner(),
        }
    }

    /// What chip it is.
    pub fn name(&self) -> &str {
        match self.transferred().inner() {
            Bare::Image(chip) => chip.spec().name(),
            Bare::Device(chip) => chip.name(),
            Bare::Looked(chip) => chip.inner().name(),
        }
    }

    /// Shape of the chip; that of the volume may be less.
    pub fn chip_geometry(&self) -> Geometry {
        self.transferred().inner().geometry()
    }

    /// Whether what is durable on a simulated chip is so for the disk below its image.
    pub fn set_barrier(&mut self, on: bool) {
        if let Bare::Image(chip) = self.transfer().inner_mut() {
            chip.set_barrier(on);
        }
    }

    /// How the volume came to the chip.
    pub fn transfer(&mut self) -> &mut Transferred<'static, Bare> {
        match &mut self.0 {
            Layer::Clear(chip) => chip,
            Layer::Sealed(chip) => chip.inner_mut(),
        }
    }

    /// Bad blocks of the chip.
    pub fn bad_blocks(&mut self) -> Result<Vec<u32>> {
        let chip = self.transfer().inner_mut();
        let mut bad = Vec::new();
        for block in 0..chip.geometry().blocks() {
            if chip.is_bad(BlockAddr(block))? {
                bad.push(block);
            }
        }
        Ok(bad)
    }

    /// Begins to count anew.
    pub fn clear_counters(&mut self) {
        match self.transfer().inner_mut() {
            Bare::Image(chip) => chip.clear_counters(),
            Bare::Device(chip) => chip.clear_counters(),
            Bare::Looked(_) => {}
        }
    }

    /// Whether no good block has anything in its first page, where each block begins.
    pub fn is_erased(&mut self) -> Result<bool> {
        let chip = self.transfer().inner_mut();
        let geometry = chip.geometry();
        let mut page = vec![0; geometry.page_size() as usize];
        for block in 0..geometry.blocks() {
            let first = PageAddr(block * geometry.pages_per_block());
            if chip.is_bad(BlockAddr(block))? {
                continue;
            }
            let status = chip.read(first, 0, &mut page, &mut [])?;
            if !status.is_readable() || page.iter().any(|&byte| byte != 0xff) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Bare {
    fn open(path: &Path, access: Access) -> Result<Bare> {
        if !flashkit_mtd::is_device(path) {
            let mut image = patiently(|| SimNand::open(path, access.into()))?;
            image.distrust();
            return Ok(Bare::Image(image));
        }
        let write = access == Access::ReadWrite;
        let chip = patiently(|| MtdNand::open(path, write))?;
        Ok(match access {
            Access::ReadWrite => Bare::Device(chip),
            Access::ReadOnly => Bare::Looked(Overlay::new(chip)),
        })
    }
}

impl Nand for Bare {
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

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, MediumError> {
        Ok(each!(self, chip => chip.read_used(page, data, head, used)?))
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, MediumError> {
        Ok(each!(self, chip => chip.program(page, data, spare)?))
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        each!(self, chip => chip.copies(from, to))
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, MediumError> {
        Ok(each!(self, chip => chip.copy(from, to, spare, page)?))
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

impl Nand for Medium {
    type Error = MediumError;

    fn geometry(&self) -> Geometry {
        layer!(&self.0, chip => chip.geometry())
    }

    fn correctable_bits(&self) -> u32 {
        layer!(&self.0, chip => chip.correctable_bits())
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, MediumError> {
        layer!(&mut self.0, chip => chip.read(page, offset, data, spare))
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, MediumError> {
        layer!(&mut self.0, chip => chip.read_used(page, data, head, used))
    }

    fn program(
        &mut self,
        page: PageAddr,
        data: &[u8],
        spare: &[u8],
    ) -> Result<OpStatus, MediumError> {
        layer!(&mut self.0, chip => chip.program(page, data, spare))
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        layer!(&self.0, chip => chip.copies(from, to))
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, MediumError> {
        // Of an encrypted page the place is part of the cipher: that chip reads and programs.
        layer!(&mut self.0, chip => chip.copy(from, to, spare, page))
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, MediumError> {
        layer!(&mut self.0, chip => chip.erase(block))
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, MediumError> {
        layer!(&mut self.0, chip => chip.is_bad(block))
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), MediumError> {
        layer!(&mut self.0, chip => chip.mark_bad(block))
    }

    fn flush(&mut self) -> Result<(), MediumError> {
        layer!(&mut self.0, chip => chip.flush())
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
        let (chip, data) = match &mut self.0 {
            Layer::Clear(chip) => (&mut **chip, data),
            Layer::Sealed(chip) => chip.sealed(page, data),
        };
        let page = chip.chip_page(page);
        match chip.inner_mut() {
            Bare::Image(chip) => Ok(chip.program_torn(page, data, spare, tear, seed)?),
            _ => Err(MediumError::Tear),
        }
    }

    fn erase_torn(
        &mut self,
        block: BlockAddr,
        tear: EraseTear,
        seed: u64,
    ) -> Result<(), MediumError> {
        let block = self.transferred().chip_block(block);
        match self.transfer().inner_mut() {
            Bare::Image(chip) => Ok(chip.erase_torn(block, tear, seed)?),
            _ => Err(MediumError::Tear),
        }
    }
}

impl Metered for Medium {
    fn counters(&self) -> Counters {
        each!(self.transferred().inner(), chip => chip.counters())
    }

    fn erase_counts(&self) -> Vec<u32> {
        each!(self.transferred().inner(), chip => chip.erase_counts())
    }

    fn idle(&mut self, ns: u64) {
        each!(self.transfer().inner_mut(), chip => chip.idle(ns));
    }
}
