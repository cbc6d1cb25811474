//! Directories: the entry log in the DirInode, and hash maps (paper, 4.2.2).
//!
//! Up to a page full, all entries are in the log. Then the entries of one range of hashes move to
//! a hash map page, which holds them sorted; a full one is split in the middle of its hashes. The
//! DirInode points to the maps of consecutive ranges, or, beyond [`pointer_cap`], to index pages
//! that do. An entry whose hash the hash map already holds for another name stays in the log.

use crate::FlashLight;
use crate::dirrec::{self, DirRec, HASH_SHIFT, NO_HASH, State, Target};
use crate::error::Error;
use crate::header::Kind;
use crate::inode::DirView;
use crate::mappage::{MapPage, Owner};
use crate::store::Area;
use crate::tree::{self, Changes, HASH, MapTarget, Put};
use flashkit_nand::{Nand, PageAddr};

type HashPage<'a> = MapPage<&'a mut [u8], { dirrec::SIZE }>;

/// What a migration did.
enum Migrated {
    /// Records moved.
    Some,
    /// None did; the hash of the first record behind the range tried.
    None(Option<u32>),
}

/// What a removal of an entry means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The object's life ends with the directory's next page on flash.
    Freed(Target, u32),
    /// The object never was on flash.
    Volatile,
    /// A page already on flash says so: that of the object that was renamed.
    Recorded,
}

impl<N: Nand> FlashLight<'_, N> {
    /// Makes sure that a few records can be added to a directory without anything being written.
    pub(crate) fn dir_reserve(&mut self, dir: u32) -> Result<(), Error<N::Error>> {
        self.dir_room(dir, 6 * dirrec::SIZE).map(|_| ())
    }

    /// The pointer to the hash map page that covers a hash, if the directory has any, and the hash
    /// where its range ends: also when the page that leads there cannot be read. At most one read.
    #[allow(clippy::type_complexity)]
    fn hash_map_for(
        &mut self,
        i: usize,
        hash: u32,
    ) -> (Result<(u32, PageAddr), Error<N::Error>>, u32) {
        let dir = self.dirs[i].dir();
        let (levels, ino) = (dir.levels(), dir.ino());
        if levels == 0 {
            return (Ok((0, PageAddr::NONE)), NO_HASH);
        }
        let ((key, at), end) = tree::root_range(&dir, hash, NO_HASH);
        if levels == 1 {
            return (Ok((key, at)), end);
        }
        if let Err(e) = self.load_map_page(HASH.index, (key, at), ino, HASH.what_index) {
            return (Err(e), end);
        }
        let (pointer, end) = tree::index_range(&MapPage(&*self.scratch), hash, end);
        (Ok(pointer), end)
    }

    /// Loads the hash map page that covers a hash into the scratch page; `false` when there is none.
    fn load_hash_map(&mut self, i: usize, hash: u32) -> Result<bool, Error<N::Error>> {
        let pointer = self.hash_map_for(i, hash).0?;
        self.load_hash_map_at(i, pointer)
    }

    fn load_hash_map_at(
        &mut self,
        i: usize,
        pointer: (u32, PageAddr),
    ) -> Result<bool, Error<N::Error>> {
        if pointer.1.is_none() {
            return Ok(false);
        }
        self.load_map_page(HASH.map, pointer, self.dirs[i].ino, HASH.what)?;
        Ok(true)
    }

    /// The `n`-th entry of a hash. Reads the directory if it is not cached, and its hash map
    /// when the log does not answer.
    pub(crate) fn dir_nth(
        &mut self,
        dir: u32,
        hash: u32,
        n: usize,
    ) -> Result<Option<DirRec>, Error<N::Error>> {
        let i = self.load_dir(dir)?;
        let view = self.dirs[i].dir();
        let mut left = n;
        let mut masked = false;
        for r in view.record_search(hash, HASH_SHIFT)..view.records() {
            let rec = DirRec::decode(view.record(r));
            if rec.hash != hash {
                break;
            }
            masked |= rec.state != State::New;
            if rec.is_entry() {
                if left == 0 {
                    return Ok(Some(rec));
                }
                left -= 1;
            }
        }
        if masked || left > 0 || !self.load_hash_map(i, hash)? {
            return Ok(None);
        }
        let page: HashPage<'_> = MapPage(self.scratch);
        let at = page.search(hash, HASH_SHIFT);
        let found = at < page.count();
        Ok(found
            .then(|| DirRec::decode(page.record(at)))
            .filter(|rec| rec.hash == hash))
    }

    /// The first entry, in the order of hashes, at or after `hash`: what `readdir` goes by. Hash
    /// maps that cannot be read are passed over; `damage` is then one of them.
    pub(crate) fn dir_next_hash(
        &mut self,
        dir: u32,
        hash: u32,
        damage: &mut Option<Error<N::Error>>,
    ) -> Result<Option<u32>, Error<N::Error>> {
        let mut from = hash;
        loop {
            let i = self.load_dir(dir)?;
            let view = self.dirs[i].dir();
            let in_log = (view.record_search(from, HASH_SHIFT)..view.records())
                .map(|r| DirRec::decode(view.record(r)))
                .find(DirRec::is_entry)
                .map(|rec| rec.hash);
            let (map, end) = self.hash_map_for(i, from);
            let in_map = match map.and_then(|pointer| self.load_hash_map_at(i, pointer)) {
                Ok(false) => return Ok(in_log),
                Ok(true) => self.next_in_map(i, from),
                Err(e) if e.is_damage() => {
                    *damage = Some(e);
                    None
                }
                Err(e) => return Err(e),
            };
            match (in_log, in_map) {
                (Some(a), Some(b)) => return Ok(Some(a.min(b))),
                (_, Some(b)) => return Ok(Some(b)),
                (a, None) if end >= NO_HASH || end <= from || a.is_some_and(|a| a < end) => {
                    return Ok(a);
                }
                _ => from = end,
            }
        }
    }

    /// The first hash from `from` on in the hash map in the scratch page that the log does not hide.
    fn next_in_map(&self, i: usize, from: u32) -> Option<u32> {
        let view = self.dirs[i].dir();
        let page: MapPage<&[u8], { dirrec::SIZE }> = MapPage(self.scratch);
        (page.search(from, HASH_SHIFT)..page.count())
            .map(|r| DirRec::decode(page.record(r)).hash)
            .find(|&hash| {
                let at = view.record_search(hash, HASH_SHIFT);
                let masked = at < view.records() && {
                    let rec = DirRec::decode(view.record(at));
                    rec.hash == hash && rec.state == State::Delete
                };
                !masked
            })
    }

    /// Adds a record to the log of a directory. DELETE and UPDATE sort before NEW of their hash.
    pub(crate) fn dir_log(&mut self, dir: u32, rec: DirRec) -> Result<(), Error<N::Error>> {
        let i = self.dir_room(dir, dirrec::SIZE)?;
        let slot = &mut self.dirs[i];
        let key = if rec.state == State::New {
            rec.hash + 1
        } else {
            rec.hash
        };
        let at = slot.dir().record_search(key, HASH_SHIFT);
        slot.dir_mut().record_insert(at, &rec.encode());
        slot.dirty = true;
        Ok(())
    }

    /// Makes room in a directory's page: by writing it, when it is full of notes of freed
    /// objects, else by moving entries to a hash map. Entries of hash maps that cannot be read stay;
    /// when they are all there is, so does what is kept free for pointers, as far as it goes.
    pub(crate) fn dir_room(&mut self, dir: u32, bytes: usize) -> Result<usize, Error<N::Error>> {
        // A migration of two entries wins no more than its notes of freed pages take.
        let (mut from, mut damage) = (None, None);
        for _ in 0..256 {
            let i = self.load_dir(dir)?;
            let view = self.dirs[i].dir();
            if view.room() >= bytes + tree::SLACK {
                return Ok(i);
            }
            let freed = view.records() - view.record_search(NO_HASH, HASH_SHIFT);
            // Without room for its notes a migration cannot be recorded.
            if freed > 0 && (freed >= view.records() / 4 || view.room() < tree::SLACK) {
                self.flush_dir(i)?;
                continue;
            }
            let migrated = self.dir_migrate(i, from);
            let next = match migrated {
                Ok(Migrated::Some) => {
                    from = None;
                    continue;
                }
                Ok(Migrated::None(next)) => next,
                Err(e) if e.is_damage() && !self.store.nand.failed => {
                    damage = Some(e);
                    // One range after another, from the first.
                    let behind = from.map_or(0, |hash| self.hash_map_for(i, hash).1);
                    self.name_from(i, behind)
                }
                Err(e) => return Err(e),
            };
            from = next;
            if next.is_some() {
                continue;
            }
            if self.files.iter().any(|f| f.ino != 0 && f.loc.is_none()) {
                // Entries of files that are only in RAM cannot move.
                for slot in 0..2 {
                    if self.files[slot].ino != 0 && self.files[slot].loc.is_none() {
                        self.settle_file(slot)?;
                    }
                }
            } else if freed > 0 {
                self.flush_dir(i)?;
            } else if let Some(e) = damage {
                let room = self.dirs[i].dir().room();
                return if room >= bytes + tree::SLACK_LEAST {
                    Ok(i)
                } else {
                    Err(e)
                };
            } else {
                break;
            }
        }
        Err(Error::TooBig)
    }

    /// The hash of the first record from `hash` on that is a name's.
    fn name_from(&self, i: usize, hash: u32) -> Option<u32> {
        let view = self.dirs[i].dir();
        let at = view.record_search(hash, HASH_SHIFT);
        let end = view.record_search(NO_HASH, HASH_SHIFT);
        (at < end).then(|| DirRec::decode(view.record(at)).hash)
    }

    /// Adds an entry. The name is not there yet.
    pub(crate) fn dir_add(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        ptr: u32,
    ) -> Result<(), Error<N::Error>> {
        self.dir_log(dir, DirRec::new(hash, State::New, target, ptr))?;
        let i = self.load_dir(dir)?;
        let mut view = self.dirs[i].dir_mut();
        view.set_size(view.size().saturating_add(1));
        if target == Target::Dir {
            view.set_nlink(view.nlink().saturating_add(1));
        }
        Ok(())
    }

    /// Removes the entry of an object.
    pub(crate) fn dir_remove(
        &mut self,
        dir: u32,
        entry: &DirRec,
        how: Removal,
    ) -> Result<(), Error<N::Error>> {
        let DirRec {
            hash, target, ptr, ..
        } = *entry;
        let i = self.load_dir(dir)?;
        match self.dir_log_find(i, hash, target, ptr) {
            Some((r, State::New)) => self.dirs[i].dir_mut().record_remove(r),
            Some((r, _)) => {
                let rec = DirRec::new(hash, State::Delete, target, ptr);
                self.dirs[i].dir_mut().record_set(r, &rec.encode());
            }
            None => self.dir_log(dir, DirRec::new(hash, State::Delete, target, ptr))?,
        }
        if let Removal::Freed(target, ptr) = how {
            self.dir_log(dir, DirRec::new(NO_HASH, State::Freed, target, ptr))?;
        }
        let i = self.load_dir(dir)?;
        let slot = &mut self.dirs[i];
        slot.dirty = true;
        slot.removals |= how != Removal::Recorded;
        let mut view = slot.dir_mut();
        view.set_size(view.size().saturating_sub(1));
        if target == Target::Dir {
            view.set_nlink(view.nlink().saturating_sub(1));
        }
        Ok(())
    }

    /// The log record that is the entry of an object.
    fn dir_log_find(
        &self,
        i: usize,
        hash: u32,
        target: Target,
        ptr: u32,
    ) -> Option<(usize, State)> {
        let view = self.dirs[i].dir();
        (view.record_search(hash, HASH_SHIFT)..view.records())
            .map(|r| (r, DirRec::decode(view.record(r))))
            .take_while(|(_, rec)| rec.hash == hash)
            .find(|(_, rec)| rec.is_entry() && rec.same_object(target, ptr))
            .map(|(r, rec)| (r, rec.state))
    }

    /// Makes sure that the entry of a file at `old` can be made to point elsewhere without the directory
    /// being written.
    pub(crate) fn repoint_reserve(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        old: PageAddr,
    ) -> Result<(), Error<N::Error>> {
        let i = self.load_dir(dir)?;
        if self.dir_log_find_file(i, hash, target, old).is_none() {
            self.dir_room(dir, dirrec::SIZE)?;
        }
        Ok(())
    }

    /// The log record that is the entry of a file, or of an orphan, at `old`.
    fn dir_log_find_file(
        &self,
        i: usize,
        hash: u32,
        target: Target,
        old: PageAddr,
    ) -> Option<(usize, State)> {
        self.dir_log_find(i, hash, target, old.0)
            .or_else(|| self.dir_log_find(i, hash, other_target(target), old.0))
    }

    /// Makes the entry of a file that was at `old` point to `new`.
    pub(crate) fn dir_repoint(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        old: PageAddr,
        new: PageAddr,
    ) -> Result<(), Error<N::Error>> {
        let i = self.load_dir(dir)?;
        let Some((r, state)) = self.dir_log_find_file(i, hash, target, old) else {
            return self.dir_log(dir, DirRec::new(hash, State::Update, target, new.0));
        };
        let slot = &mut self.dirs[i];
        slot.dir_mut()
            .record_set(r, &DirRec::new(hash, state, target, new.0).encode());
        slot.dirty = true;
        Ok(())
    }

    /// Makes the entry of a file that was at `old` lead to its number.
    pub(crate) fn dir_make_indirect(
        &mut self,
        dir: u32,
        hash: u32,
        old: PageAddr,
        ino: u32,
    ) -> Result<(), Error<N::Error>> {
        let i = self.load_dir(dir)?;
        let Some((r, state)) = self.dir_log_find(i, hash, Target::File, old.0) else {
            return self.dir_log(dir, DirRec::new(hash, State::Update, Target::Indirect, ino));
        };
        let slot = &mut self.dirs[i];
        slot.dir_mut()
            .record_set(r, &DirRec::new(hash, state, Target::Indirect, ino).encode());
        slot.dirty = true;
        Ok(())
    }

    /// Moves the records of one range of hashes from the log to its hash map: the range with the
    /// most of them, or that of the first record from the hash `from` on. One read, one program; a
    /// split one more, an index page one more of each.
    fn dir_migrate(&mut self, i: usize, from: Option<u32>) -> Result<Migrated, Error<N::Error>> {
        let ino = self.dirs[i].ino;
        let owner = Owner {
            ino,
            dir: 0,
            hash: 0,
        };
        let Some(target) = self.dir_migrate_target(i, from)? else {
            return Ok(Migrated::None(None));
        };
        if target.page.is_none() {
            self.store.scratch_at = PageAddr::NONE;
            HashPage::on(self.scratch).init(owner, target.first, target.end);
        } else {
            self.load_target(HASH, &target, ino)?;
        }
        self.store.scratch_at = PageAddr::NONE;
        HashPage::on(self.scratch).set_range(target.first, target.end);
        let mut changes = Changes::new();
        let names = |dir: DirView<'_>| dir.record_search(NO_HASH, HASH_SHIFT);
        let before = names(self.dirs[i].dir());
        let mut r = self.dirs[i].dir().record_search(target.first, HASH_SHIFT);
        while r < self.dirs[i].dir().records() {
            let rec = DirRec::decode(self.dirs[i].dir().record(r));
            if rec.hash >= HashPage::on(&mut *self.scratch).end_key() || changes.is_full() {
                break;
            }
            if HashPage::on(self.scratch).count() == HashPage::on(self.scratch).capacity() {
                let (key, mid) = (rec.hash, HashPage::on(self.scratch).count() / 2);
                let (store, page) = (&mut self.store, &mut *self.scratch);
                changes.push(tree::split::<8, N>(store, HASH, page, key, mid)?);
            }
            if merge(&mut MapPage(self.scratch), rec) {
                self.dirs[i].dir_mut().record_remove(r);
            } else {
                r += 1;
            }
        }
        let view = self.dirs[i].dir();
        if view.room() < tree::pointers_need(view.levels(), &target, &changes) {
            // What is in RAM now misses entries.
            self.store.nand.failed = true;
            return Err(Error::TooBig);
        }
        let page: HashPage<'_> = MapPage(self.scratch);
        let (len, key) = (page.len(), page.first_key());
        let page = self.store.append(
            Area::Hash,
            &mut self.scratch[..len],
            Kind::HashMap,
            target.page,
        )?;
        changes.push(Put { key, page });
        self.dirs[i].dirty = true;
        self.apply_dir_changes(i, &target, &changes)?;
        if target.page.is_some() {
            self.store.invalidate(target.page);
            self.dir_note_freed_page(i, target.page)?;
        }
        if names(self.dirs[i].dir()) < before {
            return Ok(Migrated::Some);
        }
        // All of the range collide with names in its hash map, or are only in RAM.
        Ok(Migrated::None(self.name_from(i, target.end)))
    }

    /// The hash map that most records of the log belong to.
    fn dir_migrate_target(
        &mut self,
        i: usize,
        from: Option<u32>,
    ) -> Result<Option<MapTarget>, Error<N::Error>> {
        let view = self.dirs[i].dir();
        let movable = (0..view.record_search(NO_HASH, HASH_SHIFT)).any(|r| {
            let rec = DirRec::decode(view.record(r));
            rec.ptr != u32::MAX || rec.target != Target::File
        });
        if !movable {
            return Ok(None);
        }
        self.store.scratch_at = PageAddr::NONE;
        let view = self.dirs[i].dir();
        tree::target(&mut self.store, HASH, self.scratch, &view, from, NO_HASH).map(Some)
    }

    fn apply_dir_changes(
        &mut self,
        i: usize,
        target: &MapTarget,
        changes: &Changes,
    ) -> Result<(), Error<N::Error>> {
        let owner = Owner {
            ino: self.dirs[i].ino,
            dir: 0,
            hash: 0,
        };
        self.store.scratch_at = PageAddr::NONE;
        let mut inode = self.dirs[i].dir_mut();
        let (store, scratch) = (&mut self.store, &mut *self.scratch);
        let old = match tree::apply(store, HASH, scratch, &mut inode, owner, target, changes) {
            Ok(old) => old,
            Err(e) => {
                // What is in RAM now misses names.
                self.store.nand.failed = true;
                return Err(e);
            }
        };
        if let Some(old) = old {
            self.store.invalidate(old);
            self.dir_note_freed_page(i, old)?;
        }
        Ok(())
    }

    /// Notes that a map page of the directory was replaced. There is room: at least one record
    /// has just left the log.
    pub(crate) fn dir_note_freed_page(
        &mut self,
        i: usize,
        page: PageAddr,
    ) -> Result<(), Error<N::Error>> {
        if self.dirs[i].dir().room() < dirrec::SIZE {
            return self.flush_dir(i);
        }
        let rec = DirRec::new(NO_HASH, State::Freed, Target::Orphan, page.0);
        let n = self.dirs[i].dir().records();
        self.dirs[i].dir_mut().record_insert(n, &rec.encode());
        Ok(())
    }
}

/// Applies a log record to the hash map; `false` if it must stay in the log.
fn merge(page: &mut HashPage<'_>, rec: DirRec) -> bool {
    let at = page.search(rec.hash, HASH_SHIFT);
    let exists = at < page.count() && DirRec::decode(page.record(at)).hash == rec.hash;
    let entry = DirRec {
        state: State::New,
        ..rec
    }
    .encode();
    match rec.state {
        State::Freed => return false,
        State::Delete if exists => page.remove(at),
        State::Delete => {}
        _ if rec.target == Target::File && rec.ptr == u32::MAX => return false,
        State::Update if exists => page.set(at, &entry),
        State::New if exists => return false,
        _ => page.insert(at, &entry),
    }
    true
}

fn other_target(target: Target) -> Target {
    if target == Target::File {
        Target::Orphan
    } else {
        Target::File
    }
}
