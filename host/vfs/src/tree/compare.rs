//! Comparison of a tree of a file system with one of the host.

use std::collections::HashMap;
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{At, TreeError, host_names, host_path, special_of};
use crate::{Attr, FileKind, FileSystem, Ino, path};

/// How two trees differ at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the host has it.
    Missing,
    /// Only the file system has it.
    Extra,
    /// One is a directory, the other a file, or the like.
    Kind,
    /// Other permission bits: here, on the host.
    Mode(u16, u16),
    /// Another size: here, on the host.
    Size(u64, u64),
    /// The first byte that differs.
    Content(u64),
    /// Another target of a symbolic link.
    Target,
    /// A name of another file: hard links join other names here than on the host.
    Links,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Missing => f.write_str("missing"),
            Difference::Extra => f.write_str("not on the host"),
            Difference::Kind => f.write_str("not the same kind"),
            Difference::Mode(here, host) => write!(f, "mode {here:o}, on the host {host:o}"),
            Difference::Size(here, host) => write!(f, "{here} bytes, on the host {host}"),
            Difference::Content(at) => write!(f, "contents differ at byte {at}"),
            Difference::Target => f.write_str("another link target"),
            Difference::Links => f.write_str("not the same hard links"),
        }
    }
}

/// Compares what is at `at` with a host tree: kinds, permission bits, contents, targets of symbolic
/// links, and which names are hard links of one file. Special files of the host are passed over.
/// Paths are relative to `at`.
pub fn compare(
    fs: &mut dyn FileSystem,
    at: &[u8],
    host: &Path,
) -> Result<Vec<(PathBuf, Difference)>, TreeError> {
    let attr = path::resolve(fs, at).at(host_path(at))?;
    let mut compare = Compare {
        fs,
        found: Vec::new(),
        ours: HashMap::new(),
        theirs: HashMap::new(),
    };
    compare.inode(&attr, host, Path::new(""))?;
    Ok(compare.found)
}

struct Compare<'a> {
    fs: &'a mut dyn FileSystem,
    found: Vec<(PathBuf, Difference)>,
    /// Of the files so far, the host's device and inode number for ours, and the reverse.
    ours: HashMap<Ino, (u64, u64)>,
    theirs: HashMap<(u64, u64), Ino>,
}

impl Compare<'_> {
    fn inode(&mut self, attr: &Attr, host: &Path, at: &Path) -> Result<(), TreeError> {
        let meta = fs::symlink_metadata(host).at(host)?;
        let kind_differs = match attr.kind {
            FileKind::File => !meta.is_file(),
            FileKind::Dir => !meta.is_dir(),
            FileKind::Symlink => !meta.is_symlink(),
            kind => special_of(&meta) != Some((kind, attr.device)),
        };
        if kind_differs {
            self.found.push((at.to_owned(), Difference::Kind));
            return Ok(());
        }
        let mode = (meta.mode() & 0o7777) as u16;
        if attr.kind != FileKind::Symlink && attr.mode != mode {
            self.found
                .push((at.to_owned(), Difference::Mode(attr.mode, mode)));
        }
        if attr.kind != FileKind::Dir && self.is_known(attr, &meta, at) {
            return Ok(());
        }
        match attr.kind {
            FileKind::Dir => self.dir(attr, host, at),
            FileKind::File => self.file(attr, host, at, meta.len()),
            FileKind::Symlink => {
                let target = fs::read_link(host).at(host)?;
                if self.fs.readlink(attr.ino).at(at)? != target.as_os_str().as_bytes() {
                    self.found.push((at.to_owned(), Difference::Target));
                }
                Ok(())
            }
            // Kind and number have been compared.
            _ => Ok(()),
        }
    }

    /// Whether a file has been compared by another name on both sides.
    fn is_known(&mut self, attr: &Attr, meta: &Metadata, at: &Path) -> bool {
        let id = (meta.dev(), meta.ino());
        let (ours, theirs) = (self.ours.get(&attr.ino), self.theirs.get(&id));
        if (ours, theirs) == (Some(&id), Some(&attr.ino)) {
            return true;
        }
        if ours.is_some() || theirs.is_some() {
            self.found.push((at.to_owned(), Difference::Links));
        }
        self.ours.insert(attr.ino, id);
        self.theirs.insert(id, attr.ino);
        false
    }

    fn dir(&mut self, attr: &Attr, host: &Path, at: &Path) -> Result<(), TreeError> {
        let mut on_host = host_names(host)?;
        for entry in path::list(self.fs, attr.ino).at(at)? {
            let below = at.join(host_path(&entry.name));
            let name = host_path(&entry.name).as_os_str();
            if let Ok(place) = on_host.binary_search_by(|held| held.as_os_str().cmp(name)) {
                let name = on_host.remove(place);
                let attr = self.fs.lookup(attr.ino, &entry.name).at(&below)?;
                self.inode(&attr, &host.join(name), &below)?;
            } else {
                self.found.push((below, Difference::Extra));
            }
        }
        for name in on_host {
            self.found.push((at.join(name), Difference::Missing));
        }
        Ok(())
    }

    fn file(&mut self, attr: &Attr, host: &Path, at: &Path, len: u64) -> Result<(), TreeError> {
        const STEP: usize = 128 << 10;
        if attr.size != len {
            self.found
                .push((at.to_owned(), Difference::Size(attr.size, len)));
            return Ok(());
        }
        let mut theirs = File::open(host).at(host)?;
        let (mut a, mut b) = (vec![0; STEP], vec![0; STEP]);
        let mut offset = 0;
        loop {
            let n = self.fs.read(attr.ino, offset, &mut a).at(at)?;
            let m = read_full(&mut theirs, &mut b).at(host)?;
            let differs = a[..n].iter().zip(&b[..m]).position(|(a, b)| a != b);
            if let Some(place) = differs.or_else(|| (n != m).then_some(n.min(m))) {
                self.found
                    .push((at.to_owned(), Difference::Content(offset + place as u64)));
                return Ok(());
            }
            if n == 0 {
                return Ok(());
            }
            offset += n as u64;
        }
    }
}

/// Reads until the buffer is full or the file ends.
fn read_full(from: &mut File, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match from.read(&mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
