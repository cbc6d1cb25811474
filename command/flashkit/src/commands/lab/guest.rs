//! `flashkit lab guest`

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::NonEmptyStringValueParser;
use flashkit_guest::{Error, Image, Job};

use crate::Outcome;
use crate::failure::{FAILED, complain};
use crate::place::check_dir;
use crate::values;

/// MiB of a guest that holds `slc-256m` and what file systems keep in RAM.
pub const MEMORY: u32 = 768;

/// A Linux guest with a simulated NAND chip: its packages, and commands in it.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Fetch kernel and tools from Debian's archive into the user's cache folder
    Fetch {
        #[command(flatten)]
        folder: ImageFolder,
    },
    /// Run a shell command in a guest; flashkit, busybox, UBI's tools and the modules are there
    #[command(
        after_help = "Example:\n  flashkit lab guest run 'modprobe nandsim id_bytes=0x98,0xaa,0x00,0x15; cat /proc/mtd'"
    )]
    Run {
        /// Command
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        command: String,
        /// Folder, one that is there, that the command starts in and that stays [default: a
        /// temporary one]
        #[arg(long, value_name = "FOLDER")]
        share: Option<PathBuf>,
        /// Seconds until the guest is stopped
        #[arg(long, value_name = "SECONDS", default_value = "300",
              value_parser = values::number::<u64>("a number of seconds", 1, u64::MAX))]
        limit: u64,
        /// RAM of the guest, in MiB, from 128, beside what its root file system takes
        #[arg(long, value_name = "MIB", default_value_t = MEMORY,
              value_parser = values::number::<u32>("a number of MiB", 128, 1 << 20))]
        memory: u32,
        /// Let the guest's time go by instructions, and skip it while there is nothing to do
        #[arg(long, conflicts_with = "kvm")]
        skip_idle: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Where the packages are.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ImageFolder {
    /// Folder of the guest's packages, fetched if absent [default: flashkit/guest
    /// in the user's cache folder]
    #[arg(long, value_name = "FOLDER")]
    image: Option<PathBuf>,
}

/// Where the packages are, and how QEMU runs them.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Place {
    #[command(flatten)]
    pub folder: ImageFolder,
    /// Run the guest with KVM
    #[arg(long)]
    pub kvm: bool,
}

impl ImageFolder {
    pub fn is_given(&self) -> bool {
        self.image.is_some()
    }

    /// The image; what is fetched for it is told on stderr.
    pub fn image(&self) -> anyhow::Result<Image> {
        // Without QEMU there is no use in fetching anything.
        flashkit_guest::qemu_version()?;
        let folder = self.image.clone().or_else(Image::default_folder);
        let folder = folder.context("no cache folder is known; name one with --image")?;
        Ok(Image::get(&folder, &mut |line| {
            // Nobody may be listening.
            let _ = writeln!(std::io::stderr(), "{line}");
        })?)
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    match &args.what {
        What::Fetch { folder } => {
            let image = folder.image()?;
            writeln!(out, "kernel {}", image.kernel)?;
            for (name, version) in &image.packages {
                writeln!(out, "{name} {version}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        What::Run {
            command,
            share,
            limit,
            memory,
            skip_idle,
            place,
        } => {
            share.as_deref().map_or(Ok(()), check_dir)?;
            let image = place.folder.image()?;
            // Nobody else can know its name or look into it.
            let temporary = tempfile::tempdir().context("a temporary folder")?;
            let folder = share.as_deref().unwrap_or(temporary.path());
            let job = Job {
                script: command.clone(),
                folder: folder.to_owned(),
                program: Some(("flashkit", this_program()?)),
                memory: *memory,
                limit: *limit,
                kvm: place.kvm,
                skip_idle: *skip_idle,
            };
            show(&job, &image, out)
        }
    }
}

/// Runs a job and shows what it said.
fn show(job: &Job, image: &Image, out: &mut dyn Write) -> Outcome {
    let done = job.run(image, &mut || {});
    // However it ended, if it began: the folder may have files of an earlier one.
    if matches!(
        done,
        Ok(_) | Err(Error::Failed(..) | Error::TimedOut { .. } | Error::Died(_))
    ) {
        let said = |name: &str| std::fs::read(job.folder.join(name)).unwrap_or_default();
        out.write_all(&said("stdout"))?;
        out.flush()?;
        std::io::stderr().write_all(&said("stderr"))?;
    }
    if let Err(Error::Failed(status, _)) = done {
        complain(&format!("the command ended with status {status}"));
        return Ok(ExitCode::from(FAILED));
    }
    done?;
    Ok(ExitCode::SUCCESS)
}

/// The file that this program runs from.
pub fn this_program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("the program's own file")
}
