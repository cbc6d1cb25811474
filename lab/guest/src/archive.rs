//! The initial RAM disk: a cpio archive in the `newc` format that Linux unpacks at boot.
//!
//! Each entry is a header of 13 numbers of eight hexadecimal digits, the name with a NUL, and the
//! data, name and data padded to four bytes. (Linux, `Documentation/driver-api/early-userspace`.)

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive being written.
pub struct Archive {
    out: BufWriter<File>,
    entries: u32,
    /// Directories that are there already.
    made: BTreeSet<String>,
}

impl Archive {
    pub fn create(path: &Path) -> io::Result<Archive> {
        Ok(Archive {
            out: BufWriter::new(File::create(path)?),
            entries: 0,
            made: BTreeSet::new(),
        })
    }

    /// Adds a file that anyone may execute, and the directories on the way. Names have no slash in
    /// front.
    pub fn file(&mut self, name: &str, data: &[u8]) -> io::Result<()> {
        let parents = name.match_indices('/').map(|(at, _)| &name[..at]);
        for parent in parents {
            if self.made.insert(parent.to_owned()) {
                self.entry(parent, DIRECTORY, &[])?;
            }
        }
        self.entry(name, PROGRAM, data)
    }

    /// Adds a file of the host.
    pub fn copy(&mut self, name: &str, from: &Path) -> io::Result<()> {
        self.file(name, &std::fs::read(from)?)
    }

    /// Writes the trailer.
    pub fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.out.flush()
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        let size = u32::try_from(data.len())
            .map_err(|_| io::Error::other("a file of 4 GiB or more does not fit"))?;
        self.entries += 1;
        let header = [
            self.entries, // inode
            mode,
            0, // owner
            0, // group
            1, // links
            0, // time
            size,
            0,
            0,
            0,
            0, // devices
            name.len() as u32 + 1,
            0, // checksum: none in this format
        ];
        write!(self.out, "070701")?;
        for number in header {
            write!(self.out, "{number:08X}")?;
        }
        write!(self.out, "{name}\0")?;
        self.pad(110 + name.len() + 1)?;
        self.out.write_all(data)?;
        self.pad(data.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        let missing = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_an_archive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("archive");
        let mut archive = Archive::create(&path).unwrap();
        archive.file("bin/a", b"hello").unwrap();
        archive.file("bin/b", b"").unwrap();
        archive.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        // Headers of 110 bytes; names and data up to multiples of four.
        let entry = |name: usize, data: usize| {
            (110 + name + 1_usize).next_multiple_of(4) + data.next_multiple_of(4)
        };
        assert_eq!(
            bytes.len(),
            entry(3, 0) + entry(5, 5) + entry(5, 0) + entry(10, 0)
        );
        assert!(bytes.starts_with(b"07070100000001000041ED"));
        let text = String::from_utf8_lossy(&bytes);
        assert_eq!(text.matches("bin\0").count(), 1, "a directory is made once");
        assert!(text.contains("bin/a\0hello\0\0\x00070701"));
        assert!(text.ends_with("TRAILER!!!\0\0\0\0"));
    }
}
