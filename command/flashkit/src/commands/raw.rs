//! `flashkit export` and `flashkit import`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use flashkit_sim::Preset;

use crate::Outcome;
use crate::held::check_free;
use crate::output::{self, Output, is_same};
use crate::text;
use crate::values;
use crate::volume::{self, KeyOption};

/// Write a raw image, as nandwrite, U-Boot and gang programmers take it.
///
/// A volume made with `mkfs --slack` is written for any chip of its sort, whichever of its blocks
/// are bad: programmers pass over those. The chip must have been erased. Anything else is copied as
/// it is, for a chip with the same bad blocks. Of an encrypted volume the raw file is encrypted as
/// the chip is; a key that is given is checked.
#[derive(clap::Args)]
#[command(
    after_help = "Example, for boards with a chip of 1,024 blocks, of which 20 may be bad:\n  \
    flashkit mkfs --chip w25n01gv --slack 20 --no-spare -r rootfs flash.img\n  \
    flashkit export flash.img flash.bin\n  \
    flash_erase /dev/mtd0 0 0 && nandwrite /dev/mtd0 flash.bin    # on the board\n  \
    flashkit mount /dev/mtd0 /mnt"
)]
pub struct Export {
    #[command(flatten)]
    encryption: KeyOption,
    /// Each page with its spare bytes, as `nanddump --oob` and `nandwrite --oob` have them
    #[arg(long)]
    spare: bool,
    /// Overwrite a file that is there; one that is in use is refused
    #[arg(long)]
    force: bool,
    /// Image
    image: PathBuf,
    /// File to write, whole or not at all
    raw: PathBuf,
}

/// Make an image of a chip from a raw one, as nanddump writes it.
#[derive(clap::Args)]
#[command(
    after_help = "nanddump leaves bad blocks out; `--bb=padbad` keeps their places. Examples:\n  \
    flashkit import --chip w25n01gv --bad 17,512 dump.bin dump.img\n  \
    flashkit fsck dump.img && flashkit ls -lR dump.img"
)]
pub struct Import {
    /// Chip, as `flashkit chips` lists them
    #[arg(long, value_name = "NAME", value_parser = values::chip)]
    chip: &'static Preset,
    #[command(flatten)]
    bus: values::BusOption,
    /// Each page is followed by its spare bytes, as `nanddump --oob` has them
    #[arg(long)]
    spare: bool,
    /// Blocks that are bad; they are passed over, unless the file is as long as the chip
    #[arg(long, value_name = "N,N...", value_delimiter = ',',
          value_parser = values::number::<u32>("the number of a block", 0, u32::MAX.into()))]
    bad: Vec<u32>,
    /// Overwrite a volume, a disk, or anything else that is there
    #[arg(long)]
    force: bool,
    /// File to read
    raw: PathBuf,
    /// Image file to make, whole or not at all
    image: PathBuf,
}

pub fn export(args: &Export, out: &mut dyn Write) -> Outcome {
    args.encryption.take()?;
    let raw = text::path(&args.raw);
    if is_same(&args.image, &args.raw) {
        bail!("{raw}: is the image itself");
    }
    if args.raw.is_dir() {
        bail!("{raw}: is a directory");
    }
    // A device or a pipe is taken as it is.
    if args.raw.is_file() && !args.force {
        bail!("{raw}: exists; --force overwrites it");
    }
    output::clear_when_interrupted()?;
    let made = Output::begin(&args.raw)?;
    let written = volume::export(&args.image, &made, args.spare)?;
    made.finish()?;
    let pages = u64::from(written.blocks) * u64::from(written.pages_per_block);
    let what = match written.slack {
        Some(slack) => format!(
            "for chips with up to {}",
            text::plural(slack.into(), "bad block")
        ),
        None => "for a chip with the same bad blocks".into(),
    };
    writeln!(
        out,
        "{raw}: {} in pages of {}, {what}: {}",
        text::plural(written.blocks.into(), "block"),
        written.page,
        text::bytes(pages * written.page as u64)
    )?;
    Ok(ExitCode::SUCCESS)
}

pub fn import(args: &Import, out: &mut dyn Write) -> Outcome {
    let image = text::path(&args.image);
    if is_same(&args.image, &args.raw) {
        bail!("{image}: is the raw image itself");
    }
    check_free(&args.image, args.force)?;
    if flashkit_mtd::is_device(&args.image) {
        bail!("{image}: a device; nandwrite writes it");
    }
    output::clear_when_interrupted()?;
    let made = Output::image(&args.image)?;
    volume::import(
        &args.raw,
        &made,
        &args.bus.of(args.chip),
        args.spare,
        &args.bad,
    )?;
    made.finish()?;
    writeln!(
        out,
        "{image}: {} from {}",
        args.chip.name,
        text::path(&args.raw)
    )?;
    Ok(ExitCode::SUCCESS)
}
