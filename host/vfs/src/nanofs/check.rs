//! The check of a Nano-FS volume, from its bytes alone and with no code of the file system: every
//! node of every file, every pointer, and every state in the bitmap.
//!
//! The volume must have been mounted by the file system since it was last in use, so that nothing
//! is left to be rolled forward.

use std::collections::HashMap;

const BLOCK: usize = 512;
const NODE_DATA: u32 = 500;
const MAPPED: u32 = 2000;
const NUMBER: u32 = (1 << 23) - 1;
const HEADER_INIT: u32 = b'H' as u32;
const META_INIT: u32 = b'M' as u32;
const FILES_MAX: u32 = 4096;
const BLOCKS_MAX: u32 = 1 << 23;
const AWAY: u32 = 1 << 31;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The block concerned; none where no place can be given.
    pub block: Option<u32>,
    /// What is wrong.
    pub what: String,
}

/// A file as its blocks tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Nodes.
    pub nodes: u32,
    /// Runs of nodes in a row on the medium, in the order of the file.
    pub runs: u32,
    /// Nodes that are written in another block than their neighbours say.
    pub copies: u32,
    /// Where each node is, and what its check starts from.
    pub seals: Vec<(u32, u32)>,
}

/// What a check has seen.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Everything wrong.
    pub findings: Vec<Finding>,
    /// The files.
    pub files: Vec<File>,
    /// Blocks of the volume.
    pub blocks: u32,
    /// Files that it was made for.
    pub files_max: u32,
    /// Its key.
    pub key: u32,
    /// Blocks of data.
    pub data_blocks: u32,
    /// Of them free, used, dirty and reserved, as the bitmap says.
    pub states: [u32; 4],
    /// Blocks of deleted data that are not dirty yet.
    pub trash: u32,
    /// Blocks that the bitmap is wrong about, in their order, and the state that they must be in.
    /// Where a node is damaged none that no file seems to name: the nodes before it are not known.
    pub wrong: Vec<(u32, u8)>,
}

type Words = [u32; BLOCK / 4];

/// Sets the check of a block, which starts from `init`, to what it must be: for tests that put
/// nonsense into sound blocks.
pub fn seal(block: &mut [u8; BLOCK], init: u32) {
    let mut words = to_words(block);
    for word in &mut words[..3] {
        *word &= NUMBER;
    }
    let check = differs(&words, init);
    for (i, word) in words[..3].iter_mut().enumerate() {
        *word |= (check >> (9 * i)) << 23;
    }
    for (bytes, word) in block.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The blocks of a volume that are sealed, and what the check of each starts from.
pub fn seals(read: Read<'_>) -> Vec<(u32, u32)> {
    let mut check = Check::new(read);
    let Ok(slots) = check.slots() else {
        return Vec::new();
    };
    check.bitmap();
    let (files, maps) = (check.out.files_max, check.maps);
    let mut seals = vec![(0, META_INIT)];
    seals.extend((1..files + 2).map(|slot| (slot, HEADER_INIT)));
    for at in 1..=maps {
        let init = check.init(0, at);
        seals.extend([0, 1].map(|copy| (3 * files + 2 * at + copy, init)));
    }
    for head in &slots {
        check.file(head);
        let init = check.init(head[14], head[4]) ^ !head[7];
        let block = 2 + files + 2 * (head[0] & NUMBER);
        seals.extend([(block, init), (block + 1, init)]);
    }
    seals.retain(|&(block, init)| check.valid(block, init).is_some());
    for file in &check.out.files {
        seals.extend(&file.seals);
    }
    seals
}

fn to_words(block: &[u8; BLOCK]) -> Words {
    let mut words = [0; BLOCK / 4];
    for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

/// x^27 + x^10 + x^8 + x^7 + 1, reflected, without its highest term.
const POLYNOMIAL: u32 = 1 << 26 | 1 << 19 | 1 << 18 | 1 << 16;

/// The CRC of a byte.
const BYTES: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 != 0 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// How the check of a block differs from what it must be.
fn differs(words: &Words, init: u32) -> u32 {
    let mut crc = init;
    for (i, &word) in words.iter().enumerate() {
        crc ^= if i < 3 { word & NUMBER } else { word };
        for _ in 0..4 {
            crc = (crc >> 8) ^ BYTES[(crc & 0xff) as usize];
        }
    }
    let check = words[0] >> 23 | words[1] >> 23 << 9 | words[2] >> 23 << 18;
    crc ^ check
}

/// The roots of a list, the oldest first: where each is, and the nodes in its tree.
fn roots(head: &Words) -> Vec<(u32, u32)> {
    let mut left = head[4].min(BLOCKS_MAX);
    let mut roots = Vec::new();
    for root in &head[40..64] {
        if left == 0 {
            break;
        }
        let size = (1 << (left + 1).ilog2()) - 1;
        left -= size;
        roots.push((*root, size));
    }
    roots
}

/// Reads a block of the medium; `None` when it cannot be read.
pub type Read<'a> = &'a mut dyn FnMut(u32) -> Option<[u8; BLOCK]>;

struct Check<'a> {
    read: Read<'a>,
    out: Checked,
    salt: u32,
    data: u32,
    maps: u32,
    states: Vec<u8>,
    /// Who names a block, and as what: the states that it may be in.
    named: HashMap<u32, &'static [u8]>,
    /// A list could not be followed to its end.
    is_partial: bool,
}

const USED: &[u8] = &[1];
const RESERVED: &[u8] = &[3];
/// On its way to being dirty.
const TRASH: &[u8] = &[1, 2, 3];

impl<'a> Check<'a> {
    fn new(read: Read<'a>) -> Check<'a> {
        Check {
            read,
            out: Checked::default(),
            salt: 0,
            data: 0,
            maps: 0,
            states: Vec::new(),
            named: HashMap::new(),
            is_partial: false,
        }
    }
}

impl Check<'_> {
    fn find(&mut self, block: impl Into<Option<u32>>, what: impl Into<String>) {
        let (block, what) = (block.into(), what.into());
        self.out.findings.push(Finding { block, what });
    }

    fn words(&mut self, block: u32) -> Option<Words> {
        (self.read)(block).map(|block| to_words(&block))
    }

    fn valid(&mut self, block: u32, init: u32) -> Option<Words> {
        self.words(block).filter(|words| differs(words, init) == 0)
    }

    /// A node, of whatever epoch.
    fn node(&mut self, block: u32, init: u32) -> Option<Words> {
        let words = self.words(block)?;
        (differs(&words, init) & !0x1ff == 0).then_some(words)
    }

    fn init(&self, uid: u32, index: u32) -> u32 {
        let mixed = (uid.rotate_right(10) ^ index).wrapping_mul(0x9e37_79b1);
        mixed.rotate_left(16) ^ uid ^ self.salt
    }

    /// The newer of two blocks that are written in turn.
    fn newer(&mut self, block: u32, init: u32) -> Option<Words> {
        let [a, b] = [block, block + 1].map(|block| self.valid(block, init));
        match (a, b) {
            (Some(a), Some(b)) => {
                let ahead = (a[2] & NUMBER).wrapping_sub(b[2] & NUMBER) & NUMBER;
                Some(if ahead <= NUMBER / 2 { a } else { b })
            }
            (a, b) => a.or(b),
        }
    }

    /// A block is named once, and in a state that suits.
    fn name(&mut self, block: u32, states: &'static [u8]) {
        if block < self.data || block >= self.out.blocks {
            self.find(block, "is named and no block of data");
        } else if self.named.insert(block, states).is_some() {
            self.find(block, "is named twice");
        }
    }
}

/// The key of a volume, for its mount; none if there is no volume.
pub fn key(read: Read<'_>) -> Option<u32> {
    let mut check = Check::new(read);
    // Of the three blocks a cut can damage one.
    let headers = [(0, META_INIT), (1, HEADER_INIT), (2, HEADER_INIT)];
    let head = headers
        .into_iter()
        .find_map(|(block, init)| check.valid(block, init))?;
    (head[17] == u32::from_le_bytes(*b"NaFS")).then_some(head[19])
}

/// Checks a volume.
///
/// # Errors
/// There is none, or nothing can be said of it.
pub fn check(read: Read<'_>) -> Result<Checked, String> {
    let mut check = Check::new(read);
    let slots = check.slots()?;
    check.bitmap();
    for head in slots {
        check.file(&head);
    }
    check.compare();
    Ok(check.out)
}

impl Check<'_> {
    /// The headers that are current.
    fn slots(&mut self) -> Result<Vec<Words>, String> {
        let first = [1, 2].into_iter().find_map(|b| self.valid(b, HEADER_INIT));
        let Some(first) = first else {
            return Err("no header".into());
        };
        let (blocks, files) = (first[20], first[21]);
        if !(1..=FILES_MAX).contains(&files) || blocks > BLOCKS_MAX {
            return Err("the header's figures make no volume".into());
        }
        if first[17] != u32::from_le_bytes(*b"NaFS") || first[18] != 1 {
            return Err("not a volume of this version".into());
        }
        self.out.blocks = blocks;
        self.out.files_max = files;
        self.out.key = first[19];
        self.salt = first[22];
        self.maps = blocks.saturating_sub(2 + 3 * files).div_ceil(MAPPED + 2);
        self.data = 2 + 3 * files + 2 * self.maps;
        if self.data >= blocks {
            return Err("the header's figures make no volume".into());
        }
        self.out.data_blocks = blocks - self.data;
        match self.valid(0, META_INIT) {
            Some(meta) if meta[17..23] == first[17..23] => {}
            _ => self.find(0, "the metadata block is damaged"),
        }
        let salt = self.salt;
        let mut slots: Vec<(u32, Words)> = (1..files + 2)
            .filter_map(|slot| Some((slot, self.valid(slot, HEADER_INIT)?)))
            .filter(|(_, head)| head[22] == salt)
            .collect();
        let Some((_, newest)) = slots.iter().max_by_key(|(_, head)| head[15]) else {
            return Err("no header".into());
        };
        let (spare, end) = (newest[1] & NUMBER, newest[2] & NUMBER);
        slots.retain(|(slot, _)| *slot != spare && *slot < end);
        for slot in 1..end {
            if slot != spare && !slots.iter().any(|(s, _)| *s == slot) {
                self.find(slot, "a damaged header");
            }
        }
        let mut ids: Vec<u32> = slots.iter().map(|(_, head)| head[0] & NUMBER).collect();
        ids.sort_unstable();
        if ids.iter().enumerate().any(|(i, id)| i as u32 != *id) {
            self.find(None, format!("the ids are {ids:?}"));
        }
        Ok(slots.into_iter().map(|(_, head)| head).collect())
    }

    fn bitmap(&mut self) {
        for at in 1..=self.maps {
            let block = 3 * self.out.files_max + 2 * at;
            let init = self.init(0, at);
            let Some(words) = self.newer(block, init) else {
                self.find(block, "a damaged block of the bitmap");
                self.states.extend([9; MAPPED as usize]);
                continue;
            };
            for i in 0..MAPPED as usize {
                self.states
                    .push((words[3 + i / 16] >> (i % 16 * 2) & 3) as u8);
            }
        }
        let rest = self.states.split_off(self.out.data_blocks as usize);
        if rest.iter().any(|&state| state != 0) {
            self.find(None, "the bitmap tells of blocks behind the last one");
        }
        for &state in self.states.iter().filter(|&&state| state < 4) {
            self.out.states[state as usize] += 1;
        }
    }

    /// Every block is either named, in a state that suits, or free or dirty.
    fn compare(&mut self) {
        for i in 0..self.states.len() {
            let (block, state) = (self.data + i as u32, self.states[i]);
            let fits = match self.named.get(&block) {
                Some(states) => states.contains(&state),
                None => state == 0 || state == 2 || self.is_partial,
            };
            if !fits {
                let suits = self.named.get(&block).map_or(2, |states| states[0]);
                self.out.wrong.push((block, suits));
            }
            if !fits && state < 4 {
                let called = ["free", "used", "dirty", "reserved"][state as usize];
                let who = match self.named.contains_key(&block) {
                    true => "a file names it",
                    false => "no file names it",
                };
                self.find(block, format!("the bitmap says {called}, and {who}"));
            }
        }
    }

    fn file(&mut self, head: &Words) {
        let (flags, count, uid) = (head[3], head[4], head[14]);
        if flags & 4 != 0 {
            self.is_partial = true;
            return self.find(None, "a file is open: the volume was not mounted since");
        }
        self.trash(head);
        if flags & 1 == 0 {
            return;
        }
        let name_len = (head[16] as usize).min(64);
        let bytes: Vec<u8> = head[23..39].iter().flat_map(|w| w.to_le_bytes()).collect();
        let name = bytes[..name_len].to_vec();
        let shown = String::from_utf8_lossy(&name).into_owned();
        // Nodes, the newest first: where each is, and where its neighbours say.
        let mut nodes: Vec<(Words, u32)> = Vec::new();
        let mut seals = Vec::new();
        let mut home = roots(head).last().map_or(0, |root| root.0);
        for index in (0..count).rev() {
            let place = self.copy_of(head, index, home);
            let init = self.init(uid, index);
            let Some(node) = self.node(place, init) else {
                self.find(place, format!("{shown}: node {index} is damaged"));
                self.is_partial = true;
                return;
            };
            self.name(home, USED);
            nodes.push((node, home));
            seals.push((place, init));
            home = node[0] & NUMBER;
        }
        if home != 0 {
            self.find(home, format!("{shown}: something is before the first node"));
        }
        nodes.reverse();
        seals.reverse();
        self.pointers(head, &nodes, &shown);
        if head[6] != 0 {
            self.name(head[6], RESERVED);
        }
        let used = self.tail(head, &shown);
        let runs = nodes.windows(2).filter(|w| w[0].1 + 1 != w[1].1).count();
        self.out.files.push(File {
            name,
            size: u64::from(count) * u64::from(NODE_DATA) + u64::from(used),
            nodes: count,
            runs: runs as u32 + u32::from(count > 0),
            copies: head[9] / 3,
            seals,
        });
    }

    /// Where a node is; its second block is named.
    fn copy_of(&mut self, head: &Words, index: u32, home: u32) -> u32 {
        let copies = (head[9] as usize / 3).min(21);
        let Some(i) = (0..copies).find(|&i| head[64 + 3 * i] & !AWAY == index) else {
            return home;
        };
        let (at_home, second) = (head[65 + 3 * i], head[66 + 3 * i]);
        if at_home != home {
            self.find(
                home,
                format!("the copy of node {index} is of block {at_home}"),
            );
        }
        self.name(second, TRASH);
        match head[64 + 3 * i] & AWAY != 0 {
            true => second,
            false => at_home,
        }
    }

    /// All three pointers of each node, and the roots.
    fn pointers(&mut self, head: &Words, nodes: &[(Words, u32)], shown: &str) {
        let mut roots: Vec<(u32, u32)> = Vec::new();
        for (index, (node, home)) in nodes.iter().enumerate() {
            let prev = roots.last().map_or(0, |root| root.0);
            let joins = matches!(roots[..], [.., (_, a), (_, b)] if a == b);
            let mut size = 1;
            let mut jump = prev;
            if joins {
                size = 2 * roots[roots.len() - 1].1 + 1;
                roots.truncate(roots.len() - 2);
                jump = roots.last().map_or(0, |root| root.0);
            }
            roots.push((*home, size));
            if node[0] & NUMBER != prev || node[1] & NUMBER != jump {
                self.find(*home, format!("{shown}: node {index} points back wrongly"));
            }
            let next = nodes.get(index + 1).map_or(head[6], |next| next.1);
            if node[2] & NUMBER != next {
                let to = node[2] & NUMBER;
                self.find(
                    *home,
                    format!("{shown}: node {index} points on to {to}, not {next}"),
                );
            }
        }
        let held = self::roots(head);
        if held != roots {
            self.find(
                None,
                format!("{shown}: the roots are {held:?}, not {roots:?}"),
            );
        }
    }

    /// Bytes in the tail.
    fn tail(&mut self, head: &Words, shown: &str) -> u32 {
        let init = self.init(head[14], head[4]) ^ !head[7];
        let block = 2 + self.out.files_max + 2 * (head[0] & NUMBER);
        let found = self.newer(block, init).map_or(0, |tail| tail[1] & NUMBER);
        if found != head[5] {
            let held = head[5];
            self.find(
                block,
                format!("{shown}: a tail of {found} bytes, not {held}"),
            );
        }
        found
    }

    /// What is to be given up.
    fn trash(&mut self, head: &Words) {
        let (uid, top, count) = (head[14], head[10], head[11]);
        let before = self.named.len();
        let mut block = head[12];
        for index in (top.saturating_sub(count)..top).rev() {
            let init = self.init(uid, index);
            let Some(node) = self.node(block, init) else {
                self.find(
                    block,
                    format!("node {index} of what is to be given up is damaged"),
                );
                self.is_partial = true;
                break;
            };
            self.name(block, TRASH);
            block = node[0] & NUMBER;
        }
        if head[13] != 0 {
            self.name(head[13], TRASH);
        }
        self.out.trash += (self.named.len() - before) as u32;
    }
}
