//! Cleaning: making free blocks of blocks with invalid pages (paper, 4.3).
//!
//! A victim's valid pages are moved, each to the log of its area, file data to a frontier of its
//! own (the blocks that it fills are the paper's compaction list: they are left alone until their
//! pages become invalid). The victim is then dead, and free after the next checkpoint. Remnants are
//! candidates like other blocks: taking one is the paper's compaction.

use crate::dirrec::Target;
use crate::error::{Error, sound};
use crate::extent::{Extent, INDEX_END};
use crate::hash::ino_hash;
use crate::header::Kind;
use crate::inode::{DirView, FLAG_ORPHAN, FileView};
use crate::mappage::MapPage;
use crate::mount::Cleaner;
use crate::store::{Area, BITMAP_BLOCKS, COLD};
use crate::table::State;
use crate::tag::{self, Tag};
use crate::tree::{self, EXTENT, HASH, Put};
use crate::{FileRef, FlashLight, INDEX_DIR, Node};
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// Free blocks below which writing waits for cleaning. A victim's pages may each need a page of an
/// extent map and of its index, so a round of cleaning takes more blocks than it empties, until
/// the checkpoint that ends it.
fn low(blocks: u32) -> u32 {
    16 + (blocks / 128).min(16)
}
/// Rounds of cleaning that one change waits for at most.
const ROUNDS: u32 = 16;
/// Free blocks that cleaning itself leaves alone: a checkpoint and a recovery need them.
const FLOOR: u32 = 10;
/// Blocks tried in vain, at a few reads each, before a round of cleaning ends.
const FUTILE: u32 = 512;
/// Dead blocks that are worth a checkpoint.
const WORTH: u32 = 8;
/// The cost of a block that cannot be won.
const NO_VICTIM: u32 = u32::MAX;
/// Blocks taken between two checkpoints at most.
pub(crate) const TAKEN_MAX: u32 = 256;
/// Inode pages written between two checkpoints at most: recovery reads them.
const INODE_PAGES_MAX: u32 = 512;

/// Blocks that go bad in use before the volume is worn out: one in fifty, as data sheets allow, and
/// some, because fifty is more than small chips have to spare.
fn grown_max(blocks: u32) -> u32 {
    8 + blocks / 50
}

/// Blocks that no file gets: for cleaning, checkpoints and recovery.
pub(crate) fn reserve_blocks(blocks: u32) -> u32 {
    36 + blocks / 64
}

/// What became of a page under the cleaner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// It is not valid, or not any more.
    Gone,
    /// It cannot be read or nobody can say whose it is, because of damage: its block cannot be won.
    Stays,
}

impl<N: Nand> FlashLight<'_, N> {
    pub(crate) fn writable(&self) -> Result<(), Error<N::Error>> {
        if self.read_only || self.store.nand.failed {
            Err(Error::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Pages that files and metadata may fill.
    pub(crate) fn usable_pages(&self) -> u32 {
        self.store
            .good
            .saturating_sub(reserve_blocks(self.store.geo.blocks()))
            * self.store.ppb()
    }

    /// Makes sure that one more page of user data or a new inode fits.
    pub(crate) fn need_page(&self) -> Result<(), Error<N::Error>> {
        if self.store.live + 2 > self.usable_pages() || self.store.available() <= FLOOR {
            Err(Error::NoSpace)
        } else {
            Ok(())
        }
    }

    /// Whether more blocks have gone bad in use than one in fifty and eight. Then nothing is
    /// changed any more: the rest will follow soon, and what is stored can still be read.
    pub fn is_worn(&self) -> bool {
        let grown = self.anchor.good.saturating_sub(self.store.good);
        grown > grown_max(self.store.geo.blocks())
    }

    /// Makes everything durable for the last time, while there are blocks that can be erased.
    pub(crate) fn retire(&mut self) -> Result<(), Error<N::Error>> {
        let result = self.checkpoint(true);
        self.read_only = true;
        result
    }

    /// Called before every change: takes a checkpoint or cleans when it is time.
    pub(crate) fn make_room(&mut self) -> Result<(), Error<N::Error>> {
        if self.is_worn() {
            self.retire()?;
            return Err(Error::ReadOnly);
        }
        self.begin()?;
        if !self.store.ready_log()?
            || self.store.taken >= TAKEN_MAX.min(crate::recover::opened_max(self.store.page_size()))
            || self.store.inode_pages >= INODE_PAGES_MAX
            || self.store.bitmap_count + 3 >= BITMAP_BLOCKS
        {
            self.checkpoint(false)?;
        }
        self.clean_failing()?;
        if self.config.cleaner == Cleaner::Paper
            && self.store.dirty.len() > self.config.dirty_threshold
        {
            self.clean_dirty_list()?;
        }
        let low = low(self.store.geo.blocks());
        for _ in 0..ROUNDS {
            if self.store.available() >= low || !self.reclaim()? {
                break;
            }
        }
        Ok(())
    }

    /// Moves what is valid out of blocks that fail. They are marked bad by the next checkpoint.
    fn clean_failing(&mut self) -> Result<(), Error<N::Error>> {
        for i in 0..self.store.failing.len() {
            let block = self.store.failing[i];
            if block == u16::MAX || self.store.available() <= FLOOR {
                continue;
            }
            let valid = matches!(
                self.store.table.get(u32::from(block)),
                State::Meta(1..) | State::Data(1..)
            );
            if valid && !self.store.stuck.contains(&block) {
                self.clean_block(u32::from(block))?;
            }
        }
        Ok(())
    }

    /// The paper's policy: when the list is over its threshold, the blocks on it with the fewest
    /// valid pages go.
    fn clean_dirty_list(&mut self) -> Result<(), Error<N::Error>> {
        for _ in 0..self.config.gc_batch {
            let dirty = &self.store.dirty;
            let victim = (0..dirty.len())
                .filter(|&i| !self.store.is_open(dirty.block(i)))
                .filter(|&i| !self.store.stuck.contains(&(dirty.block(i) as u16)))
                .min_by_key(|&i| dirty.valid(i));
            let Some(i) = victim else { return Ok(()) };
            if self.store.available() <= FLOOR {
                return Ok(());
            }
            let block = self.store.dirty.block(i);
            self.clean_block(block)?;
        }
        Ok(())
    }

    /// Makes dead blocks free, cleaning some first if there are few; `false` when there are none.
    fn reclaim(&mut self) -> Result<bool, Error<N::Error>> {
        let (mut tries, mut futile) = (64, FUTILE);
        while self.store.dead < WORTH && tries > 0 && futile > 0 {
            // With nothing dead, one victim may dip into the floor: else nothing would ever be won.
            let floor = if self.store.dead == 0 {
                FLOOR / 2
            } else {
                FLOOR
            };
            if self.store.available() <= floor {
                break;
            }
            match self.victim() {
                Some(block) if self.clean_block(block)? => tries -= 1,
                Some(_) => futile -= 1,
                None => break,
            }
        }
        if futile > 0 {
            // Some may have lost what was in the way, and others have become cheaper.
            self.store.stuck_cost = (0, 0);
        }
        if self.store.dead == 0 {
            return Ok(false);
        }
        self.checkpoint(false)?;
        Ok(true)
    }

    /// The closed block that is the cheapest to clean.
    ///
    /// A metadata page moves with the page that points to it, a data page often with an extent
    /// map and its index. Metadata blocks are young and lose their pages by themselves: they wait
    /// until a quarter is left, unless nothing else can be had.
    ///
    /// Blocks that could not be won were tried in the order of their cost: one below the last of
    /// them is not tried again until [`FlashLight::reclaim`] begins anew.
    fn victim(&self) -> Option<u32> {
        let mut best: Option<(u32, u32)> = None;
        for block in 0..self.store.table.blocks() {
            let cost = self.cost(block);
            if cost == NO_VICTIM {
                continue;
            }
            if best.is_none_or(|b| cost < b.0)
                && (cost, block + 1) > self.store.stuck_cost
                && !self.store.is_open(block)
                && !self.store.stuck.contains(&(block as u16))
            {
                best = Some((cost, block));
            }
        }
        best.map(|b| b.1)
    }

    fn cost(&self, block: u32) -> u32 {
        let full = self.store.ppb();
        match self.store.table.get(block) {
            State::Meta(n) if n <= full / 4 => 2 * n,
            State::Meta(n) if n < full => 4 * full + n,
            State::Data(n) if n < full => 3 * n,
            _ => NO_VICTIM,
        }
    }

    /// Cleans in idle time: at most about `pages` page moves, and the checkpoint that makes the
    /// blocks free. Returns whether more could be won by going on.
    pub fn gc(&mut self, pages: u32) -> Result<bool, Error<N::Error>> {
        if self.writable().is_err() || !self.store.session {
            return Ok(false);
        }
        let mut moved = 0;
        while moved < pages {
            let Some(block) = self.victim() else { break };
            let (State::Meta(n) | State::Data(n)) = self.store.table.get(block) else {
                break;
            };
            if n > self.store.ppb() / 2 || self.store.available() <= FLOOR {
                break;
            }
            self.clean_block(block)?;
            moved += n.max(1);
        }
        self.store.stuck_cost = (0, 0);
        if self.store.dead >= WORTH {
            self.checkpoint(false)?;
        }
        Ok(moved >= pages)
    }

    /// Moves what is valid in a block elsewhere. Ends with the first page that damage keeps there:
    /// then the block cannot be won, and the result is `false`.
    pub(crate) fn clean_block(&mut self, block: u32) -> Result<bool, Error<N::Error>> {
        let is_data = matches!(self.store.table.get(block), State::Data(_));
        let before = self.cost(block);
        let end = match self.store.remnants.find(block) {
            Some(r) => {
                self.store.written.compacted += 1;
                self.store.remnants.remove(r).next
            }
            None => self.store.ppb(),
        };
        self.store.written.cleaned += 1;
        for index in 0..end {
            if !matches!(
                self.store.table.get(block),
                State::Meta(1..) | State::Data(1..)
            ) {
                break;
            }
            let known = self.store.dirty.find(block);
            if known.is_some_and(|e| !self.store.dirty.is_valid(e, index)) {
                continue;
            }
            let at = self.store.geo.page(BlockAddr(block), index);
            let moved = if is_data {
                self.move_data(at, known.is_some())?
            } else {
                self.move_meta(at, known.is_some())?
            };
            if moved == Moved::Stays {
                break;
            }
        }
        match self.store.table.get(block) {
            State::Meta(1..) | State::Data(1..) => {
                // Pages that cannot be read, or that nobody owns.
                let n = self.store.stuck_next;
                self.store.stuck[n % self.store.stuck.len()] = block as u16;
                self.store.stuck_next = n + 1;
                if before != NO_VICTIM {
                    self.store.stuck_cost = self.store.stuck_cost.max((before, block + 1));
                }
                Ok(false)
            }
            _ => {
                self.store.close(block);
                Ok(true)
            }
        }
    }

    /// Moves a metadata page, if it is valid; `known` to be so, or not.
    fn move_meta(&mut self, at: PageAddr, known: bool) -> Result<Moved, Error<N::Error>> {
        self.store.scratch_at = PageAddr::NONE;
        let Some(header) = self.store.read_meta(at, self.scratch)? else {
            if self.move_map(at)? {
                return Ok(Moved::Gone);
            }
            // An invalid page may be one that was never complete.
            return Ok(if known { Moved::Stays } else { Moved::Gone });
        };
        if known {
            self.store.scratch_at = at;
        }
        let before = self.store.seq;
        let result = match header.kind {
            Kind::Dir => self.move_dir(at),
            Kind::File => self.move_file(at),
            Kind::HashMap | Kind::HashIndex => self.move_hash_page(at, header.kind),
            Kind::ExtentMap | Kind::ExtentIndex => self.move_extent_page(at, header.kind),
            Kind::Names => self.move_names_page(at),
            Kind::DirMap => self.move_map(at).map(|_| ()),
            _ => Ok(()),
        };
        self.store.written.moved_meta += u64::from(self.store.seq != before);
        self.after(result)
    }

    /// What a move has come to that ended so.
    fn after(&self, result: Result<(), Error<N::Error>>) -> Result<Moved, Error<N::Error>> {
        match result {
            Ok(()) | Err(Error::NotFound) => Ok(Moved::Gone),
            Err(e) if e.is_damage() && !self.store.nand.failed => Ok(Moved::Stays),
            Err(e) => Err(e),
        }
    }

    fn move_dir(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let ino = DirView::on(self.scratch).ino();
        let i = self.load_dir(ino)?;
        if self.dirs[i].loc == at {
            self.dirs[i].dirty = true;
            self.flush_dir(i)?;
        }
        Ok(())
    }

    fn move_file(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let file = FileView::on(self.scratch).file_ref(self.store.volume);
        let i = self.load_file(file)?;
        if self.files[i].loc == at {
            self.files[i].dirty = true;
            self.flush_file(i)?;
        }
        Ok(())
    }

    /// Moves a page of the DirInode map, if it is one, also when it cannot be read.
    fn move_map(&mut self, at: PageAddr) -> Result<bool, Error<N::Error>> {
        let per_page = ((self.store.page_size() - crate::header::HEADER) / 4) as u32;
        let pages = (self.map.roots.len() / 4) as u32;
        let Some(i) = (0..pages).find(|&i| self.map.root(i as usize) == at) else {
            return Ok(false);
        };
        self.map_get(i * per_page)?;
        self.map.dirty = true;
        self.flush_map()?;
        Ok(true)
    }

    /// Copies the map page `at` to the head of its log.
    fn copy_map(&mut self, at: PageAddr, kind: Kind, area: Area) -> Result<Put, Error<N::Error>> {
        self.load_scratch(at, kind, "map page")?;
        self.store.scratch_at = PageAddr::NONE;
        let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
        let key = page.first_key();
        let len = crate::bytes::get_u16(page.0, 24) as usize;
        let page = self
            .store
            .append(area, &mut self.scratch[..len], kind, at)?;
        Ok(Put { key, page })
    }

    fn move_hash_page(&mut self, at: PageAddr, kind: Kind) -> Result<(), Error<N::Error>> {
        let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
        let (owner, key) = (page.owner(), page.first_key());
        self.dir_reserve(owner.ino)?;
        let i = self.load_dir(owner.ino)?;
        let root = {
            let view = self.dirs[i].dir();
            if view.levels() == 0 {
                return Ok(());
            }
            view.pointer_for(key)
        };
        let direct = self.dirs[i].dir().pointer(root).1 == at;
        if !direct && (kind == Kind::HashIndex || !self.index_has(at, i, root, true)?) {
            return Ok(());
        }
        let put = self.copy_map(at, kind, Area::Hash)?;
        let mut inode = self.dirs[i].dir_mut();
        let (store, scratch) = (&mut self.store, &mut *self.scratch);
        let old = match tree::repoint(store, HASH, scratch, &mut inode, owner, root, at, put) {
            Ok(old) => old,
            Err(e) => {
                self.store.invalidate(put.page);
                return Err(e);
            }
        };
        self.dirs[i].dirty = true;
        for page in [Some(at), old].into_iter().flatten() {
            self.store.invalidate(page);
            self.dir_note_freed_page(i, page)?;
        }
        Ok(())
    }

    fn move_extent_page(&mut self, at: PageAddr, kind: Kind) -> Result<(), Error<N::Error>> {
        let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
        let (owner, key) = (page.owner(), page.first_key());
        let i = self.load_file(FileRef {
            ino: owner.ino,
            dir: owner.dir,
            hash: owner.hash,
        })?;
        self.file_room(i, 4 * crate::extent::SIZE)?;
        let root = {
            let view = self.files[i].file();
            if view.levels() == 0 {
                return Ok(());
            }
            view.pointer_for(key)
        };
        let direct = self.files[i].file().pointer(root).1 == at;
        if !direct && (kind == Kind::ExtentIndex || !self.index_has(at, i, root, false)?) {
            return Ok(());
        }
        let put = self.copy_map(at, kind, Area::Extent)?;
        let mut inode = self.files[i].file_mut();
        let (store, scratch) = (&mut self.store, &mut *self.scratch);
        let old = match tree::repoint(store, EXTENT, scratch, &mut inode, owner, root, at, put) {
            Ok(old) => old,
            Err(e) => {
                self.store.invalidate(put.page);
                return Err(e);
            }
        };
        self.files[i].dirty = true;
        for page in [Some(at), old].into_iter().flatten() {
            self.free_run(i, page.0, 1);
        }
        Ok(())
    }

    fn move_names_page(&mut self, at: PageAddr) -> Result<(), Error<N::Error>> {
        let page: MapPage<&mut [u8], 1> = MapPage(self.scratch);
        let owner = page.owner();
        let i = self.load_file(FileRef {
            ino: owner.ino,
            dir: owner.dir,
            hash: owner.hash,
        })?;
        self.file_room(i, crate::extent::SIZE)?;
        let pointer = self.files[i].file().names().pages().find(|p| p.1 == at);
        let Some(pointer) = pointer else {
            return Ok(());
        };
        self.load_names(i, at)?;
        self.put_names_page(i, Some(pointer))
    }

    /// Whether the index page that pointer `root` leads to points to `at`.
    fn index_has(
        &mut self,
        at: PageAddr,
        i: usize,
        root: usize,
        is_dir: bool,
    ) -> Result<bool, Error<N::Error>> {
        let (levels, page, kind) = if is_dir {
            let view = self.dirs[i].dir();
            (view.levels(), view.pointer(root).1, Kind::HashIndex)
        } else {
            let view = self.files[i].file();
            (view.levels(), view.pointer(root).1, Kind::ExtentIndex)
        };
        if levels < 2 {
            return Ok(false);
        }
        self.load_scratch(page, kind, "index page")?;
        let page: MapPage<&mut [u8], 8> = MapPage(self.scratch);
        Ok((0..page.count().min(page.capacity())).any(|p| page.pointer(p).1 == at))
    }

    /// Moves a page of file data, if it is valid; `known` to be so, or not.
    fn move_data(&mut self, at: PageAddr, known: bool) -> Result<Moved, Error<N::Error>> {
        let owner = match self.data_owner(at) {
            // An invalid page may be one that was never complete.
            Err(e) if e.is_damage() && !known => return Ok(Moved::Gone),
            Err(e) if e.is_damage() => return Ok(Moved::Stays),
            owner => owner?,
        };
        match owner {
            Some((file, index)) if index < INDEX_END => {
                let moved = self.move_data_of(file, index, at);
                self.after(moved)
            }
            _ => Ok(Moved::Gone),
        }
    }

    fn move_data_of(
        &mut self,
        file: FileRef,
        index: u32,
        at: PageAddr,
    ) -> Result<(), Error<N::Error>> {
        let i = self.load_file(file)?;
        // Before the lookup: making room may write the file's fragment, and with it this page.
        self.file_room(i, 4 * crate::extent::SIZE)?;
        let mapped = self.map_lookup(i, index)?;
        if mapped.page == at {
            self.store.scratch_at = PageAddr::NONE;
            // One that cannot be read stays where it is, for the reader to be told.
            self.store.read_data(at, self.scratch, file.ino, index)?;
            let owner = self.files[i].file().owner(self.store.volume);
            let new = self.store.append_data(COLD, self.scratch, owner, index)?;
            self.map_insert(
                i,
                Extent {
                    index,
                    page: new.0,
                    count: 1,
                },
            )?;
        }
        if mapped.in_map || self.overridden(i, index, at)? {
            self.file_migrate(i, Some(index))?;
        }
        Ok(())
    }

    /// Whether the extent map still names `at` for a page that the log has elsewhere.
    fn overridden(&mut self, i: usize, index: u32, at: PageAddr) -> Result<bool, Error<N::Error>> {
        if !self.load_extent_map(i, index)? {
            return Ok(false);
        }
        let page: MapPage<&mut [u8], { crate::extent::SIZE }> = MapPage(self.scratch);
        let after = page.search(index + 1, 0);
        Ok(after > 0
            && Extent::decode(page.record(after - 1))
                .clip(index, index + 1)
                .is_some_and(|e| e.page == at.0))
    }

    /// The file and index that a data page was written for.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when that cannot be known.
    fn data_owner(&mut self, at: PageAddr) -> Result<Option<(FileRef, u32)>, Error<N::Error>> {
        if !self.store.has_tags() {
            return self.search_owner(at);
        }
        let mut spare = [0u8; tag::SIZE];
        if !self
            .store
            .nand
            .read(at, 0, &mut [], &mut spare)?
            .is_readable()
        {
            return Err(Error::Corrupt(at, "file data"));
        }
        Ok(Tag::decode(&spare).map(|t| {
            let file = FileRef {
                ino: t.owner.ino,
                dir: t.owner.dir,
                hash: t.owner.hash,
            };
            (file, t.index)
        }))
    }

    /// Looks through all files for the one that a page belongs to: for chips without spare
    /// bytes. Reads every inode in the worst case; the file of the page before is asked first.
    fn search_owner(&mut self, at: PageAddr) -> Result<Option<(FileRef, u32)>, Error<N::Error>> {
        for i in 0..2 {
            if self.files[i].ino != 0
                && let Some(Some(index)) = sound(self.index_of(i, at))?
            {
                return Ok(Some((
                    self.files[i].file().file_ref(self.store.volume),
                    index,
                )));
            }
        }
        let mut damage = None;
        for dir in 1..self.map.end() {
            if self.dir_slot(dir).is_none() && self.map_get(dir)?.is_none() {
                continue;
            }
            match self.search_owner_in(dir, at) {
                Ok(None) => {}
                Err(e) if e.is_damage() => damage = Some(e),
                found => return found,
            }
        }
        damage.map_or(Ok(None), Err)
    }

    fn search_owner_in(
        &mut self,
        dir: u32,
        at: PageAddr,
    ) -> Result<Option<(FileRef, u32)>, Error<N::Error>> {
        let (mut cookie, mut damage) = (0, None);
        loop {
            let (node, next) = match self.next_file(dir, cookie) {
                Ok(Some(found)) => found,
                Ok(None) => return damage.map_or(Ok(None), Err),
                Err(e) => return Err(e),
            };
            cookie = next;
            let index = self.load_file(node).and_then(|i| self.index_of(i, at));
            match index {
                Ok(None) => {}
                Ok(Some(index)) => return Ok(Some((node, index))),
                Err(e) if e.is_damage() => damage = Some(e),
                Err(e) => return Err(e),
            }
        }
    }

    /// The first file of a directory after a cookie.
    pub(crate) fn next_file(
        &mut self,
        dir: u32,
        cookie: u64,
    ) -> Result<Option<(FileRef, u64)>, Error<N::Error>> {
        let mut found = None;
        self.readdir(dir, cookie, &mut |entry| {
            if let Node::File(file) = entry.node {
                found = Some((file, entry.cookie));
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// The index at which a cached file has a page of the chip. With a damaged extent map, that is
    /// the result when none of the others has it.
    fn index_of(&mut self, i: usize, at: PageAddr) -> Result<Option<u32>, Error<N::Error>> {
        let holds = |e: &Extent| at.0 >= e.page && at.0 - e.page < e.count;
        let view = self.files[i].file();
        let in_log = (0..view.record_search(INDEX_END, 0))
            .map(|r| Extent::decode(view.record(r)))
            .find(holds);
        if let Some(e) = in_log {
            return Ok(Some(e.index + (at.0 - e.page)));
        }
        let (mut index, mut damage) = (0, None);
        loop {
            let (map, end) = self.extent_map_for(i, index);
            match map.and_then(|pointer| self.load_extent_map_at(i, pointer)) {
                Ok(false) => break,
                Ok(true) => {
                    let page: MapPage<&[u8], { crate::extent::SIZE }> = MapPage(self.scratch);
                    let in_map = (0..page.count())
                        .map(|r| Extent::decode(page.record(r)))
                        .find(holds);
                    if let Some(e) = in_map {
                        return Ok(Some(e.index + (at.0 - e.page)));
                    }
                }
                Err(e) if e.is_damage() => damage = Some(e),
                Err(e) => return Err(e),
            }
            if end <= index || end >= INDEX_END {
                break;
            }
            index = end;
        }
        damage.map_or(Ok(None), Err)
    }

    /// Ends the lives of files without a name that an earlier session left.
    pub(crate) fn reap_orphans(&mut self) -> Result<(), Error<N::Error>> {
        let (mut hash, mut n) = (0, 0);
        let mut damage = None;
        loop {
            let rec = match self.dir_nth(INDEX_DIR, hash, n) {
                Err(e) if e.is_damage() => {
                    damage = Some(e);
                    None
                }
                rec => rec?,
            };
            let Some(rec) = rec else {
                match self.dir_next_hash(INDEX_DIR, hash + 1, &mut damage)? {
                    Some(next) => (hash, n) = (next, 0),
                    None => break,
                }
                continue;
            };
            if rec.target != Target::Orphan {
                n += 1;
                continue;
            }
            match self.reap_orphan(hash, PageAddr(rec.ptr)) {
                Err(e) if e.is_damage() && !self.store.nand.failed => {
                    damage = Some(e);
                    n += 1;
                }
                done => done?,
            }
        }
        // With damage, some may be left: the next mount looks again.
        self.orphans = u32::from(damage.is_some());
        Ok(())
    }

    fn reap_orphan(&mut self, hash: u32, at: PageAddr) -> Result<(), Error<N::Error>> {
        self.load_scratch(at, Kind::File, "file inode")?;
        let ino = FileView::on(self.scratch).ino();
        if ino_hash(self.store.volume, ino) != hash {
            return Err(Error::Corrupt(at, "file inode"));
        }
        let file = FileRef {
            ino,
            dir: INDEX_DIR,
            hash,
        };
        let i = self.load_file(file)?;
        if self.files[i].file().flags() & FLAG_ORPHAN == 0 {
            // A rename over a name of it was cut, and damage has kept the recovery from looking for
            // others.
            self.mend_names(i)?;
        }
        if self.files[i].file().flags() & FLAG_ORPHAN == 0 {
            return Ok(());
        }
        self.reap(file)
    }
}
