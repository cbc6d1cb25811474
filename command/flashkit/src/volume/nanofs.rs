//! Nano-FS on the raw image of a card.

use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, bail};
use flashkit_nanofs::{Error, FORMAT_VERSION, NanoFs};
use flashkit_sim::{CardFile, MeteredCard};
use flashkit_vfs::nanofs::NanoFsFs;
use flashkit_vfs::nanofs::check::{Checked, check, key};
use flashkit_vfs::{Counters, FileSystem, Measured};
use serde_json::{Map, Value, json};

use crate::failure::{Usage, complain};
use crate::text;

use super::{Access, Adapter, Finding, Fsck, Recovery, Repair, Tuning, patiently};

/// What is on the card is called.
pub const CARD: &str = "card";

/// The file system on a file.
type Fs = NanoFsFs<CardFile>;

/// What a volume is made for.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    /// Bytes of the card.
    pub size: u64,
    /// Files at most.
    pub files: u32,
    /// Key that a mount must give.
    pub key: u32,
}

fn owner() -> (u32, u32) {
    (
        nix::unistd::geteuid().as_raw(),
        nix::unistd::getegid().as_raw(),
    )
}

/// Whether an image has a volume. What cannot be looked at because it is in use is taken for one:
/// whoever opens it says so.
pub fn is_volume(image: &Path) -> bool {
    match patiently(|| CardFile::open(image, true)) {
        Ok(card) => key(&mut |block| card.block(block)).is_some(),
        Err(e) => e.kind() == ErrorKind::WouldBlock,
    }
}

/// What the device said, or else the file system.
fn explain(fs: &NanoFs<CardFile, 6>, error: Error) -> anyhow::Error {
    match (error, fs.device_error()) {
        (Error::Device, Some(said)) => anyhow::anyhow!("{said}"),
        _ => error.into(),
    }
}

/// Makes an image; nothing is changed when it does not suit.
pub fn mkfs(image: &Path, card: Card, seed: u32) -> anyhow::Result<Counters> {
    let Card { size, files, key } = card;
    let blocks = u32::try_from(size / 512).ok().filter(|n| *n <= 1 << 23);
    let Some(blocks) = blocks else {
        let why = format!("--size {size}: a volume has 4 GiB at most");
        return Err(Usage(why).into());
    };
    let needed = 3 * files + 5;
    if blocks < needed {
        let least = needed * 512;
        let why = format!("--size {size}: {files} files need at least {least} bytes");
        return Err(Usage(why).into());
    }
    let mut fs = NanoFs::<_, 6>::new(CardFile::create(image, blocks)?);
    fs.format(key, files, seed).map_err(|e| explain(&fs, e))?;
    let cost = NanoFsFs::new(fs, owner(), false)?.cost();
    Ok(cost)
}

/// The key that the volume of a card says it has.
fn key_of(card: &CardFile) -> Result<u32, Error> {
    key(&mut |block| card.block(block)).ok_or(Error::NotFormatted)
}

/// The volume of a card, and how many files are lost, as their headers are damaged. With such it is
/// mounted to look at only: what is written then stays in RAM.
fn mount_volume(card: CardFile, access: Access) -> anyhow::Result<(NanoFs<CardFile, 6>, u32)> {
    let key = key_of(&card)?;
    let mut fs = NanoFs::new(card);
    let lost = match fs.mount(key) {
        Err(error) if !is_damage(error) => Err(error),
        Err(error) if access == Access::ReadWrite => {
            bail!("{error}: to be read only, until `fsck -y` gives up what is lost")
        }
        Err(_) => fs.mount_damaged(key),
        Ok(()) => Ok(0),
    };
    let lost = lost.map_err(|e| explain(&fs, e))?;
    Ok((fs, lost))
}

fn is_damage(error: Error) -> bool {
    matches!(error, Error::BadHeader | Error::BadBitmap)
}

fn mount(card: CardFile, access: Access) -> anyhow::Result<(Fs, u32)> {
    let (fs, lost) = mount_volume(card, access)?;
    let read_only = access == Access::ReadOnly;
    Ok((NanoFsFs::new(fs, owner(), read_only)?, lost))
}

fn files_lost(lost: u32) -> String {
    match lost {
        1 => "a file is lost: its header is damaged".into(),
        n => format!("{n} files are lost: their headers are damaged"),
    }
}

pub fn open(
    image: &Path,
    access: Access,
    tuning: Tuning,
) -> anyhow::Result<(Box<dyn Adapter>, String)> {
    let mut card = patiently(|| CardFile::open(image, access == Access::ReadOnly))?;
    card.set_barrier(!tuning.no_barrier);
    let (fs, lost) = mount(card, access)?;
    if lost > 0 {
        complain(&format!("{}: {}", text::path(image), files_lost(lost)));
    }
    Ok((Box::new(fs), CARD.to_owned()))
}

impl Adapter for Fs {
    fn remount(self: Box<Self>, _: Tuning) -> anyhow::Result<Box<dyn Adapter>> {
        Ok(Box::new(
            mount(self.into_volume().into_device(), Access::ReadWrite)?.0,
        ))
    }

    fn power_is_off(&mut self) -> bool {
        false
    }
}

/// Whether mounting has written anything: recovery does.
fn was_recovered(fs: &Fs) -> bool {
    fs.cost().page_programs > 0
}

fn checked(fs: &NanoFs<CardFile, 6>) -> Result<Checked, String> {
    let card = fs.device_ref();
    check(&mut |block| card.block(block))
}

/// What is wrong with a volume of which so many files are lost.
fn findings(seen: &Checked, lost: u32) -> Vec<Finding> {
    // A block that is in use and nobody's was a lost file's.
    let theirs = |block: Option<u32>| {
        let suits = |block| {
            // They are in the order of their blocks, and may be very many.
            let at = seen.wrong.binary_search_by_key(&block, |wrong| wrong.0);
            at.map(|at| seen.wrong[at].1)
        };
        lost > 0 && block.is_some_and(|block| suits(block) == Ok(2))
    };
    let of_files = (lost > 0).then(|| Finding {
        place: "volume".into(),
        what: files_lost(lost),
    });
    let found = seen.findings.iter().filter(|f| !theirs(f.block));
    let found = found.map(|f| Finding {
        place: match f.block {
            Some(block) => format!("block {block}"),
            None => "volume".into(),
        },
        what: f.what.clone(),
    });
    of_files.into_iter().chain(found).collect()
}

/// Gives up the files whose headers are damaged, and makes the bitmap and block 0 as the others
/// ask for. What is still wrong.
fn mend(image: &Path) -> anyhow::Result<Checked> {
    let card = patiently(|| CardFile::open(image, false))?;
    let key = key_of(&card)?;
    let mut fs = NanoFs::<_, 6>::new(card);
    fs.mount_damaged(key).map_err(|e| explain(&fs, e))?;
    let wrong = checked(&fs).map_err(anyhow::Error::msg)?.wrong;
    fs.mend(&wrong).map_err(|e| explain(&fs, e))?;
    checked(&fs).map_err(anyhow::Error::msg)
}

pub fn fsck(image: &Path, repair: Repair) -> anyhow::Result<Fsck> {
    let open = |read_only| patiently(|| CardFile::open(image, read_only));
    let (mut fs, lost) = match mount(open(true)?, Access::ReadOnly) {
        Ok(mounted) => mounted,
        Err(error) => return Ok(Fsck::unmountable(format!("{error:#}"))),
    };
    let mut recovery = Recovery::NotNeeded;
    if lost == 0 && was_recovered(&fs) {
        recovery = Recovery::Simulated;
        if repair != Repair::Nothing {
            drop(fs);
            fs = mount(open(false)?, Access::ReadWrite)?.0;
            fs.unmount().context("unmount")?;
            recovery = Recovery::Done;
        }
    }
    let mut seen = match checked(fs.volume()) {
        Ok(seen) => seen,
        Err(why) => return Ok(Fsck::unmountable(why)),
    };
    drop(fs);
    let mut left = findings(&seen, lost);
    let mut repaired = Vec::new();
    if repair == Repair::All && !left.is_empty() {
        seen = mend(image)?;
        let before = std::mem::replace(&mut left, findings(&seen, 0));
        let stays = |f: &Finding| {
            left.iter()
                .any(|l| (&l.place, &l.what) == (&f.place, &f.what))
        };
        repaired.extend(before.into_iter().filter(|f| !stays(f)));
    }
    let nodes = seen.files.iter().map(|f| u64::from(f.nodes)).sum();
    Ok(Fsck {
        mountable: true,
        recovery,
        repaired,
        findings: left,
        checked: vec![
            ("file", "files", seen.files.len() as u64),
            ("node", "nodes", nodes),
            ("block of data", "blocks of data", seen.data_blocks.into()),
        ],
    })
}

pub fn info(image: &Path) -> anyhow::Result<Map<String, Value>> {
    let card = patiently(|| CardFile::open(image, true))?;
    let (volume, lost) = mount_volume(card, Access::ReadOnly)?;
    let mounting = volume.device_ref().counters();
    let mut fs = NanoFsFs::new(volume, owner(), true)?;
    let seen = checked(fs.volume()).map_err(anyhow::Error::msg)?;
    let [free, used, dirty, reserved] = seen.states;
    let files = &seen.files;
    let told = json!({
        "card": { "blocks": flashkit_block::BlockDevice::sector_count(fs.volume().device_ref()),
            "block_size": 512 },
        "volume": {
            "file_system": "nanofs",
            "format_version": FORMAT_VERSION,
            "key": format!("{:#010x}", seen.key),
            "blocks": seen.blocks,
            "clean": mounting.writes == 0,
        },
        "files": {
            "at_most": seen.files_max,
            "now": files.len(),
            "lost": lost,
            "bytes": files.iter().map(|f| f.size).sum::<u64>(),
            "nodes": files.iter().map(|f| f.nodes).sum::<u32>(),
            "runs": files.iter().map(|f| f.runs).sum::<u32>(),
            "overwritten_nodes": files.iter().map(|f| f.copies).sum::<u32>(),
        },
        "data_blocks": {
            "all": seen.data_blocks,
            "free": free,
            "used": used,
            "dirty": dirty,
            "reserved": reserved,
            "trash": seen.trash,
        },
        "ram": { "bytes": fs.ram_bytes() },
        "mount": { "block_reads": mounting.blocks_read },
    });
    match told {
        Value::Object(told) => Ok(told),
        _ => bail!("no figures"),
    }
}
