//! A file system that stays where it is, with all that it borrows, and is asked from afar: a mount
//! keeps what it is given for as long as it likes.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};

use flashkit_vfs::{
    Attr, DirEntry, FileKind, FileSystem, Ino, Measured, NewInode, Patrol, Result, SetAttr,
    SetXattr, StatFs, Time,
};

/// Entries that are listed at once.
const BATCH: usize = 64;

/// Something to be done by whoever has the file system.
pub type Job = Box<dyn FnOnce(&mut dyn FileSystem) + Send>;

/// What a mount is given.
pub struct Lent {
    root: Ino,
    jobs: Sender<Job>,
}

impl Lent {
    /// And what its owner is to do until there is no more: the mount is over then.
    pub fn new(root: Ino) -> (Lent, Receiver<Job>) {
        let (jobs, inbox) = channel();
        (Lent { root, jobs }, inbox)
    }

    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn FileSystem) -> T + Send + 'static,
    ) -> T {
        let (to, answer) = sync_channel(1);
        let job: Job = Box::new(move |fs| drop(to.send(work(fs))));
        self.jobs.send(job).expect("the owner waits");
        answer.recv().expect("the owner answers")
    }
}

impl Measured for Lent {}

impl FileSystem for Lent {
    fn root(&self) -> Ino {
        self.root
    }

    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        let name = name.to_vec();
        self.ask(move |fs| fs.lookup(dir, &name))
    }

    fn lookup_dir(&mut self, dir: Ino, name: &[u8]) -> Result<Ino> {
        let name = name.to_vec();
        self.ask(move |fs| fs.lookup_dir(dir, &name))
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.ask(move |fs| fs.getattr(ino))
    }

    fn setattr(&mut self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let set = *set;
        self.ask(move |fs| fs.setattr(ino, &set))
    }

    fn create(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let (name, new) = (name.to_vec(), *new);
        self.ask(move |fs| fs.create(dir, &name, &new))
    }

    fn mknod(
        &mut self,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        device: u32,
        new: &NewInode,
    ) -> Result<Attr> {
        let (name, new) = (name.to_vec(), *new);
        self.ask(move |fs| fs.mknod(dir, &name, kind, device, &new))
    }

    fn mkdir(&mut self, dir: Ino, name: &[u8], new: &NewInode) -> Result<Attr> {
        let (name, new) = (name.to_vec(), *new);
        self.ask(move |fs| fs.mkdir(dir, &name, &new))
    }

    fn symlink(&mut self, dir: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Attr> {
        let (name, target, new) = (name.to_vec(), target.to_vec(), *new);
        self.ask(move |fs| fs.symlink(dir, &name, &target, &new))
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.ask(move |fs| fs.readlink(ino))
    }

    fn link(&mut self, ino: Ino, dir: Ino, name: &[u8], now: Time) -> Result<Attr> {
        let name = name.to_vec();
        self.ask(move |fs| fs.link(ino, dir, &name, now))
    }

    fn unlink(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let name = name.to_vec();
        self.ask(move |fs| fs.unlink(dir, &name, now))
    }

    fn rmdir(&mut self, dir: Ino, name: &[u8], now: Time) -> Result<()> {
        let name = name.to_vec();
        self.ask(move |fs| fs.rmdir(dir, &name, now))
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
        let (from, to) = (from.to_vec(), to.to_vec());
        self.ask(move |fs| fs.rename(from_dir, &from, to_dir, &to, no_replace, now))
    }

    fn exchange(
        &mut self,
        dir: Ino,
        name: &[u8],
        other_dir: Ino,
        other: &[u8],
        now: Time,
    ) -> Result<()> {
        let (name, other) = (name.to_vec(), other.to_vec());
        self.ask(move |fs| fs.exchange(dir, &name, other_dir, &other, now))
    }

    fn open(&mut self, ino: Ino) -> Result<()> {
        self.ask(move |fs| fs.open(ino))
    }

    fn release(&mut self, ino: Ino) -> Result<()> {
        self.ask(move |fs| fs.release(ino))
    }

    fn count_blocks(&mut self) {
        self.ask(|fs| fs.count_blocks());
    }

    fn forget(&mut self, ino: Ino) {
        self.ask(move |fs| fs.forget(ino));
    }

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let len = buf.len();
        let read = self.ask(move |fs| {
            let mut data = vec![0; len];
            let n = fs.read(ino, offset, &mut data)?;
            data.truncate(n);
            Ok(data)
        })?;
        buf[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    fn write(&mut self, ino: Ino, offset: u64, data: &[u8], now: Time) -> Result<()> {
        let data = data.to_vec();
        self.ask(move |fs| fs.write(ino, offset, &data, now))
    }

    fn punch_hole(&mut self, ino: Ino, offset: u64, len: u64, now: Time) -> Result<()> {
        self.ask(move |fs| fs.punch_hole(ino, offset, len, now))
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.ask(move |fs| fs.next_data(ino, offset))
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.ask(move |fs| fs.next_hole(ino, offset))
    }

    fn xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let name = name.to_vec();
        self.ask(move |fs| fs.xattr(ino, &name))
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.ask(move |fs| fs.xattrs(ino))
    }

    fn set_xattr(
        &mut self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: SetXattr,
        now: Time,
    ) -> Result<()> {
        let (name, value) = (name.to_vec(), value.to_vec());
        self.ask(move |fs| fs.set_xattr(ino, &name, &value, how, now))
    }

    fn remove_xattr(&mut self, ino: Ino, name: &[u8], now: Time) -> Result<()> {
        let name = name.to_vec();
        self.ask(move |fs| fs.remove_xattr(ino, &name, now))
    }

    fn fsync(&mut self, ino: Ino) -> Result<()> {
        self.ask(move |fs| fs.fsync(ino))
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        let mut cookie = cookie;
        loop {
            let entries = self.ask(move |fs| {
                let mut entries = Vec::new();
                fs.readdir(dir, cookie, &mut |entry| {
                    entries.push(entry);
                    entries.len() < BATCH
                })
                .map(|()| entries)
            })?;
            let is_last = entries.len() < BATCH;
            for entry in entries {
                cookie = entry.cookie;
                if !each(entry) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn parent(&mut self, dir: Ino) -> Result<Ino> {
        self.ask(move |fs| fs.parent(dir))
    }

    fn statfs(&mut self) -> Result<StatFs> {
        self.ask(|fs| fs.statfs())
    }

    fn sync(&mut self) -> Result<()> {
        self.ask(|fs| fs.sync())
    }

    fn gc(&mut self, pages: u32) -> Result<bool> {
        self.ask(move |fs| fs.gc(pages))
    }

    fn bytes_clean(&self) -> Option<u64> {
        self.ask(|fs| fs.bytes_clean())
    }

    fn takes_removals(&self) -> bool {
        self.ask(|fs| fs.takes_removals())
    }

    fn patrol(&mut self) -> Result<Patrol> {
        self.ask(|fs| fs.patrol())
    }

    /// The owner unmounts.
    fn unmount(&mut self) -> Result<()> {
        Ok(())
    }
}
