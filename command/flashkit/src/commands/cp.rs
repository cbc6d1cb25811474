//! `flashkit cp`

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::{Context, bail};
use flashkit_vfs::path::{self, Last};
use flashkit_vfs::tree::{
    Copied, CopyOptions, FileId, Modes, TreeError, XattrsLeft, copy_in, copy_out, host_tree,
};
use flashkit_vfs::{Error, FileKind, FileSystem};

use super::cat;
use crate::Outcome;
use crate::failure::{self, FAILED, Usage, complain};
use crate::interrupt::Interrupt;
use crate::output::{self, Output, file_id};
use crate::place::{self, InImage, Place};
use crate::progress::Progress;
use crate::text;
use crate::values;
use crate::volume::{self, Access, KeyOption};

/// Copy between the host and the inside of an image; modes, times, links, holes and extended
/// attributes are kept.
///
/// A file goes into an image whole or not at all. One that is there is replaced once the new one is
/// whole, which takes space for both. Symbolic links in a path are followed; with -r, those that
/// are in the way of a tree's files are replaced. Extended attributes go in, but those of system.
///
/// Out of an image, a single file appears whole or not at all. Owners are kept for root, and
/// permission bits as well; for others the umask takes some of these away. Set-ID bits are dropped,
/// devices left out and extended attributes but those of user., file capabilities for one, as who
/// made the image need not be trusted. Directories that are there keep their attributes; no device,
/// no file in use and not the image itself is replaced. A device or pipe named as the place for a
/// file is written to. What of a tree is damaged is left out and named, and the status is 1.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  flashkit cp notes.txt flash.img:/\n  \
    flashkit cp -r flash.img:/logs .\n  \
    flashkit cp -r -p --same-owner --devices flash.img:/ rootfs    # all of it, as root")]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// Copy directories with all that they hold
    #[arg(short = 'r', visible_short_aliases = ['R', 'a'])]
    recursive: bool,
    #[command(flatten)]
    out: Out,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// From where: IMAGE:/path or a path of the host
    #[arg(value_parser = place::named())]
    from: OsString,
    /// To where; into it when it is a directory
    #[arg(value_parser = place::named())]
    to: OsString,
}

/// What is kept of what comes out of an image.
#[derive(clap::Args)]
struct Out {
    /// Keep owners and groups (root's default); if root says so, all that -p keeps too
    #[arg(long, overrides_with = "no_same_owner")]
    same_owner: bool,
    /// All is the caller's (the default of others)
    #[arg(long, overrides_with = "same_owner")]
    no_same_owner: bool,
    /// Keep all permission bits, set-ID bits and all extended attributes as well; the umask takes
    /// none
    #[arg(short = 'p', long, overrides_with = "no_same_permissions")]
    same_permissions: bool,
    /// The umask takes permission bits away, as from new files (the default but for root)
    #[arg(long, overrides_with = "same_permissions")]
    no_same_permissions: bool,
    /// Make devices, which needs root
    #[arg(long)]
    devices: bool,
}

impl Out {
    fn is_given(&self) -> bool {
        let owner = self.same_owner || self.no_same_owner;
        owner || self.same_permissions || self.no_same_permissions || self.devices
    }

    /// As tar has it, but that set-ID bits and devices are asked for.
    fn options(&self, image: &Path) -> CopyOptions {
        let is_root = nix::unistd::geteuid().is_root();
        let modes = match (self.same_permissions, self.no_same_permissions) {
            (true, _) => Modes::All,
            (_, true) => Modes::Umask,
            _ if !is_root => Modes::Umask,
            _ if self.same_owner => Modes::All,
            _ => Modes::NoSetId,
        };
        CopyOptions {
            owner: self.same_owner || is_root && !self.no_same_owner,
            modes,
            devices: self.devices,
            privileged_xattrs: modes == Modes::All,
            apart: [file_id(image), None],
            ..CopyOptions::default()
        }
    }
}

/// Ctrl-C and SIGTERM, while something goes into an image.
static STOP: OnceLock<Interrupt> = OnceLock::new();

fn is_stopped() -> bool {
    STOP.get().is_some_and(Interrupt::is_here)
}

pub fn run(args: &Args) -> Outcome {
    args.encryption.take()?;
    let copied = match (Place::parse(&args.from), Place::parse(&args.to)) {
        (Place::Host(_), Place::Image(_)) if args.out.is_given() => {
            let why = "owners, permissions and devices always go into an image: no option for that";
            return Err(Usage(why.into()).into());
        }
        (Place::Host(from), Place::Image(to)) => match inwards(args, &from, &to) {
            Err(error) if is_stopped() => {
                let status = failure::report(&error);
                return Ok(STOP.get().map_or(status, |stop| stop.or(status)));
            }
            copied => copied?,
        },
        (Place::Image(from), Place::Host(to)) => outwards(args, &from, &to)?,
        _ => {
            let why = "one of the two places must be IMAGE:/path, the other of the host";
            return Err(Usage(why.into()).into());
        }
    };
    for (at, why) in &copied.skipped {
        complain(&format!("{}: {why}", text::path(at)));
    }
    tell_xattrs(&copied.xattrs_left);
    for (at, why) in &copied.damaged {
        complain(&format!("{}: {why}", text::path(at)));
    }
    Ok(match copied.damaged.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

/// Says which extended attributes a copy has left out.
pub(super) fn tell_xattrs(left: &XattrsLeft) {
    if let Some((at, name, why)) = &left.first {
        let count = text::plural(left.count, "extended attribute");
        let (name, at) = (text::name(name), text::path(at));
        complain(&format!(
            "{count} left out, the first {name} of {at}: {why}"
        ));
    }
}

fn inwards(args: &Args, from: &Path, to: &InImage) -> anyhow::Result<Copied> {
    let named = || text::path(from);
    let metadata = std::fs::symlink_metadata(from).with_context(named)?;
    if metadata.is_dir() && !args.recursive {
        bail!("{}: is a directory; -r copies it", named());
    }
    if output::is_same(from, &to.image) {
        bail!("{}: is the image itself", named());
    }
    let apart = file_id(&to.image);
    let bytes = host_tree(from, apart).map_err(tree_error)?.bytes;
    let interrupt = Interrupt::noted()?;
    STOP.get_or_init(|| interrupt);
    let mut volume = volume::open(&to.image, Access::ReadWrite, args.ram)?;
    let copied = copy_into(volume.fs(), from, to, apart, bytes);
    // What has been copied stays, whatever came then.
    let ended = volume.unmount();
    let copied = copied?;
    ended.with_context(|| text::path(&to.image))?;
    Ok(copied)
}

/// An error with its place in an image. One of the host has its place there.
fn named(place: &InImage, error: TreeError) -> anyhow::Error {
    let of_host = matches!(error, TreeError::Host(..));
    let error = tree_error(error);
    match of_host {
        true => error,
        false => error.context(place.shown()),
    }
}

/// What stopped a copy, with a name that is one line.
pub(super) fn tree_error(error: TreeError) -> anyhow::Error {
    match error {
        TreeError::Fs(at, error) => anyhow::Error::from(error).context(text::path(&at)),
        TreeError::Host(at, error) => anyhow::Error::from(error).context(text::path(&at)),
        error @ TreeError::Without(..) => error.into(),
    }
}

/// Where something of the host goes to, without symbolic links. Directories above must be there:
/// `copy_in` would make them, cp does not.
fn place_in(fs: &mut dyn FileSystem, from: &Path, to: &InImage) -> anyhow::Result<Vec<u8>> {
    let followed = path::follow(fs, &to.path, Last::Follow)?;
    if followed
        .attr
        .is_some_and(|there| there.kind == FileKind::Dir)
    {
        let full = from.canonicalize().unwrap_or_else(|_| from.to_owned());
        // `.` and `..` have a name only in full; a symbolic link keeps its own.
        let name = from.file_name().or(full.file_name());
        let name = name.unwrap_or_default().as_bytes();
        let inside = [&followed.path, &b"/"[..], name].concat();
        return through(fs, from, &inside);
    }
    // `new/` asks for a directory, which a file cannot be.
    if followed.attr.is_none() && to.path.ends_with(b"/") && !from.is_dir() {
        bail!("no such directory");
    }
    through(fs, from, &to.path)
}

/// A file is written through the symbolic link that has its name; all else takes its place.
fn through(fs: &mut dyn FileSystem, from: &Path, to: &[u8]) -> anyhow::Result<Vec<u8>> {
    let kept = path::follow(fs, to, Last::Keep)?;
    let is_link = kept
        .attr
        .is_some_and(|there| there.kind == FileKind::Symlink);
    if !is_link || !std::fs::symlink_metadata(from)?.is_file() {
        return Ok(kept.path);
    }
    let followed = path::follow(fs, to, Last::Follow)?;
    match followed.attr {
        None => bail!("a symbolic link to nothing"),
        Some(there) if there.kind == FileKind::Dir => bail!(Error::IsDir),
        Some(_) => Ok(followed.path),
    }
}

fn copy_into(
    fs: &mut dyn FileSystem,
    from: &Path,
    to: &InImage,
    apart: Option<FileId>,
    bytes: u64,
) -> anyhow::Result<Copied> {
    let path = place_in(fs, from, to).with_context(|| to.shown())?;
    let mut bar = Progress::new("copying", bytes);
    let options = CopyOptions {
        apart: [apart, None],
        stop: Some(is_stopped),
        ..CopyOptions::default()
    };
    let copied = copy_in(fs, from, &path, options, &mut |done| bar.at(done));
    copied.map_err(|error| named(to, error))
}

fn outwards(args: &Args, from: &InImage, to: &Path) -> anyhow::Result<Copied> {
    let mut volume = volume::open(&from.image, Access::ReadOnly, args.ram)?;
    let fs = volume.fs();
    let inside = path::follow(fs, &from.path, Last::Keep).with_context(|| from.shown())?;
    let attr = inside.found().with_context(|| from.shown())?;
    if attr.kind == FileKind::Dir && !args.recursive {
        bail!("{}: is a directory; -r copies it", from.shown());
    }
    let host: PathBuf = match path::split(&from.path) {
        Ok((_, name)) if to.is_dir() => to.join(OsStr::from_bytes(name)),
        // The root has no name: what it holds goes into the directory, which a link may lead to.
        _ if to.is_dir() => to.canonicalize().with_context(|| text::path(to))?,
        _ => to.to_owned(),
    };
    if output::is_same(&from.image, &host) {
        bail!("{}: is the image itself", text::path(&host));
    }
    let options = args.out.options(&from.image);
    if attr.kind == FileKind::File {
        return one_file(fs, from, &inside.path, &host, options);
    }
    let below = if host.is_dir() {
        host.join("x")
    } else {
        host.clone()
    };
    output::check_no_device(&below).with_context(|| text::path(&host))?;
    let mut bar = Progress::new("copying", attr.size);
    let copied = copy_out(fs, &inside.path, &host, options, &mut |done| bar.at(done));
    copied.map_err(|error| named(from, error))
}

/// One file, which appears whole or not at all.
fn one_file(
    fs: &mut dyn FileSystem,
    from: &InImage,
    inside: &[u8],
    host: &Path,
    options: CopyOptions,
) -> anyhow::Result<Copied> {
    let attr = path::resolve(fs, inside).with_context(|| from.shown())?;
    output::clear_when_interrupted()?;
    let made = Output::begin(host)?;
    if made.is_in_place() {
        let mut to = std::fs::File::create(host).with_context(|| made.shown())?;
        cat::write_out(fs, attr.ino, from, &mut |bytes| {
            to.write_all(bytes).with_context(|| made.shown())
        })?;
        made.finish()?;
        return Ok(Copied::default());
    }
    let mut bar = Progress::new("copying", attr.size);
    let copied = copy_out(fs, inside, made.path(), options, &mut |done| {
        bar.at(done);
    });
    let mut copied = copied.map_err(|error| match error {
        // Its place has a name that nobody knows.
        TreeError::Fs(_, error) => anyhow::Error::from(error).context(from.shown()),
        TreeError::Host(_, error) => anyhow::Error::from(error).context(made.shown()),
        TreeError::Without(..) => anyhow::Error::from(error),
    })?;
    if let Some((at, ..)) = &mut copied.xattrs_left.first {
        *at = host.to_owned();
    }
    made.finish()?;
    Ok(copied)
}
