//! Pages that a file does not show any more, and that count as valid yet, as only its
//! extent maps or what waits in its index pages still name them below what its log says.
//! They count no more when the log has moved to the maps. Where there is no room for a
//! change that is done for all files.

use crate::cleaning::Volume;
use crate::error::{Bool, Fault, sound};
use crate::format::blockstate::BlockState;
use crate::format::extent::INDEX_END;
use crate::format::header::Kind;
use crate::format::inode::FileView;
use crate::format::mappage::MapPage;
use crate::index::slots::FileSlot;
use crate::space::limits::Purpose;
use flashkit_nand::{BlockAddr, Nand};

impl<N: Nand> Volume<'_, N> {
    /// Frees the pages that only extent maps still name, of the files in the cache, and of
    /// the others until a change fits: their logs move there, as far as there are blocks for
    /// it. A read and a program for each map; for files that are not in the cache a read for
    /// each metadata page that may be an inode, but not again until as much has been written
    /// as could make a difference.
    #[inline(never)]
    pub(crate) fn free_overridden(&mut self) -> Result<(), Fault> {
        for &i in &FileSlot::ALL {
            // An empty slot shows what it held before.
            if self.index().files[i].ino != 0 {
                self.free_overridden_of(i)?;
            }
        }
        let written = self.store().written.data;
        if self.index().need_page().is_ok() || written < self.looked_for_overridden {
            return Ok(());
        }
        for block in 0..self.store().table.blocks() {
            let holds = matches!(self.store_mut().state(block), BlockState::Meta(1..));
            if holds && self.free_overridden_by(block)?.is_true() {
                return Ok(());
            }
        }
        self.looked_for_overridden = written + u64::from(self.store().ppb());
        Ok(())
    }

    /// The same of the files whose inodes are in a block, until a change fits; whether it does.
    fn free_overridden_by(&mut self, block: u32) -> Result<Bool, Fault> {
        for index in 0..self.store().programmed(block) {
            let at = self.store().geo.page(BlockAddr(block), index);
            if self.index().listed_valid(at) == Some(false) {
                continue;
            }
            let header = self.index_mut().read_scratch(at)?;
            let view = FileView::on(&*self.durable.index.scratch);
            let may_have = header.is_some_and(|h| h.kind == Kind::File)
                && view.is_sane()
                && (view.levels() == 2
                    || view.levels() == 1 && view.record_search(INDEX_END, 0) > 0);
            if !may_have {
                continue;
            }
            let file = view.file_ref(self.durable.index.store.volume);
            match self.index_mut().load_file(file) {
                Ok(i) if self.index().files[i].loc == at => {
                    self.index_mut().files[i].waits = self.index().files[i].file().levels() == 2;
                    self.free_overridden_of(i)?;
                }
                // An older page of it, or one that is not to be had.
                Ok(_) | Err(Fault::NotFound | Fault::Invalid) => {}
                Err(e) if e.is_damage() && !self.store().nand.is_stopped() => {}
                Err(e) => return Err(e),
            }
            if self.index().need_page().is_ok() {
                return Ok(Bool::True);
            }
        }
        Ok(Bool::False)
    }

    /// The same of a cached file.
    fn free_overridden_of(&mut self, i: FileSlot) -> Result<(), Fault> {
        loop {
            let view = self.index().files[i].file();
            if view.levels() == 0
                || view.record_search(INDEX_END, 0) == 0
                || !self.has_room_for_step()?.is_true()
            {
                break;
            }
            match self.account(Purpose::Step, |volume| {
                volume.durable.index.file_migrate(i, None)
            }) {
                Err(e)
                    if (e.is_damage() || matches!(e, Fault::TooBig))
                        && !self.store().nand.is_stopped() =>
                {
                    break;
                }
                moved => moved?,
            }
        }
        if self.index().files[i].waits {
            // With damage nothing comes of another try.
            self.index_mut().files[i].waits = sound(self.drain_all(i))? == Some(Bool::False);
        }
        Ok(())
    }

    /// Moves all that waits in index pages of a cached file to its extent maps, as long as there
    /// are blocks for it; whether it has come to the end.
    fn drain_all(&mut self, i: FileSlot) -> Result<Bool, Fault> {
        let mut root = 0;
        while self.index().files[i].file().levels() == 2
            && root < self.index().files[i].file().pointers()
        {
            self.index_mut().load_index(i, root)?;
            if MapPage::<&[u8], 8>::on(&*self.index().scratch).waiting() == 0 {
                root += 1;
                continue;
            }
            if !self.has_room_for_step()?.is_true() {
                return Ok(Bool::False);
            }
            self.account(Purpose::Step, |volume| {
                volume.durable.index.drain(i, root, None)
            })?;
        }
        Ok(Bool::True)
    }
}
