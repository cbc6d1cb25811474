//! Block devices on chips: the one part of the command that knows which translation
//! layers there are. Each is a [`flashkit_disk::Translation`]; everything else works on a
//! [`flashkit_disk::Disk`].

mod jftl;
mod logdisk;

pub use jftl::{info_on_nand, is_jftl};
pub use logdisk::{clean, fsck, held_on_nor, info};

use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum;
use flashkit_disk::{Disk, Sectors, Translation};

use crate::failure::Usage;
use crate::held::{Held, not_found};
use crate::text;
use crate::values;
use crate::volume::Access;

/// The translation layers there are.
// No doc comments: clap would print each value on lines of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ftl {
    // By pages, on NAND.
    Page,
    // The same, with a journal remapped, and no more than that.
    Remap,
    // The same, and what is journalled again or is short costs less.
    Jftl,
    // In a log, on NOR.
    Logdisk,
}

impl Ftl {
    /// As `--ftl` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Ftl::Page => "page",
            Ftl::Remap => "remap",
            Ftl::Jftl => "jftl",
            Ftl::Logdisk => "logdisk",
        }
    }
}

/// How a disk cleans.
// No doc comments: clap would print each value on lines of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Cleaning {
    // The 1995 driver's, greedy.
    Paper,
    // The same by cost and benefit.
    CostBenefit,
    // And with a segment apart for cold blocks.
    Separate,
    // The least copying.
    #[default]
    Least,
    // No write waits for a whole segment.
    Bounded,
}

/// Which disk, and how; shared by `attach` and `serve`.
#[derive(clap::Args)]
pub struct Choice {
    /// Translation layer: page on NAND, jftl the same with the journal of ext3 or ext4
    /// written once, remap only what JFTL's paper has of that, logdisk on NOR
    #[arg(long, value_enum, hide_possible_values = true)]
    ftl: Ftl,
    /// Chip of a new image [default: nor-16m for logdisk, else slc-256m]
    #[arg(long, value_name = "NAME")]
    chip: Option<String>,
    #[command(flatten)]
    bus: values::BusOption,
    /// Size of a new disk of logdisk, in whole sectors, like 12MiB [default: 14MiB on nor-16m]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    size: Option<u64>,
    /// Bytes of a sector of a new disk of logdisk: a power of two, 512 to 65536 [default: 512]
    #[arg(long, value_name = "BYTES", value_parser = values::sector)]
    sector: Option<usize>,
    /// How logdisk cleans: `paper`, greedy, `cost-benefit`, or `separate`, so with a segment apart
    /// for cold blocks; `least` copying; `bounded` waits of a write [default: least]
    #[arg(long, value_enum, hide_possible_values = true)]
    cleaning: Option<Cleaning>,
    /// Really wait the chip's times
    #[arg(long)]
    real_time: bool,
}

/// A disk on a translation layer, which answers at once or in the chip's time.
fn serve<T: Translation + Send + 'static>(device: T, real_time: bool) -> Box<dyn Disk + Send> {
    let sectors = Sectors::new(device);
    Box::new(if real_time {
        sectors.in_real_time()
    } else {
        sectors
    })
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

    /// Refuses a mount option that a disk shown as a file has no use for.
    ///
    /// # Errors
    /// It is one.
    pub fn check_option(&self, option: &str) -> anyhow::Result<()> {
        let name = option.split('=').next().unwrap_or(option);
        let known = match name {
            "" | "ro" | "rw" | "allow_other" | "fsname" | "subtype" | "barrier" | "nobarrier" => {
                true
            }
            "default_permissions" | "defaults" | "noexec" | "exec" | "nosuid" | "nodev" => true,
            // Nothing of NOR is read again.
            "scrub" => self.ftl != Ftl::Logdisk,
            _ => false,
        };
        if !known {
            let why = format!(
                "mount option `{option}` is not for a disk of {}",
                self.ftl()
            );
            return Err(Usage(why).into());
        }
        Ok(())
    }

    /// Opens the disk in an image or on a device; makes the image if it is absent, the disk if the
    /// device is erased, and it may be written. With a `barrier`, what is flushed is on the disk
    /// below the image; without, nothing waits for that before the end.
    pub fn open(&self, image: &Path, access: Access, barrier: bool) -> anyhow::Result<Opened> {
        let cleaning = self.cleaning.unwrap_or_default();
        let sized = self.size.is_some() || self.sector.is_some();
        if self.ftl != Ftl::Logdisk && (sized || self.cleaning.is_some()) {
            let why = "--size, --sector and --cleaning are for --ftl logdisk";
            return Err(Usage(why.into()).into());
        }
        if self.ftl == Ftl::Logdisk && self.bus.is_some() {
            return Err(Usage("--bus is for NAND chips".into()).into());
        }
        let named = || text::path(image);
        let found = std::fs::metadata(image);
        if found.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            bail!("{}: is a directory, not an image", named());
        }
        let mut made = None;
        let device = flashkit_mtd::is_device(image);
        if device && self.ftl == Ftl::Logdisk {
            return Err(Usage(format!("{}: logdisk is for NOR chips, in images", named())).into());
        }
        if device && access == Access::ReadWrite {
            made = jftl::make_on(image)?;
        }
        if found.is_err() && access == Access::ReadWrite {
            let chip = self.chip.as_deref();
            let told = match self.ftl {
                Ftl::Page | Ftl::Remap | Ftl::Jftl => jftl::make(image, chip, self.bus)?,
                Ftl::Logdisk => {
                    let (size, sector) = (self.size, self.sector.unwrap_or(512));
                    let new = logdisk::New {
                        chip,
                        size,
                        sector,
                        cleaning,
                    };
                    new.make(image)?
                }
            };
            made = Some(told);
        } else {
            found.with_context(named)?;
            if self.chip.is_some() || self.bus.is_some() || sized {
                let why = "exists; --chip, --bus, --size and --sector are for a new image";
                return Err(Usage(format!("{}: {why}", named())).into());
            }
        }
        let disk = match self.ftl {
            Ftl::Page | Ftl::Remap | Ftl::Jftl => {
                jftl::open(image, access, barrier, self.ftl, self.real_time)
            }
            Ftl::Logdisk => logdisk::open(image, access, barrier, cleaning, self.real_time),
        };
        let asked = match self.ftl {
            Ftl::Page | Ftl::Remap | Ftl::Jftl => Held::Jftl,
            Ftl::Logdisk => Held::LogDisk,
        };
        let disk = disk.map_err(|error| not_found(image, &[asked], error))?;
        Ok(Opened { disk, made })
    }
}
