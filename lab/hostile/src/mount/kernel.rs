//! The kernel's side of FUSE: requests as bytes, and answers that a kernel would take.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// A server that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(15);
/// The longest answer that is asked for.
pub const ANSWER_MAX: usize = 100 << 10;

pub const LOOKUP: u32 = 1;
pub const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
pub const SETATTR: u32 = 4;
pub const READLINK: u32 = 5;
pub const SYMLINK: u32 = 6;
pub const MKNOD: u32 = 8;
pub const MKDIR: u32 = 9;
pub const UNLINK: u32 = 10;
pub const RMDIR: u32 = 11;
pub const LINK: u32 = 13;
pub const OPEN: u32 = 14;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
pub const STATFS: u32 = 17;
pub const RELEASE: u32 = 18;
pub const FSYNC: u32 = 20;
pub const SETXATTR: u32 = 21;
pub const GETXATTR: u32 = 22;
pub const LISTXATTR: u32 = 23;
pub const REMOVEXATTR: u32 = 24;
pub const FLUSH: u32 = 25;
const INIT: u32 = 26;
pub const READDIR: u32 = 28;
pub const ACCESS: u32 = 34;
pub const CREATE: u32 = 35;
const DESTROY: u32 = 38;
pub const IOCTL: u32 = 39;
pub const BATCH_FORGET: u32 = 42;
pub const FALLOCATE: u32 = 43;
pub const RENAME2: u32 = 45;
pub const LSEEK: u32 = 46;

/// Bytes of what an answer begins with, of attributes, and of an entry.
const HEAD: usize = 16;
const ATTR: usize = 88;
const ENTRY: usize = 40 + ATTR;

/// The body of a request.
#[derive(Default)]
pub struct Body(pub Vec<u8>);

impl Body {
    pub fn u32(mut self, n: u32) -> Body {
        self.0.extend(n.to_ne_bytes());
        self
    }

    pub fn u64(mut self, n: u64) -> Body {
        self.0.extend(n.to_ne_bytes());
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Body {
        self.0.extend(bytes);
        self
    }

    /// A name ends at its first NUL, whatever is behind that.
    pub fn name(self, name: &[u8]) -> Body {
        self.bytes(name).bytes(&[0])
    }
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What a kernel takes from an entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub node: u64,
    pub generation: u64,
    pub size: u64,
    pub mode: u32,
}

/// # Panics
/// No kernel takes such an answer.
pub fn entry(answer: &[u8]) -> Entry {
    let node = u64_at(answer, 0);
    let (size, mode) = match node {
        // The name is not there, which may be kept as well.
        0 => (0, 0),
        _ => attr(&answer[40..ENTRY]),
    };
    Entry {
        node,
        generation: u64_at(answer, 8),
        size,
        mode,
    }
}

/// Size and mode.
///
/// # Panics
/// No kernel takes such attributes.
pub fn attr(bytes: &[u8]) -> (u64, u32) {
    let (size, mode) = (u64_at(bytes, 8), u32_at(bytes, 60));
    assert!(i64::try_from(size).is_ok(), "a size of {size}");
    assert!(
        (48..60)
            .step_by(4)
            .all(|at| u32_at(bytes, at) < 1_000_000_000)
    );
    assert!(
        matches!(mode >> 12, 1 | 2 | 4 | 6 | 8 | 10 | 12),
        "mode {mode:o}"
    );
    (size, mode)
}

/// Names and positions of a listing.
///
/// # Panics
/// A kernel would give up the whole listing.
pub fn listing(answer: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < answer.len() {
        let (next, len) = (u64_at(answer, at + 8), u32_at(answer, at + 16) as usize);
        let name = answer[at + 24..at + 24 + len].to_vec();
        assert!((1..=1024).contains(&len), "a name of {len} bytes");
        assert!(!name.contains(&b'/'), "a name with a slash");
        assert!(i64::try_from(next).is_ok(), "a position of {next}");
        found.push((name, next));
        at += (24 + len).next_multiple_of(8);
    }
    assert_eq!(at, answer.len());
    found
}

/// A kernel with one connection.
pub struct Kernel {
    socket: UnixDatagram,
    unique: u64,
    pub uid: u32,
    answer: Vec<u8>,
}

impl Kernel {
    /// A kernel that has begun to speak, and the other end.
    pub fn new(capabilities: u32) -> (Kernel, OwnedFd) {
        let (socket, theirs) = UnixDatagram::pair().expect("a socket");
        let patience = Some(PATIENCE);
        socket.set_read_timeout(patience).expect("a time");
        let mut kernel = Kernel {
            socket,
            unique: 0,
            uid: 0,
            answer: vec![0; 2 * ANSWER_MAX],
        };
        let init = Body::default()
            .u32(7)
            .u32(31)
            .u32(1 << 17)
            .u32(capabilities);
        kernel.send(INIT, 0, &init.bytes(&[0; 48]).0);
        (kernel, theirs.into())
    }

    /// Takes the answer to the first message.
    pub fn begin(&mut self) {
        let answer = self.answer().expect("a server that begins");
        assert!(answer.len() >= 24);
    }

    fn send(&mut self, code: u32, node: u64, body: &[u8]) {
        self.unique += 2;
        let head = Body::default()
            .u32((40 + body.len()) as u32)
            .u32(code)
            .u64(self.unique)
            .u64(node)
            .u32(self.uid)
            .u32(self.uid)
            .u32(77)
            .u32(0);
        let sent = self.socket.send(&head.bytes(body).0);
        sent.expect("a server that lives");
    }

    /// One answer to the last request: what is behind its head, or its error number.
    fn answer(&mut self) -> Result<&[u8], i32> {
        let len = match self.socket.recv(&mut self.answer) {
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => panic!("no answer"),
            Err(error) => panic!("{error}"),
        };
        let answer = &self.answer[..len];
        assert_eq!(u32_at(answer, 0) as usize, len, "the length of an answer");
        assert_eq!(u64_at(answer, 8), self.unique, "whose answer it is");
        let error = u32_at(answer, 4).cast_signed();
        assert!((-511..=0).contains(&error), "error {error}");
        match error {
            0 => Ok(&answer[HEAD..]),
            error => {
                assert_eq!(len, HEAD, "an error with more behind it");
                Err(-error)
            }
        }
    }

    /// Asks, and waits for the answer.
    pub fn ask(&mut self, code: u32, node: u64, body: &Body) -> Result<&[u8], i32> {
        self.send(code, node, &body.0);
        self.answer()
    }

    /// Says what has no answer.
    pub fn tell(&mut self, code: u32, node: u64, body: &Body) {
        self.send(code, node, &body.0);
    }

    /// The last message.
    pub fn end(&mut self) {
        self.send(DESTROY, 0, &[]);
        assert_eq!(self.answer(), Ok(&[][..]));
    }
}

impl Drop for Kernel {
    /// A server that has not been told to end would wait for ever, and a finding never be seen.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let head = Body::default().u32(40).u32(DESTROY).u64(0).u64(0);
            let _ = self.socket.send(&head.u64(0).u64(0).0);
        }
    }
}
