//! A disk over NBD, the network block device protocol, on a stream.
//!
//! The fixed newstyle handshake with `NBD_OPT_EXPORT_NAME`, `GO`, `INFO`, `LIST` and `ABORT`, and
//! simple replies to `READ`, `WRITE` (with FUA), `DISC`, `FLUSH`, `TRIM` and `WRITE_ZEROES`. That
//! is what the kernel, QEMU and libnbd ask of a disk. There is one export, and its name is empty.
//! Several clients may be served at once: each command locks the disk, and a flush covers what
//! any of them has written (`NBD_FLAG_CAN_MULTI_CONN`).
//!
//! There are three libraries on crates.io, and none fits: `nbd` 0.3.1 answers TRIM and WRITE_ZEROES
//! with an error and knows no FUA and no `GO`; `nbdkit` 0.3.0 makes plugins for a server that has
//! to be installed; `tokio-nbd` 0.3.0 is under the GPL and brings a runtime. So the protocol is
//! here, two hundred lines of it.
//!
//! | item | what it is |
//! | --- | --- |
//! | [`serve`] | one client, from the handshake to its end |
//! | [`Shared`] | the disk, for all clients |
//! | [`Export`] | what the client is shown, and how long it may take |
//! | [`Host`] | who may stop a session, and who is told of what went wrong |
//!
//! ```no_run
//! use std::io;
//! use std::os::unix::net::UnixListener;
//! use std::time::Duration;
//!
//! use flashkit_disk::Disk;
//! use flashkit_nbd::{Export, Host, Shared, serve};
//!
//! struct Quiet;
//!
//! impl Host for Quiet {
//!     fn waiting(&mut self) -> io::Result<()> {
//!         Ok(())
//!     }
//!
//!     fn report(&mut self, why: &str) {
//!         eprintln!("{why}");
//!     }
//! }
//!
//! fn one_client(disk: Box<dyn Disk + Send>) -> io::Result<()> {
//!     let (stream, _) = UnixListener::bind("disk.socket")?.accept()?;
//!     // How often the limits are looked at.
//!     stream.set_read_timeout(Some(Duration::from_millis(20)))?;
//!     stream.set_write_timeout(Some(Duration::from_millis(20)))?;
//!     serve(&stream, &Shared::new(disk), Export::default(), &mut Quiet)
//! }
//! ```

#![forbid(unsafe_code)]

use std::io::{self, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use flashkit_disk::Disk;

const MAGIC: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_E889_0455_65A9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;

/// Handshake flags: fixed newstyle, no zeroes.
const HANDSHAKE: u16 = 3;
const CLIENT_NO_ZEROES: u32 = 2;

const OPT_EXPORT_NAME: u32 = 1;
const OPT_ABORT: u32 = 2;
const OPT_LIST: u32 = 3;
const OPT_INFO: u32 = 6;
const OPT_GO: u32 = 7;

const REP_ACK: u32 = 1;
const REP_SERVER: u32 = 2;
const REP_INFO: u32 = 3;
const REP_ERR_UNSUP: u32 = 0x8000_0001;
const REP_ERR_INVALID: u32 = 0x8000_0003;
const REP_ERR_UNKNOWN: u32 = 0x8000_0006;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// Has flags, sends flush, FUA, trim and write-zeroes; several connections may be made.
const TRANSMISSION: u16 = 1 | 4 | 8 | 32 | 64 | 256;
const READ_ONLY: u16 = 2;

const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;
const CMD_TRIM: u16 = 4;
const CMD_WRITE_ZEROES: u16 = 6;
const FLAG_FUA: u16 = 1;

const EPERM: u32 = 1;
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// Longest option and longest read or write that is served, in bytes.
const OPTION_MAX: u32 = 4096;
const REQUEST_MAX: u32 = 32 << 20;

/// What a client is shown, and how long it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Export {
    /// Writes are refused.
    pub read_only: bool,
    /// The whole handshake takes so long at most.
    pub handshake: Duration,
    /// Nothing more of a request that has begun comes, or nothing of a reply is taken, for so
    /// long at most. Between requests a client may be silent for ever.
    pub stalled: Duration,
}

impl Default for Export {
    /// May be written; 10 seconds for the handshake, 60 for a client that has stalled.
    fn default() -> Export {
        Export {
            read_only: false,
            handshake: Duration::from_secs(10),
            stalled: Duration::from_secs(60),
        }
    }
}

/// What whoever runs a session wants to know of it.
pub trait Host {
    /// Called each time a read or write of the stream times out. An error ends the session with it.
    ///
    /// # Errors
    /// The host's reason to stop.
    fn waiting(&mut self) -> io::Result<()>;

    /// An error of the disk, in one line. The client has been told that there was one.
    fn report(&mut self, why: &str);
}

/// A disk that several clients use.
pub struct Shared {
    disk: Mutex<Box<dyn Disk + Send>>,
    commands: AtomicU64,
}

impl Shared {
    /// Takes a disk.
    pub fn new(disk: Box<dyn Disk + Send>) -> Shared {
        Shared {
            disk: Mutex::new(disk),
            commands: AtomicU64::new(0),
        }
    }

    /// The disk, for one command or a little cleaning: clients wait meanwhile. `None` once it has
    /// panicked.
    pub fn lock(&self) -> Option<MutexGuard<'_, Box<dyn Disk + Send>>> {
        self.disk.lock().ok()
    }

    /// Commands of clients so far: no change over a while means idle.
    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }
}

/// Serves one client until it disconnects. Reads and writes of the stream are expected to time out
/// after some milliseconds: that is when limits are looked at and the host is asked.
///
/// # Errors
/// The stream fails, the client does not speak the protocol, is too slow, or asks for another
/// export by the option that has no other answer; the host stops.
pub fn serve(
    stream: impl Read + Write + Copy,
    disk: &Shared,
    export: Export,
    host: &mut dyn Host,
) -> io::Result<()> {
    let mut session = Session {
        input: BufReader::new(stream),
        output: stream,
        disk,
        export,
        host,
        greeted: false,
        until: Some(Instant::now() + export.handshake),
    };
    if session.handshake()? {
        session.transmission()?;
    }
    Ok(())
}

struct Session<'a, S> {
    input: BufReader<S>,
    output: S,
    disk: &'a Shared,
    export: Export,
    host: &'a mut dyn Host,
    /// The handshake is over.
    greeted: bool,
    /// When what the client is to do must have been done; never, if it need do nothing.
    until: Option<Instant>,
}

fn is_timeout(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::WouldBlock || kind == io::ErrorKind::TimedOut
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<'a, S: Read + Write> Session<'a, S> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// The stream has timed out.
    fn wait(&mut self) -> io::Result<()> {
        self.host.waiting()?;
        match self.until {
            Some(until) if Instant::now() >= until => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client takes too long",
            )),
            _ => Ok(()),
        }
    }

    /// The client does something: in the transmission its time begins anew.
    fn goes_on(&mut self) {
        if self.greeted {
            self.until = Some(Instant::now() + self.export.stalled);
        }
    }

    /// Reads so many bytes.
    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < bytes.len() {
            match self.input.read(&mut bytes[at..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    at += n;
                    self.goes_on();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_timeout(&e) => self.wait()?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends these bytes.
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.goes_on();
        while !bytes.is_empty() {
            match self.output.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    bytes = &bytes[n..];
                    self.goes_on();
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if is_timeout(&e) => self.wait()?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn u16(&mut self) -> io::Result<u16> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn flags(&self) -> u16 {
        TRANSMISSION | if self.export.read_only { READ_ONLY } else { 0 }
    }

    /// Agrees on the export; false when the client only wanted to look.
    fn handshake(&mut self) -> io::Result<bool> {
        self.send(&[&MAGIC[..], &HANDSHAKE.to_be_bytes()].concat())?;
        let client = self.u32()?;
        // What it asks for might change the meaning of all that follows.
        if client & !u32::from(HANDSHAKE) != 0 {
            return Err(invalid("the client asks for what was not offered"));
        }
        loop {
            if self.u64()? != OPTION_MAGIC {
                return Err(invalid("an option does not begin as one"));
            }
            let (option, len) = (self.u32()?, self.u32()?);
            if len > OPTION_MAX {
                return Err(invalid("an option is too long"));
            }
            let mut data = vec![0; len as usize];
            self.fill(&mut data)?;
            match option {
                OPT_EXPORT_NAME => {
                    // There is no other way to refuse.
                    if !data.is_empty() {
                        return Err(invalid("the client asks for an export that is not there"));
                    }
                    let zeroes = if client & CLIENT_NO_ZEROES != 0 {
                        0
                    } else {
                        124
                    };
                    let (size, flags) = (self.disk()?.size(), self.flags());
                    let reply = [
                        &size.to_be_bytes()[..],
                        &flags.to_be_bytes(),
                        &[0; 124][..zeroes],
                    ];
                    self.send(&reply.concat())?;
                    return Ok(true);
                }
                OPT_INFO | OPT_GO => {
                    if self.describe(option, &data)? && option == OPT_GO {
                        return Ok(true);
                    }
                }
                OPT_LIST => {
                    // One export, with an empty name.
                    self.option_reply(option, REP_SERVER, &[0; 4])?;
                    self.option_reply(option, REP_ACK, &[])?;
                }
                OPT_ABORT => {
                    self.option_reply(option, REP_ACK, &[])?;
                    return Ok(false);
                }
                _ => self.option_reply(option, REP_ERR_UNSUP, &[])?,
            }
        }
    }

    fn disk(&self) -> io::Result<MutexGuard<'a, Box<dyn Disk + Send>>> {
        self.disk
            .lock()
            .ok_or_else(|| io::Error::other("the disk has panicked"))
    }

    /// Answers INFO and GO; false when the option makes no sense, or asks for another export.
    fn describe(&mut self, option: u32, data: &[u8]) -> io::Result<bool> {
        // Name length, name, number of requests, requests of two bytes.
        let name_len = data
            .first_chunk()
            .map(|len| u32::from_be_bytes(*len) as usize);
        let rest = name_len.and_then(|len| data.get(4..)?.get(len..));
        let sound = rest.is_some_and(|rest| match rest.split_first_chunk() {
            Some((count, requests)) => {
                requests.len() == usize::from(u16::from_be_bytes(*count)) * 2
            }
            None => false,
        });
        if !sound {
            self.option_reply(option, REP_ERR_INVALID, &[])?;
            return Ok(false);
        }
        if name_len != Some(0) {
            self.option_reply(option, REP_ERR_UNKNOWN, &[])?;
            return Ok(false);
        }
        let (size, block_size) = {
            let disk = self.disk()?;
            (disk.size(), disk.block_size())
        };
        let mut info = INFO_EXPORT.to_be_bytes().to_vec();
        info.extend(size.to_be_bytes());
        info.extend(self.flags().to_be_bytes());
        self.option_reply(option, REP_INFO, &info)?;
        let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
        for size in [1, block_size.max(4096), REQUEST_MAX] {
            sizes.extend(size.to_be_bytes());
        }
        self.option_reply(option, REP_INFO, &sizes)?;
        self.option_reply(option, REP_ACK, &[])?;
        Ok(true)
    }

    fn option_reply(&mut self, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
        let len = data.len() as u32;
        let reply = [
            &OPTION_REPLY_MAGIC.to_be_bytes()[..],
            &option.to_be_bytes(),
            &kind.to_be_bytes(),
            &len.to_be_bytes(),
            data,
        ];
        self.send(&reply.concat())
    }

    fn transmission(&mut self) -> io::Result<()> {
        self.greeted = true;
        let mut data = Vec::new();
        loop {
            // It need not ask for anything.
            self.until = None;
            if self.u32()? != REQUEST_MAGIC {
                return Err(invalid("a request does not begin as one"));
            }
            let (flags, command, cookie) = (self.u16()?, self.u16()?, self.u64()?);
            let (offset, len) = (self.u64()?, self.u32()?);
            data.clear();
            let has_data = matches!(command, CMD_READ | CMD_WRITE);
            if has_data && len > REQUEST_MAX {
                return Err(invalid("a request is too long"));
            }
            if has_data {
                data.resize(len as usize, 0);
            }
            if command == CMD_WRITE {
                self.fill(&mut data)?;
            }
            if command == CMD_DISC {
                return Ok(());
            }
            let error = self.command(command, flags, offset, len, &mut data).err();
            let code = error.unwrap_or(0);
            let head = [
                &REPLY_MAGIC.to_be_bytes()[..],
                &code.to_be_bytes(),
                &cookie.to_be_bytes(),
            ];
            self.send(&head.concat())?;
            if command == CMD_READ && code == 0 {
                self.send(&data)?;
            }
        }
    }

    /// Carries out a command; the protocol's error number if it cannot be.
    fn command(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u32,
        data: &mut [u8],
    ) -> Result<(), u32> {
        let changes = matches!(command, CMD_WRITE | CMD_TRIM | CMD_WRITE_ZEROES);
        if changes && self.export.read_only {
            return Err(EPERM);
        }
        let Ok(mut disk) = self.disk() else {
            return Err(EIO);
        };
        self.disk.commands.fetch_add(1, Ordering::Relaxed);
        let end = offset.checked_add(u64::from(len));
        if command != CMD_FLUSH && end.is_none_or(|end| end > disk.size()) {
            return Err(if changes { ENOSPC } else { EINVAL });
        }
        let done = match command {
            CMD_READ => disk.read(offset, data),
            CMD_WRITE => disk.write(offset, data),
            // A disk has room for all its sectors, so zeros need no blocks to be kept for them.
            CMD_TRIM | CMD_WRITE_ZEROES => disk.zero(offset, u64::from(len)),
            CMD_FLUSH => disk.flush(),
            _ => return Err(EINVAL),
        };
        let done = done.and_then(|()| match flags & FLAG_FUA {
            0 => Ok(()),
            _ => disk.flush(),
        });
        done.map_err(|why| {
            self.host.report(&why);
            EIO
        })
    }
}
