//! File systems on simulated chips: the one part of the command that knows which there are.
//!
//! Everything else works on a [`Volume`]: a mounted [`FileSystem`](flashkit_vfs::FileSystem), and
//! what is known of the chip under it.

mod flashlight;
mod key;
mod medium;
mod nanofs;
mod raw;

pub use flashlight::drawn_number;
pub use key::{KeyOption, NoVolume, hinted, refuse as refuse_key};
pub use medium::{Medium, MediumError};
pub use nanofs::{Card, is_volume as is_nanofs};
pub use raw::Exported;

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context, bail};
use clap::ValueEnum;
use flashkit_mtd::MtdError;
use flashkit_sim::{ImageError, Preset, SimNand};
use flashkit_vfs::{Counters, Measured, Time};
use serde_json::{Map, Value};

use crate::held::{Held, not_found};
use crate::output::Output;
use crate::{text, values};

/// RAM handed to a file system where nothing else is asked for, in bytes, if the chip needs no
/// more.
pub const RAM_DEFAULT: usize = 16_384;

/// How long one call waits for what is in use, and between two looks.
const RELEASE_PATIENCE: Duration = Duration::from_millis(500);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);
/// When it began to wait. An image is opened several times, to see what it is of.
static WAITING: OnceLock<Instant> = OnceLock::new();

/// The file systems there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FsName {
    // No doc comment: clap would print each value on lines of its own.
    Flashlight,
    Nanofs,
}

impl FsName {
    /// As `--fs` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            FsName::Flashlight => "flashlight",
            FsName::Nanofs => "nanofs",
        }
    }
}

/// When a file system cleans.
// No doc comments: clap would print each value on lines of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cleaner {
    // As soon as the dirty list is longer than a threshold.
    Paper,
    // When free blocks run low.
    Space,
}

/// Choices of a mount.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct Tuning {
    /// RAM of the file system, in bytes, up to 4GiB; with 64KiB FlashLight reads less and wears
    /// more evenly [default: 16384, or what the chip needs if that is more; of a mount: what is of
    /// use]
    #[arg(long, value_name = "BYTES", value_parser = values::memory)]
    pub ram: Option<usize>,
    /// Where no RAM is asked for, FlashLight gets all that is of use.
    #[arg(skip)]
    pub roomy: bool,
    /// Nothing waits for the disk below an image before the end.
    #[arg(skip)]
    pub no_barrier: bool,
    /// When to clean: `paper`, over a threshold of the dirty list, or `space`, when free blocks run
    /// low [default: space]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub cleaner: Option<Cleaner>,
}

impl Tuning {
    /// Of what can be made anew: the image of a simulation, or one that is not complete yet.
    pub fn without_barrier(ram: Option<usize>) -> Tuning {
        Tuning {
            ram,
            no_barrier: true,
            ..Tuning::default()
        }
    }
}

impl From<Option<usize>> for Tuning {
    fn from(ram: Option<usize>) -> Tuning {
        Tuning {
            ram,
            ..Tuning::default()
        }
    }
}

/// How to open an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Changes reach the image.
    ReadWrite,
    /// The image file stays as it is, recovery included.
    ReadOnly,
}

impl From<Access> for flashkit_sim::Access {
    fn from(access: Access) -> Self {
        match access {
            Access::ReadWrite => flashkit_sim::Access::ReadWrite,
            Access::ReadOnly => flashkit_sim::Access::ReadOnlyCow,
        }
    }
}

/// When to cut the power.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Programs and erases that still complete; the next is torn.
    pub after: u64,
    /// Seed of the tear.
    pub seed: u64,
}

/// A file system mounted over a chip of its own.
trait Adapter: Measured + Send {
    /// Mounts the chip again, after an unmount or a power cut. What it costs counts from 0.
    fn remount(self: Box<Self>, tuning: Tuning) -> anyhow::Result<Box<dyn Adapter>>;

    /// Whether the [`Cut`] has happened.
    fn power_is_off(&mut self) -> bool;
}

/// A mounted file system.
pub struct Volume {
    fs: Box<dyn Adapter>,
    /// Which file system.
    pub fs_name: FsName,
    /// Which chip, by name.
    pub chip: String,
    /// What mounting cost.
    pub mount_cost: Counters,
    tuning: Tuning,
}

impl Volume {
    fn new(fs: Box<dyn Adapter>, fs_name: FsName, chip: String, tuning: Tuning) -> Volume {
        Volume {
            tuning,
            mount_cost: fs.cost(),
            fs,
            fs_name,
            chip,
        }
    }

    /// The file system.
    pub fn fs(&mut self) -> &mut dyn Measured {
        &mut *self.fs
    }

    /// The file system alone, to hand it on.
    pub fn into_fs(self) -> Box<dyn Measured + Send> {
        self.fs
    }

    /// What the chip has been asked to do since it was opened, mounting included.
    pub fn cost(&self) -> Counters {
        self.fs.cost()
    }

    /// RAM of the file system proper.
    pub fn ram_bytes(&self) -> usize {
        self.fs.ram_bytes()
    }

    /// Unmounts cleanly; gives the whole cost since opening.
    pub fn unmount(mut self) -> anyhow::Result<Counters> {
        self.fs.unmount().context("unmount")?;
        Ok(self.fs.cost())
    }

    /// Mounts the same chip again; the file system must have been unmounted, or the power cut.
    pub fn remount(self) -> anyhow::Result<Volume> {
        let fs = self.fs.remount(self.tuning).context("mount again")?;
        Ok(Volume::new(fs, self.fs_name, self.chip, self.tuning))
    }

    /// Whether the cut of [`open_with_cut`] has happened. All operations fail from then on.
    pub fn power_is_off(&mut self) -> bool {
        self.fs.power_is_off()
    }
}

/// Makes an image of an erased chip, formats it and leaves it unmounted. Gives the cost.
///
/// # Errors
/// A chip that does not suit and RAM that is too small are found before anything is written.
pub fn mkfs(
    image: &Output,
    chip: &Preset,
    ram: Option<usize>,
    birth: Birth,
    sent: Option<Sent>,
) -> anyhow::Result<Counters> {
    let ram = flashlight::check_fit(chip, ram, sent)?;
    flashlight::mkfs(image.path(), chip, ram, birth, sent).with_context(|| image.shown())
}

/// A volume that a programmer will write to chips, each with its own bad blocks.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// How many may be bad.
    pub slack: u32,
    /// Whether it uses spare bytes.
    pub spare: bool,
}

/// The least RAM that FlashLight takes on a chip.
pub fn ram_least(chip: &Preset) -> usize {
    flashlight::ram_least(chip)
}

/// What a new volume is told of its making.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    /// Keys the name hashes and says where on the chip writing begins.
    pub number: u32,
    /// Times, owner and group of the root directory.
    pub now: Time,
    pub owner: (u32, u32),
}

impl Birth {
    /// Here and now, with a number that no earlier volume had.
    pub fn here() -> Birth {
        Birth {
            number: flashlight::drawn_number(),
            // Whoever makes it may write into it.
            owner: (
                nix::unistd::geteuid().as_raw(),
                nix::unistd::getegid().as_raw(),
            ),
            now: Time::now(),
        }
    }

    /// Of a volume that is laid out in the same way every time.
    pub fn reproducible() -> Birth {
        Birth {
            number: flashlight::FIXED_NUMBER,
            ..Birth::here()
        }
    }
}

/// Makes a volume on an MTD device, whatever is there. Gives the chip's name, its size, and the
/// cost.
///
/// # Errors
/// RAM that is too small is found before anything is written.
pub fn mkfs_device(
    device: &Path,
    ram: Option<usize>,
    birth: Birth,
) -> anyhow::Result<(String, u64, Counters)> {
    flashlight::mkfs_device(device, ram, birth).with_context(|| text::path(device))
}

/// Makes a raw image of a card with an empty Nano-FS volume. Gives the cost.
///
/// # Errors
/// What does not suit is found before anything is written.
pub fn mkfs_card(image: &Output, card: Card, birth: Birth) -> anyhow::Result<Counters> {
    nanofs::mkfs(image.path(), card, birth.number).with_context(|| image.shown())
}

/// Mounts the file system in an image.
pub fn open(image: &Path, access: Access, tuning: impl Into<Tuning>) -> anyhow::Result<Volume> {
    open_image(image, access, tuning.into(), None).map_err(|error| no_volume(image, error))
}

/// Mounts the file system in an image that is being made.
pub fn open_new(image: &Output, ram: Option<usize>) -> anyhow::Result<Volume> {
    let tuning = Tuning::without_barrier(ram);
    let opened = open_image(image.path(), Access::ReadWrite, tuning, None);
    opened.with_context(|| image.shown())
}

/// The same over a chip that will lose power.
pub fn open_with_cut(image: &Output, ram: Option<usize>, cut: Cut) -> anyhow::Result<Volume> {
    let tuning = Tuning::without_barrier(ram);
    let opened = open_image(image.path(), Access::ReadWrite, tuning, Some(cut));
    opened.with_context(|| image.shown())
}

fn open_image(
    image: &Path,
    access: Access,
    tuning: Tuning,
    cut: Option<Cut>,
) -> anyhow::Result<Volume> {
    let name = readable(image)?;
    let (fs, chip) = match name {
        FsName::Flashlight => flashlight::open(image, access, tuning, cut)?,
        FsName::Nanofs => nanofs::open(image, access, tuning)?,
    };
    Ok(Volume::new(fs, name, chip, tuning))
}

/// Why there is no volume in an image.
fn no_volume(image: &Path, error: anyhow::Error) -> anyhow::Error {
    not_found(image, &[Held::FlashLight, Held::NanoFs], error)
}

/// A formatted and mounted chip in RAM, the same every time. Its cost starts at 0 once it is
/// mounted; only the erase counts tell of formatting.
pub fn in_ram(chip: &Preset, tuning: Tuning) -> anyhow::Result<Volume> {
    let adapter = flashlight::in_ram(chip, tuning)?;
    let name = chip.name.into();
    Ok(Volume::new(adapter, FsName::Flashlight, name, tuning))
}

/// Something wrong that `fsck` found.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Where: a page, an inode, the volume.
    pub place: String,
    /// What is wrong there.
    pub what: String,
}

/// What an unclean stop has asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Nothing: the volume was unmounted.
    NotNeeded,
    /// In RAM; the image needs it still.
    Simulated,
    /// On the image, which is unmounted cleanly now.
    Done,
}

/// What `fsck` may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nothing.
    Nothing,
    /// It recovers a volume that was not unmounted cleanly.
    Recovery,
    /// And what is damaged.
    All,
}

/// What `fsck` found.
#[derive(Clone, Debug)]
pub struct Fsck {
    /// Whether the volume could be mounted and walked at all.
    pub mountable: bool,
    /// What an unclean stop has asked for.
    pub recovery: Recovery,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// What was wrong.
    pub repaired: Vec<Finding>,
    /// What has been looked at: what one and what several are called, and how
    /// many, in the order to print.
    pub checked: Vec<(&'static str, &'static str, u64)>,
}

impl Fsck {
    /// What has been looked at, in words.
    pub fn looked_at(&self) -> String {
        let told = self.checked.iter().map(|(one, many, n)| {
            let what = if *n == 1 { one } else { many };
            format!("{} {what}", text::count(*n))
        });
        told.collect::<Vec<_>>().join(", ")
    }

    fn unmountable(what: String) -> Fsck {
        let place = "volume".into();
        Fsck {
            mountable: false,
            recovery: Recovery::NotNeeded,
            findings: vec![Finding { place, what }],
            repaired: Vec::new(),
            checked: Vec::new(),
        }
    }
}

/// Walks every structure in an image, after the recovery that an unclean stop asks for. The image
/// is changed as `repair` says.
pub fn fsck(image: &Path, repair: Repair, ram: Option<usize>) -> anyhow::Result<Fsck> {
    let checked = readable(image).and_then(|name| match name {
        FsName::Flashlight => flashlight::fsck(image, repair, ram.into()),
        FsName::Nanofs => nanofs::fsck(image, repair),
    });
    checked.map_err(|error| no_volume(image, error))
}

/// The same for FlashLight in an image that is being made; nothing is repaired.
pub fn fsck_new(image: &Output, ram: Option<usize>) -> anyhow::Result<Fsck> {
    let checked = flashlight::fsck(image.path(), Repair::Nothing, ram.into());
    checked.with_context(|| image.shown())
}

/// What an image is and what state it is in: chip, volume, areas, RAM, wear. Does not change
/// it. Values are numbers, texts, and objects of such.
pub fn info(image: &Path, ram: Option<usize>) -> anyhow::Result<Map<String, Value>> {
    let told = readable(image).and_then(|name| match name {
        FsName::Flashlight => flashlight::info(image, ram.into()),
        FsName::Nanofs => nanofs::info(image),
    });
    told.map_err(|error| no_volume(image, error))
}

/// Hands every on-flash record of an image to `each`, one object with a `kind` and a `page` each,
/// until that fails. Data pages are summed up for each block, or told one by one. Does not change
/// the image.
pub fn dump(
    image: &Path,
    each_data_page: bool,
    each: &mut dyn FnMut(Map<String, Value>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let opened = readable(image).and_then(|name| {
        if name == FsName::Nanofs {
            bail!("a card with nanofs: `info`, `fsck` and `ls` say what is on it");
        }
        flashlight::Dump::open(image, each_data_page)
    });
    // Who takes the records has errors of their own.
    let opened = opened.map_err(|error| no_volume(image, error));
    opened?.run(each)
}

/// Writes a raw image of the chip in an image: see [`raw::export`].
pub fn export(image: &Path, raw: &Output, with_spare: bool) -> anyhow::Result<Exported> {
    let named = || text::path(image);
    if readable(image).with_context(named)? == FsName::Nanofs {
        bail!("{}: a card, whose image is raw already", named());
    }
    if flashkit_mtd::is_device(image) {
        bail!("{}: a device; nanddump reads it", named());
    }
    if key::given().is_some() {
        // Pages are written as they are on the chip: nothing else would look at the key.
        open(image, Access::ReadOnly, None)?;
    }
    raw::export(image, raw, with_spare)
}

/// Makes an image from a raw one: see [`raw::import`].
pub fn import(
    raw: &Path,
    image: &Output,
    chip: &Preset,
    with_spare: bool,
    bad: &[u32],
) -> anyhow::Result<()> {
    raw::import(raw, image, chip, with_spare, bad)
}

/// Which file system is in an image, as far as that can be told.
pub fn name_of(image: &Path) -> FsName {
    readable(image).unwrap_or(FsName::Flashlight)
}

/// What the chip of an image or device holds, a disk of jftl counted as other data; `None`: there
/// is no such chip. Within: `None`: it is erased.
pub fn held_on_nand(path: &Path) -> anyhow::Result<Option<Option<Held>>> {
    let mut chip = match Medium::whole(path, Access::ReadOnly) {
        Ok(chip) => chip,
        Err(error) => {
            return match error.downcast::<ImageError>()? {
                error @ (ImageError::InUse | ImageError::Io(_)) => Err(error.into()),
                _ => Ok(None),
            };
        }
    };
    if chip.is_erased()? {
        return Ok(Some(None));
    }
    drop(chip);
    let is_volume = flashlight::is_volume(path)?;
    Ok(Some(Some(if is_volume {
        Held::FlashLight
    } else {
        Held::NandData
    })))
}

/// Refuses what cannot be an image, before anything else looks at it, and waits for a mount that
/// is just ending: `umount` returns before the image is closed. Says which file system it is of;
/// a damaged image is taken for FlashLight's.
fn readable(image: &Path) -> anyhow::Result<FsName> {
    if fs::metadata(image)?.is_dir() {
        bail!("is a directory, not an image");
    }
    if flashkit_mtd::is_device(image) {
        return Ok(FsName::Flashlight);
    }
    // What is wrong with it is said by whoever opens it.
    if let Err(ImageError::NotAnImage | ImageError::TooShort { .. }) = probe(image)
        && nanofs::is_volume(image)
    {
        key::refuse(FsName::Nanofs.as_str())?;
        return Ok(FsName::Nanofs);
    }
    Ok(FsName::Flashlight)
}

/// Opens an image to see whether that can be done, for some time while it is in use.
fn probe(image: &Path) -> Result<SimNand, ImageError> {
    patiently(|| SimNand::open(image, flashkit_sim::Access::ReadOnlyCow))
}

/// What may be in use.
pub trait Busy {
    /// Whether that is why it could not be opened.
    fn is_busy(&self) -> bool;
}

impl Busy for ImageError {
    fn is_busy(&self) -> bool {
        matches!(self, ImageError::InUse)
    }
}

impl Busy for MtdError {
    fn is_busy(&self) -> bool {
        matches!(self, MtdError::InUse)
    }
}

/// A card.
impl Busy for io::Error {
    fn is_busy(&self) -> bool {
        self.kind() == io::ErrorKind::WouldBlock
    }
}

/// Opens an image or a device, for some time while it is in use: `umount` returns before what was
/// mounted has closed it.
pub fn patiently<T, E: Busy>(mut open: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    loop {
        match open() {
            Err(error)
                if error.is_busy()
                    && WAITING.get_or_init(Instant::now).elapsed() < RELEASE_PATIENCE =>
            {
                std::thread::sleep(RELEASE_PAUSE);
            }
            opened => return opened,
        }
    }
}
