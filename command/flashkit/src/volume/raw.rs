//! Raw images: pages one after another, with or without their spare bytes, as `nanddump` writes and
//! `nandwrite` reads them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use flashkit_flashlight::inspect::TAG_SIZE;
use flashkit_flashlight::transfer::{Transferred, send};
use flashkit_nand::{BlockAddr, Nand, PageAddr};
use flashkit_sim::{Preset, SimError, SimNand};

use super::{Recovery, Repair, Tuning, flashlight, key, patiently};
use crate::failure::Usage;
use crate::output::Output;
use crate::text;

/// What was written.
pub struct Exported {
    /// Blocks of the chip in it.
    pub blocks: u32,
    /// Bytes of a page in it, and pages of a block.
    pub page: usize,
    pub pages_per_block: u32,
    /// Blocks that may be bad where it is written to; `None`: it is for this chip alone.
    pub slack: Option<u32>,
}

/// What a record in the image says, if there is one.
struct ToSend {
    slack: u32,
    spare: u32,
}

/// Without them nothing would tell whose pages are whose.
const SPARE_IN_USE: &str = "its pages use spare bytes: --spare, or make it with mkfs --no-spare";

/// Writes a raw image of the chip in an image.
///
/// A volume made for transfer is written up to the last block that holds something, ready for any
/// chip of its sort; all else is the whole chip, bad blocks too.
pub fn export(image: &Path, raw: &Output, with_spare: bool) -> Result<Exported> {
    let named = || text::path(image);
    let (mut chip, to_send, blocks) = exported(image, with_spare).with_context(named)?;
    let geometry = chip.geometry();
    let file = File::create(raw.path()).with_context(|| raw.shown())?;
    let mut out = BufWriter::new(file);
    let mut bytes = vec![0; chip.raw_page_len(with_spare)];
    let mut spare = vec![0; geometry.spare_size() as usize];
    for at in (0..blocks * geometry.pages_per_block()).map(PageAddr) {
        chip.export_page(at, &mut bytes).with_context(named)?;
        if !with_spare {
            // What cannot be read, in a bad block for one, says nothing.
            let status = chip.read(at, 0, &mut [], &mut spare).with_context(named)?;
            if status.is_readable() && spare.iter().any(|byte| *byte != 0xff) {
                bail!("{}: {SPARE_IN_USE}", named());
            }
        }
        let (block, index) = (geometry.block_of(at).0, geometry.index_of(at));
        if to_send.is_some() && block < 2 && index == 0 {
            let most = send(&mut bytes[..geometry.page_size() as usize]);
            if most.is_none_or(|most| blocks > most) {
                bail!("{}: its transfer record is damaged: make it anew", named());
            }
        }
        out.write_all(&bytes).with_context(|| raw.shown())?;
    }
    out.flush().with_context(|| raw.shown())?;
    Ok(Exported {
        blocks,
        page: bytes.len(),
        pages_per_block: geometry.pages_per_block(),
        slack: to_send.map(|to_send| to_send.slack),
    })
}

/// What is exported of an image: the chip, what a record in it says, and how many blocks.
fn exported(image: &Path, with_spare: bool) -> Result<(SimNand, Option<ToSend>, u32)> {
    let open = || patiently(|| SimNand::open(image, flashkit_sim::Access::ReadOnlyCow));
    let mut page = vec![0; open()?.geometry().page_size() as usize];
    let to_send = to_send(&mut Transferred::open(open()?, &mut page)?, image)?;
    if let Some(ToSend { spare, .. }) = to_send
        && spare as usize >= TAG_SIZE
        && !with_spare
    {
        bail!("{SPARE_IN_USE}");
    }
    let mut chip = open()?;
    let blocks = match to_send {
        Some(_) => blocks_in_use(&mut chip)?,
        None => chip.geometry().blocks(),
    };
    Ok((chip, to_send, blocks))
}

fn to_send(chip: &mut Transferred<'_, SimNand>, image: &Path) -> Result<Option<ToSend>> {
    if !chip.is_transferred() || !chip.is_settled() || chip.skipped().next().is_some() {
        return Ok(None);
    }
    // A copy of a chip is what it is; what is sent out is whole.
    let found = flashlight::fsck(image, Repair::Nothing, Tuning::from(None));
    let found = found.map_err(key::hinted)?;
    if found.recovery != Recovery::NotNeeded {
        bail!("not unmounted cleanly: `flashkit fsck -a` first");
    }
    if let Some(finding) = found.findings.first() {
        bail!("damaged, {}: {}", finding.place, finding.what);
    }
    Ok(Some(ToSend {
        slack: chip.slack(),
        spare: chip.geometry().spare_size(),
    }))
}

/// Blocks up to the last one that is not erased.
fn blocks_in_use(chip: &mut SimNand) -> Result<u32> {
    let mut bytes = vec![0; chip.raw_page_len(true)];
    let geometry = chip.geometry();
    for at in (0..geometry.pages()).rev().map(PageAddr) {
        chip.export_page(at, &mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0xff) {
            return Ok(geometry.block_of(at).0 + 1);
        }
    }
    Ok(0)
}

/// Makes an image of a chip with these bad blocks, from a raw image. One that is as long as the
/// chip has the bad blocks in it; from a shorter one they are left out, as `nanddump` leaves them
/// out and `nandwrite` passes them over.
pub fn import(
    raw: &Path,
    image: &Output,
    chip: &Preset,
    with_spare: bool,
    bad: &[u32],
) -> Result<()> {
    let found = std::fs::metadata(raw).with_context(|| text::path(raw))?;
    if !found.is_file() {
        bail!(
            "{}: not a file; a raw image is read from one, as its length says what it is",
            text::path(raw)
        );
    }
    let len = found.len();
    // What does not fit is found before the image is touched.
    let check = SimNand::new(chip);
    let (stride, geometry) = (check.raw_page_len(with_spare) as u64, chip.geometry());
    if let Some(block) = bad.iter().find(|&&block| block >= geometry.blocks()) {
        let (name, most) = (chip.name, geometry.blocks() - 1);
        let why = format!("--bad {block}: {name} has the blocks 0 to {most}");
        return Err(Usage(why).into());
    }
    let whole = stride * u64::from(geometry.pages());
    let bad: BTreeSet<u32> = bad.iter().copied().collect();
    let good = geometry.blocks() - bad.len() as u32;
    let most = stride * u64::from(good * geometry.pages_per_block());
    if !len.is_multiple_of(stride) {
        bail!(
            "{}: {len} bytes are not whole pages: {} has them of {stride}{}",
            text::path(raw),
            chip.name,
            if with_spare { " with --spare" } else { "" }
        );
    }
    if len != whole && (len > most || len == 0) {
        bail!(
            "{}: {len} bytes are no image of {}: {stride} to {most}",
            text::path(raw),
            chip.name
        );
    }
    let made = SimNand::create(image.path(), chip);
    let mut made = made.with_context(|| image.shown())?;
    made.set_barrier(false);
    for &block in &bad {
        made.mark_bad(BlockAddr(block))
            .with_context(|| image.shown())?;
    }
    let imported = if len == whole || bad.is_empty() {
        made.import_raw(raw, with_spare)
    } else {
        made.import_raw_around_bad(raw, with_spare)
    };
    imported.map_err(|error| {
        let of = match &error {
            SimError::Io { kind, .. } if is_of_writing(*kind) => image.shown(),
            _ => text::path(raw),
        };
        anyhow::Error::from(error).context(of)
    })?;
    for &block in &bad {
        made.mark_bad(BlockAddr(block))
            .with_context(|| image.shown())?;
    }
    made.set_barrier(true);
    made.flush().with_context(|| image.shown())
}

/// Whether no read ends so.
fn is_of_writing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}
