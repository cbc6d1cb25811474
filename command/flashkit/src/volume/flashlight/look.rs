//! Looking at an image: what is wrong with it, and what state it is in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use flashkit_flashlight::inspect::{TAG_SIZE, data_tag};
use flashkit_flashlight::{Area, BlockState, Config, FORMAT_VERSION, Page, Visitor, ram_needed};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::Metered;
use flashkit_vfs::check::{Checked, Finding as Found, check};
use flashkit_vfs::{Counters, FileKind, FileSystem, Ino, Measured, path};
use serde_json::{Map, Value, json};

use super::{Chip, Fs, check_ram, config, mount, mount_as};
use crate::text;
use crate::volume::medium::Medium;
use crate::volume::{Access, Finding, Fsck, NoVolume, Recovery, Repair, Tuning};

/// Opens an image so that nothing reaches it, recovery included.
fn open_untouched(image: &Path) -> anyhow::Result<Chip> {
    Ok(Chip::never(Medium::open(image, Access::ReadOnly)?))
}

pub fn fsck(image: &Path, repair: Repair, tuning: Tuning) -> anyhow::Result<Fsck> {
    let chip = open_untouched(image)?;
    check_ram(chip.inner().name(), chip.geometry(), tuning.ram)?;
    let mut fs = match mount(chip, tuning, true) {
        Ok(fs) => fs,
        Err(error) if error.is::<NoVolume>() => return Err(error),
        Err(error) => return Ok(Fsck::unmountable(format!("{error:#}"))),
    };
    let recovery = match (fs.volume().is_recovered(), repair) {
        (false, _) => Recovery::NotNeeded,
        (true, Repair::Nothing) => Recovery::Simulated,
        (true, _) => Recovery::Done,
    };
    let damaged =
        repair == Repair::All && look(&mut fs)?.is_ok_and(|found| !found.findings.is_empty());
    let changes = recovery == Recovery::Done || damaged;
    if changes {
        // The lock of an image is held as long as it is open in any way.
        drop(fs);
        let chip = Medium::open(image, Access::ReadWrite)?;
        fs = mount(Chip::never(chip), tuning, false)?;
    }
    let mut checked = match look(&mut fs)? {
        Ok(checked) => checked,
        Err(why) => {
            let mut found = Fsck::unmountable(why);
            found.recovery = recovery;
            return Ok(found);
        }
    };
    let mut repaired = Checked::default();
    let mut names = names_of(&mut fs, &checked);
    if damaged {
        flashkit_vfs::check::repair(fs.volume()).map_err(|why| anyhow!("repair: {why}"))?;
        let left = look(&mut fs)?.map_err(|why| anyhow!("after the repair: {why}"))?;
        repaired.findings = checked.findings;
        // A page may be elsewhere now.
        let same = |a: &Found, b: &Found| (a.ino, &a.what) == (b.ino, &b.what);
        repaired
            .findings
            .retain(|was| !left.findings.iter().any(|is| same(was, is)));
        checked = left;
        // What has got a name in lost+found has it now.
        names.extend(names_of(&mut fs, &checked));
    }
    if changes {
        fs.unmount().context("unmount")?;
    }
    let pages_per_block = fs.volume().nand().geometry().pages_per_block();
    Ok(Fsck {
        repaired: placed(&repaired, &names, pages_per_block),
        ..told(&checked, &names, recovery, pages_per_block)
    })
}

/// Checks a volume and its data; the inner error: it cannot be walked.
fn look(fs: &mut Fs) -> anyhow::Result<Result<Checked, String>> {
    let mut checked = match check(fs.volume()) {
        Ok(checked) => checked,
        Err(why) => return Ok(Err(why)),
    };
    check_data(fs, &mut checked)?;
    Ok(Ok(checked))
}

/// The pages of file data in use, with the files they belong to.
#[derive(Default)]
struct DataPages(Vec<(PageAddr, u32)>);

impl Visitor for DataPages {
    fn page(&mut self, page: Page) {
        if page.area == Area::Data {
            self.0.push((page.page, page.ino));
        }
    }
    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}

/// Reads all file data and compares it with its tags, where the chip has room for such.
fn check_data(fs: &mut Fs, checked: &mut Checked) -> anyhow::Result<()> {
    let mut pages = DataPages::default();
    fs.volume().walk(&mut pages)?;
    let nand = fs.volume().nand_mut();
    let geometry = nand.geometry();
    let mut page = vec![0; geometry.page_size() as usize];
    let mut spare = vec![0; geometry.spare_size() as usize];
    if spare.len() < TAG_SIZE {
        return Ok(());
    }
    for (at, ino) in pages.0.into_iter().filter(|p| geometry.contains(p.0)) {
        let what = match nand.read(at, 0, &mut page, &mut spare)?.is_readable() {
            false => "file data cannot be read",
            true => match data_tag(&page, &spare) {
                Some(tag) if !tag.intact => "file data is damaged",
                Some(tag) if tag.ino != ino => "the page holds another file's data",
                Some(_) => continue,
                None => "file data without a tag",
            },
        };
        checked.findings.push(Found {
            page: Some(at.0),
            ino,
            what: what.into(),
        });
    }
    Ok(())
}

/// Paths by inode.
type Names = BTreeMap<u32, String>;

/// Paths of the inodes that something was found of, as far as the damage lets them be seen.
fn names_of(fs: &mut Fs, checked: &Checked) -> Names {
    let asked: BTreeSet<u32> = checked.findings.iter().map(|found| found.ino).collect();
    let mut names = Names::new();
    if asked.iter().all(|ino| *ino == 0) {
        return names;
    }
    let (mut pending, mut seen) = (vec![(fs.root(), Vec::new())], BTreeSet::new());
    while let Some((dir, path)) = pending.pop() {
        if !seen.insert(dir) {
            continue;
        }
        let shown = |path: &[u8]| match path {
            b"" => "/".to_owned(),
            path => text::name(path),
        };
        let mut note = |ino: Ino, path: &[u8]| {
            let ino = u32::try_from(ino).unwrap_or(0);
            if asked.contains(&ino) {
                names.entry(ino).or_insert_with(|| shown(path));
            }
        };
        note(dir, &path);
        // What cannot be listed is a finding already.
        for entry in path::list_readable(fs, dir).0 {
            let below = [&path[..], b"/", &entry.name].concat();
            note(entry.ino, &below);
            if entry.kind == FileKind::Dir {
                pending.push((entry.ino, below));
            }
        }
    }
    names
}

fn placed(checked: &Checked, names: &Names, pages_per_block: u32) -> Vec<Finding> {
    let findings = checked.findings.iter().map(|finding| {
        let mut place = match finding.page {
            Some(page) => format!("page {page} (block {})", page / pages_per_block),
            None => "volume".into(),
        };
        if finding.ino != 0 {
            place.push_str(&format!(", inode {}", finding.ino));
            if let Some(name) = names.get(&finding.ino) {
                place.push_str(&format!(", {name}"));
            }
        }
        Finding {
            place,
            what: finding.what.clone(),
        }
    });
    findings.collect()
}

fn told(checked: &Checked, names: &Names, recovery: Recovery, pages_per_block: u32) -> Fsck {
    Fsck {
        mountable: true,
        recovery,
        findings: placed(checked, names, pages_per_block),
        repaired: Vec::new(),
        checked: vec![
            ("directory", "directories", checked.dirs),
            ("file", "files", checked.files),
            ("metadata page", "metadata pages", checked.meta_pages),
            ("data page", "data pages", checked.data_pages),
        ],
    }
}

pub fn info(image: &Path, tuning: Tuning) -> anyhow::Result<Map<String, Value>> {
    let mut chip = open_untouched(image)?;
    let name = chip.inner().name().to_owned();
    let geometry = chip.geometry();
    let bad = chip.inner_mut().bad_blocks()?;
    let transfer = transfer(chip.inner_mut());
    // Its cost is that of a mount that writes; one for which there is no room can
    // be looked at all the same.
    let writing = Config {
        discarded: false,
        ..config(tuning, true)
    };
    let mut fs = match mount_as(chip, tuning, writing) {
        Ok(fs) => fs,
        Err(_) => mount(open_untouched(image)?, tuning, true)?,
    };
    let mounted = fs.cost();
    // Recovery would show in the wear: this is what the image holds.
    let wear = Medium::open(image, Access::ReadOnly)?.erase_counts();
    let space = fs.statfs()?;
    let used = fs.volume().ram_use();
    let told = json!({
        "fs": "flashlight",
        "chip": name,
        "format_version": FORMAT_VERSION,
        "volume": format!("{:08x}", fs.volume().volume()),
        "clean": !fs.volume().is_recovered(),
        "geometry": {
            "page_size": geometry.page_size(),
            "spare_size": geometry.spare_size(),
            "pages_per_block": geometry.pages_per_block(),
            "blocks": geometry.blocks(),
            "capacity": geometry.capacity(),
        },
        "space": {
            "pages": space.blocks,
            "free": space.blocks_free,
            "bytes_free": space.blocks_free * u64::from(space.block_size),
        },
        "blocks": blocks(&mut fs, geometry.blocks()),
        "dirty_list": fs.volume().dirty_blocks(),
        "fragmentation": fragmentation(&mut fs)?,
        "ram": {
            "given": fs.ram_bytes(),
            "needed": ram_needed(&geometry),
            "erases_counted": used.erases_counted,
            "dirty_entries": used.dirty_entries,
            "pages_kept": used.pages_kept,
        },
        "mount": mount_cost(mounted),
        "erase_counts": spread(&wear),
        "bad_blocks": bad,
        "worn_out": fs.volume().is_worn(),
    });
    let Value::Object(mut told) = told else {
        bail!("not an object")
    };
    if let Some(transfer) = transfer {
        told.insert("transfer".into(), transfer);
    }
    Ok(told)
}

/// How the volume came to the chip, if by a programmer.
fn transfer(medium: &mut Medium) -> Option<Value> {
    let transfer = medium.transfer();
    let passed_over: Vec<u32> = transfer.skipped().collect();
    transfer.is_transferred().then(|| {
        json!({
            "slack": transfer.slack(),
            "passed_over": passed_over,
            "settled": transfer.is_settled(),
        })
    })
}

/// Blocks by what they are used for, and the valid pages in them.
fn blocks(fs: &mut Fs, blocks: u32) -> Value {
    let (mut meta, mut data, mut system, mut bad) = (0, 0, 0, 0);
    let (mut dead, mut free, mut erased) = (0, 0, 0);
    let (mut meta_pages, mut data_pages) = (0, 0);
    for block in 0..blocks {
        match fs.volume().block_state(block) {
            BlockState::Meta(pages) => (meta, meta_pages) = (meta + 1, meta_pages + pages),
            BlockState::Data(pages) => (data, data_pages) = (data + 1, data_pages + pages),
            BlockState::System => system += 1,
            BlockState::Bad => bad += 1,
            BlockState::Dead => dead += 1,
            BlockState::Free => free += 1,
            BlockState::Clean => erased += 1,
        }
    }
    json!({
        "meta": meta,
        "data": data,
        "system": system,
        "dead": dead,
        "free": free,
        "free_and_erased": erased,
        "bad": bad,
        "valid_meta_pages": meta_pages,
        "valid_data_pages": data_pages,
    })
}

/// Runs of pages of each file that follow one another on the chip.
#[derive(Default)]
struct Runs {
    /// By file.
    runs: BTreeMap<u32, u64>,
    last: Option<Page>,
}

impl Visitor for Runs {
    fn page(&mut self, page: Page) {
        if page.area == Area::Data {
            let goes_on = self.last.is_some_and(|last| {
                (last.ino, last.page.0.wrapping_add(1)) == (page.ino, page.page.0)
            });
            *self.runs.entry(page.ino).or_default() += u64::from(!goes_on);
            self.last = Some(page);
        }
    }
    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}

/// How scattered the files are that have pages of their own.
fn fragmentation(fs: &mut Fs) -> anyhow::Result<Value> {
    let mut found = Runs::default();
    fs.volume().walk(&mut found)?;
    let runs: Vec<u64> = found.runs.into_values().collect();
    let files = runs.len().max(1) as f64;
    let in_one = runs.iter().filter(|&&n| n == 1).count();
    let sum: u64 = runs.iter().sum();
    Ok(json!({
        "files": runs.len(),
        "extents": sum,
        "mean": rounded(sum as f64 / files),
        "most": runs.iter().max(),
        "percent_in_one": rounded(100.0 * in_one as f64 / files),
    }))
}

fn rounded(v: f64) -> f64 {
    (v * 1_000.0).round() / 1_000.0
}

fn mount_cost(cost: Counters) -> Value {
    json!({
        "page_reads": cost.page_reads,
        "spare_reads": cost.spare_reads,
        "page_programs": cost.page_programs,
        "block_erases": cost.block_erases,
        "flash_us": cost.time_ns / 1_000,
    })
}

fn spread(counts: &[u32]) -> Value {
    let n = counts.len().max(1) as f64;
    let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / n;
    let variance = counts
        .iter()
        .map(|&c| (f64::from(c) - mean).powi(2))
        .sum::<f64>()
        / n;
    json!({
        "min": counts.iter().min(),
        "max": counts.iter().max(),
        "mean": rounded(mean),
        "stddev": rounded(variance.sqrt()),
    })
}
