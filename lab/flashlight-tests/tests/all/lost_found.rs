//! A repair makes a volume whole, whichever page has rotted: it is clean then, and everything whose
//! own pages are as they were is there with its contents, in `lost+found` at the worst.
//!
//! A failure names the page: `FLASHKIT_ROT=volume:page` runs it alone. `FLASHKIT_ROT_FULL=1` takes
//! every page in use.

use std::collections::BTreeMap;

use flashkit_flashlight::{Area, Config, LOST_FOUND, Page, Visitor};
use flashkit_nand::PageAddr;
use flashkit_sim::{Cut, EraseTear, PowerCut, Rot, SimNand, Tear};
use flashkit_vfs::check::{check, repair};
use flashkit_vfs::{FileSystem, Ino, NewInode, path};

use crate::common::{Fs, NOW, chip, formatted, try_mount, try_mount_lent, try_unmount};
use crate::damage::pages::{Loss, losses};
use crate::damage::rot::{WAYS, Way, spoil};
use crate::damage::tree::{Object, Tree, Volume, parent};
use crate::rot::{large_volume, linked_volume, small_volume};

/// A volume at rest, with the numbers of what it holds.
struct Rest {
    chip: SimNand,
    tree: Tree,
    inos: BTreeMap<String, Ino>,
    losses: Vec<(PageAddr, Loss)>,
}

impl Rest {
    fn of(v: Volume) -> Rest {
        let tree = v.tree.clone();
        let chip = try_unmount(v.fs).unwrap();
        let mut fs = try_mount(chip.clone(), Config::default()).unwrap();
        let ino = |at: &String| path::resolve(&mut fs, at.as_bytes()).unwrap().ino;
        let inos = tree.keys().cloned().zip(tree.keys().map(ino)).collect();
        let losses = losses(&mut fs, &tree);
        Rest {
            chip,
            tree,
            inos,
            losses,
        }
    }

    /// Where an object may be: at its place, or there with what is above it.
    fn places(&self, at: &str) -> Vec<String> {
        let mut places = vec![at.to_owned()];
        let (mut above, mut below) = (at, String::new());
        while !above.is_empty() {
            let lost = String::from_utf8_lossy(LOST_FOUND);
            places.push(format!("{lost}/#{}{below}", self.inos[above]));
            let name = above.rsplit('/').next().unwrap();
            below = format!("/{name}{below}");
            above = parent(above);
        }
        places
    }

    /// The names of one object: what is lost of them may be all but one.
    fn same<'a>(&'a self, at: &str) -> impl Iterator<Item = &'a String> {
        let ino = self.inos[at];
        let is = move |held: &(&String, &Ino)| *held.1 == ino;
        self.inos.iter().filter(is).map(|held| held.0)
    }

    /// Whether an object is in one of its places, as it was.
    fn is_there(&self, fs: &mut Fs, at: &str, loss: &Loss) -> bool {
        let is = |fs: &mut Fs, place: &str| {
            let found = path::resolve(fs, place.as_bytes()).ok()?;
            Some(match &self.tree[at] {
                Object::Dir => found.ino == self.inos[at],
                Object::Link(target) => fs.readlink(found.ino).ok()? == *target,
                Object::File(bytes) => {
                    let pages = loss.parts.contains_key(at);
                    pages || path::read_file(fs, place.as_bytes()).ok()? == *bytes
                }
            })
        };
        let mut places = self.same(at).flat_map(|at| self.places(at));
        places.any(|place| is(fs, &place) == Some(true))
    }

    fn case(&self, page: PageAddr, loss: &Loss, way: Way) -> Result<(), String> {
        let mut chip = self.chip.clone();
        spoil(&mut chip, page, way);
        let mut fs = try_mount(chip, Config::default())?;
        if check(fs.volume())?.findings.is_empty() {
            return Ok(());
        }
        self.repaired(fs, loss)
    }

    /// Repairs a volume, and looks at it after another mount.
    fn repaired(&self, mut fs: Fs, loss: &Loss) -> Result<(), String> {
        repair(fs.volume()).map_err(|e| format!("repair: {e}"))?;
        let mut fs = try_mount(try_unmount(fs)?, Config::default())?;
        let left = check(fs.volume())?.findings;
        // Nothing says what data these mapped.
        let is_data = |what: &str| what.contains("extent");
        if let Some(finding) = left.iter().find(|finding| !is_data(&finding.what)) {
            return Err(format!("is left: {finding:?}"));
        }
        for at in self.tree.keys() {
            // Of a map, what it leads to is not lost with it.
            let own = ["directory", "file"].contains(&loss.kind);
            let may_go = own && loss.paths.contains(at);
            if !may_go && !self.is_there(&mut fs, at, loss) {
                return Err(format!("{at} is not there"));
            }
        }
        // It takes changes.
        let lost = path::resolve(&mut fs, b"/").unwrap().ino;
        fs.create(lost, b"new", &NewInode::default())
            .map_err(|e| format!("create: {e}"))?;
        fs.sync().map_err(|e| format!("sync: {e}"))?;
        let again = check(fs.volume())?.findings;
        match again.iter().find(|finding| !is_data(&finding.what)) {
            Some(finding) => Err(format!("after a change: {finding:?}")),
            None => Ok(()),
        }
    }
}

/// Every page in use, of each kind so many.
fn every_page(name: &str, most: usize, rest: &Rest) {
    let full = std::env::var_os("FLASHKIT_ROT_FULL").is_some();
    let only = std::env::var("FLASHKIT_ROT").ok();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut failed = Vec::new();
    for (page, loss) in &rest.losses {
        let id = format!("{name}:{}", page.0);
        let n = seen.entry(loss.kind).or_default();
        *n += 1;
        let passed = match &only {
            Some(only) => *only != id,
            None => !full && *n > most,
        };
        if passed || loss.kind == "obsolete" {
            continue;
        }
        for way in WAYS {
            if let Err(what) = rest.case(*page, loss, way) {
                failed.push(format!(
                    "FLASHKIT_ROT={id} ({}, {way:?}): {what}",
                    loss.kind
                ));
            }
        }
    }
    assert!(seen["directory"] > 0);
    assert!(
        failed.is_empty(),
        "{} cases:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn a_small_volume_is_made_whole() {
    every_page("small", 12, &Rest::of(small_volume((1024, 40, 16, 160))));
}

#[test]
fn a_volume_without_spare_bytes_is_made_whole() {
    every_page("bare", 8, &Rest::of(small_volume((1024, 0, 16, 160))));
}

#[test]
fn files_of_many_names_are_made_whole() {
    every_page("links", 12, &Rest::of(linked_volume((1024, 40, 16, 160))));
}

#[test]
fn index_pages_are_made_whole() {
    let large = Rest::of(large_volume((1024, 40, 32, 400)));
    every_page("large", 1, &large);
}

/// The power is cut at each operation of a repair that puts a directory and files there.
#[test]
fn a_repair_may_be_cut() {
    let rest = Rest::of(small_volume((1024, 40, 16, 160)));
    let mut done = 0;
    for kind in ["directory", "hash map"] {
        // Of directories the one with the most below it.
        let of_kind = rest.losses.iter().filter(|(_, loss)| loss.kind == kind);
        let below = |loss: &Loss| rest.tree.keys().filter(|at| loss.has(at)).count();
        let (page, loss) = of_kind.max_by_key(|(_, loss)| below(loss)).unwrap();
        let mut chip = rest.chip.clone();
        spoil(&mut chip, *page, Way::Lost);
        for after in 0.. {
            let cut = Cut {
                after,
                program: Tear::Random,
                erase: EraseTear::Partial,
                seed: after,
            };
            let mut torn = PowerCut::new(chip.clone(), cut);
            let mut fs = try_mount_lent(&mut torn, Config::default()).unwrap();
            let whole = repair(fs.volume()).is_ok();
            drop(fs);
            if whole {
                break;
            }
            done += 1;
            let fs = try_mount(torn.into_inner(), Config::default());
            let looked = fs.and_then(|fs| rest.repaired(fs, loss));
            assert_eq!(looked, Ok(()), "{kind}, cut after {after}");
        }
    }
    assert!(done > 20, "{done} cuts");
}

/// Something else has the names that a repair gives: the directory, and what is below it.
#[test]
fn names_that_are_taken_keep_no_file_from_being_found_again() {
    for taken in ["file", "link", "number"] {
        let mut fs = formatted(chip(2048, 40, 32, 128));
        let (root, new) = (fs.root(), NewInode::default());
        let dir = fs.mkdir(root, b"dir", &new).unwrap().ino;
        let below = fs.mkdir(dir, b"below", &new).unwrap().ino;
        let file = fs.create(below, b"file", &new).unwrap().ino;
        fs.write(file, 0, b"precious", NOW).unwrap();
        let name = match taken {
            "file" => {
                fs.create(root, LOST_FOUND, &new).unwrap();
                format!("lost+found.2/#{below}/file")
            }
            "link" => {
                fs.symlink(root, LOST_FOUND, b"elsewhere", &new).unwrap();
                format!("lost+found.2/#{below}/file")
            }
            _ => {
                let lost = fs.mkdir(root, LOST_FOUND, &new).unwrap().ino;
                fs.create(lost, format!("#{below}").as_bytes(), &new)
                    .unwrap();
                format!("lost+found/#{below}.2/file")
            }
        };
        fs.sync().unwrap();
        let mut pages = Dirs::default();
        fs.volume().walk(&mut pages).unwrap();
        let page = pages.0[&(dir as u32)];
        let mut chip = try_unmount(fs).unwrap();
        assert!(chip.rot(page, Rot::Lost).unwrap());
        let mut fs = try_mount(chip, Config::default()).unwrap();
        repair(fs.volume()).unwrap();
        assert_eq!(check(fs.volume()).unwrap().findings, [], "{taken}");
        let found = path::read_file(&mut fs, name.as_bytes());
        assert_eq!(found, Ok(b"precious".to_vec()), "{taken}");
    }
}

/// The page of each directory.
#[derive(Default)]
struct Dirs(BTreeMap<u32, PageAddr>);

impl Visitor for Dirs {
    fn page(&mut self, page: Page) {
        if page.area == Area::Dir {
            self.0.insert(page.ino, page.page);
        }
    }

    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}
}
