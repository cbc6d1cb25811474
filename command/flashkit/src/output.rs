//! Files that appear whole or not at all.
//!
//! What a command makes is written to a file beside the place where it is to be, hidden and of a
//! random name, synced, and then renamed. Until then what was there stays as it is. A device or a
//! pipe is written in place.

use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use anyhow::{Context, bail};
use flashkit_vfs::tree::{self, FileId};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::text;

/// Where devices are. Nothing is ever made there.
const DEVICES: &str = "/dev";

/// No page or picture that a command makes has so many bytes.
const OWN_MAX: u64 = 64 << 20;

/// What goes away when the program is interrupted.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is being made.
pub struct Output {
    /// As the user has named it.
    named: PathBuf,
    made: Made,
}

enum Made {
    InPlace,
    Beside {
        new: Hidden,
        /// Where it is to be: symbolic links are followed.
        to: PathBuf,
        /// What is there now. Its lock keeps others from opening it until it is replaced.
        _old: Option<File>,
    },
}

impl Output {
    /// Begins a file to be made at a path, or opens the way to a device or pipe.
    ///
    /// # Errors
    /// There is a directory, a file that another program has locked (an image in use), or nothing
    /// where devices are.
    pub fn begin(path: &Path) -> anyhow::Result<Output> {
        Output::at(path).with_context(|| text::path(path))
    }

    /// Begins an image; of devices those of MTD alone can take one.
    pub fn image(path: &Path) -> anyhow::Result<Output> {
        let output = Output::begin(path)?;
        if output.is_in_place() && !flashkit_mtd::is_device(path) {
            bail!("{}: neither a file nor an MTD device", output.shown());
        }
        Ok(output)
    }

    fn at(path: &Path) -> anyhow::Result<Output> {
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let named = path.to_owned();
        let made = match found {
            Some(found) if found.is_dir() => bail!("is a directory"),
            Some(found) if !found.is_file() => Made::InPlace,
            Some(found) => {
                let to = path.canonicalize()?;
                check_no_device(&to)?;
                let old = File::open(&to)?;
                lock(&old)?;
                let new = beside(&to, Some(&found))?;
                let _old = Some(old);
                Made::Beside { new, to, _old }
            }
            None if fs::symlink_metadata(path).is_ok() => bail!("a symbolic link to nothing"),
            None => {
                check_no_device(path)?;
                let (to, _old) = (path.to_owned(), None);
                let new = beside(&to, None)?;
                Made::Beside { new, to, _old }
            }
        };
        Ok(Output { named, made })
    }

    /// The file to write, which is there.
    pub fn path(&self) -> &Path {
        match &self.made {
            Made::InPlace => &self.named,
            Made::Beside { new, .. } => &new.0,
        }
    }

    /// Whether it is a device or a pipe.
    pub fn is_in_place(&self) -> bool {
        matches!(self.made, Made::InPlace)
    }

    /// The place as the user has named it, for messages.
    pub fn shown(&self) -> String {
        text::path(&self.named)
    }

    /// Makes what was written durable, and lets it take its place.
    pub fn finish(self) -> anyhow::Result<()> {
        let shown = self.shown();
        self.renamed().context(shown)
    }

    fn renamed(self) -> anyhow::Result<()> {
        let Made::Beside { new, to, .. } = self.made else {
            // Pipes and terminals keep nothing; MTD devices have no cache.
            return match fs::metadata(&self.named)?.file_type().is_block_device() {
                true => Ok(File::open(&self.named)?.sync_all()?),
                false => Ok(()),
            };
        };
        File::open(&new.0)?.sync_all()?;
        fs::rename(&new.0, &to)?;
        // Where a folder cannot be synced, its host does what it can.
        let _ = File::open(folder(&to)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// A file under a name that it has for a while: it goes with this, unless it was renamed.
struct Hidden(PathBuf);

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        unfinished().retain(|other| *other != self.0);
    }
}

/// Writes files that belong together: none takes its place before all are written.
pub fn write_all(files: &[(&Path, &[u8])]) -> anyhow::Result<()> {
    let mut written = Vec::new();
    for (path, bytes) in files {
        let output = Output::begin(path)?;
        fs::write(output.path(), bytes).with_context(|| output.shown())?;
        written.push(output);
    }
    written.into_iter().try_for_each(Output::finish)
}

/// Refuses to overwrite a file that has something in it, if that is not asked for, and `is_own`
/// does not know it for what the same command has made.
pub fn check_own(path: &Path, force: bool, is_own: fn(&[u8]) -> bool) -> anyhow::Result<()> {
    if force || !fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0) {
        return Ok(());
    }
    let shown = || text::path(path);
    let small = fs::metadata(path).is_ok_and(|found| found.len() <= OWN_MAX);
    if !small || !is_own(&fs::read(path).with_context(shown)?) {
        bail!("{}: exists; --force overwrites it", shown());
    }
    Ok(())
}

/// Makes sure that a file can be written from its beginning while a command runs, a log or a trace.
/// What is there stays: it may be an image. A device or a pipe is taken as it is.
///
/// # Errors
/// There is a file with something in it, or one in use, or none can be made.
pub fn check_fresh(path: &Path) -> anyhow::Result<()> {
    check_no_device(path)?;
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    lock(&file)?;
    if file.metadata()?.len() > 0 {
        bail!("exists: name another file, or remove this one");
    }
    Ok(())
}

/// Takes a lock that nobody else may have.
fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("is in use"),
        TryLockError::Error(error) => error,
    })
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// An empty file beside a path, with the owner and mode of what is there now.
fn beside(to: &Path, old: Option<&Metadata>) -> io::Result<Hidden> {
    let mode = old.map_or(0o666, |old| old.mode() & 0o777);
    // Held while it is made: who clears up after a signal would not know of it yet.
    let mut unfinished = unfinished();
    let made = tempfile::Builder::new()
        .prefix(".flashkit-")
        .suffix(".part")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder(to));
    // Its own words name the hidden file.
    let made = made.map_err(|error| match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => without_path(&error),
    })?;
    if let Some(old) = old {
        // Only root may give files away.
        let _ = std::os::unix::fs::fchown(made.as_file(), Some(old.uid()), Some(old.gid()));
        made.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
    }
    let (_, path) = made.keep().map_err(|error| error.error)?;
    unfinished.push(path.clone());
    Ok(Hidden(path))
}

fn without_path(error: &io::Error) -> io::Error {
    let said = error.to_string();
    let why = said
        .split_once(" at path \"")
        .map_or(&*said, |(why, _)| why);
    io::Error::new(error.kind(), why.to_owned())
}

/// Refuses a file among the devices: a device that is not there was meant. What is mounted below,
/// as `/dev/shm` is, is a place like any other.
pub fn check_no_device(path: &Path) -> anyhow::Result<()> {
    let real = match fs::metadata(path) {
        Ok(found) if found.is_file() => path.canonicalize()?,
        // A device; or what `/dev/stdout` leads to.
        Ok(_) => return Ok(()),
        Err(_) => folder(path).canonicalize()?.join("new"),
    };
    let folder = folder(&real);
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    if folder.starts_with(DEVICES) && device(folder) == device(Path::new(DEVICES)) {
        bail!("no such device");
    }
    Ok(())
}

/// The file that a path leads to, by whatever name; `None`: none.
pub fn file_id(path: &Path) -> Option<FileId> {
    fs::metadata(path).ok().map(|found| tree::file_id(&found))
}

/// Whether two paths lead to one file.
pub fn is_same(a: &Path, b: &Path) -> bool {
    file_id(a).is_some_and(|id| file_id(b) == Some(id))
}

fn unfinished() -> std::sync::MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// From now on a file that grows beyond what this process may write is an error of the write, not
/// the end of the program.
pub fn outlive_limits() -> anyhow::Result<()> {
    let met = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGXFSZ, met).context("signals")?;
    Ok(())
}

/// From now on an interrupted program leaves nothing unfinished behind. For commands that do not
/// look for signals themselves.
pub fn clear_when_interrupted() -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            // Held until the end: nothing takes its place any more.
            let unfinished = unfinished();
            for path in unfinished.iter() {
                let _ = fs::remove_file(path);
            }
            let _ = emulate_default_handler(signal);
        }
    });
    Ok(())
}
