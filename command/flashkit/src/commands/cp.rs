//! `flashkit cp`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use flashkit_vfs::tree::{Copied, CopyOptions, copy_in, copy_out, host_tree};
use flashkit_vfs::{Error, FileKind, FileSystem, path};

use crate::Outcome;
use crate::failure::{Usage, complain};
use crate::place::{InImage, Place};
use crate::progress::Progress;
use crate::text;
use crate::values;
use crate::volume::{self, Access};

/// Copy between the host and the inside of an image; modes, times and symbolic links are kept.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  flashkit cp notes.txt flash.img:/\n  \
    flashkit cp -r flash.img:/logs .")]
pub struct Args {
    /// Copy directories with all that they hold
    #[arg(short = 'r', short_alias = 'R', short_alias = 'a')]
    recursive: bool,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// From where: IMAGE:/path or a path of the host
    from: OsString,
    /// To where; into it when it is a directory
    to: OsString,
}

pub fn run(args: &Args) -> Outcome {
    let copied = match (Place::parse(&args.from), Place::parse(&args.to)) {
        (Place::Host(from), Place::Image(to)) => inwards(args, &from, &to)?,
        (Place::Image(from), Place::Host(to)) => outwards(args, &from, &to)?,
        _ => {
            let why = "one of the two places must be IMAGE:/path, the other of the host";
            return Err(Usage(why.into()).into());
        }
    };
    for special in &copied.skipped {
        complain(&format!("{}: special file, left out", special.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn inwards(args: &Args, from: &Path, to: &InImage) -> anyhow::Result<Copied> {
    let named = || from.display().to_string();
    let metadata = std::fs::symlink_metadata(from).with_context(named)?;
    if metadata.is_dir() && !args.recursive {
        bail!("{}: is a directory; -r copies it", named());
    }
    let bytes = host_tree(from)?.bytes;
    let mut volume = volume::open(&to.image, Access::ReadWrite, args.ram)?;
    let copied = copy_into(volume.fs(), from, to, bytes);
    // What has been copied stays, whatever came then.
    volume
        .unmount()
        .with_context(|| to.image.display().to_string())?;
    copied
}

fn copy_into(
    fs: &mut dyn FileSystem,
    from: &Path,
    to: &InImage,
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
            [&to.path, &b"/"[..], name.as_bytes()].concat()
        }
        Ok(_) | Err(Error::NotFound) => to.path.clone(),
        Err(error) => return Err(error).with_context(|| to.shown()),
    };
    // `copy_in` would make directories above; cp does not.
    path::resolve_parent(fs, &path)
        .and_then(|(dir, _)| fs.getattr(dir))
        .with_context(|| to.shown())?;
    let mut bar = Progress::new("copying", bytes);
    let copied = copy_in(fs, from, &path, CopyOptions::default(), &mut |done| {
        bar.at(done);
    });
    copied.with_context(|| to.shown())
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
    let mut bar = Progress::new("copying", attr.size);
    // Only root may give files away.
    let options = CopyOptions {
        owner: nix::unistd::geteuid().is_root(),
        ..CopyOptions::default()
    };
    let copied = copy_out(fs, &from.path, &host, options, &mut |done| bar.at(done));
    copied.with_context(|| text::name(from.shown().as_bytes()))
}
