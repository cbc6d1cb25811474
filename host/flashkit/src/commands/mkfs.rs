//! `flashkit mkfs`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use flashkit_sim::{DEFAULT_PRESET, Preset};
use flashkit_vfs::tree::{CopyOptions, copy_in, host_bytes};

use crate::Outcome;
use crate::progress::Progress;
use crate::text;
use crate::values;
use crate::volume::{self, Access, FsName};

/// Make an image of a new chip with an empty file system, or one filled from a directory.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  flashkit mkfs flash.img\n  \
    flashkit mkfs --chip w25n01gv -r /usr/include flash.img")]
pub struct Args {
    /// File system
    #[arg(long, value_enum, default_value = "flashlight")]
    fs: FsName,
    /// Chip, as `flashkit chips` lists them
    #[arg(long, value_name = "NAME", value_parser = values::chip, default_value = DEFAULT_PRESET)]
    chip: &'static Preset,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// Fill it with what this directory holds
    #[arg(short = 'r', long = "root", value_name = "DIR")]
    root: Option<PathBuf>,
    /// Overwrite a file that is no image
    #[arg(long)]
    force: bool,
    /// Image file to make; an image of that name is overwritten
    image: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    let shown = args.image.display();
    // All that can be wrong is found before the image is touched.
    let bytes = match &args.root {
        Some(dir) if !dir.is_dir() => bail!("{}: no such directory", dir.display()),
        Some(dir) => host_bytes(dir)?,
        None => 0,
    };
    let existed = volume::is_image(&args.image)?;
    if existed == Some(false) && !args.force {
        bail!("{shown}: exists and is no image; --force overwrites it");
    }
    let cost = volume::mkfs(&args.image, args.fs, args.chip, args.ram)?;
    writeln!(
        out,
        "{shown}: {} on {}, {}: {}",
        args.fs.as_str(),
        args.chip.name,
        text::bytes(args.chip.geometry().capacity()),
        text::cost(cost)
    )?;
    if let Some(dir) = &args.root {
        fill(args, dir, bytes, out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn fill(args: &Args, dir: &Path, bytes: u64, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut volume = volume::open(&args.image, Access::ReadWrite, args.ram)?;
    let mut bar = Progress::new("storing", bytes);
    let options = CopyOptions::default();
    let copied = copy_in(volume.fs(), dir, b"/", options, &mut |done| bar.at(done));
    drop(bar);
    // What was stored until then stays usable.
    let cost = volume.unmount();
    let copied = copied.with_context(|| format!("{}: filling it", args.image.display()))?;
    for special in &copied.skipped {
        crate::failure::complain(&format!("{}: special file, left out", special.display()));
    }
    let links = match copied.links {
        0 => String::new(),
        links => format!("{}, ", text::plural(links, "hard link")),
    };
    writeln!(
        out,
        "stored {}, {}, {}, {links}{}: {}",
        text::plural(copied.files, "file"),
        text::plural(copied.dirs, "directory").replace("directorys", "directories"),
        text::plural(copied.symlinks, "symbolic link"),
        text::bytes(copied.bytes),
        text::cost(cost?)
    )?;
    Ok(())
}
