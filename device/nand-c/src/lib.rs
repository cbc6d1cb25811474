//! A NAND chip that C functions drive, and what else the C libraries of FlashLight and jftl share.
//!
//! A library has a struct of its own that C fills in; [`Chip::new`] takes what it says and checks
//! it. [`Chip`] is a [`Nand`]: it hands each operation to its function and checks the answer. Bits
//! that were corrected and failures are counted in [`Heard`].
//!
//! | module | what it is |
//! | --- | --- |
//! | [`memory`] | pointers and lengths from C |
//! | [`gate`] | who may use a volume: nobody before a mount, and one call at a time |
//!
//! | a function gives | it means |
//! | --- | --- |
//! | 0 | done; of a read, nothing to be corrected; of `is_bad` and `copies`, no |
//! | 1 | [`FAILED`] of a program or an erase; of `is_bad` and `copies`, yes |
//! | 1 and more, of a read or a copy | so many bits were corrected |
//! | [`UNCORRECTABLE`], of a read or a copy | too many are wrong |
//! | [`COPY_FAILED`], of a copy | its program failed |
//! | another negative number | the driver failed: [`Failure::Driver`] |
//! | anything else | [`Failure::Nonsense`] |

#![no_std]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod gate;
pub mod memory;

use core::ffi::{c_int, c_void};

use flashkit_nand::{
    BlockAddr, Copied, Geometry, Nand, OpStatus, PageAddr, ReadStatus, copy_over_bus,
};

/// From a read or a copy: more bits are wrong than can be corrected.
pub const UNCORRECTABLE: c_int = -74;
/// From a program or an erase: the chip reports failure.
pub const FAILED: c_int = 1;
/// From a copy: the chip reports that the program failed.
pub const COPY_FAILED: c_int = -75;

/// Reads a page: `context`, page, offset, data, its length, spare bytes, their number.
pub type Read =
    unsafe extern "C" fn(*mut c_void, u32, u32, *mut u8, usize, *mut u8, usize) -> c_int;
/// Programs a page: `context`, page, data, its length, spare bytes, their number.
pub type Program =
    unsafe extern "C" fn(*mut c_void, u32, *const u8, usize, *const u8, usize) -> c_int;
/// More bytes of the page read last: `context`, offset, data, its length.
pub type ReadMore = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize) -> c_int;
/// Whether the chip copies from one page to another: `context`, from, to.
pub type Copies = unsafe extern "C" fn(*mut c_void, u32, u32) -> c_int;
/// Copies a page: `context`, from, to, spare bytes, their number.
pub type CopyPage = unsafe extern "C" fn(*mut c_void, u32, u32, *const u8, usize) -> c_int;
/// Erases a block, asks whether it is bad, or marks it so: `context`, block.
pub type OfBlock = unsafe extern "C" fn(*mut c_void, u32) -> c_int;
/// Lets others run: `context`.
pub type Yield = unsafe extern "C" fn(*mut c_void);

/// The functions of a chip, and what is handed to each. They may be called as their types say for
/// as long as this is used: who makes one promises it ([`Chip::new`]).
#[derive(Clone, Copy)]
pub struct Functions {
    /// Handed to each function.
    pub context: *mut c_void,
    /// As [`Nand::read`].
    pub read: Option<Read>,
    /// As [`Nand::program`].
    pub program: Option<Program>,
    /// As [`Nand::erase`].
    pub erase: Option<OfBlock>,
    /// As [`Nand::is_bad`].
    pub is_bad: Option<OfBlock>,
    /// As [`Nand::mark_bad`].
    pub mark_bad: Option<OfBlock>,
    /// Reads on in the page of the last read; need not be there.
    pub read_more: Option<ReadMore>,
    /// As [`Nand::copies`]; without it, between any two pages.
    pub copies: Option<Copies>,
    /// As [`Nand::copy`] inside the chip; need not be there.
    pub copy: Option<CopyPage>,
    /// Called before each read, program, copy and erase; need not be there.
    pub give_way: Option<Yield>,
}

/// The shape of a chip, as C says it.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Data bytes of a page.
    pub page_size: u32,
    /// Usable spare bytes of a page.
    pub spare_size: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Blocks.
    pub blocks: u32,
    /// Wrong bits of a page that are corrected at least.
    pub correctable_bits: u32,
}

impl Shape {
    /// The geometry, if there can be such a chip.
    pub fn geometry(&self) -> Option<Geometry> {
        if self.correctable_bits == 0 {
            return None;
        }
        let made = Geometry::new(
            self.page_size,
            self.spare_size,
            self.pages_per_block,
            self.blocks,
        );
        made.ok()
    }
}

/// How a function failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// As it said, by this number.
    Driver(c_int),
    /// It gave what it may not give.
    Nonsense,
}

/// Why there is no chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A function is missing.
    Function,
    /// There can be no chip of that shape.
    Geometry,
}

/// What the chip has said so far.
#[derive(Clone, Copy, Default)]
pub struct Heard {
    /// Reads with bits that were corrected.
    pub corrected_reads: u32,
    /// The most bits of one.
    pub corrected_most: u32,
    /// Reads that gave [`UNCORRECTABLE`].
    pub unreadable_reads: u32,
    /// Programs that gave [`FAILED`].
    pub failed_programs: u32,
    /// Erases that gave [`FAILED`].
    pub failed_erases: u32,
    /// The last failure.
    pub failure: Option<Failure>,
}

/// A chip that C functions drive.
pub struct Chip {
    context: *mut c_void,
    read: Read,
    program: Program,
    erase: OfBlock,
    is_bad: OfBlock,
    mark_bad: OfBlock,
    read_more: Option<ReadMore>,
    copies: Option<Copies>,
    copy: Option<CopyPage>,
    give_way: Option<Yield>,
    geometry: Geometry,
    correctable_bits: u32,
    /// What it has said so far.
    pub heard: Heard,
}

impl Chip {
    /// Takes the functions and the shape of a chip.
    ///
    /// # Safety
    /// Each function that is there may be called as its type says, with `context`, for as long as
    /// the chip is used. It uses the bytes it is given and no others.
    ///
    /// # Errors
    /// What is missing or cannot be.
    pub unsafe fn new(functions: &Functions, shape: &Shape) -> Result<Chip, Refused> {
        let geometry = shape.geometry().ok_or(Refused::Geometry)?;
        let &Functions {
            context,
            read: Some(read),
            program: Some(program),
            erase: Some(erase),
            is_bad: Some(is_bad),
            mark_bad: Some(mark_bad),
            read_more,
            copies,
            copy,
            give_way,
        } = functions
        else {
            return Err(Refused::Function);
        };
        Ok(Chip {
            context,
            read,
            program,
            erase,
            is_bad,
            mark_bad,
            read_more,
            copies,
            copy,
            give_way,
            geometry,
            correctable_bits: shape.correctable_bits,
            heard: Heard::default(),
        })
    }

    fn give_way(&self) {
        if let Some(give_way) = self.give_way {
            // SAFETY: `new` asks for functions that may be called so.
            unsafe { give_way(self.context) };
        }
    }

    /// A number from 0 to `most`, or a failure.
    fn number(&mut self, given: c_int, most: u32) -> Result<u32, Failure> {
        let failure = match u32::try_from(given) {
            Ok(number) if number <= most => return Ok(number),
            Ok(_) => Failure::Nonsense,
            Err(_) => Failure::Driver(given),
        };
        self.heard.failure = Some(failure);
        Err(failure)
    }

    /// What the chip says of a page that it has read.
    fn page_read(&mut self, given: c_int) -> Result<ReadStatus, Failure> {
        if given == UNCORRECTABLE {
            count(&mut self.heard.unreadable_reads);
            return Ok(ReadStatus::Uncorrectable);
        }
        let bits = 8 * (self.geometry.page_size() + self.geometry.spare_size());
        match self.number(given, bits)? {
            0 => Ok(ReadStatus::Clean),
            bits => {
                count(&mut self.heard.corrected_reads);
                self.heard.corrected_most = self.heard.corrected_most.max(bits);
                Ok(ReadStatus::Corrected(bits))
            }
        }
    }
}

fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}

impl Nand for Chip {
    type Error = Failure;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn correctable_bits(&self) -> u32 {
        self.correctable_bits
    }

    fn read(
        &mut self,
        page: PageAddr,
        offset: u32,
        data: &mut [u8],
        spare: &mut [u8],
    ) -> Result<ReadStatus, Failure> {
        self.give_way();
        let (to, len) = (data.as_mut_ptr(), data.len());
        let (spare_to, spare_len) = (spare.as_mut_ptr(), spare.len());
        // SAFETY: as in `give_way`; there is room for so many bytes.
        let given =
            unsafe { (self.read)(self.context, page.0, offset, to, len, spare_to, spare_len) };
        self.page_read(given)
    }

    fn read_used(
        &mut self,
        page: PageAddr,
        data: &mut [u8],
        head: usize,
        used: &dyn Fn(&[u8]) -> usize,
    ) -> Result<ReadStatus, Failure> {
        let (Some(read_more), Some((first, rest))) =
            (self.read_more, data.split_at_mut_checked(head))
        else {
            return self.read(page, 0, data, &mut []);
        };
        let status = self.read(page, 0, first, &mut [])?;
        if status.is_readable() {
            let more = used(first).saturating_sub(head).min(rest.len());
            if more > 0 {
                let to = rest.as_mut_ptr();
                // SAFETY: as in `give_way`; there is room for so many bytes.
                let given = unsafe { read_more(self.context, head as u32, to, more) };
                self.number(given, 0)?;
            }
        }
        Ok(status)
    }

    fn program(&mut self, page: PageAddr, data: &[u8], spare: &[u8]) -> Result<OpStatus, Failure> {
        self.give_way();
        let (from, len) = (data.as_ptr(), data.len());
        let (spare_from, spare_len) = (spare.as_ptr(), spare.len());
        // SAFETY: as in `give_way`; there are so many bytes.
        let given =
            unsafe { (self.program)(self.context, page.0, from, len, spare_from, spare_len) };
        if self.number(given, FAILED as u32)? == 0 {
            return Ok(OpStatus::Done);
        }
        count(&mut self.heard.failed_programs);
        Ok(OpStatus::Failed)
    }

    fn copies(&self, from: PageAddr, to: PageAddr) -> bool {
        match (self.copy, self.copies) {
            // SAFETY: as in `give_way`.
            (Some(_), Some(copies)) => unsafe { copies(self.context, from.0, to.0) == 1 },
            (copy, _) => copy.is_some(),
        }
    }

    fn copy(
        &mut self,
        from: PageAddr,
        to: PageAddr,
        spare: &[u8],
        page: &mut [u8],
    ) -> Result<Copied, Failure> {
        let Some(copy) = self.copy.filter(|_| self.copies(from, to)) else {
            return copy_over_bus(self, from, to, spare, page);
        };
        self.give_way();
        let (spare_from, len) = (spare.as_ptr(), spare.len());
        // SAFETY: as in `give_way`; there are so many bytes.
        let given = unsafe { copy(self.context, from.0, to.0, spare_from, len) };
        if given == COPY_FAILED {
            count(&mut self.heard.failed_programs);
            return Ok(Copied::Failed);
        }
        Ok(match self.page_read(given)? {
            ReadStatus::Uncorrectable => Copied::Uncorrectable,
            status => Copied::Done(status),
        })
    }

    fn erase(&mut self, block: BlockAddr) -> Result<OpStatus, Failure> {
        self.give_way();
        // SAFETY: as in `give_way`.
        let given = unsafe { (self.erase)(self.context, block.0) };
        if self.number(given, FAILED as u32)? == 0 {
            return Ok(OpStatus::Done);
        }
        count(&mut self.heard.failed_erases);
        Ok(OpStatus::Failed)
    }

    fn is_bad(&mut self, block: BlockAddr) -> Result<bool, Failure> {
        // SAFETY: as in `give_way`.
        let given = unsafe { (self.is_bad)(self.context, block.0) };
        Ok(self.number(given, 1)? == 1)
    }

    fn mark_bad(&mut self, block: BlockAddr) -> Result<(), Failure> {
        // SAFETY: as in `give_way`.
        let given = unsafe { (self.mark_bad)(self.context, block.0) };
        self.number(given, 0).map(|_| ())
    }
}
