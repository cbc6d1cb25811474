//! What a mount has to show: as much as follows from what was asked and answered.
//!
//! What was there before is not known until it is met. A file's first bytes are known once it was
//! made here, or cut to nothing.

use std::collections::BTreeMap;

use super::kernel::Entry;

/// The bytes of a file that are looked at.
const LOOKED_AT: usize = 64 << 10;
pub const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const DIR: u32 = 4;
const FILE: u32 = 8;

/// Place of an object in the list of all.
pub type Object = usize;

#[derive(Default)]
pub struct Thing {
    /// Bits 12 to 15 of its mode.
    pub kind: u32,
    /// Size and first bytes; `None`: not known.
    pub contents: Option<(u64, Vec<u8>)>,
    /// Names in a directory: what they are of, `None`: nothing.
    pub names: BTreeMap<Vec<u8>, Option<Object>>,
    /// No name is there that is not known.
    pub is_complete: bool,
    /// Directories are gone once they are removed.
    pub is_gone: bool,
}

/// What the kernel knows of an inode.
pub struct Node {
    pub object: Object,
    pub lookups: u64,
    pub opens: u64,
}

/// See above.
pub struct Model {
    pub things: Vec<Thing>,
    pub nodes: BTreeMap<u64, Node>,
    /// What each number was of, in each generation.
    seen: BTreeMap<(u64, u64), Object>,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Is(Object),
    Absent,
    Unknown,
}

impl Model {
    pub fn new() -> Model {
        let root = Thing {
            kind: DIR,
            ..Thing::default()
        };
        let node = Node {
            object: 0,
            lookups: u64::MAX,
            opens: 0,
        };
        Model {
            things: vec![root],
            nodes: BTreeMap::from([(1, node)]),
            seen: BTreeMap::new(),
        }
    }

    fn add(&mut self, thing: Thing) -> Object {
        self.things.push(thing);
        self.things.len() - 1
    }

    /// A number that may be spoken of, of what nothing more is known.
    pub fn add_node(&mut self, entry: &Entry) {
        let kind = entry.mode >> 12;
        let object = self.add(Thing {
            kind,
            ..Thing::default()
        });
        let node = Node {
            object,
            lookups: 1,
            opens: 0,
        };
        self.nodes.insert(entry.node, node);
    }

    /// An error that a sound volume does not give.
    pub fn accept_error(error: i32, what: &str) {
        assert!(
            error != EIO && error != EROFS,
            "{what}: error {error} of a sound volume"
        );
    }

    pub fn known(&self, dir: u64, name: &[u8]) -> Known {
        let Some(node) = self.nodes.get(&dir) else {
            return Known::Unknown;
        };
        let thing = &self.things[node.object];
        match thing.names.get(name) {
            Some(Some(object)) => Known::Is(*object),
            Some(None) => Known::Absent,
            None if thing.is_complete => Known::Absent,
            None => Known::Unknown,
        }
    }

    pub fn set_name(&mut self, dir: u64, name: &[u8], object: Option<Object>) {
        let dir = self.nodes[&dir].object;
        self.things[dir].names.insert(name.to_vec(), object);
    }

    /// A name may be of anything from now on.
    pub fn lose_name(&mut self, dir: u64, name: &[u8]) {
        let dir = self.nodes[&dir].object;
        self.things[dir].names.remove(name);
        self.things[dir].is_complete = false;
    }

    /// The kernel is handed an entry, of an object if that is known.
    pub fn meet(&mut self, entry: &Entry, object: Option<Object>) -> Object {
        let held = self.nodes.get(&entry.node).map(|node| node.object);
        let object = match (held, object) {
            (Some(held), Some(object)) => {
                assert_eq!(held, object, "node {} is of another", entry.node);
                object
            }
            (Some(known), None) | (None, Some(known)) => known,
            (None, None) => match self.seen.get(&(entry.node, entry.generation)) {
                Some(object) => *object,
                None => self.add(Thing {
                    kind: entry.mode >> 12,
                    ..Thing::default()
                }),
            },
        };
        let others = self.nodes.iter();
        let twice = others.filter(|(node, at)| at.object == object && **node != entry.node);
        assert_eq!(twice.count(), 0, "an inode has two numbers at once");
        let node = self.nodes.entry(entry.node).or_insert(Node {
            object,
            lookups: 0,
            opens: 0,
        });
        node.lookups += u64::from(node.lookups < u64::MAX);
        let before = self.seen.insert((entry.node, entry.generation), object);
        assert!(
            before.is_none_or(|before| before == object),
            "a number and generation of two inodes"
        );
        self.check_attr(object, entry.size, entry.mode);
        object
    }

    pub fn check_attr(&self, object: Object, size: u64, mode: u32) {
        let thing = &self.things[object];
        assert_eq!(thing.kind, mode >> 12, "another kind than before");
        if let Some((due, _)) = &thing.contents {
            assert_eq!(size, *due, "another size than was written");
        }
    }

    pub fn looked_up(&mut self, dir: u64, name: &[u8], result: Result<Entry, i32>) {
        let known = self.known(dir, name);
        match result {
            Ok(entry) if entry.node != 0 => {
                assert_ne!(known, Known::Absent, "{name:?} was removed or never made");
                let object = match known {
                    Known::Is(object) => Some(object),
                    _ => None,
                };
                let object = self.meet(&entry, object);
                self.set_name(dir, name, Some(object));
            }
            Ok(_) | Err(ENOENT) => {
                let is_gone = self.things[self.nodes[&dir].object].is_gone;
                assert!(
                    is_gone || !matches!(known, Known::Is(_)),
                    "{name:?} is lost"
                );
            }
            Err(error) => Model::accept_error(error, "lookup"),
        }
    }

    /// A name is made, of what is new or has other names.
    pub fn made(
        &mut self,
        dir: u64,
        name: &[u8],
        object: Option<Object>,
        result: Result<Entry, i32>,
    ) -> Option<Object> {
        let known = self.known(dir, name);
        match result {
            Ok(entry) => {
                assert!(!matches!(known, Known::Is(_)), "{name:?} was there");
                let object = object.unwrap_or_else(|| {
                    let kind = entry.mode >> 12;
                    self.add(Thing {
                        kind,
                        contents: (kind == FILE).then(|| (0, Vec::new())),
                        is_complete: kind == DIR,
                        ..Thing::default()
                    })
                });
                self.meet(&entry, Some(object));
                self.set_name(dir, name, Some(object));
                Some(object)
            }
            Err(error) => {
                let is_gone = self.things[self.nodes[&dir].object].is_gone;
                assert!(
                    error != EEXIST || known != Known::Absent || is_gone,
                    "{name:?} is not there"
                );
                Model::accept_error(error, "a new name");
                None
            }
        }
    }

    pub fn removed(&mut self, dir: u64, name: &[u8], result: Result<(), i32>) {
        let known = self.known(dir, name);
        match result {
            Ok(()) => {
                assert_ne!(known, Known::Absent, "{name:?} was not there");
                if let Known::Is(object) = known
                    && self.things[object].kind == DIR
                {
                    let gone = &mut self.things[object];
                    let empty = gone.names.values().all(Option::is_none);
                    assert!(empty, "a directory with names in it is removed");
                    gone.is_gone = true;
                }
                self.set_name(dir, name, None);
            }
            Err(error) => {
                let is_gone = self.things[self.nodes[&dir].object].is_gone;
                let is_there = matches!(known, Known::Is(_)) && !is_gone;
                assert!(error != ENOENT || !is_there, "{name:?} is lost");
                Model::accept_error(error, "a removal");
            }
        }
    }

    pub fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), exchanges: bool) {
        let (a, b) = (self.known(from.0, from.1), self.known(to.0, to.1));
        assert_ne!(a, Known::Absent, "{:?} was not there", from.1);
        if a == b && a != Known::Unknown || from == to {
            return;
        }
        if let (Known::Is(object), false) = (b, exchanges)
            && self.things[object].kind == DIR
        {
            self.things[object].is_gone = true;
        }
        let mut set = |place: (u64, &[u8]), known| match known {
            Known::Is(object) => self.set_name(place.0, place.1, Some(object)),
            Known::Absent => self.set_name(place.0, place.1, None),
            Known::Unknown => self.lose_name(place.0, place.1),
        };
        set(to, a);
        match (exchanges, b) {
            (true, b) => set(from, b),
            // Both may be names of one file: then nothing has happened.
            (false, Known::Unknown) => {
                set(from, Known::Unknown);
                set(to, Known::Unknown);
            }
            (false, _) if a == Known::Unknown => set(from, Known::Unknown),
            (false, _) => set(from, Known::Absent),
        }
    }

    pub fn written(&mut self, object: Object, offset: u64, data: &[u8]) {
        let Some((size, bytes)) = &mut self.things[object].contents else {
            return;
        };
        let end = offset + data.len() as u64;
        if !data.is_empty() {
            *size = (*size).max(end);
        }
        bytes.resize((*size).min(LOOKED_AT as u64) as usize, 0);
        for (byte, at) in data.iter().zip(offset..) {
            if let Some(to) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
                *to = *byte;
            }
        }
    }

    pub fn sized(&mut self, object: Object, new: u64) {
        let thing = &mut self.things[object];
        if thing.kind != FILE {
            return;
        }
        if new == 0 {
            thing.contents = Some((0, Vec::new()));
        }
        if let Some((size, bytes)) = &mut thing.contents {
            *size = new;
            bytes.resize(new.min(LOOKED_AT as u64) as usize, 0);
        }
    }

    pub fn zeroed(&mut self, object: Object, offset: u64, len: u64, keep_size: bool) {
        let Some((size, bytes)) = &mut self.things[object].contents else {
            return;
        };
        let end = offset.saturating_add(len);
        if !keep_size {
            *size = (*size).max(end);
            bytes.resize((*size).min(LOOKED_AT as u64) as usize, 0);
        }
        let cut = |at: u64| at.min(bytes.len() as u64) as usize;
        let range = cut(offset)..cut(end);
        bytes[range].fill(0);
    }

    /// A change has come to an end in the middle, or nothing says how far.
    pub fn failed(&mut self, object: Object, error: i32) {
        Model::accept_error(error, "a change of contents");
        if error == ENOSPC {
            self.things[object].contents = None;
        }
    }

    pub fn read(&self, object: Object, offset: u64, asked: usize, read: &[u8]) {
        let Some((size, bytes)) = &self.things[object].contents else {
            return;
        };
        let due = size.saturating_sub(offset).min(asked as u64);
        assert_eq!(
            read.len() as u64,
            due,
            "bytes read of {size} from {offset} on"
        );
        let from = offset.min(bytes.len() as u64) as usize;
        let same = bytes[from..].iter().zip(read).all(|(a, b)| a == b);
        assert!(same, "what is read was not written, from {offset} on");
    }

    pub fn forgotten(&mut self, node: u64, count: u64) {
        if let Some(known) = self.nodes.get_mut(&node)
            && known.lookups < u64::MAX
        {
            known.lookups = known.lookups.saturating_sub(count);
            self.let_go(node);
        }
    }

    pub fn let_go(&mut self, node: u64) {
        let unused = |known: &Node| known.lookups == 0 && known.opens == 0;
        if self.nodes.get(&node).is_some_and(unused) {
            self.nodes.remove(&node);
        }
    }
}
