//! Roll-forward after an unclean stop.
//!
//! Nothing that the last checkpoint needs, and no page written since, has been erased. So the
//! state is rebuilt from the checkpoint and the inode pages written since, in the order of their
//! sequence numbers; every one of them is a record of a change that was complete:
//!
//! 1. The allocation log tells which blocks were taken since. Their pages, and those of blocks
//!    that were open at the checkpoint beyond the place they had reached, are *lost*: not valid
//!    unless step 5 finds them in use. Then the checkpoint is written once more (`checkpoint`),
//!    without the blocks that only it makes free: it may be the page whose program was cut.
//! 2. The newest inode page may be the one that was being programmed when power failed: it may
//!    read well now and fail later. It is written anew and taken from there; the page itself is
//!    not looked at again. (Of other pages only those matter that an inode page written later
//!    refers to; these were complete by then.)
//! 3. DirInode pages: the DirInode map points to the newest; what they note as freed is invalid.
//! 4. DirInode and FileInode pages, in order: what they replace is invalid; a name that a
//!    directory's own newest page does not show is linked; one that was moved away, or noted in
//!    the page of a newer name, is removed.
//!    Where a record may be lost, what has the name of a newer record goes, and the entry that
//!    leads to an older page of its inode.
//! 5. Of lost pages, those are valid that an inode refers to now.
//! 6. All blocks that were open are closed: only freshly erased ones are written.
//! 7. Updates that no inode page shows yet are found by the tags of their pages (`updates`).
//! 8. What one page began and another was to end is ended: an exchange, the loss of a name by a
//!    rename, a truncation of many pieces.
//! 9. Blocks that are hardly written are cleaned, and a checkpoint makes it durable; until then a
//!    second stop finds the volume as the first did.

use crate::checkpoint::Durable;
use crate::checkpoint::encode::Start;
use crate::cleaning::Volume;
use crate::error::{Bool, Damaged, Fault, sound};
use crate::format::area::LogArea;
use crate::format::blockstate::BlockState;
use crate::format::deferred::{GROUP_MOST, Group, forget_removals};
use crate::format::dirrec::{DirRec, RecState, Target};
use crate::format::hash::name_hash;
use crate::format::header::{Header, Kind, SEQ};
use crate::format::inode::{DirView, FLAG_EXCHANGED, FileView};
use crate::format::snapshot::{Part, Parts, Piece};
use crate::index::Index;
use crate::index::slots::{DirSlot, FileSlot};
use crate::recovery::count::count;
use crate::recovery::records::Record;
use crate::space::latch::MayProgram;
use crate::space::newer::Newer;
use crate::space::opened::{NEWER, Pending, Recovery};
use crate::space::store::Store;
use flashkit_bytes::get_u64;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Store<'_, N> {
    /// In a recovery, before a page is looked into for what it names: see [`Recovery::look_into`].
    ///
    /// # Errors
    /// [`Fault::Corrupt`] when that has been done more often than there are pages.
    pub fn look_into(&mut self, at: PageAddr) -> Result<(), Fault> {
        let may = self.recovery.as_mut().is_none_or(Recovery::look_into);
        if may {
            Ok(())
        } else {
            Err(self.nand.damaged(at, Damaged::Change))
        }
    }
}

/// What a recovery knows once the records are replayed.
pub(crate) struct Replayed {
    /// The checkpoint that it began from.
    since: u64,
    /// What it writes can last: the last root block is not full.
    lasts: bool,
    /// The newest record, written anew, and the number that it had before.
    copy: Option<(PageAddr, u64)>,
    /// As of [`Recovery`].
    mend: bool,
    exchange: Option<Pending>,
    half_cut: Option<[PageAddr; 2]>,
}

impl<'r, N: Nand> Volume<'r, N> {
    /// Brings the volume from the checkpoint just loaded to where its records say that it was. What
    /// is left to be done is [`Volume::end_recovery`], of what it has `replayed`.
    #[inline(never)]
    pub(crate) fn recover(
        &mut self,
        start: &Start,
        replayed: &mut Option<Replayed>,
    ) -> Result<(), Fault> {
        let since = start.since;
        self.store_mut().log.session = true;
        // A recovery that was cut may have written any of them.
        self.store_mut().table.forget_clean();
        self.durable.compare_states()?;
        self.durable.give_up_meant();
        // A page written after the checkpoint shows that it was complete; but what leads to a
        // copy of it may be the last page of the recovery before, and fail yet: then what led to
        // the one before is needed.
        let changed = self.durable.list_opened(start)?.is_true();
        if start.firm || changed && !start.is_copy {
            self.store_mut().free_dead(true)?;
        }
        let lasts = self.begin_durable(start)?.is_true();
        self.index_mut().close_at_checkpoint(MayProgram);
        self.index_mut().copy_suspects(since)?;
        let copy = self.store().recovery.as_ref().and_then(|r| r.copy);
        self.index_mut().look_anew();
        self.index_mut().replay_dirs(since, copy)?;
        if self.index().deferred_left_out {
            self.index_mut().write_left_out(start)?;
        }
        self.index_mut().replay_all(since)?;
        // Pages that are no records may have later numbers.
        self.store_mut().seq += 1 << 16;
        for &i in &DirSlot::ALL {
            self.index_mut().save_dir(i)?;
            self.index_mut().dirs[i].clear();
        }
        self.index_mut().look_anew();
        self.index_mut().count_lost(since)?;
        let recovery = self.store().recovery.as_ref();
        *replayed = Some(Replayed {
            since,
            lasts,
            copy: copy.map(|copy| (copy.0, copy.2)),
            mend: recovery.is_some_and(|r| r.mend),
            exchange: recovery.and_then(|r| r.exchange),
            half_cut: recovery.map(|r| r.half_cut),
        });
        self.index_mut().close_opened(MayProgram);
        for slot in &mut self.index_mut().dirs.0 {
            if slot.ino != 0 {
                slot.dir_mut().set_as_of(0);
            }
        }
        self.store_mut().scratch_holds.forget();
        self.index_mut().orphans = 1;
        Ok(())
    }

    /// Does what is left of a recovery. Returns whether it is durable: it is not where the last
    /// root block is full. Then what is written is in blocks that are free for the next mount as
    /// well, which does it again. Apart from the rest for its stack: the checkpoint that the
    /// recovery began from is not needed any more.
    #[inline(never)]
    pub(crate) fn end_recovery(&mut self, replayed: &Replayed) -> Result<Bool, Fault> {
        self.index_mut()
            .replay_updates(replayed.since, replayed.copy)?;
        if let Some(pending) = replayed.exchange {
            self.index_mut().finish_exchange(pending)?;
        }
        if replayed.mend {
            self.index_mut().mend_replaced()?;
        }
        if !replayed.lasts {
            return Ok(Bool::False);
        }
        for at in replayed.half_cut.into_iter().flatten() {
            self.index_mut().finish_half_cut(at)?;
        }
        self.clean_hardly_written()?;
        let named = self.checkpoint(false);
        self.durable.unless_roots_are_full(named)
    }

    /// Takes the numbers of what the recovery writes, and repeats the checkpoint that it begins
    /// from. Whether what it writes lasts.
    #[inline(never)]
    fn begin_durable(&mut self, start: &Start) -> Result<Bool, Fault> {
        // A page that cannot be read now may be read by the next mount: a newer checkpoint, or a
        // root page that leads to the second-level block that was meant. What is written now is
        // newer, and that block stays.
        self.store_mut().log.together = true;
        self.store_mut().seq += NEWER;
        self.store_mut().spared = self.durable.anchor.meant;
        let mut lasts = !self.store().discarded;
        if lasts {
            let own = self.store().seq;
            let repeated = self.durable.repeat_checkpoint(start);
            lasts = self.durable.unless_roots_are_full(repeated)?.is_true();
            if !lasts {
                self.store_mut().newer = Newer::between(start.since, own);
            }
        }
        if lasts || self.store().discarded {
            self.store_mut().spared = u32::MAX;
            self.store_mut().free_dead(true)?;
        }
        Ok(lasts.into())
    }
}

impl<'r, N: Nand> Durable<'r, N> {
    /// A second-level block that was never reached is not needed any more.
    fn give_up_meant(&mut self) {
        let meant = self.anchor.meant;
        if self.index.store.table.paged.is_some()
            && meant < self.index.store.table.blocks()
            && !self.anchor.owns(meant)
            && !self.index.store.is_log(meant)
            && self.index.store.state(meant) == BlockState::System
        {
            self.anchor.push_chain(meant);
        }
    }
}

impl<'r, N: Nand> Index<'r, N> {
    /// Brings the map of directories to where it was: their pages in their order.
    #[inline(never)]
    fn replay_dirs(
        &mut self,
        since: u64,
        copy: Option<(PageAddr, Header, u64)>,
    ) -> Result<(), Fault> {
        let mut dirs = self.cursor(LogArea::Dir, since)?;
        while let Some((at, _)) = dirs.at {
            let replayed = self.replay_dir_map(at);
            self.noted(replayed)?;
            self.advance(&mut dirs, since)?;
        }
        if let Some((at, ..)) = copy.filter(|c| c.1.kind == Kind::Dir) {
            let replayed = self.replay_dir_map(at);
            self.noted(replayed)?;
        }
        Ok(())
    }

    /// Step 4: DirInode and FileInode pages in the order of their numbers,
    /// the copy of the newest last.
    #[inline(never)]
    fn replay_all(&mut self, since: u64) -> Result<(), Fault> {
        let (mut dirs, mut files) = (
            self.cursor(LogArea::Dir, since)?,
            self.cursor(LogArea::File, since)?,
        );
        // The page that was read last.
        let mut held = files.at;
        loop {
            let dir_first = match (dirs.at, files.at) {
                (None, None) => break,
                (Some(d), Some(f)) => d.1.seq < f.1.seq,
                (d, _) => d.is_some(),
            };
            let cursor = if dir_first { &mut dirs } else { &mut files };
            if let Some((at, header)) = cursor.at {
                self.store.seq = self.store.seq.max(header.seq + 1);
                cursor.missed = !self
                    .replay_sound(at, &header, held.is_some_and(|h| h.0 == at))?
                    .is_true();
            }
            let cursor = if dir_first { &mut dirs } else { &mut files };
            self.advance(cursor, since)?;
            held = cursor.at;
        }
        let copy = self.store.recovery.as_ref().and_then(|r| r.copy);
        if let Some((at, header, _)) = copy
            && !self.replay_sound(at, &header, false)?.is_true()
        {
            self.note_damage(at, Damaged::Change);
        }
        Ok(())
    }

    /// Writes the directories whose deferred changes are in the checkpoint and had no place in RAM,
    /// of which there was more. A read and a program for each.
    #[inline(never)]
    fn write_left_out(&mut self, start: &Start) -> Result<(), Fault> {
        // Who deferred them left blocks for them, beside those that a recovery takes.
        let drawn = self.store.drawn;
        let mut parts = self.parts();
        for at in start.snapshot[..start.snapshot_len].iter().copied() {
            let at = PageAddr(at);
            let buf = &mut *self.files[FileSlot::First].buf;
            let header = (self.store).expect_meta(at, buf, Kind::Snapshot)?;
            let (mut taken, mut group) = (0, [0; GROUP_MOST]);
            while let Some(len) = self.next_group(header.len, &mut taken, &mut parts, &mut group) {
                let written = self.write_group(&group[..len], start.since);
                self.noted(written)?;
            }
        }
        self.store.drawn = drawn;
        self.deferred_left_out = false;
        Ok(())
    }

    /// The next group of deferred changes in the page of the snapshot in the first slot, behind so
    /// many bytes of the string.
    fn next_group(
        &self,
        used: usize,
        taken: &mut usize,
        parts: &mut Parts,
        group: &mut [u8; GROUP_MOST],
    ) -> Option<usize> {
        let piece = Piece::on(&self.store.geo, self.files[FileSlot::First].buf, used)?;
        let (before, mut at) = (*taken, 0);
        let found = piece.try_each(&mut |byte| {
            at += 1;
            if at <= before {
                return Ok(());
            }
            *taken = at;
            match parts.next(byte) {
                Part::Deferred(bytes) => {
                    let len = forget_removals(bytes);
                    group[..len].copy_from_slice(&bytes[..len]);
                    Err(len)
                }
                _ => Ok(()),
            }
        });
        found.err()
    }

    /// Writes a directory with its changes before the checkpoint, unless a later page shows them
    /// or there is room for them.
    fn write_group(&mut self, bytes: &[u8], since: u64) -> Result<(), Fault> {
        let Some(group) = Group::first(bytes) else {
            return Ok(());
        };
        if self.store.deferred(group.dir()).is_some() || self.map_get(group.dir())?.is_none() {
            return Ok(());
        }
        let i = self.load_dir(group.dir())?;
        let slot = &mut self.dirs[i];
        if get_u64(slot.buf, SEQ) > since {
            return Ok(());
        }
        if !group.apply(&mut slot.dir_mut()) {
            let at = slot.loc;
            return Err(self.store.nand.damaged(at, Damaged::Deferred));
        }
        slot.change();
        self.flush_dir(i)
    }

    /// Pages may be looked into again.
    fn look_anew(&mut self) {
        let pages = self.store.geo.pages();
        if let Some(rec) = &mut self.store.recovery {
            rec.left = 2 * pages;
        }
    }

    /// Step 3, for one DirInode page.
    fn replay_dir_map(&mut self, at: PageAddr) -> Result<(), Fault> {
        // A raw copy in a slot that no lookup sees.
        let i = self.spare_dir_slot()?;
        let read = self.store.expect_meta(at, self.dirs[i].buf, Kind::Dir);
        let view = self.dirs[i].dir();
        let Some(header) = sound(read)?.filter(|_| view.is_sane()) else {
            return Ok(());
        };
        let exchanged = view.flags() & FLAG_EXCHANGED != 0;
        let (ino, replaced) = (view.ino(), view.replaced().filter(|_| !exchanged));
        if !self.map_reach(ino)?.is_true() {
            return Ok(());
        }
        let old = match self.map_get(ino) {
            Err(e) => return self.noted(Err(e)),
            Ok(old) => old,
        };
        if self.is_retry(0, ino, header.prev, at).is_some() {
            return self.map_set(ino, at);
        }
        self.store.invalidate(old, MayProgram);
        self.map_set(ino, at)?;
        for r in 0..self.dirs[i].dir().records() {
            let rec = DirRec::decode(self.dirs[i].dir().record(r));
            if rec.state != RecState::Freed {
                continue;
            }
            match rec.target {
                Target::File => self.free_file_at(PageAddr(rec.ptr))?,
                Target::Dir => self.free_dir_at(rec.ptr)?,
                Target::Orphan => self.store.invalidate(PageAddr(rec.ptr), MayProgram),
                Target::Indirect => {}
            }
        }
        if let Some((kind, dir)) = replaced
            && kind == Target::Dir as u8
        {
            self.free_dir_at(dir)?;
        }
        Ok(())
    }

    /// Invalidates what a file's page refers to, and that page.
    pub(crate) fn free_file_at(&mut self, at: PageAddr) -> Result<(), Fault> {
        self.files[FileSlot::First].clear();
        self.store.look_into(at)?;
        match self.store.read_meta(at, self.files[FileSlot::First].buf)? {
            Some(h) if h.kind == Kind::File && self.files[FileSlot::First].file().is_sane() => {
                self.files[FileSlot::First].loc = at;
                return self.free_file(FileSlot::First);
            }
            _ => {}
        }
        self.store.invalidate(at, MayProgram);
        Ok(())
    }

    fn free_dir_at(&mut self, ino: u32) -> Result<(), Fault> {
        let at = self.map_get(ino)?;
        if at.is_none() {
            return Ok(());
        }
        self.files[FileSlot::First].clear();
        self.store.look_into(at)?;
        let header = self.store.read_meta(at, self.files[FileSlot::First].buf)?;
        let page =
            |index: &Self, p: usize| DirView::on(index.files[FileSlot::First].buf).pointer(p).1;
        let view = DirView::on(self.files[FileSlot::First].buf);
        let whole = header.is_some_and(|h| h.kind == Kind::Dir) && view.is_sane();
        let (pointers, levels) = (view.pointers(), view.levels());
        if whole {
            self.store.invalidate(view.xattr(), MayProgram);
        }
        for p in 0..if whole { pointers } else { 0 } {
            let map = page(self, p);
            if levels == 2 {
                self.store.look_into(map)?;
                self.free_hash_index(map)?;
            }
            self.store.invalidate(map, MayProgram);
        }
        self.store.invalidate(at, MayProgram);
        self.map_set(ino, PageAddr::NONE)
    }

    /// Step 4, for one inode page, which the scratch page may hold: as far as what it concerns can
    /// be read. `false` when the page cannot be read any more.
    fn replay_sound(&mut self, at: PageAddr, header: &Header, held: bool) -> Result<Bool, Fault> {
        self.files[FileSlot::First].clear();
        let buf = &mut *self.files[FileSlot::First].buf;
        if held {
            buf.copy_from_slice(&self.scratch);
        } else if sound(self.store.expect_meta(at, buf, header.kind))?.is_none() {
            return Ok(Bool::False);
        }
        let replayed = self.replay(at, header);
        self.noted(replayed).map(|()| Bool::True)
    }

    /// What a step has come to that ended so: damage is noted.
    pub(crate) fn noted(&mut self, result: Result<(), Fault>) -> Result<(), Fault> {
        match result {
            Err(Fault::Corrupt(what)) if !self.store.nand.is_stopped() => {
                self.note_damage(self.store.nand.damaged_at(), what);
                Ok(())
            }
            r => r,
        }
    }

    /// The same for the page in the first slot.
    fn replay(&mut self, at: PageAddr, header: &Header) -> Result<(), Fault> {
        let view = self.files[FileSlot::First].file();
        let volume = self.store.volume;
        let mut rec = Record {
            at,
            seq: header.seq,
            prev: header.prev,
            ino: view.ino(),
            parent: view.parent(),
            hash: name_hash(volume, view.name()),
            flags: view.flags(),
            moved: view.moved(),
            replaced: view.replaced(),
            is_first: header.prev.is_none(),
            failed: PageAddr::NONE,
        };
        if let Some(recovery) = &mut self.store.recovery {
            // Its page shows the name that it has taken.
            recovery.exchange.take_if(|e| e.second == rec.ino);
        }
        if header.kind == Kind::Dir {
            return self.replay_dir_links(&rec);
        }
        if !view.is_sane() {
            return Ok(());
        }
        self.next_ino = self.next_ino.max(rec.ino.saturating_add(1));
        let retried = self.is_retry(1, rec.ino, rec.prev, at);
        rec.failed = retried.unwrap_or(PageAddr::NONE);
        self.note_half_cut(&rec);
        if retried.is_some() {
            (rec.moved, rec.replaced, rec.is_first) = ((0, 0), None, false);
            return self.replay_file_links(&rec);
        }
        self.store.invalidate(rec.prev, MayProgram);
        self.replay_freed()?;
        self.replay_removed(&rec)?;
        self.replay_file_links(&rec)
    }

    /// Notes whether the FileInode in the first slot is of a truncation that has not come to its
    /// end.
    fn note_half_cut(&mut self, record: &Record) {
        let half = self.is_half_cut(FileSlot::First);
        let Some(rec) = &mut self.store.recovery else {
            return;
        };
        for old in &mut rec.half_cut {
            if [record.prev, record.failed].contains(old) {
                *old = PageAddr::NONE;
            }
        }
        if half && let Some(place) = rec.half_cut.iter_mut().find(|at| at.is_none()) {
            *place = record.at;
        }
    }

    /// Brings a truncation of the file that was at `at` to its end, before anything else changes
    /// the file: what is left of its maps must not go into index pages with others, nor what they
    /// map be moved by cleaning. What cannot be done now is done when the file grows.
    #[inline(never)]
    fn finish_half_cut(&mut self, at: PageAddr) -> Result<(), Fault> {
        if at.is_none() || sound(self.load_scratch(at, Kind::File))?.is_none() {
            return Ok(());
        }
        let file = FileView::on(&*self.scratch).file_ref(self.store.volume);
        let loaded = self.load_file(file);
        let done = loaded.and_then(|i| self.drop_maps_beyond(i));
        match self.noted(done) {
            Err(Fault::NotFound | Fault::NoSpace) => Ok(()),
            done => done,
        }
    }

    pub(crate) fn count(&mut self, at: PageAddr, may: MayProgram) -> bool {
        count(&mut self.store, at, may)
    }
}
