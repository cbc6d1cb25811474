//! What a mounted volume shows, compared with what it may show.

use std::collections::BTreeMap;
use std::rc::Rc;

use flashkit_sim::Rng;
use flashkit_vfs::check::{check, repair};
use flashkit_vfs::{Attr, Error, FileKind, FileSystem};

use super::Histories;
use super::bytes::{Attrs, SeenFile, State};
use super::model::{Entry, Id, Listed, Model, Names, ROOT};
use super::unread::Unread;
use crate::guard::Guard;

/// The chip of a history.
pub(super) type Medium = Guard<Unread>;
pub(super) use flashkit_vfs::any::AnyFs as Fs;

/// The value of an extended attribute: the number of the write, and so many bytes behind it.
pub(super) fn xattr_value(write: u64, len: usize) -> Vec<u8> {
    let mut value = format!("{write}:").into_bytes();
    value.resize(value.len() + len, b'x');
    value
}

fn xattr_of(value: &[u8]) -> (usize, u64) {
    let digits = value.iter().take_while(|b| b.is_ascii_digit()).count();
    let write = String::from_utf8_lossy(&value[..digits]).parse();
    let (len, write) = (value.len().saturating_sub(digits + 1), write.unwrap_or(0));
    if value == xattr_value(write, len) {
        (len, write)
    } else {
        (value.len(), 0)
    }
}

/// Attributes without times.
fn attrs_of(fs: &mut Fs<'_, '_>, attr: &Attr) -> Result<Attrs, Error> {
    let mut xattrs = BTreeMap::new();
    for name in fs.xattrs(attr.ino)? {
        let value = fs.xattr(attr.ino, &name)?;
        xattrs.insert(
            String::from_utf8_lossy(&name).into_owned(),
            xattr_of(&value),
        );
    }
    Ok(Attrs {
        mode: attr.mode,
        xattrs: Rc::new(xattrs),
        ..Attrs::of(0)
    })
}

/// Reads all of a file or a symbolic link.
pub(super) fn read(fs: &mut Fs<'_, '_>, attr: &Attr) -> Result<SeenFile, Error> {
    let bytes = if attr.kind == FileKind::Symlink {
        fs.readlink(attr.ino)?
    } else {
        let mut bytes = vec![0; attr.size as usize];
        let mut done = 0;
        while done < bytes.len() {
            let to = bytes.len().min(done + (1 << 16));
            let n = fs.read(attr.ino, done as u64, &mut bytes[done..to])?;
            if n != to - done {
                return Err(Error::Io(format!(
                    "a read of {} bytes gives {n}",
                    to - done
                )));
            }
            done = to;
        }
        bytes
    };
    let attrs = Attrs {
        mtime: attr.mtime.secs as u64,
        ctime: attr.ctime.secs as u64,
        ..attrs_of(fs, attr)?
    };
    Ok(SeenFile { bytes, attrs })
}

struct Look<'a, 'r, 'c> {
    fs: &'a mut Fs<'r, 'c>,
    model: &'a Model,
    done: &'a mut Histories,
    /// Of files that no change since the last look has touched one in so many is read.
    every: u64,
    salt: u64,
    dirs: BTreeMap<u64, (Listed, Attrs)>,
    files: BTreeMap<Id, (u64, Option<State>)>,
}

type Found = Vec<(Id, Names, u64, Attrs)>;

impl Look<'_, '_, '_> {
    fn list(&mut self, ino: u64, at: &str) -> Result<(), String> {
        let mut listed = Listed::new();
        let mut twice = None;
        let read = self.fs.readdir(ino, 0, &mut |e| {
            let name = String::from_utf8_lossy(&e.name).into_owned();
            if let Some(other) = listed.insert(name, (e.ino, e.kind == FileKind::Dir)) {
                twice = Some(other.0);
            }
            listed.len() < 10_000_000
        });
        read.map_err(|e| format!("listing fails with {e}: {at}/"))?;
        let attr = self.fs.getattr(ino).map_err(|e| format!("{e}: {at}/"))?;
        let attrs =
            attrs_of(self.fs, &attr).map_err(|e| format!("attributes fail with {e}: {at}/"))?;
        if twice.is_some() || attr.size != listed.len() as u64 {
            let (says, shows) = (attr.size, listed.len());
            return Err(format!(
                "directory says {says} names, shows {shows}, twice {twice:?}: {at}/"
            ));
        }
        self.done.names += listed.len() as u64;
        let below: Vec<_> = listed
            .iter()
            .filter(|e| e.1.1)
            .map(|(n, e)| (n.clone(), e.0))
            .collect();
        if self.dirs.insert(ino, (listed, attrs)).is_some() {
            return Err(format!("directory found twice: {at}/"));
        }
        for (name, ino) in below {
            self.list(ino, &format!("{at}/{name}"))?;
        }
        Ok(())
    }

    fn matches(
        &mut self,
        d: Id,
        ino: u64,
        at: &str,
        applied: bool,
        found: &mut Found,
    ) -> Result<(), String> {
        let model = self.model;
        let Some((listed, attrs)) = self.dirs.get(&ino).cloned() else {
            return Err(format!("not listed: {at}/"));
        };
        let may = &model.dir(d).attrs;
        if !may.contains(&attrs) {
            return Err(format!("directory has {attrs:?}, may have {may:?}: {at}/"));
        }
        let states = model
            .states(d, &listed, applied)
            .map_err(|e| format!("{at}/: {e}"))?;
        let (before, mut first) = (found.len(), None);
        for state in states {
            found.truncate(before);
            let names = model.names_at(d, state);
            match self.match_names(&names, ino, &listed, at, applied, found) {
                Ok(()) => {
                    found.push((d, names, ino, attrs));
                    return Ok(());
                }
                Err(e) => first = first.or(Some(e)),
            }
        }
        Err(first.unwrap_or_default())
    }

    fn match_names(
        &mut self,
        names: &Names,
        dir: u64,
        listed: &Listed,
        at: &str,
        applied: bool,
        found: &mut Found,
    ) -> Result<(), String> {
        for (name, entry) in names {
            let path = format!("{at}/{name}");
            let ino = listed.get(name).map_or(0, |seen| seen.0);
            match *entry {
                Entry::Dir(child) => self.matches(child, ino, &path, applied, found)?,
                Entry::File(f) => {
                    let file = self.match_file(f, dir, name, ino);
                    file.map_err(|e| format!("{path} (file {ino}): {e}"))?;
                }
            }
        }
        Ok(())
    }

    fn match_file(&mut self, f: Id, dir: u64, name: &str, ino: u64) -> Result<(), String> {
        if self.files.get(&f).is_some_and(|found| found.0 == ino) {
            return Ok(());
        }
        let file = self.model.file(f);
        let sampled = Rng::keyed(self.salt, f.into()).one_in(self.every);
        if file.is_durable() && !file.fresh && file.ino.is_some() && !sampled {
            self.files.insert(f, (ino, None));
            return Ok(());
        }
        let looked_up = self.fs.lookup(dir, name.as_bytes());
        let attr = looked_up.map_err(|e| format!("lookup of a listed name fails with {e}"))?;
        if attr.ino != ino || (attr.kind == FileKind::Symlink) != file.symlink {
            return Err(format!("lookup shows {attr:?}"));
        }
        let seen = read(self.fs, &attr).map_err(|e| format!("reading fails with {e}"))?;
        self.done.files += 1;
        self.done.bytes += seen.bytes.len() as u64;
        let state = file.find(&seen, 0, self.model.page)?;
        self.files.insert(f, (ino, Some(state)));
        Ok(())
    }
}

/// Whether the power is off.
pub(super) fn is_off(fs: &mut Fs<'_, '_>) -> bool {
    fs.volume().nand().get::<Medium>().inner().chip().is_off()
}

/// The check of all structures.
pub(super) fn check_all(fs: &mut Fs<'_, '_>) -> Result<(), String> {
    let findings = check(fs.volume())?.findings;
    match findings.first() {
        Some(first) => Err(format!(
            "check: {} ({} findings, {:?})",
            first.what,
            findings.len(),
            findings.iter().take(4).collect::<Vec<_>>()
        )),
        None => Ok(()),
    }
}

/// Whether a finding of a check says that something in use counts as free, and is erased some time.
fn is_loss(what: &str) -> bool {
    let words = what.split(' ').filter_map(|word| word.parse::<u64>().ok());
    let numbers: Vec<u64> = words.collect();
    match numbers[..] {
        [_, used, counted] => what.starts_with("block") && used > counted,
        [_, used] => what.starts_with("block") && used > 0,
        _ => what.contains("in use twice"),
    }
}

/// The check after a session in which a page could not be read for a while. A call that has failed
/// may have left what a repair puts right, and nothing else. Returns whether all is sound now.
///
/// # Errors
/// Says what else is wrong.
pub(super) fn check_shaken(fs: &mut Fs<'_, '_>, only_reads: bool) -> Result<bool, String> {
    let findings = check(fs.volume())?.findings;
    if let Some(loss) = findings.iter().find(|found| is_loss(&found.what)) {
        return Err(format!(
            "check after a page could not be read: {}",
            loss.what
        ));
    }
    if only_reads || fs.volume().is_worn() {
        return Ok(findings.is_empty());
    }
    if !findings.is_empty() {
        repair(fs.volume())?;
        check_all(fs)?;
    }
    Ok(true)
}

/// Compares the whole tree with the model, which takes it over as it was found. Files that have
/// changed since the last look are read, whether that is durable or not, and one
/// in `every` of the others.
///
/// # Errors
/// Says what should not be.
pub(super) fn look(
    fs: &mut Fs<'_, '_>,
    model: &mut Model,
    done: &mut Histories,
    every: u64,
    salt: u64,
) -> Result<(), String> {
    let root = fs.root();
    let mut look = Look {
        fs,
        model,
        done,
        every,
        salt,
        dirs: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    look.list(root, "")?;
    let (mut found, mut first) = (Found::new(), None);
    for applied in [false, true] {
        found.clear();
        look.files.clear();
        match look.matches(ROOT, root, "", applied, &mut found) {
            Ok(()) => {
                let files = std::mem::take(&mut look.files);
                model.adopt(found, &files);
                return Ok(());
            }
            Err(e) => first = first.or(Some(e)),
        }
        if !look.model.is_at_work() {
            break;
        }
    }
    Err(first.unwrap_or_default())
}
