//! Rot: every page of a volume, one after another, becomes uncorrectable, or its bits flip unseen
//! by the ECC. What does not depend on the page must be found as it was, what does must be right or
//! give an error; and the volume must go on working.
//!
//! A failure names the case: `FLASHKIT_ROT=volume:page:way` runs it alone. `FLASHKIT_ROT_FULL=1`
//! takes every page in use; by default only some of those of each kind that there are many of.

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::inspect::{Inspected, Record, inspect};
use flashkit_flashlight::{Config, Damaged, Error as Damage};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Cut, EraseTear, Metered, OpKind, PowerCut, Rot, SimNand, Tear, Trace};
use flashkit_vfs::check::check;
use flashkit_vfs::{Error, FileSystem, Measured, NewInode, path};
use flashkit_workload::Rng;

use crate::common::{self, Fs, LentFs, NOW, pages_with, try_mount, try_mount_lent, try_unmount};
use crate::damage::judge::{Errors, is_damage, judge};
use crate::damage::pages::{Loss, losses};
use crate::damage::rot::{WAYS, Way, newer, spoil};
use crate::damage::tree::{Object, Shape, Tree, Volume, fill, parent};

/// Files of all shapes and directories of two, in about 700 pages of 1 KiB.
pub fn small_volume(shape: Shape) -> Volume {
    let mut v = Volume::format(shape);
    let ps = v.page_size();
    for dir in ["a", "a/b", "a/b/c", "d"] {
        v.mkdir(dir).unwrap();
    }
    for dir in ["", "a/", "a/b/", "a/b/c/", "d/"] {
        for (name, len) in [
            ("empty", 0),
            ("fragment", 300),
            ("one", ps),
            ("few", 5 * ps + 9),
        ] {
            let path = format!("{dir}{name}");
            v.create(&path).unwrap();
            v.write(&path, 0, &fill(len as u64 + dir.len() as u64, 0, len))
                .unwrap();
        }
        v.link(&format!("{dir}short link"), b"to/somewhere")
            .unwrap();
        v.link(&format!("{dir}long link"), &[b'x'; 1500]).unwrap();
    }
    // Extents in the log that do not join, and so many that they move to maps.
    for (path, pages) in [("a/log", 20), ("a/maps", 130)] {
        v.create(path).unwrap();
        for half in 0..2 {
            for index in (half..pages).step_by(2) {
                v.write(path, index * ps, &fill(7, index * ps, ps)).unwrap();
            }
        }
    }
    // A hole, and a tail that is a fragment.
    v.create("d/holes").unwrap();
    v.write("d/holes", 10 * ps, &fill(8, 0, 2 * ps + 77))
        .unwrap();
    // Entries by hash maps; a few changed since, and a few removed.
    v.mkdir("names").unwrap();
    for i in 0..190 {
        let path = format!("names/name {i}");
        v.create(&path).unwrap();
        if i % 4 == 0 {
            v.write(&path, 0, &fill(i, 0, 50)).unwrap();
        }
    }
    for i in 0..10 {
        v.mkdir(&format!("names/dir {i}")).unwrap();
    }
    v.create("names/dir 3/inside").unwrap();
    for i in (0..190).step_by(19) {
        v.write(&format!("names/name {i}"), 20, &fill(i, 9, 90))
            .unwrap();
        v.unlink(&format!("names/name {}", i + 1)).unwrap();
    }
    // Files found by their number, and directories that have come and gone.
    v.rename("a/few", "d/renamed").unwrap();
    v.rename("a/maps", "a/b/moved maps").unwrap();
    v.rename("a/b/c/few", "names/renamed").unwrap();
    v.rename("a/b", "d/b").unwrap();
    for i in 0..3 {
        v.mkdir(&format!("gone {i}")).unwrap();
        v.create(&format!("gone {i}/file")).unwrap();
    }
    for i in 0..3 {
        v.unlink(&format!("gone {i}/file")).unwrap();
        v.rmdir(&format!("gone {i}")).unwrap();
    }
    v
}

/// Files of many names, in several directories.
pub fn linked_volume(shape: Shape) -> Volume {
    let mut v = Volume::format(shape);
    for dir in ["a", "b", "a/c"] {
        v.mkdir(dir).unwrap();
    }
    for (path, len) in [("a/x", 5_000), ("b/y", 300), ("z", 0)] {
        v.create(path).unwrap();
        v.write(path, 0, &fill(len as u64, 0, len)).unwrap();
    }
    for i in 0..90 {
        for (path, every) in [("a/x", 1), ("b/y", 4), ("z", 30)] {
            if i % every == 0 {
                let dir = ["", "a/", "b/", "a/c/"][i / every % 4];
                let to = format!("{dir}name {i} of {}", path.replace('/', "-"));
                v.hard_link(path, &to).unwrap();
            }
        }
    }
    for i in (0..90).step_by(9) {
        let dir = ["", "a/", "b/", "a/c/"][i % 4];
        v.unlink(&format!("{dir}name {i} of a-x")).unwrap();
    }
    v
}

/// A directory and a file so large that they have index pages, in about 6,000 pages of 1 KiB.
pub fn large_volume(shape: Shape) -> Volume {
    let mut v = Volume::format(shape);
    let ps = v.page_size();
    v.mkdir("many").unwrap();
    for i in 0..3_000 {
        v.create(&format!("many/file {i}")).unwrap();
    }
    for i in 0..30 {
        v.write(&format!("many/file {}", 70 * i), 0, &fill(i, 0, 200))
            .unwrap();
        v.mkdir(&format!("many/dir {i}")).unwrap();
    }
    v.create("large").unwrap();
    let pages = 2_600;
    for half in 0..2 {
        for index in (half..pages).step_by(2) {
            v.write("large", index * ps, &fill(3, index * ps, ps))
                .unwrap();
        }
    }
    v.create("small").unwrap();
    v.write("small", 0, b"small").unwrap();
    v
}

/// Uses a volume. What does not depend on the damage must work. `loss` follows the names.
fn change(v: &mut Volume, loss: &mut Loss, round: u64) -> Result<(), String> {
    let mut rng = Rng::new(round);
    let objects: Vec<(String, Object)> = v.tree.clone().into_iter().collect();
    let every = 4 + objects.len() as u64 / 100;
    for (path, object) in objects {
        let done = match object {
            Object::Dir => change_dir(v, loss, &path, round),
            Object::File(bytes) if path.contains("new") || rng.below(every) == 0 => {
                change_file(v, loss, &path, bytes.len(), &mut rng)
            }
            _ => continue,
        };
        match done {
            Ok(()) => {}
            Err(e) if is_damage(&e) && loss.concerns(&path) => {}
            Err(e) => return Err(format!("round {round}: {path} cannot be changed: {e}")),
        }
    }
    Ok(())
}

/// Makes and removes names in a directory.
fn change_dir(v: &mut Volume, loss: &Loss, path: &str, round: u64) -> Result<(), Error> {
    let ps = v.page_size();
    let at = |name: &str| match path {
        "" => format!("{name} {round}"),
        _ => format!("{path}/{name} {round}"),
    };
    for new in [at("new"), at("newer"), at("newest")] {
        match v.create(&new) {
            Err(e) if is_damage(&e) && loss.dirs.contains(path) => continue,
            made => made?,
        }
        v.write(&new, 0, &fill(round, 0, 3 * ps + 5))?;
        v.fsync(&new)?;
    }
    let dir = at("new dir");
    match v.mkdir(&dir) {
        Err(e) if is_damage(&e) && loss.dirs.contains(path) => return Ok(()),
        made => made?,
    }
    v.create(&format!("{dir}/file"))?;
    match v.rmdir(&dir) {
        Err(Error::NotEmpty) => {}
        other => panic!("a directory that is not empty is removed: {other:?}"),
    }
    v.unlink(&format!("{dir}/file"))?;
    v.rmdir(&dir)
}

/// One change of a file, within one page of it.
fn change_file(
    v: &mut Volume,
    loss: &mut Loss,
    path: &str,
    len: usize,
    rng: &mut Rng,
) -> Result<(), Error> {
    let ps = v.page_size();
    let key = rng.next_u64();
    match rng.below(7) {
        0 => {
            let index = rng.below(1 + (len / ps) as u64) as usize;
            v.write(path, index * ps, &fill(key, 0, ps))
        }
        1 if len > 0 => {
            let at = rng.below(len as u64) as usize;
            v.write(path, at, &fill(key, 0, (ps - at % ps).min(60)))
        }
        2 => v.write(path, len, &fill(key, 0, (ps - len % ps).min(100))),
        3 => v.truncate(path, rng.below(1 + len as u64) as usize),
        4 => v.truncate(path, 0),
        5 => {
            let to = format!("{path}'");
            match v.rename(path, &to) {
                Err(e) if is_damage(&e) && loss.dirs.contains(parent(path)) => return Ok(()),
                renamed => renamed?,
            }
            loss.rename(path, &to);
            Ok(())
        }
        _ => v.unlink(path),
    }
}

/// One page rots, and the volume is used. Returns what gave errors at the first mount.
fn case(rest: &Rest, page: PageAddr, loss: &Loss, way: Way) -> Result<Errors, String> {
    let mut chip = rest.chip.clone();
    spoil(&mut chip, page, way);
    if rest.clean {
        check_names(chip.clone(), page, loss)?;
    }
    let mut loss = loss.clone();
    let mut v = Volume {
        fs: try_mount(chip, Config::default())?,
        tree: rest.tree.clone(),
        now: flashkit_vfs::Time::default(),
        links: rest.links.clone(),
    };
    let in_log = !rest.clean && loss.kind == "file";
    let of_block = rest.chip.geometry().pages_per_block();
    let unknown = rest.last == page || (page.0 + 1).is_multiple_of(of_block);
    let errors = match judge(&mut v, &loss) {
        // What only this page said, written since the checkpoint, is lost, and the mount tells, if
        // it can know: the last page of a log looks as one does whose program was cut, that of a
        // block as one whose program failed, so that it was written again elsewhere.
        Err(_) if in_log && (unknown || v.fs.volume().lost_change().is_some()) => {
            loss.older = true;
            judge(&mut v, &loss)?
        }
        judged => judged?,
    };
    for round in 0..3 {
        if !loss.stale && !loss.older {
            change(&mut v, &mut loss, round)?;
        }
        if round == 0 {
            let lost = v.fs.volume().lost_change();
            match (v.fs.sync(), lost) {
                (Ok(()), None) => {}
                (Err(e), Some(_)) if is_damage(&e) && !rest.clean => v.fs.sync().unwrap(),
                (told, _) => return Err(format!("lost {lost:?}, sync gives {told:?}")),
            }
        } else {
            v = remount(v, &loss)?;
        }
        judge(&mut v, &loss).map_err(|e| format!("after round {round}: {e}"))?;
    }
    churn(&mut v, &loss)?;
    judge(&mut v, &loss).map_err(|e| format!("after cleaning: {e}"))?;
    v = v.remount(Config::default())?;
    judge(&mut v, &loss).map_err(|e| format!("after cleaning and a remount: {e}"))?;
    Ok(errors)
}

/// The page of a file's inode that was written last.
fn last_file(chip: &mut SimNand) -> PageAddr {
    let geo = chip.geometry();
    let mut data = vec![0; geo.page_size() as usize];
    let mut seq_of = |page: &PageAddr| {
        chip.read(*page, 0, &mut data, &mut []).unwrap();
        match inspect(&geo, &data, *page) {
            Inspected::Record(header, Record::File(_)) => header.seq,
            _ => 0,
        }
    };
    (0..geo.pages())
        .map(PageAddr)
        .max_by_key(|page| seq_of(page))
        .unwrap()
}

/// Unmounts and mounts. What a damaged directory was to show, and no page of it does, may be lost
/// with that, and is told.
fn remount(v: Volume, loss: &Loss) -> Result<Volume, String> {
    let chip = match v.fs.into_volume().unmount() {
        Err((chip, Damage::Corrupt(_, Damaged::Deferred))) if loss.kind == "directory" => chip,
        Err((_, e)) => return Err(format!("unmount fails: {e}")),
        Ok(chip) => chip,
    };
    let fs = try_mount(chip.take::<SimNand>(), Config::default())?;
    Ok(Volume { fs, ..v })
}

/// Overwrites parts of a file until as many blocks have been erased as there are on the chip.
fn churn(v: &mut Volume, loss: &Loss) -> Result<(), String> {
    let failed = |e| format!("cleaning: {e}");
    let ps = v.page_size();
    let goal = v.fs.cost().block_erases + v.fs.erase_counts().len() as u64;
    v.create("churn").map_err(failed)?;
    let pages = v.fs.statfs().unwrap().blocks_free / 2;
    let mut rng = Rng::new(7);
    for i in 0.. {
        let at = rng.below(pages.min(200)) as usize * ps;
        v.write("churn", at, &fill(i, 0, ps)).map_err(failed)?;
        if v.fs.cost().block_erases >= goal {
            break;
        }
        if i > 100_000 {
            return Err("cleaning does not erase".into());
        }
    }
    let synced = match v.fs.sync() {
        // As at an unmount.
        Err(e) if is_damage(&e) && loss.kind == "directory" => v.fs.sync(),
        synced => synced,
    };
    synced.map_err(failed)
}

/// The check names a damaged page of metadata in use, and finds nothing wrong where nothing is.
fn check_names(mut chip: SimNand, page: PageAddr, loss: &Loss) -> Result<(), String> {
    chip.clear_counters();
    let config = Config {
        read_only: true,
        ..Config::default()
    };
    let mut fs = try_mount(chip, config)?;
    let findings = check(fs.volume())?.findings;
    // Without the second of an unmount's two checkpoints the volume is recovered.
    if fs.cost().page_programs > 0 && !["checkpoint", "block table"].contains(&loss.kind) {
        return Err("a read-only mount writes".into());
    }
    let named = findings.iter().any(|f| f.page == Some(page.0));
    match loss.kind {
        // Their owners are not among what this check looks at.
        "root" | "second level" | "checkpoint" | "block table" | "allocation record"
        | "obsolete" | "file data" => match findings.first() {
            Some(f) => Err(format!("the check finds {f:?}")),
            None => Ok(()),
        },
        kind if !named => Err(format!("the check does not name the {kind}: {findings:?}")),
        _ => Ok(()),
    }
}

/// Results by kind of page.
#[derive(Default)]
struct Counts {
    pages: usize,
    cases: usize,
    with_errors: usize,
    objects: usize,
    file_pages: usize,
    failures: Vec<String>,
}

/// A volume at rest.
struct Rest {
    chip: SimNand,
    tree: Tree,
    links: Vec<BTreeSet<String>>,
    losses: Vec<(PageAddr, Loss)>,
    clean: bool,
    /// The last page of the log of files.
    last: PageAddr,
}

/// After an unmount.
fn unmounted(v: Volume) -> Rest {
    let (tree, links) = (v.tree.clone(), v.links.clone());
    let mut chip = try_unmount(v.fs).unwrap();
    let last = last_file(&mut chip);
    let losses = losses(
        &mut try_mount(chip.clone(), Config::default()).unwrap(),
        &tree,
    );
    Rest {
        chip,
        tree,
        links,
        losses,
        clean: true,
        last,
    }
}

/// After a power cut between two operations, with everything durable, some of it since the last
/// checkpoint.
fn cut(v: Volume) -> Rest {
    let mut v = v.remount(Config::default()).unwrap();
    for round in 60..62 {
        change(&mut v, &mut Loss::default(), round).unwrap();
    }
    // Files, and then the directories that lead to them.
    for path in v.tree.clone().into_keys().rev() {
        v.fsync(&path).unwrap();
    }
    let mut chip = v.fs.volume().nand().get::<SimNand>().clone();
    let last = last_file(&mut chip);
    let mut losses = losses(&mut v.fs, &v.tree);
    // Only a page of the directory map was still to be written: recovery does without it.
    let new = v.fs.cost().page_programs - chip.counters().page_programs;
    assert!(new <= 1, "{new} pages were not durable");
    losses.retain(|(page, _)| chip.clone().rot(*page, Rot::Lost).unwrap());
    for (_, loss) in &mut losses {
        // A directory's page written since the checkpoint, and lost before the next: the names that
        // it has removed are back; if another page was written after it, that is told.
        loss.stale = loss.kind.ends_with("directory");
    }
    Rest {
        chip,
        tree: v.tree,
        links: v.links,
        losses,
        clean: false,
        last,
    }
}

/// Lets every page of these kinds rot (none: of all kinds), or about so many of each at `most`.
fn every_page(name: &str, kinds: &[&str], most: usize, rest: &Rest) {
    let full = std::env::var("FLASHKIT_ROT_FULL").is_ok();
    let only = std::env::var("FLASHKIT_ROT").ok();
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    for (_, loss) in &rest.losses {
        counts.entry(loss.kind).or_default().pages += 1;
    }
    for (i, (page, loss)) in rest.losses.iter().enumerate() {
        let count = counts.get_mut(loss.kind).unwrap();
        if !kinds.is_empty() && !kinds.contains(&loss.kind) {
            continue;
        }
        let every = if full { 1 } else { count.pages.div_ceil(most) };
        for way in WAYS {
            let id = format!("{name}:{}:{way:?}", page.0);
            if only.as_ref().map_or(i % every != 0, |only| *only != id) {
                continue;
            }
            if !rest.clean && loss.kind == "allocation record" {
                continue;
            }
            if way == Way::Silent && is_unseen(&rest.chip, loss) {
                continue;
            }
            count.cases += 1;
            match case(rest, *page, loss, way) {
                Ok(errors) => {
                    count.with_errors += usize::from(errors.any());
                    count.objects += errors.objects;
                    count.file_pages += errors.pages;
                }
                Err(e) => count.failures.push(format!("{id}: {e}")),
            }
        }
    }
    println!(
        "{name}: {:18} {:>6} {:>6} {:>12} {:>8} {:>10}",
        "kind of page", "pages", "cases", "with errors", "objects", "file pages"
    );
    let mut failures = Vec::new();
    for (kind, c) in counts {
        println!(
            "{name}: {kind:18} {:>6} {:>6} {:>12} {:>8} {:>10}",
            c.pages, c.cases, c.with_errors, c.objects, c.file_pages
        );
        let n = c.failures.len();
        if let Some(first) = c.failures.into_iter().next() {
            failures.push(format!(
                "{kind}: {n} of {} cases fail, first {first}",
                c.cases
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Whether nothing can tell that a page's bits have flipped.
fn is_unseen(chip: &SimNand, loss: &Loss) -> bool {
    loss.kind == "file data" && chip.geometry().spare_size() < 24
}

#[test]
fn every_page_of_a_small_volume() {
    every_page(
        "small",
        &[],
        20,
        &unmounted(small_volume((1024, 40, 16, 160))),
    );
}

#[test]
fn every_page_of_files_with_many_names() {
    let shape = (1024, 40, 16, 160);
    every_page("names", &[], 20, &unmounted(linked_volume(shape)));
    every_page("names cut", &[], 20, &cut(linked_volume(shape)));
}

/// Unmounted, and cut: updates are found by their tags then.
#[test]
fn every_page_with_short_tags() {
    let shape = (1024, 24, 16, 160);
    every_page("short", &[], 20, &unmounted(small_volume(shape)));
    every_page("short cut", &[], 20, &cut(small_volume(shape)));
}

#[test]
fn every_page_without_spare_bytes() {
    let shape = (1024, 0, 16, 160);
    every_page("bare", &[], 20, &unmounted(small_volume(shape)));
}

#[test]
fn index_pages_and_what_is_below() {
    let rest = unmounted(large_volume((1024, 40, 32, 300)));
    let kinds = ["hash index", "hash map", "extent index", "extent map"];
    every_page("large", &kinds, 2, &rest);
}

#[test]
fn every_page_after_a_power_cut() {
    every_page("cut", &[], 20, &cut(small_volume((1024, 40, 16, 160))));
}

/// A page of an inode written since the checkpoint is lost, and the power goes: what was synced
/// before and after it is there, and the mount tells of it.
#[test]
fn what_was_synced_after_a_lost_page_is_there() {
    for (again, files) in [false, true]
        .into_iter()
        .flat_map(|a| (2..9).map(move |n| (a, n)))
    {
        for lost in 0..files - 1 {
            let mut fs = common::formatted(common::chip(2048, 64, 64, 64));
            let root = fs.root();
            common::file(&mut fs, root, b"before", 100);
            if again {
                fs = common::remount(fs);
            } else {
                fs.sync().unwrap();
            }
            let name = |n: u64| format!("file {n}");
            for n in 0..files {
                common::file(&mut fs, root, name(n).as_bytes(), 100);
            }
            for page in pages_with(fs.volume().nand().get(), name(lost).as_bytes()) {
                spoil(fs.volume().nand_mut().get_mut(), page, Way::Lost);
            }
            let mut fs = common::cut(fs);
            let case = format!("page {lost} of {files}, {again}");
            for n in (0..files).filter(|&n| n != lost) {
                let found = fs.lookup(root, name(n).as_bytes());
                assert_eq!(found.map(|node| node.size), Ok(100), "{case}, {n}");
            }
            assert!(fs.lookup(root, b"before").is_ok(), "{case}");
            assert!(fs.volume().lost_change().is_some(), "{case}");
        }
    }
}

/// Every record of the allocation log since the checkpoint is lost, one at a time, and the power
/// goes: what was synced is there, also after as much has been written again. With tags of every
/// kind and without, after a sync and in a new session.
#[test]
fn what_was_synced_is_there_without_a_record_of_the_allocation_log() {
    const ALLOC: u8 = 4;
    const CHECKPOINT: u8 = 3;
    let bytes = |n: u64| vec![n as u8 + 1; 30_000];
    let write = |fs: &mut Fs, n: u64| {
        let dir = format!("d{}", n % 3);
        let dir = path::mkdir_p(fs, dir.as_bytes(), &NewInode::default()).unwrap();
        let name = format!("f{n}");
        let new = fs.create(dir.ino, name.as_bytes(), &NewInode::default());
        let ino = new.unwrap().ino;
        fs.write(ino, 0, &vec![0; 30_000], NOW).unwrap();
        fs.fsync(ino).unwrap();
        for (k, page) in bytes(n).chunks(2048).enumerate() {
            fs.write(ino, k as u64 * 2048, page, NOW).unwrap();
            fs.fsync(ino).unwrap();
        }
        fs.fsync(dir.ino).unwrap();
    };
    for (spare, again) in [(64, false), (64, true), (24, false), (0, false)] {
        let mut fs = common::formatted(common::chip(2048, spare, 16, 256));
        write(&mut fs, 0);
        if again {
            fs = common::remount(fs);
        } else {
            fs.sync().unwrap();
        }
        (1..24).for_each(|n| write(&mut fs, n));
        let chip = fs.volume().nand().get::<SimNand>().clone();
        let records = newer(&chip, ALLOC, CHECKPOINT);
        assert!(records.len() > 5, "{} records", records.len());
        for record in records {
            let mut chip = chip.clone();
            spoil(&mut chip, record, Way::Lost);
            let mut fs = common::mount(chip);
            let case = format!("spare {spare}, {again}, record at page {}", record.0);
            common::clean(&mut fs);
            for round in 0..2 {
                for n in 0..24 {
                    let path = format!("d{}/f{n}", n % 3);
                    let found = path::read_file(&mut fs, path.as_bytes());
                    assert!(found == Ok(bytes(n)), "{case}, round {round}, file {n}");
                }
                (0..40).for_each(|n| write(&mut fs, 100 * (round + 1) + n));
                fs.sync().unwrap();
            }
            common::clean(&mut fs);
        }
    }
}

/// The program of a page, a directory's among them, is cut; it cannot be read at first, can be for
/// a while, and then no more. As the chip is large, many blocks are reserved for files, and looked
/// into as well. What a mount has believed it has written anew.
#[test]
fn a_page_whose_program_was_cut_is_read_late_and_no_more() {
    let mut fs = common::formatted(common::chip(1024, 64, 32, 640));
    let root = fs.root();
    let name = |n: u64| format!("f{n}");
    for n in 0..10 {
        common::file(&mut fs, root, name(n).as_bytes(), 3000);
    }
    fs.sync().unwrap();
    for n in 0..3 {
        common::file(&mut fs, root, format!("g{n}").as_bytes(), 3000);
    }
    let chip = try_unmount(fs).unwrap();
    for (late, reads, after) in
        (0..4).flat_map(|late| (0..4).flat_map(move |reads| (0..8).map(move |n| (late, reads, n))))
    {
        let cut = Cut {
            after,
            program: Tear::Fitful { late, reads },
            erase: EraseTear::NotBegun,
            seed: 0,
        };
        let mut torn = PowerCut::new(chip.clone(), cut);
        let mut fs = try_mount_lent(&mut torn, Config::default()).unwrap();
        let _ = fs.unlink(root, b"f0", NOW).and_then(|()| fs.fsync(root));
        let _ = fs.unlink(root, b"f1", NOW).and_then(|()| fs.fsync(root));
        drop(fs);
        let mut fs = common::mount(torn.into_inner());
        for mount in 0..3 {
            for n in 2..10 {
                let found = path::read_file(&mut fs, name(n).as_bytes());
                let case = format!("{cut:?}, mount {mount}, file {n}");
                assert!(found.is_ok_and(|bytes| bytes.len() == 3000), "{case}");
            }
            fs = common::cut(fs);
        }
    }
}

/// A chip whose free blocks hold what files were: pages of 1 KiB, 8 in a block.
fn used_chip(spare: u32) -> SimNand {
    let mut fs = common::formatted(common::chip(1024, spare, 8, 460));
    let bytes = fs.statfs().unwrap().blocks_free * 1024 / 10 * 9;
    for round in 0..2 {
        common::write_and_remove(&mut fs, bytes, &[0xaa + round; 32 << 10]);
    }
    try_unmount(fs).unwrap()
}

/// Files of nine pages, of one byte or of 0xff alone.
struct Files {
    blank: bool,
}

impl Files {
    fn bytes(&self, n: u64) -> Vec<u8> {
        let byte = (n % 250) as u8 + 1;
        vec![if self.blank { 0xff } else { byte }; 9000]
    }

    fn write(&self, fs: &mut LentFs<'_>, n: u64) -> Result<(), Error> {
        let root = fs.root();
        let name = format!("f{n}");
        let ino = fs.create(root, name.as_bytes(), &NewInode::default())?.ino;
        fs.write(ino, 0, &self.bytes(n), NOW)?;
        fs.fsync(ino)
    }

    /// The first `there` of them are, also after as much has been written again.
    fn judge(&self, fs: &mut Fs, there: u64, case: &str) {
        common::clean(fs);
        for round in 0..2 {
            for n in 0..there {
                let found = path::read_file(fs, format!("f{n}").as_bytes());
                assert!(
                    found == Ok(self.bytes(n)),
                    "{case}, round {round}, file {n}"
                );
            }
            (0..220).for_each(|n| self.write(fs, 1000 * (round + 1) + n).unwrap_or(()));
            fs.sync().unwrap();
            for n in 0..220 {
                let name = format!("f{}", 1000 * (round + 1) + n);
                let _ = fs.unlink(fs.root(), name.as_bytes(), NOW);
            }
        }
        common::clean(fs);
    }
}

/// The program of a record of the allocation log is cut on a chip whose free blocks are full of old
/// data: what was synced is there, with tags and without.
#[test]
fn a_record_of_the_allocation_log_is_cut_on_a_chip_in_use() {
    let files = Files { blank: false };
    for spare in [0, 24] {
        let base = used_chip(spare);
        let mut trace = Trace::new(base.clone(), usize::MAX);
        let mut fs = try_mount_lent(&mut trace, Config::default()).unwrap();
        (0..40).for_each(|n| files.write(&mut fs, n).unwrap());
        drop(fs);
        let ops = trace.take();
        let mut end = trace.into_inner();
        let (mut cuts, mut after) = (0, 0);
        for op in ops {
            let mut head = [0; 32];
            match op.kind {
                OpKind::Program { page, .. } => {
                    end.read(page, 0, &mut head, &mut []).unwrap();
                }
                OpKind::Erase(_) | OpKind::MarkBad(_) => {}
                _ => continue,
            }
            after += 1;
            if &head[4..6] != b"FL" || ![4, 5].contains(&head[6]) {
                continue;
            }
            cuts += 1;
            let cut = Cut {
                after: after - 1,
                program: Tear::Garbage,
                erase: EraseTear::NotBegun,
                seed: 1,
            };
            let mut torn = PowerCut::new(base.clone(), cut);
            let mut there = 0;
            let mut fs = try_mount_lent(&mut torn, Config::default()).unwrap();
            while files.write(&mut fs, there).is_ok() {
                there += 1;
            }
            drop(fs);
            let mut fs = common::mount(torn.into_inner());
            files.judge(
                &mut fs,
                there,
                &format!("spare {spare}, cut in {}", after - 1),
            );
        }
        assert!(cuts > 5, "{cuts} cuts");
    }
}

/// One record of the allocation log rots on such a chip: also where the files' data
/// looks as if it were erased.
#[test]
fn a_record_of_the_allocation_log_is_lost_on_a_chip_in_use() {
    for (spare, blank) in [(0, false), (24, true), (24, false), (0, true)] {
        let files = Files { blank };
        let mut fs = common::mount(used_chip(spare));
        (0..40).for_each(|n| files.write(&mut fs, n).unwrap());
        let chip = fs.volume().nand().get::<SimNand>().clone();
        for record in newer(&chip, 4, 3) {
            let mut chip = chip.clone();
            spoil(&mut chip, record, Way::Lost);
            let case = format!("spare {spare}, blank {blank}, record at {}", record.0);
            files.judge(&mut common::mount(chip), 40, &case);
        }
    }
}
