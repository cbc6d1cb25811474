//! Files that a lost page of a directory alone has led to, or a lost record of a change.
//!
//! Their inodes say that they are in a directory that cannot be read, is none any more, or has lost
//! the map that would lead to them; or in one where another has their name since, and whether they
//! were renamed or removed before is lost. They are found by a look at all metadata pages of blocks
//! of which more pages count as valid than the walk has seen in use. What was removed, or replaced
//! by a newer page, counts as valid no more: a page is only taken for a file's if its block has
//! room for it by that count.

use std::collections::{BTreeMap, BTreeSet};

use flashkit_flashlight::inspect::{FileEntry, Inspected, Record, data_tag, inspect};
use flashkit_flashlight::{Area, BlockState, Error, FlashLight, Page, Visitor};
use flashkit_nand::{Nand, PageAddr};

/// What a walk has seen.
#[derive(Default)]
struct Seen {
    pages: BTreeSet<u32>,
    files: BTreeSet<u32>,
    /// Directories that can be read.
    dirs: BTreeSet<u32>,
}

impl Visitor for Seen {
    fn page(&mut self, page: Page) {
        self.pages.insert(page.page.0);
        match page.area {
            Area::Dir => self.dirs.insert(page.ino),
            Area::File => self.files.insert(page.ino),
            _ => false,
        };
    }

    fn problem(&mut self, _: PageAddr, _: u32, _: &'static str) {}

    fn damaged(&mut self, _: PageAddr, ino: u32, what: &'static str) {
        if what == "directory" {
            self.dirs.remove(&ino);
        }
    }
}

/// A file's inode that nothing leads to.
struct Candidate {
    seq: u64,
    page: PageAddr,
    ino: u32,
    /// What else it takes: pages of metadata, and of data.
    metadata: Vec<PageAddr>,
    data: Vec<PageAddr>,
}

/// Gives such files names in `lost+found`.
///
/// # Errors
/// The driver failed, or there is no space for that.
pub fn adopt<N: Nand>(fs: &mut FlashLight<'_, N>) -> Result<(), String> {
    let mut seen = Seen::default();
    fs.walk(&mut seen).map_err(|e| e.to_string())?;
    let mut unseen = unseen(fs, &seen);
    if unseen.is_empty() {
        return Ok(());
    }
    let mut found: Vec<Candidate> = candidates(fs, &seen, &unseen)?.into_values().collect();
    found.sort_by_key(|candidate| std::cmp::Reverse(candidate.seq));
    for candidate in found {
        if !is_whole(fs, &seen, &candidate)? || !take(fs, &mut unseen, &candidate) {
            continue;
        }
        // Of other errors: it stays where it is; others need not.
        if let Err(e @ (Error::Driver(_) | Error::NoSpace | Error::ReadOnly)) =
            fs.adopt(candidate.page)
        {
            return Err(e.to_string());
        }
    }
    Ok(())
}

/// How many pages of each block count as valid and were not seen.
fn unseen<N: Nand>(fs: &mut FlashLight<'_, N>, seen: &Seen) -> BTreeMap<u32, u32> {
    let geo = fs.nand().geometry();
    let mut unseen = BTreeMap::new();
    for block in 0..geo.blocks() {
        if let BlockState::Meta(n) | BlockState::Data(n) = fs.block_state(block) {
            let first = block * geo.pages_per_block();
            let used = seen.pages.range(first..first + geo.pages_per_block());
            let left = n.saturating_sub(used.count() as u32);
            if left > 0 {
                unseen.insert(block, left);
            }
        }
    }
    unseen
}

/// The newest page of each such inode, by its number.
fn candidates<N: Nand>(
    fs: &mut FlashLight<'_, N>,
    seen: &Seen,
    unseen: &BTreeMap<u32, u32>,
) -> Result<BTreeMap<u32, Candidate>, String> {
    let geo = fs.nand().geometry();
    let mut found: BTreeMap<u32, Candidate> = BTreeMap::new();
    let mut bytes = vec![0; geo.page_size() as usize];
    let lost = fs.lost_change().is_some();
    for block in unseen.keys() {
        if !matches!(fs.block_state(*block), BlockState::Meta(_)) {
            continue;
        }
        let first = block * geo.pages_per_block();
        for page in (first..first + geo.pages_per_block()).map(PageAddr) {
            if seen.pages.contains(&page.0) || fs.listed_valid(page) == Some(false) {
                continue;
            }
            let status = fs.nand_mut().read(page, 0, &mut bytes, &mut []);
            if !status.map_err(|e| format!("{e:?}"))?.is_readable() {
                continue;
            }
            let Inspected::Record(header, Record::File(file)) = inspect(&geo, &bytes, page) else {
                continue;
            };
            let fields = file.fields();
            if fields.indirect || fields.orphan || seen.files.contains(&fields.ino) {
                continue;
            }
            // Else it was removed; or the map that would lead to it cannot be read, or a record of
            // a change.
            if !lost
                && seen.dirs.contains(&fields.parent)
                && !matches!(
                    fs.lookup(fields.parent, fields.name),
                    Err(Error::Corrupt(..))
                )
            {
                continue;
            }
            let newer = found
                .get(&fields.ino)
                .is_some_and(|other| other.seq > header.seq);
            if !newer {
                let maps = file.pointers().map(|(_, at)| at);
                let data = file.entries().filter_map(|entry| match entry {
                    FileEntry::Extent { page, count, .. } => Some((page, count)),
                    _ => None,
                });
                let candidate = Candidate {
                    seq: header.seq,
                    page,
                    ino: fields.ino,
                    metadata: maps.chain(fields.attributes).collect(),
                    data: data
                        .flat_map(|(page, count)| {
                            (0..count.min(geo.pages())).map(move |n| (page, n))
                        })
                        .map(|(page, n)| PageAddr(page.0.saturating_add(n)))
                        .collect(),
                };
                found.insert(fields.ino, candidate);
            }
        }
    }
    Ok(found)
}

/// Whether nothing else uses its pages, and those of data say that they are its.
fn is_whole<N: Nand>(
    fs: &mut FlashLight<'_, N>,
    seen: &Seen,
    candidate: &Candidate,
) -> Result<bool, String> {
    let geo = fs.nand().geometry();
    let mut pages = candidate.metadata.iter().chain(&candidate.data);
    if pages.any(|page| !geo.contains(*page) || seen.pages.contains(&page.0)) {
        return Ok(false);
    }
    let mut bytes = vec![0; geo.page_size() as usize];
    let mut spare = vec![0; geo.spare_size() as usize];
    for page in &candidate.data {
        let status = fs.nand_mut().read(*page, 0, &mut bytes, &mut spare);
        if status.map_err(|e| format!("{e:?}"))?.is_readable()
            && data_tag(&bytes, &spare).is_some_and(|tag| tag.ino != candidate.ino)
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Counts its pages as seen; `false`, and nothing is changed: there are more than count as valid.
fn take<N: Nand>(
    fs: &FlashLight<'_, N>,
    unseen: &mut BTreeMap<u32, u32>,
    candidate: &Candidate,
) -> bool {
    let geo = fs.nand().geometry();
    let mut left = unseen.clone();
    let pages = candidate.metadata.iter().chain(&candidate.data);
    for page in pages.chain([&candidate.page]) {
        match left.get_mut(&geo.block_of(*page).0) {
            Some(n) if *n > 0 => *n -= 1,
            _ => return false,
        }
    }
    *unseen = left;
    true
}
