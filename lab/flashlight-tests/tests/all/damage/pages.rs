//! Which pages of a chip are in use, for what, and what depends on each.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use flashkit_flashlight::inspect::{FileName, Inspected, Record, Target, data_tag, inspect};
use flashkit_flashlight::{Area, BlockState, Page, Visitor};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::SimNand;
use flashkit_vfs::{FileKind, FileSystem, Ino, path};

use super::tree::{Object, Tree};
use crate::common::Fs;

/// What may be lost with a page. What is not named here must be found as it was.
#[derive(Clone, Debug, Default)]
pub struct Loss {
    /// Kind of the page.
    pub kind: &'static str,
    /// These, and all below, may give errors.
    pub paths: BTreeSet<String>,
    /// Of these files, these pages (from, to) may.
    pub parts: BTreeMap<String, (u32, u32)>,
    /// Directories of which not all names can be known: an absent name may give an error.
    pub dirs: BTreeSet<String>,
    /// Names that were removed may be back.
    pub stale: bool,
    /// What is lost may be as it was at the last checkpoint, or not be there.
    pub older: bool,
}

impl Loss {
    fn of(kind: &'static str) -> Loss {
        Loss {
            kind,
            ..Loss::default()
        }
    }

    /// Whether an object may give errors.
    pub fn has(&self, path: &str) -> bool {
        let mut at = path;
        loop {
            if self.paths.contains(at) {
                return true;
            }
            match at.rsplit_once('/') {
                Some((above, _)) => at = above,
                None => return !at.is_empty() && self.paths.contains(""),
            }
        }
    }

    /// Whether changes of an object may give errors.
    pub fn concerns(&self, path: &str) -> bool {
        self.has(path) || self.parts.contains_key(path)
    }

    /// Follows a file to another name.
    pub fn rename(&mut self, from: &str, to: &str) {
        if self.paths.remove(from) {
            self.paths.insert(to.into());
        }
        if let Some(part) = self.parts.remove(from) {
            self.parts.insert(to.into(), part);
        }
    }

    /// Whether a page of a file may.
    pub fn has_page(&self, path: &str, index: u32) -> bool {
        let part = self.parts.get(path);
        self.has(path) || part.is_some_and(|p| (p.0..p.1).contains(&index))
    }
}

#[derive(Default)]
struct Walk(Vec<Page>);

impl Visitor for Walk {
    fn page(&mut self, page: Page) {
        self.0.push(page);
    }
    fn problem(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        panic!("page {}, inode {ino}: {what}", page.0);
    }
}

/// Paths by inode number.
type Paths = HashMap<u32, Vec<String>>;

fn paths(fs: &mut Fs, dir: Ino, at: &str, out: &mut Paths) {
    out.entry(dir as u32).or_default().push(at.into());
    for entry in path::list(fs, dir).unwrap() {
        let name = String::from_utf8(entry.name).unwrap();
        let path = if at.is_empty() {
            name
        } else {
            format!("{at}/{name}")
        };
        match entry.kind {
            FileKind::Dir => paths(fs, entry.ino, &path, out),
            _ => out.entry(entry.ino as u32).or_default().push(path),
        }
    }
}

/// Every page of a mounted volume that was ever programmed, with what depends on it.
pub fn losses(fs: &mut Fs, tree: &Tree) -> Vec<(PageAddr, Loss)> {
    let mut walk = Walk::default();
    fs.volume().walk(&mut walk).unwrap();
    let mut names = Paths::new();
    let root = fs.root();
    paths(fs, root, "", &mut names);
    let geo = fs.volume().nand().geometry();
    let used: HashMap<u32, Page> = walk.0.iter().map(|p| (p.page.0, *p)).collect();
    let mut chip = fs.volume().nand().get::<SimNand>().clone();
    let sight = Sight {
        used: &used,
        names: &names,
        tree,
    };
    let mut out = Vec::new();
    for page in (0..geo.pages()).map(PageAddr) {
        let mut data = vec![0; geo.page_size() as usize];
        let mut spare = vec![0; geo.spare_size() as usize];
        let status = chip.read(page, 0, &mut data, &mut spare).unwrap();
        let block = geo.block_of(page).0;
        if !status.is_readable()
            || matches!(
                fs.volume().block_state(block),
                BlockState::Free | BlockState::Clean
            )
        {
            continue;
        }
        let loss = match used.get(&page.0) {
            Some(page) => sight.loss(&mut chip, *page, &data, &spare),
            None => match inspect(&geo, &data, page) {
                Inspected::Erased => continue,
                Inspected::Record(_, Record::Root(_)) => Loss::of("root"),
                Inspected::Record(_, Record::Second { .. }) => Loss::of("second level"),
                Inspected::Record(_, Record::Checkpoint(_)) => Loss::of("checkpoint"),
                Inspected::Record(_, Record::Snapshot(_)) => Loss::of("block table"),
                Inspected::Record(_, Record::Alloc(_)) => Loss::of("allocation record"),
                _ => Loss::of("obsolete"),
            },
        };
        out.push((page, loss));
    }
    out
}

struct Sight<'a> {
    used: &'a HashMap<u32, Page>,
    names: &'a Paths,
    tree: &'a Tree,
}

impl Sight<'_> {
    fn loss(&self, chip: &mut SimNand, page: Page, data: &[u8], spare: &[u8]) -> Loss {
        let geo = chip.geometry();
        let record = inspect(&geo, data, page.page);
        let all = self.names.get(&page.ino).cloned().unwrap_or_default();
        match (page.area, &record) {
            (Area::DirMap, _) => Loss::of("directory map"),
            (Area::Table, _) => Loss::of("page of the block table"),
            (Area::Dir, _) if page.ino == 1 => Loss::of("root directory"),
            (Area::Dir, _) if page.ino == 2 => Loss::of("index directory"),
            (Area::Dir, _) => Loss {
                paths: all.into_iter().collect(),
                ..Loss::of("directory")
            },
            (Area::File, _) => Loss {
                dirs: all.iter().map(|p| super::tree::parent(p).into()).collect(),
                paths: all.into_iter().collect(),
                ..Loss::of("file")
            },
            (Area::HashMap, Inspected::Record(_, Record::HashMap(map))) => Loss {
                paths: map.names().flat_map(|e| self.named(&e)).collect(),
                dirs: all.into_iter().collect(),
                ..Loss::of("hash map")
            },
            (Area::HashMap, Inspected::Record(_, Record::HashIndex(index))) => {
                let mut loss = Loss::of("hash index");
                for (_, at) in index.pointers() {
                    let mut data = vec![0; data.len()];
                    chip.read(at, 0, &mut data, &mut []).unwrap();
                    let Inspected::Record(_, Record::HashMap(map)) = inspect(&geo, &data, at)
                    else {
                        panic!("{at:?} is no hash map")
                    };
                    loss.paths.extend(map.names().flat_map(|e| self.named(&e)));
                }
                loss.dirs = all.into_iter().collect();
                loss
            }
            (Area::ExtentMap, Inspected::Record(_, Record::ExtentMap(map))) => Loss {
                parts: all.into_iter().map(|path| (path, map.range())).collect(),
                ..Loss::of("extent map")
            },
            (Area::ExtentMap, Inspected::Record(_, Record::ExtentIndex(map))) => Loss {
                parts: all.into_iter().map(|path| (path, map.range())).collect(),
                ..Loss::of("extent index")
            },
            (Area::Names, Inspected::Record(_, Record::Names(map))) => {
                let paths: BTreeSet<String> = map.file_names().map(|n| self.path(n)).collect();
                Loss {
                    dirs: paths
                        .iter()
                        .map(|p| super::tree::parent(p).into())
                        .collect(),
                    paths,
                    ..Loss::of("names")
                }
            }
            (Area::Data, _) => self.data(chip, page, data, spare),
            _ => panic!("{page:?} is no such page"),
        }
    }

    fn path(&self, name: FileName<'_>) -> String {
        let FileName::Name { dir, name } = name else {
            panic!("a names page leads to another")
        };
        let name = std::str::from_utf8(name).unwrap();
        match self.names[&dir][0].as_str() {
            "" => name.into(),
            above => format!("{above}/{name}"),
        }
    }

    /// What an entry of a hash map names, unless the directory's log has the entry's last word.
    fn named(&self, entry: &flashkit_flashlight::inspect::NameEntry) -> Vec<String> {
        let ino = match entry.target {
            Target::Dir | Target::Indirect => entry.pointer,
            Target::File | Target::Orphan => match self.used.get(&entry.pointer) {
                Some(page) if page.area == Area::File => page.ino,
                _ => return Vec::new(),
            },
        };
        self.names.get(&ino).cloned().unwrap_or_default()
    }

    /// A page of file data: its place in the file is in its tag, or else found by its contents.
    fn data(&self, chip: &SimNand, page: Page, data: &[u8], spare: &[u8]) -> Loss {
        let mut loss = Loss::of("file data");
        for path in &self.names[&page.ino] {
            let index = match data_tag(data, spare) {
                Some(tag) => tag.index,
                None => {
                    let (Object::File(bytes) | Object::Link(bytes)) = &self.tree[path] else {
                        panic!("{path} is no file")
                    };
                    let pages = bytes.chunks(chip.geometry().page_size() as usize);
                    let found = pages.enumerate().find(|(_, p)| *p == &data[..p.len()]);
                    found.expect("the page is one of the file's").0 as u32
                }
            };
            loss.parts.insert(path.clone(), (index, index + 1));
        }
        loss
    }
}
