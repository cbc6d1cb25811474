//! A chip that C functions drive.

use core::ffi::{c_int, c_void};

use flashkit_flashlight::ram_needed;
use flashkit_nand_c::memory::place;
use flashkit_nand_c::{Chip, Functions, Refused, Shape};

use crate::codes::{answer, FLASHLIGHT_E_CALLBACK, FLASHLIGHT_E_GEOMETRY};

/// From `read` and `copy`: more bits are wrong than can be corrected.
pub const FLASHLIGHT_CHIP_UNCORRECTABLE: c_int = -74;
/// From `program` and `erase`: the chip reports failure, the block is going bad.
pub const FLASHLIGHT_CHIP_FAILED: c_int = 1;
/// From `copy`: the chip reports that the program failed, the block of `to` is going bad.
pub const FLASHLIGHT_CHIP_COPY_FAILED: c_int = -75;

const _: () = assert!(FLASHLIGHT_CHIP_UNCORRECTABLE == flashkit_nand_c::UNCORRECTABLE);
const _: () = assert!(FLASHLIGHT_CHIP_FAILED == flashkit_nand_c::FAILED);
const _: () = assert!(FLASHLIGHT_CHIP_COPY_FAILED == flashkit_nand_c::COPY_FAILED);

/// A chip: its shape, and functions of yours, each given `context`. What they promise is in
/// docs/porting.md. A negative result but FLASHLIGHT_CHIP_UNCORRECTABLE and
/// FLASHLIGHT_CHIP_COPY_FAILED says that the driver failed (a bus, a timeout), and nothing of the
/// medium. None may call a function of the volume whose chip this is. Copied at the mount.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct flashlight_chip {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Data bytes of a page: a power of two from 1,024 to 16,384.
    pub page_size: u32,
    /// Spare bytes of a page that neither ECC nor the bad-block marker takes; 24 or more are of
    /// use.
    pub spare_size: u32,
    /// Pages of an erase block, 8 to 1,024.
    pub pages_per_block: u32,
    /// Erase blocks, bad ones included.
    pub blocks: u32,
    /// Wrong bits of a page that the ECC corrects at least, 1 or more.
    pub correctable_bits: u32,
    /// Reads `len` bytes of a page from byte `offset`, and the first `spare_len` usable spare
    /// bytes. Either length may be 0. Gives the bits that had to be corrected, 0 if none, or
    /// FLASHLIGHT_CHIP_UNCORRECTABLE. An erased page reads as 0xff and 0.
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
    /// stays 0xff. Durable when this gives 0; or FLASHLIGHT_CHIP_FAILED.
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
    /// Erases a block. Gives 0, or FLASHLIGHT_CHIP_FAILED.
    pub erase: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Whether a block is marked bad, by the factory or by `mark_bad`: 0 or 1.
    pub is_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Marks a block bad for good. Gives 0, also where that could not be done.
    pub mark_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Copies the data of a page to another one inside the chip, corrected by its ECC. The spare
    /// bytes of `to` become these, and 0xff behind them. Durable when it succeeds. Gives what
    /// `read` would of `from`; of FLASHLIGHT_CHIP_UNCORRECTABLE nothing was programmed. Or
    /// FLASHLIGHT_CHIP_COPY_FAILED. May be null: then pages go over the bus twice.
    pub copy: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            from: u32,
            to: u32,
            spare: *const u8,
            spare_len: usize,
        ) -> c_int,
    >,
    /// Called before each flash operation, for a watchdog or other threads. May be null.
    pub r#yield: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Reads `len` bytes from byte `offset` of the page that the last `read` was of, and no other
    /// function is called between. A SPI NAND has that page in its cache. Gives 0. With it only
    /// the bytes that a page uses go over the bus; without, null, whole pages do.
    pub read_more: Option<
        unsafe extern "C" fn(context: *mut c_void, offset: u32, data: *mut u8, len: usize) -> c_int,
    >,
    /// Whether `copy` may copy from one page to another: 0 or 1, ever the same. Some chips do not
    /// from one plane to another. Null: any page to any.
    pub copies: Option<unsafe extern "C" fn(context: *mut c_void, from: u32, to: u32) -> c_int>,
}

impl flashlight_chip {
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
            read_more: self.read_more,
            copies: self.copies,
            copy: self.copy,
            give_way: self.r#yield,
        };
        // SAFETY: the caller's promise.
        unsafe { Chip::new(&functions, &self.shape()) }.map_err(|refused| match refused {
            Refused::Function => FLASHLIGHT_E_CALLBACK,
            Refused::Geometry => FLASHLIGHT_E_GEOMETRY,
        })
    }
}

/// Gives the bytes of RAM that a volume on this chip needs in `bytes`. FLASHLIGHT_RAM gives the
/// same as a constant.
///
/// # Safety
/// `chip` and `bytes` are null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_ram_needed(
    chip: *const flashlight_chip,
    bytes: *mut usize,
) -> c_int {
    let needed = || {
        // SAFETY: the caller's promise.
        let (chip, bytes) = unsafe { (place(chip)?.as_ref(), place(bytes)?) };
        let geometry = chip.shape().geometry().ok_or(FLASHLIGHT_E_GEOMETRY)?;
        // SAFETY: as above.
        unsafe { bytes.as_ptr().write(ram_needed(&geometry)) };
        Ok(0)
    };
    answer(needed())
}
