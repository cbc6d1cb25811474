//! What a record of a file changes in directories: names that it has taken, left, replaced.

use crate::error::{Bool, Damaged, Fault, sound};
use crate::format::dirrec::{DirRec, Target};
use crate::format::extent::{
    Extent, FREED_MAP, FREED_RUN, INDEX_END, REMOVED, REPLACED_MAP, REPLACED_PAGE,
};
use crate::format::hash::{ino_hash, name_hash};
use crate::format::header::{Kind, SEQ};
use crate::format::inode::{FLAG_EXCHANGED, FLAG_INDIRECT, FLAG_KEPT, FLAG_ORPHAN, FileView};
use crate::format::mappage::{ExtentPage, Extents, MapPage, RECORDS};
use crate::format::names::{Which, name_at};
use crate::format::node::{FIRST_FILE, FileRef, INDEX_DIR, ROOT_DIR};
use crate::index::Index;
use crate::index::cache::REMOVED_MOST;
use crate::index::dir::Removal;
use crate::index::slots::FileSlot;
use crate::index::waiting::{CHUNK, Chunk, Waiting};
use crate::recovery::records::Record;
use crate::space::latch::MayProgram;
use flashkit_bytes::get_u64;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Index<'_, N> {
    /// At the end of a recovery: corrects the names of files that a rename has taken one from, when
    /// no page of their own says so yet. They are marked in the index directory. A program for
    /// each, and a lookup for each of its names.
    #[inline(never)]
    pub(crate) fn mend_replaced(&mut self) -> Result<(), Fault> {
        let (mut hash, mut n) = (0, 0);
        loop {
            let Some(Some(rec)) = sound(self.dir_nth(INDEX_DIR, hash, n))? else {
                match self.dir_next_hash(INDEX_DIR, hash + 1, &mut None)? {
                    Some(next) => (hash, n) = (next, 0),
                    None => return Ok(()),
                }
                continue;
            };
            n += 1;
            if rec.target == Target::Orphan {
                // With damage it stays marked: the next mount tries again.
                sound(self.mend_marked(hash, PageAddr(rec.ptr)))?;
            }
        }
    }

    fn mend_marked(&mut self, hash: u32, at: PageAddr) -> Result<(), Fault> {
        self.load_scratch(at, Kind::File)?;
        let view = FileView::on(&*self.scratch);
        if view.flags() & FLAG_ORPHAN != 0 {
            return Ok(());
        }
        let (ino, dir) = (view.ino(), INDEX_DIR);
        let i = self.load_file(FileRef { ino, dir, hash })?;
        self.mend_names(i)
    }
}

impl<'r, N: Nand> Index<'r, N> {
    /// Removes the files that the FileInode in the first slot notes, whose record is `rec`. Each
    /// costs a read, those of its maps, and those of a lookup.
    #[inline(never)]
    pub(crate) fn replay_removed(&mut self, rec: &Record) -> Result<(), Fault> {
        let view = self.files[FileSlot::First].file();
        let mut removed = [PageAddr::NONE; REMOVED_MOST];
        let notes = (0..view.records()).map(|r| Extent::decode(view.record(r)));
        for (to, note) in removed.iter_mut().zip(notes.filter(|e| e.index == REMOVED)) {
            *to = PageAddr(note.page);
        }
        for at in removed.into_iter().filter(|at| at.is_some()) {
            self.files[FileSlot::First].clear();
            self.store.look_into(at)?;
            let header = self.store.read_meta(at, self.files[FileSlot::First].buf)?;
            let view = self.files[FileSlot::First].file();
            let sane = header.is_some_and(|h| h.kind == Kind::File) && view.is_sane();
            let hash = (sane && view.parent() == rec.parent)
                .then(|| name_hash(self.store.volume, view.name()));
            if hash.is_some() {
                self.files[FileSlot::First].loc = at;
                self.free_file(FileSlot::First)?;
            } else {
                // What it leads to goes on counting as valid.
                self.store.invalidate(at, MayProgram);
            }
            if self.is_older(rec.parent, rec.seq)?.is_true() {
                self.unlink_page(rec.parent, hash, at)?;
            }
        }
        Ok(())
    }

    /// Removes the entry of a file at a page, if it is there and can be read. Without the hash of
    /// its name all entries of the directory are looked at.
    fn unlink_page(&mut self, dir: u32, hash: Option<u32>, at: PageAddr) -> Result<(), Fault> {
        if let Some(hash) = hash {
            return self.unlink_object((dir, hash), Target::File, at.0);
        }
        let (mut from, mut damage) = (0, None);
        while let Some(hash) = self.dir_next_hash(dir, from, &mut damage)? {
            self.unlink_object((dir, hash), Target::File, at.0)?;
            from = hash + 1;
        }
        Ok(())
    }

    /// Invalidates what the FileInode in the first slot notes as freed.
    #[inline(never)]
    pub(crate) fn replay_freed(&mut self) -> Result<(), Fault> {
        for r in 0..self.files[FileSlot::First].file().records() {
            let note = Extent::decode(self.files[FileSlot::First].file().record(r));
            match note.index {
                FREED_RUN => self.store.invalidate_run(note.page, note.count, MayProgram),
                FREED_MAP => {
                    let at = PageAddr(note.page);
                    self.store.look_into(at)?;
                    let header = self.read_scratch(at)?;
                    match header.map(|h| h.kind) {
                        Some(Kind::ExtentMap) => self.free_map(FileSlot::First, at, 1)?,
                        Some(Kind::ExtentIndex) => self.free_map(FileSlot::First, at, 2)?,
                        _ => self.store.invalidate(at, MayProgram),
                    }
                }
                REPLACED_MAP | REPLACED_PAGE => {
                    // What cannot be known to be free goes on counting as valid.
                    let (old, new) = (PageAddr(note.page), PageAddr(note.count));
                    sound(self.free_difference(old, new))?;
                    if note.index == REPLACED_PAGE {
                        self.store.invalidate(old, MayProgram);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Invalidates the pages that `old` names and `new`, of a part of its range, does not, but
    /// for those that were masked: they had been given back before. Of two index pages also the
    /// maps, and what these name.
    fn free_difference(&mut self, old: PageAddr, new: PageAddr) -> Result<(), Fault> {
        self.store.look_into(old)?;
        let header = self.read_scratch(old)?;
        match header.map(|h| h.kind) {
            Some(Kind::ExtentMap) => {
                let count = ExtentPage::<&[u8]>::on(&*self.scratch).count();
                let waiting = Waiting {
                    page: old,
                    offset: RECORDS,
                    count,
                };
                self.load_scratch(new, Kind::ExtentMap)?;
                self.free_other_runs(&waiting, |page| ExtentPage::on(page).into_extents())
            }
            Some(Kind::ExtentIndex) => {
                let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                let waiting = Waiting::of(&index, old, 0, INDEX_END);
                self.load_scratch(new, Kind::ExtentIndex)?;
                self.free_other_runs(&waiting, |page| MapPage::<_, 8>::on(page).into_extents())?;
                self.free_other_maps(old, new)
            }
            _ => Ok(()),
        }
    }

    /// The same for the runs of `old`; the other page is in the scratch page, and has `runs`.
    fn free_other_runs(
        &mut self,
        old: &Waiting,
        runs: fn(&[u8]) -> Extents<'_>,
    ) -> Result<(), Fault> {
        let page = ExtentPage::<&[u8]>::on(&*self.scratch);
        let (first, end) = (page.first_key(), page.end_key());
        let mut from = 0;
        let mut chunk = Chunk::EMPTY;
        while from < old.count {
            let n = old.read(&mut self.store, from, &mut chunk)?;
            for e in chunk.extents().filter_map(|e| e.clip(first, end)) {
                for k in 0..e.count {
                    let now = runs(&self.scratch).of(e.index + k);
                    if !now.is_some_and(|now| now.covers || now.page == e.page + k) {
                        self.store.invalidate(PageAddr(e.page + k), MayProgram);
                    }
                }
            }
            from += n;
        }
        Ok(())
    }

    /// Frees the maps that an index page points to and the one that replaced it does not.
    fn free_other_maps(&mut self, old: PageAddr, new: PageAddr) -> Result<(), Fault> {
        let mut p = 0;
        loop {
            self.load_scratch(old, Kind::ExtentIndex)?;
            let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
            let mut maps = [(0, PageAddr::NONE); CHUNK];
            let n = CHUNK.min(index.count() - p.min(index.count()));
            for (k, map) in maps[..n].iter_mut().enumerate() {
                *map = index.pointer(p + k);
            }
            if n == 0 {
                return Ok(());
            }
            for (k, &(key, map)) in maps[..n].iter().enumerate() {
                self.load_scratch(new, Kind::ExtentIndex)?;
                let index: MapPage<&[u8], 8> = MapPage(&*self.scratch);
                let at = index.search(key, 0);
                let kept = at < index.count() && index.pointer(at).0 == key;
                if kept || key < index.first_key() || key >= index.end_key() {
                    continue;
                }
                self.load_scratch(old, Kind::ExtentIndex)?;
                let waiting = Waiting::below(&MapPage(&*self.scratch), old, p + k);
                self.free_map_below(FileSlot::First, map, Some(&waiting))?;
            }
            p += n;
        }
    }

    /// Whether a directory exists, and can be read, whose own page is older than a record.
    pub(crate) fn is_older(&mut self, dir: u32, seq: u64) -> Result<Bool, Fault> {
        match self.load_dir(dir) {
            Ok(i) => Ok(Bool::from(self.dirs[i].dir().as_of() < seq)),
            Err(Fault::NotFound | Fault::Corrupt(_)) => Ok(Bool::False),
            Err(e) => Err(e),
        }
    }

    /// Removes the entry of an object, if it is there and can be read.
    pub(crate) fn unlink_object(
        &mut self,
        (dir, hash): (u32, u32),
        target: Target,
        ptr: u32,
    ) -> Result<(), Fault> {
        let mut n = 0;
        while let Some(Some(rec)) = sound(self.dir_nth(dir, hash, n))? {
            if rec.same_object(target, ptr) {
                return self.dir_remove(dir, &rec, Removal::Recorded);
            }
            n += 1;
        }
        Ok(())
    }

    /// Adds an entry that an inode's page asks for, unless it is there.
    pub(crate) fn link_if(
        &mut self,
        rec: &Record,
        (dir, hash): (u32, u32),
        target: Target,
        ptr: u32,
    ) -> Result<(), Fault> {
        if !self.is_older(dir, rec.seq)?.is_true() {
            return Ok(());
        }
        let mut n = 0;
        loop {
            match self.dir_nth(dir, hash, n) {
                Ok(Some(r)) if r.same_object(target, ptr) => return Ok(()),
                Ok(Some(_)) => n += 1,
                Ok(None) => return self.link_new(rec, (dir, hash), target, ptr),
                Err(e) if e.is_damage() => return self.link_over(dir, hash, target, ptr, rec),
                Err(e) => return Err(e),
            }
        }
    }

    /// Adds an entry that is not there. In doubt what has its name goes first.
    fn link_new(
        &mut self,
        rec: &Record,
        (dir, hash): (u32, u32),
        target: Target,
        ptr: u32,
    ) -> Result<(), Fault> {
        let is_own = (dir, hash) == (rec.parent, rec.hash);
        let is_further = target == Target::Indirect && rec.ino >= FIRST_FILE;
        if self.in_doubt() && (is_own || is_further) {
            self.unlink_same_name(rec, (dir, hash))?;
        }
        self.dir_add(dir, hash, target, ptr)
    }

    /// A record of an inode may be lost.
    fn in_doubt(&self) -> bool {
        self.store.recovery.as_ref().is_some_and(|r| r.doubt)
    }

    /// Adds an entry whose hash map cannot be read. That of an inode that was there before may be
    /// in that map: it is hidden.
    fn link_over(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        ptr: u32,
        rec: &Record,
    ) -> Result<(), Fault> {
        let kept = (dir, hash) == rec.moved && rec.flags & FLAG_KEPT != 0
            || rec.flags & FLAG_EXCHANGED != 0;
        if rec.prev.is_none() || rec.moved.0 != 0 && !kept {
            return self.dir_add(dir, hash, target, ptr);
        }
        let old = match target {
            Target::File | Target::Orphan => (target, rec.prev.0),
            Target::Dir | Target::Indirect => (target, ptr),
        };
        self.dir_hide(dir, hash, old, Some((target, ptr)))
    }

    #[inline(never)]
    pub(crate) fn replay_dir_links(&mut self, rec: &Record) -> Result<(), Fault> {
        if rec.ino == ROOT_DIR || rec.ino == INDEX_DIR {
            return Ok(());
        }
        if rec.moved.0 != 0 && self.is_older(rec.moved.0, rec.seq)?.is_true() {
            self.unlink_object(rec.moved, Target::Dir, rec.ino)?;
        }
        if rec.flags & FLAG_EXCHANGED != 0 {
            self.replay_exchange(rec, Kind::Dir)?;
        } else if let Some((kind, dir)) = rec.replaced
            && kind == Target::Dir as u8
            && self.is_older(rec.parent, rec.seq)?.is_true()
        {
            self.unlink_object((rec.parent, rec.hash), Target::Dir, dir)?;
        }
        self.link_if(rec, (rec.parent, rec.hash), Target::Dir, rec.ino)
    }

    pub(crate) fn replay_file_links(&mut self, rec: &Record) -> Result<(), Fault> {
        // Whether it is known where it has been.
        let mut is_known = rec.is_first || rec.moved.0 != 0;
        if rec.moved.0 != 0 && self.is_older(rec.moved.0, rec.seq)?.is_true() {
            match self.entry_of(rec.moved, rec)?.flatten() {
                Some(r) => self.dir_remove(rec.moved.0, &r, Removal::Recorded)?,
                None => {
                    is_known = false;
                    self.unlink_object(rec.moved, Target::Indirect, rec.ino)?;
                }
            }
        }
        if rec.flags & FLAG_EXCHANGED != 0 {
            self.replay_exchange(rec, Kind::File)?;
        } else if let Some((kind, ptr)) = rec.replaced {
            self.replay_replaced(rec, kind, ptr)?;
        }
        let indirect = rec.flags & FLAG_INDIRECT != 0;
        let orphan = rec.flags & FLAG_ORPHAN != 0;
        let (dir, hash) = if indirect {
            (INDEX_DIR, ino_hash(self.store.volume, rec.ino))
        } else {
            (rec.parent, rec.hash)
        };
        let target = if orphan { Target::Orphan } else { Target::File };
        if self.is_older(dir, rec.seq)?.is_true() {
            let found = match rec.is_first {
                true => None,
                false => match self.entry_of((dir, hash), rec)? {
                    Some(found) => found,
                    None => return self.link_over(dir, hash, target, rec.at.0, rec),
                },
            };
            match found {
                Some(r) if r.ptr == rec.at.0 => {}
                Some(r) => self.dir_repoint(dir, hash, target, PageAddr(r.ptr), rec.at)?,
                None => {
                    self.link_new(rec, (dir, hash), target, rec.at.0)?;
                    if !is_known && self.in_doubt() {
                        self.unlink_older(rec)?;
                        self.link_further(rec)?;
                    }
                }
            }
        }
        if indirect && !orphan {
            let (target, ino) = (Target::Indirect, rec.ino);
            self.link_if(rec, (rec.parent, rec.hash), target, ino)?;
            if rec.flags & FLAG_KEPT != 0 {
                self.link_if(rec, rec.moved, target, ino)?;
            }
        }
        Ok(())
    }

    /// The entry that a file has for a hash when a page of it is recovered: it points to the page
    /// that this one replaced, to this one, or to another page of the same inode, when the record
    /// between is lost or its program had failed. Without the outer value the entries cannot be
    /// read. One read for each entry that points elsewhere.
    fn entry_of(
        &mut self,
        (dir, hash): (u32, u32),
        rec: &Record,
    ) -> Result<Option<Option<DirRec>>, Fault> {
        let mut n = 0;
        while let Some(found) = sound(self.dir_nth(dir, hash, n))? {
            let Some(r) = found else {
                return Ok(Some(None));
            };
            n += 1;
            let of_file = matches!(r.target, Target::File | Target::Orphan);
            let known = [rec.prev.0, rec.at.0].contains(&r.ptr)
                || rec.failed.is_some() && r.ptr == rec.failed.0;
            if of_file && (known || self.is_page_of(PageAddr(r.ptr), rec.ino)?.is_true()) {
                return Ok(Some(Some(r)));
            }
        }
        Ok(None)
    }

    /// Whether a page is a file inode's with this number.
    fn is_page_of(&mut self, at: PageAddr, ino: u32) -> Result<Bool, Fault> {
        let header = self.read_scratch(at)?;
        let of_file = header.is_some_and(|h| h.kind == Kind::File);
        Ok(Bool::from(
            of_file && FileView::on(&self.scratch).ino() == ino,
        ))
    }

    /// In doubt: adds the entries of the further names of a file, but for those in names pages.
    fn link_further(&mut self, rec: &Record) -> Result<(), Fault> {
        if rec.flags & (FLAG_INDIRECT | FLAG_ORPHAN) != FLAG_INDIRECT {
            return Ok(());
        }
        let mut n = 1;
        loop {
            self.load_again(rec)?;
            let mut name = [(0, 0)];
            if !matches!(
                sound(self.names_from(FileSlot::First, n, &mut name))?,
                Some(1)
            ) {
                return Ok(());
            }
            self.link_if(rec, name[0], Target::Indirect, rec.ino)?;
            n += 1;
        }
    }

    /// Brings a record into the first slot again: what it removes has been there.
    fn load_again(&mut self, rec: &Record) -> Result<(), Fault> {
        let buf = &mut *self.files[FileSlot::First].buf;
        self.store.read_meta(rec.at, buf).map(drop)
    }

    /// Before an entry of an inode is added: what else has that name was removed or renamed before,
    /// and what said so is lost. Two reads for each other file or directory with this hash, three
    /// for one that is found by its number.
    fn unlink_same_name(&mut self, rec: &Record, (dir, hash): (u32, u32)) -> Result<(), Fault> {
        let volume = self.store.volume;
        let mut n = 0;
        while let Some(Some(r)) = sound(self.dir_nth(dir, hash, n))? {
            n += 1;
            let (at, kind) = match r.target {
                Target::File => (Ok(PageAddr(r.ptr)), Kind::File),
                Target::Dir => (self.map_get(r.ptr), Kind::Dir),
                Target::Indirect => {
                    let file = FileRef::by_number(volume, r.ptr);
                    (self.find_file(file), Kind::File)
                }
                Target::Orphan => continue,
            };
            let at = match at {
                Err(Fault::NotFound) => continue,
                at => sound(at)?.unwrap_or(PageAddr::NONE),
            };
            self.load_again(rec)?;
            let header = self.read_scratch(at)?;
            let old = FileView::on(&*self.scratch);
            if header.is_none_or(|h| h.kind != kind) || old.ino() == rec.ino {
                continue;
            }
            let new = self.files[FileSlot::First].file();
            let Some(spot) = new.spot(volume, dir, Which::Hash(hash)) else {
                continue;
            };
            let name = name_at(self.files[FileSlot::First].buf, spot, &[]);
            // Names in names pages are left.
            let further =
                r.target == Target::Indirect && old.spot(volume, dir, Which::Name(name)).is_some();
            if further || (old.parent(), old.name()) == (dir, name) {
                self.note_damage(at, Damaged::Change);
                return self.dir_remove(dir, &r, Removal::Recorded);
            }
        }
        Ok(())
    }

    /// In doubt, when a page of a file that is not its first has no entry to take the place of: it
    /// has been renamed or linked, and what said so is lost. The entry that leads to an older page
    /// goes, wherever it is; to the number of a file that has that name still. A look at the pages
    /// of all files that have one name.
    #[inline(never)]
    fn unlink_older(&mut self, rec: &Record) -> Result<(), Fault> {
        let mut from = ROOT_DIR;
        while let Some(Some((dir, _))) = sound(self.map_next(from))? {
            from = dir + 1;
            let mut at = (0, 0);
            while let Some(Some(r)) = sound(self.entry_from(dir, &mut at, &mut true))? {
                at.1 += 1;
                let old = PageAddr(r.ptr);
                if r.target != Target::File || old == rec.at {
                    continue;
                }
                self.store.look_into(old)?;
                if !self.is_page_of(old, rec.ino)?.is_true()
                    || get_u64(&self.scratch, SEQ) > rec.seq
                {
                    continue;
                }
                self.note_damage(old, Damaged::Change);
                self.store.invalidate(old, MayProgram);
                self.load_again(rec)?;
                let view = self.files[FileSlot::First].file();
                let which = Which::Hash(r.hash);
                let has_name = view.spot(self.store.volume, dir, which).is_some();
                if rec.flags & FLAG_INDIRECT != 0 && has_name {
                    return self.dir_make_indirect(dir, r.hash, old, rec.ino);
                }
                return self.dir_remove(dir, &r, Removal::Recorded);
            }
        }
        Ok(())
    }

    /// A rename has replaced a file: a direct one ends its life, one in the index directory
    /// loses a name. It is marked there, until a page of its own says which are left.
    fn replay_replaced(&mut self, rec: &Record, kind: u8, ptr: u32) -> Result<(), Fault> {
        let target = if kind == Target::File as u8 {
            Target::File
        } else {
            Target::Indirect
        };
        if self.is_older(rec.parent, rec.seq)?.is_true() {
            self.unlink_object((rec.parent, rec.hash), target, ptr)?;
        }
        if target == Target::File {
            return self.free_file_at(PageAddr(ptr));
        }
        let hash = ino_hash(self.store.volume, ptr);
        let mut n = 0;
        while let Some(Some(r)) = sound(self.dir_nth(INDEX_DIR, hash, n))? {
            n += 1;
            let at = PageAddr(r.ptr);
            if !matches!(r.target, Target::File | Target::Orphan) {
                continue;
            }
            let found = sound(self.load_scratch(at, Kind::File))?;
            if found.is_some() && FileView::on(&self.scratch).ino() == ptr {
                if get_u64(&self.scratch, SEQ) > rec.seq {
                    return Ok(());
                }
                if let Some(recovery) = &mut self.store.recovery {
                    recovery.mend = true;
                }
                // A page of the index directory may have it marked already.
                if r.target == Target::Orphan {
                    return Ok(());
                }
                return self.dir_repoint(INDEX_DIR, hash, Target::Orphan, at, at);
            }
        }
        Ok(())
    }
}
