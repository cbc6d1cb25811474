//! `flashkit cp`

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use flashkit_vfs::tree::{
    Copied, CopyOptions, FileId, Modes, TreeError, copy_in, copy_out, host_tree,
};
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, path};

use super::cat;
use crate::Outcome;
use crate::failure::{Usage, complain};
use crate::output::{self, Output, file_id};
use crate::place::{self, InImage, Place};
use crate::progress::Progress;
use crate::text;
use crate::values;
use crate::volume::{self, Access, KeyOption};

/// Copy between the host and the inside of an image; modes, times, links and holes are kept.
///
/// A file goes into an image whole or not at all. One that is there is replaced once the new one is
/// whole, which takes space for both.
///
/// Out of an image, a single file appears whole or not at all. Owners are kept for root, and
/// permission bits as well; for others the umask takes some of these away. Set-ID bits are dropped
/// and devices left out, as who made the image need not be trusted. Directories that are there keep
/// their attributes; no device, no file in use and not the image itself is replaced. A device or
/// pipe named as the place for a file is written to.
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
    /// Keep owners and groups (root's default); if root says so, set-ID bits too
    #[arg(long, overrides_with = "no_same_owner")]
    same_owner: bool,
    /// All is the caller's (the default of others)
    #[arg(long, overrides_with = "same_owner")]
    no_same_owner: bool,
    /// Keep all permission bits, set-ID bits as well; the umask takes none
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
            apart: [file_id(image), None],
            ..CopyOptions::default()
        }
    }
}

pub fn run(args: &Args) -> Outcome {
    args.encryption.take()?;
    let copied = match (Place::parse(&args.from), Place::parse(&args.to)) {
        (Place::Host(_), Place::Image(_)) if args.out.is_given() => {
            let why = "owners, permissions and devices always go into an image: no option for that";
            return Err(Usage(why.into()).into());
        }
        (Place::Host(from), Place::Image(to)) => inwards(args, &from, &to)?,
        (Place::Image(from), Place::Host(to)) => outwards(args, &from, &to)?,
        _ => {
            let why = "one of the two places must be IMAGE:/path, the other of the host";
            return Err(Usage(why.into()).into());
        }
    };
    for (at, why) in &copied.skipped {
        complain(&format!("{}: {why}", text::path(at)));
    }
    Ok(ExitCode::SUCCESS)
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
    let bytes = host_tree(from, apart)?.bytes;
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
    match error {
        TreeError::Host(..) => error.into(),
        _ => anyhow::Error::from(error).context(place.shown()),
    }
}

fn copy_into(
    fs: &mut dyn FileSystem,
    from: &Path,
    to: &InImage,
    apart: Option<FileId>,
    bytes: u64,
) -> anyhow::Result<Copied> {
    let path = match path::resolve(fs, &to.path) {
        Ok(there) if there.kind == FileKind::Dir => {
            let full = from.canonicalize().unwrap_or_else(|_| from.to_owned());
            // `.` and `..` have a name only in full; a symbolic link keeps its own.
            let name = from
                .file_name()
                .or(full.file_name())
                .unwrap_or(OsStr::new(""));
            let slash: &[u8] = if to.path.ends_with(b"/") { b"" } else { b"/" };
            [&to.path, slash, name.as_bytes()].concat()
        }
        // `new/` asks for a directory, which a file cannot be.
        Err(Error::NotFound) if to.path.ends_with(b"/") && !from.is_dir() => {
            bail!("{}: no such directory", to.shown())
        }
        Ok(_) | Err(Error::NotFound) => to.path.clone(),
        Err(error) => return Err(error).with_context(|| to.shown()),
    };
    // `copy_in` would make directories above; cp does not.
    path::resolve_parent(fs, &path)
        .and_then(|(dir, _)| fs.getattr(dir))
        .with_context(|| to.shown())?;
    let mut bar = Progress::new("copying", bytes);
    let options = CopyOptions {
        apart: [apart, None],
        ..CopyOptions::default()
    };
    let copied = copy_in(fs, from, &path, options, &mut |done| bar.at(done));
    copied.map_err(|error| named(to, error))
}

fn outwards(args: &Args, from: &InImage, to: &Path) -> anyhow::Result<Copied> {
    let mut volume = volume::open(&from.image, Access::ReadOnly, args.ram)?;
    let fs = volume.fs();
    let attr = path::resolve(fs, &from.path).with_context(|| from.shown())?;
    if attr.kind == FileKind::Dir && !args.recursive {
        bail!("{}: is a directory; -r copies it", from.shown());
    }
    let host: PathBuf = match path::split(&from.path) {
        Ok((_, name)) if to.is_dir() => to.join(OsStr::from_bytes(name)),
        // The root has no name: what it holds goes into the directory.
        _ => to.to_owned(),
    };
    if output::is_same(&from.image, &host) {
        bail!("{}: is the image itself", text::path(&host));
    }
    let options = args.out.options(&from.image);
    if attr.kind == FileKind::File {
        return one_file(fs, from, attr.ino, &host, options);
    }
    let inside = if host.is_dir() {
        host.join("x")
    } else {
        host.clone()
    };
    output::check_no_device(&inside).with_context(|| text::path(&host))?;
    let mut bar = Progress::new("copying", attr.size);
    let copied = copy_out(fs, &from.path, &host, options, &mut |done| bar.at(done));
    copied.map_err(|error| named(from, error))
}

/// One file, which appears whole or not at all.
fn one_file(
    fs: &mut dyn FileSystem,
    from: &InImage,
    ino: Ino,
    host: &Path,
    options: CopyOptions,
) -> anyhow::Result<Copied> {
    output::clear_when_interrupted()?;
    let made = Output::begin(host)?;
    if made.is_in_place() {
        let mut to = std::fs::File::create(host).with_context(|| made.shown())?;
        cat::write_out(fs, ino, from, &mut |bytes| {
            to.write_all(bytes).with_context(|| made.shown())
        })?;
        made.finish()?;
        return Ok(Copied::default());
    }
    let size = fs.getattr(ino).with_context(|| from.shown())?.size;
    let mut bar = Progress::new("copying", size);
    let copied = copy_out(fs, &from.path, made.path(), options, &mut |done| {
        bar.at(done);
    });
    let copied = copied.map_err(|error| match error {
        // Its place has a name that nobody knows.
        TreeError::Fs(_, error) => anyhow::Error::from(error).context(from.shown()),
        TreeError::Host(_, error) => anyhow::Error::from(error).context(made.shown()),
        TreeError::Without(..) => anyhow::Error::from(error),
    })?;
    made.finish()?;
    Ok(copied)
}
