//! Directories and names.

use core::ffi::{c_char, c_int};

use flashkit_flashlight::{Attr, NAME_MAX};
use flashkit_flashlight_files::{Error, Kind};
use flashkit_nand_c::memory::place;

use crate::file::told;
use crate::state::{flashlight, flashlight_dir, path as path_of, Session};
use crate::volume::with;

/// A file.
pub const FLASHLIGHT_TYPE_FILE: u32 = 1;
/// A directory.
pub const FLASHLIGHT_TYPE_DIR: u32 = 2;
/// A symbolic link, made by another program; it is not followed.
pub const FLASHLIGHT_TYPE_SYMLINK: u32 = 3;
/// A device, a pipe or a socket, made by another program.
pub const FLASHLIGHT_TYPE_SPECIAL: u32 = 4;

/// What a path names.
#[repr(C)]
pub struct flashlight_info {
    /// Bytes of a file; entries of a directory.
    pub size: u64,
    /// When it was changed, in seconds since 1970, by `flashlight_options.now`.
    pub mtime: i64,
    /// Its number on the volume.
    pub inode: u32,
    /// Names that it has; of a directory, 2 and its subdirectories.
    pub links: u32,
    /// FLASHLIGHT_TYPE_*.
    pub kind: u32,
}

/// An entry of a directory.
#[repr(C)]
pub struct flashlight_entry {
    /// Its number on the volume.
    pub inode: u32,
    /// FLASHLIGHT_TYPE_*.
    pub kind: u32,
    /// Its name, with a zero at the end.
    pub name: [c_char; 256],
}

const _: () = assert!(NAME_MAX < 256);

fn number(kind: Kind) -> u32 {
    match kind {
        Kind::File => FLASHLIGHT_TYPE_FILE,
        Kind::Dir => FLASHLIGHT_TYPE_DIR,
        Kind::Symlink => FLASHLIGHT_TYPE_SYMLINK,
        Kind::Special => FLASHLIGHT_TYPE_SPECIAL,
    }
}

/// Gives C what is known of an inode.
///
/// # Safety
/// `info` is null or valid.
unsafe fn give(attr: &Attr, info: *mut flashlight_info) -> Result<c_int, c_int> {
    let to = place(info.cast_const())?;
    let found = flashlight_info {
        size: attr.size,
        mtime: attr.mtime.secs,
        inode: attr.node.ino(),
        links: attr.nlink,
        kind: number(Kind::of_mode(attr.mode)),
    };
    // SAFETY: the caller's promise.
    unsafe { to.as_ptr().write(found) };
    Ok(0)
}

/// Says what a path names.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_stat(
    fs: *mut flashlight,
    path: *const c_char,
    info: *mut flashlight_info,
) -> c_int {
    let stat = |session: &mut Session<'_>| {
        place(info.cast_const())?;
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path)? };
        let attr = told(session.calls().stat(path))?;
        // SAFETY: the caller's promise.
        unsafe { give(&attr, info) }
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, stat) }
}

/// Makes a directory. Durable when this returns.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_mkdir(fs: *mut flashlight, path: *const c_char) -> c_int {
    let mkdir = |session: &mut Session<'_>| {
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path)? };
        told(session.calls().mkdir(path)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, mkdir) }
}

/// Removes a file or an empty directory. A directory is gone for good when this returns, a file
/// after the next `flashlight_sync`. A file that is open stays usable until it is closed.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_remove(fs: *mut flashlight, path: *const c_char) -> c_int {
    let remove = |session: &mut Session<'_>| {
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path)? };
        told(session.calls().remove(path)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, remove) }
}

/// Renames, and replaces what has the name: a file by a file, an empty directory by a directory.
/// Atomic, and durable when this returns.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_rename(
    fs: *mut flashlight,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    let rename = |session: &mut Session<'_>| {
        // SAFETY: the caller's promise.
        let (from, to) = unsafe { (path_of(from)?, path_of(to)?) };
        told(session.calls().rename(from, to)).map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, rename) }
}

/// Begins to list a directory.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_opendir(
    fs: *mut flashlight,
    dir: *mut flashlight_dir,
    path: *const c_char,
) -> c_int {
    let opendir = |session: &mut Session<'_>| {
        place(dir.cast_const())?;
        // SAFETY: the caller's promise.
        let path = unsafe { path_of(path)? };
        let listing = told(session.calls().list(path))?;
        session.add_dir(dir, listing);
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, opendir) }
}

/// Goes on to the next entry: 1, and what it is in `entry`; 0 at the end. What stays is listed
/// once, whatever comes and goes meanwhile. `info`, if it is not null, is what `flashlight_stat`
/// would give; it costs up to three reads more.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_readdir(
    fs: *mut flashlight,
    dir: *mut flashlight_dir,
    entry: *mut flashlight_entry,
    info: *mut flashlight_info,
) -> c_int {
    let readdir = |session: &mut Session<'_>| {
        let to = place(entry.cast_const())?.as_ptr();
        let (dir, volume) = session.dir(dir)?;
        let mut name = [0; NAME_MAX];
        let Some(found) = told(dir.listing.next(volume, &mut name))? else {
            return Ok(0);
        };
        // SAFETY: the caller's promise; a name is shorter than its place.
        unsafe {
            (*to).inode = found.node.ino();
            (*to).kind = number(found.kind);
            let text = core::ptr::addr_of_mut!((*to).name).cast::<u8>();
            text.copy_from_nonoverlapping(found.name.as_ptr(), found.name.len());
            text.add(found.name.len()).write(0);
        }
        if !info.is_null() {
            let attr = told(volume.getattr(found.node).map_err(Error::from))?;
            // SAFETY: the caller's promise.
            unsafe { give(&attr, info)? };
        }
        Ok(1)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, readdir) }
}

/// Ends a listing.
///
/// # Safety
/// Each pointer is null or valid.
#[no_mangle]
pub unsafe extern "C" fn flashlight_closedir(
    fs: *mut flashlight,
    dir: *mut flashlight_dir,
) -> c_int {
    let closedir = |session: &mut Session<'_>| {
        session.dir(dir)?.0.close();
        Ok(0)
    };
    // SAFETY: the caller's promise.
    unsafe { with(fs, closedir) }
}
