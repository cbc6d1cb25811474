//! A file system that says what no sound volume could: any name in any directory, several times,
//! for any inode.

use flashkit_vfs::{
    Attr, DirEntry, Error, FileKind, FileSystem, Ino, NewInode, Result, SetAttr, StatFs, Time,
};

use super::host::ESCAPE;
use crate::input::{EDIT, Input, STEP};

/// Calls that a copy takes at most: each inode is gone through once, or twice.
const CALLS_MAX: u32 = 20_000;
/// What is stored of a file, whatever its size.
const STORED: u64 = 3_000;

const NAMES: [&[u8]; 24] = [
    b"a",
    b"b",
    b"dir",
    b"file",
    b"link",
    b"..",
    b".",
    b"a/b",
    b"../beside",
    b"../../outside/new",
    b"dir/../../beside",
    b"a\0b",
    b"",
    b"\xff\xfe",
    b"a\n\x1b[31m",
    b"a/",
    b"./a",
    b"\0",
    b"..\0",
    b"...",
    b"//",
    b"/",
    b"a/../../beside",
    b"link/kept",
];

const TARGETS: [&[u8]; 12] = [
    b"a",
    b"link",
    b".",
    b"..",
    b"../..",
    b"../beside",
    b"../../outside",
    b"../../outside/kept",
    b"../../../outside/new",
    b"",
    b"x\0y",
    b"dir/link",
];

fn name(kind: u8, arg: u8) -> Vec<u8> {
    match kind {
        // Long ones: as long as the host takes, and longer.
        250.. => vec![b'n'; 200 + usize::from(arg)],
        240.. => [ESCAPE.as_bytes(), b"/x"].concat(),
        kind => NAMES[usize::from(kind) % NAMES.len()].to_vec(),
    }
}

/// See above.
pub struct Forged {
    inodes: Vec<[u8; EDIT]>,
    entries: Vec<[u8; STEP]>,
    calls: u32,
}

impl Forged {
    /// Inodes from edits, the first of them the root directory; names from steps: in which
    /// directory, which name (two bytes), of which inode, two unused.
    pub fn new(input: &Input<'_>) -> Forged {
        let mut inodes = vec![[0; EDIT]];
        inodes.extend(input.edits.iter().map(|edit| **edit));
        Forged {
            inodes,
            entries: input.steps.iter().map(|step| **step).collect(),
            calls: 0,
        }
    }

    fn count(&mut self) {
        self.calls += 1;
        assert!(self.calls < CALLS_MAX, "the copy goes round in circles");
    }

    fn attr(&self, ino: Ino) -> Attr {
        let inode = &self.inodes[ino as usize];
        let word = |at: usize| u32::from_le_bytes([inode[at], inode[at + 1], inode[at + 2], 0]);
        let kind = match inode[0] % 10 {
            0..=3 => FileKind::Dir,
            4 | 5 => FileKind::File,
            6 => FileKind::Symlink,
            7 => FileKind::Fifo,
            8 => FileKind::Char,
            _ => FileKind::Block,
        };
        let size = u64::from(word(1)) << (inode[4] % 64);
        let secs = i64::from(word(5)) << (inode[8] % 64);
        let time = Time {
            secs,
            nanos: u32::from(inode[9]) << 22,
        };
        Attr {
            ino,
            kind,
            size,
            blocks: 0,
            mode: u16::from_le_bytes([inode[5], inode[9]]) & 0o7777,
            nlink: u32::from(inode[4] >> 6),
            uid: word(6),
            gid: u32::from(inode[7]),
            device: u32::from(inode[8]),
            atime: time,
            mtime: time,
            ctime: time,
        }
    }

    /// The names in a directory, and their inodes.
    fn names(&self, dir: Ino) -> impl Iterator<Item = (Vec<u8>, Ino)> {
        let many = self.inodes.len();
        let here = move |step: &&[u8; STEP]| usize::from(step[0]) % many == dir as usize;
        let entries = self.entries.iter().filter(here);
        entries.map(move |step| (name(step[1], step[2]), (usize::from(step[3]) % many) as Ino))
    }
}

impl FileSystem for Forged {
    fn root(&self) -> Ino {
        0
    }

    /// Whether it is a directory is not looked at: names come from listings.
    fn lookup(&mut self, dir: Ino, name: &[u8]) -> Result<Attr> {
        self.count();
        let found = self.names(dir).find(|(there, _)| there == name);
        found.map(|(_, ino)| self.attr(ino)).ok_or(Error::NotFound)
    }

    fn getattr(&mut self, ino: Ino) -> Result<Attr> {
        self.count();
        Ok(self.attr(ino))
    }

    fn setattr(&mut self, _: Ino, _: &SetAttr) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn create(&mut self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn mkdir(&mut self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn symlink(&mut self, _: Ino, _: &[u8], _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Error::ReadOnly)
    }

    fn readlink(&mut self, ino: Ino) -> Result<Vec<u8>> {
        self.count();
        let inode = &self.inodes[ino as usize];
        Ok(match inode[1] {
            250.. => vec![b't'; 4_000 + usize::from(inode[2])],
            240.. => ESCAPE.into(),
            n => TARGETS[usize::from(n) % TARGETS.len()].to_vec(),
        })
    }

    fn unlink(&mut self, _: Ino, _: &[u8], _: Time) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn rmdir(&mut self, _: Ino, _: &[u8], _: Time) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn rename(&mut self, _: Ino, _: &[u8], _: Ino, _: &[u8], _: bool, _: Time) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn open(&mut self, _: Ino) -> Result<()> {
        Ok(())
    }

    fn release(&mut self, _: Ino) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self, _: Ino) {}

    fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.count();
        let left = self.attr(ino).size.saturating_sub(offset);
        let len = left.min(buf.len() as u64) as usize;
        buf[..len].fill(0);
        for (byte, _) in buf[..len].iter_mut().zip(offset..STORED) {
            *byte = b'd';
        }
        Ok(len)
    }

    fn write(&mut self, _: Ino, _: u64, _: &[u8], _: Time) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.count();
        let stored = self.attr(ino).size.min(STORED);
        Ok((offset < stored).then_some(offset))
    }

    fn next_hole(&mut self, ino: Ino, offset: u64) -> Result<Option<u64>> {
        self.count();
        let size = self.attr(ino).size;
        Ok((offset < size).then_some(offset.max(size.min(STORED))))
    }

    fn fsync(&mut self, _: Ino) -> Result<()> {
        Ok(())
    }

    fn readdir(
        &mut self,
        dir: Ino,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<()> {
        self.count();
        for (n, (name, ino)) in (1..).zip(self.names(dir)).skip(cookie as usize) {
            let kind = self.attr(ino).kind;
            let entry = DirEntry {
                ino,
                kind,
                name,
                cookie: n,
            };
            if !each(entry) {
                break;
            }
        }
        Ok(())
    }

    fn parent(&mut self, _: Ino) -> Result<Ino> {
        Ok(0)
    }

    fn statfs(&mut self) -> Result<StatFs> {
        Err(Error::Unsupported)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        Ok(())
    }
}
