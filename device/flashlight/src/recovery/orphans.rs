//! Files that had lost their last name when power failed are ended.

use crate::cleaning::Volume;
use crate::error::{Damaged, Fault};
use crate::format::dirrec::{DirRec, RecState, Target};
use crate::format::hash::ino_hash;
use crate::format::header::Kind;
use crate::format::inode::{FLAG_ORPHAN, FileView};
use crate::format::node::{FileRef, INDEX_DIR};
use crate::index::dir::Removal;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Volume<'_, N> {
    /// Ends the lives of files without a name that an earlier session left.
    pub(crate) fn reap_orphans(&mut self) -> Result<(), Fault> {
        let (mut hash, mut n) = (0, 0);
        let mut damage = None;
        loop {
            let Some(rec) = self
                .index_mut()
                .nth_sound(INDEX_DIR, hash, n, &mut damage)?
            else {
                match self
                    .index_mut()
                    .dir_next_hash(INDEX_DIR, hash + 1, &mut damage)?
                {
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
                Err(e) if e.is_damage() && !self.store().nand.is_stopped() => {
                    damage = Some(e);
                    n += 1;
                }
                done => done?,
            }
        }
        // With damage, some may be left: the next mount looks again.
        self.index_mut().orphans = u32::from(damage.is_some());
        Ok(())
    }

    fn reap_orphan(&mut self, hash: u32, at: PageAddr) -> Result<(), Fault> {
        self.index_mut().load_scratch(at, Kind::File)?;
        let ino = FileView::on(&self.index().scratch).ino();
        let file = FileRef::by_number(self.store().volume, ino);
        if file.hash != hash {
            return Err(self.store_mut().nand.damaged(at, Damaged::File));
        }
        let i = self.index_mut().load_file(file)?;
        if self.index().files[i].file().flags() & FLAG_ORPHAN == 0 {
            // A rename over a name of it was cut, and damage has kept the recovery from looking for
            // others.
            self.index_mut().mend_names(i)?;
        }
        if self.index().files[i].file().flags() & FLAG_ORPHAN == 0 {
            return Ok(());
        }
        self.reap(file)
    }

    /// Ends the life of a file that lost its name while in use.
    pub(crate) fn reap(&mut self, file: FileRef) -> Result<(), Fault> {
        self.index_mut().writable()?;
        self.make_room()?;
        self.index_mut().dir_reserve(INDEX_DIR)?;
        let i = self.index_mut().load_file(file)?;
        if self.index().files[i].file().flags() & FLAG_ORPHAN == 0 {
            return Err(Fault::Invalid);
        }
        let (loc, hash) = (
            self.index().files[i].loc.0,
            ino_hash(self.store().volume, file.ino),
        );
        let rec = DirRec::new(hash, RecState::New, Target::Orphan, loc);
        self.index_mut()
            .dir_remove(INDEX_DIR, &rec, Removal::Freed(Target::File, loc))?;
        self.index_mut().free_file(i)?;
        self.store_mut().save_remnant(i.data_head());
        self.index_mut().orphans = self.index().orphans.saturating_sub(1);
        Ok(())
    }
}
