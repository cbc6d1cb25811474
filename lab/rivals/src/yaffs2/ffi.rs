//! YAFFS2's direct interface, and `yaffs2/driver.c`, as C has them.

use std::ffi::{c_char, c_int, c_void};

/// A chip, for the driver.
#[repr(C)]
pub struct Chip {
    pub context: *mut c_void,
    pub page_size: u32,
    pub pages_per_block: u32,
    pub blocks: u32,
    pub read: unsafe extern "C" fn(*mut c_void, u32, *mut u8, u32, *mut u8, u32) -> c_int,
    pub program: unsafe extern "C" fn(*mut c_void, u32, *const u8, u32, *const u8, u32) -> c_int,
    pub erase: unsafe extern "C" fn(*mut c_void, u32) -> c_int,
    pub is_bad: unsafe extern "C" fn(*mut c_void, u32) -> c_int,
    pub mark_bad: unsafe extern "C" fn(*mut c_void, u32) -> c_int,
}

/// Answers of a chip.
pub const DONE: c_int = 0;
pub const READ_CORRECTED: c_int = 1;
pub const FAILED: c_int = -1;

/// What chunks are for, in the driver's order.
pub const PURPOSES: [&str; 5] = [
    "data",
    "moved by cleaning",
    "file headers",
    "summaries",
    "checkpoints",
];

/// The driver's record of a volume.
#[repr(C)]
pub struct Volume {
    _private: [u8; 0],
}

/// An open directory.
#[repr(C)]
pub struct Dir {
    _private: [u8; 0],
}

unsafe extern "C" {
    pub fn flashkit_yaffs2_new(name: *const c_char, chip: *const Chip) -> *mut Volume;
    pub fn flashkit_yaffs2_drop(volume: *mut Volume);
    pub fn flashkit_yaffs2_enter(volume: *mut Volume);
    pub fn flashkit_yaffs2_said(volume: *const Volume) -> *const c_char;
    pub fn flashkit_yaffs2_memory(volume: *const Volume) -> usize;
    pub fn flashkit_yaffs2_written(volume: *const Volume) -> *const [u64; PURPOSES.len()];
    pub fn flashkit_yaffs2_size(file: c_int) -> i64;
    pub fn flashkit_yaffs2_is_dir(path: *const c_char) -> c_int;
    pub fn flashkit_yaffs2_next(dir: *mut Dir) -> *const c_char;

    pub fn yaffs_mount(path: *const c_char) -> c_int;
    pub fn yaffs_unmount2(path: *const c_char, force: c_int) -> c_int;
    pub fn yaffs_sync(path: *const c_char) -> c_int;
    pub fn yaffs_open(path: *const c_char, flags: c_int, mode: c_int) -> c_int;
    pub fn yaffs_close(file: c_int) -> c_int;
    pub fn yaffs_fsync(file: c_int) -> c_int;
    pub fn yaffs_pread(file: c_int, data: *mut c_void, size: u32, offset: i64) -> c_int;
    pub fn yaffs_pwrite(file: c_int, data: *const c_void, size: u32, offset: i64) -> c_int;
    pub fn yaffs_ftruncate(file: c_int, size: i64) -> c_int;
    pub fn yaffs_unlink(path: *const c_char) -> c_int;
    pub fn yaffs_mkdir(path: *const c_char, mode: u32) -> c_int;
    pub fn yaffs_rmdir(path: *const c_char) -> c_int;
    pub fn yaffs_rename(from: *const c_char, to: *const c_char) -> c_int;
    pub fn yaffs_opendir(path: *const c_char) -> *mut Dir;
    pub fn yaffs_closedir(dir: *mut Dir) -> c_int;
    pub fn yaffs_get_error() -> c_int;
}

pub const READ_WRITE: c_int = 0o2;
pub const CREATE: c_int = 0o100;
pub const TRUNCATE: c_int = 0o1000;
/// Read and written by its owner.
pub const MODE: c_int = 0o600;

/// The codes of Linux, but negative.
pub const NOT_FOUND: c_int = -2;
pub const NO_MEMORY: c_int = -12;
pub const EXISTS: c_int = -17;
pub const NOT_DIR: c_int = -20;
pub const IS_DIR: c_int = -21;
pub const INVALID: c_int = -22;
pub const TOO_MANY_OPEN: c_int = -23;
pub const NO_SPACE: c_int = -28;
pub const READ_ONLY: c_int = -30;
pub const NAME_TOO_LONG: c_int = -36;
pub const NOT_EMPTY: c_int = -39;
pub const LOOP: c_int = -40;
