//! The entries of a directory, one after another.

use crate::error::Fault;
use crate::format::dirrec::{DirRec, NO_HASH, Target};
use crate::format::inode::{DirView, FileView};
use crate::format::names::{Spot, Which, name_at};
use crate::format::node::Node;
use crate::index::Index;
use crate::index::lookup::Place;
use crate::index::slots::FileSlot;
use flashkit_nand::Nand;

/// A name in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it names.
    pub node: Node,
    /// Type and permissions.
    pub mode: u16,
    /// The name.
    pub name: &'a [u8],
    /// Where to go on after this entry.
    pub cookie: u64,
}

/// In a cookie: entries before it could not be read. Who takes cookies from strangers is to know
/// which directories have given such ones: a listing from one on ends with [`Error::Corrupt`].
///
/// [`Error::Corrupt`]: crate::Error::Corrupt
pub const PASSED_DAMAGE: u64 = 1 << 62;

/// An inode, where its page was found, and which of its names is meant.
type Shown = (Node, Place, Spot);

impl<N: Nand> Index<'_, N> {
    /// The same of a cached directory, in the middle of something.
    pub(crate) fn list(
        &mut self,
        dir: u32,
        cookie: u64,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> Result<(), Fault> {
        let mut hash = (cookie >> 32) as u32 & NO_HASH;
        let mut after = cookie as u32;
        let mut damage = (cookie & PASSED_DAMAGE != 0).then(|| self.bad_entry(dir));
        loop {
            let first = self.nth_sound(dir, hash, 0, &mut damage)?;
            let second = match first {
                Some(_) => self.nth_sound(dir, hash, 1, &mut damage)?,
                None => None,
            };
            // Asked for while the hash map is at hand.
            let next = self.dir_next_hash(dir, hash + 1, &mut damage)?;
            if second.is_none() {
                if let Some(rec) = first
                    && let Some(shown) = self.listed(dir, &rec, &mut damage)?
                    && shown.0.ino() > after
                    && !self.show(&shown, hash, damage.is_some(), each)
                {
                    return Ok(());
                }
            } else {
                while let Some((ino, rec)) = self.next_of_hash(dir, hash, after, &mut damage)? {
                    after = ino;
                    let new = self
                        .file_slot(ino)
                        .filter(|&i| self.is_new_at(i, dir, hash));
                    let shown = match new {
                        Some(i) => {
                            let file = self.files[i].file().file_ref(self.store.volume);
                            Some((Node::File(file), Place::File(i), Spot::Own))
                        }
                        None => self.listed(dir, &rec, &mut damage)?,
                    };
                    if let Some(shown) = shown
                        && !self.show(&shown, hash, damage.is_some(), each)
                    {
                        return Ok(());
                    }
                }
            }
            match next {
                Some(next) => (hash, after) = (next, 0),
                None => return damage.map_or(Ok(()), Err),
            }
        }
    }

    /// The `n`-th entry of a hash; none, and `damage`, when it cannot be read.
    pub(crate) fn nth_sound(
        &mut self,
        dir: u32,
        hash: u32,
        n: usize,
        damage: &mut Option<Fault>,
    ) -> Result<Option<DirRec>, Fault> {
        match self.dir_nth(dir, hash, n) {
            Err(e) if e.is_damage() => {
                *damage = Some(e);
                Ok(None)
            }
            rec => rec,
        }
    }

    /// Of several names of one hash, the one whose inode has the next number after `after`: their
    /// order in the directory changes when one of them comes or goes. A read for each, and for the
    /// hash map.
    #[inline(never)]
    fn next_of_hash(
        &mut self,
        dir: u32,
        hash: u32,
        after: u32,
        damage: &mut Option<Fault>,
    ) -> Result<Option<(u32, DirRec)>, Fault> {
        let (mut n, mut best) = (0, None);
        while let Some(rec) = self.nth_sound(dir, hash, n, damage)? {
            n += 1;
            let ino = match rec.target {
                Target::Dir | Target::Indirect => rec.ptr,
                // Files that are only in RAM: their entries do not tell them apart.
                Target::File if rec.ptr == u32::MAX => {
                    let new = FileSlot::ALL
                        .iter()
                        .copied()
                        .filter(|&i| self.is_new_at(i, dir, hash));
                    match new.map(|i| self.files[i].ino).filter(|&i| i > after).min() {
                        Some(ino) => ino,
                        None => continue,
                    }
                }
                _ => match self.peek(dir, &rec, b"") {
                    Ok(Some((node, _))) => node.ino(),
                    Ok(None) => continue,
                    Err(e) if e.is_damage() => {
                        *damage = Some(e);
                        continue;
                    }
                    Err(e) => return Err(e),
                },
            };
            if ino > after && best.is_none_or(|(least, _)| ino < least) {
                best = Some((ino, rec));
            }
        }
        Ok(best)
    }

    /// Whether a slot holds a file that is only in RAM, with this entry.
    fn is_new_at(&self, i: FileSlot, dir: u32, hash: u32) -> bool {
        let slot = &self.files[i];
        slot.ino != 0 && slot.loc.is_none() && slot.file().holder(self.store.volume) == (dir, hash)
    }

    /// The inode of an entry, and which of its names the entry is; none when it cannot be read.
    pub(crate) fn listed(
        &mut self,
        dir: u32,
        rec: &DirRec,
        damage: &mut Option<Fault>,
    ) -> Result<Option<Shown>, Fault> {
        let found = self.peek(dir, rec, b"").and_then(|found| {
            let Some((node, place)) = found else {
                return Ok(None);
            };
            if rec.target == Target::Dir && !self.is_own_place(place, dir, rec.hash) {
                return Err(self.bad_entry(dir));
            }
            if rec.target != Target::Indirect {
                return Ok(Some((node, place, Spot::Own)));
            }
            let named = self.named(place, dir, Which::Hash(rec.hash))?;
            Ok(named.map(|(place, spot)| (node, place, spot)))
        });
        match found {
            Err(e) if e.is_damage() => {
                *damage = Some(e);
                Ok(None)
            }
            found => found,
        }
    }

    /// Whether a directory itself says that its name is in `dir`. A volume may have been made to
    /// deceive: else who goes down from listing to listing would go round in circles, or come to a
    /// directory again and again.
    fn is_own_place(&self, place: Place, dir: u32, hash: u32) -> bool {
        let view = match place {
            Place::Dir(i) => self.dirs[i].dir(),
            Place::File(_) => return false,
            Place::Scratch => DirView::on(&*self.scratch),
        };
        view.own_place(self.store.volume) == (dir, hash)
    }

    /// The next entry of a directory from the one of this hash and number on. What cannot be read
    /// is passed over, and `whole` becomes false.
    pub(crate) fn entry_from(
        &mut self,
        dir: u32,
        at: &mut (u32, usize),
        whole: &mut bool,
    ) -> Result<Option<DirRec>, Fault> {
        loop {
            match self.dir_nth(dir, at.0, at.1) {
                Ok(Some(rec)) => return Ok(Some(rec)),
                Ok(None) => {}
                Err(e) if e.is_damage() => *whole = false,
                Err(e) => return Err(e),
            }
            let mut damage = None;
            let next = self.dir_next_hash(dir, at.0 + 1, &mut damage)?;
            *whole &= damage.is_none();
            match next {
                Some(hash) => *at = (hash, 0),
                None => return Ok(None),
            }
        }
    }

    /// Shows an entry; whether there are to be more.
    // A call of its own: its stack is not needed while the next one is looked for.
    #[inline(never)]
    fn show(
        &self,
        &(node, place, spot): &Shown,
        hash: u32,
        damaged: bool,
        each: &mut dyn FnMut(Entry<'_>) -> bool,
    ) -> bool {
        let passed = if damaged { PASSED_DAMAGE } else { 0 };
        let (mode, name) = self.shown(place, spot);
        each(Entry {
            node,
            mode,
            name,
            cookie: passed | u64::from(hash) << 32 | u64::from(node.ino()),
        })
    }

    /// Mode and name of an inode that was found.
    pub(crate) fn shown(&self, place: Place, spot: Spot) -> (u16, &[u8]) {
        let view = match place {
            Place::Scratch => FileView::on(&*self.scratch),
            Place::File(i) => FileView::on(&*self.files[i].buf),
            Place::Dir(i) => {
                let view = DirView::on(&*self.dirs[i].buf);
                return (view.mode(), view.into_name());
            }
        };
        (view.mode(), name_at(view.0, spot, &self.scratch))
    }
}
