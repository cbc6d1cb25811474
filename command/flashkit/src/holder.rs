//! Who holds an image that is in use.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::commands::mount::POINT_DEFAULT;
use crate::output::file_id;
use crate::text;

/// The process that has a file open, and where it has mounted it, as one phrase; `None` where that
/// cannot be seen: of other users' processes root alone sees it.
pub fn holder(path: &Path) -> Option<String> {
    let wanted = file_id(path)?;
    let me = std::process::id();
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pid = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != me)
        .find(|pid| {
            let open = fs::read_dir(format!("/proc/{pid}/fd"));
            open.is_ok_and(|open| open.flatten().any(|fd| file_id(&fd.path()) == Some(wanted)))
        })?;
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    // That it runs in the background is no option that anybody gives.
    let given = words.iter().filter(|word| **word != b"--in-background");
    let shown: Vec<String> = given.map(|word| text::name(word)).collect();
    let mut phrase = format!("by process {pid}, `{}`", shown.join(" "));
    if let Some(point) = mount_point(pid, &words) {
        phrase += &format!(", mounted on {}", text::path(&point));
    }
    Some(phrase)
}

/// Where a process has mounted the image: the one of its words, or its default, that is a mount
/// point of FUSE. The source that the kernel shows may be relative to anything.
fn mount_point(pid: u32, words: &[&[u8]]) -> Option<PathBuf> {
    let folder = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let mounts = fs::read("/proc/self/mounts").ok()?;
    let is_mounted = |path: &Path| {
        mounts.split(|byte| *byte == b'\n').any(|line| {
            let mut columns = line.split(|byte| *byte == b' ').skip(1);
            let point = columns.next() == Some(path.as_os_str().as_bytes());
            point && columns.next().is_some_and(|kind| kind.starts_with(b"fuse"))
        })
    };
    let default: &[u8] = POINT_DEFAULT.as_bytes();
    (words.iter().copied().chain([default]))
        .map(|word| folder.join(OsStr::from_bytes(word)))
        .map(|path| path.canonicalize().unwrap_or(path))
        .find(|path| is_mounted(path))
}
