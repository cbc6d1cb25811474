//! The trace format: one operation a line.
//!
//! ```text
//! C path size        create or truncate, write size bytes, close
//! W path size        truncate an existing file and rewrite it with size bytes
//! A path size        append size bytes
//! F path size        as C, but it is no error when space ends before
//! U path off size    overwrite; the file stays open between such lines
//! R path off size    read
//! D path             unlink
//! K path             mkdir
//! Z path             rmdir
//! N old new          rename
//! S path             fsync
//! T path size        truncate
//! I ms               idle, in flash time
//! M name             sync, then end a phase
//! P name             end a phase, without a sync
//! ```
//!
//! Words are separated by blanks; a word that begins with `#` starts a comment. Paths are relative
//! to the root (a leading slash is accepted) and have no blanks and no `..`. Numbers are decimal.
//! A trace may be compressed with gzip; that is found out from its first bytes. Operations are kept
//! in RAM; a trace whose operations take more than [`KEPT_MAX`] bytes is refused.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

/// One operation. Paths are relative to the root, without empty names and `.`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the format above")]
pub enum Op {
    /// Create or truncate, write, close.
    Create { path: String, size: u64 },
    /// Truncate an existing file and write it anew.
    Rewrite { path: String, size: u64 },
    /// Create or truncate, write until so much is written or no space is left, close.
    Fill { path: String, size: u64 },
    /// Append.
    Append { path: String, size: u64 },
    /// Overwrite; the file stays open for further updates.
    Update {
        path: String,
        offset: u64,
        size: u64,
    },
    /// Read.
    Read {
        path: String,
        offset: u64,
        size: u64,
    },
    /// Remove a file.
    Unlink { path: String },
    /// Create a directory.
    Mkdir { path: String },
    /// Remove an empty directory.
    Rmdir { path: String },
    /// Rename, replacing what has the new name.
    Rename { from: String, to: String },
    /// Make a file or directory durable.
    Fsync { path: String },
    /// Set the size.
    Truncate { path: String, size: u64 },
    /// Let flash time pass.
    Idle { ms: u64 },
    /// Make everything durable, then end a phase.
    Phase { name: String },
    /// End a phase without that: what follows begins at once.
    Mark { name: String },
}

impl Op {
    /// Bytes that the operation writes or asks to read.
    pub fn bytes(&self) -> u64 {
        match self {
            Op::Create { size, .. }
            | Op::Fill { size, .. }
            | Op::Rewrite { size, .. }
            | Op::Append { size, .. }
            | Op::Update { size, .. }
            | Op::Read { size, .. } => *size,
            _ => 0,
        }
    }

    /// Where a file must end, or a read, for the operation to be done.
    fn end(&self) -> u64 {
        match self {
            Op::Update { offset, size, .. } | Op::Read { offset, size, .. } => {
                offset.saturating_add(*size)
            }
            Op::Truncate { size, .. } => *size,
            // It is done when space ends, whatever its size.
            Op::Fill { .. } => 0,
            _ => self.bytes(),
        }
    }

    /// Bytes that its paths take on the heap, each with what an allocation costs.
    fn text_len(&self) -> usize {
        const ALLOCATION: usize = 16;
        match self {
            Op::Create { path, .. }
            | Op::Rewrite { path, .. }
            | Op::Fill { path, .. }
            | Op::Append { path, .. }
            | Op::Update { path, .. }
            | Op::Read { path, .. }
            | Op::Unlink { path }
            | Op::Mkdir { path }
            | Op::Rmdir { path }
            | Op::Fsync { path }
            | Op::Truncate { path, .. }
            | Op::Phase { name: path }
            | Op::Mark { name: path } => path.capacity() + ALLOCATION,
            Op::Rename { from, to } => from.capacity() + to.capacity() + 2 * ALLOCATION,
            Op::Idle { .. } => 0,
        }
    }
}

/// A path as a word of a line: one that begins like a comment gets a slash.
struct Word<'a>(&'a str);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.0.starts_with('#') { "/" } else { "" };
        write!(f, "{slash}{}", self.0)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Create { path, size } => write!(f, "C {} {size}", Word(path)),
            Op::Rewrite { path, size } => write!(f, "W {} {size}", Word(path)),
            Op::Fill { path, size } => write!(f, "F {} {size}", Word(path)),
            Op::Append { path, size } => write!(f, "A {} {size}", Word(path)),
            Op::Update { path, offset, size } => write!(f, "U {} {offset} {size}", Word(path)),
            Op::Read { path, offset, size } => write!(f, "R {} {offset} {size}", Word(path)),
            Op::Unlink { path } => write!(f, "D {}", Word(path)),
            Op::Mkdir { path } => write!(f, "K {}", Word(path)),
            Op::Rmdir { path } => write!(f, "Z {}", Word(path)),
            Op::Rename { from, to } => write!(f, "N {} {}", Word(from), Word(to)),
            Op::Fsync { path } => write!(f, "S {}", Word(path)),
            Op::Truncate { path, size } => write!(f, "T {} {size}", Word(path)),
            Op::Idle { ms } => write!(f, "I {ms}"),
            Op::Phase { name } => write!(f, "M {name}"),
            Op::Mark { name } => write!(f, "P {name}"),
        }
    }
}

/// An operation and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number in the trace, or of the generated operation; the first is 1.
    pub number: u64,
    /// What to do.
    pub op: Op,
}

/// Numbers generated operations, to make lines of them.
pub fn number(ops: impl IntoIterator<Item = Op>) -> impl Iterator<Item = Line> {
    (1..).zip(ops).map(|(number, op)| Line { number, op })
}

/// Why a trace could not be read.
#[derive(Debug)]
pub enum TraceError {
    /// The file could not be read.
    Io(io::Error),
    /// A line is not of the format.
    Syntax {
        /// Number of the line; the first is 1.
        line: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceError::Io(error) => write!(f, "{error}"),
            TraceError::Syntax { line, what } => write!(f, "line {line}: {what}"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        TraceError::Io(error)
    }
}

/// Most bytes that the operations of a trace may take in RAM, paths included: 5.5 million of
/// them with paths of one letter.
pub const KEPT_MAX: usize = 384 << 20;

/// Milliseconds that all `I` lines of a trace that is read may have together: 146 years. A chip's
/// clock of 64 bits holds four times as many.
pub const IDLE_MAX: u64 = u64::MAX / 4_000_000;

/// Where a file ends at most in a trace that is read: 64 GiB, more than any chip here holds. To
/// read a hole back takes time, too.
pub const END_MAX: u64 = 64 << 30;

/// Reads a trace file.
///
/// # Errors
/// The first line that is wrong or one too many ([`KEPT_MAX`], [`IDLE_MAX`], [`END_MAX`]), or the
/// host's error.
pub fn read(path: &Path) -> Result<Vec<Line>, TraceError> {
    parse(BufReader::new(File::open(path)?))
}

/// Reads a trace from anything that can be read, compressed or not.
pub fn parse(mut from: impl BufRead) -> Result<Vec<Line>, TraceError> {
    // No line of a trace begins so: it is the beginning of a gzip member.
    if from.fill_buf()?.first() == Some(&0x1f) {
        keep(
            Lines::new(BufReader::new(MultiGzDecoder::new(from))),
            KEPT_MAX,
        )
    } else {
        keep(Lines::new(from), KEPT_MAX)
    }
}

/// Collects lines while they take no more than so many bytes of RAM: a compressed file of some
/// kilobytes may stand for any number of them.
fn keep(lines: Lines<impl BufRead>, most: usize) -> Result<Vec<Line>, TraceError> {
    let (mut kept, mut bytes, mut idle) = (Vec::new(), 0, 0_u64);
    for line in lines {
        let line = line?;
        let wrong = |what| {
            Err(TraceError::Syntax {
                line: line.number,
                what,
            })
        };
        if let Op::Idle { ms } = line.op {
            idle = idle.saturating_add(ms);
            if idle > IDLE_MAX {
                return wrong(format!("I: more than {IDLE_MAX} ms up to here"));
            }
        }
        if line.op.end() > END_MAX {
            return wrong(format!("{}: the file would end beyond 64 GiB", line.op));
        }
        bytes += size_of::<Line>() + line.op.text_len();
        if bytes > most {
            let what = format!(
                "the operations up to here take more than {} MiB of memory: cut the trace in parts",
                most >> 20
            );
            return wrong(what);
        }
        kept.push(line);
    }
    Ok(kept)
}

/// The lines of an uncompressed trace, parsed one at a time.
pub struct Lines<R> {
    from: R,
    number: u64,
    text: Vec<u8>,
}

/// Longest line; what is longer is no trace.
const LINE_MAX: u64 = 64 << 10;

impl<R: BufRead> Lines<R> {
    /// Starts at the first line.
    pub fn new(from: R) -> Lines<R> {
        Lines {
            from,
            number: 0,
            text: Vec::new(),
        }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Result<Line, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.text.clear();
            match self
                .from
                .by_ref()
                .take(LINE_MAX)
                .read_until(b'\n', &mut self.text)
            {
                Ok(0) => return None,
                Ok(_) => self.number += 1,
                // Its recorder was killed: what a compressed trace has is there up to its last
                // flush, which was between two lines.
                Err(error) if is_cut(&error) && self.text.is_empty() => return None,
                Err(error) => return Some(Err(error.into())),
            }
            let line = self.number;
            let parsed = if self.text.len() as u64 == LINE_MAX {
                Err("the line is too long".to_owned())
            } else {
                std::str::from_utf8(&self.text)
                    .map_err(|_| "not UTF-8".to_owned())
                    .and_then(parse_line)
            };
            match parsed {
                Ok(None) => {}
                Ok(Some(op)) => return Some(Ok(Line { number: line, op })),
                Err(what) => return Some(Err(TraceError::Syntax { line, what })),
            }
        }
    }
}

fn is_cut(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
}

/// Parses one line; `None` when it is empty or a comment.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_line(text: &str) -> Result<Option<Op>, String> {
    let mut words = text
        .split_ascii_whitespace()
        .take_while(|word| !word.starts_with('#'));
    let Some(kind) = words.next() else {
        return Ok(None);
    };
    let mut words = Words { kind, words };
    let op = match kind {
        "C" => Op::Create {
            path: words.path("path")?,
            size: words.num("size")?,
        },
        "W" => Op::Rewrite {
            path: words.path("path")?,
            size: words.num("size")?,
        },
        "F" => Op::Fill {
            path: words.path("path")?,
            size: words.num("size")?,
        },
        "A" => Op::Append {
            path: words.path("path")?,
            size: words.num("size")?,
        },
        "U" => {
            let (path, offset, size) = words.piece()?;
            Op::Update { path, offset, size }
        }
        "R" => {
            let (path, offset, size) = words.piece()?;
            Op::Read { path, offset, size }
        }
        "D" => Op::Unlink {
            path: words.path("path")?,
        },
        "K" => Op::Mkdir {
            path: words.path("path")?,
        },
        "Z" => Op::Rmdir {
            path: words.path("path")?,
        },
        "N" => Op::Rename {
            from: words.path("old path")?,
            to: words.path("new path")?,
        },
        "S" => Op::Fsync {
            path: words.path("path")?,
        },
        "T" => Op::Truncate {
            path: words.path("path")?,
            size: words.num("size")?,
        },
        "I" => Op::Idle {
            ms: words.num("milliseconds")?,
        },
        "M" => Op::Phase {
            name: words.next("name")?.to_owned(),
        },
        "P" => Op::Mark {
            name: words.next("name")?.to_owned(),
        },
        _ => return Err(format!("unknown operation `{kind}`")),
    };
    match words.words.next() {
        None => Ok(Some(op)),
        Some(word) => Err(format!("{kind}: `{word}` is one word too many")),
    }
}

/// The words after the operation.
struct Words<'a, I> {
    kind: &'a str,
    words: I,
}

impl<'a, I: Iterator<Item = &'a str>> Words<'a, I> {
    fn next(&mut self, what: &str) -> Result<&'a str, String> {
        self.words
            .next()
            .ok_or_else(|| format!("{}: {what} is missing", self.kind))
    }

    fn num(&mut self, what: &str) -> Result<u64, String> {
        let word = self.next(what)?;
        let number = word.parse().ok().filter(|n| *n <= i64::MAX as u64);
        number.ok_or_else(|| format!("{}: {what} `{word}` is not a number in range", self.kind))
    }

    fn path(&mut self, what: &str) -> Result<String, String> {
        let word = self.next(what)?;
        normal_path(word).map_err(|why| format!("{}: {what} `{word}` {why}", self.kind))
    }

    /// A path, and an offset and a size within what a file can be.
    fn piece(&mut self) -> Result<(String, u64, u64), String> {
        let (path, offset) = (self.path("path")?, self.num("offset")?);
        let size = self.num("size")?;
        match offset.checked_add(size) {
            Some(end) if end <= i64::MAX as u64 => Ok((path, offset, size)),
            _ => Err(format!(
                "{}: offset and size are beyond any file",
                self.kind
            )),
        }
    }
}

/// A path without leading slash, empty names and `.`.
fn normal_path(word: &str) -> Result<String, &'static str> {
    let mut path = String::with_capacity(word.len());
    for name in word
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".")
    {
        if name == ".." {
            // Also keeps a replay within its directory.
            return Err("contains `..`");
        }
        if name.contains('\0') {
            return Err("contains a zero byte");
        }
        if !path.is_empty() {
            path.push('/');
        }
        path.push_str(name);
    }
    if path.is_empty() {
        Err("names no file")
    } else {
        Ok(path)
    }
}

/// Writes operations as a trace.
///
/// # Errors
/// Those of `to`, and [`io::ErrorKind::InvalidInput`] for a path or name that the format cannot
/// hold.
pub fn write<'a>(ops: impl IntoIterator<Item = &'a Op>, to: &mut dyn Write) -> io::Result<()> {
    for op in ops {
        let text = op.to_string();
        if parse_line(&text).ok().flatten().as_ref() != Some(op) {
            let what = format!("not writable as a trace: {text}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        writeln!(to, "{text}")?;
    }
    Ok(())
}

/// Writes a trace file, compressed when its name ends in `.gz`.
pub fn save<'a>(ops: impl IntoIterator<Item = &'a Op>, path: &Path) -> io::Result<()> {
    let file = io::BufWriter::new(File::create(path)?);
    if path.extension().is_some_and(|end| end == "gz") {
        let mut to = GzEncoder::new(file, Compression::best());
        write(ops, &mut to)?;
        to.finish()?.flush()
    } else {
        let mut to = file;
        write(ops, &mut to)?;
        to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "C a 10\nF a 15\nW a 20\nA a 5\nU a 3 4\nR a 0 9\nD a\nK d\nZ d\nN d/x e\nS a\n\
                       T a 7\nI 100\nM end\n";

    #[test]
    fn every_operation_reads_back_as_written() {
        let lines = parse(ALL.as_bytes()).unwrap();
        assert_eq!(lines.len(), 14);
        assert_eq!(
            lines[9].op,
            Op::Rename {
                from: "d/x".into(),
                to: "e".into()
            }
        );
        let mut text = Vec::new();
        write(lines.iter().map(|line| &line.op), &mut text).unwrap();
        assert_eq!(text, ALL.as_bytes());
    }

    #[test]
    fn a_path_that_begins_like_a_comment_reads_back() {
        let ops: Vec<Op> = ["D /#a", "N ./#a /#b"]
            .map(|line| parse_line(line).unwrap().unwrap())
            .to_vec();
        let mut text = Vec::new();
        write(&ops, &mut text).unwrap();
        assert_eq!(text, b"D /#a\nN /#a /#b\n");
        let again = parse(&text[..]).unwrap();
        assert!(again.iter().map(|line| &line.op).eq(&ops));
    }

    #[test]
    fn comments_blanks_and_slashes_are_tidied() {
        let text = "# head\n\n  C\t/a//./b#1   8  # tail\r\nD x";
        let lines = parse(text.as_bytes()).unwrap();
        let expected = [
            Line {
                number: 3,
                op: Op::Create {
                    path: "a/b#1".into(),
                    size: 8,
                },
            },
            Line {
                number: 4,
                op: Op::Unlink { path: "x".into() },
            },
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = |text: &[u8]| parse(text).unwrap_err().to_string();
        assert_eq!(error(b"C a 1\n\nQ x"), "line 3: unknown operation `Q`");
        assert_eq!(error(b"C a"), "line 1: C: size is missing");
        assert_eq!(error(b"D"), "line 1: D: path is missing");
        assert_eq!(
            error(b"C a -1"),
            "line 1: C: size `-1` is not a number in range"
        );
        let huge = "line 1: I: milliseconds `9223372036854775808` is not a number in range";
        assert_eq!(error(b"I 9223372036854775808"), huge);
        assert_eq!(error(b"D a b"), "line 1: D: `b` is one word too many");
        assert_eq!(error(b"D a/../b"), "line 1: D: path `a/../b` contains `..`");
        assert_eq!(error(b"K /"), "line 1: K: path `/` names no file");
        let end = "line 1: U: offset and size are beyond any file";
        assert_eq!(error(b"U a 9223372036854775807 1"), end);
        assert_eq!(error(b"M \xff"), "line 1: not UTF-8");
        assert_eq!(error(&[b'x'; 70_000]), "line 1: the line is too long");
    }

    #[test]
    fn pauses_and_sizes_have_a_bound() {
        let read = |text: &str| parse(text.as_bytes()).map_err(|e| e.to_string());
        let half = IDLE_MAX / 2;
        assert!(read(&format!("I {IDLE_MAX}")).is_ok());
        assert!(read(&format!("I {half}\nI {half}")).is_ok());
        let late = "line 3: I: more than 4611686018427 ms up to here";
        assert_eq!(read(&format!("I {half}\nI {half}\nI 2")), Err(late.into()));
        assert!(read(&format!("I {}", i64::MAX)).is_err());
        assert!(read(&format!("F a {}", i64::MAX)).is_ok());
        for op in ["C a", "W a", "A a", "U a 1", "R a 1", "T a"] {
            assert!(read(&format!("{op} {}", END_MAX - 1)).is_ok(), "{op}");
            let text = format!("{op} {}", END_MAX + 1);
            let why = format!("line 1: {text}: the file would end beyond 64 GiB");
            assert_eq!(read(&text), Err(why));
        }
    }

    #[test]
    fn operations_are_kept_up_to_a_bound() {
        // What docs/traces.md says: 72 bytes an operation, and its path.
        let one = parse_line("C a 1").unwrap().unwrap();
        assert_eq!(size_of::<Line>() + one.text_len(), 72 + 1);
        let text = "N aaaaaaaa b\n".repeat(1_000);
        let kept = |most| keep(Lines::new(text.as_bytes()), most);
        let each = size_of::<Line>() + 9 + 2 * 16;
        assert_eq!(kept(1_000 * each).unwrap().len(), 1_000);
        let error = kept(10 * each).unwrap_err().to_string();
        assert!(error.starts_with("line 11: the operations up to here take more than "));
    }

    #[test]
    fn what_the_format_cannot_hold_is_not_written() {
        for path in ["a b", "", "a/../b", "/a"] {
            let op = Op::Unlink { path: path.into() };
            assert!(write([&op], &mut Vec::new()).is_err(), "{path}");
        }
    }

    #[test]
    fn compression_is_transparent() {
        let dir = tempfile::tempdir().unwrap();
        let lines = parse(ALL.as_bytes()).unwrap();
        for name in ["t.trace", "t.trace.gz"] {
            let path = dir.path().join(name);
            save(lines.iter().map(|line| &line.op), &path).unwrap();
            assert_eq!(read(&path).unwrap(), lines);
        }
        assert_eq!(
            std::fs::read(dir.path().join("t.trace.gz")).unwrap()[..2],
            [0x1f, 0x8b]
        );
    }
}
