//! A chip that C functions drive: two of them, as nothing is written.

use core::ffi::{c_int, c_void};

use flashkit_nand_c::{Chip, Functions, Refused, Shape};

use crate::codes::{FLASHLIGHT_BOOT_E_CALLBACK, FLASHLIGHT_BOOT_E_GEOMETRY};

/// From `read`: more bits are wrong than can be corrected.
pub const FLASHLIGHT_BOOT_UNCORRECTABLE: c_int = -74;

const _: () = assert!(FLASHLIGHT_BOOT_UNCORRECTABLE == flashkit_nand_c::UNCORRECTABLE);

/// A chip: its shape, which must be the one that it was formatted with, and functions of yours,
/// each given `context`. A negative result but FLASHLIGHT_BOOT_UNCORRECTABLE says that the driver
/// failed. Copied when the volume is opened.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct flashlight_boot_chip {
    /// Handed to each function.
    pub context: *mut c_void,
    /// Data bytes of a page: a power of two from 1,024 to 16,384.
    pub page_size: u32,
    /// Usable spare bytes of a page.
    pub spare_size: u32,
    /// Pages of an erase block.
    pub pages_per_block: u32,
    /// Erase blocks, bad ones included.
    pub blocks: u32,
    /// Reads `len` bytes of a page from byte `offset`, and the first `spare_len` usable spare
    /// bytes. Either length may be 0. Gives the bits that had to be corrected, 0 if none, or
    /// FLASHLIGHT_BOOT_UNCORRECTABLE. An erased page reads as 0xff and 0.
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
    /// Whether a block is marked bad: 0 or 1. Asked of some of the first 64.
    pub is_bad: Option<unsafe extern "C" fn(context: *mut c_void, block: u32) -> c_int>,
    /// Called before each read, for a watchdog. May be null.
    pub r#yield: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Reads `len` bytes from byte `offset` of the page that the last `read` was of, and no other
    /// function is called between. A SPI NAND has that page in its cache. Gives 0. With it only
    /// the bytes that a page uses go over the bus; without, null, whole pages do.
    pub read_more: Option<
        unsafe extern "C" fn(context: *mut c_void, offset: u32, data: *mut u8, len: usize) -> c_int,
    >,
}

/// Nothing is programmed.
unsafe extern "C" fn never(
    _: *mut c_void,
    _: u32,
    _: *const u8,
    _: usize,
    _: *const u8,
    _: usize,
) -> c_int {
    -1
}

/// Nor erased or marked.
unsafe extern "C" fn never_block(_: *mut c_void, _: u32) -> c_int {
    -1
}

impl flashlight_boot_chip {
    /// The chip, if it can be one.
    ///
    /// # Safety
    /// As of [`Chip::new`].
    pub(crate) unsafe fn chip(&self) -> Result<Chip, c_int> {
        let functions = Functions {
            context: self.context,
            read: self.read,
            program: Some(never),
            erase: Some(never_block),
            is_bad: self.is_bad,
            mark_bad: Some(never_block),
            read_more: self.read_more,
            copies: None,
            copy: None,
            give_way: self.r#yield,
        };
        let shape = Shape {
            page_size: self.page_size,
            spare_size: self.spare_size,
            pages_per_block: self.pages_per_block,
            blocks: self.blocks,
            correctable_bits: 1,
        };
        // SAFETY: the caller's promise.
        unsafe { Chip::new(&functions, &shape) }.map_err(|refused| match refused {
            Refused::Function => FLASHLIGHT_BOOT_E_CALLBACK,
            Refused::Geometry => FLASHLIGHT_BOOT_E_GEOMETRY,
        })
    }
}
