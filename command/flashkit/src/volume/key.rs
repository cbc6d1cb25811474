//! The key of an encrypted volume. A command is given one at most, and every volume that it opens
//! or makes has it.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow};
use flashkit_flashlight::Error;
use flashkit_nand_xts::Xts;

use crate::failure::Usage;
use crate::text;

static KEY: OnceLock<Vec<u8>> = OnceLock::new();

/// Shared by the commands that take an image.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KeyOption {
    /// FlashLight: file with the key of an encrypted volume, 32 or 64 bytes
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl KeyOption {
    /// Reads the key, if one is given, for all that the command does.
    ///
    /// # Errors
    /// The file cannot be read, or holds no key.
    pub fn take(&self) -> anyhow::Result<()> {
        let Some(file) = &self.key_file else {
            return Ok(());
        };
        let named = || text::path(file);
        // A device is without end, and a key is short.
        let key = read(file).with_context(named)?;
        Xts::new(&key).map_err(|why| Usage(format!("{}: {why}", named())))?;
        KEY.set(key).map_err(|_| anyhow!("two keys"))
    }

    /// The file, if one is given.
    pub fn file(&self) -> Option<&Path> {
        self.key_file.as_deref()
    }
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut key = Vec::new();
    std::fs::File::open(file)?.take(65).read_to_end(&mut key)?;
    Ok(key)
}

/// There is no volume on a chip, as far as can be told with the key that the command was given.
#[derive(Debug)]
pub struct NoVolume;

impl fmt::Display for NoVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match given() {
            Some(_) => f.write_str("not formatted, or another key"),
            None => Error::<()>::NotFormatted.fmt(f),
        }
    }
}

impl std::error::Error for NoVolume {}

/// An error, with what may help if a volume was looked for without a key.
pub fn hinted(error: anyhow::Error) -> anyhow::Error {
    match error.is::<NoVolume>() && given().is_none() {
        true => anyhow!("{error}, or encrypted: --key-file"),
        false => error,
    }
}

/// Refuses a key for what is never encrypted.
///
/// # Errors
/// One was given.
pub fn refuse(what: &str) -> anyhow::Result<()> {
    match given() {
        Some(_) => Err(Usage(format!("--key-file is not for {what}")).into()),
        None => Ok(()),
    }
}

/// The key that the command was given.
pub fn given() -> Option<&'static [u8]> {
    KEY.get().map(Vec::as_slice)
}
