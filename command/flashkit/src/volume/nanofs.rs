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

use crate::failure::Usage;

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

fn mount_volume(card: CardFile) -> anyhow::Result<NanoFs<CardFile, 6>> {
    let Some(key) = key(&mut |block| card.block(block)) else {
        bail!(Error::NotFormatted);
    };
    let mut fs = NanoFs::new(card);
    fs.mount(key).map_err(|e| explain(&fs, e))?;
    Ok(fs)
}

fn mount(card: CardFile, read_only: bool) -> anyhow::Result<Fs> {
    Ok(NanoFsFs::new(mount_volume(card)?, owner(), read_only)?)
}

pub fn open(
    image: &Path,
    access: Access,
    tuning: Tuning,
) -> anyhow::Result<(Box<dyn Adapter>, String)> {
    let read_only = access == Access::ReadOnly;
    let mut card = patiently(|| CardFile::open(image, read_only))?;
    card.set_barrier(!tuning.no_barrier);
    Ok((Box::new(mount(card, read_only)?), CARD.to_owned()))
}

impl Adapter for Fs {
    fn remount(self: Box<Self>, _: Tuning) -> anyhow::Result<Box<dyn Adapter>> {
        Ok(Box::new(mount(self.into_volume().into_device(), false)?))
    }

    fn power_is_off(&mut self) -> bool {
        false
    }
}

/// Whether mounting has written anything: recovery does.
fn was_recovered(fs: &Fs) -> bool {
    fs.cost().page_programs > 0
}

fn checked(fs: &mut Fs) -> Result<Checked, String> {
    let card = fs.volume().device_ref();
    check(&mut |block| card.block(block))
}

pub fn fsck(image: &Path, repair: Repair) -> anyhow::Result<Fsck> {
    let open = |read_only| patiently(|| CardFile::open(image, read_only));
    let mut fs = match mount(open(true)?, true) {
        Ok(fs) => fs,
        Err(error) => return Ok(Fsck::unmountable(format!("{error:#}"))),
    };
    let mut recovery = Recovery::NotNeeded;
    if was_recovered(&fs) {
        recovery = Recovery::Simulated;
        // There is no other repair.
        if repair != Repair::Nothing {
            drop(fs);
            fs = mount(open(false)?, false)?;
            fs.unmount().context("unmount")?;
            recovery = Recovery::Done;
        }
    }
    let seen = match checked(&mut fs) {
        Ok(seen) => seen,
        Err(why) => return Ok(Fsck::unmountable(why)),
    };
    let place = |block: Option<u32>| match block {
        Some(block) => format!("block {block}"),
        None => "volume".into(),
    };
    let nodes = seen.files.iter().map(|f| u64::from(f.nodes)).sum();
    Ok(Fsck {
        mountable: true,
        recovery,
        repaired: Vec::new(),
        findings: seen
            .findings
            .iter()
            .map(|f| Finding {
                place: place(f.block),
                what: f.what.clone(),
            })
            .collect(),
        checked: vec![
            ("file", "files", seen.files.len() as u64),
            ("node", "nodes", nodes),
            ("block of data", "blocks of data", seen.data_blocks.into()),
        ],
    })
}

pub fn info(image: &Path) -> anyhow::Result<Map<String, Value>> {
    let card = patiently(|| CardFile::open(image, true))?;
    let volume = mount_volume(card)?;
    let mounting = volume.device_ref().counters();
    let mut fs = NanoFsFs::new(volume, owner(), true)?;
    let seen = checked(&mut fs).map_err(anyhow::Error::msg)?;
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
