//! What a mount costs after a crash with a full journal (Table II).

use std::fs;

use anyhow::{Result, anyhow};
use flashkit_jftl::{Jftl, MapCache, ram_bytes};
use flashkit_nand::Nand;
use flashkit_sim::{Metered, Rng, SimNand};

use super::keep::{Mounts, Recovery, code};
use super::rig::{Interval, Layer, Mode, Rig, formatted};
use crate::rig::tool;
use crate::study::Made;

/// What a file holds: noise, which no code makes shorter.
fn content(file: u32) -> Vec<u8> {
    let mut bytes = vec![0; 1000];
    Rng::keyed(3, file.into()).fill(&mut bytes);
    bytes
}

/// Fills the journal of a stock ext3, cuts the power, and mounts.
fn stock(remaps: bool, quick: bool) -> Result<Recovery> {
    let layer = Layer {
        remaps: remaps.into(),
        ..Layer::default()
    };
    let mut rig = Rig::new(formatted()?, layer, false)?;
    rig.make_ext3()?;
    rig.mount(Mode::Journal, Interval::Seconds(300))?;
    // One transaction may take a quarter of the journal; what is committed stays there until the
    // journal is short of room.
    let files = if quick { 300 } else { 3_300 };
    for i in 0..files {
        let path = rig.point.join(format!("f{i}"));
        fs::write(path, content(i))?;
        if i % 300 == 299 {
            let root = fs::File::open(&rig.point)?;
            root.sync_all()?;
        }
    }
    let chip = rig.cut()?;
    let begun = chip.counters();
    let mut rig = Rig::new(chip, layer, false)?;
    let mounted = rig.cost()?.counters;
    rig.mount(Mode::Journal, Interval::Seconds(300))?;
    let recovered = rig.cost()?.counters;
    for i in 0..files {
        let read = fs::read(rig.point.join(format!("f{i}")))?;
        if read != content(i) {
            return Err(anyhow!("f{i} is not as it was synced"));
        }
    }
    rig.unmount()?;
    tool("e2fsck", &["-fn", rig.device()])?;
    Ok(Recovery {
        mount_ns: (mounted - begun).time_ns,
        recovery_ns: (recovered - mounted).time_ns,
        programs: (recovered - mounted).page_programs,
    })
}

/// A mounted layer and a slice that lives as long.
fn mount(chip: SimNand) -> Result<Jftl<'static, SimNand>> {
    let len = ram_bytes(&chip.geometry(), MapCache::Whole).map_err(|why| anyhow!(why))?;
    Jftl::mount(chip, vec![0; len].leak()).map_err(|e| anyhow!("{e}"))
}

/// The same through the paper's interface: a full journal of 4 MB, of which the file system
/// reads the descriptors only.
fn explicit() -> Result<Recovery> {
    let told = |e| anyhow!("{e:?}");
    let mut disk = mount(formatted()?)?;
    let (journal, mut pairs, mut rng) = (100_000, Vec::new(), Rng::new(1));
    for block in 0..4096 {
        if block % 125 == 0 {
            disk.write(journal + 2 * block, &[0xC0; 1024])
                .map_err(told)?;
            continue;
        }
        let home = 2 * rng.below(40_000) as u32;
        for i in 0..2 {
            let at = journal + 2 * block + i;
            let data = [block as u8; 512];
            disk.write_for(at, home + i, &data).map_err(told)?;
            pairs.push((home + i, at));
        }
    }
    disk.flush().map_err(told)?;
    let chip = disk.into_nand();
    let begun = chip.counters();
    let mut disk = mount(chip)?;
    let mounted = disk.nand().counters();
    for block in (0..4096).step_by(125) {
        disk.read(journal + 2 * block, &mut [0; 1024])
            .map_err(told)?;
    }
    disk.remap(&pairs, &[]).map_err(told)?;
    let recovered = disk.nand().counters() - mounted;
    Ok(Recovery {
        mount_ns: (mounted - begun).time_ns,
        recovery_ns: recovered.time_ns,
        programs: recovered.page_programs,
    })
}

/// Flash time of a mount in ns, 80 % full and written at random: after an
/// orderly end, and after a cut.
fn mounts(quick: bool) -> Result<(u64, u64)> {
    let told = |e| anyhow!("{e:?}");
    let mut disk = mount(formatted()?)?;
    let full = disk.sector_count() / 10 * 8;
    let data = vec![7; 512 * 64];
    for first in (0..full - 64).step_by(64) {
        disk.write(first, &data).map_err(told)?;
    }
    let mut rng = Rng::new(5);
    for _ in 0..if quick { 10_000 } else { 300_000 } {
        let sector = rng.below(u64::from(full)) as u32;
        disk.write(sector, &data[..512]).map_err(told)?;
    }
    let chip = disk.into_nand();
    let begun = chip.counters();
    let mut disk = mount(chip)?;
    let cut = disk.nand().counters() - begun;
    disk.close().map_err(told)?;
    let chip = disk.into_nand();
    let begun = chip.counters();
    let orderly = mount(chip)?.nand().counters() - begun;
    Ok((orderly.time_ns, cut.time_ns))
}

/// All of Table II.
pub fn table(quick: bool) -> Result<Mounts> {
    let (orderly_ns, cut_ns) = mounts(quick)?;
    Ok(Mounts {
        plain: stock(false, quick)?,
        hints: stock(true, quick)?,
        explicit: explicit()?,
        orderly_ns,
        cut_ns,
        made: Made::here(None).by(code()),
    })
}
