//! Whether new files of late were removed soon.
//!
//! A new file that is written when it is closed costs its pages and one for its inode, which is
//! still at hand. One that is held back costs the inode's page once more, if it lives; if it is
//! removed before the next commit, it costs that page alone. So files are held back where some of
//! those since the commit before the last went in this time.

use std::collections::VecDeque;

use flashkit_vfs::Ino;

/// One of so many has to go for others to be held back, and not less than [`GONE_MIN`].
const SHARE: usize = 8;
const GONE_MIN: usize = 2;

/// New files that have been closed since the last commit, as many as could be held back.
#[derive(Default)]
pub(super) struct Young {
    /// With their bytes, the oldest first.
    files: VecDeque<(Ino, usize)>,
    bytes: usize,
    /// How many have been closed since the last commit, and how many of these removed.
    closed: usize,
    gone: usize,
    /// What there was to expect at the last commit.
    went_soon: bool,
}

impl Young {
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// A new file has been closed.
    pub(super) fn add(&mut self, ino: Ino, bytes: usize, bytes_max: usize) {
        self.closed += 1;
        self.files.push_back((ino, bytes));
        self.bytes += bytes;
        while self.bytes > bytes_max {
            let (_, bytes) = self.files.pop_front().unwrap_or_default();
            self.bytes -= bytes;
        }
    }

    /// A file is removed.
    pub(super) fn remove(&mut self, ino: Ino) {
        if let Some(at) = self.files.iter().rposition(|(young, _)| *young == ino) {
            let (_, bytes) = self.files.remove(at).unwrap_or_default();
            self.bytes -= bytes;
            self.gone += 1;
        }
    }

    /// Everything has been made durable.
    pub(super) fn committed(&mut self) {
        *self = Young {
            went_soon: self.go_now(),
            ..Young::default()
        };
    }

    /// Whether the next may be expected to go soon.
    pub(super) fn go_soon(&self) -> bool {
        self.went_soon || self.go_now()
    }

    fn go_now(&self) -> bool {
        self.gone >= GONE_MIN && self.gone * SHARE >= self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_expected_to_go_where_some_went() {
        let mut young = Young::default();
        for ino in 0..100 {
            young.add(ino, 10, 500);
        }
        assert_eq!((young.files.len(), young.bytes), (50, 500));
        assert!(!young.go_soon(), "none has gone");
        for ino in 0..62 {
            young.remove(ino);
        }
        assert!(
            !young.go_soon(),
            "too few of those that could have been held"
        );
        young.remove(62);
        assert!(young.go_soon());
        young.committed();
        assert!(
            young.is_empty() && young.go_soon(),
            "no file has stayed since"
        );
        young.remove(70);
        young.committed();
        assert!(!young.go_soon(), "none has gone since the last commit");
    }
}
