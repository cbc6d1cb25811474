//! Moving what is valid in a block elsewhere: metadata to the log of its area, file data to a
//! data head.
//!
//! An inode is moved by writing it anew. A map page is copied, and its inode changed. A page of
//! file data is copied, and the file's log says where it is; where an extent map names the old
//! place, the record masks that.

use crate::cleaning::job::{AGAIN, CleanJob, LOOK, MAP, MOVE, Why};
use crate::error::{Bool, Damaged, Fault, sound};
use crate::format::area::LogArea;
use crate::format::blockstate::BlockState;
use crate::format::extent::{self, Extent, INDEX_END};
use crate::format::header::Kind;
use crate::format::inode::{AnyView, DirView, FileView};
use crate::format::mappage::{ExtentPage, MapPage};
use crate::format::node::{FileRef, Node};
use crate::format::tag::{self, Tag};
use crate::index::Index;
use crate::index::slots::{AnySlot, FileSlot};
use crate::index::tree::{self, BATCH, COPIES, Copied, EXTENT, HASH, MapKind};
use crate::index::waiting::Waiting;
use crate::space::latch::MayProgram;
use crate::space::store::Store;
use flashkit_nand::{BlockAddr, Nand, PageAddr};

/// What became of a page under the cleaner.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moved {
    /// It is not valid, or not any more.
    Gone,
    /// It cannot be read or nobody can say whose it is, because of damage: its block cannot be won.
    Stays,
}

/// The file that a data page was written for and the index in it, and what was read of the page.
type DataOwner = (Option<(FileRef, u32)>, Seen);

/// What was read of a page of data.
#[derive(Clone, Copy)]
struct Seen {
    tag: [u8; tag::SIZE],
    /// All of it, and it is as it was written.
    sound: bool,
    /// The chip is to copy it.
    to_copy: bool,
}

impl Seen {
    const NOTHING: Seen = Seen {
        tag: [0xff; tag::SIZE],
        sound: false,
        to_copy: false,
    };
}

/// What an extent map, or an extent that waits for it, was last seen to say: pages next to each
/// other are often named together.
#[derive(Clone, Copy)]
struct SeenMaps {
    ino: u32,
    run: Extent,
    waiting: bool,
}

/// How an inode leads to a map.
struct Way {
    levels: u8,
    /// Which of its pointers, to the map itself or to an index page, and where that is.
    root: usize,
    page: PageAddr,
    /// Maps below one index page that move at a time, at most.
    most: usize,
}

impl Way {
    /// To the map that covers `key`. With few free blocks, when it counts what each one costs, as
    /// many maps move at a time as the inode's log has room to note, with their index page, which
    /// is written once for all of them. Written once for each, the pages of a block of which half
    /// is maps fill another, of which half is in use again.
    fn to(inode: &AnyView<'_>, key: u32, is_urgent: bool) -> Option<Way> {
        if inode.levels() == 0 {
            return None;
        }
        let root = inode.pointer_for(key);
        let notes = inode.room().saturating_sub(tree::SLACK) / inode.rec();
        let most = notes.saturating_sub(1).clamp(BATCH, COPIES);
        Some(Way {
            levels: inode.levels(),
            root,
            page: inode.pointer(root).1,
            most: if is_urgent { most } else { 1 },
        })
    }
}

const NO_COPIES: [Copied; COPIES] = [Copied {
    from: PageAddr::NONE,
    to: PageAddr::NONE,
}; COPIES];

impl<N: Nand> Index<'_, N> {
    /// Moves valid pages of a block elsewhere, at a cost of about `limit` reads, and brings the
    /// maps that named them up to date; whether the block has come to its end.
    pub(crate) fn move_some(&mut self, job: &mut CleanJob, limit: u32) -> Result<Bool, Fault> {
        let block = job.block;
        let is_data = matches!(self.store.state(block), BlockState::Data(_));
        let all = is_data && self.store.valid_pages(block) == job.end - job.next;
        let mut seen = None;
        job.cost = LOOK * self.recall(block)?;
        while job.next < job.end && self.store.valid_pages(block) > 0 && job.cost < limit {
            let index = job.next;
            job.next += 1;
            let listed = self.store.dirty.find(block);
            if listed.is_some_and(|e| !self.store.dirty.is_valid(e, index)) {
                continue;
            }
            let at = self.store.geo.page(BlockAddr(block), index);
            let (before, maps) = (self.store.written.moved(), self.store.map_writes());
            let became = if is_data {
                let known = all || listed.is_some();
                let to_copy = job.again == AGAIN && job.why != Why::Rot && self.store.may_copy(at);
                // A tag with a flipped bit is right when it is mended, or, where the chip has
                // copied the page like that, as it is.
                let whole = match job.again {
                    AGAIN => known && !to_copy,
                    again => again == 1,
                };
                self.move_data(at, known, to_copy, whole, &mut seen)?
            } else {
                self.move_meta(at, listed.is_some())?
            };
            if became == Moved::Stays && self.is_in_vain(job) {
                (job.next, job.again) = (job.end, 0);
            }
            let moved = (self.store.written.moved() - before) as u32;
            let maps = (self.store.map_writes() - maps) as u32;
            job.cost = job.cost.saturating_add(LOOK + MOVE * moved + MAP * maps);
        }
        if self.store.valid_pages(block) == 0 {
            self.store.close(block);
            return Ok(Bool::True);
        }
        if job.next < job.end {
            return Ok(Bool::False);
        }
        if is_data && self.store.has_tags() && job.again > 0 {
            (job.next, job.again) = (0, job.again - 1);
            return Ok(Bool::False);
        }
        // Pages that cannot be read, or that nobody owns.
        self.store.unmovable.add(block, job.rank);
        Ok(Bool::True)
    }

    /// Whether it does not pay to go on with a block that a page stays in: what is moved out of it
    /// wins nothing, and many such blocks would take all space. But that page may not be a valid
    /// one, so with few that are left it is tried.
    fn is_in_vain(&mut self, job: &CleanJob) -> bool {
        let few = self.store.ppb() / 16;
        job.why == Why::Space
            && !self.store.failing.contains(job.block)
            && self.store.valid_pages(job.block) > few
    }

    /// Moves a metadata page, if it is valid. One `known` to be so counts as that: it is valid
    /// unless what replaced it was lost to damage, so what leads to it is asked all the same.
    #[inline(never)]
    fn move_meta(&mut self, at: PageAddr, known: bool) -> Result<Moved, Fault> {
        let Some(header) = self.read_scratch(at)? else {
            if sound(self.move_map(at))? == Some(Bool::True) || self.move_table_page(at)?.is_true()
            {
                return Ok(Moved::Gone);
            }
            // An invalid page may be one that was never complete.
            return Ok(if known { Moved::Stays } else { Moved::Gone });
        };
        let before = self.store.seq;
        let result = match header.kind {
            Kind::Dir => self.move_dir(at),
            Kind::File => self.move_file(at),
            Kind::HashMap | Kind::HashIndex => self.move_map_page(at, header.kind, HASH),
            Kind::ExtentMap | Kind::ExtentIndex => self.move_map_page(at, header.kind, EXTENT),
            Kind::Names => self.move_names_page(at),
            Kind::Attributes => self.move_attributes(at),
            Kind::DirMap | Kind::Places => self.move_map(at).map(|_| ()),
            Kind::Table => self.move_table_page(at).map(|_| ()),
            _ => Ok(()),
        };
        self.store.written.moved_meta += u64::from(self.store.seq != before);
        self.after(result)
    }

    /// Writes the page of the block table that has a copy at a place anew;
    /// whether there is such a page.
    fn move_table_page(&mut self, at: PageAddr) -> Result<Bool, Fault> {
        let table = self.store.table.paged.as_ref();
        let Some(number) = table.and_then(|p| p.page_at(at)) else {
            return Ok(Bool::False);
        };
        self.store.write_table_page(number)?;
        Ok(Bool::True)
    }

    /// What a move has come to that ended so. The file may have more extents than it takes.
    fn after(&self, result: Result<(), Fault>) -> Result<Moved, Fault> {
        match result {
            Ok(()) | Err(Fault::NotFound) => Ok(Moved::Gone),
            Err(e)
                if (e.is_damage() || matches!(e, Fault::TooBig))
                    && !self.store.nand.is_stopped() =>
            {
                Ok(Moved::Stays)
            }
            Err(e) => Err(e),
        }
    }

    fn move_dir(&mut self, at: PageAddr) -> Result<(), Fault> {
        let ino = DirView::on(&self.scratch).ino();
        let i = self.load_dir(ino)?;
        if self.dirs[i].loc == at {
            self.dirs[i].change();
            self.flush_dir(i)?;
        }
        Ok(())
    }

    fn move_file(&mut self, at: PageAddr) -> Result<(), Fault> {
        let file = FileView::on(&self.scratch).file_ref(self.store.volume);
        let i = self.load_file(file)?;
        if self.files[i].loc == at {
            self.files[i].dirty = true;
            self.flush_file(i)?;
        }
        Ok(())
    }

    /// Copies the map page `at` to the head of its log.
    fn copy_map(&mut self, at: PageAddr, kind: Kind, area: LogArea) -> Result<PageAddr, Fault> {
        self.load_scratch(at, kind)?;
        let len = flashkit_bytes::get_u16(&self.scratch, 24) as usize;
        self.append_scratch(area, len, kind, at)
    }

    /// Copies the map page `at` if the inode leads to it that way, with the next ones of its block
    /// below the same index page; how many.
    fn copy_maps(
        &mut self,
        at: PageAddr,
        kind: Kind,
        maps: MapKind,
        way: &Way,
        copies: &mut [Copied; COPIES],
    ) -> Result<usize, Fault> {
        copies[0].from = at;
        let mut found = usize::from(way.page == at);
        if found == 0 && way.levels == 2 && kind == maps.map {
            found = self.maps_below(maps, way, copies)?;
        }
        let mut copied = 0_usize;
        for copy in &mut copies[..found] {
            match self.copy_map(copy.from, kind, maps.area) {
                Ok(to) => copy.to = to,
                // It has a turn of its own.
                Err(_) if copied > 0 && !self.store.nand.is_stopped() => break,
                Err(e) => return Err(e),
            }
            copied += 1;
        }
        self.store.written.moved_meta += copied.saturating_sub(1) as u64;
        Ok(copied)
    }

    /// Adds maps behind the first one, in its block, that the same index page leads to; how many
    /// there are now. None if it does not lead to the first.
    fn maps_below(
        &mut self,
        maps: MapKind,
        way: &Way,
        copies: &mut [Copied; COPIES],
    ) -> Result<usize, Fault> {
        self.load_scratch(way.page, maps.index)?;
        let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
        let (at, geo) = (copies[0].from, &self.store.geo);
        let (mut leads, mut n) = (false, 1);
        for p in 0..page.count().min(page.capacity()) {
            let map = page.pointer(p).1;
            leads |= map == at;
            let is_next = map.0 > at.0 && geo.block_of(map) == geo.block_of(at);
            if is_next && n < way.most && copies[..n].iter().all(|c| c.from != map) {
                copies[n].from = map;
                n += 1;
            }
        }
        Ok(if leads { n } else { 0 })
    }

    /// Moves a hash map or an extent map, or an index page of such, if its inode leads there.
    fn move_map_page(&mut self, at: PageAddr, kind: Kind, maps: MapKind) -> Result<(), Fault> {
        let page: MapPage<&[u8], 8> = MapPage(&self.scratch);
        let (owner, key) = (page.owner(), page.first_key());
        let slot = if maps.map == Kind::ExtentMap {
            let i = self.load_file(owner)?;
            self.file_room(i, (BATCH + 1) * extent::SIZE)?;
            AnySlot::File(i)
        } else {
            self.dir_reserve(owner.ino)?;
            AnySlot::Dir(self.load_dir(owner.ino)?)
        };
        self.move_maps_of(slot, key, at, kind, maps)
    }

    /// The same when the inode is in a slot, with room for what replaces it. A call of its own, so
    /// that making that room has its stack.
    #[inline(never)]
    fn move_maps_of(
        &mut self,
        slot: AnySlot,
        key: u32,
        at: PageAddr,
        kind: Kind,
        maps: MapKind,
    ) -> Result<(), Fault> {
        let urgent = self.is_urgent();
        let inode = match slot {
            AnySlot::Dir(i) => self.dirs[i].dir().any(),
            AnySlot::File(i) => self.files[i].file().any(),
        };
        let Some(way) = Way::to(&inode, key, urgent) else {
            return Ok(());
        };
        let mut copies = NO_COPIES;
        let n = self.copy_maps(at, kind, maps, &way, &mut copies)?;
        let copies = &copies[..n];
        if copies.is_empty() {
            return Ok(());
        }
        let scratch = self.scratch.overwrite(&mut self.store.scratch_holds);
        let (store, root) = (&mut self.store, way.root);
        let mut inode = match slot {
            AnySlot::Dir(i) => self.dirs[i].dir_mut().any(),
            AnySlot::File(i) => self.files[i].file_mut().any(),
        };
        let old = tree::repoint(store, maps, scratch, &mut inode, root, copies)?;
        match slot {
            AnySlot::Dir(i) => self.dirs[i].change(),
            AnySlot::File(i) => self.files[i].dirty = true,
        }
        for n in 0.. {
            let page = match copies.get(n).map(|copy| copy.from).or(old) {
                Some(page) if n <= copies.len() => page,
                _ => break,
            };
            match slot {
                AnySlot::Dir(i) => {
                    self.store.invalidate(page, MayProgram);
                    self.dir_note_freed_page(i, page)?;
                }
                AnySlot::File(i) => self.free_run(i, page.0, 1, MayProgram),
            }
        }
        Ok(())
    }

    fn move_names_page(&mut self, at: PageAddr) -> Result<(), Fault> {
        let page: MapPage<&[u8], 1> = MapPage(&self.scratch);
        let owner = page.owner();
        let i = self.load_file(owner)?;
        self.file_room(i, extent::SIZE)?;
        let pointer = self.files[i].file().names().pages().find(|p| p.1 == at);
        let Some(pointer) = pointer else {
            return Ok(());
        };
        self.load_names(i, at)?;
        self.put_names_page(i, Some(pointer))
    }

    /// Moves a page of file data, if it is valid; `known` to be so, or not. For its owner `whole`
    /// of it is read, or its tag alone.
    // What it needs of the stack is not needed below a page of metadata that moves.
    #[inline(never)]
    fn move_data(
        &mut self,
        at: PageAddr,
        known: bool,
        to_copy: bool,
        whole: bool,
        seen: &mut Option<SeenMaps>,
    ) -> Result<Moved, Fault> {
        let (owner, page) = match self.data_owner(at, whole) {
            // An invalid page may be one that was never complete.
            Err(e) if e.is_damage() && !known => return Ok(Moved::Gone),
            Err(e) if e.is_damage() => return Ok(Moved::Stays),
            owner => owner?,
        };
        let Some((file, index)) = owner.filter(|o| o.1 < INDEX_END) else {
            return Ok(Moved::Gone);
        };
        let moved = self.move_data_of(file, index, at, Seen { to_copy, ..page }, seen);
        self.after(moved)
    }

    /// Moves the page that is perhaps page `index` of a file; what was read of it may still be in
    /// the scratch page.
    // What it needs of the stack is not needed while the owner is searched for.
    #[inline(never)]
    fn move_data_of(
        &mut self,
        file: FileRef,
        index: u32,
        at: PageAddr,
        page: Seen,
        seen: &mut Option<SeenMaps>,
    ) -> Result<(), Fault> {
        let i = self.load_file(file)?;
        // Before the lookup: making room may write the file's fragment, and with it this page.
        self.file_room(i, 4 * extent::SIZE)?;
        let logged = self.logged(i, index);
        let masks = match logged {
            Some(e) if e.page == at.0 => e.masks,
            Some(_) => return self.give_back(i, index, at, logged),
            None => {
                let seen = self.look_up(i, index, seen)?;
                if seen.run.page != at.0 {
                    // Below what waits there may be another record of the page.
                    return if seen.waiting {
                        self.give_back(i, index, at, None)
                    } else {
                        Ok(())
                    };
                }
                true
            }
        };
        let owner = self.files[i].file().file_ref(self.store.volume);
        // One that cannot be read stays where it is, for the reader to be told.
        let copied = match page.to_copy {
            true => self.copy_data_of(owner, index, at, &page.tag)?,
            false => None,
        };
        let new = match copied {
            Some(new) => new,
            None => {
                if !(page.sound && self.store.scratch_holds.is_data(at)) {
                    let page = self.scratch.overwrite(&mut self.store.scratch_holds);
                    self.store.read_data(at, page, file.ino, index)?;
                }
                let mover = self.store.heads.mover;
                self.store.append_data(mover, &self.scratch, owner, index)?
            }
        };
        let e = Extent::new(index, new.0, 1);
        self.map_insert(i, Extent { masks, ..e })?;
        if logged.is_none() {
            self.free_run(i, at.0, 1, MayProgram);
        }
        Ok(())
    }

    /// Has the chip copy a page; none if it does not.
    fn copy_data_of(
        &mut self,
        owner: FileRef,
        index: u32,
        at: PageAddr,
        tag: &[u8; tag::SIZE],
    ) -> Result<Option<PageAddr>, Fault> {
        let tag = self.store.tag_anew(owner, index, tag);
        let len = if self.store.has_tags() { tag.len() } else { 0 };
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        self.store.copy_data(at, &tag[..len], page)
    }

    /// Where a page is of which the log says nothing.
    fn look_up(
        &mut self,
        i: FileSlot,
        index: u32,
        seen: &mut Option<SeenMaps>,
    ) -> Result<SeenMaps, Fault> {
        let ino = self.files[i].ino;
        if let Some(known) = seen.filter(|s| s.ino == ino)
            && let Some(run) = known.run.clip(index, index + 1)
        {
            return Ok(SeenMaps { run, ..known });
        }
        let mapped = self.map_lookup(i, index)?;
        let page = mapped.page;
        let count = if page.is_none() { 1 } else { mapped.run };
        let now = SeenMaps {
            ino,
            run: Extent::new(index, page.0, count),
            waiting: mapped.waiting,
        };
        *seen = Some(now);
        Ok(now)
    }

    /// Gives back a page that an index page or an extent map still names for an index of a file, of
    /// which another record, in the log (`logged`) or in the index page, says something else.
    fn give_back(
        &mut self,
        i: FileSlot,
        index: u32,
        at: PageAddr,
        logged: Option<Extent>,
    ) -> Result<(), Fault> {
        let masks = logged.is_some_and(|e| e.masks);
        let pointer = self.extent_map_for(i, index).0?;
        if self.files[i].file().levels() == 2 {
            let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
            if let Some(e) = page.extent_of(index) {
                if e.page == at.0 && logged.is_some() && !masks {
                    self.mask(i, index, at, MayProgram);
                } else if e.page != at.0
                    && !e.masks
                    && self.map_names(i, pointer, index, at)?.is_true()
                {
                    self.drain_at(i, index)?;
                }
                return Ok(());
            }
        }
        if logged.is_some() && !masks && self.map_names(i, pointer, index, at)?.is_true() {
            self.mask(i, index, at, MayProgram);
        }
        Ok(())
    }

    /// Whether the extent map that a pointer leads to has `at` for an index.
    fn map_names(
        &mut self,
        i: FileSlot,
        pointer: (u32, PageAddr),
        index: u32,
        at: PageAddr,
    ) -> Result<Bool, Fault> {
        let named = self.load_extent_map_at(i, pointer)?.is_true();
        let page: ExtentPage<&[u8]> = MapPage(&*self.scratch);
        Ok(Bool::from(
            named && page.extent_of(index).is_some_and(|e| e.page == at.0),
        ))
    }

    /// The file and index that a data page was written for, by its tag. If `whole` of it is asked
    /// for, a flipped bit of the tag is mended, and the page is in the scratch page then.
    ///
    /// # Errors
    /// [`Fault::Corrupt`] when that cannot be known.
    #[inline(never)]
    fn data_owner(&mut self, at: PageAddr, whole: bool) -> Result<DataOwner, Fault> {
        let Some(form) = self.store.tags else {
            return Ok((self.search_owner(at)?, Seen::NOTHING));
        };
        let mut spare = [0u8; tag::SIZE];
        let data = if whole {
            self.scratch.overwrite(&mut self.store.scratch_holds)
        } else {
            &mut []
        };
        if !self.store.nand.read(at, 0, data, &mut spare)?.is_readable() {
            return Err(self.store.nand.damaged(at, Damaged::Data));
        }
        let sound = whole && self.store.check_tag(at, &mut spare, &self.scratch);
        if whole {
            self.store.scratch_holds.set_data(at);
        }
        let owner = Tag::decode(form, &spare).map(|t| (t.owner, t.index));
        let page = Seen {
            tag: spare,
            sound,
            to_copy: false,
        };
        Ok((owner, page))
    }

    /// Looks through all files for the one that a page belongs to: for chips without spare
    /// bytes. Reads every inode in the worst case; the file of the page before is asked first.
    pub(crate) fn search_owner(&mut self, at: PageAddr) -> Result<Option<(FileRef, u32)>, Fault> {
        for &i in &FileSlot::ALL {
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
        let mut from = 1;
        while let Some((dir, _)) = self.map_next(from)? {
            from = dir + 1;
            match self.search_owner_in(dir, at) {
                Ok(None) => {}
                Err(e) if e.is_damage() => damage = Some(e),
                found => return found,
            }
        }
        damage.map_or(Ok(None), Err)
    }

    fn search_owner_in(&mut self, dir: u32, at: PageAddr) -> Result<Option<(FileRef, u32)>, Fault> {
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
    ) -> Result<Option<(FileRef, u64)>, Fault> {
        let mut found = None;
        self.load_dir(dir)?;
        self.list(dir, cookie, &mut |entry| {
            if let Node::File(file) = entry.node {
                found = Some((file, entry.cookie));
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// The index at which a cached file has a page of the chip. With a damaged extent map, that is
    /// the result when none of the others has it.
    fn index_of(&mut self, i: FileSlot, at: PageAddr) -> Result<Option<u32>, Fault> {
        let holds = |e: &Extent| at.0 >= e.page && at.0 - e.page < e.count;
        let view = self.files[i].file();
        let in_log = (0..view.record_search(INDEX_END, 0))
            .map(|r| Extent::decode(view.record(r)))
            .find(holds);
        if let Some(e) = in_log {
            return Ok(Some(e.index + (at.0 - e.page)));
        }
        let (mut found, mut damage) = (None, None);
        let mut look = |_: &mut Store<'_, N>, e: Extent| {
            if holds(&e) {
                found = Some(e.index + (at.0 - e.page));
            }
        };
        let (levels, mut root, mut p) = (self.files[i].file().levels(), 0, 0);
        while root < self.files[i].file().pointers() {
            let (pointer, ino) = (self.files[i].file().pointer(root), self.files[i].ino);
            let (mut map, mut waiting) = (pointer, None);
            if levels == 2 {
                let index = self.load_map_page(EXTENT.index, pointer, ino);
                match index {
                    Err(e) if e.is_damage() => {
                        (damage, root, p) = (Some(e), root + 1, 0);
                        continue;
                    }
                    index => index?,
                }
                let page: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                if p >= page.count() {
                    (root, p) = (root + 1, 0);
                    continue;
                }
                (map, waiting) = (page.pointer(p), Some(Waiting::below(&page, pointer.1, p)));
                if p == 0 {
                    self.for_each_valid_run_waiting(i, &mut look);
                }
                p += 1;
            } else {
                root += 1;
            }
            let looked = match self.load_extent_map_at(i, map) {
                Ok(_) => self.for_each_valid_run(i, waiting.as_ref(), &mut look),
                Err(e) => Err(e),
            };
            match looked {
                Err(e) if e.is_damage() => damage = Some(e),
                looked => looked?,
            }
        }
        match (found, damage) {
            (None, Some(damage)) => Err(damage),
            (found, _) => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleaning::job::Why;
    use crate::format::area::COLD;
    use crate::index::cache::CachedFile;
    use crate::{Config, FlashLight, New, ROOT_DIR, ram_needed};
    use flashkit_bytes::put_u32;
    use flashkit_nand::Geometry;
    use flashkit_sim::{ChipSpec, SimNand, Timing};

    const PAGE: usize = 1024;
    const PAGES: u64 = 64;

    /// A file may hold a copy of its own inode's page, of an image of the chip that it is on. When
    /// such a page of data is moved, and the file is not in RAM, nobody takes it for the inode.
    #[test]
    fn data_that_looks_like_the_inode_of_its_file() {
        let geo = Geometry::new(PAGE as u32, 24, 16, 96).unwrap();
        let timing = Timing {
            read_ns: 1,
            program_ns: 1,
            erase_ns: 1,
        };
        let chip = SimNand::new(ChipSpec::new(geo, timing));
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let chip = FlashLight::format(chip, ram, 7, &New::default()).unwrap();
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let mut fs = FlashLight::mount(chip, ram, Config::default()).unwrap();
        let Node::File(file) = fs.create(ROOT_DIR, b"f", &New::default()).unwrap() else {
            panic!("a file");
        };
        let mut page = [0; PAGE];
        page[6] = Kind::File as u8;
        put_u32(&mut page, 32, file.ino);
        for n in 0..PAGES {
            fs.write(file, n * PAGE as u64, &page, Default::default())
                .unwrap();
        }
        let chip = fs.unmount().unwrap_or_else(|(_, e)| panic!("{e}"));
        let ram = std::vec![0; ram_needed(&geo)].leak();
        let mut fs = FlashLight::mount(chip, ram, Config::default()).unwrap();
        let mut moved = 0;
        for block in 0..geo.blocks() {
            let index = &mut fs.volume.durable.index;
            if index.store.state(block) == BlockState::Data(16) {
                index.store.heads.mover = COLD;
                let mut job = index.begin_job(block, Why::Space);
                assert_eq!(index.move_some(&mut job, u32::MAX), Ok(Bool::True));
                moved += 16 - index.store.valid_pages(block);
                // It is read anew for the next one.
                fs.sync().unwrap();
                let files = &mut fs.volume.durable.index.files;
                files.0.iter_mut().for_each(CachedFile::clear);
            }
        }
        assert!(moved >= 48, "{moved}");
        let mut read = [0; PAGE];
        for n in 0..PAGES {
            fs.read(file, n * PAGE as u64, &mut read).unwrap();
            assert_eq!(read, page, "{n}");
        }
    }
}
