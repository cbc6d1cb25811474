//! What a repair puts in place of maps of names that cannot be read: empty ones, and none.
//!
//! What they held is in the inodes, which say where they belong: a repair finds them by that.

use crate::error::{Fault, sound};
use crate::format::dirrec::{self, NO_HASH};
use crate::format::mappage::{MapPage, Owner};
use crate::format::names::HEAD;
use crate::index::Index;
use crate::index::slots::{DirSlot, FileSlot};
use crate::index::tree::{self, Changes, HASH, MapTarget, Put};
use crate::space::latch::MayProgram;
use flashkit_nand::{Nand, PageAddr};

impl<N: Nand> Index<'_, N> {
    /// Gives a directory empty hash maps in place of those that cannot be read. One program for
    /// each, and one for each index page.
    pub(crate) fn replace_lost_maps(&mut self, dir: u32) -> Result<(), Fault> {
        let mut key = 0;
        while key < NO_HASH {
            let i = self.load_dir(dir)?;
            if self.dirs[i].dir().pointers() == 0 {
                break;
            }
            let page = self.scratch.overwrite(&mut self.store.scratch_holds);
            let view = self.dirs[i].dir().any();
            let target = tree::target(&mut self.store, HASH, page, &view, Some(key), NO_HASH);
            let end = match sound(target)? {
                Some(target) => {
                    if sound(self.load_target(HASH, &target, dir))?.is_none() {
                        self.replace_lost_map(i, &target)?;
                    }
                    target.end
                }
                None => self.replace_lost_index(i, key)?,
            };
            if end <= key {
                break;
            }
            key = end;
        }
        Ok(())
    }

    fn replace_lost_map(&mut self, i: DirSlot, target: &MapTarget) -> Result<(), Fault> {
        let put = self.put_empty_map(i, (target.first, target.end))?;
        let mut changes = Changes::new();
        changes.push(put);
        self.dirs[i].change();
        self.apply_dir_changes(i, target, &changes)?;
        self.store.invalidate(target.page, MayProgram);
        self.dir_note_freed_page(i, target.page)
    }

    /// The same for an index page, which covers a key; where its range ends.
    fn replace_lost_index(&mut self, i: DirSlot, key: u32) -> Result<u32, Fault> {
        let view = self.dirs[i].dir().any();
        let root = view.pointer_for(key);
        let ((first, old), end) = tree::root_range(&view, key, NO_HASH);
        let put = self.put_empty_map(i, (first, end))?;
        let owner = self.owner_of_maps(i);
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut index: MapPage<&mut [u8], 8> = MapPage(page);
        index.init(owner, first, end);
        index.insert(0, &tree::pointer_record(put.key, put.page));
        let len = index.len();
        let at = self.append_scratch(HASH.area, len, HASH.index, old)?;
        self.dirs[i].dir_mut().pointer_set(root, first, at);
        self.dirs[i].change();
        self.store.invalidate(old, MayProgram);
        self.dir_note_freed_page(i, old)?;
        Ok(end)
    }

    fn put_empty_map(&mut self, i: DirSlot, (first, end): (u32, u32)) -> Result<Put, Fault> {
        let owner = self.owner_of_maps(i);
        let page = self.scratch.overwrite(&mut self.store.scratch_holds);
        let mut map: MapPage<&mut [u8], { dirrec::SIZE }> = MapPage(page);
        map.init(owner, first, end);
        let len = map.len();
        let page = self.append_scratch(HASH.area, len, HASH.map, PageAddr::NONE)?;
        Ok(Put { key: first, page })
    }

    fn owner_of_maps(&self, i: DirSlot) -> Owner {
        Owner {
            ino: self.dirs[i].ino,
            dir: 0,
            hash: 0,
        }
    }

    /// Names pages of a cached file that cannot be read go, and the names in them.
    pub(crate) fn drop_lost_names(&mut self, i: FileSlot) -> Result<(), Fault> {
        let mut n = 0;
        loop {
            let Some((pointer, page)) = self.files[i].file().names().pages().nth(n) else {
                return Ok(());
            };
            if sound(self.load_names(i, page))?.is_some() {
                n += 1;
                continue;
            }
            self.file_room(i, self.names_growth(i, 0))?;
            self.files[i].change();
            self.files[i].file_mut().names_remove(pointer, HEAD);
            self.free_run(i, page.0, 1, MayProgram);
        }
    }
}
