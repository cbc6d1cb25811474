//! Storing the planned files, and reading them back.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use anyhow::Context;
use flashkit_vfs::{Attr, Error, FileKind, FileSystem, Ino, path};

use super::plan::{Item, Kind};
use crate::progress::Progress;
use crate::text;

/// Bytes of one read or write, as the kernel would ask for.
const STEP: usize = 128 << 10;

/// Why an item could not be stored.
#[derive(Debug)]
pub enum Stop {
    /// The file system said no.
    Fs(Error),
    /// The host said no.
    Host(io::Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Fs(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Host(error)
    }
}

/// Where storing has come to.
pub struct Stored {
    /// Items that are stored and synced.
    pub items: usize,
    /// What stopped it before the last item, if the file system did.
    pub error: Option<Error>,
    /// Whether the time was up.
    pub late: bool,
}

/// Stores items one after another, each synced before the next, until the file system fails or
/// the time is up.
pub fn store(fs: &mut dyn FileSystem, items: &[Item], deadline: Instant) -> anyhow::Result<Stored> {
    let mut bar = Progress::new("storing", items.iter().map(|i| i.len).sum());
    let mut dirs = Dirs(HashMap::new());
    let mut buf = vec![0; STEP];
    let mut bytes = 0;
    for (number, item) in items.iter().enumerate() {
        if Instant::now() > deadline {
            return Ok(Stored {
                items: number,
                error: None,
                late: true,
            });
        }
        match store_one(fs, &mut dirs, items, item, &mut buf) {
            Ok(()) => {}
            Err(Stop::Fs(error)) => {
                return Ok(Stored {
                    items: number,
                    error: Some(error),
                    late: false,
                });
            }
            // Gone or changed since it was planned; the verification will say so.
            Err(Stop::Host(_)) if item.has_changed() => {}
            Err(Stop::Host(error)) => {
                return Err(error).with_context(|| text::path(&item.host));
            }
        }
        bytes += item.len;
        bar.at(bytes);
    }
    Ok(Stored {
        items: items.len(),
        error: None,
        late: false,
    })
}

/// Inode numbers of the directories so far, so that a path is not resolved for each file.
struct Dirs(HashMap<Vec<u8>, Ino>);

impl Dirs {
    fn ino(&mut self, fs: &mut dyn FileSystem, dir: &[u8]) -> Result<Ino, Error> {
        if let Some(ino) = self.0.get(dir) {
            return Ok(*ino);
        }
        let ino = path::resolve(fs, dir)?.ino;
        self.0.insert(dir.to_vec(), ino);
        Ok(ino)
    }
}

fn store_one(
    fs: &mut dyn FileSystem,
    dirs: &mut Dirs,
    items: &[Item],
    item: &Item,
    buf: &mut [u8],
) -> Result<(), Stop> {
    let (parent, name) = path::split(&item.path)?;
    let dir = dirs.ino(fs, parent)?;
    let ino = match item.kind {
        Kind::Dir => match fs.mkdir(dir, name, &item.new) {
            // From before the power cut.
            Err(Error::Exists) => fs.lookup(dir, name)?.ino,
            made => made?.ino,
        },
        Kind::Symlink => {
            let target = fs::read_link(&item.host)?;
            let target = target.as_os_str().as_bytes();
            match fs.symlink(dir, name, target, &item.new) {
                Err(Error::Exists) => {
                    fs.unlink(dir, name, item.new.now)?;
                    fs.symlink(dir, name, target, &item.new)?.ino
                }
                made => made?.ino,
            }
        }
        Kind::Link(first) => {
            let ino = path::resolve(fs, &items[first].path)?.ino;
            match fs.lookup(dir, name) {
                Ok(there) if there.ino == ino => {}
                Ok(_) => return Err(Stop::Fs(Error::Exists)),
                Err(Error::NotFound) => {
                    fs.link(ino, dir, name, item.new.now)?;
                }
                Err(error) => return Err(Stop::Fs(error)),
            }
            ino
        }
        Kind::File => {
            let mut from = File::open(&item.host)?;
            let ino = path::create_or_truncate(fs, dir, name, &item.new)?.ino;
            let mut offset = 0;
            loop {
                let read = fill(&mut from, buf)?;
                if read == 0 {
                    break ino;
                }
                fs.write(ino, offset, &buf[..read], item.new.now)?;
                offset += read as u64;
            }
        }
    };
    Ok(fs.fsync(ino)?)
}

/// Reads until the buffer is full or the file ends.
fn fill(from: &mut File, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match from.read(&mut buf[done..])? {
            0 => break,
            read => done += read,
        }
    }
    Ok(done)
}

/// What reading back has shown.
#[derive(Default)]
pub struct Verified {
    pub files: u64,
    pub bytes: u64,
    /// Originals that have changed on the host meanwhile.
    pub changed: u64,
    /// What is not as it was stored; one line each.
    pub wrong: Vec<String>,
}

/// Compares stored items with the host, byte for byte.
pub fn verify(fs: &mut dyn FileSystem, items: &[Item]) -> Verified {
    let mut bar = Progress::new("verifying", items.iter().map(|i| i.len).sum());
    let mut done = Verified::default();
    let mut buffers = (vec![0; STEP], vec![0; STEP]);
    for item in items {
        match verify_one(fs, items, item, &mut buffers) {
            Ok(None) => {
                done.files += u64::from(item.kind == Kind::File);
                done.bytes += item.len;
            }
            Ok(Some(_)) | Err(Stop::Host(_)) if item.has_changed() => done.changed += 1,
            Ok(Some(what)) => done
                .wrong
                .push(format!("{}: {what}", text::name(&item.path))),
            Err(Stop::Fs(what)) => done
                .wrong
                .push(format!("{}: {what}", text::name(&item.path))),
            Err(Stop::Host(what)) => done
                .wrong
                .push(format!("{}: {what}", text::path(&item.host))),
        }
        bar.at(done.bytes);
    }
    done
}

fn verify_one(
    fs: &mut dyn FileSystem,
    items: &[Item],
    item: &Item,
    buffers: &mut (Vec<u8>, Vec<u8>),
) -> Result<Option<&'static str>, Stop> {
    let attr = path::resolve(fs, &item.path)?;
    let kind = match item.kind {
        Kind::Link(first) => {
            let same = path::resolve(fs, &items[first].path)?.ino == attr.ino;
            return Ok((!same).then_some("not the same file as its other name"));
        }
        Kind::Dir => FileKind::Dir,
        Kind::File => FileKind::File,
        Kind::Symlink => FileKind::Symlink,
    };
    if attr.kind != kind {
        return Ok(Some("not of the same kind"));
    }
    if kind != FileKind::Symlink && attr.mode != item.new.mode {
        return Ok(Some("another mode"));
    }
    match item.kind {
        Kind::Dir | Kind::Link(_) => Ok(None),
        Kind::Symlink => {
            let target = fs::read_link(&item.host)?;
            let same = fs.readlink(attr.ino)? == target.as_os_str().as_bytes();
            Ok((!same).then_some("another target"))
        }
        Kind::File => {
            let same = attr.size == item.len && prefix_of(fs, &attr, item, buffers)?;
            Ok((!same).then_some("other contents"))
        }
    }
}

/// Whether all that a file holds is what its original begins with.
fn prefix_of(
    fs: &mut dyn FileSystem,
    attr: &Attr,
    item: &Item,
    (ours, theirs): &mut (Vec<u8>, Vec<u8>),
) -> Result<bool, Stop> {
    let mut from = File::open(&item.host)?;
    let mut offset = 0;
    while offset < attr.size {
        let read = fs.read(attr.ino, offset, ours)?;
        let there = fill(&mut from, theirs)?;
        if read == 0 || read > there || ours[..read] != theirs[..read] {
            return Ok(false);
        }
        offset += read as u64;
    }
    Ok(true)
}

/// What is left of the item that was being stored when the power went; `Err` is wrong.
pub fn in_flight(fs: &mut dyn FileSystem, item: &Item) -> Result<String, String> {
    let name = text::name(&item.path);
    let attr = match path::resolve(fs, &item.path) {
        Ok(attr) => attr,
        Err(Error::NotFound) => return Ok(format!("{name} is not there")),
        Err(error) => return Err(format!("{name}: {error}")),
    };
    let mut buffers = (vec![0; STEP], vec![0; STEP]);
    match prefix_of(fs, &attr, item, &mut buffers) {
        _ if item.kind != Kind::File => Ok(format!("{name} is there")),
        Ok(true) => {
            let (size, len) = (text::count(attr.size), text::count(item.len));
            Ok(format!("{name} has {size} of its {len} bytes"))
        }
        Ok(false) if item.has_changed() => Ok(format!("{name} has changed on the host")),
        Ok(false) => Err(format!("{name}: holds bytes that were never written")),
        Err(Stop::Fs(error)) => Err(format!("{name}: {error}")),
        Err(Stop::Host(error)) => Err(format!("{}: {error}", text::path(&item.host))),
    }
}
