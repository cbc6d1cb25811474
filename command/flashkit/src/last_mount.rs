//! What the last mount of an image had to say: a daemon's stderr is read by nobody.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use flashkit_vfs::tree::file_id;

/// The folder of what runs, of root or of the user; emptied when the machine starts.
fn folder() -> Option<PathBuf> {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let running = match nix::unistd::geteuid().is_root() {
        true => Some(PathBuf::from("/run")),
        false => of_user,
    };
    running.map(|running| running.join("flashkit"))
}

/// The folder, what begins the names of files for images with this one's inode number, and the
/// rest of that of its own file: the number of an image that was removed is soon another's.
fn place(image: &Path) -> Option<(PathBuf, String, String)> {
    let found = fs::metadata(image).ok()?;
    let (device, inode) = file_id(&found);
    // Not every file system keeps when a file was born.
    let born = found.created().ok();
    let since = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    let born = since.map_or(0, |since| since.as_nanos());
    Some((
        folder()?,
        format!("{device:x}-{inode:x}-"),
        format!("{born:x}"),
    ))
}

/// The file for what a new mount will say, empty; `None` where there is no place for it.
pub fn begin(image: &Path) -> Option<PathBuf> {
    let (folder, number, born) = place(image)?;
    let _ = fs::DirBuilder::new().mode(0o700).create(&folder);
    for old in fs::read_dir(&folder).into_iter().flatten().flatten() {
        if old.file_name().to_string_lossy().starts_with(&number) {
            let _ = fs::remove_file(old.path());
        }
    }
    Some(folder.join(number + &born))
}

/// The lines of the last mount since the machine was started, if it had anything to say.
pub fn told(image: &Path) -> Option<Vec<String>> {
    let (folder, number, born) = place(image)?;
    let text = fs::read_to_string(folder.join(number + &born)).ok()?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    (!lines.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of inodes are given again, mostly at once.
    #[test]
    fn what_was_said_of_an_image_is_not_said_of_the_next_with_its_number() {
        if folder().is_none() {
            println!("skipped: no place for it");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        fs::write(&old, "").unwrap();
        let log = begin(&old).unwrap();
        fs::write(&log, "page 7 is lost\n").unwrap();
        assert_eq!(told(&old), Some(vec!["page 7 is lost".into()]));
        let number = place(&old).unwrap().1;
        fs::remove_file(&old).unwrap();
        for _ in 0..100 {
            // Births are told apart by the kernel's clock alone.
            std::thread::sleep(std::time::Duration::from_millis(10));
            fs::write(&new, "").unwrap();
            if place(&new).unwrap().1 == number {
                break;
            }
            fs::remove_file(&new).unwrap();
        }
        if new.exists() {
            assert_eq!(told(&new), None);
            assert!(begin(&new).is_some() && !log.exists());
        }
        let _ = fs::remove_file(log);
    }
}
