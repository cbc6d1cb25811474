//! An exchange of two names that power has cut comes to its end.

use crate::error::{Damaged, Fault};
use crate::format::dirrec::Target;
use crate::format::header::Kind;
use crate::format::inode::{DirView, FileView, NAME_MAX, second_of_exchange};
use crate::format::names::{Which, name_at, page_names, paged_name};
use crate::format::node::{FIRST_FILE, FileRef, INDEX_DIR, Node};
use crate::index::Index;
use crate::recovery::records::Record;
use crate::space::opened::Pending;
use flashkit_nand::Nand;

/// The second inode of an exchange; none where the record cannot be one.
pub(crate) fn second(rec: &Record) -> Option<(Target, u32)> {
    second_of_exchange(rec.ino, rec.flags, rec.moved, rec.replaced)
}

impl<N: Nand> Index<'_, N> {
    /// The name that the first inode of an exchange has left; none if it cannot be read.
    fn name_left(
        &mut self,
        pending: &Pending,
        buf: &mut [u8; NAME_MAX],
    ) -> Result<Option<usize>, Fault> {
        let ((kind, ino, at), (dir, hash)) = (pending.first, pending.left);
        let volume = self.store.volume;
        let mut copy = |name: &[u8]| {
            buf[..name.len()].copy_from_slice(name);
            Ok(Some(name.len()))
        };
        for n in 0.. {
            let header = self.read_scratch(at)?;
            let dir_view = DirView::on(&*self.scratch);
            if header.is_none_or(|h| h.kind != kind) || dir_view.ino() != ino {
                break;
            }
            if kind == Kind::Dir {
                let is_it = ino > INDEX_DIR && dir_view.own_place(volume) == (dir, hash);
                return if is_it {
                    copy(dir_view.name())
                } else {
                    Ok(None)
                };
            }
            let view = FileView::on(&*self.scratch);
            if let Some(spot) = view.spot(volume, dir, Which::Hash(hash)) {
                return copy(name_at(&self.scratch, spot, &[]));
            }
            let Some(page) = view.names_page(n) else {
                break;
            };
            let found = self.load_map_page(Kind::Names, (0, page), ino);
            if crate::error::sound(found)?.is_some()
                && let Some(at) = page_names(&self.scratch).find(volume, dir, Which::Hash(hash))
            {
                return copy(paged_name(&self.scratch, at));
            }
        }
        Ok(None)
    }

    /// In a recovery, for the record of an exchange: the directories that do not show it get to.
    /// What the record's own inode is, and its own new entry, is the caller's business, and so is
    /// that its old entry is gone.
    pub(crate) fn replay_exchange(&mut self, rec: &Record, kind: Kind) -> Result<(), Fault> {
        let Some((target, number)) = second(rec) else {
            return Ok(());
        };
        let taken = (rec.parent, rec.hash);
        if self.is_older(taken.0, rec.seq)?.is_true() {
            self.unlink_object(taken, target, number)?;
        }
        self.link_if(rec, rec.moved, target, number)?;
        if let Some(recovery) = &mut self.store.recovery {
            recovery.exchange = Some(Pending {
                first: (kind, rec.ino, rec.prev),
                second: number,
                left: rec.moved,
                taken,
            });
        }
        Ok(())
    }

    /// At the end of a recovery: the last exchange is finished when its second page was not
    /// written. Up to three reads and two programs.
    #[inline(never)]
    pub(crate) fn finish_exchange(&mut self, pending: Pending) -> Result<(), Fault> {
        let mut buf = [0; NAME_MAX];
        let Some(len) = self.name_left(&pending, &mut buf)? else {
            self.note_damage(pending.first.2, Damaged::Change);
            return Ok(());
        };
        let node = if pending.second < FIRST_FILE {
            Node::Dir(pending.second)
        } else {
            Node::File(FileRef::by_number(self.store.volume, pending.second))
        };
        let new = (pending.left.0, &buf[..len]);
        match self.take_name(node, pending.taken, new, None) {
            Err(Fault::Corrupt(what)) if !self.store.nand.is_stopped() => {
                self.note_damage(self.store.nand.damaged_at(), what);
                Ok(())
            }
            // It has as many names as it takes: builds until commit 40772d6 made such records.
            Err(Fault::TooManyLinks) => {
                self.note_damage(pending.first.2, Damaged::Change);
                Ok(())
            }
            Err(Fault::NotFound) => Ok(()),
            r => r,
        }
    }
}
