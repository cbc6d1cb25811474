//! The NBD server, given what a client may send: options, commands, and a stream that is damaged.
//!
//! The whole stream is there from the start. What the server answers is read beside it, by the
//! protocol's own rules: each option and each command has the answer that is due to it, what is
//! read from the disk was written there before, and the session ends where the stream does.

mod client;
mod judge;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};

use flashkit_block::BlockDevice;
use flashkit_disk::{Sectors, Translation};
use flashkit_nbd::{Export, Host, Shared, serve};

use crate::input::Input;

/// Bits of an input's flags.
const READ_ONLY: u8 = 1;
/// The disk fails now and then.
const BREAKS: u8 = 2;
/// The stream gives and takes little at a time, and times out in between.
const SLOW: u8 = 4;
const LARGE_SECTORS: u8 = 8;
/// The bytes behind the head are the stream itself.
const RAW: u8 = 16;

/// What a server with a disk is expected to do.
struct Terms {
    size: u64,
    read_only: bool,
    /// One in so many operations of the disk fails, counted from the first; 0: none.
    breaks: u32,
}

/// Runs an input: the image is the number of sectors, edits are options and damage to the stream,
/// steps are commands.
///
/// # Panics
/// That is a finding.
pub fn run(bytes: &[u8]) {
    let Some(input) = Input::parse(bytes) else {
        return;
    };
    let sector = if input.flags & LARGE_SECTORS == 0 {
        512
    } else {
        4096
    };
    let sectors = u32::from(input.image % 48) + 1;
    let terms = Terms {
        size: u64::from(sector) * u64::from(sectors),
        read_only: input.flags & READ_ONLY != 0,
        breaks: if input.flags & BREAKS == 0 { 0 } else { 5 },
    };
    let sent = if input.flags & RAW == 0 {
        client::stream(&input, terms.size)
    } else {
        bytes[crate::input::HEAD..].to_vec()
    };
    let most = if input.flags & SLOW == 0 {
        usize::MAX
    } else {
        7
    };
    let wire = Wire {
        left: Cell::new(&sent),
        replied: RefCell::default(),
        most,
        turn: Cell::new(0),
    };
    let disk = InRam {
        sector,
        bytes: vec![0; terms.size as usize],
        breaks: terms.breaks,
        done: 0,
    };
    let shared = Shared::new(Box::new(Sectors::new(disk)));
    let export = Export {
        read_only: terms.read_only,
        ..Export::default()
    };
    let mut quiet = Quiet::default();
    let ended = serve(&wire, &shared, export, &mut quiet);
    judge::check(&sent, &wire.replied.borrow(), &terms, &ended, quiet.reports);
}

/// What a client has sent, and what it has been answered.
struct Wire<'s> {
    left: Cell<&'s [u8]>,
    replied: RefCell<Vec<u8>>,
    /// Bytes that pass at once.
    most: usize,
    turn: Cell<u32>,
}

impl Wire<'_> {
    /// Whether this call times out: no two in a row.
    fn times_out(&self) -> bool {
        self.turn.set(self.turn.get().wrapping_add(1));
        self.most < usize::MAX && self.turn.get().is_multiple_of(3)
    }
}

impl Read for &Wire<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.times_out() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let left = self.left.get();
        let n = left.len().min(buf.len()).min(self.most);
        buf[..n].copy_from_slice(&left[..n]);
        self.left.set(&left[n..]);
        Ok(n)
    }
}

impl Write for &Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.times_out() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let n = bytes.len().min(self.most);
        self.replied.borrow_mut().extend_from_slice(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct Quiet {
    reports: u32,
}

impl Host for Quiet {
    fn waiting(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn report(&mut self, _why: &str) {
        self.reports += 1;
    }
}

/// Sectors in RAM. An operation beyond them panics: the server is to ask for none.
struct InRam {
    sector: u32,
    bytes: Vec<u8>,
    breaks: u32,
    done: u32,
}

impl InRam {
    /// An operation begins; it fails before it does anything.
    fn begin(&mut self) -> Result<(), String> {
        self.done += 1;
        match self.breaks > 0 && self.done.is_multiple_of(self.breaks) {
            true => Err("broken".into()),
            false => Ok(()),
        }
    }

    fn range(&self, first: u32, len: usize) -> std::ops::Range<usize> {
        let at = first as usize * self.sector as usize;
        at..at + len
    }
}

impl BlockDevice for InRam {
    type Error = String;
    const TRIM_ZEROES: bool = true;

    fn sector_size(&self) -> u32 {
        self.sector
    }

    fn sector_count(&self) -> u32 {
        self.bytes.len() as u32 / self.sector
    }

    fn read(&mut self, first: u32, buf: &mut [u8]) -> Result<(), String> {
        self.begin()?;
        let range = self.range(first, buf.len());
        buf.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn write(&mut self, first: u32, data: &[u8]) -> Result<(), String> {
        self.begin()?;
        let range = self.range(first, data.len());
        self.bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn trim(&mut self, first: u32, count: u32) -> Result<(), String> {
        self.begin()?;
        let range = self.range(first, count as usize * self.sector as usize);
        self.bytes[range].fill(0);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        self.begin()
    }
}

impl Translation for InRam {
    fn background(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    fn close(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn summary(&self) -> String {
        String::new()
    }

    fn now_ns(&self) -> u64 {
        0
    }

    fn pass(&mut self, _ns: u64) {}
}
