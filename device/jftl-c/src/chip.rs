//! A chip that C functions drive, with the seven functions that users of Dhara have.

use core::ffi::{c_int, c_void};

use flashkit_jftl::{ram_bytes, MapCache};
use flashkit_nand_c::memory::place;
use flashkit_nand_c::{Chip, Functions, Refused, Shape};

use crate::codes::{JFTL_E_CALLBACK, JFTL_E_GEOMETRY};

/// From `read` and `copy`: more bits are wrong than can be corrected.
pub const JFTL_CHIP_UNCORRECTABLE: c_int = -74;
/// From `program` and `erase`: the chip reports failure, the block is going bad.
pub const JFTL_CHIP_FAILED: c_int = 1;
/// From `copy`: the chip reports that the program failed, the block of `to` is going bad.
pub const JFTL_CHIP_COPY_FAILED: c_int = -75;

const _: () = assert!(JFTL_CHIP_UNCORRECTABLE == flashkit_nand_c::UNCORRECTABLE);
const _: () = assert!(JFTL_CHIP_FAILED == flashkit_nand_c::FAILED);
const _: () = assert!(JFTL_CHIP_COPY_FAILED == flashkit_nand_c::COPY_FAILED);

/// A chip: its shape, and functions of yours, each given `context`. What they promise is in
/// docs/porting.md. A negative result but JFTL_CHIP_UNCORRECTABLE and JFTL_CHIP_COPY_FAILED says
/// that the driver failed. None may call a function of the disk whose chip this is. Copied at the
/// mount.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct jftl_chip {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Data bytes of a page, and of a sector: a power of two from 512 to 16,384.
    pub page_size: u32,
    /// Spare bytes of a page that neither ECC nor the bad-block marker takes. 8 or more are of use;
    /// with fewer, say 0, a page of each block is used instead.
    pub spare_size: u32,
    /// Pages of an erase block, 4 to 1,024.
    pub pages_per_block: u32,
    /// Erase blocks, bad ones included; 40 or more.
    pub blocks: u32,
    /// Wrong bits of a page that the ECC corrects at least, 1 or more.
    pub correctable_bits: u32,
    /// Reads `len` bytes of a page from byte `offset`, and the first `spare_len` usable spare
    /// bytes. Either length may be 0. Gives the bits that had to be corrected, 0 if none, or
    /// JFTL_CHIP_UNCORRECTABLE. An erased page reads as 0xff and 0.
    pub read: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            page: u32,
            offset: u32,
            data: *mut u8,
            len: usize,
            spare: *mut u8,
            spare_len: usize,
        ) -> c_int,
    >,
    /// Programs a page: `len` bytes from byte 0, `spare_len` spare bytes from byte 0; the rest
    /// stays 0xff. Durable when this gives 0; or JFTL_CHIP_FAILED.
    pub program: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            page: u32,
            data: *const u8,
            len: usize,
            spare: *const u8,
            spare_len: usize,
        ) -> c_int,
    >,
    /// Erases a block. Gives 0, or JFTL_CHIP_FAILED.
    pub erase: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Whether a block is marked bad, by the factory or by `mark_bad`: 0 or 1.
    pub is_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Marks a block bad for good. Gives 0, also where that could not be done.
    pub mark_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Not called: jftl remembers which pages are free. A driver for Dhara has it; may be null.
    pub is_free: Option<unsafe extern "C" fn(context: *mut c_void, page: u32) -> c_int>,
    /// Copies the data of a page to another one inside the chip, corrected by its ECC. The spare
    /// bytes of `to` become these, and 0xff behind them. Durable when it succeeds. Gives what
    /// `read` would of `from`; of JFTL_CHIP_UNCORRECTABLE nothing was programmed. Or
    /// JFTL_CHIP_COPY_FAILED. May be null: then pages go over the bus twice.
    pub copy: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            from: u32,
            to: u32,
            spare: *const u8,
            spare_len: usize,
        ) -> c_int,
    >,
    /// Whether `copy` may copy from one page to another: 0 or 1, ever the same. Some chips do not
    /// from one plane to another. Null: any page to any.
    pub copies: Option<unsafe extern "C" fn(context: *mut c_void, from: u32, to: u32) -> c_int>,
    /// Called before each flash operation, for a watchdog or other threads. May be null.
    pub r#yield: Option<unsafe extern "C" fn(context: *mut c_void)>,
}

impl jftl_chip {
    fn shape(&self) -> Shape {
        Shape {
            page_size: self.page_size,
            spare_size: self.spare_size,
            pages_per_block: self.pages_per_block,
            blocks: self.blocks,
            correctable_bits: self.correctable_bits,
        }
    }

    /// The chip, if it can be one.
    ///
    /// # Safety
    /// As of [`Chip::new`].
    pub(crate) unsafe fn chip(&self) -> Result<Chip, c_int> {
        let functions = Functions {
            context: self.context,
            read: self.read,
            program: self.program,
            erase: self.erase,
            is_bad: self.is_bad,
            mark_bad: self.mark_bad,
            read_more: None,
            copies: self.copies,
            copy: self.copy,
            give_way: self.r#yield,
        };
        // SAFETY: the caller's promise.
        unsafe { Chip::new(&functions, &self.shape()) }.map_err(|refused| match refused {
            Refused::Function => JFTL_E_CALLBACK,
            Refused::Geometry => JFTL_E_GEOMETRY,
        })
    }
}

/// Gives the bytes of RAM that a disk on this chip needs in `bytes`, with so many pieces of its map
/// in RAM: 4 at least, each of 128 sectors and 524 bytes. 0: all of the map, which is fastest.
///
/// # Safety
/// `chip` and `bytes` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn jftl_ram_needed(
    chip: *const jftl_chip,
    pieces: u32,
    bytes: *mut usize,
) -> c_int {
    let needed = || {
        // SAFETY: the caller's promise.
        let (chip, bytes) = unsafe { (place(chip)?.as_ref(), place(bytes)?) };
        let geometry = chip.shape().geometry().ok_or(JFTL_E_GEOMETRY)?;
        let cache = match pieces {
            0 => MapCache::Whole,
            n => MapCache::Pieces(n),
        };
        let needed = ram_bytes(&geometry, cache).map_err(|_| JFTL_E_GEOMETRY)?;
        // SAFETY: as above.
        unsafe { bytes.as_ptr().write(needed) };
        Ok(0)
    };
    needed().unwrap_or_else(|code: c_int| code)
}
