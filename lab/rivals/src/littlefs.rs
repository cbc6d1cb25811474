//! littlefs over a simulated chip.
//!
//! A block of littlefs is an erase block of the chip; reads, programs and both of its caches are a
//! page, the lookahead buffer is 256 bytes, and a metadata pair moves after 500 erases, as
//! littlefs's own documentation advises. Bad blocks are its own affair: a program or an erase that
//! fails is reported as corrupt, as its driver interface asks. Its cleaning for idle time
//! (`lfs_fs_gc`) is not called.

use std::ffi::{CString, c_int, c_void};
use std::mem;
use std::ptr;
use std::slice;

use flashkit_nand::{BlockAddr, Nand, OpStatus, PageAddr};
use flashkit_sim::{Metered, SimNand};
use flashkit_vfs::{Counters, Error};
use flashkit_workload::{Store, StoreError};
use littlefs2_sys as ll;

type Result<T> = std::result::Result<T, StoreError>;

/// Bytes of the buffer that tells free blocks.
const LOOKAHEAD: u32 = 256;
/// Erases after which a metadata pair moves.
const BLOCK_CYCLES: i32 = 500;

/// What littlefs's driver works on.
struct Chip {
    nand: SimNand,
    /// Flash time after which everything fails, in nanoseconds.
    limit_ns: u64,
    /// What the driver could not do, through no fault of the medium.
    failed: Option<String>,
}

impl Chip {
    /// Notes what is no fault of the medium; every operation fails then.
    fn fail(&mut self, what: &dyn std::fmt::Display) -> c_int {
        self.failed.get_or_insert(what.to_string());
        ll::lfs_error_LFS_ERR_IO
    }

    fn give_up(&mut self) -> Option<c_int> {
        if self.nand.counters().time_ns <= self.limit_ns {
            return None;
        }
        let seconds = self.limit_ns / 1_000_000_000;
        Some(self.fail(&format_args!("given up after {seconds} s of flash time")))
    }

    fn page(&self, block: u32, offset: u32) -> u32 {
        let geometry = self.nand.geometry();
        block * geometry.pages_per_block() + offset / geometry.page_size()
    }

    fn read(&mut self, block: u32, offset: u32, data: &mut [u8]) -> c_int {
        if let Some(error) = self.give_up() {
            return error;
        }
        let (size, first) = (self.nand.geometry().page_size(), self.page(block, offset));
        for (page, data) in (first..).zip(data.chunks_mut(size as usize)) {
            match self.nand.read(PageAddr(page), 0, data, &mut []) {
                Err(error) => return self.fail(&error),
                Ok(status) if !status.is_readable() => return ll::lfs_error_LFS_ERR_CORRUPT,
                Ok(_) => {}
            }
        }
        0
    }

    fn program(&mut self, block: u32, offset: u32, data: &[u8]) -> c_int {
        let (size, first) = (self.nand.geometry().page_size(), self.page(block, offset));
        for (page, data) in (first..).zip(data.chunks(size as usize)) {
            match self.nand.program(PageAddr(page), data, &[]) {
                Err(error) => return self.fail(&error),
                Ok(OpStatus::Failed) => return ll::lfs_error_LFS_ERR_CORRUPT,
                Ok(OpStatus::Done) => {}
            }
        }
        0
    }

    fn erase(&mut self, block: u32) -> c_int {
        if let Some(error) = self.give_up() {
            return error;
        }
        match self.nand.erase(BlockAddr(block)) {
            Err(error) => self.fail(&error),
            Ok(OpStatus::Failed) => ll::lfs_error_LFS_ERR_CORRUPT,
            Ok(OpStatus::Done) => 0,
        }
    }
}

/// The chip of a driver's call.
///
/// # Safety
/// `config` is one of [`LittleFs::new`], whose context is a chip that nothing else
/// refers to during the call.
unsafe fn chip<'a>(config: *const ll::lfs_config) -> &'a mut Chip {
    // SAFETY: as above.
    unsafe { &mut *(*config).context.cast::<Chip>() }
}

unsafe extern "C" fn read(
    config: *const ll::lfs_config,
    block: ll::lfs_block_t,
    offset: ll::lfs_off_t,
    buffer: *mut c_void,
    size: ll::lfs_size_t,
) -> c_int {
    // SAFETY: littlefs gives its own configuration, and a buffer of `size` bytes.
    unsafe {
        let data = slice::from_raw_parts_mut(buffer.cast(), size as usize);
        chip(config).read(block, offset, data)
    }
}

unsafe extern "C" fn program(
    config: *const ll::lfs_config,
    block: ll::lfs_block_t,
    offset: ll::lfs_off_t,
    buffer: *const c_void,
    size: ll::lfs_size_t,
) -> c_int {
    // SAFETY: as for `read`.
    unsafe {
        let data = slice::from_raw_parts(buffer.cast(), size as usize);
        chip(config).program(block, offset, data)
    }
}

unsafe extern "C" fn erase(config: *const ll::lfs_config, block: ll::lfs_block_t) -> c_int {
    // SAFETY: as for `read`.
    unsafe { chip(config).erase(block) }
}

unsafe extern "C" fn flush(config: *const ll::lfs_config) -> c_int {
    // SAFETY: as for `read`.
    let chip = unsafe { chip(config) };
    match chip.nand.flush() {
        Ok(()) => 0,
        Err(error) => chip.fail(&error),
    }
}

/// A mounted littlefs. Open files are numbers.
pub struct LittleFs {
    lfs: Box<ll::lfs_t>,
    config: Box<ll::lfs_config>,
    chip: *mut Chip,
    /// littlefs has each open file in a list, so that it is its own until it is closed. Null: none.
    files: Vec<*mut ll::lfs_file_t>,
    mounted: bool,
}

impl LittleFs {
    /// Formats a chip and mounts it; that is not counted, but for the erase counts. After `limit_s`
    /// seconds of flash time every operation fails: a search of littlefs for free blocks has no end
    /// that one would wait for on a full chip.
    ///
    /// # Errors
    /// What littlefs says of the chip.
    pub fn new(nand: SimNand, limit_s: u64) -> Result<LittleFs> {
        let geometry = nand.geometry();
        let page = geometry.page_size();
        let chip = Chip {
            nand,
            limit_ns: limit_s.saturating_mul(1_000_000_000),
            failed: None,
        };
        let chip = Box::into_raw(Box::new(chip));
        let config = ll::lfs_config {
            context: chip.cast(),
            read: Some(read),
            prog: Some(program),
            erase: Some(erase),
            sync: Some(flush),
            read_size: page,
            prog_size: page,
            block_size: page * geometry.pages_per_block(),
            block_count: geometry.blocks(),
            block_cycles: BLOCK_CYCLES,
            cache_size: page,
            lookahead_size: LOOKAHEAD,
            ..Default::default()
        };
        let mut fs = LittleFs {
            // SAFETY: all of it is numbers and pointers, and littlefs fills it in.
            lfs: Box::new(unsafe { mem::zeroed() }),
            config: Box::new(config),
            chip,
            files: Vec::new(),
            mounted: false,
        };
        // SAFETY: both are as littlefs wants them, and stay where they are.
        let formatted = unsafe { ll::lfs_format(&mut *fs.lfs, &*fs.config) };
        fs.done(formatted)?;
        // SAFETY: as above.
        let mounted = unsafe { ll::lfs_mount(&mut *fs.lfs, &*fs.config) };
        fs.done(mounted)?;
        fs.mounted = true;
        fs.chip_mut().nand.clear_counters();
        Ok(fs)
    }

    fn chip(&self) -> &Chip {
        // SAFETY: the chip lives as long as `self`; littlefs reaches for it only while one of its
        // functions runs, and they take `&mut self`.
        unsafe { &*self.chip }
    }

    fn chip_mut(&mut self) -> &mut Chip {
        // SAFETY: as for `chip`.
        unsafe { &mut *self.chip }
    }

    /// What a call has returned: a number, or why not.
    fn done(&mut self, returned: c_int) -> Result<u32> {
        if let Ok(number) = u32::try_from(returned) {
            return Ok(number);
        }
        if let Some(what) = self.chip_mut().failed.clone() {
            return Err(Error::Io(what).into());
        }
        Err(match returned {
            ll::lfs_error_LFS_ERR_NOENT => Error::NotFound,
            ll::lfs_error_LFS_ERR_EXIST => Error::Exists,
            ll::lfs_error_LFS_ERR_NOTDIR => Error::NotDir,
            ll::lfs_error_LFS_ERR_ISDIR => Error::IsDir,
            ll::lfs_error_LFS_ERR_NOTEMPTY => Error::NotEmpty,
            ll::lfs_error_LFS_ERR_FBIG => Error::TooBig,
            ll::lfs_error_LFS_ERR_INVAL => Error::Invalid,
            ll::lfs_error_LFS_ERR_NOSPC => Error::NoSpace,
            ll::lfs_error_LFS_ERR_NAMETOOLONG => Error::NameTooLong,
            ll::lfs_error_LFS_ERR_CORRUPT => Error::Io("corrupt".into()),
            other => Error::Io(format!("littlefs's error {other}")),
        }
        .into())
    }

    /// A path for littlefs, which is mounted then.
    fn name(&self, path: &str) -> Result<CString> {
        if !self.mounted {
            return Err(Error::Io("not mounted".into()).into());
        }
        Ok(CString::new(path).map_err(|_| Error::Invalid)?)
    }

    fn open_with(&mut self, path: &str, flags: c_int) -> Result<usize> {
        let path = self.name(path)?;
        // SAFETY: as in `new`.
        let file: Box<ll::lfs_file_t> = Box::new(unsafe { mem::zeroed() });
        let file = Box::into_raw(file);
        // SAFETY: the file stays where it is until it is closed, the path for the call.
        let opened = unsafe { ll::lfs_file_open(&mut *self.lfs, file, path.as_ptr(), flags) };
        if let Err(error) = self.done(opened) {
            // SAFETY: it came from a box, and littlefs keeps none that it has not opened.
            drop(unsafe { Box::from_raw(file) });
            return Err(error);
        }
        let free = self.files.iter().position(|file| file.is_null());
        let number = free.unwrap_or(self.files.len());
        if number == self.files.len() {
            self.files.push(ptr::null_mut());
        }
        self.files[number] = file;
        Ok(number)
    }

    /// Calls a function of littlefs with an open file.
    fn with_file(
        &mut self,
        number: usize,
        call: impl FnOnce(*mut ll::lfs_t, *mut ll::lfs_file_t) -> c_int,
    ) -> Result<u32> {
        let file = self.files.get(number).copied();
        let Some(file) = file.filter(|file| !file.is_null()) else {
            return Err(Error::Invalid.into());
        };
        let returned = call(&mut *self.lfs, file);
        self.done(returned)
    }

    fn seek(&mut self, number: usize, offset: u64) -> Result<()> {
        let offset = i32::try_from(offset).map_err(|_| Error::TooBig)?;
        self.with_file(number, |lfs, file| {
            // SAFETY: both are littlefs's own.
            unsafe {
                ll::lfs_file_seek(
                    lfs,
                    file,
                    offset,
                    ll::lfs_whence_flags_LFS_SEEK_SET as c_int,
                )
            }
        })?;
        Ok(())
    }

    /// Names in a directory, and whether each is one itself.
    fn names(&mut self, dir: &str) -> Result<Vec<(String, bool)>> {
        let path = self.name(dir)?;
        // SAFETY: as in `new`.
        let mut open: Box<ll::lfs_dir_t> = Box::new(unsafe { mem::zeroed() });
        let mut info: Box<ll::lfs_info> = Box::new(unsafe { mem::zeroed() });
        // SAFETY: the directory stays where it is until it is closed.
        let opened = unsafe { ll::lfs_dir_open(&mut *self.lfs, &mut *open, path.as_ptr()) };
        self.done(opened)?;
        let mut found = Vec::new();
        let ended = loop {
            // SAFETY: as above.
            match unsafe { ll::lfs_dir_read(&mut *self.lfs, &mut *open, &mut *info) } {
                1 => found.push((text(&info.name), info.type_ == DIRECTORY)),
                ended => break ended,
            }
        };
        // SAFETY: as above.
        let closed = unsafe { ll::lfs_dir_close(&mut *self.lfs, &mut *open) };
        self.done(ended)?;
        self.done(closed)?;
        found.retain(|(name, _)| name != "." && name != "..");
        Ok(found)
    }
}

impl Drop for LittleFs {
    fn drop(&mut self) {
        if self.mounted {
            // Files that are still open are given up, their memory as well.
            // SAFETY: it is mounted; this frees littlefs's buffers and writes nothing.
            let _ = unsafe { ll::lfs_unmount(&mut *self.lfs) };
        }
        // SAFETY: it came from a box, and nothing refers to it any more.
        drop(unsafe { Box::from_raw(self.chip) });
    }
}

impl Store for LittleFs {
    type File = usize;

    fn create(&mut self, path: &str) -> Result<usize> {
        self.open_with(path, flags(&[READ_WRITE, CREATE, TRUNCATE]))
    }

    fn open(&mut self, path: &str) -> Result<usize> {
        self.open_with(path, flags(&[READ_WRITE]))
    }

    fn close(&mut self, file: usize) -> Result<()> {
        let mut open = ptr::null_mut();
        let closed = self.with_file(file, |lfs, file| {
            open = file;
            // SAFETY: both are littlefs's own.
            unsafe { ll::lfs_file_close(lfs, file) }
        });
        if !open.is_null() {
            // SAFETY: it came from a box, and littlefs knows of it no more, whatever
            // became of its last bytes.
            drop(unsafe { Box::from_raw(open) });
            self.files[file] = ptr::null_mut();
        }
        closed.map(drop)
    }

    fn size(&mut self, file: &usize) -> Result<u64> {
        let size = self.with_file(*file, |lfs, file| {
            // SAFETY: both are littlefs's own.
            unsafe { ll::lfs_file_size(lfs, file) }
        })?;
        Ok(size.into())
    }

    fn resize(&mut self, file: &usize, size: u64) -> Result<()> {
        let size = u32::try_from(size).map_err(|_| Error::TooBig)?;
        self.with_file(*file, |lfs, file| {
            // SAFETY: both are littlefs's own.
            unsafe { ll::lfs_file_truncate(lfs, file, size) }
        })?;
        Ok(())
    }

    fn write(&mut self, file: &usize, offset: u64, data: &[u8]) -> Result<()> {
        self.seek(*file, offset)?;
        let len = u32::try_from(data.len()).map_err(|_| Error::TooBig)?;
        let written = self.with_file(*file, |lfs, file| {
            // SAFETY: both are littlefs's own; the data are there for the call.
            unsafe { ll::lfs_file_write(lfs, file, data.as_ptr().cast(), len) }
        })?;
        if written == len {
            Ok(())
        } else {
            Err(Error::Io(format!("{written} of {len} bytes written")).into())
        }
    }

    fn read(&mut self, file: &usize, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.seek(*file, offset)?;
        let len = u32::try_from(buf.len()).map_err(|_| Error::TooBig)?;
        let read = self.with_file(*file, |lfs, file| {
            // SAFETY: both are littlefs's own; the buffer is there for the call.
            unsafe { ll::lfs_file_read(lfs, file, buf.as_mut_ptr().cast(), len) }
        })?;
        Ok(read as usize)
    }

    fn fsync(&mut self, file: &usize) -> Result<()> {
        self.with_file(*file, |lfs, file| {
            // SAFETY: both are littlefs's own.
            unsafe { ll::lfs_file_sync(lfs, file) }
        })?;
        Ok(())
    }

    /// What is not open is durable: closing a file is a sync, and so is
    /// every change of a directory.
    fn fsync_path(&mut self, path: &str) -> Result<()> {
        let path = self.name(path)?;
        // SAFETY: as in `LittleFs::new`.
        let mut info: ll::lfs_info = unsafe { mem::zeroed() };
        // SAFETY: both are there for the call.
        let there = unsafe { ll::lfs_stat(&mut *self.lfs, path.as_ptr(), &mut info) };
        self.done(there).map(drop)
    }

    fn unlink(&mut self, path: &str) -> Result<()> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        let removed = unsafe { ll::lfs_remove(&mut *self.lfs, path.as_ptr()) };
        self.done(removed).map(drop)
    }

    fn mkdir(&mut self, path: &str) -> Result<()> {
        let path = self.name(path)?;
        // SAFETY: the path is there for the call.
        let made = unsafe { ll::lfs_mkdir(&mut *self.lfs, path.as_ptr()) };
        self.done(made).map(drop)
    }

    fn rmdir(&mut self, path: &str) -> Result<()> {
        self.unlink(path)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.name(from)?, self.name(to)?);
        // SAFETY: the paths are there for the call.
        let renamed = unsafe { ll::lfs_rename(&mut *self.lfs, from.as_ptr(), to.as_ptr()) };
        self.done(renamed).map(drop)
    }

    fn sync(&mut self) -> Result<()> {
        for file in 0..self.files.len() {
            if !self.files[file].is_null() {
                self.fsync(&file)?;
            }
        }
        Ok(())
    }

    fn idle(&mut self, ms: u64) -> Result<u64> {
        let ns = ms.saturating_mul(1_000_000);
        self.chip_mut().nand.idle(ns);
        // A pause is no work.
        let chip = self.chip_mut();
        chip.limit_ns = chip.limit_ns.saturating_add(ns);
        Ok(ns)
    }

    fn finish(&mut self) -> Result<()> {
        for file in 0..self.files.len() {
            if !self.files[file].is_null() {
                self.close(file)?;
            }
        }
        if !mem::take(&mut self.mounted) {
            return Ok(());
        }
        // SAFETY: it was mounted, and no file is open.
        let unmounted = unsafe { ll::lfs_unmount(&mut *self.lfs) };
        self.done(unmounted).map(drop)
    }

    fn list(&mut self) -> Result<Vec<(String, bool)>> {
        crate::list_all(|dir| self.names(dir))
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

    /// Both caches, the lookahead buffer, its own record, and a file with its cache.
    fn ram_bytes(&self) -> usize {
        let buffers = 3 * self.config.cache_size + self.config.lookahead_size;
        buffers as usize + mem::size_of::<ll::lfs_t>() + mem::size_of::<ll::lfs_file_t>()
    }
}

const READ_WRITE: ll::lfs_open_flags = ll::lfs_open_flags_LFS_O_RDWR;
const CREATE: ll::lfs_open_flags = ll::lfs_open_flags_LFS_O_CREAT;
const TRUNCATE: ll::lfs_open_flags = ll::lfs_open_flags_LFS_O_TRUNC;
const DIRECTORY: u8 = ll::lfs_type_LFS_TYPE_DIR as u8;

fn flags(all: &[ll::lfs_open_flags]) -> c_int {
    all.iter().fold(0, |sum, flag| sum | *flag as c_int)
}

/// A name that littlefs has ended with a zero.
fn text(name: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = name
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
