//! What goes on for a while: some kinds of operations and not others, work in one directory, pages
//! that cannot be read. By chance alone thirty removals hardly follow each other, nor thirty new
//! names then.

use super::{Stop, Work};
use crate::history::look::Medium;
use crate::history::plan::any_size;
use crate::history::unread::Unread;

/// Operations that it goes on for, at most.
const LONGEST: u64 = 256;
/// The same of pages that cannot be read, and in how many operations that begins once.
const UNREAD_LONGEST: u64 = 64;
const UNREAD: u64 = 200;

/// See the module's text.
#[derive(Default)]
pub(super) struct Turn {
    left: u64,
    /// As of `Kind::weights`.
    pub weights: [u64; 22],
    /// It is all in one directory.
    pub stays: bool,
    unread: u64,
    /// Pages could not be read in this session.
    pub shaken: bool,
}

impl Work<'_, '_, '_> {
    fn chip(&mut self) -> &mut Unread {
        let nand = self.fs.volume().nand_mut();
        nand.get_mut::<Medium>().inner_mut()
    }

    /// Before an operation.
    pub(super) fn turn(&mut self) {
        if self.turn.left == 0 {
            self.turn.left = any_size(self.rng, LONGEST);
            self.draw_turn();
        }
        self.turn.left -= 1;
        match self.turn.unread {
            0 if self.plan.unread && !self.calm && self.rng.one_in(UNREAD) => {
                (self.turn.unread, self.turn.shaken) = (any_size(self.rng, UNREAD_LONGEST), true);
                let mut rng = flashkit_sim::Rng::new(self.rng.next_u64());
                self.chip().begin(&mut rng);
            }
            0 => {}
            1 => self.read_all_again(),
            _ => self.turn.unread -= 1,
        }
    }

    fn draw_turn(&mut self) {
        self.turn.weights = self.plan.kind.weights();
        self.turn.stays = self.rng.one_in(3);
        if self.rng.one_in(2) {
            return;
        }
        let most = 1 + self.rng.below(4);
        for weight in &mut self.turn.weights {
            if self.rng.below(4) >= most {
                *weight = 0;
            }
        }
        if self.turn.weights.iter().sum::<u64>() == 0 {
            self.turn.weights = self.plan.kind.weights();
        }
    }

    /// Whether pages cannot be read just now.
    pub(super) fn is_unread(&self) -> bool {
        self.turn.unread > 0
    }

    pub fn read_all_again(&mut self) {
        self.turn.unread = 0;
        self.chip().end();
    }

    /// After a call that has failed as pages could not be read: all can be read again, and what can
    /// be is made durable, or not. Then the power goes.
    pub fn end_shaken(&mut self) {
        self.read_all_again();
        if self.rng.one_in(2) {
            let _ = flashkit_vfs::FileSystem::sync(self.fs);
        }
        self.chip().chip_mut().cut_now();
    }

    /// Whether pages could not be read in this session.
    pub fn is_shaken(&self) -> bool {
        self.turn.shaken
    }

    /// How a session ends that does not go on.
    pub(super) fn failed(&self, what: String) -> Stop {
        match self.turn.shaken {
            true => Stop::Shaken,
            false => Stop::Bad(what),
        }
    }
}
