//! A mounted volume that a script is run on.

use flashkit_flashlight::Config;
use flashkit_nand::Nand;
use flashkit_vfs::any::{self, AnyFs, AnyNand};
use flashkit_vfs::{Error, FileKind, FileSystem, Ino, NewInode, SetAttr, SetXattr, Time, path};

use crate::caught::caught;
use crate::content::fill;
use crate::forced::{Forced, forced_in};
use crate::model::{attrs_of, time_of};
use crate::op::{Op, special};
use crate::recorder::Recorder;
use crate::seen::{Attrs, SeenFile, read_file};

/// How an operation ended.
pub(crate) enum Done {
    Well,
    /// No space; of a write or a truncation what the file is now.
    Full(Option<SeenFile>),
}

pub(crate) struct Live<'r> {
    fs: AnyFs<'r, 'static>,
    open: Vec<Ino>,
    /// What of the volume's counters the census has.
    noted: Vec<(Forced, u64)>,
}

impl<'r> Live<'r> {
    pub fn mount(chip: Recorder, ram: &'r mut [u8], config: Config) -> Result<Live<'r>, String> {
        caught(|| {
            let mounted = any::mount(AnyNand::new(chip), ram, config);
            let mut fs = mounted.map_err(|e| format!("mount fails: {e}"))?;
            let noted = forced_in(&fs.volume().written());
            Ok(Live {
                fs,
                open: Vec::new(),
                noted,
            })
        })
    }

    pub fn recorder(&mut self) -> &mut Recorder {
        self.fs.volume().nand_mut().get_mut()
    }

    /// Whether the chip is worn out.
    pub fn is_worn(&mut self) -> bool {
        self.fs.volume().is_worn()
    }

    /// Closes what is open and unmounts.
    pub fn unmount(mut self) -> Result<Recorder, String> {
        caught(|| {
            for ino in std::mem::take(&mut self.open) {
                self.fs
                    .release(ino)
                    .map_err(|e| format!("close fails: {e}"))?;
            }
            self.note_forced();
            let unmounted = self.fs.into_volume().unmount();
            let nand = unmounted.map_err(|(_, e)| format!("unmount fails: {e}"))?;
            Ok(nand.take())
        })
    }

    /// Brings the counters of the volume into the recorder's census.
    pub fn note_forced(&mut self) {
        let now = forced_in(&self.fs.volume().written());
        let before = std::mem::replace(&mut self.noted, now.clone());
        let census = &mut self.recorder().census;
        for ((what, now), (_, before)) in now.into_iter().zip(before) {
            if now > before {
                *census.entry(what).or_default() += now - before;
            }
        }
    }

    /// Does operation number `n`.
    ///
    /// # Errors
    /// It fails with anything but a lack of space.
    pub fn execute(&mut self, op: &Op, n: usize) -> Result<Done, String> {
        caught(|| match self.attempt(op, n) {
            Ok(()) => Ok(Done::Well),
            Err(Error::NoSpace) => {
                *self.recorder().census.entry(Forced::Full).or_default() += 1;
                self.after_full(op)
                    .map_err(|e| format!("after no space: {e}"))
            }
            Err(e) => Err(format!("{op} fails: {e}")),
        })
    }

    fn after_full(&mut self, op: &Op) -> Result<Done, Error> {
        let (Op::Write(p, ..) | Op::Copy(p, _) | Op::Truncate(p, _) | Op::Punch(p, ..)) = op else {
            return Ok(Done::Full(None));
        };
        let attr = path::resolve(&mut self.fs, p.as_bytes())?;
        let content = read_file(&mut self.fs, attr.ino, attr.size)?;
        let attrs = Attrs::read(&mut self.fs, &attr)?;
        Ok(Done::Full(Some(SeenFile {
            ino: attr.ino,
            what: (attr.kind, attr.device),
            attrs,
            content,
        })))
    }

    fn ino(&mut self, p: &str) -> Result<Ino, Error> {
        path::resolve(&mut self.fs, p.as_bytes()).map(|attr| attr.ino)
    }

    fn attempt(&mut self, op: &Op, n: usize) -> Result<(), Error> {
        let (now, attrs) = (time_of(n), attrs_of(n));
        let new = NewInode {
            mode: attrs.mode,
            uid: attrs.uid,
            gid: attrs.gid,
            now,
        };
        match op {
            Op::Create(p) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                self.fs.create(dir, name, &new)?;
            }
            Op::Mkdir(p) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                self.fs.mkdir(dir, name, &new)?;
            }
            Op::Symlink(p, len) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                self.fs.symlink(dir, name, &fill(n as u64, 0, *len), &new)?;
            }
            Op::Mknod(p, number) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                let (kind, device) = special(*number);
                self.fs.mknod(dir, name, kind, device, &new)?;
            }
            Op::Unlink(p) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                self.fs.unlink(dir, name, now)?;
            }
            Op::Rmdir(p) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                self.fs.rmdir(dir, name, now)?;
            }
            Op::Rename(p, q) => {
                let (from, old) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                let (to, name) = path::resolve_parent(&mut self.fs, q.as_bytes())?;
                self.fs.rename(from, old, to, name, false, now)?;
            }
            Op::Exchange(p, q) => {
                let (dir, name) = path::resolve_parent(&mut self.fs, p.as_bytes())?;
                let (other_dir, other) = path::resolve_parent(&mut self.fs, q.as_bytes())?;
                self.fs.exchange(dir, name, other_dir, other, now)?;
            }
            Op::Link(p, q) => {
                let ino = self.ino(p)?;
                let (dir, name) = path::resolve_parent(&mut self.fs, q.as_bytes())?;
                self.fs.link(ino, dir, name, now)?;
            }
            Op::Write(p, offset, len) => {
                let ino = self.ino(p)?;
                self.fs
                    .write(ino, *offset, &fill(n as u64, *offset, *len), now)?;
            }
            Op::Copy(p, piece) => {
                let ino = self.ino(p)?;
                self.fs
                    .write(ino, piece.range.start as u64, piece.bytes(), now)?;
            }
            Op::Punch(p, offset, len) => {
                let ino = self.ino(p)?;
                self.fs.punch_hole(ino, *offset, *len, now)?;
            }
            Op::SetXattr(p, name, len) => {
                let (ino, value) = (self.ino(p)?, fill(n as u64, 0, *len));
                let name = name.as_bytes();
                self.fs.set_xattr(ino, name, &value, SetXattr::Any, now)?;
            }
            Op::RemoveXattr(p, name) => {
                let ino = self.ino(p)?;
                self.fs.remove_xattr(ino, name.as_bytes(), now)?;
            }
            Op::Read(p) => {
                let attr = path::resolve(&mut self.fs, p.as_bytes())?;
                match attr.kind {
                    FileKind::File => drop(read_file(&mut self.fs, attr.ino, attr.size)?),
                    FileKind::Symlink => drop(self.fs.readlink(attr.ino)?),
                    _ => {}
                }
            }
            Op::List(p) => {
                let ino = self.ino(p)?;
                self.fs.readdir(ino, 0, &mut |_| true)?;
            }
            Op::Fsync(p) => {
                let ino = self.ino(p)?;
                self.fs.fsync(ino)?;
            }
            Op::Sync => self.fs.sync()?,
            Op::Gc => drop(self.fs.gc(64)?),
            Op::Scrub => self.scrub(u32::MAX)?,
            Op::WeakRead(n) => self.recorder().weak_read = Some(*n),
            Op::Open(p) => {
                let ino = self.ino(p)?;
                self.fs.open(ino)?;
                self.open.push(ino);
            }
            Op::Close => self.close(now)?,
            Op::FailProgram(n, seed) => self.recorder().fail_program = Some((*n, *seed)),
            Op::FailErase(n, seed) => self.recorder().fail_erase = Some((*n, *seed)),
            Op::Truncate(..) | Op::Chmod(..) | Op::Chown(..) | Op::Utimes(..) => {
                self.set_attrs(op, now)?;
            }
            Op::Remount => unreachable!("a session ends with it"),
        }
        Ok(())
    }

    /// Reads on through what is in use, `pages` at most, or to the end of the round.
    pub fn scrub(&mut self, mut pages: u32) -> Result<(), Error> {
        let volume = self.fs.volume();
        let steps = 4 * volume.nand().geometry().blocks();
        for _ in 0..steps {
            let step = volume
                .scrub(pages.min(64))
                .map_err(|e| Error::Io(format!("scrub: {e}")))?;
            if let Some(page) = step.unreadable {
                return Err(Error::Io(format!("scrub cannot read {page:?}")));
            }
            pages -= step.read;
            if step.done || pages == 0 {
                return Ok(());
            }
        }
        Err(Error::Io("scrub comes to no end".into()))
    }

    fn set_attrs(&mut self, op: &Op, now: Time) -> Result<(), Error> {
        let mut set = SetAttr {
            now,
            ..SetAttr::default()
        };
        let path = match op {
            Op::Truncate(p, size) => {
                set.size = Some(*size);
                p
            }
            Op::Chmod(p, mode) => {
                set.mode = Some(*mode);
                p
            }
            Op::Chown(p, uid, gid) => {
                (set.uid, set.gid) = (Some(*uid), Some(*gid));
                p
            }
            Op::Utimes(p, atime, mtime) => {
                set.atime = Some(Time {
                    secs: *atime,
                    nanos: 0,
                });
                set.mtime = Some(Time {
                    secs: *mtime,
                    nanos: 0,
                });
                p
            }
            _ => unreachable!("the caller chooses"),
        };
        let ino = self.ino(path)?;
        self.fs.setattr(ino, &set).map(drop)
    }

    /// Closes the oldest open file. One that has no name any more must still be writable.
    fn close(&mut self, now: Time) -> Result<(), Error> {
        if self.open.is_empty() {
            return Ok(());
        }
        let ino = self.open.remove(0);
        if self.fs.getattr(ino)?.nlink == 0 {
            match self.fs.write(ino, 100, &fill(1, 0, 3000), now) {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(e) => return Err(e),
            }
            self.fs.fsync(ino)?;
        }
        self.fs.release(ino)
    }
}
