//! What the kernel hands over again: the last page of a file that grows.
//!
//! A kernel that gathers writes hands over whole pages of its own, the last one up to the end of
//! the file. For an append of 100 bytes that is all that this page holds, and pages of flash that
//! have not changed would be written once more. So what was handed over of such a page is kept
//! here, for the files written to last, and the next write begins where it differs.

use std::collections::VecDeque;

use flashkit_vfs::Ino;
use nix::unistd::{SysconfVar, sysconf};

/// Files that are remembered: logs that grow at the same time. To ask the file system what another
/// file holds would cost more reads than the programs that it saves are worth.
const FILES: usize = 64;

/// What a file holds from the start of a page to the end of the file.
struct Tail {
    ino: Ino,
    start: u64,
    bytes: Vec<u8>,
}

/// The last pages of files, the one written last in front.
pub(crate) struct Tails {
    tails: VecDeque<Tail>,
    /// Bytes of the kernel's pages.
    page: u64,
}

impl Tails {
    pub(crate) fn new() -> Tails {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        Tails {
            tails: VecDeque::new(),
            page: page.and_then(|page| page.try_into().ok()).unwrap_or(4096),
        }
    }

    /// A file is about to be written: how many of the first bytes it is known to hold already. What
    /// the write reaches is not known any more, until [`Tails::written`].
    pub(crate) fn writes(&mut self, ino: Ino, offset: u64, data: &[u8]) -> usize {
        let end = offset.saturating_add(data.len() as u64);
        let Some(at) = self.tails.iter().position(|tail| tail.ino == ino) else {
            return 0;
        };
        let tail = &self.tails[at];
        if end <= tail.start {
            return 0;
        }
        let same = |(a, b): &(&u8, &u8)| a == b;
        let known = match tail.start == offset {
            true => tail.bytes.iter().zip(data).take_while(same).count(),
            false => 0,
        };
        self.tails.remove(at);
        known
    }

    /// The kernel has handed over what it gathered, and the file has it.
    pub(crate) fn written(&mut self, ino: Ino, offset: u64, data: &[u8]) {
        let end = offset.saturating_add(data.len() as u64);
        let start = end - end % self.page;
        if start == end || start < offset {
            return;
        }
        self.forget(ino);
        self.tails.truncate(FILES - 1);
        self.tails.push_front(Tail {
            ino,
            start,
            bytes: data[(start - offset) as usize..].to_vec(),
        });
    }

    /// A file is not what it was.
    pub(crate) fn forget(&mut self, ino: Ino) {
        self.tails.retain(|tail| tail.ino != ino);
    }

    /// No file may be what it was.
    pub(crate) fn clear(&mut self) {
        self.tails.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tails() -> Tails {
        Tails {
            tails: VecDeque::new(),
            page: 4096,
        }
    }

    #[test]
    fn what_is_handed_over_again_is_known() {
        let mut tails = tails();
        let page: Vec<u8> = (0..4096).map(|i| (i % 251) as u8).collect();
        assert_eq!(tails.writes(7, 8192, &page[..100]), 0);
        tails.written(7, 8192, &page[..100]);
        assert_eq!(tails.writes(8, 8192, &page[..200]), 0, "another file");
        assert_eq!(tails.writes(7, 0, &page), 0, "before it");
        assert_eq!(tails.writes(7, 8192, &page[..200]), 100);
        assert_eq!(tails.writes(7, 8192, &page[..200]), 0, "not written since");
        tails.written(7, 8192, &page[..200]);
        let mut changed = page.clone();
        changed[42] = 255;
        assert_eq!(tails.writes(7, 8192, &changed), 42);
        tails.written(7, 8192, &changed);
        assert_eq!(tails.writes(7, 8192, &changed), 0, "a whole page");
    }

    #[test]
    fn what_may_have_changed_is_not() {
        let data = [1; 5000];
        for what in ["a piece of it", "from before it", "forgotten", "all"] {
            let mut tails = tails();
            tails.written(7, 0, &data);
            match what {
                "a piece of it" => assert_eq!(tails.writes(7, 4500, &[2]), 0),
                "from before it" => assert_eq!(tails.writes(7, 4000, &[2; 200]), 0),
                "forgotten" => tails.forget(7),
                _ => tails.clear(),
            }
            assert_eq!(tails.writes(7, 4096, &data[4096..]), 0, "{what}");
        }
    }

    #[test]
    fn the_files_written_last_are_remembered() {
        let mut tails = tails();
        for ino in 0..2 * FILES as u64 {
            tails.written(ino, 0, &[5; 10]);
        }
        assert_eq!(tails.tails.len(), FILES);
        assert_eq!(tails.writes(FILES as u64 - 1, 0, &[5; 11]), 0);
        assert_eq!(tails.writes(FILES as u64, 0, &[5; 11]), 10);
    }
}
