//! Block devices on simulated chips: the one part of the command that knows which translation
//! layers there are. Each is a [`flashkit_disk::Translation`]; everything else works on a
//! [`flashkit_disk::Disk`].

mod logdisk;

use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum;
use flashkit_disk::Disk;

use crate::failure::Usage;
use crate::values;
use crate::volume::Access;

/// The translation layers there are.
// No doc comments: clap would print each value on lines of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ftl {
    Logdisk,
}

impl Ftl {
    /// As `--ftl` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Ftl::Logdisk => "logdisk",
        }
    }
}

/// How a disk cleans.
// No doc comments: clap would print each value on lines of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Cleaning {
    // The 1995 driver's.
    Paper,
    // The least copying.
    #[default]
    Least,
    // No write waits for a whole segment.
    Bounded,
}

/// Which disk, and how; shared by `attach` and `serve`.
#[derive(clap::Args)]
pub struct Choice {
    /// Translation layer
    #[arg(long, value_enum)]
    ftl: Ftl,
    /// Chip of a new image [default: the layer's own; nor-16m for logdisk]
    #[arg(long, value_name = "NAME")]
    chip: Option<String>,
    /// Size of a new disk, like 12MiB [default: what suits the chip; 14MiB on nor-16m]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    size: Option<u64>,
    /// Bytes of a sector of a new disk [default: 512]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    sector: Option<usize>,
    /// How to clean
    #[arg(long, value_enum, default_value_t)]
    cleaning: Cleaning,
    /// Really wait the chip's times
    #[arg(long)]
    real_time: bool,
}

/// An open disk.
pub struct Opened {
    /// The disk.
    pub disk: Box<dyn Disk + Send>,
    /// What was made, if the image is new: one line.
    pub made: Option<String>,
}

impl Choice {
    /// The name of the layer.
    pub fn ftl(&self) -> &'static str {
        self.ftl.as_str()
    }

    /// Opens the disk in an image; makes the image if it is absent and may be written.
    pub fn open(&self, image: &Path, access: Access) -> anyhow::Result<Opened> {
        let Ftl::Logdisk = self.ftl;
        let named = || image.display().to_string();
        let found = std::fs::metadata(image);
        if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            bail!("{}: is a directory, not an image", named());
        }
        let mut made = None;
        if found.is_err() && access == Access::ReadWrite {
            let new = logdisk::New {
                chip: self.chip.as_deref(),
                size: self.size,
                sector: self.sector.unwrap_or(512),
                cleaning: self.cleaning,
            };
            made = Some(new.make(image)?);
        } else {
            found.with_context(named)?;
            if self.chip.is_some() || self.size.is_some() || self.sector.is_some() {
                let why = "exists; --chip, --size and --sector are for a new image";
                return Err(Usage(format!("{}: {why}", named())).into());
            }
        }
        let disk =
            logdisk::open(image, access, self.cleaning, self.real_time).with_context(named)?;
        Ok(Opened { disk, made })
    }
}
