//! Cut after cut in a copy of a real tree: what was made durable is compared with the files that it
//! was copied from, byte by byte.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use flashkit_nand::Nand;
use flashkit_sim::{Counters, Metered, Rng};

use crate::again::{Round, Witness};
use crate::chip::Chip;
use crate::copying::{Copying, parent};
use crate::model::Model;
use crate::op::Op;
use crate::run::run;
use crate::seen::{Seen, SeenDir, SeenFile};
use crate::survive::PROBES;

/// The chip that trees are copied to: `slc-256m`.
pub const TREE_CHIP: Chip = Chip::new(2048, 40, 64, 2048);

/// Longer files are left out.
const FILE_MAX: u64 = 1 << 20;

/// A file of a tree.
#[derive(Clone, Debug)]
pub struct TreeFile {
    /// Its path below the top, names with a slash between them.
    pub path: String,
    /// What it holds.
    pub bytes: Arc<[u8]>,
}

/// Files that are copied, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// All of them.
    pub files: Vec<TreeFile>,
}

impl Tree {
    /// Reads the regular files below a directory, each of up to 1 MiB, as long as all of them have
    /// no more than `bytes`. Symbolic links, other kinds, and names that are no UTF-8 are left out.
    ///
    /// # Errors
    /// Something cannot be read.
    pub fn read(top: &Path, bytes: u64) -> io::Result<Tree> {
        let mut tree = Tree::default();
        let mut left = bytes;
        tree.add(top, "", &mut left)?;
        Ok(tree)
    }

    fn add(&mut self, dir: &Path, at: &str, left: &mut u64) -> io::Result<()> {
        let mut entries = std::fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_unstable_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let (path, kind) = (format!("{at}{name}"), entry.file_type()?);
            if kind.is_dir() {
                self.add(&entry.path(), &format!("{path}/"), left)?;
                continue;
            }
            let len = entry.metadata()?.len();
            if kind.is_file() && len <= FILE_MAX && len <= *left {
                let bytes: Arc<[u8]> = std::fs::read(entry.path())?.into();
                *left = left.saturating_sub(bytes.len() as u64);
                self.files.push(TreeFile { path, bytes });
            }
        }
        Ok(())
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes.len() as u64).sum()
    }
}

/// Cuts in a copy of a tree. Equal ones do the same.
#[derive(Clone, Debug)]
pub struct TreeCuts {
    /// The chip.
    pub chip: Chip,
    /// What all chance follows from.
    pub seed: u64,
    /// Cuts in a row; those in recoveries come on top.
    pub cuts: u64,
}

/// What has been found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TreeFound {
    /// Cuts of the work.
    pub cuts: u64,
    /// Cuts in recoveries.
    pub recovery_cuts: u64,
    /// Files that were durable at a cut and were compared with their source, and their bytes.
    pub durable_files: u64,
    /// Their bytes.
    pub durable_bytes: u64,
    /// Files read after a cut and compared with what they may hold, durable or not.
    pub files: u64,
    /// What has been done to the chip.
    pub counters: Counters,
    /// The cut, from 1, at which something was not as guaranteed, and what.
    pub violation: Option<(u64, String)>,
}

/// A file on the volume, by whatever names.
#[derive(Clone, Debug, Default)]
struct Copied {
    source: Option<Arc<[u8]>>,
    /// Bytes written so far, from the first on.
    written: usize,
    /// All of it is, and is durable.
    durable: bool,
}

impl Copied {
    fn settle(&mut self) {
        let whole = |source: &Arc<[u8]>| source.len() == self.written;
        self.durable = self.source.as_ref().is_some_and(whole);
    }
}

/// What has been copied and made durable.
struct Claims {
    page_size: usize,
    files: Vec<Copied>,
    /// The file that a name leads to, and whether the name is durable.
    names: BTreeMap<String, (usize, bool)>,
    compared: Cell<(u64, u64, u64)>,
}

impl Claims {
    /// The names that are this path or below it.
    fn below(&self, path: &str) -> Vec<String> {
        let is = |name: &&String| {
            name.strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.names.keys().filter(is).cloned().collect()
    }

    fn forget(&mut self, path: &str) {
        for name in self.below(path) {
            self.names.remove(&name);
        }
    }

    /// Takes the names away that are one path or below it; as they are, durable, at another.
    fn take(&mut self, from: &str, to: &str) -> Vec<(String, (usize, bool))> {
        let names = self.below(from).into_iter();
        let moved = names.filter_map(|name| {
            let (file, _) = self.names.remove(&name)?;
            Some((format!("{to}{}", &name[from.len()..]), (file, true)))
        });
        moved.collect()
    }

    fn file(&mut self, path: &str) -> Option<&mut Copied> {
        let (file, _) = self.names.get(path)?;
        self.files.get_mut(*file)
    }
}

impl Witness for Claims {
    fn done(&mut self, op: &Op) {
        match op {
            Op::Create(p) => {
                self.names.insert(p.clone(), (self.files.len(), false));
                self.files.push(Copied::default());
            }
            Op::Truncate(p, _) => {
                self.file(p).map(std::mem::take);
            }
            Op::Copy(p, piece) => {
                let Some(file) = self.file(p) else { return };
                file.durable = false;
                if file.written == piece.range.start {
                    (file.source, file.written) = (Some(piece.file.clone()), piece.range.end);
                }
            }
            Op::Fsync(p) => {
                if let Some(file) = self.file(p) {
                    file.settle();
                }
                if let Some(name) = self.names.get_mut(p) {
                    name.1 = true;
                }
            }
            Op::Sync | Op::Remount => {
                self.files.iter_mut().for_each(Copied::settle);
                self.names.values_mut().for_each(|name| name.1 = true);
            }
            Op::Rename(p, q) => {
                self.forget(q);
                let moved = self.take(p, q);
                self.names.extend(moved);
            }
            Op::Exchange(p, q) => {
                let moved = [self.take(p, q), self.take(q, p)];
                self.names.extend(moved.into_iter().flatten());
            }
            Op::Link(p, q) => {
                if let Some((file, _)) = self.names.get(p).copied() {
                    self.names.insert(q.clone(), (file, true));
                }
            }
            Op::Unlink(p) => self.forget(p),
            _ => {}
        }
    }

    fn cut(&mut self, op: &Op) {
        match op {
            Op::Truncate(p, _) | Op::Copy(p, _) => {
                self.file(p).map(std::mem::take);
            }
            Op::Unlink(p) => self.forget(p),
            // A directory's files are under the old name or under the new one: not looked for.
            Op::Rename(p, q) | Op::Exchange(p, q) => {
                [p, q].into_iter().for_each(|path| self.forget(path));
            }
            _ => {}
        }
        let files = &self.files;
        self.names.retain(|_, name| name.1 && files[name.0].durable);
    }

    fn holds(&self, seen: &SeenDir) -> Result<(), String> {
        let (mut durable, mut bytes, files) = self.compared.get();
        for (path, (file, _)) in &self.names {
            let Some(source) = &self.files[*file].source else {
                continue;
            };
            let found = find(seen, path).ok_or(format!("a durable file is not there: {path}"))?;
            if !found.content.is(source, self.page_size) {
                return Err(format!("a durable file is not as it was copied: {path}"));
            }
            durable += 1;
            bytes += source.len() as u64;
        }
        self.compared.set((durable, bytes, files + seen.files()));
        Ok(())
    }
}

fn find<'s>(mut dir: &'s SeenDir, path: &str) -> Option<&'s SeenFile> {
    let (above, name) = (parent(path), path.rsplit('/').next()?);
    for name in above.split('/').filter(|name| !name.is_empty()) {
        match dir.names.get(name)? {
            Seen::Dir(below) => dir = below,
            Seen::File(_) => return None,
        }
    }
    match dir.names.get(name)? {
        Seen::File(file) => Some(file),
        Seen::Dir(_) => None,
    }
}

impl TreeCuts {
    /// Flash operations between two cuts, at most.
    const WORK_MAX: u64 = 400;

    /// Cuts for as long as `more`, asked before each cut, says so, or to the first violation.
    pub fn run(&self, tree: &Tree, more: &mut dyn FnMut(&TreeFound) -> bool) -> TreeFound {
        let mut found = TreeFound::default();
        if let Err(what) = self.attempt(tree, more, &mut found) {
            found.violation = Some((found.cuts.max(1), what));
        }
        found
    }

    fn attempt(
        &self,
        tree: &Tree,
        more: &mut dyn FnMut(&TreeFound) -> bool,
        found: &mut TreeFound,
    ) -> Result<(), String> {
        let mut rng = Rng::keyed(self.seed, 9);
        let mut chip = self.chip.formatted()?;
        let page_size = chip.geometry().page_size() as usize;
        let mut model = Model::new(page_size);
        let mut copying = Copying::new(tree, self.seed);
        let mut claims = Claims {
            page_size,
            files: Vec::new(),
            names: BTreeMap::new(),
            compared: Cell::default(),
        };
        while found.cuts < self.cuts && more(found) {
            found.cuts += 1;
            let want = 1 + rng.below(Self::WORK_MAX) as usize;
            let mut round = Round {
                rng: &mut rng,
                config: self.chip.config(),
                want,
                so_far: 0,
                end: None,
                cuts: 0,
                text: String::new(),
                told: None,
                witness: Some(&mut claims),
            };
            let probes = PROBES.map(|name| Op::Unlink(name.to_owned()));
            let mut ops = probes.into_iter().chain(&mut copying);
            let ran = run(chip, &self.chip, &mut model, &mut ops, &mut round);
            let (text, cuts, end) = (round.text, round.cuts, round.end);
            found.recovery_cuts += cuts.saturating_sub(1);
            let end = match (ran, end) {
                (Err(what), _) => Err(what),
                (_, end) => end.unwrap_or(Err("nothing is written any more".into())),
            };
            let (seen, left) = end.map_err(|what| format!("{what} ({text})"))?;
            (found.durable_files, found.durable_bytes, found.files) = claims.compared.get();
            found.counters = left.counters();
            model.rebase(&seen);
            copying.rebase(&seen);
            chip = left;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_is_told() {
        let source: Arc<[u8]> = b"source".as_slice().into();
        let mut claims = Claims {
            page_size: 2048,
            files: Vec::new(),
            names: BTreeMap::new(),
            compared: Cell::default(),
        };
        let whole = crate::op::Piece {
            file: source,
            range: 0..6,
        };
        let path = || "d/a".to_owned();
        for op in [
            Op::Create(path()),
            Op::Copy(path(), whole),
            Op::Fsync(path()),
            Op::Rename("d".into(), "e".into()),
        ] {
            claims.done(&op);
        }
        claims.cut(&Op::Gc);
        let mut model = Model::new(2048);
        let seen = |bytes: &[u8]| {
            let mut content = crate::content::Content::of_zeros(bytes.len() as u64);
            let mut page = bytes.to_vec();
            page.resize(2048, 0);
            content.set_page(0, &page);
            let attrs = crate::model::attrs_of(1);
            let file = SeenFile {
                ino: 7,
                what: (flashkit_vfs::FileKind::File, 0),
                attrs: attrs.clone(),
                content,
            };
            let e = SeenDir {
                attrs: attrs.clone(),
                names: BTreeMap::from([("a".to_owned(), Seen::File(file))]),
            };
            SeenDir {
                attrs,
                names: BTreeMap::from([("e".to_owned(), Seen::Dir(e))]),
            }
        };
        model.rebase(&seen(b"source"));
        assert_eq!(claims.holds(&seen(b"source")), Ok(()));
        assert_eq!(claims.compared.get(), (1, 6, 1));
        for bytes in [&b"sourcE"[..], b"sourc", b"source "] {
            assert!(claims.holds(&seen(bytes)).unwrap_err().contains("e/a"));
        }
        let nothing = SeenDir {
            names: BTreeMap::new(),
            ..seen(b"")
        };
        assert!(claims.holds(&nothing).is_err());
        claims.cut(&Op::Unlink("e/a".into()));
        assert_eq!(claims.holds(&nothing), Ok(()));
    }
}
