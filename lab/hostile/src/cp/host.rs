//! A place on the host, of which a copy may touch one directory.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Where a name of the volume leads that begins with a slash. Nothing is there.
pub const ESCAPE: &str = "/flashkit-fuzz-escape";

/// Files and directories that are copied, at most.
const ENTRIES_MAX: usize = 4_000;
const SET_ID: u32 = 0o6000;

/// ```text
/// outside/kept    a file that symbolic links lead to
/// in/beside       another, beside the target
/// in/out/         the target
/// ```
pub struct Host {
    top: TempDir,
    target: PathBuf,
    before: BTreeMap<PathBuf, Seen>,
}

/// What is told of a file that nobody may touch.
type Seen = (u32, u64, i64, i64, u64, Vec<u8>);

impl Host {
    /// A new one; with something `in_the_way`, which leads out of the target.
    pub fn new(in_the_way: bool) -> Host {
        let top = TempDir::with_prefix("flashkit-cp-").expect("a temporary directory");
        let target = top.path().join("in/out");
        fs::create_dir_all(&target).expect("room");
        fs::create_dir(top.path().join("outside")).expect("room");
        fs::write(top.path().join("outside/kept"), "kept").expect("room");
        fs::write(top.path().join("in/beside"), "beside").expect("room");
        if in_the_way {
            symlink("../../outside", target.join("a")).expect("room");
            symlink("../../outside/kept", target.join("b")).expect("room");
            symlink("../../outside/new", target.join("file")).expect("room");
            fs::create_dir(target.join("dir")).expect("room");
            symlink("../../../outside", target.join("dir/a")).expect("room");
        }
        let mut host = Host {
            top,
            target,
            before: BTreeMap::new(),
        };
        host.before = host.outside();
        host
    }

    /// Where the copy goes.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// All that is not in the target.
    fn outside(&self) -> BTreeMap<PathBuf, Seen> {
        let mut seen = BTreeMap::new();
        each(self.top.path(), &mut |path, meta| {
            let bytes = match meta.is_file() {
                true => fs::read(path).expect("a file"),
                false => Vec::new(),
            };
            let what = (
                meta.mode(),
                meta.size() * u64::from(meta.is_file()),
                meta.mtime(),
                meta.mtime_nsec(),
                meta.nlink(),
                bytes,
            );
            seen.insert(path.to_owned(), what);
            path != self.target
        });
        // The copy may give the target its own attributes.
        seen.remove(&self.target);
        seen
    }

    /// Bytes of the files in the target.
    pub fn size(&self) -> u64 {
        let mut sum = 0u64;
        each(&self.target, &mut |_, meta| {
            sum = sum.saturating_add(if meta.is_file() { meta.len() } else { 0 });
            true
        });
        sum
    }

    /// # Panics
    /// Something was touched that is not in the target, or something is in it that must not be.
    pub fn check(&self) {
        assert_eq!(self.outside(), self.before, "outside of the target");
        assert!(fs::symlink_metadata(ESCAPE).is_err(), "{ESCAPE} was made");
        let mut entries = 0;
        each(&self.target, &mut |path, meta| {
            entries += 1;
            assert!(entries <= ENTRIES_MAX, "the copy has no end");
            let kind = meta.file_type();
            let is_device = kind.is_block_device() || kind.is_char_device();
            assert!(!is_device, "{} is a device", path.display());
            let set_id = !kind.is_symlink() && meta.mode() & SET_ID != 0;
            assert!(!set_id, "{} has set-ID bits", path.display());
            true
        });
    }
}

/// Visits all that is below a path, and it; what is in a directory if that is asked for.
fn each(path: &Path, visit: &mut dyn FnMut(&Path, &Metadata) -> bool) {
    let meta = fs::symlink_metadata(path).expect("something that is there");
    if visit(path, &meta) && meta.is_dir() {
        for entry in fs::read_dir(path).expect("a directory") {
            each(&entry.expect("an entry").path(), visit);
        }
    }
}
