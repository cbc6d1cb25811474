//! YAFFS2 over a simulated chip, by its direct interface.
//!
//! The sources are those of Debian's package of U-Boot, and it is set up as U-Boot's own command
//! does it: a chunk is a page, its tags are 28 of the page's spare bytes, ten caches of a chunk,
//! five blocks in reserve, a summary at the end of each block, a checkpoint at a sync and when it
//! is unmounted. Without tags in the spare bytes there is no such chip: smaller ones are refused.
//!
//! `fsync` is `yaffs_fsync`: a file's cached chunks and its header. Nothing cleans in idle time,
//! for this copy has no call for that; Linux's has a thread. There is no page cache, as for the
//! other file systems in this process.

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr, ReadStatus};
use flashkit_sim::{Metered, SimNand};
use flashkit_vfs::{Counters, Error};
use flashkit_workload::{Store, StoreError};

mod ffi;

type Result<T> = std::result::Result<T, StoreError>;

/// Spare bytes that the tags take.
const TAGS: u32 = 28;
/// A directory that every volume has, for what a mount finds without a name.
const LOST_AND_FOUND: &str = "lost+found";

/// YAFFS2 has its open files in variables, and no thread may change them while another does.
static CALLS: Mutex<()> = Mutex::new(());

fn calls() -> MutexGuard<'static, ()> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What YAFFS2's driver works on.
struct Chip {
    nand: SimNand,
    /// What the driver could not do, through no fault of the medium.
    failed: Option<String>,
}

impl Chip {
    /// Notes what is no fault of the medium; every call fails then.
    fn fail(&mut self, what: &dyn std::fmt::Display) -> c_int {
        self.failed.get_or_insert(what.to_string());
        ffi::FAILED
    }

    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> c_int {
        match self.nand.read(PageAddr(page), 0, data, spare) {
            Err(error) => self.fail(&error),
            Ok(ReadStatus::Corrected(_)) => ffi::READ_CORRECTED,
            Ok(status) if status.is_readable() => ffi::DONE,
            Ok(_) => ffi::FAILED,
        }
    }

    fn done(&mut self, done: std::result::Result<OpStatus, flashkit_sim::SimError>) -> c_int {
        match done {
            Err(error) => self.fail(&error),
            Ok(OpStatus::Failed) => ffi::FAILED,
            Ok(OpStatus::Done) => ffi::DONE,
        }
    }
}

/// The chip of a driver's call.
///
/// # Safety
/// `context` is that of a [`Yaffs2`], whose chip nothing else refers to during the call.
unsafe fn chip<'a>(context: *mut c_void) -> &'a mut Chip {
    // SAFETY: as above.
    unsafe { &mut *context.cast::<Chip>() }
}

/// The bytes of a driver's call, which may be none.
///
/// # Safety
/// There are so many from `first` on.
unsafe fn bytes<'a>(first: *const u8, len: u32) -> &'a [u8] {
    match len {
        0 => &[],
        // SAFETY: as above.
        len => unsafe { slice::from_raw_parts(first, len as usize) },
    }
}

/// The same, to be written.
///
/// # Safety
/// As for `bytes`, and nothing else refers to them.
unsafe fn bytes_mut<'a>(first: *mut u8, len: u32) -> &'a mut [u8] {
    match len {
        0 => &mut [],
        // SAFETY: as above.
        len => unsafe { slice::from_raw_parts_mut(first, len as usize) },
    }
}

unsafe extern "C" fn read(
    context: *mut c_void,
    page: u32,
    data: *mut u8,
    data_len: u32,
    spare: *mut u8,
    spare_len: u32,
) -> c_int {
    // SAFETY: the driver gives its own context, and buffers of these lengths.
    unsafe { chip(context).read(page, bytes_mut(data, data_len), bytes_mut(spare, spare_len)) }
}

unsafe extern "C" fn program(
    context: *mut c_void,
    page: u32,
    data: *const u8,
    data_len: u32,
    spare: *const u8,
    spare_len: u32,
) -> c_int {
    // SAFETY: as for `read`.
    let (chip, data, spare) = unsafe {
        (
            chip(context),
            bytes(data, data_len),
            bytes(spare, spare_len),
        )
    };
    let programmed = chip.nand.program(PageAddr(page), data, spare);
    chip.done(programmed)
}

unsafe extern "C" fn erase(context: *mut c_void, block: u32) -> c_int {
    // SAFETY: as for `read`.
    let chip = unsafe { chip(context) };
    let erased = chip.nand.erase(BlockAddr(block));
    chip.done(erased)
}

unsafe extern "C" fn is_bad(context: *mut c_void, block: u32) -> c_int {
    // SAFETY: as for `read`.
    let chip = unsafe { chip(context) };
    match chip.nand.is_bad(BlockAddr(block)) {
        Ok(bad) => bad.into(),
        // Nothing goes on with such a chip.
        Err(error) => {
            chip.fail(&error);
            1
        }
    }
}

unsafe extern "C" fn mark_bad(context: *mut c_void, block: u32) -> c_int {
    // SAFETY: as for `read`.
    let chip = unsafe { chip(context) };
    match chip.nand.mark_bad(BlockAddr(block)) {
        Ok(()) => ffi::DONE,
        Err(error) => chip.fail(&error),
    }
}

/// A mounted YAFFS2. Open files are its handles, of which a process has a hundred.
pub struct Yaffs2 {
    volume: *mut ffi::Volume,
    chip: *mut Chip,
    /// Where it is mounted; its paths begin with it.
    root: String,
    mounted: bool,
    open: Vec<c_int>,
}

impl Yaffs2 {
    /// Mounts a new chip; that is not counted. An erased chip is an empty volume.
    ///
    /// # Errors
    /// What YAFFS2 says of the chip.
    pub fn new(nand: SimNand) -> Result<Yaffs2> {
        let mut fs = Yaffs2::mount(nand)?;
        fs.chip_mut().nand.clear_counters();
        Ok(fs)
    }

    /// Mounts a chip as it is.
    ///
    /// # Errors
    /// As for [`Yaffs2::new`].
    pub fn mount(mut nand: SimNand) -> Result<Yaffs2> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);

        let geometry = nand.geometry();
        if geometry.spare_size() < TAGS {
            return Err(Error::Unsupported.into());
        }
        // C cannot be unwound.
        nand.distrust();
        // Of one length: one name must not begin with another.
        let root = format!("/{:08}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(&root[..]).map_err(|_| Error::Invalid)?;
        let chip = Box::into_raw(Box::new(Chip { nand, failed: None }));
        let driver = ffi::Chip {
            context: chip.cast(),
            page_size: geometry.page_size(),
            pages_per_block: geometry.pages_per_block(),
            blocks: geometry.blocks(),
            read,
            program,
            erase,
            is_bad,
            mark_bad,
        };
        let calling = calls();
        // SAFETY: both are copied.
        let volume = unsafe { ffi::flashkit_yaffs2_new(name.as_ptr(), &raw const driver) };
        drop(calling);
        if volume.is_null() {
            // SAFETY: it came from a box, and nobody has it.
            drop(unsafe { Box::from_raw(chip) });
            return Err(Error::Io("no memory".into()).into());
        }
        let mut fs = Yaffs2 {
            volume,
            chip,
            root,
            mounted: false,
            open: Vec::new(),
        };
        // SAFETY: the name is there for the call.
        fs.call(|| unsafe { ffi::yaffs_mount(name.as_ptr()) })?;
        fs.mounted = true;
        Ok(fs)
    }

    /// The chip as a power cut would leave it now, between two operations.
    pub fn cut(self) -> SimNand {
        self.chip().nand.clone()
    }

    fn chip(&self) -> &Chip {
        // SAFETY: the chip lives as long as `self`; YAFFS2 reaches for it only in `call`, which
        // takes `&mut self`.
        unsafe { &*self.chip }
    }

    fn chip_mut(&mut self) -> &mut Chip {
        // SAFETY: as for `chip`.
        unsafe { &mut *self.chip }
    }

    /// Calls functions of YAFFS2, the last of which has returned a number, or a negative one: then
    /// the error is why.
    fn call(&mut self, call: impl FnOnce() -> c_int) -> Result<u32> {
        let calling = calls();
        // SAFETY: the volume is the driver's own, and nobody else calls YAFFS2 meanwhile.
        let (returned, error, said) = unsafe {
            ffi::flashkit_yaffs2_enter(self.volume);
            let returned = call();
            let said = CStr::from_ptr(ffi::flashkit_yaffs2_said(self.volume));
            let said = said.to_string_lossy().into_owned();
            (returned, ffi::yaffs_get_error(), said)
        };
        drop(calling);
        if let Some(what) = self.chip().failed.clone() {
            return Err(Error::Io(what).into());
        }
        // Data are lost then, though the call succeeds.
        if said.contains("no space during cache write") {
            return Err(Error::NoSpace.into());
        }
        if said.contains("bug") {
            return Err(Error::Io(said).into());
        }
        u32::try_from(returned).map_err(|_| error_of(error).into())
    }

    /// A path for YAFFS2, which is mounted then.
    fn name(&self, path: &str) -> Result<CString> {
        if !self.mounted {
            return Err(Error::Io("not mounted".into()).into());
        }
        let path = format!("{}/{path}", self.root);
        Ok(CString::new(path).map_err(|_| Error::Invalid)?)
    }

    fn open_with(&mut self, path: &str, flags: c_int) -> Result<c_int> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        let opened = self.call(|| unsafe { ffi::yaffs_open(path.as_ptr(), flags, ffi::MODE) })?;
        let file = opened as c_int;
        self.open.push(file);
        Ok(file)
    }

    /// Whether there is such a path, and it is a directory.
    fn is_dir(&mut self, path: &str) -> Result<bool> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        let is_dir = self.call(|| unsafe { ffi::flashkit_yaffs2_is_dir(path.as_ptr()) })?;
        Ok(is_dir == 1)
    }

    fn names(&mut self, dir: &str) -> Result<Vec<String>> {
        let path = self.name(dir)?;
        let mut found = Vec::new();
        self.call(|| {
            // SAFETY: the path is there for the calls, and a name until it is copied.
            unsafe {
                let open = ffi::yaffs_opendir(path.as_ptr());
                if open.is_null() {
                    return ffi::FAILED;
                }
                loop {
                    let name = ffi::flashkit_yaffs2_next(open);
                    if name.is_null() {
                        return ffi::yaffs_closedir(open);
                    }
                    found.push(CStr::from_ptr(name).to_string_lossy().into_owned());
                }
            }
        })?;
        Ok(found)
    }

    /// Closes all files, and unmounts.
    fn unmount(&mut self) -> Result<()> {
        let root = self.name("")?;
        let mut done = Ok(());
        for file in mem::take(&mut self.open) {
            // SAFETY: as for `close`.
            let closed = self.call(|| unsafe { ffi::yaffs_close(file) });
            done = done.and(closed.map(drop));
        }
        // Not by force: that would take their open files from all volumes, not from this alone.
        let mut left = ffi::FAILED;
        let unmounted = self.call(|| {
            // SAFETY: the path is there for the call.
            left = unsafe { ffi::yaffs_unmount2(root.as_ptr(), 0) };
            left
        });
        self.mounted = left < 0;
        done.and(unmounted.map(drop))
    }
}

impl Drop for Yaffs2 {
    fn drop(&mut self) {
        if self.mounted {
            // This gives its memory back. What it writes is lost with the chip.
            let _ = self.unmount();
        }
        if self.mounted {
            // Its memory stays, for YAFFS2 still refers to it.
            return;
        }
        let calling = calls();
        // SAFETY: it is not mounted, and nothing refers to it any more; the chip came from a box.
        unsafe {
            ffi::flashkit_yaffs2_drop(self.volume);
            drop(Box::from_raw(self.chip));
        }
        drop(calling);
    }
}

impl Store for Yaffs2 {
    type File = c_int;

    fn create(&mut self, path: &str) -> Result<c_int> {
        self.open_with(path, ffi::READ_WRITE | ffi::CREATE | ffi::TRUNCATE)
    }

    fn open(&mut self, path: &str) -> Result<c_int> {
        self.open_with(path, ffi::READ_WRITE)
    }

    fn close(&mut self, file: c_int) -> Result<()> {
        let Some(at) = self.open.iter().position(|open| *open == file) else {
            return Err(Error::Invalid.into());
        };
        self.open.swap_remove(at);
        // SAFETY: a number is no promise.
        self.call(|| unsafe { ffi::yaffs_close(file) }).map(drop)
    }

    fn size(&mut self, file: &c_int) -> Result<u64> {
        let mut size = 0;
        self.call(|| {
            // SAFETY: as for `close`.
            size = unsafe { ffi::flashkit_yaffs2_size(*file) };
            if size < 0 { ffi::FAILED } else { ffi::DONE }
        })?;
        Ok(size.unsigned_abs())
    }

    fn resize(&mut self, file: &c_int, size: u64) -> Result<()> {
        let size = i64::try_from(size).map_err(|_| Error::TooBig)?;
        // SAFETY: as for `close`.
        self.call(|| unsafe { ffi::yaffs_ftruncate(*file, size) })
            .map(drop)
    }

    fn write(&mut self, file: &c_int, offset: u64, data: &[u8]) -> Result<()> {
        let offset = i64::try_from(offset).map_err(|_| Error::TooBig)?;
        let len = u32::try_from(data.len()).map_err(|_| Error::TooBig)?;
        // SAFETY: the data are there for the call.
        let written =
            self.call(|| unsafe { ffi::yaffs_pwrite(*file, data.as_ptr().cast(), len, offset) })?;
        // It says how far it has come, and not why no further.
        if written == len {
            Ok(())
        } else {
            Err(Error::NoSpace.into())
        }
    }

    fn read(&mut self, file: &c_int, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let offset = i64::try_from(offset).map_err(|_| Error::TooBig)?;
        let len = u32::try_from(buf.len()).map_err(|_| Error::TooBig)?;
        // SAFETY: the buffer is there for the call.
        let read =
            self.call(|| unsafe { ffi::yaffs_pread(*file, buf.as_mut_ptr().cast(), len, offset) })?;
        Ok(read as usize)
    }

    fn fsync(&mut self, file: &c_int) -> Result<()> {
        // SAFETY: as for `close`.
        self.call(|| unsafe { ffi::yaffs_fsync(*file) }).map(drop)
    }

    /// What is not open is durable: closing a file writes its header, and so does every change of a
    /// directory.
    fn fsync_path(&mut self, path: &str) -> Result<()> {
        self.is_dir(path).map(drop)
    }

    fn unlink(&mut self, path: &str) -> Result<()> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        self.call(|| unsafe { ffi::yaffs_unlink(path.as_ptr()) })
            .map(drop)
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        self.call(|| unsafe { ffi::yaffs_mkdir(path.as_ptr(), ffi::MODE as u32) })
            .map(drop)
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        self.call(|| unsafe { ffi::yaffs_rmdir(path.as_ptr()) })
            .map(drop)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        // SAFETY: the paths are there for the call.
        self.call(|| unsafe { ffi::yaffs_rename(from.as_ptr(), to.as_ptr()) })
            .map(drop)
    }

    /// A checkpoint as well, as YAFFS2's sync takes one.
    fn sync(&mut self) -> Result<()> {
        for file in self.open.clone() {
            self.fsync(&file)?;
        }
        let root = self.name("")?;
        // SAFETY: the path is there for the call.
        self.call(|| unsafe { ffi::yaffs_sync(root.as_ptr()) })
            .map(drop)
    }

    fn idle(&mut self, ms: u64) -> Result<u64> {
        let ns = ms.saturating_mul(1_000_000);
        self.chip_mut().nand.idle(ns);
        Ok(ns)
    }

    fn finish(&mut self) -> Result<()> {
        if self.mounted { self.unmount() } else { Ok(()) }
    }

    fn list(&mut self) -> Result<Vec<(String, bool)>> {
        crate::list_all(|dir| {
            let mut found = Vec::new();
            for name in self.names(dir)? {
                let path = match dir {
                    "" if name == LOST_AND_FOUND => continue,
                    "" => name.clone(),
                    _ => format!("{dir}/{name}"),
                };
                found.push((name, self.is_dir(&path)?));
            }
            Ok(found)
        })
    }

    fn clock_ns(&self) -> u64 {
        self.chip().nand.counters().time_ns
    }

    fn cost(&self) -> Counters {
        self.chip().nand.counters()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.chip().nand.erase_counts()
    }

    fn programs(&self) -> Vec<(&'static str, u64)> {
        // SAFETY: the driver's record is there as long as `self` is.
        let written = unsafe { *ffi::flashkit_yaffs2_written(self.volume) };
        ffi::PURPOSES.into_iter().zip(written).collect()
    }

    fn page_bytes(&self) -> u32 {
        self.chip().nand.geometry().page_size()
    }

    /// The most that it had so far: with each file and block it needs more.
    fn ram_bytes(&self) -> usize {
        // SAFETY: as for `programs`.
        unsafe { ffi::flashkit_yaffs2_memory(self.volume) }
    }
}

fn error_of(code: c_int) -> Error {
    match code {
        ffi::NOT_FOUND => Error::NotFound,
        ffi::EXISTS => Error::Exists,
        ffi::NOT_DIR => Error::NotDir,
        ffi::IS_DIR => Error::IsDir,
        ffi::INVALID => Error::Invalid,
        ffi::NO_SPACE => Error::NoSpace,
        ffi::READ_ONLY => Error::ReadOnly,
        ffi::NAME_TOO_LONG => Error::NameTooLong,
        ffi::NOT_EMPTY => Error::NotEmpty,
        ffi::LOOP => Error::Loop,
        ffi::NO_MEMORY => Error::Io("no memory".into()),
        ffi::TOO_MANY_OPEN => Error::Io("too many open files".into()),
        other => Error::Io(format!("YAFFS2's error {other}")),
    }
}
