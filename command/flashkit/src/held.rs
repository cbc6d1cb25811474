//! What is on a chip or in a file already, so that nothing is overwritten by mistake: one rule for
//! images and devices, and for all commands.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, anyhow, bail};

use crate::{disk, text, volume};

/// Who would miss it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    FlashLight,
    NanoFs,
    Jftl,
    LogDisk,
    /// Something that is none of these, on a NAND chip: it may be an encrypted volume.
    NandData,
    /// Something that is none of these.
    Data,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Held::FlashLight => "a FlashLight volume",
            Held::NanoFs => "a Nano-FS volume",
            Held::Jftl => "a disk of jftl",
            Held::LogDisk => "a disk of logdisk",
            Held::NandData => "data that is not flashkit's, or an encrypted volume",
            Held::Data => "data that is not flashkit's",
        })
    }
}

/// Refuses to overwrite what holds something, if that is not asked for.
///
/// # Errors
/// It does, it cannot be looked at, or it is in use.
pub fn check_free(path: &Path, force: bool) -> anyhow::Result<()> {
    if force {
        return Ok(());
    }
    match held(path)? {
        Some(what) => bail!("{}: holds {what}; --force overwrites it", text::path(path)),
        None => Ok(()),
    }
}

/// What a file or an MTD device holds; `None`: it is not there, empty, or an erased chip or card.
/// Of a chip that is not erased this costs a mount, in RAM.
pub fn held(path: &Path) -> anyhow::Result<Option<Held>> {
    looked(path).with_context(|| text::path(path))
}

fn looked(path: &Path) -> anyhow::Result<Option<Held>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
        Ok(found) if found.is_dir() => bail!("is a directory"),
        Ok(found) if !found.is_file() && !flashkit_mtd::is_device(path) => {
            bail!("neither a file nor an MTD device")
        }
        Ok(_) => {}
    }
    match on_medium(path)? {
        Some(found) => Ok(found),
        None => Ok(is_anything(path)?.then_some(Held::Data)),
    }
}

/// What a chip or a card holds; `None`: it is neither. Within: `None`: it is erased.
fn on_medium(path: &Path) -> anyhow::Result<Option<Option<Held>>> {
    if let Some(on_nor) = disk::held_on_nor(path)? {
        return Ok(Some(on_nor));
    }
    if let Some(on_nand) = volume::held_on_nand(path)? {
        let disk_too = |what| match what {
            Held::NandData if disk::is_jftl(path) => Held::Jftl,
            what => what,
        };
        return Ok(Some(on_nand.map(disk_too)));
    }
    Ok(volume::is_nanofs(path).then_some(Some(Held::NanoFs)))
}

/// An error of who has looked for one of these, with the place. Where there is something else, it
/// says what, and which command takes that.
pub fn not_found(path: &Path, asked: &[Held], error: anyhow::Error) -> anyhow::Error {
    let found = on_medium(path).ok().flatten().flatten();
    let error = match found.filter(|found| !asked.contains(found)) {
        Some(found @ (Held::FlashLight | Held::NanoFs)) => {
            anyhow!("holds {found}; `flashkit mount` takes it")
        }
        Some(found @ Held::Jftl) => anyhow!("holds {found}; `flashkit attach --ftl jftl` takes it"),
        Some(found @ Held::LogDisk) => {
            anyhow!("holds {found}; `flashkit attach --ftl logdisk` takes it")
        }
        Some(Held::NandData) => volume::hinted(error),
        Some(Held::Data) | None => error,
    };
    error.context(text::path(path))
}

/// Whether a file has a byte that an empty card has not.
fn is_anything(path: &Path) -> std::io::Result<bool> {
    let mut file = File::open(path)?;
    let mut buf = vec![0; 1 << 20];
    loop {
        let read = file.read(&mut buf)?;
        if buf[..read].iter().any(|byte| ![0, 0xff].contains(byte)) {
            return Ok(true);
        }
        if read == 0 {
            return Ok(false);
        }
    }
}
