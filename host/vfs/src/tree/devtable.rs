//! Device tables, in the format that image makers of several file systems take (`mkfs.jffs2 -D`,
//! `genext2fs -D`): a line for each name, with what it is and whose.
//!
//! ```text
//! # path       type mode uid gid major minor start inc count
//! /dev         d    755  0   0   -     -     -     -   -
//! /dev/console c    622  0   5   5     1     -     -   -
//! /dev/hda     b    640  0   6   3     1     1     1   15
//! /bin/su      f    4755 0   0   -     -     -     -   -
//! ```
//!
//! Directories are made where they are missing; files must be there. With a `count`, numbers from
//! `start` on are appended to the path, and `inc` is added to `minor` for each.

use std::path::Path;

use crate::path::{self, Last};
use crate::{Attr, Error, FileKind, FileSystem, NewInode, SetAttr, Time, device};

/// Most names that one line may make.
const COUNT_MAX: u32 = 1 << 16;

/// A line of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevEntry {
    line: usize,
    path: String,
    kind: FileKind,
    mode: u16,
    uid: u32,
    gid: u32,
    major: u32,
    minor: u32,
    start: u32,
    step: u32,
    /// 0: one, with no number appended.
    count: u32,
}

/// The first line that is none is the error, by its number and what is wrong with it.
fn parse_devtable(text: &str) -> Result<Vec<DevEntry>, String> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = parse_line(line).map_err(|why| format!("line {}: {why}", number + 1))?;
        let line = number + 1;
        entries.push(DevEntry { line, ..entry });
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Result<DevEntry, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [path, kind, mode, rest @ ..] = words.as_slice() else {
        return Err("path, type and mode are needed".into());
    };
    if !path.starts_with('/') {
        return Err(format!("`{path}` does not begin with a slash"));
    }
    let kind = match *kind {
        "d" => FileKind::Dir,
        "f" => FileKind::File,
        "c" => FileKind::Char,
        "b" => FileKind::Block,
        "p" => FileKind::Fifo,
        "s" => FileKind::Socket,
        other => return Err(format!("`{other}` is no type: d, f, c, b, p or s")),
    };
    let mode = u16::from_str_radix(mode, 8).ok().filter(|&m| m <= 0o7777);
    let mode = mode.ok_or_else(|| format!("`{}` is no mode", words[2]))?;
    if rest.len() > 7 {
        return Err("more than ten columns".into());
    }
    let mut numbers = [0; 7];
    for (number, word) in numbers.iter_mut().zip(rest) {
        if *word != "-" {
            *number = word.parse().map_err(|_| format!("`{word}` is no number"))?;
        }
    }
    let [uid, gid, major, minor, start, step, count] = numbers;
    if count > COUNT_MAX {
        return Err(format!("{count} names are more than {COUNT_MAX}"));
    }
    Ok(DevEntry {
        line: 0,
        path: path.trim_end_matches('/').to_owned(),
        kind,
        mode,
        uid,
        gid,
        major,
        minor,
        start,
        step,
        count,
    })
}

/// Makes what a table asks for. Nothing is synced.
///
/// # Errors
/// The line, and why: a file that is not there, a name of another kind, what the file system
/// refuses.
pub fn apply_devtable(
    fs: &mut dyn FileSystem,
    entries: &[DevEntry],
    now: Time,
) -> Result<(), String> {
    for entry in entries {
        for i in 0..entry.count.max(1) {
            let path = match entry.count {
                0 => entry.path.clone(),
                _ => format!("{}{}", entry.path, entry.start.saturating_add(i)),
            };
            let minor = entry.minor.saturating_add(entry.step.saturating_mul(i));
            apply(fs, entry, path.as_bytes(), minor, now)
                .map_err(|why| format!("line {}: {path}: {why}", entry.line))?;
        }
    }
    Ok(())
}

fn apply(
    fs: &mut dyn FileSystem,
    entry: &DevEntry,
    path: &[u8],
    minor: u32,
    now: Time,
) -> crate::Result<()> {
    let new = NewInode {
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        now,
    };
    let found = find_or_make(fs, entry, path, minor, &new)?;
    if found.kind != entry.kind {
        return Err(Error::Exists);
    }
    let set = SetAttr {
        mode: Some(entry.mode),
        uid: Some(entry.uid),
        gid: Some(entry.gid),
        now,
        ..SetAttr::default()
    };
    fs.setattr(found.ino, &set).map(drop)
}

/// What has the name. A symbolic link before the last name leads on, as in `/bin/su` with
/// `/bin -> usr/bin`.
fn find_or_make(
    fs: &mut dyn FileSystem,
    entry: &DevEntry,
    path: &[u8],
    minor: u32,
    new: &NewInode,
) -> crate::Result<Attr> {
    let last = match entry.kind {
        FileKind::Dir => Last::Follow,
        _ => Last::Keep,
    };
    let there = match path::follow(fs, path, last) {
        // Those above are made with it.
        Err(Error::NotFound) if entry.kind == FileKind::Dir => {
            return path::mkdir_p(fs, path, new);
        }
        there => there?,
    };
    match (there.attr, entry.kind) {
        (Some(attr), _) => Ok(attr),
        (None, FileKind::Dir) => path::mkdir_p(fs, &there.path, new),
        (None, FileKind::File) => Err(Error::NotFound),
        (None, kind) => {
            let (dir, name) = path::resolve_parent(fs, &there.path)?;
            let number = match kind.is_device() {
                true => device::pack(entry.major, minor),
                false => 0,
            };
            fs.mknod(dir, name, kind, number, new)
        }
    }
}

/// Reads a table from a file of the host.
///
/// # Errors
/// It cannot be read, or a line of it is none: which, and why.
pub fn read_devtable(file: &Path) -> Result<Vec<DevEntry>, String> {
    let named = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let bytes = std::fs::read(file).map_err(|error| named(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| named(&"no table: it is not text"))?;
    parse_devtable(&text).map_err(|why| named(&why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryFs;

    #[test]
    fn a_table_is_made() {
        let mut fs = MemoryFs::new();
        let root = fs.root();
        let new = NewInode {
            mode: 0o644,
            uid: 1000,
            ..NewInode::default()
        };
        fs.create(root, b"su", &new).unwrap();
        let table = "# comment\n\n/dev d 755 0 0 - - - - -\n/dev/console c 622 0 5 5 1 - - -\n\
                     /dev/hda b 640 0 6 3 1 1 2 3\n/su f 4755 0 0 - - - - -\n/run/f p 600 1 2\n\
                     /run d 700 7 8 - - - - -\n";
        // Parents come first.
        let entries = parse_devtable(table).unwrap();
        assert!(apply_devtable(&mut fs, &entries, Time::default()).is_err());
        let table = table.replace("/run/f p", "/dev/f p");
        let entries = parse_devtable(&table).unwrap();
        apply_devtable(&mut fs, &entries, Time::default()).unwrap();
        // Twice is as good as once.
        apply_devtable(&mut fs, &entries, Time::default()).unwrap();
        let mut at = |path: &str| path::resolve(&mut fs, path.as_bytes()).unwrap();
        let console = at("/dev/console");
        assert_eq!((console.kind, console.mode), (FileKind::Char, 0o622));
        assert_eq!(device::unpack(console.device), (5, 1));
        assert_eq!((at("/su").mode, at("/su").uid), (0o4755, 0));
        assert_eq!((at("/run").uid, at("/run").gid), (7, 8));
        assert_eq!(at("/dev/f").kind, FileKind::Fifo);
        for (i, minor) in [(1, 1), (2, 3), (3, 5)] {
            let disk = at(&format!("/dev/hda{i}"));
            assert_eq!(device::unpack(disk.device), (3, minor));
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        for (line, why) in [
            ("/a", "path, type and mode"),
            ("a d 755", "slash"),
            ("/a x 755", "no type"),
            ("/a d 799", "no mode"),
            ("/a d 77777", "no mode"),
            ("/a d 755 x", "no number"),
            ("/a d 755 0 0 0 0 0 0 99999999", "more than"),
            ("/a d 755 0 0 0 0 0 0 0 0", "ten columns"),
        ] {
            let said = parse_devtable(&format!("# fine\n{line}")).unwrap_err();
            assert!(said.starts_with("line 2: ") && said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_is_in_the_way_is_no_device() {
        let mut fs = MemoryFs::new();
        let root = fs.root();
        fs.create(root, b"a", &NewInode::default()).unwrap();
        let entries = parse_devtable("/a c 600 0 0 1 3").unwrap();
        assert!(apply_devtable(&mut fs, &entries, Time::default()).is_err());
        let entries = parse_devtable("/b f 600 0 0").unwrap();
        assert!(apply_devtable(&mut fs, &entries, Time::default()).is_err());
    }
}
