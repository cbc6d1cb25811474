//! The operations, each on both sides; those on names are in `names`.

use flashkit_vfs::{Error, FileKind, FileSystem, Ino, SetAttr, SetXattr};

use super::choose::{Kind, show};
use super::driver::{Driver, Node};
use crate::content::Key;

pub(super) type Done = Result<(), String>;

impl Driver<'_> {
    pub(super) fn operate(&mut self, kind: Kind) -> Done {
        if self.pressed {
            self.pressed = self.used > self.run.space / 2 && !self.rng.one_in(20);
            if !self.rng.one_in(4) {
                return self.unlink_any();
            }
        }
        match kind {
            Kind::Create | Kind::Mkdir | Kind::Symlink | Kind::Mknod => self.make(kind),
            Kind::Write => self.write(false),
            Kind::Append => self.write(true),
            Kind::Truncate => self.truncate(),
            Kind::Punch => self.punch(),
            Kind::Seek => self.seek(),
            Kind::Read => self.read(),
            Kind::Rmdir => self.rmdir(),
            Kind::Unlink => self.unlink_any(),
            Kind::Rename => self.rename(),
            Kind::Exchange => self.exchange(),
            Kind::Link => self.link(),
            Kind::Readlink => self.readlink(),
            Kind::Open => self.open(),
            Kind::Release => self.release_any(),
            Kind::SetAttr => self.setattr(),
            Kind::Xattr => self.xattr(),
            Kind::List => self.list(),
            Kind::ListAcross => self.list_across(),
            Kind::Lookup => self.lookup(),
            Kind::Wrong => self.wrong(),
            Kind::Forget => self.forget(),
            Kind::Fsync => self.fsync(),
            Kind::Sync => {
                self.say("sync");
                let is = self.target.fs().sync();
                if self.was_full(&is) {
                    Ok(())
                } else {
                    self.agree(&Ok(()), &is).map(drop)
                }
            }
            Kind::StatFs => self.statfs(),
            Kind::Gc => {
                let pages = self.rng.between(1, 200) as u32;
                self.say(format!("gc {pages}"));
                self.target
                    .fs()
                    .gc(pages)
                    .map(drop)
                    .map_err(|error| format!("gc: {error}"))
            }
        }
    }

    /// One of the inodes of a kind; named ones only, or open ones without a name as well.
    pub(super) fn pick(&mut self, kind: FileKind, named: bool) -> Option<Ino> {
        let fits = |(ino, node): &(&Ino, &Node)| {
            node.kind == kind && !(named && self.orphans.contains(ino))
        };
        let found: Vec<Ino> = self
            .nodes
            .iter()
            .filter(fits)
            .map(|(ino, _)| *ino)
            .collect();
        self.rng.pick(&found).copied()
    }

    fn write(&mut self, append: bool) -> Done {
        let Some(ino) = self.pick(FileKind::File, false) else {
            return self.make(Kind::Create);
        };
        let size = self.file_size(ino);
        let offset = if append {
            size
        } else {
            self.swarm.offset(&mut self.rng, size)
        };
        let len = self.swarm.size(&mut self.rng, self.run.write_max);
        let grown = (offset + len).saturating_sub(size);
        if self.used + grown > self.run.space {
            return if self.rng.one_in(2) {
                self.unlink_any()
            } else {
                self.truncate()
            };
        }
        let at = self.touch(ino)?;
        let mut data = vec![0; len as usize];
        Key::new("model", self.op).fill(offset, &mut data);
        let now = self.now();
        self.say(format!(
            "write {} {offset} {len} (of {size})",
            self.path(ino)
        ));
        let is = self.target.fs().write(at, offset, &data, now);
        if self.was_full(&is) {
            return self.accept_part(ino, offset, &data);
        }
        let due = self.model.write(ino, offset, &data, now);
        self.stats.written += len;
        self.used += grown;
        self.agree(&due, &is)?;
        self.look_around(ino, offset.min(size))
    }

    /// A write that did not fit may have been done in part: every byte must be the old or the
    /// new one. The model then takes over what is there.
    fn accept_part(&mut self, ino: Ino, offset: u64, data: &[u8]) -> Done {
        let at = self.touch(ino)?;
        let old = self.file_size(ino);
        let attr = self
            .target
            .fs()
            .getattr(at)
            .map_err(|error| format!("getattr: {error}"))?;
        let end = offset + data.len() as u64;
        if attr.size != old && !(attr.size > old && attr.size <= end) {
            return Err(format!(
                "a write from {offset} to {end} failed and left size {}",
                attr.size
            ));
        }
        let len = data.len().min(attr.size.saturating_sub(offset) as usize);
        let (mut is, mut was) = (vec![0; len], vec![0; len]);
        let n = self
            .target
            .fs()
            .read(at, offset, &mut is)
            .map_err(|error| error.to_string())?;
        self.model
            .read(ino, offset, &mut was)
            .map_err(|error| error.to_string())?;
        if n != len {
            return Err(format!("a write failed; then {n} bytes of {len} were read"));
        }
        for i in 0..len {
            if is[i] != was[i] && is[i] != data[i] {
                return Err(format!(
                    "a write failed and left neither old nor new at {}",
                    offset + i as u64
                ));
            }
        }
        let now = attr.mtime;
        self.model
            .write(ino, offset, &is, now)
            .map_err(|error| error.to_string())?;
        let set = SetAttr {
            size: Some(attr.size),
            mtime: Some(now),
            now,
            ..SetAttr::default()
        };
        self.model
            .setattr(ino, &set)
            .map_err(|error| error.to_string())?;
        self.used += attr.size - old;
        Ok(())
    }

    fn truncate(&mut self) -> Done {
        let Some(ino) = self.pick(FileKind::File, false) else {
            return Ok(());
        };
        let old = self.file_size(ino);
        let size = match self.rng.below(4) {
            0 => 0,
            1 => old + self.swarm.size(&mut self.rng, self.run.write_max),
            _ => self.rng.below(old + 1),
        };
        // Whether the same size again is a change is left open.
        if size == old || self.used + size.saturating_sub(old) > self.run.space {
            return Ok(());
        }
        let set = SetAttr {
            size: Some(size),
            now: self.now(),
            ..SetAttr::default()
        };
        self.say(format!("truncate {} {size} (of {old})", self.path(ino)));
        if self.set(ino, &set)? {
            self.used = self.used - old + size;
            self.look_around(ino, size.min(old))?;
        }
        Ok(())
    }

    fn punch(&mut self) -> Done {
        let Some(ino) = self.pick(FileKind::File, false) else {
            return Ok(());
        };
        let size = self.file_size(ino);
        let offset = self.swarm.offset(&mut self.rng, size);
        let len = self.swarm.size(&mut self.rng, self.run.write_max);
        let (at, now) = (self.touch(ino)?, self.now());
        self.say(format!(
            "punch {} {offset} {len} (of {size})",
            self.path(ino)
        ));
        let is = self.target.fs().punch_hole(at, offset, len, now);
        let due = self.model.punch_hole(ino, offset, len, now);
        self.agree(&due, &is)?;
        self.look_around(ino, offset.min(size))?;
        self.look_around(ino, (offset + len).min(size))
    }

    /// Where data begins and ends is the file system's to say, but what is not data must be zero.
    fn seek(&mut self) -> Done {
        let Some(ino) = self.pick(FileKind::File, false) else {
            return Ok(());
        };
        let size = self.file_size(ino);
        let offset = self.swarm.offset(&mut self.rng, size);
        let at = self.touch(ino)?;
        self.say(format!("seek {} {offset} (of {size})", self.path(ino)));
        let fs = self.target.fs();
        let (data, hole) = (fs.next_data(at, offset), fs.next_hole(at, offset));
        let (Ok(data), Ok(hole)) = (&data, &hole) else {
            return Err(format!("data: {data:?}, hole: {hole:?}"));
        };
        let inside = offset < size;
        let right = hole.is_some() == inside
            && hole.is_none_or(|at| (offset..=size).contains(&at))
            && data.is_none_or(|at| (offset..size).contains(&at))
            // It is one of the two.
            && (!inside || (*data == Some(offset)) != (*hole == Some(offset)));
        if !right {
            return Err(format!("data at {data:?}, a hole at {hole:?}"));
        }
        let mut zeros = vec![0; (data.unwrap_or(size.max(offset)) - offset) as usize];
        let n = self.model.read(ino, offset, &mut zeros).unwrap_or(0);
        match zeros[..n].iter().position(|&byte| byte != 0) {
            Some(place) => Err(format!(
                "byte {} is said to be in a hole",
                offset + place as u64
            )),
            None => Ok(()),
        }
    }

    /// Now and then reads where a change began: what lay beyond the end must be zero.
    fn look_around(&mut self, ino: Ino, edge: u64) -> Done {
        if !self.rng.one_in(4) {
            return Ok(());
        }
        let before = self.rng.below(3000).min(edge);
        self.compare_read(ino, edge - before, 6000)
    }

    /// Sets attributes on both sides; returns whether that was done.
    fn set(&mut self, ino: Ino, set: &SetAttr) -> Result<bool, String> {
        let at = self.touch(ino)?;
        let is = self.target.fs().setattr(at, set);
        if self.was_full(&is) {
            return Ok(false);
        }
        let due = self.model.setattr(ino, set);
        Ok(self.agree_attr(due, is, false)?.is_some())
    }

    fn setattr(&mut self) -> Done {
        let any: Vec<Ino> = self.nodes.keys().copied().collect();
        let Some(ino) = self.rng.pick(&any).copied() else {
            return Ok(());
        };
        let (now, time) = (self.now(), self.now());
        let draw = self.rng.between(1, 31);
        let set = SetAttr {
            size: None,
            mode: (draw & 1 != 0).then(|| self.rng.below(0o10000) as u16),
            uid: (draw & 2 != 0).then(|| self.rng.below(1 << 32) as u32),
            gid: (draw & 4 != 0).then(|| self.rng.below(1 << 32) as u32),
            atime: (draw & 8 != 0).then_some(time),
            mtime: (draw & 16 != 0).then_some(time),
            now,
        };
        self.say(format!("setattr {} {set:?}", self.path(ino)));
        self.set(ino, &set).map(drop)
    }

    /// Sets, reads or removes an extended attribute of any inode. All of one fit a page.
    fn xattr(&mut self) -> Done {
        let any: Vec<Ino> = self.nodes.keys().copied().collect();
        let Some(ino) = self.rng.pick(&any).copied() else {
            return Ok(());
        };
        let names = [
            "user.a",
            "user.long name",
            "trusted.b",
            "security.c",
            "user.d",
        ];
        let name = self.rng.pick(&names).unwrap_or(&"user.a").as_bytes();
        let (at, now) = (self.touch(ino)?, self.now());
        let draw = self.rng.below(8);
        self.say(format!("xattr {draw} {} {}", self.path(ino), show(name)));
        let len = self.rng.below(150);
        let value: Vec<u8> = (0..len).map(|i| (i * 7 + draw) as u8).collect();
        let how = match draw {
            0 => SetXattr::Create,
            1 => SetXattr::Replace,
            _ => SetXattr::Any,
        };
        let fs = self.target.fs();
        if draw == 7 {
            let (is, due) = (fs.xattr(at, name), self.model.xattr(ino, name));
            return self.agree(&due, &is).map(drop);
        }
        let is = match draw {
            5 | 6 => fs.remove_xattr(at, name, now),
            _ => fs.set_xattr(at, name, &value, how, now),
        };
        if self.was_full(&is) {
            return Ok(());
        }
        let due = match draw {
            5 | 6 => self.model.remove_xattr(ino, name, now),
            _ => self.model.set_xattr(ino, name, &value, how, now),
        };
        self.agree(&due, &is).map(drop)
    }

    fn read(&mut self) -> Done {
        let Some(ino) = self.pick(FileKind::File, false) else {
            return Ok(());
        };
        let size = self.file_size(ino);
        let offset = self.swarm.offset(&mut self.rng, size);
        let len = self.swarm.size(&mut self.rng, self.run.write_max) as usize;
        self.say(format!(
            "read {} {offset} {len} (of {size})",
            self.path(ino)
        ));
        self.compare_read(ino, offset, len)
    }

    fn readlink(&mut self) -> Done {
        let Some(ino) = self.pick(FileKind::Symlink, false) else {
            return Ok(());
        };
        let at = self.touch(ino)?;
        self.say(format!("readlink {}", self.path(ino)));
        let (is, due) = (self.target.fs().readlink(at), self.model.readlink(ino));
        self.agree(&due, &is).map(drop)
    }

    /// Opens a file; often it loses its name at once and is used without.
    fn open(&mut self) -> Done {
        let kind = if self.rng.one_in(5) {
            FileKind::Dir
        } else {
            FileKind::File
        };
        let Some(ino) = self.pick(kind, false) else {
            return Ok(());
        };
        let at = self.touch(ino)?;
        self.say(format!("open {}", self.path(ino)));
        let (is, due) = (self.target.fs().open(at), self.model.open(ino));
        if self.agree(&due, &is)? {
            if let Some(node) = self.nodes.get_mut(&ino) {
                node.users += 1;
            }
            if kind == FileKind::File && self.rng.one_in(3) && !self.orphans.contains(&ino) {
                let (dir, name) = self.any_name(ino);
                return self.unlink(ino, dir, &name);
            }
        }
        Ok(())
    }

    fn release_any(&mut self) -> Done {
        let open: Vec<Ino> = self
            .nodes
            .iter()
            .filter(|(_, node)| node.users > 0)
            .map(|(ino, _)| *ino)
            .collect();
        let Some(ino) = self.rng.pick(&open).copied() else {
            return Ok(());
        };
        self.say(format!("release {}", self.path(ino)));
        self.release(ino)
    }

    /// A call that must fail, with one fault.
    fn wrong(&mut self) -> Done {
        let Some(ino) = self.pick_named() else {
            return Ok(());
        };
        let kind = self.nodes[&ino].kind;
        let (dir, name) = self.any_name(ino);
        let (at, above, new) = (self.touch(ino)?, self.touch(dir)?, self.new_inode());
        let draw = self.rng.below(8);
        self.say(format!(
            "wrong call {draw} on {kind:?} {}",
            self.at(dir, &name)
        ));
        let long = vec![b'n'; self.rng.between(256, 400) as usize];
        let fs = self.target.fs();
        let (is, due) = match (draw, kind) {
            (0, _) => (fs.create(above, &name, &new).map(drop), Error::Exists),
            (1, _) => (fs.mkdir(above, &name, &new).map(drop), Error::Exists),
            (2, _) => (fs.create(above, &long, &new).map(drop), Error::NameTooLong),
            (3, FileKind::Dir) => (fs.unlink(above, &name, new.now), Error::IsDir),
            (3, _) => (fs.rmdir(above, &name, new.now), Error::NotDir),
            (6, FileKind::Dir) => {
                let linked = fs.link(at, above, b"no second name", new.now);
                (linked.map(drop), Error::NotPermitted)
            }
            (6, _) => {
                let linked = fs.link(at, above, &long, new.now);
                (linked.map(drop), Error::NameTooLong)
            }
            (7, _) if kind != FileKind::Dir => {
                let linked = fs.link(at, above, &name, new.now);
                (linked.map(drop), Error::Exists)
            }
            (4, FileKind::Dir) => (fs.write(at, 0, b"x", new.now), Error::IsDir),
            (4, _) => (fs.lookup(at, b"x").map(drop), Error::NotDir),
            (_, FileKind::Dir) => (fs.read(at, 0, &mut [0]).map(drop), Error::IsDir),
            (_, FileKind::File) => (fs.readlink(at).map(drop), Error::Invalid),
            (_, FileKind::Symlink) => (fs.create(at, b"x", &new).map(drop), Error::NotDir),
            // A special file has no contents.
            (5, _) => (fs.write(at, 0, b"x", new.now), Error::Invalid),
            _ => (fs.read(at, 0, &mut [0]).map(drop), Error::Invalid),
        };
        if self.was_full(&is) {
            Ok(())
        } else {
            self.agree(&Err(due), &is).map(drop)
        }
    }

    /// Lets go of a number that is looked up again when needed.
    fn forget(&mut self) -> Done {
        let Some(ino) = self.pick_named() else {
            return Ok(());
        };
        let has_known = self
            .nodes
            .values()
            .any(|node| node.known && node.names.iter().any(|name| name.0 == ino));
        let path = self.path(ino);
        let Some(node) = self.nodes.get_mut(&ino) else {
            return Ok(());
        };
        if !node.known || node.users > 0 || has_known {
            return Ok(());
        }
        node.known = false;
        let target = node.target;
        self.say(format!("forget {path}"));
        self.target.fs().forget(target);
        Ok(())
    }

    fn fsync(&mut self) -> Done {
        let kind = if self.rng.one_in(4) {
            FileKind::Dir
        } else {
            FileKind::File
        };
        let Some(ino) = self.pick(kind, false) else {
            return Ok(());
        };
        let at = self.touch(ino)?;
        self.say(format!("fsync {}", self.path(ino)));
        let is = self.target.fs().fsync(at);
        if self.was_full(&is) {
            Ok(())
        } else {
            self.agree(&Ok(()), &is).map(drop)
        }
    }

    fn statfs(&mut self) -> Done {
        self.say("statfs");
        let stat = self
            .target
            .fs()
            .statfs()
            .map_err(|error| format!("statfs: {error}"))?;
        let sane = stat.block_size > 0
            && stat.blocks > 0
            && stat.blocks_free <= stat.blocks
            && stat.files_free <= stat.files
            && stat.name_max == 255;
        if sane {
            Ok(())
        } else {
            Err(format!("statfs: {stat:?}"))
        }
    }
}
