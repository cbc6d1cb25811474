//! Where the parts of the checkpoint lie: root blocks, second level, leaves.

use crate::checkpoint::take::ROUND_PAGES;
use crate::format::area::Head;
use crate::format::limits::{ANCHOR_PAGES, CHAIN};

/// Where the checkpoint's own pages are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    /// The first two good blocks, all ones for one that is missing, and the last block that may
    /// become one of them.
    pub roots: [u32; 2],
    pub last_root: u32,
    /// Blocks that were good at format time.
    pub good: u32,
    /// Pages of the root blocks that are claimed, and in which round: both root blocks are erased
    /// before their first page of a round, and never but for a new round.
    pub root_next: u32,
    pub round: u8,
    /// The rounds of which there are pages in the root blocks, whatever has
    /// left them; all ones: none.
    pub rounds: [u32; 2],
    /// Pages of each root block that are claimed, in the round that it shows.
    pub(crate) ends: [u8; 2],
    /// Root blocks that have no page of this round yet.
    pub stale: [bool; 2],
    /// The root block with the page that counts; if that is in both, the one that had it first.
    pub first: usize,
    /// That page ([`root_name`]).
    pub counts: u16,
    pub second: u32,
    pub second_next: u32,
    /// The second-level block that the root pages lead to, while `second` is being begun.
    pub old_second: u32,
    pub new_second: bool,
    /// Whether a program of the root page claimed last has been tried.
    pub(crate) root_tried: bool,
    /// The second-level block that the checkpoint found meant to be anchored in.
    pub meant: u32,
    pub leaf: Head,
    /// The leaves to come; all ones: none.
    pub next_leaves: [u32; 2],
    /// Leaves that lead from the anchored one to the current one.
    pub chain: [u32; CHAIN],
    pub chained: usize,
    /// The newest root page is in one of two root blocks only: the next checkpoint
    /// leads to one that is in both.
    pub root_alone: bool,
}

impl Anchor {
    pub fn new(roots: [u32; 2]) -> Self {
        Anchor {
            roots,
            last_root: 0,
            good: 0,
            root_next: ANCHOR_PAGES,
            round: 0,
            rounds: [u32::MAX; 2],
            ends: [0; 2],
            stale: [true; 2],
            first: 0,
            counts: 0,
            second: u32::MAX,
            second_next: ANCHOR_PAGES,
            old_second: u32::MAX,
            new_second: false,
            root_tried: false,
            meant: u32::MAX,
            leaf: Head::NONE,
            next_leaves: [u32::MAX; 2],
            chain: [0; CHAIN],
            chained: 0,
            root_alone: false,
        }
    }

    pub fn push_chain(&mut self, leaf: u32) {
        if self.chained < CHAIN {
            self.chain[self.chained] = leaf;
            self.chained += 1;
        }
    }

    /// Whether one root block is left. It is never erased, nor given up.
    pub fn has_one_root(&self) -> bool {
        self.roots[1] == u32::MAX
    }

    /// With one root block left its round goes on, whatever has been claimed of another.
    pub fn go_on_alone(&mut self) {
        if self.has_one_root() {
            (self.round, self.root_next) = (self.rounds[0] as u8, self.ends[0].into());
            self.stale[0] = false;
        }
    }

    /// At a mount: pages of the root blocks that are claimed, if they show another round than the
    /// newest checkpoint as well.
    pub fn load_ends(&mut self, programmed: [u32; 2]) {
        for (side, programmed) in programmed.into_iter().enumerate() {
            self.ends[side] = match programmed {
                _ if !self.stale[side] => self.root_next,
                0..=ROUND_PAGES => ROUND_PAGES,
                _ => ANCHOR_PAGES,
            } as u8;
        }
    }

    /// Claims a root page. A round begins when a root block is to be erased, also if that
    /// has been so before and was cut: so what shows the round of the newest checkpoint has
    /// not been left by an erase.
    pub(crate) fn claim_root(&mut self) {
        if !self.has_one_root() && (self.root_next >= ROUND_PAGES || self.is_stale()) {
            self.root_next = 0;
            self.stale = [true; 2];
            loop {
                self.round = self.round.wrapping_add(1);
                if !self.rounds.contains(&self.round.into()) {
                    break;
                }
            }
        }
        self.root_next += 1;
        self.root_tried = false;
        for side in 0..2 {
            if !self.stale[side] {
                self.ends[side] = self.root_next as u8;
            }
        }
    }

    /// Whether a root block is to be erased before its next page.
    pub(crate) fn is_stale(&self) -> bool {
        (0..2).any(|side| self.stale[side] && self.roots[side] != u32::MAX)
    }

    /// Forgets root blocks beyond those kept for roots.
    pub fn limit_roots(&mut self) {
        for root in &mut self.roots {
            if *root > self.last_root {
                *root = u32::MAX;
            }
        }
    }

    /// Whether a block holds something of the checkpoint now.
    pub fn is_written(&self, block: u32) -> bool {
        self.roots.contains(&block) || [self.second, self.leaf.block].contains(&block)
    }

    /// Whether a block belongs to the checkpoint.
    pub fn owns(&self, block: u32) -> bool {
        block <= self.last_root
            || [self.second, self.old_second, self.leaf.block].contains(&block)
            || self.next_leaves.contains(&block)
            || self.chain[..self.chained].contains(&block)
    }
}
