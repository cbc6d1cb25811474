//! The names that a file has more than one of, and the entries of directories that lead to them.

use crate::error::{Bool, Damaged, Fault};
use crate::format::dirrec::Target;
use crate::format::inode::{FLAG_INDIRECT, FLAG_ORPHAN};
use crate::format::names::Which;
use crate::index::Index;
use crate::index::slots::FileSlot;
use flashkit_nand::Nand;

impl<N: Nand> Index<'_, N> {
    /// Whether a directory exists and has this entry.
    pub(crate) fn has_entry(
        &mut self,
        dir: u32,
        hash: u32,
        target: Target,
        ptr: u32,
    ) -> Result<Bool, Fault> {
        let mut n = 0;
        loop {
            match self.dir_nth(dir, hash, n) {
                Ok(Some(rec)) if rec.same_object(target, ptr) => return Ok(Bool::True),
                Ok(Some(_)) => n += 1,
                Ok(None) | Err(Fault::NotFound) => return Ok(Bool::False),
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes the names of a cached file those that directories have entries for, and writes its
    /// page.
    pub(crate) fn mend_names(&mut self, i: FileSlot) -> Result<(), Fault> {
        self.file_room(i, self.names_growth(i, 0))?;
        let (ino, mut kept) = (self.files[i].ino, 0);
        loop {
            let mut batch = [(0, 0); 32];
            let n = self.names_from(i, kept, &mut batch)?;
            if n == 0 {
                break;
            }
            for (dir, hash) in batch[..n].iter().copied() {
                if self.has_entry(dir, hash, Target::Indirect, ino)?.is_true() {
                    kept += 1;
                    continue;
                }
                let Some(spot) = self.find_spot(i, dir, Which::Hash(hash))? else {
                    let at = self.files[i].loc;
                    return Err(self.store.nand.damaged(at, Damaged::Names));
                };
                self.drop_name(i, spot)?;
                // The names may be in another order now.
                kept = 0;
                break;
            }
        }
        let mut view = self.files[i].file_mut();
        view.set_nlink(u32::try_from(kept).unwrap_or(u32::MAX));
        if kept == 0 {
            view.set_flags(FLAG_INDIRECT | FLAG_ORPHAN);
        }
        self.files[i].change();
        self.flush_file(i)
    }
}
