//! Scripts as text: operations on paths, one a line or separated by semicolons.
//!
//! ```text
//! create P             write P OFFSET LENGTH     truncate P SIZE      symlink P LENGTH
//! mkdir P              rmdir P                   rename P Q           link P Q
//! exchange P Q
//! unlink P             chmod P MODE              chown P UID GID      utimes P ATIME MTIME
//! open P               close                     fsync P              sync
//! read P               list P                    gc                   remount
//! mknod P NUMBER       punch P OFFSET LENGTH     setxattr P NAME LENGTH
//! rmxattr P NAME
//! scrub                weak-read N               fail-program N SEED  fail-erase N SEED
//! ```
//!
//! Paths start at the root, which is `/`; names have no spaces. `close` closes the oldest open
//! file. `mknod` makes a FIFO, a socket, or a character or block device of that number, as the
//! remainder of the number by four says. What is written, and every timestamp, follows from the
//! number of the operation. `fail-program N SEED` makes the N-th program from there on (0: the
//! next) fail, and its block with it; what is left of the page follows from the seed. `fail-erase`
//! does so with an erase. `weak-read N` makes the N-th read correct so many bits that the page's
//! block is due to be written anew.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use flashkit_vfs::FileKind;

use crate::seen::What;

/// Where a file of a script ends at most: more than any chip that is cut holds. After each cut it
/// is read whole, holes too.
const END_MAX: u64 = 16 << 20;

/// Bytes of a name, of the target of a symbolic link, of the value of an extended attribute.
const NAME_MAX: usize = 255;
const TARGET_MAX: u64 = 4095;
const VALUE_MAX: u64 = 64 << 10;

/// The operations of a script.
pub const OPERATIONS: &str = "\
create P, write P OFFSET LENGTH, truncate P SIZE, punch P OFFSET LENGTH, unlink P, mkdir P, rmdir P, \
rename P Q, exchange P Q, link P Q, symlink P LENGTH, mknod P NUMBER, chmod P MODE, chown P UID GID, \
utimes P ATIME MTIME, setxattr P NAME LENGTH, rmxattr P NAME, open P, close, read P, list P, fsync P, \
sync, gc, scrub, remount, weak-read N, fail-program N SEED, fail-erase N SEED";

/// Bytes of a file of this machine.
#[derive(Clone, PartialEq, Eq)]
pub struct Piece {
    /// All of the file.
    pub file: Arc<[u8]>,
    /// Which of its bytes.
    pub range: Range<usize>,
}

impl Piece {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.file[self.range.clone()]
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.range, self.file.len())
    }
}

/// One operation. What makes no sense where it comes is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates a file.
    Create(String),
    /// Writes so many bytes at an offset.
    Write(String, u64, usize),
    /// Writes bytes where they were in a file of this machine. No text of a script says which.
    Copy(String, Piece),
    /// Cuts or extends a file.
    Truncate(String, u64),
    /// Makes a hole of so many bytes at an offset.
    Punch(String, u64, u64),
    /// Removes a name of a file.
    Unlink(String),
    /// Renames, replacing what the second path names.
    Rename(String, String),
    /// Lets what two paths name change places.
    Exchange(String, String),
    /// Gives a file a second name.
    Link(String, String),
    /// Makes a directory.
    Mkdir(String),
    /// Removes an empty directory.
    Rmdir(String),
    /// Makes a symbolic link with a target of so many bytes.
    Symlink(String, usize),
    /// Makes a special file: what kind follows from the number.
    Mknod(String, u32),
    /// Changes permission bits.
    Chmod(String, u16),
    /// Changes owner and group.
    Chown(String, u32, u32),
    /// Sets the times of access and change, in seconds.
    Utimes(String, i64, i64),
    /// Gives an inode an extended attribute of so many bytes.
    SetXattr(String, String, usize),
    /// Takes an extended attribute away.
    RemoveXattr(String, String),
    /// Makes a file or a directory durable.
    Fsync(String),
    /// Opens a file.
    Open(String),
    /// Closes the oldest open file; writes to it first if it has no name any more.
    Close,
    /// Reads a file, or the target of a symbolic link.
    Read(String),
    /// Lists a directory.
    List(String),
    /// Makes everything durable.
    Sync,
    /// Cleans, as an application does in idle time.
    Gc,
    /// Reads everything in use and writes anew what rots.
    Scrub,
    /// Unmounts and mounts again.
    Remount,
    /// Makes a later read correct many bits.
    WeakRead(u64),
    /// Makes a later program fail.
    FailProgram(u64, u64),
    /// Makes a later erase fail.
    FailErase(u64, u64),
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create(p) => write!(f, "create {p}"),
            Op::Write(p, off, len) => write!(f, "write {p} {off} {len}"),
            Op::Copy(p, piece) => write!(f, "copy {p} {piece:?}"),
            Op::Truncate(p, size) => write!(f, "truncate {p} {size}"),
            Op::Punch(p, off, len) => write!(f, "punch {p} {off} {len}"),
            Op::Unlink(p) => write!(f, "unlink {p}"),
            Op::Rename(p, q) => write!(f, "rename {p} {q}"),
            Op::Exchange(p, q) => write!(f, "exchange {p} {q}"),
            Op::Link(p, q) => write!(f, "link {p} {q}"),
            Op::Mkdir(p) => write!(f, "mkdir {p}"),
            Op::Rmdir(p) => write!(f, "rmdir {p}"),
            Op::Symlink(p, len) => write!(f, "symlink {p} {len}"),
            Op::Mknod(p, number) => write!(f, "mknod {p} {number}"),
            Op::Chmod(p, mode) => write!(f, "chmod {p} {mode:o}"),
            Op::Chown(p, uid, gid) => write!(f, "chown {p} {uid} {gid}"),
            Op::Utimes(p, a, m) => write!(f, "utimes {p} {a} {m}"),
            Op::SetXattr(p, name, len) => write!(f, "setxattr {p} {name} {len}"),
            Op::RemoveXattr(p, name) => write!(f, "rmxattr {p} {name}"),
            Op::Fsync(p) => write!(f, "fsync {p}"),
            Op::Open(p) => write!(f, "open {p}"),
            Op::Close => f.write_str("close"),
            Op::Read(p) => write!(f, "read {p}"),
            Op::List(p) => write!(f, "list {p}"),
            Op::Sync => f.write_str("sync"),
            Op::Gc => f.write_str("gc"),
            Op::Scrub => f.write_str("scrub"),
            Op::Remount => f.write_str("remount"),
            Op::WeakRead(n) => write!(f, "weak-read {n}"),
            Op::FailProgram(n, seed) => write!(f, "fail-program {n} {seed}"),
            Op::FailErase(n, seed) => write!(f, "fail-erase {n} {seed}"),
        }
    }
}

/// The kind of special file that a number stands for, and the number of a device.
pub(crate) fn special(number: u32) -> What {
    match number % 4 {
        0 => (FileKind::Fifo, 0),
        1 => (FileKind::Socket, 0),
        2 => (FileKind::Char, number),
        _ => (FileKind::Block, number),
    }
}

/// The words of an operation.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl Words<'_> {
    fn word(&mut self, what: &str) -> Result<String, String> {
        let word = self.0.next().map(str::to_owned);
        word.ok_or(format!("{what} is missing"))
    }

    fn number<T: TryFrom<u64>>(&mut self) -> Result<T, String> {
        self.radix(10)
    }

    /// A path whose names a volume can hold.
    fn path(&mut self) -> Result<String, String> {
        let path = self.word("a path")?;
        let cannot_be = |name: &&str| name.len() > NAME_MAX || [".", ".."].contains(name);
        match path.split('/').find(cannot_be) {
            Some(name) => Err(format!(
                "no name, or one of more than {NAME_MAX} bytes: {name}"
            )),
            None => Ok(path),
        }
    }

    /// The name of an extended attribute.
    fn name(&mut self) -> Result<String, String> {
        let name = self.word("a name")?;
        match name.len() > NAME_MAX {
            true => Err(format!("a name of more than {NAME_MAX} bytes: {name}")),
            false => Ok(name),
        }
    }

    /// Bytes from the beginning of a file, or of another.
    fn size(&mut self) -> Result<u64, String> {
        self.below(END_MAX)
    }

    fn below(&mut self, most: u64) -> Result<u64, String> {
        match self.number()? {
            bytes if bytes <= most => Ok(bytes),
            bytes => Err(format!("more than {most} bytes: {bytes}")),
        }
    }

    /// Offset and length of a piece of a file.
    fn piece(&mut self) -> Result<(u64, u64), String> {
        let (offset, length) = (self.size()?, self.size()?);
        match offset + length {
            end if end <= END_MAX => Ok((offset, length)),
            end => Err(format!("more than {END_MAX} bytes of a file: {end}")),
        }
    }

    fn radix<T: TryFrom<u64>>(&mut self, radix: u32) -> Result<T, String> {
        let word = self.0.next().ok_or("a number is missing")?;
        u64::from_str_radix(word, radix)
            .ok()
            .and_then(|n| T::try_from(n).ok())
            .ok_or(format!("not a fitting number: {word}"))
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(text: &str) -> Result<Op, String> {
        let mut w = Words(text.split_whitespace());
        let op = match w.0.next().ok_or("an operation is missing")? {
            "create" => Op::Create(w.path()?),
            "write" => {
                let (path, (offset, length)) = (w.path()?, w.piece()?);
                Op::Write(path, offset, length as usize)
            }
            "truncate" => Op::Truncate(w.path()?, w.size()?),
            "punch" => {
                let (path, (offset, length)) = (w.path()?, w.piece()?);
                Op::Punch(path, offset, length)
            }
            "unlink" => Op::Unlink(w.path()?),
            "rename" => Op::Rename(w.path()?, w.path()?),
            "exchange" => Op::Exchange(w.path()?, w.path()?),
            "link" => Op::Link(w.path()?, w.path()?),
            "mkdir" => Op::Mkdir(w.path()?),
            "rmdir" => Op::Rmdir(w.path()?),
            "symlink" => Op::Symlink(w.path()?, w.below(TARGET_MAX)? as usize),
            "mknod" => Op::Mknod(w.path()?, w.number()?),
            "chmod" => Op::Chmod(w.path()?, w.radix(8)?),
            "chown" => Op::Chown(w.path()?, w.number()?, w.number()?),
            "utimes" => Op::Utimes(w.path()?, w.number()?, w.number()?),
            "setxattr" => Op::SetXattr(w.path()?, w.name()?, w.below(VALUE_MAX)? as usize),
            "rmxattr" => Op::RemoveXattr(w.path()?, w.name()?),
            "fsync" => Op::Fsync(w.path()?),
            "open" => Op::Open(w.path()?),
            "close" => Op::Close,
            "read" => Op::Read(w.path()?),
            "list" => Op::List(w.path()?),
            "sync" => Op::Sync,
            "gc" => Op::Gc,
            "scrub" => Op::Scrub,
            "remount" => Op::Remount,
            "weak-read" => Op::WeakRead(w.number()?),
            "fail-program" => Op::FailProgram(w.number()?, w.number()?),
            "fail-erase" => Op::FailErase(w.number()?, w.number()?),
            other => {
                return Err(format!(
                    "no such operation: {other}; there are {OPERATIONS}"
                ));
            }
        };
        match w.0.next() {
            None => Ok(op),
            Some(more) => Err(format!("too many words, from {more} on: {text}")),
        }
    }
}

/// Reads a script.
///
/// # Errors
/// Says what cannot be read.
pub fn parse(text: &str) -> Result<Vec<Op>, String> {
    let lines = text.split(['\n', ';']).map(str::trim);
    lines
        .filter(|line| !line.is_empty())
        .map(str::parse)
        .collect()
}

/// The text of a script, in one line.
pub fn text(ops: &[Op]) -> String {
    let ops: Vec<String> = ops.iter().map(Op::to_string).collect();
    ops.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let all = "create a; write d/a 100 5000; truncate a 7; punch a 5 9; unlink a; rename a d/b; exchange a d/b; link a b; \
                   mkdir d; rmdir d; symlink s 20; mknod n 7; chmod a 4755; chown a 1 2; utimes a 3 4; setxattr a user.x 9; rmxattr a user.x; fsync /; \
                   open a; close; read a; list d; sync; gc; scrub; remount; weak-read 5; fail-program 3 1; \
                   fail-erase 0 2";
        let ops = parse(all).unwrap();
        assert_eq!(ops.len(), 29);
        assert_eq!(text(&ops), all);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for bad in [
            "write a 1",
            "write a x 1",
            "frob a",
            "create",
            "sync now",
            "chmod a 9",
            "chmod a 7777777",
            "write a 0 99999999999",
            "write a 18446744073709551615 300",
            "write a 16777000 300",
            "truncate a 16777217",
            "punch a 0 16777217",
            "symlink a 4096",
            "setxattr a user.x 65537",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
