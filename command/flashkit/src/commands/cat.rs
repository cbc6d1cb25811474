//! `flashkit cat`

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

use anyhow::{Context, bail};
use flashkit_vfs::path::{self, Last};
use flashkit_vfs::{Error, FileKind, FileSystem, Ino};

use crate::Outcome;
use crate::failure::{self, Usage};
use crate::place::{self, InImage, Place};
use crate::values;
use crate::volume::{self, Access, KeyOption};

const STEP: usize = 128 << 10;

/// Print files inside images; symbolic links are followed.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  flashkit cat flash.img:/etc/hosts")]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// Files to print
    #[arg(value_name = "IMAGE:/path", required = true, value_parser = place::named())]
    places: Vec<OsString>,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.encryption.take()?;
    let mut places = Vec::new();
    for text in &args.places {
        let Place::Image(place) = Place::parse(text) else {
            let shown = crate::text::name(text.as_bytes());
            return Err(Usage(format!("{shown}: not IMAGE:/path")).into());
        };
        places.push(place);
    }
    // What cannot be printed does not keep the others from it.
    let mut status = ExitCode::SUCCESS;
    for place in places {
        let printed = volume::open(&place.image, Access::ReadOnly, args.ram)
            .and_then(|mut volume| print(volume.fs(), &place, out));
        match printed {
            Err(error) if !failure::is_of_stdout(&error) => {
                // What was printed before it comes before it.
                out.flush()?;
                status = failure::report(&error);
            }
            printed => printed?,
        }
    }
    Ok(status)
}

fn print(fs: &mut dyn FileSystem, place: &InImage, out: &mut dyn Write) -> anyhow::Result<()> {
    let found = path::follow(fs, &place.path, Last::Follow).and_then(|place| place.found());
    let attr = found.with_context(|| place.shown())?;
    match attr.kind {
        FileKind::File => {}
        FileKind::Dir => bail!("{}: {}", place.shown(), Error::IsDir),
        _ => bail!("{}: not a regular file", place.shown()),
    }
    write_out(fs, attr.ino, place, &mut |bytes| Ok(out.write_all(bytes)?))
}

/// Hands on what a file holds, holes as zeros.
pub(super) fn write_out(
    fs: &mut dyn FileSystem,
    ino: Ino,
    from: &InImage,
    write: &mut dyn FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut buf = vec![0; STEP];
    let mut offset = 0;
    loop {
        let read = fs.read(ino, offset, &mut buf);
        let read = read.with_context(|| from.shown())?;
        if read == 0 {
            return Ok(());
        }
        write(&buf[..read])?;
        offset += read as u64;
    }
}
