//! What anchors say: which root page, second-level page and leaf count.
//!
//! Values of pages that were read, whoever reads them.

use crate::format::area::Head;
use crate::format::fields::get_u32;
use crate::format::header::{self, HEADER, Kind};
use crate::format::limits::ANCHOR_PAGES;
use flashkit_nand::Geometry;

/// What the root pages say.
pub(crate) struct Root {
    /// The second-level block that the newest leads to.
    pub(crate) second: u32,
    /// That which the newest page leads to that leads to another; all ones: none.
    pub(crate) before: u32,
    pub(crate) seq: u64,
    pub(crate) blocks: [RootBlock; 2],
    /// The root block that has the newest.
    pub(crate) side: usize,
    /// The newest is in both root blocks.
    pub(crate) twice: bool,
}

/// What is seen in a root block.
#[derive(Clone, Copy, Default)]
pub(crate) struct RootBlock {
    /// The newest page: its sequence number, index and second-level block.
    pub(crate) newest: Option<(u64, u32, u32)>,
    /// What checkpoints call it.
    pub(crate) name: u16,
    pub(crate) round: Option<u32>,
    /// Where what was programmed ends: of a page whose program was cut no checkpoint may be
    /// left that has claimed it.
    pub(crate) end: u32,
}

/// What the second-level block says.
pub(crate) struct Second {
    /// The numbers of its oldest and its newest page, and the leaf that the newest leads to.
    pub(crate) oldest: u64,
    pub(crate) seq: u64,
    pub(crate) leaf: u32,
    /// The leaf that the newest page leads to which leads to another; all ones: none.
    pub(crate) before: u32,
    /// The newest page cannot fail any more: there is something behind it, or one before
    /// it leads to the same leaf.
    pub(crate) firm: bool,
    /// It is the only one that leads there.
    pub(crate) alone: bool,
}

/// Blocks that are named as leaves to come, each once.
pub(crate) struct Names {
    pub(crate) list: [u32; 12],
    pub(crate) len: usize,
}

/// A checkpoint: its place, its number, and the leaves to come that it names.
pub(crate) type Found = (Head, u64, [u32; 2]);

/// The number of an anchor page, and the block that it leads to.
pub(crate) type Lead = Option<(u64, u32)>;

impl Root {
    /// Whether the newest page cannot fail any more: it is in both blocks, or the other has been
    /// written behind it. Or there is no other to count. If not, what it leads to may show that it
    /// is complete ([`Second::is_behind`]).
    pub(crate) fn is_complete(&self) -> bool {
        let [own, other] = self.by_age();
        let index = own.newest.map_or(0, |page| page.1);
        self.is_one_lead() || other.round == own.round && other.end > index
    }

    /// Whether there is no choice between the blocks.
    pub(crate) fn is_one_lead(&self) -> bool {
        self.twice || self.is_in_one()
    }

    /// Whether only one block has pages that can be read.
    pub(crate) fn is_in_one(&self) -> bool {
        self.by_age()[1].newest.is_none()
    }

    /// The root block with the newest page, and the other.
    fn by_age(&self) -> [RootBlock; 2] {
        let [one, two] = self.blocks;
        if self.side == 0 {
            [one, two]
        } else {
            [two, one]
        }
    }

    /// What checkpoints call the newest root page, and that of the other block.
    pub(crate) fn names(&self) -> [u16; 2] {
        let [newest, other] = self.by_age();
        [newest.name, other.name]
    }

    /// The second-level blocks to look in, the first first, if the newest root page `counts`.
    pub(crate) fn candidates(&self, counts: bool) -> [u32; 2] {
        match self.by_age()[1].newest {
            _ if self.twice => [self.second, u32::MAX],
            Some((.., second)) if counts => [self.second, second],
            Some((.., second)) => [second, self.second],
            None => [self.second, self.before],
        }
    }
}

impl Second {
    /// The leaf that counts, and that which counts where there is no checkpoint.
    pub(crate) fn leaves(&self) -> [u32; 2] {
        match (self.firm, self.alone) {
            (true, false) => [self.leaf, u32::MAX],
            (true, true) => [self.leaf, self.before],
            _ if self.before == u32::MAX => [self.leaf, u32::MAX],
            _ => [self.before, self.leaf],
        }
    }

    /// Whether it has pages of before the root page with this number and of after it.
    pub(crate) fn is_behind(&self, root: u64) -> bool {
        self.oldest < root && root < self.seq
    }
}

impl Names {
    pub(crate) fn new(names: [u32; 2]) -> Names {
        let mut all = Names {
            list: [0; 12],
            len: 0,
        };
        all.add(names);
        all
    }

    pub(crate) fn get(&self, i: usize) -> Option<u32> {
        self.list.get(..self.len)?.get(i).copied()
    }

    pub(crate) fn add(&mut self, names: [u32; 2]) {
        for name in names {
            let listed = self.list.iter().take(self.len);
            if listed.into_iter().all(|&other| other != name)
                && let Some(place) = self.list.get_mut(self.len)
            {
                *place = name;
                self.len += 1;
            }
        }
    }
}

/// Takes an anchor for the newest, if it is: its number and the block that it leads to. Keeps the
/// newest of those that lead to another block.
pub(crate) fn note_newest(newest: &mut Lead, before: &mut Lead, page: Lead) {
    let leads = |lead: Lead| lead.map(|page| page.1);
    if page > *newest {
        if leads(page) != leads(*newest) {
            *before = *newest;
        }
        *newest = page;
    } else if leads(page) != leads(*newest) {
        *before = page.max(*before);
    }
}

/// What is seen of the pages of a second-level block, one after another.
pub(crate) struct SecondPages {
    newest: Lead,
    before: Lead,
    oldest: u64,
    newest_at: u32,
    firm: bool,
    alone: bool,
}

impl Default for SecondPages {
    fn default() -> Self {
        SecondPages {
            newest: None,
            before: None,
            oldest: u64::MAX,
            newest_at: ANCHOR_PAGES,
            firm: false,
            alone: false,
        }
    }
}

impl SecondPages {
    /// Takes the page of an index, as it was read, of this kind if it is a metadata page.
    pub(crate) fn note(&mut self, geo: &Geometry, index: u32, kind: Option<Kind>, bytes: &[u8]) {
        let leaf = get_u32(bytes, HEADER);
        let page = (kind == Some(Kind::Second) && leaf < geo.blocks())
            .then(|| (header::number(bytes), leaf));
        // They are written in twos.
        let is_second = index % 2 == 1;
        if page > self.newest {
            self.newest_at = index;
            let again = self.newest.is_some_and(|page| page.1 == leaf);
            (self.firm, self.alone) = (is_second || again && self.firm, !again);
        } else if is_second && self.newest_at + 1 == index {
            self.firm |= !header::is_blank(bytes);
        }
        self.oldest = self.oldest.min(page.map_or(u64::MAX, |page| page.0));
        note_newest(&mut self.newest, &mut self.before, page);
    }

    /// What they say, if any of them says something.
    pub(crate) fn read(self) -> Option<Second> {
        self.newest.map(|(seq, leaf)| Second {
            oldest: self.oldest,
            seq,
            leaf,
            before: self.before.map_or(u32::MAX, |page| page.1),
            firm: self.firm,
            alone: self.alone,
        })
    }
}
