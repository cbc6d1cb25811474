//! The mount point: checks before mounting, and getting rid of it afterwards.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};

use crate::MountError;

const DEVICE: &str = "/dev/fuse";

/// How often and how long to wait for a busy mount before it is detached: indexers and file
/// managers hold a new mount for a moment.
const BUSY_TRIES: u32 = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(40);

/// Checks that something can be mounted at `path`, without mounting; gives its full path.
///
/// # Errors
/// [`MountError::MountPoint`] when it is missing, no directory, or something is mounted there;
/// [`MountError::Fuse`] when there is no `/dev/fuse`.
pub(crate) fn check(path: &Path) -> Result<PathBuf, MountError> {
    let refuse = |why: String| MountError::MountPoint(format!("{}: {why}", path.display()));
    let metadata = fs::metadata(path).map_err(|error| {
        refuse(match is_dead(&error) {
            true => DEAD.into(),
            false => plain(&error),
        })
    })?;
    if !metadata.is_dir() {
        return Err(refuse("not a directory".into()));
    }
    let full = path.canonicalize().map_err(|error| refuse(plain(&error)))?;
    if let Some(At { kind, .. }) = mounted_at(&full) {
        // The kernel may answer for its attributes long after whoever served it has gone.
        if fs::read_dir(&full).is_err_and(|error| is_dead(&error)) {
            return Err(refuse(DEAD.into()));
        }
        return Err(refuse(format!(
            "busy: something is mounted there already ({kind})"
        )));
    }
    if !Path::new(DEVICE).exists() {
        return Err(MountError::Fuse(format!(
            "no {DEVICE}: this kernel has no FUSE, or `modprobe fuse` is needed"
        )));
    }
    Ok(full)
}

/// Whether nobody serves a mount any more.
fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOTCONN as i32)
}

const DEAD: &str = "a dead mount is still there; `umount` removes it";

const NEEDS_HELPER: &str =
    "mounting without being root needs fusermount3 (package fuse3), which is not here";

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether there is the program that mounts for those who are not root.
fn has_helper() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join("fusermount3").exists())
}

/// Turns what mounting failed with into one line.
pub(crate) fn explain(error: &io::Error) -> MountError {
    let why = match error.kind() {
        io::ErrorKind::NotFound => NEEDS_HELPER.to_owned(),
        io::ErrorKind::PermissionDenied if !is_root() && !has_helper() => NEEDS_HELPER.to_owned(),
        io::ErrorKind::PermissionDenied => format!("not permitted to mount: {}", plain(error)),
        _ => error
            .to_string()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" "),
    };
    MountError::Fuse(why)
}

/// The text of an error without `(os error N)`.
fn plain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => Errno::from_raw(code).desc().to_lowercase(),
        None => error.to_string(),
    }
}

/// What is mounted somewhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct At {
    /// The file system's type.
    pub kind: String,
    /// Major and minor number of its device.
    pub device: (u64, u64),
}

/// What is mounted at exactly this path, if anything is: of several the one that is seen.
pub(crate) fn mounted_at(path: &Path) -> Option<At> {
    listed(&fs::read("/proc/self/mountinfo").ok()?, path)
}

/// The same of a mount table. What anybody has mounted has any name, UTF-8 or not.
fn listed(table: &[u8], path: &Path) -> Option<At> {
    table.split(|byte| *byte == b'\n').rev().find_map(|line| {
        // id parent major:minor root mount-point options [optional...] - type source options
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let (device, point) = (fields.next()?, fields.nth(1)?);
        if unescape(point) != path {
            return None;
        }
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let (major, minor) = std::str::from_utf8(device).ok()?.split_once(':')?;
        Some(At {
            kind: String::from_utf8_lossy(kind).into_owned(),
            device: (major.parse().ok()?, minor.parse().ok()?),
        })
    })
}

/// Undoes the `\040` of the mount table.
fn unescape(bytes: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let digits = bytes.get(i + 1..i + 4).filter(|_| bytes[i] == b'\\');
        let octal = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            out.push(byte);
            i += 4;
        } else {
            out.push(bytes[i]);
            i += 1;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

/// Removes the mount from the tree; whether it was busy, and therefore only detached: whoever
/// still uses it keeps it alive out of sight.
///
/// # Errors
/// It is still there: neither this process nor fusermount3 may unmount it.
pub(crate) fn unmount(path: &Path, first: io::Result<()>) -> io::Result<bool> {
    let mut result = first;
    for _ in 0..BUSY_TRIES {
        match &result {
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) => {
                std::thread::sleep(BUSY_PAUSE);
                result = umount2(path, MntFlags::empty()).map_err(io::Error::from);
            }
            _ => break,
        }
    }
    let busy = result.is_err();
    if busy && mounted_at(path).is_some() {
        // Changes through shared mappings reach the file system while it is still ours.
        if let Ok(directory) = fs::File::open(path) {
            let _ = nix::unistd::syncfs(&directory);
        }
        umount2(path, MntFlags::MNT_DETACH)?;
    }
    Ok(busy)
}

/// Breaks the kernel's connection of a detached mount, so that its users get errors instead of
/// waiting. Needs the control file system, which not every machine mounts: then they get errors
/// from the serving thread until this process ends.
pub(crate) fn abort(connection: u64) {
    let _ = fs::write(format!("/sys/fs/fuse/connections/{connection}/abort"), "1");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn mount_table_escapes_are_undone() {
        assert_eq!(unescape(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
        assert_eq!(unescape("/ä".as_bytes()), Path::new("/ä"));
    }

    #[test]
    fn the_root_is_a_mount_and_a_new_directory_is_not() {
        assert!(mounted_at(Path::new("/")).is_some());
        let dir = tempfile::tempdir().unwrap();
        assert!(mounted_at(&dir.path().canonicalize().unwrap()).is_none());
    }

    #[test]
    fn a_mount_is_told_by_its_point_and_the_last_is_seen() {
        let table = "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     40 21 0:50 / /a\\040b rw shared:1 - fuse.flashlight flash.img rw\n\
                     41 21 0:51 / /c rw - fuse.flashlight flash.img rw\n\
                     42 41 0:52 / /c rw - tmpfs none rw\n";
        let table = [table.as_bytes(), b"43 21 0:53 / /\xff rw - tmpfs \xfe rw\n"].concat();
        let at = |path| listed(&table, Path::new(path)).map(|at| (at.kind, at.device));
        assert_eq!(at("/a b"), Some(("fuse.flashlight".into(), (0, 50))));
        assert_eq!(at("/c"), Some(("tmpfs".into(), (0, 52))));
        assert_eq!(at("/"), Some(("ext4".into(), (8, 1))));
        // That the name of one is not UTF-8 hides none of them.
        let odd = listed(&table, Path::new(std::ffi::OsStr::from_bytes(b"/\xff")));
        assert_eq!(odd.map(|at| at.device), Some((0, 53)));
        // Below a mount is not at it.
        assert_eq!(at("/c/d"), None);
    }

    #[test]
    fn unusable_mount_points_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        let error = check(&missing).unwrap_err().to_string();
        assert!(
            error.ends_with("missing: no such file or directory"),
            "{error}"
        );
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = check(&file).unwrap_err().to_string();
        assert!(error.ends_with("file: not a directory"), "{error}");
        assert!(
            check(Path::new("/proc"))
                .unwrap_err()
                .to_string()
                .contains("busy")
        );
    }
}
