//! `flashkit ls`

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use anyhow::Context;
use flashkit_vfs::path::{self, Last};
use flashkit_vfs::{Attr, Error, FileKind, FileSystem, device};

use crate::Outcome;
use crate::failure::{FAILED, complain};
use crate::place::{self, InImage};
use crate::text;
use crate::values;
use crate::volume::{self, Access, KeyOption};

/// List a directory inside an image.
///
/// On a terminal, characters that move its cursor or hide, and bytes that are not UTF-8, are shown
/// as escapes like \n, \x1b or \u{202e}. A file or a pipe gets the names as they are. What is
/// damaged is named, the rest is listed, and the status is 1.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  flashkit ls -l flash.img:/etc")]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// Show kind, mode, names, owner, group, size and time (UTC)
    #[arg(short = 'l')]
    long: bool,
    /// List directories below, too
    #[arg(short = 'R')]
    recursive: bool,
    /// Names with escapes, as on a terminal, where the output is a file or a pipe too
    #[arg(short = 'b', long)]
    escape: bool,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// What to list; IMAGE alone is its root
    #[arg(value_name = "IMAGE:/path", value_parser = place::named())]
    place: OsString,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.encryption.take()?;
    let place = InImage::parse(&args.place);
    let mut volume = volume::open(&place.image, Access::ReadOnly, args.ram)?;
    let is_whole = list(volume.fs(), &place, args, out).with_context(|| place.shown())?;
    Ok(match is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    })
}

/// Says what cannot be listed, behind what has been.
fn tell(place: &InImage, at: &[u8], why: &Error, out: &mut dyn Write) -> std::io::Result<()> {
    out.flush()?;
    let place = InImage {
        path: at.to_vec(),
        image: place.image.clone(),
    };
    complain(&format!("{}: {why}", place.shown()));
    Ok(())
}

/// Whether all of it could be listed.
fn list(
    fs: &mut dyn FileSystem,
    place: &InImage,
    args: &Args,
    out: &mut dyn Write,
) -> anyhow::Result<bool> {
    let top = path::follow(fs, &place.path, Last::Keep)?.found()?;
    if top.kind != FileKind::Dir {
        return entry(fs, &place.path, &top, args, out).map(|()| true);
    }
    // Directories still to list; the next one last.
    let mut pending = vec![(place.path.clone(), top)];
    let (mut first, mut is_whole) = (true, true);
    while let Some((at, dir)) = pending.pop() {
        if args.recursive {
            let gap = if first { "" } else { "\n" };
            write!(out, "{gap}")?;
            print_name(&at, args, out)?;
            writeln!(out, ":")?;
        }
        first = false;
        let (mut entries, listed) = path::list_readable(fs, dir.ino);
        if let Err(error) = listed {
            tell(place, &at, &error, out)?;
            is_whole = false;
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        for found in entries {
            let slash: &[u8] = if at.ends_with(b"/") { b"" } else { b"/" };
            let full = [&at, slash, &found.name].concat();
            let looked = match args.long {
                true => fs.lookup(dir.ino, &found.name),
                false => Ok(Attr {
                    ino: found.ino,
                    kind: found.kind,
                    ..dir
                }),
            };
            let attr = match looked {
                Ok(attr) => attr,
                Err(error) => {
                    tell(place, &full, &error, out)?;
                    is_whole = false;
                    continue;
                }
            };
            entry(fs, &found.name, &attr, args, out)?;
            if args.recursive && found.kind == FileKind::Dir {
                below.push((full, attr));
            }
        }
        pending.extend(below.into_iter().rev());
    }
    Ok(is_whole)
}

fn entry(
    fs: &mut dyn FileSystem,
    name: &[u8],
    attr: &Attr,
    args: &Args,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if args.long {
        write!(
            out,
            "{} {:>3} {:>5} {:>5} {:>11} {} ",
            mode(attr),
            attr.nlink,
            attr.uid,
            attr.gid,
            size(attr),
            text::date(attr.mtime),
        )?;
    }
    print_name(name, args, out)?;
    if args.long && attr.kind == FileKind::Symlink {
        write!(out, " -> ")?;
        print_name(&fs.readlink(attr.ino)?, args, out)?;
    }
    writeln!(out)?;
    Ok(())
}

/// A name as it is, for other programs; or as a terminal may have it.
fn print_name(name: &[u8], args: &Args, out: &mut dyn Write) -> std::io::Result<()> {
    if args.escape || std::io::stdout().is_terminal() {
        write!(out, "{}", text::name(name))
    } else {
        out.write_all(name)
    }
}

/// Bytes, or major and minor number of a device.
fn size(attr: &Attr) -> String {
    if attr.kind.is_device() {
        let (major, minor) = device::unpack(attr.device);
        format!("{major}, {minor}")
    } else {
        attr.size.to_string()
    }
}

/// `drwxr-sr-x`
fn mode(attr: &Attr) -> String {
    let mut out = String::from(match attr.kind {
        FileKind::File => "-",
        FileKind::Dir => "d",
        FileKind::Symlink => "l",
        FileKind::Fifo => "p",
        FileKind::Socket => "s",
        FileKind::Char => "c",
        FileKind::Block => "b",
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = attr.mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (attr.mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    out
}
