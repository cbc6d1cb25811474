//! The last of some bytes, which are used for something else than the others.

use core::ops::Range;

/// How many they are, and can become.
pub(crate) struct Tail {
    len: u16,
    pub most: u16,
}

impl Tail {
    pub fn new(most: u16) -> Self {
        Tail { len: 0, most }
    }

    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// By how many they can grow.
    pub fn room(&self) -> usize {
        self.most.saturating_sub(self.len).into()
    }

    pub fn of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[bytes.len() - self.len()..]
    }

    pub fn of_mut<'a>(&self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let from = bytes.len() - self.len();
        &mut bytes[from..]
    }

    /// So many more come before them. `false` if there is no room.
    pub fn grow(&mut self, n: usize) -> bool {
        let has_room = n <= self.room();
        if has_room {
            self.len += n as u16;
        }
        has_room
    }

    /// Takes some out, by their place among them.
    pub fn remove(&mut self, bytes: &mut [u8], range: Range<usize>) {
        let from = bytes.len() - self.len();
        let n = range.len();
        bytes.copy_within(from..from + range.start, from + n);
        self.len -= n as u16;
    }
}
