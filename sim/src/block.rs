//! The state of one erase block and of its pages.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

/// What a page answers when it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageState {
    /// Erased and never attempted since.
    Blank,
    /// Holds its bytes.
    Written,
    /// Attempted, and yet reads as erased.
    LooksBlank,
    /// Uncorrectable.
    Garbage,
    /// Holds its bytes for this many more reads, then garbage. At most [`PageState::READS_MAX`].
    Unstable(u8),
    /// Reads as erased this many more times, then garbage. At most
    /// [`PageState::BLANK_READS_MAX`].
    UnstableBlank(u8),
    /// Uncorrectable this many more times, then holds its bytes. At most
    /// [`PageState::LATE_READS_MAX`].
    Late(u8),
    /// Uncorrectable this many more times, at most [`PageState::FITFUL_MAX`]; then it holds its
    /// bytes for 2 to the power of the second number of reads (at most the same), then garbage.
    Fitful(u8, u8),
}

impl PageState {
    pub const READS_MAX: u8 = 0x7F;
    pub const BLANK_READS_MAX: u8 = 0x3F;
    pub const LATE_READS_MAX: u8 = 0x1F;
    pub const FITFUL_MAX: u8 = 3;

    /// The byte that stands for the state in an image file. 0 is [`PageState::Blank`], so that a
    /// hole in a sparse file is an erased chip.
    pub fn encode(self) -> u8 {
        match self {
            PageState::Blank => 0,
            PageState::Written => 1,
            PageState::LooksBlank => 2,
            PageState::Garbage => 3,
            PageState::Unstable(reads) => 0x80 | reads.min(Self::READS_MAX),
            PageState::UnstableBlank(reads) => 0x40 | reads.min(Self::BLANK_READS_MAX),
            PageState::Late(reads) => 0x20 | reads.min(Self::LATE_READS_MAX),
            PageState::Fitful(late, reads) => {
                0x10 | late.min(Self::FITFUL_MAX) << 2 | reads.min(Self::FITFUL_MAX)
            }
        }
    }

    /// The state of a byte; bytes that mean nothing are garbage pages.
    pub fn decode(byte: u8) -> PageState {
        match byte {
            0 => PageState::Blank,
            1 => PageState::Written,
            2 => PageState::LooksBlank,
            0x80.. => PageState::Unstable(byte & Self::READS_MAX),
            0x40.. => PageState::UnstableBlank(byte & Self::BLANK_READS_MAX),
            0x20.. => PageState::Late(byte & Self::LATE_READS_MAX),
            0x10.. => PageState::Fitful(byte >> 2 & Self::FITFUL_MAX, byte & Self::FITFUL_MAX),
            _ => PageState::Garbage,
        }
    }

    /// Whether the page's bytes matter.
    pub fn has_bytes(self) -> bool {
        matches!(
            self,
            PageState::Written
                | PageState::Unstable(_)
                | PageState::Late(_)
                | PageState::Fitful(..)
        )
    }
}

/// The programmed bytes of a page: data, then usable spare bytes. What is missing is `0xFF`.
#[derive(Debug)]
pub(crate) struct PageBytes {
    bytes: Vec<u8>,
    data_len: usize,
    digest: OnceLock<u64>,
}

impl PageBytes {
    pub fn new(data: &[u8], spare: &[u8]) -> PageBytes {
        let mut bytes = Vec::with_capacity(data.len() + spare.len());
        bytes.extend_from_slice(data);
        bytes.extend_from_slice(spare);
        PageBytes {
            bytes,
            data_len: data.len(),
            digest: OnceLock::new(),
        }
    }

    pub fn data(&self) -> &[u8] {
        &self.bytes[..self.data_len]
    }

    pub fn spare(&self) -> &[u8] {
        &self.bytes[self.data_len..]
    }

    /// A number for what the page reads as. Computed once.
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            for part in [self.data(), self.spare()] {
                // Bytes that are missing read as 0xFF.
                let end = part.iter().rposition(|&b| b != 0xFF).map_or(0, |i| i + 1);
                part[..end].hash(&mut hasher);
            }
            hasher.finish()
        })
    }
}

/// Copies `from[offset..]` into `to`, and `0xFF` where there is nothing.
pub(crate) fn copy_padded(to: &mut [u8], from: &[u8], offset: usize) {
    let from = from.get(offset..).unwrap_or(&[]);
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
    to[n..].fill(0xFF);
}

/// One page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub state: PageState,
    /// `None` where the bytes are in the image file, or there are none.
    pub bytes: Option<Arc<PageBytes>>,
    /// Virtual time of the program.
    pub at_ns: u64,
}

impl Page {
    pub const BLANK: Page = Page {
        state: PageState::Blank,
        bytes: None,
        at_ns: 0,
    };
}

/// The pages of a block from the first to the last attempted one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages(pub Vec<Page>);

/// Marked bad.
pub(crate) const BAD: u8 = 1;
/// Bad from the factory: holds nothing that can be read.
pub(crate) const FACTORY: u8 = 2;
/// A program or an erase has failed; every later one fails too.
pub(crate) const FAILING: u8 = 4;
/// The last erase did not complete: no program before the next one.
pub(crate) const HALF_ERASED: u8 = 8;

/// One erase block. Cloning shares the pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub erase_count: u32,
    /// Reads since the last erase. Not persistent.
    pub reads: u32,
    pub flags: u8,
    /// The pages' states are in the image file and have not been loaded.
    pub unloaded: bool,
    pub pages: Option<Arc<Pages>>,
}

impl Block {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The page of this index; blank beyond the last attempted one.
    pub fn page(&self, index: u32) -> &Page {
        match &self.pages {
            Some(pages) => pages.0.get(index as usize).unwrap_or(&Page::BLANK),
            None => &Page::BLANK,
        }
    }

    /// Index above the last attempted page.
    pub fn next(&self) -> u32 {
        self.pages.as_ref().map_or(0, |pages| pages.0.len() as u32)
    }

    /// The page of this index for a change; it and those below it now count as attempted.
    pub fn page_mut(&mut self, index: u32, pages_per_block: u32) -> &mut Page {
        let pages = self.pages.get_or_insert_with(Default::default);
        let pages = &mut Arc::make_mut(pages).0;
        let index = index as usize;
        if pages.len() <= index {
            if pages.capacity() <= index {
                pages.reserve_exact(pages_per_block as usize - pages.len());
            }
            pages.resize(index + 1, Page::BLANK);
        }
        &mut pages[index]
    }

    /// Forgets the pages, as an erase does.
    pub fn clear(&mut self) {
        self.reads = 0;
        self.unloaded = false;
        match self.pages.as_mut().and_then(Arc::get_mut) {
            Some(pages) => pages.0.clear(),
            None => self.pages = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_round_trip() {
        let states = [
            PageState::Blank,
            PageState::Written,
            PageState::LooksBlank,
            PageState::Garbage,
            PageState::Unstable(0),
            PageState::Unstable(PageState::READS_MAX),
            PageState::UnstableBlank(0),
            PageState::UnstableBlank(PageState::BLANK_READS_MAX),
            PageState::Late(0),
            PageState::Late(PageState::LATE_READS_MAX),
            PageState::Fitful(0, PageState::FITFUL_MAX),
            PageState::Fitful(PageState::FITFUL_MAX, 0),
        ];
        for state in states {
            assert_eq!(PageState::decode(state.encode()), state);
        }
        assert_eq!(PageState::decode(0x0F), PageState::Garbage);
    }

    #[test]
    fn padding_is_erased() {
        let mut to = [0u8; 4];
        copy_padded(&mut to, &[1, 2, 3], 1);
        assert_eq!(to, [2, 3, 0xFF, 0xFF]);
        copy_padded(&mut to, &[1, 2, 3], 9);
        assert_eq!(to, [0xFF; 4]);
    }
}
