//! Repair: what a check finds is put right where the rest of the volume says what it must be.
//!
//! * Names: an entry that leads to nothing, or to an inode that says that it is elsewhere,
//!   goes. A file or directory whose page names a place that has no entry for it gets one,
//!   if no other has that name; else it gets one in `lost+found` ([`crate::api::adopt`]).
//! * Numbers: of a directory's entries and subdirectories, of a file's names, of the valid pages of
//!   each block.
//! * What is beyond the end of a file goes.
//! * An inode that cannot be read loses its entry: nothing is left to be found by it.
//! * Hash maps that cannot be read give way to empty ones, and names pages go. What is in the
//!   directory says so, and gets its entry back.
//!
//! Extent maps that cannot be read stay as they are, for what they held to be an error and not
//! zeros.

use crate::FlashLight;
use crate::api::walk::Area;
use crate::cleaning::Volume;
use crate::error::{Bool, Error, Fault, sound};
use crate::format::area::Head;
use crate::format::blockstate::BlockState;
use crate::format::dirrec::{DirRec, Target};
use crate::format::extent::{Extent, INDEX_END};
use crate::format::hash::name_hash;
use crate::format::header::Kind;
use crate::format::inode::{FLAG_INDIRECT, FLAG_ORPHAN, FileView, NAME_MAX, Stamp};
use crate::format::names::{Spot, Which, name_at};
use crate::format::node::{FileRef, INDEX_DIR, ROOT_DIR};
use crate::index::Index;
use crate::index::dir::Removal;
use crate::index::slots::FileSlot;
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

/// What is to become of an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Stays,
    Goes,
    /// It goes, and the directory that it leads to, which cannot be read, is none any more.
    GivesUp(u32),
}

/// What directories know of a file that is found by its number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// A name at least.
    Known,
    /// None of its names.
    Lost,
}

impl<N: Nand> FlashLight<'_, N> {
    /// Puts names and numbers right, as far as what can be read says what they must be, and
    /// makes it durable. What pages are in use is another question: see
    /// [`FlashLight::repair_counts`]. Reads all metadata.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::NoSpace`]; the driver's.
    pub fn repair(&mut self) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.store_mut().forget_kept();
            // Names get their entries back before others lose theirs. What leads to no file any
            // more when the index directory has lost its entry goes after that.
            for names in [true, false] {
                if !names {
                    let done = fs.volume.repair_entries(INDEX_DIR);
                    fs.index_mut().or_left(done)?;
                }
                let mut from = ROOT_DIR;
                while let Some(Some((dir, _))) = sound(fs.index_mut().map_next(from))? {
                    from = dir + 1;
                    fs.volume.make_room()?;
                    let done = if names {
                        let mended = fs.index_mut().replace_lost_maps(dir);
                        fs.index_mut().or_left(mended)?;
                        let placed = fs.index_mut().repair_place(dir);
                        fs.index_mut().or_left(placed)?;
                        fs.adopt_dir(dir).and_then(|()| fs.repair_files(dir))
                    } else {
                        fs.volume.repair_entries(dir)
                    };
                    fs.index_mut().or_left(done)?;
                }
            }
            fs.index_mut().give_up_dirs()?;
            fs.volume.checkpoint(false)
        })
    }

    /// Makes the block table say what is in use, as a walk has found that nothing has
    /// followed since, and takes a checkpoint. Blocks that something is written to, or
    /// is to be, stay as they are.
    pub fn repair_counts(
        &mut self,
        in_use: &dyn Fn(PageAddr) -> Option<Area>,
    ) -> Result<(), Error<N::Error>> {
        self.told(|fs| {
            fs.index_mut().writable()?;
            fs.volume.durable.begin()?;
            fs.store_mut().validity.forget_all();
            for block in 0..fs.store().table.blocks() {
                fs.store_mut().table_write_back(MayProgram);
                fs.index_mut().stop_filling(block, in_use);
                let first = block * fs.store().ppb();
                let ppb = fs.store().ppb();
                let pages = first..first + ppb;
                // Pages of the block table may have been written elsewhere since the walk. On a
                // damaged volume another may claim the same page.
                let table = fs.store().table.copies();
                let mut used = table.filter(|at| pages.contains(&at.0)).count() as u32;
                let mut area = None;
                for other in pages.clone().filter_map(|page| in_use(PageAddr(page))) {
                    used += u32::from(other != Area::Table);
                    area = area.or(Some(other));
                }
                let (used, is_data) = (used.min(ppb), area == Some(Area::Data));
                if let Some(i) = fs.store().dirty.find(block) {
                    let right = pages.clone().all(|page| {
                        let valid = fs.store().dirty.is_valid(i, page - first);
                        valid == in_use(PageAddr(page)).is_some()
                    });
                    if !right {
                        fs.store_mut().dirty.remove(i);
                    }
                }
                let mut reserves = fs.volume.durable.index.store.log.reserves
                    [..fs.volume.durable.index.store.log.reserved]
                    .iter();
                let reserved = reserves.any(|r| u32::from(r.0) == block);
                match fs.store_mut().state(block) {
                    BlockState::Meta(n) if n != used => {
                        fs.store_mut().set_state(block, BlockState::Meta(used));
                    }
                    BlockState::Data(n) if n != used => {
                        fs.store_mut().set_state(block, BlockState::Data(used));
                    }
                    BlockState::Free | BlockState::Clean | BlockState::Dead
                        if used > 0 && !reserved =>
                    {
                        let state = if is_data {
                            BlockState::Data
                        } else {
                            BlockState::Meta
                        };
                        fs.store_mut().set_state(block, state(used));
                    }
                    _ => continue,
                }
                if used == 0 && !fs.store().is_open(block) {
                    fs.store_mut().close(block);
                }
            }
            fs.store_mut().recount();
            fs.volume.checkpoint(false)
        })
    }
}

impl<N: Nand> FlashLight<'_, N> {
    /// Puts right what the files in a directory say of themselves.
    fn repair_files(&mut self, dir: u32) -> Result<(), Fault> {
        let (mut at, mut whole) = ((0, 0), true);
        while let Some(rec) = self.index_mut().entry_from(dir, &mut at, &mut whole)? {
            at.1 += 1;
            if !matches!(rec.target, Target::File | Target::Orphan) || rec.ptr == u32::MAX {
                continue;
            }
            if let Some(file) = self.index_mut().file_of(dir, &rec)? {
                self.volume.make_room()?;
                let done = match self.index_mut().repair_file(file) {
                    Ok(Names::Lost) => self.adopt_by_number(file),
                    done => done.map(drop),
                };
                self.index_mut().or_left(done)?;
            }
        }
        Ok(())
    }
}

impl<N: Nand> Volume<'_, N> {
    /// Removes entries that lead to nothing that is theirs, and counts the others.
    fn repair_entries(&mut self, dir: u32) -> Result<(), Fault> {
        let (mut at, mut whole) = ((0, 0), true);
        let (mut entries, mut subdirs) = (0u64, 0u32);
        while let Some(rec) = self.index_mut().entry_from(dir, &mut at, &mut whole)? {
            let verdict = self.index_mut().verdict(dir, &rec)?;
            if verdict == Verdict::Stays {
                at.1 += 1;
                entries += 1;
                subdirs += u32::from(rec.target == Target::Dir);
                continue;
            }
            self.make_room()?;
            self.index_mut().dir_reserve(dir)?;
            self.index_mut().dir_remove(dir, &rec, Removal::Volatile)?;
            if let Verdict::GivesUp(gone) = verdict {
                self.index_mut().map_set(gone, PageAddr::NONE)?;
            }
        }
        let i = self.index_mut().load_dir(dir)?;
        let mut view = self.index_mut().dirs[i].dir_mut();
        if whole && (view.size() != entries || view.nlink() != 2 + subdirs) {
            view.set_size(entries);
            view.set_nlink(2 + subdirs);
            self.index_mut().dirs[i].change();
        }
        Ok(())
    }
}

impl<N: Nand> Index<'_, N> {
    /// What meets damage is left.
    fn or_left(&mut self, done: Result<(), Fault>) -> Result<(), Fault> {
        match done {
            Err(Fault::NotFound | Fault::TooManyLinks | Fault::TooBig) => Ok(()),
            Err(e) if e.is_damage() && !self.store.nand.is_stopped() => Ok(()),
            r => r,
        }
    }

    /// Directories that cannot be read are none any more: no entry leads to them by now. A repair
    /// that was cut may have left one so.
    fn give_up_dirs(&mut self) -> Result<(), Fault> {
        let mut from = INDEX_DIR + 1;
        while let Some(Some((dir, _))) = sound(self.map_next(from))? {
            from = dir + 1;
            if sound(self.load_dir(dir))?.is_none() {
                self.map_set(dir, PageAddr::NONE)?;
            }
        }
        Ok(())
    }

    /// A directory whose parent has no entry for it gets one.
    fn repair_place(&mut self, dir: u32) -> Result<(), Fault> {
        if dir <= INDEX_DIR {
            return Ok(());
        }
        let mut name = [0; NAME_MAX];
        let i = self.load_dir(dir)?;
        let view = self.dirs[i].dir();
        let (parent, len) = (view.parent(), view.name().len());
        name[..len].copy_from_slice(view.name());
        self.relink(parent, &name[..len], Target::Dir, dir)
    }

    /// Adds an entry, if it is not there and nothing else has the name.
    fn relink(&mut self, dir: u32, name: &[u8], target: Target, ptr: u32) -> Result<(), Fault> {
        let hash = name_hash(self.store.volume, name);
        if self.has_entry(dir, hash, target, ptr)?.is_true() {
            return Ok(());
        }
        self.dir_reserve(dir)?;
        // Not by what inodes in the cache say of themselves: two may say the same.
        match self.find_entry(dir, hash, name) {
            Ok(found) if found.node.ino() != ptr => Ok(()),
            // By an entry of another kind, which goes.
            Ok(_) | Err(Fault::NotFound) => self.dir_add(dir, hash, target, ptr),
            Err(e) => Err(e),
        }
    }

    /// The file that an entry leads to, if that can be read and says that this is its place.
    fn file_of(&mut self, dir: u32, rec: &DirRec) -> Result<Option<FileRef>, Fault> {
        let at = PageAddr(rec.ptr);
        let found = sound(self.load_scratch(at, Kind::File))?;
        let file = found.map(|()| FileView::on(&*self.scratch).file_ref(self.store.volume));
        Ok(file.filter(|file| (file.dir, file.hash) == (dir, rec.hash)))
    }

    fn repair_file(&mut self, file: FileRef) -> Result<Names, Fault> {
        let i = self.load_file(file)?;
        let view = self.files[i].file();
        let (size, page_size) = (view.size(), self.store.page_size() as u64);
        let n = view.record_search(INDEX_END, 0);
        let last = n.checked_sub(1).map(|r| Extent::decode(view.record(r)));
        let end = last.map_or(0, |e| u64::from(e.end()) * page_size);
        if end > size.next_multiple_of(page_size) {
            let (mtime, ctime) = (view.time(Stamp::Modify), view.time(Stamp::Change));
            self.files[i].file_mut().set_size(end);
            self.truncate_cached(i, size, mtime)?;
            let i = self.load_file(file)?;
            self.files[i].file_mut().set_time(Stamp::Change, ctime);
        }
        let i = self.load_file(file)?;
        let view = self.files[i].file();
        let mut names = Names::Known;
        match (view.flags() & FLAG_INDIRECT, view.flags() & FLAG_ORPHAN) {
            (0, _) => {}
            (_, 0) => {
                self.drop_lost_names(i)?;
                names = self.repair_names(file)?;
            }
            _ => self.repair_orphan(i)?,
        }
        let i = self.load_file(file)?;
        self.flush_file(i)?;
        Ok(names)
    }

    /// A cached file that is said to have lost its last name: if directories have entries for it,
    /// it has names after all and is not to end with the next mount.
    fn repair_orphan(&mut self, i: FileSlot) -> Result<(), Fault> {
        let ino = self.files[i].ino;
        let mut names = 0;
        loop {
            let mut batch = [(0, 0); 32];
            let n = self.names_from(i, names, &mut batch)?;
            if n == 0 {
                break;
            }
            for (dir, hash) in batch[..n].iter().copied() {
                if self.has_entry(dir, hash, Target::Indirect, ino)?.is_true() {
                    let mut view = self.files[i].file_mut();
                    let flags = view.flags();
                    view.set_flags(flags & !FLAG_ORPHAN);
                    return self.mend_names(i);
                }
            }
            names += n;
        }
        if self.files[i].file().nlink() != 0 {
            self.files[i].file_mut().set_nlink(0);
            self.files[i].change();
        }
        Ok(())
    }

    /// Names that no directory has an entry for get one, or go; the link count is their number.
    pub(crate) fn repair_names(&mut self, file: FileRef) -> Result<Names, Fault> {
        let (mut names, mut lost) = (0, 0);
        loop {
            let mut batch = [(0, 0); 32];
            let i = self.load_file(file)?;
            let n = self.names_from(i, names, &mut batch)?;
            if n == 0 {
                break;
            }
            for (dir, hash) in batch[..n].iter().copied() {
                let i = self.load_file(file)?;
                let mut name = [0; NAME_MAX];
                let len = match self.find_spot(i, dir, Which::Hash(hash))? {
                    Some(spot) => self.copy_name(i, spot, &mut name),
                    None => continue,
                };
                let linked = self.relink(dir, &name[..len], Target::Indirect, file.ino);
                self.or_left(linked)?;
                let there = self
                    .has_entry(dir, hash, Target::Indirect, file.ino)?
                    .is_true();
                lost += usize::from(!there);
            }
            names += n;
        }
        let i = self.load_file(file)?;
        // With its last name a file would go.
        if lost < names && (lost > 0 || self.files[i].file().nlink() as usize != names) {
            self.mend_names(i)?;
        }
        Ok(match lost == names {
            true => Names::Lost,
            false => Names::Known,
        })
    }

    /// Copies the name at a spot just found; its length.
    fn copy_name(&self, i: FileSlot, spot: Spot, to: &mut [u8; NAME_MAX]) -> usize {
        let name = name_at(self.files[i].buf, spot, &self.scratch);
        to[..name.len()].copy_from_slice(name);
        name.len()
    }

    fn verdict(&mut self, dir: u32, rec: &DirRec) -> Result<Verdict, Fault> {
        match rec.target {
            Target::Dir => self.verdict_of_dir(dir, rec),
            // Of a file that is only in RAM.
            Target::File | Target::Orphan if rec.ptr == u32::MAX => Ok(Verdict::Stays),
            Target::File | Target::Orphan => {
                let file = self.file_of(dir, rec)?;
                Ok(file.map_or(Verdict::Goes, |_| Verdict::Stays))
            }
            Target::Indirect => match self.indirect_name(dir, rec) {
                Ok(Bool::True) => Ok(Verdict::Stays),
                Ok(Bool::False) | Err(Fault::NotFound) => Ok(Verdict::Goes),
                Err(e) if e.is_damage() => Ok(Verdict::Stays),
                Err(e) => Err(e),
            },
        }
    }

    fn verdict_of_dir(&mut self, dir: u32, rec: &DirRec) -> Result<Verdict, Fault> {
        match sound(self.map_get(rec.ptr)) {
            Ok(Some(page)) if page.is_some() => {}
            Ok(None) => return Ok(Verdict::Stays),
            Ok(_) | Err(Fault::NotFound) => return Ok(Verdict::Goes),
            Err(e) => return Err(e),
        }
        let Some(i) = sound(self.load_dir(rec.ptr))? else {
            return Ok(Verdict::GivesUp(rec.ptr));
        };
        let view = self.dirs[i].dir();
        let place = view.own_place(self.store.volume);
        if place == (dir, rec.hash) {
            return Ok(Verdict::Stays);
        }
        // It is elsewhere, if that is known there.
        let elsewhere = self
            .has_entry(place.0, place.1, Target::Dir, rec.ptr)?
            .is_true();
        Ok(if elsewhere {
            Verdict::Goes
        } else {
            Verdict::Stays
        })
    }

    /// Gives a block up that is being filled, if pages are in use where it would be written next,
    /// or of another kind: they would be lost, and no mount takes it for such a block.
    fn stop_filling(&mut self, block: u32, in_use: &dyn Fn(PageAddr) -> Option<Area>) {
        let first = block * self.store.ppb();
        let (mut end, mut kinds) = (0, [false; 2]);
        for index in 0..self.store.ppb() {
            if let Some(area) = in_use(PageAddr(first + index)) {
                end = index + 1;
                kinds[usize::from(area == Area::Data)] = true;
            }
        }
        let is_wrong = |head: &Head, other: bool| head.next < end || other;
        let (store, [meta, data]) = (&mut self.store, kinds);
        for head in &mut store.heads.log[1..] {
            if head.block == block && is_wrong(head, data) {
                *head = Head::NONE;
            }
        }
        let table = store.table.head();
        if table.block == block && is_wrong(&table, data) {
            store.table.set_head(Head::NONE);
        }
        for head in &mut store.heads.data {
            if head.block == block && is_wrong(head, meta) {
                *head = Head::NONE;
            }
        }
        if let Some(i) = store.remnants.find(block)
            && is_wrong(&store.remnants.get(i), meta)
        {
            store.remnants.remove(i);
        }
    }
}
