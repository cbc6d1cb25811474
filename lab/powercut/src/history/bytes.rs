//! What a file holds, told by the writes that put it there, so that a large file takes little room.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Runs of bytes, each of one write. What is in none is zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Bytes {
    pub size: u64,
    /// By where they begin: where they end, and the number of the write.
    runs: BTreeMap<u64, (u64, u64)>,
}

impl Bytes {
    /// Puts bytes of a write there; 0 puts zeros.
    pub fn put(&mut self, from: u64, to: u64, write: u64) {
        if from >= to {
            return;
        }
        if let Some((&begin, &(end, old))) = self.runs.range(..from).next_back() {
            if end > from {
                self.runs.insert(begin, (from, old));
            }
            if end > to {
                self.runs.insert(to, (end, old));
            }
        }
        while let Some((&begin, &(end, old))) = self.runs.range(from..to).next() {
            self.runs.remove(&begin);
            if end > to {
                self.runs.insert(to, (end, old));
            }
        }
        if write != 0 {
            self.runs.insert(from, (to, write));
        }
    }

    /// Cuts off, or appends zeros.
    pub fn resize(&mut self, size: u64) {
        self.put(size, self.size, 0);
        self.size = size;
    }

    /// The bytes from an offset on; zeros beyond the end.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        out.fill(0);
        let end = offset + out.len() as u64;
        let before = self.runs.range(..=offset).next_back();
        let inside = self.runs.range(offset + 1..end.max(offset + 1));
        for (&from, &(to, write)) in before.into_iter().chain(inside) {
            let (from, to) = (from.max(offset), to.min(end));
            if from < to {
                let (a, b) = ((from - offset) as usize, (to - offset) as usize);
                stamp(write, from, &mut out[a..b]);
            }
        }
    }
}

/// The bytes that write number `write` puts at `offset`; never 0.
pub(super) fn stamp(write: u64, offset: u64, out: &mut [u8]) {
    let salt = write.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut word = [0; 8];
    let mut known = u64::MAX;
    for (at, byte) in (offset..).zip(out) {
        if at / 8 != known {
            known = at / 8;
            let x = (known ^ salt).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            word = ((x ^ (x >> 32)) | 0x0101_0101_0101_0101).to_le_bytes();
        }
        *byte = word[(at % 8) as usize];
    }
}

/// Extended attributes by name; a value is told by its length and write.
pub(super) type Xattrs = Rc<BTreeMap<String, (usize, u64)>>;

/// Attributes; times are numbers of operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attrs {
    pub mode: u16,
    pub mtime: u64,
    pub ctime: u64,
    pub xattrs: Xattrs,
}

impl Attrs {
    /// Those that operation `op` gives what it makes.
    pub fn of(op: u64) -> Attrs {
        Attrs {
            mode: 0o400 | (op % 0o400) as u16,
            mtime: op,
            ctime: op,
            xattrs: Rc::default(),
        }
    }
}

/// What an operation does to a file's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// Page by page.
    Put {
        from: u64,
        to: u64,
        write: u64,
    },
    Resize(u64),
    /// Attributes alone.
    Nothing,
}

#[derive(Clone, Debug)]
struct Change {
    op: u64,
    what: What,
    attrs: Attrs,
}

impl Change {
    fn steps(&self, page: u64) -> u64 {
        match self.what {
            What::Put { from, to, .. } => to.div_ceil(page) - from / page,
            _ => 1,
        }
    }

    /// Does one step. Returns the pages whose bytes may be others.
    fn step(&self, bytes: &mut Bytes, k: u64, page: u64) -> std::ops::Range<u64> {
        match self.what {
            What::Put { from, to, write } => {
                let at = from / page + k;
                let (from, to) = (from.max(at * page), to.min((at + 1) * page));
                bytes.put(from, to, write);
                bytes.size = bytes.size.max(to);
                at..at + 1
            }
            What::Resize(size) => {
                let pages = size.min(bytes.size) / page..size.max(bytes.size).div_ceil(page);
                bytes.resize(size);
                pages
            }
            What::Nothing => 0..0,
        }
    }
}

/// A file as it was found.
pub(super) struct SeenFile {
    pub bytes: Vec<u8>,
    pub attrs: Attrs,
}

/// A file: what is durable of it, and what it has gone through since.
#[derive(Clone)]
pub(super) struct File {
    /// Its number on the volume, once that is known.
    pub ino: Option<u64>,
    pub symlink: bool,
    /// Whether it has changed since a look compared it.
    pub fresh: bool,
    base: (Bytes, Attrs),
    now: (Bytes, Attrs),
    changes: Vec<Change>,
}

/// A state of a file: after so many changes, and so many steps of the next.
pub(super) type State = (usize, u64);

impl File {
    pub fn new(symlink: bool, bytes: Bytes, attrs: Attrs) -> File {
        File {
            ino: None,
            symlink,
            fresh: true,
            base: (bytes.clone(), attrs.clone()),
            now: (bytes, attrs),
            changes: Vec::new(),
        }
    }

    pub fn bytes(&self) -> &Bytes {
        &self.now.0
    }

    pub fn attrs(&self) -> &Attrs {
        &self.now.1
    }

    /// Whether nothing can be seen but what it is now.
    pub fn is_durable(&self) -> bool {
        self.changes.is_empty()
    }

    pub fn change(&mut self, op: u64, page: u64, what: What, attrs: Attrs) {
        let change = Change { op, what, attrs };
        for k in 0..change.steps(page) {
            change.step(&mut self.now.0, k, page);
        }
        self.now.1 = change.attrs.clone();
        self.changes.push(change);
        self.fresh = true;
    }

    /// Only what it is now can be seen from now on.
    pub fn settle(&mut self) {
        if !self.changes.is_empty() {
            self.base = self.now.clone();
            self.changes.clear();
        }
    }

    /// Forgets what operation `op` has done.
    pub fn undo(&mut self, op: u64, page: u64) {
        let kept = self.changes.iter().take_while(|c| c.op < op).count();
        if kept < self.changes.len() {
            self.now = self.at((kept, 0), page);
            self.changes.truncate(kept);
        }
    }

    fn at(&self, state: State, page: u64) -> (Bytes, Attrs) {
        let (mut bytes, mut attrs) = self.base.clone();
        for (n, change) in self.changes.iter().enumerate() {
            let steps = match n.cmp(&state.0) {
                std::cmp::Ordering::Less => change.steps(page),
                std::cmp::Ordering::Equal => state.1,
                std::cmp::Ordering::Greater => break,
            };
            for k in 0..steps {
                change.step(&mut bytes, k, page);
            }
            if steps > 0 {
                attrs = change.attrs.clone();
            }
        }
        (bytes, attrs)
    }

    /// It is in this state, and that is durable.
    pub fn keep(&mut self, state: State, page: u64) {
        self.base = self.at(state, page);
        self.now = self.base.clone();
        self.changes.clear();
        self.fresh = false;
    }

    /// It is in this state after an operation that found no space, and
    /// older ones can be seen still.
    pub fn keep_part(&mut self, state: State, page: u64) {
        self.now = self.at(state, page);
        self.changes.truncate(state.0 + usize::from(state.1 > 0));
        if state.1 > 0
            && let Some(change) = self.changes.last_mut()
            && let What::Put { from, to, .. } = &mut change.what
        {
            *to = (*to).min((*from / page + state.1) * page);
        }
    }

    /// The newest state that looks like this, not older than `oldest` changes.
    ///
    /// # Errors
    /// There is none; says what differs.
    pub fn find(&self, seen: &SeenFile, oldest: usize, page: u64) -> Result<State, String> {
        let (mut bytes, mut attrs) = self.base.clone();
        let mut known = vec![0; page as usize];
        let most = self.changes.iter().map(|c| match c.what {
            What::Put { to, .. } => to,
            What::Resize(to) => to,
            What::Nothing => 0,
        });
        let most = most.max().unwrap_or(0).max(bytes.size);
        let pages = most.max(seen.bytes.len() as u64).div_ceil(page);
        let mut differs = |bytes: &Bytes, at: u64| {
            bytes.read(at * page, &mut known);
            let from = seen.bytes.len().min((at * page) as usize);
            let to = seen.bytes.len().min(((at + 1) * page) as usize);
            let (known, rest) = known.split_at(to - from);
            known != &seen.bytes[from..to] || rest.iter().any(|&b| b != 0)
        };
        let mut different: Vec<bool> = (0..pages).map(|at| differs(&bytes, at)).collect();
        let mut count = different.iter().filter(|&&d| d).count();
        let size = seen.bytes.len() as u64;
        let mut found = None;
        if count == 0 && bytes.size == size && attrs == seen.attrs && oldest == 0 {
            found = Some((0, 0));
        }
        for (n, change) in self.changes.iter().enumerate() {
            attrs.clone_from(&change.attrs);
            for k in 0..change.steps(page) {
                for at in change.step(&mut bytes, k, page) {
                    let now = differs(&bytes, at);
                    let before = std::mem::replace(&mut different[at as usize], now);
                    count = count + usize::from(now) - usize::from(before);
                }
                if count == 0 && bytes.size == size && attrs == seen.attrs && n + 1 >= oldest {
                    found = Some((n, k + 1));
                }
            }
        }
        found.ok_or_else(|| {
            let (now, base) = (&self.now, &self.base);
            let first = different.iter().position(|&d| d);
            let changes = self.changes.len();
            format!(
                "file is in none of its states (size {size}, newest {}, durable {}, {changes} changes since; \
                 pages that differ from the newest: {count} of {pages}, first {first:?}; \
                 attributes {:?}, newest {:?}, durable {:?})",
                now.0.size, base.0.size, seen.attrs, now.1, base.1
            )
        })
    }

    /// Changes so far that are not durable, those of operation `op` left out.
    pub fn changes_before(&self, op: u64) -> usize {
        self.changes.iter().take_while(|c| c.op < op).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against plain bytes.
    #[test]
    fn runs_are_what_bytes_are() {
        let mut rng = flashkit_sim::Rng::new(1);
        let (mut runs, mut plain) = (Bytes::default(), Vec::new());
        for write in 1..400 {
            let (from, len) = (rng.below(300), rng.below(100));
            match rng.below(4) {
                0 => {
                    runs.resize(from);
                    plain.resize(from as usize, 0);
                }
                1 => {
                    let to = (from + len).min(runs.size);
                    runs.put(from, to, 0);
                    let to = to as usize;
                    plain[(from as usize).min(to)..to].fill(0);
                }
                _ => {
                    runs.put(from, from + len, write);
                    runs.size = runs.size.max(from + len);
                    let to = (from + len) as usize;
                    plain.resize(plain.len().max(to), 0);
                    stamp(write, from, &mut plain[from as usize..to]);
                }
            }
            let (at, mut seen) = (rng.below(200) as usize, vec![1; 250]);
            runs.read(at as u64, &mut seen);
            let mut expected = plain.clone();
            expected.resize(at + 250, 0);
            assert_eq!(seen, expected[at..at + 250], "{write}");
            assert_eq!(runs.size, plain.len() as u64);
        }
    }

    #[test]
    fn a_file_is_found_in_one_of_its_states() {
        let mut file = File::new(false, Bytes::default(), Attrs::of(1));
        let put = |from, to, write| What::Put { from, to, write };
        file.change(2, 100, put(0, 250, 2), Attrs::of(2));
        file.settle();
        file.change(3, 100, put(50, 220, 3), Attrs::of(3));
        file.change(4, 100, What::Resize(120), Attrs::of(4));
        let seen = |state| {
            let (bytes, attrs) = file.at(state, 100);
            let mut out = vec![0; bytes.size as usize];
            bytes.read(0, &mut out);
            SeenFile { bytes: out, attrs }
        };
        for state in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1)] {
            assert_eq!(file.find(&seen(state), 0, 100), Ok(state));
        }
        let mut mixed = seen((0, 2));
        stamp(2, 50, &mut mixed.bytes[50..60]);
        assert!(file.find(&mixed, 0, 100).is_err());
        assert!(file.find(&seen((0, 0)), 1, 100).is_err());
    }
}
