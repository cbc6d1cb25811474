//! The calls of a file system, with what is held back.

use flashkit_meter::Counters;
use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, Measured, NewInode, Patrol, Result, SetAttr,
    SetXattr, StatFs, Time,
};

use super::pieces::Pieces;
use super::{Gathered, SHORT_PAGES, takes};

impl FileSystem for Gathered {
    fn root(&self) -> Ino {
        self.fs.root()
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let found = self.fs.lookup(dir, name);
        self.looked_up = match &found {
            Ok(attr) => Some((dir, name.to_vec(), Some(*attr))),
            Err(Error::NotFound) => Some((dir, name.to_vec(), None)),
            Err(_) => None,
        };
        found.map(|attr| self.shown(attr))
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        let attr = self.fs.getattr(ino)?;
        Ok(self.shown(attr))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.yield_to(0);
        let done = self.fs.setattr(ino, set);
        let attr = match done {
            Ok(attr) => attr,
            Err(error) => {
                // It may have been cut.
                let size = self.fs.getattr(ino).map_or(0, |attr| attr.size);
                self.change(ino, |file| {
                    file.kept = Pieces::default();
                    file.size = Some(size);
                });
                return Err(error);
            }
        };
        if self.files.contains_key(&ino) {
            self.change(ino, |file| file.set(set));
        }
        Ok(self.shown(attr))
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.change_names();
        let attr = self.fs.create(dir, name, new)?;
        self.created = Some((attr.ino, dir));
        Ok(attr)
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        self.change_names();
        self.fs.mknod(dir, name, kind, device, new)
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        self.change_names();
        self.fs.mkdir(dir, name, new)
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        self.change_names();
        self.fs.symlink(dir, name, target, new)
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.fs.readlink(ino)
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        self.write_file(ino)?;
        self.change_names();
        self.fs.link(ino, dir, name, now)
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let gone = self.named(dir, name);
        self.change_names();
        self.fs.unlink(dir, name, now)?;
        self.lost_name(gone, now);
        Ok(())
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        self.change_names();
        self.fs.rmdir(dir, name, now)
    }

    fn rename(
        &mut self,
        from_dir: Ino,
        from: &[u8],
        to_dir: Ino,
        to: &[u8],
        no_replace: bool,
        now: Time,
    ) -> Result<()> {
        if (from_dir, from) == (to_dir, to) {
            return (self.fs).rename(from_dir, from, to_dir, to, no_replace, now);
        }
        let mut gone = self.named(to_dir, to);
        // A new file may be written after this.
        let is_new_in = |dir| self.files.values().any(|file| file.dir == Some(dir));
        let moved = match self.pieces > 0 || is_new_in(from_dir) {
            true => self.named(from_dir, from),
            false => None,
        };
        if let (Some(moved), Some(replaced)) = (&moved, &gone) {
            // A file that takes another's name has its contents first.
            self.write_file(moved.ino)?;
            if moved.ino == replaced.ino {
                gone = None;
            }
        }
        self.change_names();
        (self.fs).rename(from_dir, from, to_dir, to, no_replace, now)?;
        self.lost_name(gone, now);
        if let Some(moved) = moved {
            self.touch(moved.ino, now);
            self.moved(moved.ino, to_dir);
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        let files = [(dir, name), (other_dir, other)].map(|(dir, name)| self.named(dir, name));
        for attr in files.iter().flatten() {
            self.write_file(attr.ino)?;
        }
        self.change_names();
        self.fs.exchange(dir, name, other_dir, other, now)?;
        for (attr, dir) in files.into_iter().zip([other_dir, dir]) {
            if let Some(attr) = attr {
                self.moved(attr.ino, dir);
            }
        }
        Ok(())
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        self.fs.open(ino)?;
        let created = self.created.take_if(|(created, _)| *created == ino);
        let file = self.files.entry(ino).or_default();
        file.opens += 1;
        if let Some((_, dir)) = created {
            (file.is_new, file.dir) = (true, Some(dir));
        }
        Ok(())
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        let Some(file) = self.files.get_mut(&ino) else {
            return self.fs.release(ino);
        };
        file.opens = file.opens.saturating_sub(1);
        let mut written = Ok(());
        if file.opens == 0 {
            let (bytes, is_new) = (file.pieces.bytes(), file.is_new);
            let is_short = bytes as u64 <= SHORT_PAGES * self.page;
            let is_due = file.is_cut || is_new && (is_short || !self.young.go_soon());
            (file.is_cut, file.is_new) = (false, false);
            if file.is_nameless {
                self.drop_file(ino);
            } else if is_due {
                written = self.write_file(ino);
            }
            if is_new && !is_short {
                self.young.add(ino, bytes, self.bytes_max);
            }
            self.change(ino, |_| {});
        }
        self.fs.release(ino).and(written)
    }

    fn forget(&mut self, ino: Ino) {
        // What is held of it can be written under this number alone.
        if self.write_file(ino).is_ok() {
            self.drop_file(ino);
            self.fs.forget(ino);
        }
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_held(ino, offset, buf, |fs, buf| fs.read(ino, offset, buf))
    }

    fn read_aside(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_held(ino, offset, buf, |fs, buf| fs.read_aside(ino, offset, buf))
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        if data.is_empty() {
            return self.fs.write(ino, offset, data, now);
        }
        if self.hold(ino, offset, data, now)? {
            return Ok(());
        }
        let end = offset.saturating_add(data.len() as u64);
        self.write_part(ino, offset, end)?;
        self.yield_to(data.len());
        let before = match self.files.get(&ino).and_then(|file| file.size) {
            Some(size) => size,
            None => self.fs.getattr(ino)?.size,
        };
        let written = self.fs.write(ino, offset, data, now);
        // Of one that failed a part may be there.
        let size = match written {
            Ok(()) => Some(before.max(end)),
            Err(_) => self.left_of(ino, before, data.len(), now),
        };
        self.change(ino, |file| {
            file.kept = Pieces::default();
            file.size = size;
            if written.is_ok() {
                (file.mtime, file.ctime) = (now, now);
            }
        });
        written
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.write_file(ino)?;
        self.yield_to(0);
        self.change(ino, |file| file.kept = Pieces::default());
        self.fs.punch_hole(ino, offset, len, now)
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.write_file(ino)?;
        self.fs.next_data(ino, offset)
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.write_file(ino)?;
        self.fs.next_hole(ino, offset)
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.fs.xattr(ino, name)
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.fs.xattrs(ino)
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        self.yield_to(value.len());
        self.fs.set_xattr(ino, name, value, how, now)?;
        self.touch(ino, now);
        Ok(())
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        self.yield_to(0);
        self.fs.remove_xattr(ino, name, now)?;
        self.touch(ino, now);
        Ok(())
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.write_file(ino)?;
        // A directory has the files that are new in it. What others have made the file system write
        // of them meanwhile was without what was held.
        let mut synced = self.new_in(ino);
        for file in &synced {
            self.write_file(*file)?;
        }
        self.yield_to(0);
        synced.push(ino);
        for file in synced {
            self.fs.fsync(file)?;
            if let Some(file) = self.files.get_mut(&file) {
                file.dir = None;
            }
        }
        Ok(())
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.fs.readdir(dir, cookie, each)
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.fs.parent(dir)
    }

    fn statfs(&mut self) -> Result<StatFs> {
        let mut space = self.fs.statfs()?;
        let page = space.block_size.into();
        let held = takes(page, self.bytes, self.pieces).div_ceil(page.max(1));
        space.blocks_free = space.blocks_free.saturating_sub(held);
        Ok(space)
    }

    fn sync(&mut self) -> Result<()> {
        let written = self.write_held();
        self.young.committed();
        self.fs.sync().and(written)
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.fs.gc(pages)
    }

    fn bytes_clean(&self) -> Option<u64> {
        self.fs.bytes_clean()
    }

    fn has_driver_failed(&self) -> bool {
        self.fs.has_driver_failed()
    }

    fn takes_removals(&self) -> bool {
        self.fs.takes_removals()
    }

    fn patrol(&mut self) -> Result<Patrol> {
        self.fs.patrol()
    }

    fn unmount(&mut self) -> Result<()> {
        let written = self.write_held();
        self.fs.unmount().and(written)
    }
}

impl Measured for Gathered {
    fn cost(&self) -> Counters {
        self.fs.cost()
    }

    fn erase_counts(&self) -> Vec<u32> {
        self.fs.erase_counts()
    }

    fn programs(&self) -> Vec<(&'static str, u64)> {
        self.fs.programs()
    }

    fn page_bytes(&self) -> u32 {
        self.fs.page_bytes()
    }

    fn ram_bytes(&self) -> usize {
        self.fs.ram_bytes()
    }

    fn idle(&mut self, ms: u64) -> Result<()> {
        self.fs.idle(ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{faulty, files, flash, held};
    use flashkit_sim::{Faults, Rate, Rng};
    use flashkit_vfs::MemoryFs;

    #[test]
    fn what_is_held_is_seen_and_is_there_before_it_matters() {
        let mut fs = held(Box::new(MemoryFs::new()));
        let file = files(&mut fs, 2)[0];
        let (root, now) = (fs.root(), Time { secs: 7, nanos: 0 });
        fs.write(file, 0, b"some bytes", now).unwrap();
        fs.write(file, 5, b"words and more", now).unwrap();
        assert_eq!(fs.fs.getattr(file).unwrap().size, 0);
        assert_eq!(fs.getattr(file).unwrap().size, 19);
        assert_eq!(fs.lookup(root, b"f0").unwrap().mtime, now);
        let mut read = [9; 30];
        assert_eq!(fs.read(file, 0, &mut read), Ok(19));
        assert_eq!(&read[..19], b"some words and more");
        assert_eq!(fs.read_aside(file, 15, &mut read), Ok(4));
        assert_eq!(&read[..4], b"more");
        assert!(fs.holds(file), "reading writes nothing");
        for matters in 0..5 {
            fs.write(file, 19, b"!", now).unwrap();
            assert!(fs.holds(file));
            match matters {
                0 => fs.fsync(file).unwrap(),
                1 => fs.rename(root, b"f0", root, b"f1", false, now).unwrap(),
                2 => assert_eq!(fs.next_hole(file, 0), Ok(Some(20))),
                3 => fs.sync().unwrap(),
                _ => fs.unlink(root, b"f1", now).unwrap(),
            }
            assert!(!fs.holds(file), "{matters}");
        }
        assert_eq!((fs.bytes, fs.pieces, fs.files.len()), (0, 0, 0));
    }

    /// Of a file without a name nothing may be left: its number may be another's.
    #[test]
    fn what_is_held_of_a_file_ends_with_its_last_user() {
        let mut fs = held(flash("micron-20m"));
        let file = files(&mut fs, 1)[0];
        let (root, now) = (fs.root(), Time::default());
        for _ in 0..2 {
            fs.open(file).unwrap();
        }
        fs.write(file, 0, &[1; 30_000], now).unwrap();
        fs.unlink(root, b"f0", now).unwrap();
        fs.begin_commit();
        assert_eq!(
            fs.write_some(),
            Ok(false),
            "nobody will find it after a crash"
        );
        fs.release(file).unwrap();
        let mut read = [0; 10];
        assert_eq!(fs.read(file, 20_000, &mut read), Ok(10));
        assert_eq!(read, [1; 10]);
        fs.release(file).unwrap();
        assert_eq!((fs.bytes, fs.pieces, fs.files.len()), (0, 0, 0));
    }

    /// Who writes a file anew without a sync finds the old contents or the new after a crash, but
    /// for the moment in which it is written.
    #[test]
    fn what_was_cut_to_nothing_is_written_when_it_is_closed() {
        let mut fs = held(flash("micron-20m"));
        let file = files(&mut fs, 1)[0];
        let now = Time::default();
        fs.open(file).unwrap();
        fs.release(file).unwrap();
        for _ in 0..2 {
            fs.open(file).unwrap();
            let set = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            fs.setattr(file, &set).unwrap();
            fs.write(file, 0, &[1; 30_000], now).unwrap();
            assert!(fs.holds(file));
            fs.release(file).unwrap();
            assert!(!fs.holds(file));
        }
    }

    /// The kernel forgets closed files when memory is short. What they hold has no other number.
    #[test]
    fn what_is_held_of_a_forgotten_file_is_written() {
        let mut fs = held(flash("micron-20m"));
        let (file, now) = (files(&mut fs, 1)[0], Time::default());
        fs.write(file, 0, &[1; 100], now).unwrap();
        fs.forget(file);
        assert_eq!((fs.bytes, fs.pieces, fs.files.len()), (0, 0, 0));
        fs.sync().unwrap();
        let root = fs.root();
        assert_eq!(fs.lookup(root, b"f0").unwrap().size, 100);
    }

    #[test]
    fn a_rename_onto_itself_takes_no_name() {
        let mut fs = held(flash("micron-20m"));
        let file = files(&mut fs, 1)[0];
        let (root, now) = (fs.root(), Time::default());
        fs.link(file, root, b"other", now).unwrap();
        fs.open(file).unwrap();
        for (from, to) in [(b"f0".as_slice(), b"f0".as_slice()), (b"f0", b"other")] {
            fs.rename(root, from, root, to, false, now).unwrap();
            fs.write(file, 0, &[1; 100], now).unwrap();
            fs.rename(root, from, root, to, false, now).unwrap();
        }
        fs.unlink(root, b"other", now).unwrap();
        fs.rename(root, b"f0", root, b"f0", false, now).unwrap();
        fs.release(file).unwrap();
        fs.sync().unwrap();
        assert_eq!(fs.read(file, 0, &mut [0; 200]), Ok(100));
    }

    /// As `tmpfile(3)` does it; or the file is replaced. Its number may be another's afterwards.
    #[test]
    fn what_is_written_to_a_file_without_a_name_ends_with_it() {
        for is_replaced in [false, true] {
            let mut fs = held(flash("micron-20m"));
            let file = files(&mut fs, 2)[0];
            let (root, now) = (fs.root(), Time::default());
            fs.open(file).unwrap();
            match is_replaced {
                true => fs.rename(root, b"f1", root, b"f0", false, now).unwrap(),
                false => fs.unlink(root, b"f0", now).unwrap(),
            }
            fs.write(file, 0, &[1; 100], now).unwrap();
            assert!(fs.holds(file));
            fs.release(file).unwrap();
            assert_eq!((fs.bytes, fs.pieces, fs.files.len()), (0, 0, 0));
            fs.sync().unwrap();
        }
    }

    #[test]
    fn a_name_that_changes_is_a_change_of_the_file() {
        let mut fs = held(flash("micron-20m"));
        let file = files(&mut fs, 1)[0];
        let root = fs.root();
        let time = |secs| Time { secs, nanos: 0 };
        fs.link(file, root, b"other", time(3)).unwrap();
        fs.write(file, 0, &[1; 100], time(5)).unwrap();
        fs.rename(root, b"f0", root, b"g", false, time(7)).unwrap();
        assert_eq!(fs.getattr(file).unwrap().ctime, time(7));
        fs.unlink(root, b"other", time(9)).unwrap();
        fs.sync().unwrap();
        let attr = fs.getattr(file).unwrap();
        assert_eq!((attr.mtime, attr.ctime, attr.nlink), (time(5), time(9), 1));
    }

    /// What is kept of it is too much by then, and the file is not known any more.
    #[test]
    fn a_file_that_is_written_to_its_end_has_the_time_of_its_last_change() {
        let mut fs = held(flash("micron-20m"));
        let file = files(&mut fs, 1)[0];
        let time = |secs| Time { secs, nanos: 0 };
        fs.open(file).unwrap();
        for n in 0..16 {
            fs.write(file, n << 16, &[1; 1 << 16], time(5)).unwrap();
        }
        let set = SetAttr {
            mtime: Some(time(3)),
            now: time(9),
            ..SetAttr::default()
        };
        fs.setattr(file, &set).unwrap();
        fs.release(file).unwrap();
        assert_eq!((fs.bytes, fs.files.len()), (0, 0));
        let attr = fs.getattr(file).unwrap();
        assert_eq!((attr.mtime, attr.ctime), (time(3), time(9)));
    }

    /// Zeros in between take room in a file system that has no holes.
    #[test]
    fn a_write_behind_the_end_goes_through() {
        let mut fs = held(flash("micron-20m"));
        let (file, now) = (files(&mut fs, 1)[0], Time::default());
        fs.write(file, 10, &[1; 10], now).unwrap();
        assert!(!fs.holds(file));
        fs.write(file, 20, &[1; 10], now).unwrap();
        assert!(fs.holds(file));
        // What is held stays so, but for what is in its way.
        fs.write(file, 1_000, &[2; 10], now).unwrap();
        assert_eq!((fs.bytes, fs.fs.getattr(file).unwrap().size), (10, 1_010));
        let mut read = [9; 2_000];
        assert_eq!(fs.read(file, 0, &mut read), Ok(1_010));
        assert!(read[10..30] == [1; 20] && read[30..1_000] == [0; 970]);
        assert_eq!(read[1_000..1_010], [2; 10]);
        fs.write(file, 25, &vec![3; 1 << 19], now).unwrap();
        assert_eq!(fs.bytes, 0);
        assert_eq!(fs.read(file, 0, &mut read), Ok(2_000));
        assert!(read[20..25] == [1; 5] && read[25..] == [3; 1_975]);
        let set = SetAttr {
            size: Some(30),
            ..SetAttr::default()
        };
        fs.setattr(file, &set).unwrap();
        fs.open(file).unwrap();
        let far = fs.write(file, u64::MAX - 5, &[1; 10], now);
        assert_eq!(far, Err(Error::TooBig));
        fs.write(file, 1_000, &[], now).unwrap();
        assert_eq!(fs.read(file, 0, &mut [0; 100]), Ok(30));
    }

    /// A file that is filled at random has holes, and is not counted anew for each write.
    #[test]
    fn a_write_into_a_sparse_file_reads_no_map() {
        let mut fs = held(flash("micron-20m"));
        let file = files(&mut fs, 1)[0];
        let now = Time::default();
        for n in 0..1_000 {
            fs.write(file, n * 777 % 1_000 * 4_096, &[1; 2_048], now)
                .unwrap();
        }
        fs.sync().unwrap();
        fs.open(file).unwrap();
        let mut reads = Vec::new();
        for n in 0..3 {
            let before = fs.cost().page_reads;
            fs.write(file, n * 100_000, &[2; 2_048], now).unwrap();
            fs.fsync(file).unwrap();
            reads.push(fs.cost().page_reads - before);
        }
        assert_eq!(reads, [0, 3, 3], "reads of three writes with their fsyncs");
    }

    /// A volume that is worn out says so to the write, not to a later fsync.
    #[test]
    fn what_takes_no_change_holds_nothing_back() {
        let faults = Faults {
            program_fail: Rate(100),
            ..Faults::default()
        };
        let mut fs = held(faulty("micron-20m", faults));
        let (file, now) = (files(&mut fs, 1)[0], Time::default());
        let worn = (0..100_000).find_map(|n| {
            fs.write(file, n % 1_000 * 2_000, &[n as u8; 2_000], now)
                .unwrap();
            fs.fsync(file).err()
        });
        assert_eq!(worn, Some(Error::ReadOnly));
        let refused = fs.write(file, 0, &[1; 100], now);
        assert_eq!(refused, Err(Error::ReadOnly));
    }

    /// A file system that holds back, and one that does not, in which a program does the same.
    struct Twins {
        held: Gathered,
        plain: MemoryFs,
        /// Files that are open, in both.
        open: Vec<(Ino, Ino)>,
        has_links: bool,
        /// What happened last.
        step: u32,
    }

    const NAMES: u64 = 5;

    impl Twins {
        fn now(&self) -> Time {
            Time {
                secs: self.step.into(),
                nanos: 0,
            }
        }

        fn find(&mut self, name: u64) -> Option<(Ino, Ino)> {
            let name = format!("n{name}").into_bytes();
            let roots = (self.held.root(), self.plain.root());
            let found = self.held.lookup(roots.0, &name).map(|attr| attr.ino);
            let expected = self.plain.lookup(roots.1, &name).map(|attr| attr.ino);
            assert_eq!(found.is_ok(), expected.is_ok(), "step {}", self.step);
            Some((found.ok()?, expected.ok()?))
        }

        /// The same call to both, which say the same of it.
        fn both(&mut self, call: impl Fn(&mut dyn FileSystem, Ino) -> Result<()>) {
            let roots = (self.held.root(), self.plain.root());
            let done = call(&mut self.held, roots.0);
            assert_eq!(done, call(&mut self.plain, roots.1), "step {}", self.step);
        }

        /// A change of the names `n0` to `n4`.
        fn change_names(&mut self, rng: &mut Rng) {
            let [a, b] = [(); 2].map(|()| format!("n{}", rng.below(NAMES)).into_bytes());
            let (now, new) = (self.now(), NewInode::default());
            match rng.below(if self.has_links { 6 } else { 4 }) {
                0 | 1 => self.both(|fs, root| fs.create(root, &a, &new).map(|_| ())),
                2 => self.both(|fs, root| fs.unlink(root, &a, now)),
                3 => self.both(|fs, root| fs.rename(root, &a, root, &b, false, now)),
                4 => self.both(|fs, root| fs.exchange(root, &a, root, &b, now)),
                _ => self.both(|fs, root| {
                    let ino = fs.lookup(root, &a)?.ino;
                    fs.link(ino, root, &b, now).map(|_| ())
                }),
            }
        }

        fn change_file(&mut self, rng: &mut Rng, (ino, twin): (Ino, Ino)) {
            let now = self.now();
            let offset = rng.below(60_000);
            let data = vec![self.step as u8; 1 + rng.below(20_000) as usize];
            let set = SetAttr {
                size: Some(offset),
                now,
                ..SetAttr::default()
            };
            let done = |fs: &mut dyn FileSystem, ino, what| match what {
                0 => fs.setattr(ino, &set).map(|_| ()),
                1 if self.has_links => fs.punch_hole(ino, offset, data.len() as u64, now),
                _ => fs.write(ino, offset, &data, now),
            };
            let what = rng.below(8);
            let is = done(&mut self.held, ino, what);
            assert_eq!(is, done(&mut self.plain, twin, what), "step {}", self.step);
        }

        fn open_or_close(&mut self, rng: &mut Rng) {
            match self.find(rng.below(NAMES)) {
                Some((ino, twin)) if rng.one_in(2) => {
                    self.held.open(ino).unwrap();
                    self.plain.open(twin).unwrap();
                    self.open.push((ino, twin));
                }
                Some((ino, _)) if !self.open.iter().any(|(open, _)| *open == ino) => {
                    self.held.forget(ino);
                }
                _ if !self.open.is_empty() => {
                    let at = rng.below(self.open.len() as u64) as usize;
                    let (ino, twin) = self.open.swap_remove(at);
                    self.held.release(ino).unwrap();
                    self.plain.release(twin).unwrap();
                }
                _ => {}
            }
        }

        fn compare(&mut self, (ino, twin): (Ino, Ino)) {
            let (is, expected) = (self.held.getattr(ino), self.plain.getattr(twin));
            let (is, expected) = (is.unwrap(), expected.unwrap());
            assert_eq!(is.size, expected.size, "step {}", self.step);
            // The change that takes the last name has no time on flash.
            if self.has_links && expected.nlink > 0 {
                let of = |attr: Attr| (attr.mtime, attr.ctime, attr.nlink);
                assert_eq!(of(is), of(expected), "step {}", self.step);
            }
            let [mut read, mut kept] = [(); 2].map(|()| vec![0; 90_000]);
            let there = self.held.read(ino, 0, &mut read).unwrap();
            assert_eq!(self.plain.read(twin, 0, &mut kept), Ok(there));
            assert!(read == kept, "step {}", self.step);
        }
    }

    fn nanofs() -> Box<crate::Served> {
        use flashkit_sim::{CardTiming, SimCard};
        let mut fs =
            flashkit_nanofs::NanoFs::<_, 6>::new(SimCard::new(8_192, CardTiming::default()));
        fs.format(1, 8, 1).unwrap();
        Box::new(flashkit_vfs::nanofs::NanoFsFs::new(fs, (0, 0), false).unwrap())
    }

    /// Files come and go, open and closed, under names that change, and their numbers are others'.
    #[test]
    fn names_and_files_are_what_they_are_without() {
        for seed in 0..24 {
            println!("seed {seed}");
            let mut rng = Rng::new(seed);
            let fs = match seed % 3 {
                0 => nanofs(),
                1 => flash("micron-20m"),
                _ => Box::new(MemoryFs::new()),
            };
            let mut twins = Twins {
                held: Gathered::with_max(fs, [60_000, 1 << 20][seed as usize / 3 % 2]),
                plain: MemoryFs::new(),
                open: Vec::new(),
                has_links: seed % 3 > 0,
                step: 0,
            };
            for step in 0..600 {
                twins.step = step;
                let some = match rng.below(twins.open.len() as u64 + 1) as usize {
                    0 => twins.find(rng.below(NAMES)),
                    n => Some(twins.open[n - 1]),
                };
                match (rng.below(8), some) {
                    (0, _) => twins.change_names(&mut rng),
                    (1 | 2, _) => twins.open_or_close(&mut rng),
                    (3, _) if rng.one_in(4) => twins.held.sync().unwrap(),
                    (3, _) => {
                        twins.held.begin_commit();
                        twins.held.write_some().unwrap();
                    }
                    (4, Some(file)) => twins.held.fsync(file.0).unwrap(),
                    (5.., Some(file)) => twins.change_file(&mut rng, file),
                    _ => {}
                }
                super::super::tests::check(&twins.held);
                if let Some(file) = some.filter(|file| {
                    twins.open.contains(file) || (0..NAMES).any(|n| twins.find(n) == Some(*file))
                }) {
                    twins.compare(file);
                }
            }
        }
    }
}
