//! What the last mount of an image had to say: a daemon's stderr is read by nobody.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::output::file_id;

/// The folder of what runs, of root or of the user; emptied when the machine starts.
fn folder() -> Option<PathBuf> {
    let of_user = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let running = match nix::unistd::geteuid().is_root() {
        true => Some(PathBuf::from("/run")),
        false => of_user,
    };
    running.map(|running| running.join("flashkit"))
}

fn file(image: &Path) -> Option<PathBuf> {
    let (device, inode) = file_id(image)?;
    Some(folder()?.join(format!("{device:x}-{inode:x}")))
}

/// The file for what a new mount will say, empty; `None` where there is no place for it.
pub fn begin(image: &Path) -> Option<PathBuf> {
    let file = file(image)?;
    let _ = fs::DirBuilder::new().mode(0o700).create(folder()?);
    let _ = fs::remove_file(&file);
    Some(file)
}

/// The lines of the last mount since the machine was started, if it had anything to say.
pub fn told(image: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(file(image)?).ok()?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    (!lines.is_empty()).then_some(lines)
}
