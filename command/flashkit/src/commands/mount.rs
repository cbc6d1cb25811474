//! `flashkit mount`

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use flashkit_fuse::{EndedBy, MountOptions, Outcome as Ended};
use flashkit_sim::DEFAULT_PRESET;
use flashkit_vfs::{Counters, Measured};
use flashkit_workload::record::{PAUSE, Recorded, Recorder};

use crate::Outcome;
use crate::failure::{FAILED, Usage, complain};
use crate::last_mount;
use crate::output::{Output, check_fresh};
use crate::text;
use crate::values;
use crate::volume::{self, Access, Birth, KeyOption, Tuning};

const IMAGE_DEFAULT: &str = "flash.img";
pub const POINT_DEFAULT: &str = "flash";

/// Mount an image and serve it until it is unmounted (`flashkit umount`, Ctrl-C or SIGTERM).
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  flashkit mount                     flash.img (made if absent) on flash/\n  \
    flashkit mount --daemon -o ro,allow_other flash.img /mnt && flashkit umount /mnt\n\n\
    What fsync(2) has answered for is on the host's disk; so is all else some seconds later (-o commit=S). sync(2) and\n\
    syncfs(2) do not reach a FUSE mount, and umount(8) does not wait: `flashkit sync`, `flashkit umount`. With -o\n\
    nobarrier nothing waits for the host's disk before the unmount; if the host crashes, the image may be lost.\n\n\
    As /sbin/mount.flashkit (ln -s $(which flashkit) /sbin/mount.flashkit) it serves mount(8) and fstab:\n  \
    /srv/flash.img  /mnt  flashkit  noatime,nofail  0 0"
)]
pub struct Args {
    #[command(flatten)]
    encryption: KeyOption,
    /// Image file, or MTD device; without one flash.img, which is made if absent
    image: Option<PathBuf>,
    /// Where to mount: a directory, made if absent [default: flash]
    mountpoint: Option<PathBuf>,
    #[arg(short = 'o', value_name = "OPTIONS", long_help = options_help(),
          help = "Mount options with commas between, like ro,commit=30; --help lists them")]
    options: Vec<String>,
    /// Go to the background once the mount is ready
    #[arg(long)]
    daemon: bool,
    /// Stay in the foreground (the default)
    #[arg(short = 'f', conflicts_with = "daemon")]
    foreground: bool,
    /// Write what is asked of the file system as a trace for `flashkit replay`, with its pauses;
    /// compressed if the name ends in .gz
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    tuning: Tuning,
    /// This is the background process; scripts find it by that
    #[arg(long, hide = true)]
    in_background: bool,
}

/// What mount(8) asks of a helper:
/// `mount.flashkit SOURCE DIRECTORY [-sfnv] [-t TYPE] [-o OPTIONS]`.
#[derive(clap::Parser)]
#[command(name = "mount.flashkit", about = "Mount an image, for mount(8)")]
pub struct Helper {
    /// Image file
    source: PathBuf,
    /// Where to mount
    directory: PathBuf,
    /// Mount options
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Unknown mount options are no error
    #[arg(short = 's')]
    sloppy: bool,
    /// Do everything but mount
    #[arg(short = 'f')]
    fake: bool,
    /// Accepted: there is no mtab to write
    #[arg(short = 'n')]
    no_mtab: bool,
    /// Say what is done
    #[arg(short = 'v')]
    verbose: bool,
    /// The type, `flashkit` or `flashkit.NAME`
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
}

/// Mounts as the helper of mount(8).
pub fn help_mount(helper: &Helper, out: &mut dyn Write) -> Outcome {
    let mut options = Vec::new();
    for option in helper.options.iter().flat_map(|list| list.split(',')) {
        match MountOptions::default().set(option) {
            Err(_) if helper.sloppy => {}
            Err(why) => return Err(Usage(why).into()),
            Ok(()) => options.push(option),
        }
    }
    let args = Args {
        image: Some(helper.source.clone()),
        mountpoint: Some(helper.directory.clone()),
        options: vec![options.join(",")],
        daemon: true,
        foreground: false,
        record: None,
        encryption: KeyOption::default(),
        tuning: Tuning::from(None),
        in_background: false,
    };
    // mount(8) makes no directories.
    flashkit_fuse::check(&helper.directory)?;
    if helper.fake {
        volume::open(&helper.source, Access::ReadOnly, args.tuning)?;
        return Ok(ExitCode::SUCCESS);
    }
    if helper.verbose {
        run(&args, out)
    } else {
        run(&args, &mut io::sink())
    }
}

pub fn run(args: &Args, out: &mut dyn Write) -> Outcome {
    args.encryption.take()?;
    let image = args.image.clone().unwrap_or_else(|| IMAGE_DEFAULT.into());
    let point = args
        .mountpoint
        .clone()
        .unwrap_or_else(|| POINT_DEFAULT.into());
    let mut options = MountOptions {
        fs_name: image.display().to_string(),
        subtype: volume::name_of(&image).as_str().into(),
        ..MountOptions::default()
    };
    for list in &args.options {
        options.set(list).map_err(Usage)?;
    }
    if args.daemon {
        return start_in_background(args, out);
    }
    if args.in_background {
        // Out of reach of the terminal's Ctrl-C and hangup.
        nix::unistd::setsid().context("setsid")?;
        options.log.syslog = true;
    }
    let made = make_directory(&point)?;
    let served = serve(args, &image, &point, options, out);
    if made && served.is_err() {
        let _ = std::fs::remove_dir(&point);
    }
    served
}

/// Makes a mount point; whether it is new.
pub(super) fn make_directory(point: &Path) -> anyhow::Result<bool> {
    match std::fs::create_dir(point) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).with_context(|| text::path(point)),
    }
}

fn serve(
    args: &Args,
    image: &Path,
    point: &Path,
    mut options: MountOptions,
    out: &mut dyn Write,
) -> Outcome {
    // Before the image is opened: a bad mount point leaves it alone.
    flashkit_fuse::check(point)?;
    if args.image.is_none() && !image.exists() {
        let chip = values::chip(DEFAULT_PRESET).map_err(|why| anyhow!(why))?;
        let new = Output::image(image)?;
        volume::mkfs(&new, chip, args.tuning.ram, Birth::here(), None)?;
        new.finish()?;
        writeln!(out, "{}: made, on a new {}", text::path(image), chip.name)?;
    }
    let access = if options.read_only {
        Access::ReadOnly
    } else {
        Access::ReadWrite
    };
    // A machine that has FUSE has the memory.
    let tuning = Tuning {
        roomy: true,
        no_barrier: !options.barrier,
        ..args.tuning
    };
    let volume = volume::open(image, access, tuning)?;
    // It is locked: what the mount before had to say is over.
    options.log.file = last_mount::begin(image);
    let mounted = volume.mount_cost;
    let shown = point.canonicalize().unwrap_or_else(|_| point.to_owned());
    let mut said = Ok(());
    let ready = || {
        said = writeln!(
            out,
            "{} is mounted on {}; Ctrl-C or `flashkit umount {}` unmounts it",
            text::path(image),
            text::path(point),
            text::shell(&shown)
        )
        .and_then(|()| out.flush());
    };
    // The trace is made before anything is mounted over the place where it is to be.
    let (fs, recorded) = match &args.record {
        Some(to) => record(volume.into_fs(), to)?,
        None => (volume.into_fs(), None),
    };
    // A trace has what programs ask for.
    options.writeback &= args.record.is_none();
    let ended = flashkit_fuse::mount(fs, point, &options, ready)?;
    // The mount is over in good order whether anybody reads this or not.
    let _ = said.and_then(|()| tell_cost(&ended, mounted, out));
    let concluded = conclude(ended, point);
    if let Err(error) = &concluded {
        options.log.note(&format!("{error:#}"));
    }
    if let (Some(recorded), Some(to)) = (recorded, &args.record)
        && let Err(error) = tell_recorded(&recorded, to, out)
    {
        // A full disk may be the end of both.
        if concluded.is_ok() {
            return Err(error);
        }
        complain(&format!("{error:#}"));
    }
    concluded
}

/// All mount options, broken at words. The lines are long: a help is to stay below 50 of them.
fn options_help() -> String {
    const WIDTH: usize = 150;
    let said = format!(
        "Mount options, with commas between: {}",
        MountOptions::KNOWN
    );
    let mut lines = vec![String::new()];
    for word in said.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < WIDTH => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

type Fs = Box<dyn Measured + Send>;

/// A file system whose operations are recorded.
fn record(fs: Fs, to: &Path) -> anyhow::Result<(Fs, Option<Arc<Mutex<Recorded>>>)> {
    check_fresh(to).with_context(|| text::path(to))?;
    let recorder = Recorder::new(fs, to, Some(PAUSE)).with_context(|| text::path(to))?;
    let recorded = recorder.recorded();
    Ok((Box::new(recorder), Some(recorded)))
}

/// Says what was recorded; a trace that is not complete is a failure.
fn tell_recorded(recorded: &Mutex<Recorded>, to: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let recorded = recorded
        .lock()
        .map_err(|_| anyhow!("the file system panicked"))?;
    let lines = text::plural(recorded.operations, "operation");
    if let Some(why) = &recorded.failed {
        bail!("{}: {why}; the trace ends after {lines}", text::path(to));
    }
    let left_out = recorded.left_out.iter();
    let left_out: Vec<String> = left_out
        .map(|(what, n)| format!("{} {what}", text::count(*n)))
        .collect();
    let rest = match left_out.is_empty() {
        true => String::new(),
        false => format!("; left out: {}", left_out.join(", ")),
    };
    let _ =
        writeln!(out, "recorded: {lines} in {}{rest}", text::path(to)).and_then(|()| out.flush());
    Ok(())
}

fn tell_cost(ended: &Ended, mounted: Counters, out: &mut dyn Write) -> io::Result<()> {
    if let Some(fs) = &ended.fs {
        writeln!(out, "mounting: {}", text::cost(mounted))?;
        writeln!(out, "session:  {}", text::cost(fs.cost() - mounted))?;
        out.flush()?;
    }
    Ok(())
}

/// What a mount's end means for the command.
pub(super) fn conclude(ended: Ended, point: &Path) -> Outcome {
    if ended.was_busy {
        complain(&format!(
            "{}: files were still open; their programs get I/O errors now",
            text::path(point)
        ));
    }
    ended.unmounted.context("unmount")?;
    match ended.ended_by {
        // They have been told of.
        EndedBy::Unmount | EndedBy::Signal(_) if ended.met_errors => Ok(ExitCode::from(FAILED)),
        EndedBy::Unmount | EndedBy::Signal(_) => Ok(ExitCode::SUCCESS),
        EndedBy::Failure(why) => bail!("{}: {why}", text::path(point)),
    }
}

/// Runs this command again without `--daemon`, waits until that is ready or has failed, and says
/// what it says.
fn start_in_background(args: &Args, out: &mut dyn Write) -> Outcome {
    let mut command = Command::new(std::env::current_exe().context("this program")?);
    command
        .arg("mount")
        .arg("--in-background")
        .args(args.tuning.ram.map(|bytes| format!("--ram={bytes}")));
    if let Some(value) = args.tuning.cleaner.and_then(|c| c.to_possible_value()) {
        command.arg("--cleaner").arg(value.get_name());
    }
    if let Some(file) = args.encryption.file() {
        command.arg("--key-file").arg(file);
    }
    for list in &args.options {
        command.arg("-o").arg(list);
    }
    if let Some(to) = &args.record {
        command.arg("--record").arg(to);
    }
    command.arg("--").args(&args.image).args(&args.mountpoint);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("background process")?;
    let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        bail!("background process: no pipes");
    };
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        if line.contains(" is mounted on ") {
            writeln!(out, "{}", line.replace("Ctrl-C or ", ""))?;
            return Ok(ExitCode::SUCCESS);
        }
        writeln!(out, "{line}")?;
    }
    let mut complaint = String::new();
    stderr.read_to_string(&mut complaint)?;
    let _ = io::stderr().write_all(complaint.as_bytes());
    let code = child
        .wait()?
        .code()
        .and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(
        code.filter(|code| *code != 0).unwrap_or(FAILED),
    ))
}
