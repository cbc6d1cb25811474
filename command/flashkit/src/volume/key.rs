//! The key of an encrypted volume. A command is given one at most, and every volume that it opens
//! or makes has it.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, anyhow};
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

/// The key that the command was given.
pub fn given() -> Option<&'static [u8]> {
    KEY.get().map(Vec::as_slice)
}
