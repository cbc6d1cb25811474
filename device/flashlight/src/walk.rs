//! Walks everything that is reachable, for checks and for the curious.

use crate::dirrec::Target;
use crate::error::Error;
use crate::extent::{self, Extent, INDEX_END};
use crate::header::Kind;
use crate::inode::FileView;
use crate::mappage::MapPage;
use crate::table::State;
use crate::{FlashLight, INDEX_DIR, ROOT_DIR};
use flashkit_nand::{Nand, PageAddr};

/// What a valid page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// A page of the DirInode map.
    DirMap,
    /// A directory.
    Dir,
    /// A hash map or an index page of hash maps.
    HashMap,
    /// A file.
    File,
    /// An extent map or an index page of extent maps.
    ExtentMap,
    /// File data.
    Data,
}

/// A valid page found by [`FlashLight::walk`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where.
    pub page: PageAddr,
    /// What.
    pub area: Area,
    /// The inode it belongs to; 0 for the DirInode map.
    pub ino: u32,
}

/// Is told what a walk finds.
pub trait Visitor {
    /// A page in use.
    fn page(&mut self, page: Page);
    /// Something is not as it must be.
    fn problem(&mut self, page: PageAddr, ino: u32, what: &'static str);
    /// A record that cannot be read, or is not what its place asks for.
    fn damaged(&mut self, page: PageAddr, ino: u32, what: &'static str) {
        self.problem(page, ino, what);
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// State of a block, for checks and statistics.
    pub fn block_state(&self, block: u32) -> State {
        if block >= self.store.table.blocks() {
            State::Bad
        } else {
            self.store.table.get(block)
        }
    }

    /// Whether the dirty list calls a page valid; `None` for a block that is not on it.
    pub fn listed_valid(&self, page: PageAddr) -> Option<bool> {
        let block = self.store.geo.block_of(page).0;
        let i = self.store.dirty.find(block)?;
        Some(self.store.dirty.is_valid(i, self.store.geo.index_of(page)))
    }

    /// Entries of the dirty list.
    pub fn dirty_blocks(&self) -> usize {
        self.store.dirty.len()
    }

    /// Valid pages by the running count.
    pub fn live_pages(&self) -> u32 {
        self.store.live
    }

    /// Visits every page in use. Reads all metadata, no file data; writes what is dirty first, so
    /// that nothing is written meanwhile.
    pub fn walk(&mut self, visitor: &mut dyn Visitor) -> Result<(), Error<N::Error>> {
        for i in 0..2 {
            self.flush_file(i)?;
        }
        for i in 0..2 {
            self.flush_dir(i)?;
        }
        self.flush_map()?;
        for i in 0..self.map.roots.len() / 4 {
            let page = self.map.root(i);
            if page.is_some() {
                visitor.page(Page {
                    page,
                    area: Area::DirMap,
                    ino: 0,
                });
            }
        }
        for ino in 1..self.map.end() {
            let page = self.map_get(ino)?;
            if page.is_some()
                && let Err(e) = self.walk_dir(ino, page, visitor)
            {
                report(e, page, ino, visitor)?;
            }
        }
        Ok(())
    }

    fn walk_dir(
        &mut self,
        ino: u32,
        page: PageAddr,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error<N::Error>> {
        let i = self.load_dir(ino)?;
        visitor.page(Page {
            page,
            area: Area::Dir,
            ino,
        });
        for p in 0..self.dirs[i].dir().pointers() {
            let at = self.dirs[i].dir().pointer(p).1;
            visitor.page(Page {
                page: at,
                area: Area::HashMap,
                ino,
            });
            if self.dirs[i].dir().levels() == 2 {
                self.load_scratch(at, Kind::HashIndex, "hash index")?;
                let index: MapPage<&mut [u8], 8> = MapPage(self.scratch);
                for r in 0..index.count().min(index.capacity()) {
                    let page = index.pointer(r).1;
                    visitor.page(Page {
                        page,
                        area: Area::HashMap,
                        ino,
                    });
                }
            }
        }
        self.walk_entries(ino, page, visitor)
    }

    fn walk_entries(
        &mut self,
        ino: u32,
        page: PageAddr,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error<N::Error>> {
        let (mut entries, mut subdirs) = (0u64, 0u32);
        let (mut hash, mut n) = (0, 0);
        loop {
            let Some(rec) = self.dir_nth(ino, hash, n)? else {
                match self.dir_next_hash(ino, hash + 1)? {
                    Some(next) => (hash, n) = (next, 0),
                    None => break,
                }
                continue;
            };
            n += 1;
            entries += 1;
            let at = PageAddr(rec.ptr);
            match rec.target {
                Target::Dir => {
                    subdirs += 1;
                    if self.map_get(rec.ptr).ok().is_none_or(PageAddr::is_none) {
                        visitor.problem(page, ino, "an entry leads to no directory");
                    } else {
                        let child = self.load_dir(rec.ptr)?;
                        let view = self.dirs[child].dir();
                        if view.parent() != ino
                            || crate::hash::name_hash(self.store.volume, view.name()) != hash
                        {
                            visitor.problem(page, ino, "an entry leads to another's directory");
                        }
                    }
                }
                Target::File | Target::Orphan => {
                    if let Err(e) = self.walk_file(at, ino, hash, visitor) {
                        report(e, at, ino, visitor)?;
                    }
                }
                Target::Indirect => {
                    let file = crate::FileRef {
                        ino: rec.ptr,
                        dir: INDEX_DIR,
                        hash: crate::hash::ino_hash(self.store.volume, rec.ptr),
                    };
                    if self.getattr(crate::Node::File(file)).is_err() {
                        visitor.problem(page, ino, "an entry leads to no file");
                    }
                }
            }
        }
        let i = self.load_dir(ino)?;
        let view = self.dirs[i].dir();
        if view.size() != entries {
            visitor.problem(page, ino, "the number of entries is wrong");
        }
        if view.nlink() != 2 + subdirs {
            visitor.problem(page, ino, "the number of subdirectories is wrong");
        }
        let parent = view.parent();
        if ino != ROOT_DIR && self.map_get(parent).ok().is_none_or(PageAddr::is_none) {
            visitor.problem(page, ino, "the parent directory does not exist");
        }
        Ok(())
    }

    fn walk_file(
        &mut self,
        at: PageAddr,
        dir: u32,
        hash: u32,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error<N::Error>> {
        self.load_scratch(at, Kind::File, "file inode")?;
        let ino = FileView::on(self.scratch).ino();
        let i = match self.file_slot(ino) {
            Some(i) => i,
            None => self.load_file_at(at)?,
        };
        let view = self.files[i].file();
        if view.holder(self.store.volume) != (dir, hash) || self.files[i].loc != at {
            visitor.problem(at, ino, "the entry is another file's");
        }
        visitor.page(Page {
            page: at,
            area: Area::File,
            ino,
        });
        let pages = view.size().div_ceil(self.store.page_size() as u64);
        let extents = (0..view.record_search(INDEX_END, 0)).map(|r| Extent::decode(view.record(r)));
        let end = visit_extents(extents, at, ino, visitor);
        if u64::from(end) > pages {
            visitor.problem(at, ino, "an extent beyond the end of the file");
        }
        for p in 0..self.files[i].file().pointers() {
            let (page, levels) = (
                self.files[i].file().pointer(p).1,
                self.files[i].file().levels(),
            );
            if levels != 2 {
                self.walk_extent_map(page, ino, visitor)?;
                continue;
            }
            visitor.page(Page {
                page,
                area: Area::ExtentMap,
                ino,
            });
            let mut r = 0;
            loop {
                self.load_scratch(page, Kind::ExtentIndex, "extent index")?;
                let index: MapPage<&mut [u8], 8> = MapPage(self.scratch);
                if r >= index.count().min(index.capacity()) {
                    break;
                }
                let map = index.pointer(r).1;
                self.walk_extent_map(map, ino, visitor)?;
                r += 1;
            }
        }
        Ok(())
    }

    fn walk_extent_map(
        &mut self,
        at: PageAddr,
        ino: u32,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Error<N::Error>> {
        self.load_scratch(at, Kind::ExtentMap, "extent map")?;
        visitor.page(Page {
            page: at,
            area: Area::ExtentMap,
            ino,
        });
        let map: MapPage<&mut [u8], { extent::SIZE }> = MapPage(self.scratch);
        let extents = (0..map.count().min(map.capacity())).map(|r| Extent::decode(map.record(r)));
        visit_extents(extents, at, ino, visitor);
        Ok(())
    }
}

/// Visits the pages of extents, which must follow each other. Returns where the last ends.
fn visit_extents(
    extents: impl Iterator<Item = Extent>,
    at: PageAddr,
    ino: u32,
    visitor: &mut dyn Visitor,
) -> u32 {
    let mut end = 0;
    for e in extents {
        if e.index < end || e.count == 0 {
            visitor.problem(at, ino, "extents overlap");
        }
        end = e.end();
        for k in 0..e.count {
            let page = PageAddr(e.page.wrapping_add(k));
            visitor.page(Page {
                page,
                area: Area::Data,
                ino,
            });
        }
    }
    end
}

/// A damaged page is a finding; a failing driver ends the walk.
fn report<E>(
    e: Error<E>,
    page: PageAddr,
    ino: u32,
    visitor: &mut dyn Visitor,
) -> Result<(), Error<E>> {
    match e {
        Error::Corrupt(at, what) => visitor.damaged(at, ino, what),
        Error::NotFound => visitor.problem(page, ino, "not found"),
        e => return Err(e),
    }
    Ok(())
}
