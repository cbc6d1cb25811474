//! Requests from steps, and what is to come of them.

use super::kernel::{
    self, ACCESS, ANSWER_MAX, BATCH_FORGET, Body, CREATE, Entry, FALLOCATE, FLUSH, FORGET, FSYNC,
    GETATTR, GETXATTR, IOCTL, Kernel, LINK, LISTXATTR, LOOKUP, LSEEK, MKDIR, MKNOD, OPEN, READ,
    READDIR, READLINK, RELEASE, REMOVEXATTR, RENAME2, RMDIR, SETATTR, SETXATTR, STATFS, SYMLINK,
    UNLINK, WRITE,
};
use super::model::{Known, Model, Object};
use crate::input::STEP;

const KEEP_SIZE: u32 = 1;
const PUNCH: u32 = 2;
const ZERO: u32 = 0x10;
const FATTR_SIZE: u32 = 8;
/// Numbers that no volume has, or most likely none.
const WILD: [u64; 8] = [0, 2, 3, 7, 1 << 32, 1 << 48, i64::MAX as u64, u64::MAX];

/// A kernel, with what it has to be answered.
pub struct Player {
    pub kernel: Kernel,
    pub model: Model,
    /// Nodes of any number are spoken of, in any order: nothing is known then.
    pub is_wild: bool,
    /// What the volume says may be wrong.
    pub is_sound: bool,
}

fn name(n: u8) -> Vec<u8> {
    match n {
        0xf0.. => [&b"."[..], b"..", b"a/b", b"/", b"", b"..a"][usize::from(n) % 6].to_vec(),
        0xec.. => vec![b'n'; [255, 256, 1024, 254][usize::from(n) % 4]],
        0x60.. => format!("name {n}").into_bytes(),
        n => vec![b'a' + n % 8],
    }
}

/// Offsets: small, page by page, and as large as there are.
fn offset(a: u8, b: u8, c: u8) -> u64 {
    let near = u64::from(u16::from_le_bytes([a, b]));
    match c % 16 {
        0..=7 => near,
        8 | 9 => near << 6,
        10 => near << (c >> 4),
        11 => near << 24,
        12 => u64::MAX - near,
        13 => i64::MAX as u64 - near,
        14 => (u64::from(u32::MAX) << (c >> 4)) - near,
        _ => (i64::MAX as u64) + near,
    }
}

impl Player {
    /// Whether answers are compared with what is known.
    fn knows(&self) -> bool {
        self.is_sound && !self.is_wild
    }

    /// A node: one that is known, the wanted ones first; a wild one now and then.
    fn node(&self, n: u8, wanted: u32) -> u64 {
        if self.is_wild && n.is_multiple_of(5) {
            return match n {
                0xc0.. => WILD[usize::from(n) % WILD.len()],
                n => u64::from(n) * 37 % 1_200,
            };
        }
        let kind = |node: &u64| self.model.things[self.model.nodes[node].object].kind;
        let all = || self.model.nodes.keys().copied();
        let fit: Vec<u64> = all().filter(|node| kind(node) == wanted).collect();
        match fit.get(usize::from(n) % fit.len().max(1)) {
            Some(node) if n < 0xe0 => *node,
            _ => all()
                .nth(usize::from(n) % self.model.nodes.len())
                .expect("the root"),
        }
    }

    fn dir(&self, n: u8) -> u64 {
        self.node(n, 4)
    }

    fn file(&self, n: u8) -> u64 {
        self.node(n, 8)
    }

    fn object(&self, node: u64) -> Option<Object> {
        self.model.nodes.get(&node).map(|node| node.object)
    }

    fn empty(&mut self, code: u32, node: u64, body: &Body) -> Result<(), i32> {
        let answer = self.kernel.ask(code, node, body)?;
        assert_eq!(
            answer.len(),
            0,
            "an answer of {code} with more than its head"
        );
        Ok(())
    }

    fn entry(&mut self, code: u32, node: u64, body: &Body) -> Result<Entry, i32> {
        let answer = self.kernel.ask(code, node, body)?;
        assert_eq!(answer.len(), if code == CREATE { 144 } else { 128 });
        let entry = kernel::entry(answer);
        assert!(entry.node != 0 || code == LOOKUP);
        Ok(entry)
    }

    /// Makes one request, or what belongs together.
    pub fn take(&mut self, step: &[u8; STEP]) {
        let [what, n, m, a, b, c] = *step;
        match what % 32 {
            0 | 1 => self.lookup(self.dir(n), &name(m)),
            2..=8 => self.make(what % 32, self.dir(n), &name(m), step),
            9 | 10 => self.remove(what % 32 == 10, self.dir(n), &name(m)),
            11 | 12 => self.rename((self.dir(n), &name(m)), (self.dir(a), &name(b)), c),
            13 => self.set_size(self.file(n), offset(a, b, c)),
            14 => self.set_attr(self.node(n, 8), step),
            15..=17 => self.write(self.file(n), offset(a, b, c), usize::from(m) * 131 + 1, m),
            18 | 19 => self.read(self.file(n), offset(a, b, c), usize::from(m) * 300),
            20 => self.zero(self.file(n), offset(a, b, c), u64::from(m) << (a % 9), what),
            21 => self.list(self.dir(n), offset(a, b, c), usize::from(m) * 40),
            22 => self.open(self.file(n)),
            23 => self.release(self.file(n)),
            24 | 25 => self.forget(self.node(n, 8), step),
            26 => self.seek(self.file(n), offset(a, b, c), m),
            27 | 28 => self.xattr(self.node(n, 8), step),
            29 => self.sync(self.node(n, 8), m),
            30 => self.get_attr(self.node(n, 8)),
            _ => self.look(self.node(n, 10), m, a),
        }
    }

    fn lookup(&mut self, dir: u64, name: &[u8]) {
        let found = self.entry(LOOKUP, dir, &Body::default().name(name));
        if self.knows() {
            self.model.looked_up(dir, name, found);
        } else {
            self.met(found);
        }
    }

    /// Notes a number that may be spoken of.
    fn met(&mut self, found: Result<Entry, i32>) {
        if let Ok(entry) = found
            && entry.node != 0
            && !self.model.nodes.contains_key(&entry.node)
        {
            self.model.add_node(&entry);
        }
    }

    fn make(&mut self, what: u8, dir: u64, name: &[u8], step: &[u8; STEP]) {
        let [.., a, b, c] = *step;
        let mode = u32::from(u16::from_le_bytes([a, b])) & 0o7777;
        let body = Body::default();
        let mut object = None;
        let made = match what {
            2..=4 => {
                let body = body
                    .u32(2)
                    .u32(0o100_000 | mode)
                    .u32(0o22)
                    .u32(0)
                    .name(name);
                self.entry(CREATE, dir, &body)
            }
            5 => self.entry(MKDIR, dir, &body.u32(mode).u32(0).name(name)),
            6 => {
                let target = vec![b't'; usize::from(a) * usize::from(b % 32)];
                self.entry(SYMLINK, dir, &body.name(name).name(&target))
            }
            7 => {
                let kind = u32::from(c % 16) << 12;
                let body = body.u32(kind | mode).u32(u32::from(a) << 8).u32(0).u32(0);
                self.entry(MKNOD, dir, &body.name(name))
            }
            _ => {
                let node = self.node(a, 8);
                object = self.object(node);
                self.entry(LINK, dir, &body.u64(node).name(name))
            }
        };
        if !self.knows() {
            return self.met(made);
        }
        let made = self.model.made(dir, name, object, made);
        if let (Some(object), 2..=4) = (made, what) {
            // It is open now.
            let node = self
                .model
                .nodes
                .values_mut()
                .find(|node| node.object == object);
            node.expect("a node just met").opens += 1;
        }
    }

    fn remove(&mut self, is_dir: bool, dir: u64, name: &[u8]) {
        let code = if is_dir { RMDIR } else { UNLINK };
        let known = self.knows().then(|| self.model.known(dir, name));
        let done = self.empty(code, dir, &Body::default().name(name));
        if let Some(known) = known {
            if let (Known::Is(object), Ok(())) = (known, done) {
                let kind = self.model.things[object].kind;
                assert_eq!(kind == 4, is_dir, "what is removed is of another kind");
            }
            self.model.removed(dir, name, done);
        }
    }

    fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), c: u8) {
        let flags = match c {
            0..150 => 0,
            150..200 => 1,
            200..250 => 2,
            c => u32::from(c),
        };
        let body = Body::default().u64(to.0).u32(flags).u32(0);
        let done = self.empty(RENAME2, from.0, &body.name(from.1).name(to.1));
        if self.knows() {
            match done {
                Ok(()) => {
                    let is_there = matches!(self.model.known(to.0, to.1), Known::Is(_));
                    assert!(flags != 1 || !is_there, "what must stay was replaced");
                    self.model.renamed(from, to, flags == 2);
                }
                Err(error) => Model::accept_error(error, "rename"),
            }
        }
    }

    fn set_size(&mut self, node: u64, size: u64) {
        let done = self.set(node, FATTR_SIZE, size, 0);
        if let (true, Some(object)) = (self.knows(), self.object(node)) {
            match done {
                Ok((shown, mode)) => {
                    self.model.sized(object, size);
                    self.model.check_attr(object, shown, mode);
                }
                Err(error) => self.model.failed(object, error),
            }
        }
    }

    fn set(&mut self, node: u64, valid: u32, size: u64, n: u64) -> Result<(u64, u32), i32> {
        let short = n as u32;
        let body = Body::default().u32(valid).u32(0).u64(0).u64(size).u64(0);
        let body = body.u64(n << 30).u64(n).u64(n.wrapping_neg());
        // A kernel cuts times at the least and the greatest, which have no nanoseconds.
        let is_least = [n << 30, n, n.wrapping_neg()].contains(&(1 << 63));
        let nanos = match is_least {
            true => 0,
            false => short.wrapping_mul(77_777) % 1_000_000_000,
        };
        let body = body.u32(nanos).u32(nanos).u32(nanos).u32(short).u32(0);
        let answer = self
            .kernel
            .ask(SETATTR, node, &body.u32(short).u32(!short).u32(0))?;
        Ok(kernel::attr(&answer[16..]))
    }

    fn set_attr(&mut self, node: u64, step: &[u8; STEP]) {
        let [_, _, m, a, b, c] = *step;
        let valid = u32::from(u16::from_le_bytes([a, b])) & !FATTR_SIZE;
        let n = u64::from(m) << (c % 64);
        let done = self.set(node, valid, 0, n);
        if let (true, Err(error)) = (self.knows(), done) {
            Model::accept_error(error, "attributes");
        }
    }

    fn write(&mut self, node: u64, offset: u64, len: usize, seed: u8) {
        let data: Vec<u8> = (0..len)
            .map(|at| (at as u8).wrapping_mul(7) ^ seed)
            .collect();
        if self.knows() && !self.is_open(node) {
            self.open(node);
        }
        let body = Body::default()
            .u64(0)
            .u64(offset)
            .u32(len as u32)
            .u32(u32::from(seed % 8));
        let answer = self
            .kernel
            .ask(WRITE, node, &body.u64(0).u32(2).u32(0).bytes(&data));
        let written = answer.map(|answer| kernel::u32_at(answer, 0) as usize);
        if let Ok(written) = written {
            assert!(written <= len, "more is written than was given");
        }
        if let (true, Some(object)) = (self.knows(), self.object(node)) {
            match written {
                Ok(written) => self.model.written(object, offset, &data[..written]),
                Err(error) => self.model.failed(object, error),
            }
        }
    }

    fn read(&mut self, node: u64, offset: u64, len: usize) {
        let len = len.min(ANSWER_MAX);
        if self.knows() && !self.is_open(node) {
            self.open(node);
        }
        let body = Body::default()
            .u64(0)
            .u64(offset)
            .u32(len as u32)
            .u32(0)
            .u64(0);
        let answer = self
            .kernel
            .ask(READ, node, &body.u32(0).u32(0))
            .map(<[u8]>::to_vec);
        if let Ok(read) = &answer {
            assert!(read.len() <= len, "more is read than was asked for");
        }
        if let (true, Some(object)) = (self.knows(), self.object(node)) {
            match answer {
                Ok(read) => self.model.read(object, offset, len, &read),
                Err(error) => Model::accept_error(error, "read"),
            }
        }
    }

    fn zero(&mut self, node: u64, offset: u64, len: u64, what: u8) {
        let mode = [PUNCH | KEEP_SIZE, ZERO, ZERO | KEEP_SIZE, 0][usize::from(what >> 5) % 4];
        if self.knows() && !self.is_open(node) {
            self.open(node);
        }
        let body = Body::default().u64(0).u64(offset).u64(len).u32(mode).u32(0);
        let done = self.empty(FALLOCATE, node, &body);
        if let (true, Some(object)) = (self.knows(), self.object(node)) {
            match done {
                Ok(()) => {
                    let keeps = mode & KEEP_SIZE != 0;
                    self.model.zeroed(object, offset, len, keeps);
                }
                Err(error) => self.model.failed(object, error),
            }
        }
    }

    fn list(&mut self, dir: u64, offset: u64, size: usize) {
        let body = Body::default()
            .u64(0)
            .u64(offset)
            .u32(size as u32)
            .u32(0)
            .u64(0);
        let answer = self.kernel.ask(READDIR, dir, &body.u32(0).u32(0));
        let Ok(answer) = answer.map(<[u8]>::to_vec) else {
            return;
        };
        assert!(
            answer.len() <= size,
            "more is listed than there is room for"
        );
        let found = kernel::listing(&answer);
        if self.knows() {
            for (name, _) in found
                .iter()
                .filter(|(name, _)| name != b"." && name != b"..")
            {
                let known = self.model.known(dir, name);
                assert_ne!(known, Known::Absent, "{name:?} is listed and not there");
            }
        }
    }

    fn is_open(&self, node: u64) -> bool {
        self.model
            .nodes
            .get(&node)
            .is_some_and(|node| node.opens > 0)
    }

    fn open(&mut self, node: u64) {
        let opened = self.kernel.ask(OPEN, node, &Body::default().u32(2).u32(0));
        let opened = opened.map(<[u8]>::len);
        if let (Ok(_), Some(known)) = (opened, self.model.nodes.get_mut(&node)) {
            known.opens += 1;
        }
    }

    fn release(&mut self, node: u64) {
        if self.knows() && !self.is_open(node) {
            return;
        }
        let body = Body::default().u64(0).u32(0).u32(0).u64(0);
        let done = self.empty(RELEASE, node, &body);
        if let Some(known) = self.model.nodes.get_mut(&node) {
            known.opens = known.opens.saturating_sub(1);
        }
        if self.knows() {
            self.model.let_go(node);
            if let Err(error) = done {
                Model::accept_error(error, "release");
            }
        }
    }

    fn forget(&mut self, node: u64, step: &[u8; STEP]) {
        let [what, _, m, a, b, c] = *step;
        let mut count = u64::from(m % 4);
        if self.is_wild {
            count <<= c % 64;
        } else if let Some(known) = self.model.nodes.get(&node) {
            // No kernel gives back more than it has.
            count = if c % 2 == 0 {
                known.lookups
            } else {
                count.min(known.lookups)
            };
        }
        if node == 1 && !self.is_wild {
            return;
        }
        if what % 2 == 0 {
            self.kernel.tell(FORGET, node, &Body::default().u64(count));
        } else {
            let more = if self.is_wild { u64::from(b) } else { 0 };
            let body = Body::default().u32(2).u32(0).u64(node).u64(count);
            self.kernel
                .tell(BATCH_FORGET, 0, &body.u64(u64::from(a)).u64(more));
        }
        if self.knows() {
            self.model.forgotten(node, count);
        }
    }

    fn seek(&mut self, node: u64, offset: u64, m: u8) {
        let body = Body::default()
            .u64(0)
            .u64(offset)
            .u32(u32::from(m % 6))
            .u32(0);
        if let Ok(answer) = self.kernel.ask(LSEEK, node, &body) {
            let found = kernel::u64_at(answer, 0);
            assert!(found >= offset, "what is looked for is before");
        }
    }

    fn xattr(&mut self, node: u64, step: &[u8; STEP]) {
        const NAMES: [&[u8]; 8] = [
            b"user.a",
            b"user.b",
            b"trusted.c",
            b"security.capability",
            b"system.posix_acl_access",
            b"user.",
            b"",
            b"user.long and longer",
        ];
        let [what, _, m, a, b, c] = *step;
        let name = NAMES[usize::from(m) % NAMES.len()];
        let value = vec![a; usize::from(b) * usize::from(c % 9)];
        let body = Body::default();
        let size = [0, u32::from(b), 4_096, u32::MAX][usize::from(a) % 4];
        let asked = match (what % 2, c % 4) {
            (0, _) => {
                let body = body
                    .u32(value.len() as u32)
                    .u32(u32::from(a % 4))
                    .name(name);
                self.empty(SETXATTR, node, &body.bytes(&value))
            }
            (_, 0) => self.empty(REMOVEXATTR, node, &body.name(name)),
            (_, n) => {
                let (code, body) = match n {
                    1 => (LISTXATTR, body.u32(size).u32(0)),
                    _ => (GETXATTR, body.u32(size).u32(0).name(name)),
                };
                let answer = self.kernel.ask(code, node, &body);
                answer.map(|answer| {
                    let most = if size == 0 { 8 } else { size as usize };
                    assert!(answer.len() <= most, "more than there is room for");
                })
            }
        };
        if let (true, Err(error)) = (self.knows(), asked) {
            Model::accept_error(error, "an extended attribute");
        }
    }

    fn sync(&mut self, node: u64, m: u8) {
        let (code, body) = match m % 4 {
            0 => (FLUSH, Body::default().u64(0).u64(0).u64(0)),
            _ => (FSYNC, Body::default().u64(0).u32(u32::from(m % 2)).u32(0)),
        };
        if let (true, Err(error)) = (self.knows(), self.empty(code, node, &body)) {
            Model::accept_error(error, "sync");
        }
    }

    fn get_attr(&mut self, node: u64) {
        let answer = self
            .kernel
            .ask(GETATTR, node, &Body::default().u64(0).u64(0));
        let shown = answer.map(|answer| kernel::attr(&answer[16..]));
        if let (true, Some(object)) = (self.knows(), self.object(node)) {
            match shown {
                Ok((size, mode)) => self.model.check_attr(object, size, mode),
                Err(error) => Model::accept_error(error, "attributes"),
            }
        }
    }

    fn look(&mut self, node: u64, m: u8, a: u8) {
        let done = match m % 4 {
            3 => return self.trim(node, a),
            0 => self.kernel.ask(READLINK, node, &Body::default()),
            1 => self.kernel.ask(STATFS, node, &Body::default()),
            _ => self
                .kernel
                .ask(ACCESS, node, &Body::default().u32(a.into()).u32(0)),
        };
        let done = done.map(<[u8]>::len);
        if let (true, Err(error)) = (self.knows(), done) {
            Model::accept_error(error, "a look");
        }
    }

    /// `FITRIM`, for as much as there is, for little and for nothing; and a request that is none.
    fn trim(&mut self, node: u64, a: u8) {
        let (len, sizes) = match a % 4 {
            0 => (u64::MAX, 24),
            1 => (1 << 16, 24),
            2 => (0, 24),
            _ => (u64::MAX, 16),
        };
        let command = 0xc000_5879 | sizes << 16;
        let mut body = Body::default().u64(0).u32(0).u32(command).u64(0);
        body = body.u32(sizes).u32(sizes).u64(0).u64(len);
        if sizes == 24 {
            body = body.u64(0);
        }
        let answer = self.kernel.ask(IOCTL, node, &body);
        let done = answer.map(|answer| kernel::u64_at(answer, 16 + 8));
        if self.knows() {
            match done {
                Ok(won) => assert!(sizes == 24 && (len > 0 || won == 0), "{won} of {len}"),
                Err(error) => Model::accept_error(error, "cleaning"),
            }
        }
    }
}
