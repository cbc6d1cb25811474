//! The protocol, byte by byte, as a client sees it.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flashkit_disk::{Disk, Result};
use flashkit_nbd::{Export, Host, Shared, serve};

const SIZE: usize = 8192;

/// A disk in RAM that notes what it is asked for.
struct InRam {
    bytes: Vec<u8>,
    log: Log,
    breaks: bool,
}

type Log = Arc<Mutex<Vec<String>>>;

impl InRam {
    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }
}

impl Disk for InRam {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn block_size(&self) -> u32 {
        512
    }
    fn read(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if self.breaks {
            return Err("broken".into());
        }
        let at = offset as usize;
        buf.copy_from_slice(&self.bytes[at..at + buf.len()]);
        Ok(())
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.note(format!("write {offset} {}", data.len()));
        let at = offset as usize;
        self.bytes[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }
    fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        self.note(format!("zero {offset} {len}"));
        self.bytes[offset as usize..(offset + len) as usize].fill(0);
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        self.note("flush".into());
        Ok(())
    }
}

#[derive(Default)]
struct Noting {
    waits: u32,
    stop_after: Option<u32>,
    reports: Vec<String>,
}

impl Host for Noting {
    fn waiting(&mut self) -> io::Result<()> {
        self.waits += 1;
        match self.stop_after {
            Some(n) if self.waits > n => Err(io::ErrorKind::ConnectionAborted.into()),
            _ => Ok(()),
        }
    }
    fn report(&mut self, why: &str) {
        self.reports.push(why.into());
    }
}

type Ended = (io::Result<()>, Vec<String>, Noting);

struct Client {
    stream: UnixStream,
    server: JoinHandle<Ended>,
    cookie: u64,
}

impl Client {
    fn new(export: Export, breaks: bool, mut host: Noting) -> Client {
        let (stream, theirs) = UnixStream::pair().unwrap();
        // A server that falls silent fails the test.
        let patience = Some(Duration::from_secs(20));
        stream.set_read_timeout(patience).unwrap();
        let tick = Some(Duration::from_millis(2));
        theirs.set_read_timeout(tick).unwrap();
        theirs.set_write_timeout(tick).unwrap();
        let server = std::thread::spawn(move || {
            let log = Log::default();
            let disk = Shared::new(Box::new(InRam {
                bytes: (0..SIZE).map(|i| (i % 251) as u8).collect(),
                log: log.clone(),
                breaks,
            }));
            let ended = serve(&theirs, &disk, export, &mut host);
            let log = log.lock().unwrap().clone();
            (ended, log, host)
        });
        let mut client = Client {
            stream,
            server,
            cookie: 0,
        };
        assert_eq!(client.take(18), b"NBDMAGICIHAVEOPT\0\x03");
        client
    }

    fn plain() -> Client {
        Client::new(Export::default(), false, Noting::default())
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn put(&mut self, parts: &[&[u8]]) {
        self.stream.write_all(&parts.concat()).unwrap();
    }

    fn option(&mut self, option: u32, data: &[u8]) {
        let len = data.len() as u32;
        self.put(&[b"IHAVEOPT", &option.to_be_bytes(), &len.to_be_bytes(), data]);
    }

    /// The type and the data of a reply to an option.
    fn option_reply(&mut self, option: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.take(8), 0x0003_E889_0455_65A9_u64.to_be_bytes());
        assert_eq!(self.take(4), option.to_be_bytes());
        let kind = u32::from_be_bytes(self.take(4).try_into().unwrap());
        let len = u32::from_be_bytes(self.take(4).try_into().unwrap());
        (kind, self.take(len as usize))
    }

    /// Enters transmission by `NBD_OPT_GO`.
    fn go(mut self) -> Client {
        self.put(&[&3u32.to_be_bytes()]);
        self.option(7, &[0; 6]);
        while self.option_reply(7).0 != 1 {}
        self
    }

    fn send(&mut self, flags: u16, command: u16, offset: u64, len: u32, data: &[u8]) {
        self.cookie += 1;
        let cookie = self.cookie;
        self.put(&[
            &0x2560_9513u32.to_be_bytes(),
            &flags.to_be_bytes(),
            &command.to_be_bytes(),
            &cookie.to_be_bytes(),
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
            data,
        ]);
    }

    fn reply(&mut self) -> u32 {
        assert_eq!(self.take(4), 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(self.take(4).try_into().unwrap());
        assert_eq!(self.take(8), self.cookie.to_be_bytes());
        error
    }

    fn call(&mut self, flags: u16, command: u16, offset: u64, len: u32, data: &[u8]) -> u32 {
        self.send(flags, command, offset, len, data);
        self.reply()
    }

    fn end(self) -> Ended {
        drop(self.stream);
        self.server.join().unwrap()
    }

    fn said_in_the_end(self) -> String {
        self.end().0.unwrap_err().to_string()
    }
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISC: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;

#[test]
fn options_are_answered() {
    let mut client = Client::plain();
    client.put(&[&1u32.to_be_bytes()]);
    client.option(99, b"whatever");
    assert_eq!(client.option_reply(99), (0x8000_0001, vec![]));
    client.option(3, b"");
    assert_eq!(client.option_reply(3), (2, vec![0; 4]));
    assert_eq!(client.option_reply(3), (1, vec![]));
    // INFO: size, flags (flush, FUA, trim, write zeroes), block sizes; and no transmission yet.
    client.option(6, b"\0\0\0\0\0\x01\0\x03");
    let (kind, info) = client.option_reply(6);
    assert_eq!((kind, &info[..2]), (3, &[0, 0][..]));
    assert_eq!(info[2..10], (SIZE as u64).to_be_bytes());
    assert_eq!(info[10..], 0b1_0110_1101u16.to_be_bytes());
    let (kind, sizes) = client.option_reply(6);
    assert_eq!((kind, &sizes[..2]), (3, &[0, 3][..]));
    assert_eq!(sizes[2..6], 1u32.to_be_bytes());
    assert_eq!(client.option_reply(6), (1, vec![]));
    // Names that are longer than their option, request lists that are cut off.
    for bad in [&b"\0\0\0\x09name\0\0"[..], b"\0\0\0\0\0\x02\0\x03", b"\0\0"] {
        client.option(7, bad);
        assert_eq!(client.option_reply(7), (0x8000_0003, vec![]), "{bad:?}");
    }
    // There is one export.
    for option in [6, 7] {
        client.option(option, b"\0\0\0\x04name\0\0");
        assert_eq!(client.option_reply(option), (0x8000_0006, vec![]));
    }
    client.option(2, b"");
    assert_eq!(client.option_reply(2), (1, vec![]));
    assert!(client.end().0.is_ok());
}

#[test]
fn the_old_option_leads_to_transmission_too() {
    for (client_flags, padding) in [(1u32, 124), (3, 0)] {
        let export = Export {
            read_only: true,
            ..Export::default()
        };
        let mut client = Client::new(export, false, Noting::default());
        client.put(&[&client_flags.to_be_bytes()]);
        client.option(1, b"");
        assert_eq!(client.take(8), (SIZE as u64).to_be_bytes());
        assert_eq!(client.take(2), 0b1_0110_1111u16.to_be_bytes());
        assert_eq!(client.take(padding), vec![0; padding]);
        assert_eq!(client.call(0, READ, 0, 4, &[]), 0);
        assert_eq!(client.take(4), [0, 1, 2, 3]);
        // Refused, with the data of the write taken off the stream.
        assert_eq!(client.call(0, WRITE, 0, 4, b"data"), 1);
        assert_eq!(client.call(0, TRIM, 0, 4, &[]), 1);
        assert_eq!(client.call(0, WRITE_ZEROES, 0, 4, &[]), 1);
        assert_eq!(client.call(0, FLUSH, 0, 0, &[]), 0);
        client.send(0, DISC, 0, 0, &[]);
        let (ended, log, _) = client.end();
        assert!(ended.is_ok());
        assert_eq!(log, ["flush"]);
    }
}

#[test]
fn commands_reach_the_disk() {
    let mut client = Client::plain().go();
    assert_eq!(client.call(0, WRITE, 511, 3, b"abc"), 0);
    assert_eq!(client.call(FUA, WRITE, 8191, 1, b"z"), 0);
    assert_eq!(client.call(0, TRIM, 0, 512, &[]), 0);
    assert_eq!(client.call(FUA, WRITE_ZEROES, 1024, 5, &[]), 0);
    assert_eq!(client.call(0, FLUSH, 0, 0, &[]), 0);
    assert_eq!(client.call(0, READ, 510, 5, &[]), 0);
    assert_eq!(client.take(5), [0, 0, b'b', b'c', (514 % 251) as u8]);
    client.send(0, DISC, 0, 0, &[]);
    let (ended, log, host) = client.end();
    assert!(ended.is_ok() && host.reports.is_empty());
    let expected = [
        "write 511 3",
        "write 8191 1",
        "flush",
        "zero 0 512",
        "zero 1024 5",
        "flush",
        "flush",
    ];
    assert_eq!(log, expected);
}

#[test]
fn what_lies_beyond_the_end_is_refused() {
    let mut client = Client::plain().go();
    for (offset, len) in [(8192, 1), (8000, 200), (u64::MAX, 2)] {
        assert_eq!(client.call(0, READ, offset, len, &[]), 22);
        assert_eq!(client.call(0, TRIM, offset, len, &[]), 28);
        assert_eq!(client.call(0, WRITE_ZEROES, offset, len, &[]), 28);
        let data = vec![1; len as usize];
        assert_eq!(client.call(0, WRITE, offset, len, &data), 28);
    }
    assert_eq!(client.call(0, 77, 0, 0, &[]), 22);
    // The session goes on.
    assert_eq!(client.call(0, READ, 8191, 1, &[]), 0);
    client.take(1);
    assert!(client.end().1.is_empty());
}

#[test]
fn errors_of_the_disk_are_told_to_both_sides() {
    let mut client = Client::new(Export::default(), true, Noting::default()).go();
    assert_eq!(client.call(0, READ, 0, 512, &[]), 5);
    assert_eq!(client.call(0, WRITE, 0, 1, b"x"), 0);
    let (_, _, host) = client.end();
    assert_eq!(host.reports, ["broken"]);
}

#[test]
fn what_is_not_the_protocol_ends_the_session() {
    let one = 1u32.to_be_bytes();
    let mut client = Client::plain();
    client.put(&[&one, b"GET / HT", &[0; 8]]);
    let said = client.said_in_the_end();
    assert_eq!(said, "an option does not begin as one");
    let mut client = Client::plain();
    client.put(&[&one, b"IHAVEOPT", &7u32.to_be_bytes(), &[0xFF; 4]]);
    assert_eq!(client.said_in_the_end(), "an option is too long");
    let mut client = Client::plain().go();
    client.put(&[&[0; 28]]);
    let said = client.said_in_the_end();
    assert_eq!(said, "a request does not begin as one");
    for command in [READ, WRITE] {
        let mut client = Client::plain().go();
        client.send(0, command, 0, 0x0200_0001, &[]);
        assert_eq!(client.said_in_the_end(), "a request is too long");
    }
    // Gone in the middle of a request.
    let mut client = Client::plain().go();
    client.put(&[&[0x25, 0x60]]);
    let ended = client.end().0;
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

/// The server has offered two flags: with any other the protocol has the session end.
#[test]
fn flags_that_were_not_offered_end_the_session() {
    for bit in 0..32 {
        let mut client = Client::plain();
        client.put(&[&(1u32 << bit).to_be_bytes()]);
        // After others nobody listens any more.
        if bit < 2 {
            client.option(2, b"");
            assert_eq!(client.option_reply(2), (1, vec![]));
            assert!(client.end().0.is_ok());
        } else {
            let said = client.said_in_the_end();
            assert_eq!(
                said, "the client asks for what was not offered",
                "bit {bit}"
            );
        }
    }
}

#[test]
fn an_export_of_another_name_is_refused_by_the_old_option_too() {
    let mut client = Client::plain();
    client.put(&[&1u32.to_be_bytes()]);
    client.option(1, b"name");
    let said = client.said_in_the_end();
    assert_eq!(said, "the client asks for an export that is not there");
}

#[test]
fn the_host_may_stop_while_the_client_is_silent() {
    let host = Noting {
        stop_after: Some(3),
        ..Noting::default()
    };
    let client = Client::new(Export::default(), false, host);
    // Half a number, and then nothing.
    (&client.stream).write_all(&[0, 0]).unwrap();
    let (ended, _, host) = client.server.join().unwrap();
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    assert_eq!(host.waits, 4);
}

/// Limits so short that a test can wait for them.
const HASTY: Export = Export {
    read_only: false,
    handshake: Duration::from_millis(60),
    stalled: Duration::from_millis(60),
};

fn ends_late(client: Client) {
    let begun = Instant::now();
    let ended = client.server.join().unwrap().0.unwrap_err();
    assert_eq!(ended.kind(), io::ErrorKind::TimedOut, "{ended}");
    assert!(begun.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_handshake_is_over_in_time_or_the_session_ends() {
    let client = Client::new(HASTY, false, Noting::default());
    (&client.stream).write_all(&[0, 0]).unwrap();
    ends_late(client);
}

#[test]
fn half_a_request_is_not_waited_for_but_a_silent_client_is() {
    let mut client = Client::new(HASTY, false, Noting::default()).go();
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(client.call(0, FLUSH, 0, 0, &[]), 0);
    client.send(0, WRITE, 0, 100, &[1; 99]);
    ends_late(client);
}

/// A client that asks and does not listen: the replies fill the socket.
#[test]
fn a_client_that_takes_no_replies_is_let_go() {
    for stop_after in [None, Some(20)] {
        let limits = Export {
            stalled: match stop_after {
                None => HASTY.stalled,
                Some(_) => Duration::from_secs(1_000),
            },
            ..HASTY
        };
        let host = Noting {
            stop_after,
            ..Noting::default()
        };
        let mut client = Client::new(limits, false, host).go();
        let tick = Some(Duration::from_millis(10));
        client.stream.set_write_timeout(tick).unwrap();
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend([0; 20]);
        request.extend((SIZE as u32).to_be_bytes());
        while client.stream.write_all(&request).is_ok() {}
        let ended = client.server.join().unwrap().0.unwrap_err();
        let why = match stop_after {
            None => io::ErrorKind::TimedOut,
            Some(_) => io::ErrorKind::ConnectionAborted,
        };
        assert_eq!(ended.kind(), why, "{ended}");
    }
}
