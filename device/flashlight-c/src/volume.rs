//! A volume as a whole.

use core::ffi::{c_int, c_void};

use flashkit_flashlight::{
    transfer, BlockState, Config, Error as VolumeError, New, Stopped, NAME_MAX,
};
use flashkit_nand::Nand;
use flashkit_nand_c::memory::{place, room};
use flashkit_nand_c::Failure;

use crate::chip::flashlight_chip;
use crate::codes::{
    answer, of_volume, FLASHLIGHT_E_BUSY, FLASHLIGHT_E_CALLBACK, FLASHLIGHT_E_NOTFORMATTED,
    FLASHLIGHT_E_TRANSFERRED,
};
use crate::state::{begin, flashlight, flashlight_options, Mounting, Session, Volume};

/// Permissions of the root directory, for a mount on Linux.
const ROOT_PERMISSIONS: u16 = 0o755;

const NO_OPTIONS: flashlight_options = flashlight_options {
    context: core::ptr::null_mut(),
    lock: None,
    unlock: None,
    now: None,
    read_only: 0,
};

/// Space of a volume.
#[repr(C)]
pub struct flashlight_space {
    /// Bytes of a page.
    pub page_size: u32,
    /// Pages for data and metadata together.
    pub pages: u32,
    /// Of them, free.
    pub pages_free: u32,
    /// Bytes of a name at most.
    pub name_max: u32,
}

/// How a volume and its chip are. Counts are since the mount, but for blocks.
#[repr(C)]
pub struct flashlight_report {
    /// Blocks of the chip.
    pub blocks: u32,
    /// Of them, bad: from the factory, or gone bad in use.
    pub bad_blocks: u32,
    /// 1: so many blocks have gone bad that nothing is changed any more. Else 0.
    pub is_worn: u32,
    /// Why nothing is written until the next mount: 0 nothing is wrong, 1 a driver's failure, 2 a
    /// change was made in part, 3 the block table cannot be read or written.
    pub stopped: u32,
    /// The driver's last failure, as it gave it; FLASHLIGHT_E_CALLBACK for nonsense; 0 for none.
    pub driver_error: c_int,
    /// 1: what a file or a name was lately has been lost by damage; the next sync says so. Else 0.
    pub lost_change: u32,
    /// Reads with bits that had to be corrected.
    pub corrected_reads: u32,
    /// The most bits of one read.
    pub corrected_most: u32,
    /// Reads with more wrong bits than can be corrected. Power cuts leave pages that give such.
    pub unreadable_reads: u32,
    /// Programs that the chip said have failed.
    pub failed_programs: u32,
    /// Erases that the chip said have failed.
    pub failed_erases: u32,
    /// Erases.
    pub erases: u64,
    /// Pages of file data written for the program.
    pub written_pages: u64,
    /// Pages moved: by cleaning, for wear, and for the sake of bits that had to be corrected.
    pub moved_pages: u64,
    /// Blocks written anew because bits in them had to be corrected.
    pub refreshed_blocks: u64,
    /// The debt of cleaning: pages that hold nothing valid, in blocks that hold something valid.
    pub obsolete_pages: u32,
    /// Pages that can be written before a write waits for cleaning.
    pub pages_before_cleaning: u32,
}

/// What a step of scrubbing has done.
#[repr(C)]
pub struct flashlight_scrubbed {
    /// Pages read.
    pub read: u32,
    /// Blocks written anew because bits in them had to be corrected: 0 or 1.
    pub refreshed: u32,
    /// 1: a page in use cannot be read; it is of the inode `inode`, 0 if that is not known. Else 0.
    pub unreadable: u32,
    /// See there.
    pub inode: u32,
    /// 1: everything in use has been read since the round began. Else 0.
    pub done: u32,
}

/// Refuses what cannot be mounted or formatted, and closes the volume's gate.
///
/// # Safety
/// As [`flashlight_mount`].
unsafe fn prepare(
    fs: *mut flashlight,
    options: *const flashlight_options,
) -> Result<Mounting, c_int> {
    // SAFETY: the caller's promise.
    unsafe {
        let options = match options.is_null() {
            true => NO_OPTIONS,
            false => *place(options)?.as_ref(),
        };
        Mounting::begin(fs, options)
    }
}

/// Brings the chip and the RAM into the volume's place.
///
/// # Safety
/// As [`flashlight_mount`].
// A call of its own: the chip is not on the stack when the recovery begins.
#[inline(never)]
unsafe fn fill(
    mounting: &mut Mounting,
    chip: *const flashlight_chip,
    ram: *mut c_void,
    ram_len: usize,
    config: &Config,
) -> Result<(), c_int> {
    // SAFETY: the caller's promise.
    let (chip, ram) = unsafe { (place(chip)?.as_ref().chip()?, room(ram, ram_len)?) };
    told(Volume::place_into(mounting.place(), chip, ram, config, |fs| fs).map(drop))
}

/// Makes an empty volume: erases all good blocks. Anything on the chip is lost. `number` should be
/// one that no earlier volume on this chip had: a random one will do. `fs` must not be mounted.
///
/// # Safety
/// As for `flashlight_mount`.
#[no_mangle]
pub unsafe extern "C" fn flashlight_format(
    fs: *mut flashlight,
    chip: *const flashlight_chip,
    ram: *mut c_void,
    ram_len: usize,
    number: u32,
) -> c_int {
    let format = || {
        let config = Config::default();
        let root = New {
            mode: ROOT_PERMISSIONS,
            ..New::default()
        };
        // SAFETY: the caller's promise.
        let mut mounting = unsafe { prepare(fs, core::ptr::null())? };
        // SAFETY: as above.
        unsafe { fill(&mut mounting, chip, ram, ram_len, &config)? };
        told(mounting.format(number, &root, &config)).map(|()| 0)
    };
    answer(format())
}

/// Mounts a volume, and recovers what was durable when power failed. `ram` is a slice of
/// FLASHLIGHT_RAM bytes or more, at any address; it is the volume's until the unmount. `options`
/// may be null. Some 40 reads after an unmount, else more, and programs.
///
/// # Safety
/// Each pointer is null or valid; `fs` is all zeros, or was mounted before; `ram` has `ram_len`
/// bytes that nobody else uses.
#[no_mangle]
pub unsafe extern "C" fn flashlight_mount(
    fs: *mut flashlight,
    chip: *const flashlight_chip,
    ram: *mut c_void,
    ram_len: usize,
    options: *const flashlight_options,
) -> c_int {
    let mount = || {
        // SAFETY: the caller's promise.
        let mut mounting = unsafe { prepare(fs, options)? };
        let config = Config {
            read_only: mounting.is_read_only(),
            ..Config::default()
        };
        // SAFETY: as above.
        let mounted = unsafe { fill(&mut mounting, chip, ram, ram_len, &config) }
            .and_then(|()| told(mounting.mount(&config)));
        match mounted {
            // SAFETY: as above; there is no mount that would use them.
            Err(FLASHLIGHT_E_NOTFORMATTED) => Err(unsafe { nothing_found(chip, ram, ram_len) }),
            mounted => mounted.map(|()| 0),
        }
    };
    answer(mount())
}

/// What is said of a chip without a volume that can be mounted: whether it may be formatted.
///
/// # Safety
/// As [`flashlight_mount`].
// A call of its own: its chip is not on the stack of a recovery.
#[inline(never)]
unsafe fn nothing_found(chip: *const flashlight_chip, ram: *mut c_void, ram_len: usize) -> c_int {
    let is_transferred = || {
        // SAFETY: the caller's promise.
        let (mut chip, ram) = unsafe { (place(chip)?.as_ref().chip()?, room(ram, ram_len)?) };
        told(transfer::is_transferred(&mut chip, ram))
    };
    match is_transferred() {
        Ok(false) => FLASHLIGHT_E_NOTFORMATTED,
        Ok(true) => FLASHLIGHT_E_TRANSFERRED,
        Err(code) => code,
    }
}

/// Makes everything durable and ends the mount. FLASHLIGHT_E_BUSY while files are open. After any
/// other error the mount has ended as well; the next one recovers what was durable.
///
/// # Safety
/// `fs` is null or points to a `flashlight`.
#[no_mangle]
pub unsafe extern "C" fn flashlight_unmount(fs: *mut flashlight) -> c_int {
    let unmount = || {
        // SAFETY: the caller's promise.
        let mut session = unsafe { begin(fs)? };
        if session.has_open_files() {
            return Err(FLASHLIGHT_E_BUSY);
        }
        // In its place: a copy would take its size of the stack.
        let closed = session.volume().close();
        session.end();
        closed.map(|()| 0).map_err(|error| of_volume(&error))
    };
    answer(unmount())
}

/// Does something with a volume.
///
/// # Safety
/// `fs` is null or points to a `flashlight`.
pub(crate) unsafe fn with(
    fs: *mut flashlight,
    work: impl FnOnce(&mut Session<'_>) -> Result<c_int, c_int>,
) -> c_int {
    // SAFETY: the caller's promise.
    answer(unsafe { begin(fs) }.and_then(|mut session| work(&mut session)))
}

fn told<T>(result: Result<T, VolumeError<Failure>>) -> Result<T, c_int> {
    result.map_err(|error| of_volume(&error))
}

/// Makes everything durable: a checkpoint, if anything has changed.
///
/// # Safety
/// `fs` is null or points to a `flashlight`.
#[no_mangle]
pub unsafe extern "C" fn flashlight_sync(fs: *mut flashlight) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with(fs, |session| told(session.volume().sync()).map(|()| 0)) }
}

/// Cleans while nothing else is to be done: about as long as the moves of `pages` pages take. 1 if
/// more could be won by going on, else 0.
///
/// # Safety
/// `fs` is null or points to a `flashlight`.
#[no_mangle]
pub unsafe extern "C" fn flashlight_gc(fs: *mut flashlight, pages: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(fs, |session| {
            told(session.volume().gc(pages)).map(c_int::from)
        })
    }
}

/// Pages that can be written before a write waits for cleaning; 2,147,483,647 at most. No flash
/// operation.
///
/// # Safety
/// `fs` is null or points to a `flashlight`.
#[no_mangle]
pub unsafe extern "C" fn flashlight_pages_before_cleaning(fs: *mut flashlight) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with(fs, |session| {
            let pages = session.volume().pages_before_cleaning();
            Ok(c_int::try_from(pages).unwrap_or(c_int::MAX))
        })
    }
}

/// Reads on through what is in use, at most `pages` pages, and writes a block anew whose bits had
/// to be corrected. Call it again until `result` says `done`: then all that is stored has been
/// read.
///
/// # Safety
/// `fs` is null or points to a `flashlight`; `result` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_scrub(
    fs: *mut flashlight,
    pages: u32,
    result: *mut flashlight_scrubbed,
) -> c_int {
    let scrub = |session: &mut Session<'_>| {
        let result = place(result.cast_const())?;
        let scrubbed = told(session.volume().scrub(pages))?;
        let found = flashlight_scrubbed {
            read: scrubbed.read,
            refreshed: scrubbed.refreshed,
            unreadable: scrubbed.unreadable.is_some().into(),
            inode: scrubbed.unreadable.map_or(0, |page| page.ino),
            done: scrubbed.done.into(),
        };
        // SAFETY: the caller's promise.
        unsafe { result.as_ptr().write(found) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, scrub) }
}

/// Says how much space there is. No flash operation.
///
/// # Safety
/// `fs` is null or points to a `flashlight`; `space` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_statvfs(
    fs: *mut flashlight,
    space: *mut flashlight_space,
) -> c_int {
    let statvfs = |session: &mut Session<'_>| {
        let space = place(space.cast_const())?;
        let volume = session.volume();
        let pages = volume.statfs();
        let found = flashlight_space {
            page_size: volume.nand().geometry().page_size(),
            pages: pages.pages,
            pages_free: pages.pages_free,
            name_max: NAME_MAX as u32,
        };
        // SAFETY: the caller's promise.
        unsafe { space.as_ptr().write(found) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, statvfs) }
}

/// Says how the volume and its chip are. No flash operation, but on a chip with more blocks than a
/// page has bytes: there one read for each page of the block table.
///
/// # Safety
/// `fs` is null or points to a `flashlight`; `report` is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_health(
    fs: *mut flashlight,
    report: *mut flashlight_report,
) -> c_int {
    let health = |session: &mut Session<'_>| {
        let to = place(report.cast_const())?;
        // SAFETY: the caller's promise.
        unsafe { to.as_ptr().write(report_of(session.volume())) };
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, health) }
}

fn report_of(volume: &mut crate::state::Volume) -> flashlight_report {
    let geometry = volume.nand().geometry();
    let (mut bad_blocks, mut obsolete_pages) = (0, 0);
    for block in 0..geometry.blocks() {
        match volume.block_state(block) {
            BlockState::Bad => bad_blocks += 1,
            BlockState::Meta(valid) | BlockState::Data(valid) => {
                obsolete_pages += geometry.pages_per_block().saturating_sub(valid);
            }
            _ => {}
        }
    }
    let (heard, written) = (volume.nand().heard, volume.written());
    flashlight_report {
        blocks: geometry.blocks(),
        bad_blocks,
        is_worn: volume.is_worn().into(),
        stopped: match volume.stopped() {
            None => 0,
            Some(Stopped::Driver) => 1,
            Some(Stopped::HalfDone) => 2,
            Some(Stopped::BlockTable) => 3,
        },
        driver_error: match heard.failure {
            None => 0,
            Some(Failure::Driver(code)) => code,
            Some(Failure::Nonsense) => FLASHLIGHT_E_CALLBACK,
        },
        lost_change: volume.lost_change().is_some().into(),
        corrected_reads: heard.corrected_reads,
        corrected_most: heard.corrected_most,
        unreadable_reads: heard.unreadable_reads,
        failed_programs: heard.failed_programs,
        failed_erases: heard.failed_erases,
        erases: written.erases,
        written_pages: written.data,
        moved_pages: written.moved_data
            + written.moved_meta
            + written.levelled_pages
            + written.refreshed_pages,
        refreshed_blocks: written.refreshed,
        obsolete_pages,
        pages_before_cleaning: volume.pages_before_cleaning(),
    }
}
