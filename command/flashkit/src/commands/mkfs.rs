//! `flashkit mkfs`

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use flashkit_nanofs::FILES_MAX;
use flashkit_sim::{DEFAULT_PRESET, Preset};
use flashkit_vfs::tree::{
    Copied, CopyOptions, DevEntry, FileId, HostTree, apply_devtable, copy_in, host_tree,
    read_devtable,
};
use flashkit_vfs::{Counters, Time};

use super::cp::{tell_xattrs, tree_error};
use crate::Outcome;
use crate::failure::Usage;
use crate::held::check_free;
use crate::output::{self, Output, file_id};
use crate::place::check_dir;
use crate::progress::Progress;
use crate::text;
use crate::values;
use crate::volume::{self, Birth, Card, FsName, KeyOption, Sent, Volume};

/// Make an image of a new chip with an empty file system, or one filled from a directory.
#[derive(clap::Args)]
#[command(
    after_help = "FlashLight is for raw chips: its images hold a chip, and an MTD device (/dev/mtd0) is one. Nano-FS is\n\
    for cards; its images are what is on the card, byte by byte. A directory gives the same image every time.\n\n\
    Examples:\n  flashkit mkfs flash.img\n  \
    flashkit mkfs --chip w25n01gv -r rootfs flash.img\n  \
    flashkit mkfs --fs nanofs --size 1GiB --files 100 card.img"
)]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// File system
    #[arg(long, value_enum, default_value = "flashlight")]
    fs: FsName,
    /// Chip, as `flashkit chips` lists them [default: slc-256m]
    #[arg(long, value_name = "NAME", value_parser = values::chip)]
    chip: Option<&'static Preset>,
    #[command(flatten)]
    bus: values::BusOption,
    /// Nano-FS: size of the card, up to 4GiB [default: 64MiB]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    size: Option<u64>,
    /// Nano-FS: files that there can be, up to 4096 [default: 256]
    #[arg(long, value_name = "N",
          value_parser = values::number::<u32>("a number of files", 1, FILES_MAX.into()))]
    files: Option<u32>,
    /// Nano-FS: key that the firmware asks for [default: 0]
    #[arg(long, value_name = "KEY", value_parser = values::key)]
    key: Option<u32>,
    /// RAM of the file system, in bytes [default: 16384, or what the chip needs if that is more]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    ram: Option<usize>,
    /// Make it for `flashkit export`, for chips of which up to so many
    /// blocks are bad, no matter which
    #[arg(long, value_name = "BLOCKS",
          value_parser = values::number::<u32>("a number of blocks", 0, u32::MAX.into()))]
    slack: Option<u32>,
    /// With --slack: use no spare bytes, for programmers that write none; file data has no
    /// checksums then
    #[arg(long, requires = "slack")]
    no_spare: bool,
    /// Fill it with what this directory holds
    #[arg(short = 'r', long = "root", value_name = "DIR")]
    root: Option<PathBuf>,
    /// Of what is filled in: owner and group of everything are root
    #[arg(long, requires = "root")]
    squash_owner: bool,
    /// Make devices and set attributes as in this table: path, type, mode, uid, gid,
    /// major, minor, start, inc, count
    #[arg(long, value_name = "FILE")]
    devtable: Option<PathBuf>,
    /// Overwrite a volume, a disk, or anything else that is there
    #[arg(long)]
    force: bool,
    /// Image file to make, whole or not at all, or MTD device
    image: PathBuf,
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.encryption.take()?;
    let shown = text::path(&args.image);
    // All that can be wrong is found before the image is touched.
    let tree = match &args.root {
        Some(dir) => {
            check_dir(dir)?;
            Some(host_tree(dir, file_id(&args.image)).map_err(tree_error)?)
        }
        None => None,
    };
    let device = flashkit_mtd::is_device(&args.image);
    check_free(&args.image, args.force)?;
    let table = match &args.devtable {
        Some(file) => read_devtable(file).map_err(anyhow::Error::msg)?,
        None => Vec::new(),
    };
    let birth = birth(args, tree.filter(|_| !device))?;
    output::clear_when_interrupted()?;
    let image = Output::image(&args.image)?;
    let (medium, size, cost) = make(args, &image, device, birth)?;
    writeln!(
        out,
        "{shown}: {} on {medium}, {}: {}",
        args.fs.as_str(),
        text::bytes(size),
        text::cost(cost)
    )?;
    if args.root.is_some() || !table.is_empty() {
        let mut volume = volume::open_new(&image, args.ram)?;
        let apart = [file_id(&args.image), file_id(image.path())];
        let filled = fill(&mut volume, args, tree, &table, birth.now, apart);
        // What was stored on a device until then stays usable.
        let cost = volume.unmount();
        let copied = filled.with_context(|| format!("{shown}: filling it"))?;
        tell(&copied, image.path(), cost?, out)?;
    }
    image.finish()?;
    Ok(ExitCode::SUCCESS)
}

/// An image of a directory follows from that alone: the same tree gives the same bytes. A device
/// may have had a volume of the same number.
fn birth(args: &Args, tree: Option<HostTree>) -> anyhow::Result<Birth> {
    let mut birth = Birth::here();
    if args.squash_owner {
        birth.owner = (0, 0);
    }
    if let (Some(dir), Some(HostTree { digest, .. })) = (&args.root, tree) {
        let meta = std::fs::metadata(dir)?;
        birth.number = (digest ^ digest >> 32) as u32;
        birth.now = Time {
            secs: meta.mtime(),
            nanos: u32::try_from(meta.mtime_nsec()).unwrap_or(0),
        };
    }
    Ok(birth)
}

/// Makes the empty volume; gives what it is on, its size, and the cost.
fn make(
    args: &Args,
    image: &Output,
    device: bool,
    birth: Birth,
) -> anyhow::Result<(String, u64, Counters)> {
    // What is of another file system, by the name that was given.
    let refused: &[(&str, bool)] = match args.fs {
        FsName::Flashlight => &[
            ("--size", args.size.is_some()),
            ("--files", args.files.is_some()),
            ("--key", args.key.is_some()),
        ],
        FsName::Nanofs => &[
            ("--chip", args.chip.is_some()),
            ("--ram", args.ram.is_some()),
            ("--devtable", args.devtable.is_some()),
            ("--slack", args.slack.is_some()),
            ("--bus", args.bus.is_some()),
            ("--key-file", args.encryption.file().is_some()),
        ],
    };
    if let Some((option, _)) = refused.iter().find(|(_, given)| *given) {
        let why = format!("{option} is not for {}", args.fs.as_str());
        return Err(Usage(why).into());
    }
    match args.fs {
        FsName::Flashlight => {
            if device {
                if args.chip.is_some() || args.bus.is_some() || args.slack.is_some() {
                    let why = "a device is the chip that it is: no --chip, no --bus, no --slack";
                    return Err(Usage(why.into()).into());
                }
                return volume::mkfs_device(&args.image, args.ram, birth);
            }
            let preset = || values::chip(DEFAULT_PRESET).map_err(anyhow::Error::msg);
            let chip = args.bus.of(args.chip.map_or_else(preset, Ok)?);
            let sent = args.slack.map(|slack| Sent {
                slack,
                spare: !args.no_spare,
            });
            let cost = volume::mkfs(image, &chip, args.ram, birth, sent)?;
            Ok((chip.name.to_owned(), chip.geometry().capacity(), cost))
        }
        FsName::Nanofs if device => {
            bail!("{}: nanofs is for cards, not for raw chips", image.shown())
        }
        FsName::Nanofs => {
            let card = Card {
                size: args.size.unwrap_or(64 << 20),
                files: args.files.unwrap_or(256),
                key: args.key.unwrap_or(0),
            };
            let cost = volume::mkfs_card(image, card, birth)?;
            Ok(("a card".to_owned(), card.size / 512 * 512, cost))
        }
    }
}

/// Fills a volume from the directory and by the table.
fn fill(
    volume: &mut Volume,
    args: &Args,
    tree: Option<HostTree>,
    table: &[DevEntry],
    now: Time,
    apart: [Option<FileId>; 2],
) -> anyhow::Result<Copied> {
    let mut copied = Copied::default();
    if let Some(dir) = &args.root {
        let mut bar = Progress::new("storing", tree.map_or(0, |tree| tree.bytes));
        let options = CopyOptions {
            owner: !args.squash_owner,
            apart,
            ..CopyOptions::default()
        };
        let filled = copy_in(volume.fs(), dir, b"/", options, &mut |done| bar.at(done));
        copied = filled.map_err(tree_error)?;
    }
    let applied = apply_devtable(volume.fs(), table, now);
    if let (Err(why), Some(file)) = (applied, &args.devtable) {
        bail!("{}: {why}", text::path(file));
    }
    Ok(copied)
}

fn tell(copied: &Copied, image: &Path, cost: Counters, out: &mut dyn Write) -> anyhow::Result<()> {
    // That the new image is not within itself goes without saying.
    let skipped = copied.skipped.iter();
    for (at, why) in skipped.filter(|(at, _)| !output::is_same(at, image)) {
        crate::failure::complain(&format!("{}: {why}", text::path(at)));
    }
    tell_xattrs(&copied.xattrs_left);
    let some = |n: u64, what: &str| match n {
        0 => String::new(),
        n => format!("{}, ", text::plural(n, what)),
    };
    let specials = some(copied.specials, "special file");
    let links = some(copied.links, "hard link");
    writeln!(
        out,
        "stored {}, {}, {}, {specials}{links}{}: {}",
        text::plural(copied.files, "file"),
        text::plural(copied.dirs, "directory").replace("directorys", "directories"),
        text::plural(copied.symlinks, "symbolic link"),
        text::bytes(copied.bytes),
        text::cost(cost)
    )?;
    Ok(())
}
