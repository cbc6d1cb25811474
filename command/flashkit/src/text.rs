//! Figures as people read them.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use flashkit_experiments::report::grouped as count;
use flashkit_vfs::{Counters, Time};

/// Columns that line up: the first to the left, the others to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
    left: usize,
    ragged: bool,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|&h| h.to_owned()).collect()],
            left: 1,
            ragged: false,
        }
    }

    /// The first so many columns go to the left.
    pub fn left(mut self, columns: usize) -> Table {
        self.left = columns;
        self
    }

    /// The last column goes to the left.
    pub fn ragged(mut self) -> Table {
        self.ragged = true;
        self
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.into());
    }

    /// Adds a row.
    pub fn row_of(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Prints it, each line after `indent` blanks.
    pub fn print(&self, out: &mut dyn Write, indent: usize) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<String>, c: usize| row.get(c).map_or(0, |s| s.chars().count());
        let widths: Vec<usize> = (0..columns)
            .map(|c| self.rows.iter().map(|r| cell(r, c)).max().unwrap_or(0))
            .collect();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (c, text) in row.iter().enumerate() {
                let pad = " ".repeat(widths[c] - text.chars().count());
                if c > 0 {
                    line.push_str("  ");
                }
                if c < self.left || self.ragged && c + 1 == columns {
                    line.push_str(text);
                    line.push_str(&pad);
                } else {
                    line.push_str(&pad);
                    line.push_str(text);
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// Bytes in the largest unit that leaves at least one before the point.
pub fn bytes(n: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if n >= 1 << shift {
            let scaled = n as f64 / (1u64 << shift) as f64;
            return if n.trailing_zeros() >= shift {
                format!("{scaled:.0} {unit}")
            } else {
                format!("{scaled:.1} {unit}")
            };
        }
    }
    format!("{n} B")
}

/// Nanoseconds in a fitting unit.
pub fn duration(ns: u64) -> String {
    match ns {
        0 => "0 s".into(),
        1..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// `n thing` or `n things`.
pub fn plural(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// What something cost a chip, in one line.
pub fn cost(cost: Counters) -> String {
    let spare = match cost.spare_reads {
        0 => String::new(),
        n => format!(" (and {} of spare bytes)", count(n)),
    };
    let copies = match cost.page_copies {
        0 => String::new(),
        1 => ", 1 copy".to_owned(),
        n => format!(", {} copies", count(n)),
    };
    format!(
        "{}{spare}, {}{copies}, {}, {} of flash time",
        plural(cost.page_reads, "page read"),
        plural(cost.page_programs, "program"),
        plural(cost.block_erases, "erase"),
        duration(cost.time_ns)
    )
}

/// `2026-11-21 20:15:01`, in UTC.
pub fn date(time: Time) -> String {
    let days = time.secs.div_euclid(86_400);
    let second = time.secs.rem_euclid(86_400);
    // Days since 1 March of year 0 of the proleptic Gregorian calendar, in 400-year eras.
    let shifted = i128::from(days) + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!(
        "{:04}-{month:02}-{day:02} {:02}:{:02}:{:02}",
        era * 400 + year + carry,
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// A name from a file system or the host, on one line whatever bytes it has: nothing in it moves a
/// terminal's cursor or changes the order of what is shown. What is not shown as it is stands as
/// `\n`, `\x1b`, `\u{202e}` or, of bytes that are not UTF-8, `\xff`; a backslash is doubled.
pub fn name(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                c => push_shown(&mut out, c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// A path as a word of a shell.
pub fn shell(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(b) || *b >= 0x80;
    let shown = name(bytes);
    // With a backslash in it, something is not shown as it is.
    if shown.contains('\\') {
        let mut word = String::from("$'");
        for &byte in bytes {
            match byte {
                b'\'' | b'\\' => word.extend(['\\', byte.into()]),
                b' '..=b'~' => word.push(byte.into()),
                _ => word.push_str(&format!("\\x{byte:02x}")),
            }
        }
        return word + "'";
    }
    match bytes.iter().all(plain) && !bytes.is_empty() {
        true => shown,
        false => format!("'{}'", shown.replace('\'', r"'\''")),
    }
}

/// A path as part of a URI.
pub fn percent(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-~".contains(&b);
    let each = bytes.map(|&b| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    });
    each.collect()
}

/// [`name`] of a path of the host.
pub fn path(path: &Path) -> String {
    name(path.as_os_str().as_bytes())
}

/// A line that may have names in it. Those that [`name`] has made stay as they are.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    text.chars().for_each(|c| push_shown(&mut out, c));
    out
}

/// JSON that does the same to a terminal as [`name`], and says the same as before.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Line ends are between values: within strings they are escaped already.
        if c == '\n' || !is_unseen(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

fn push_shown(out: &mut String, c: char) {
    match c {
        c if !is_unseen(c) => out.push(c),
        '\t' | '\n' | '\r' => out.extend(c.escape_default()),
        '\0'..='\u{ff}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c => out.extend(c.escape_unicode()),
    }
}

/// Characters that do something to a terminal, or hide: controls of ASCII and Latin-1, line ends,
/// marks of direction, and those without a width.
fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(16_384), "16 KiB");
        assert_eq!(bytes(1_572_864), "1.5 MiB");
        assert_eq!(duration(77_800), "77.8 us");
        assert_eq!(duration(24_600_000_000), "24.60 s");
        assert_eq!(plural(1, "erase"), "1 erase");
    }

    #[test]
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(name("plain é 日本".as_bytes()), "plain é 日本");
        assert_eq!(name(b"a\nb\x1b[31m\x7f"), "a\\nb\\x1b[31m\\x7f");
        assert_eq!(
            name("\u{9b}2J\u{202e}gnp\u{2028}".as_bytes()),
            "\\x9b2J\\u{202e}gnp\\u{2028}"
        );
        assert_eq!(name(b"\\ \xff\xc3"), "\\\\ \\xff\\xc3");
        assert_eq!(line(&name(b"\\\x1b")), name(b"\\\x1b"));
        let held = serde_json::json!({"a": ["\u{9b}\u{202e}\u{e0001}\u{1b}\n"]});
        let told = json(&serde_json::to_string_pretty(&held).unwrap());
        assert!(told.is_ascii() && !told.contains('\x1b'));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&told).unwrap(),
            held
        );
    }

    #[test]
    fn dates() {
        let date = |secs| date(Time { secs, nanos: 0 });
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59:59");
        assert_eq!(date(-1), "1969-12-31 23:59:59");
        date(i64::MAX);
        date(i64::MIN);
    }

    #[test]
    fn tables_line_up() {
        let mut table = Table::new(&["name", "n"]);
        table.row(["a".into(), "1,000".into()]);
        table.row(["longer".into(), "7".into()]);
        let mut out = Vec::new();
        table.print(&mut out, 2).unwrap();
        assert_eq!(out, b"  name        n\n  a       1,000\n  longer      7\n");
    }
}
