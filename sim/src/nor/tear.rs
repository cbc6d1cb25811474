//! Words and segments whose program or erase a power cut has torn.

use std::collections::BTreeMap;

use crate::Rng;
use crate::nor::NOR_WORD;

/// What a cut leaves of the word being programmed. Bits that the program does not clear are never
/// touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordTear {
    /// Nothing happened.
    NotBegun,
    /// Some of the bits are cleared, for good; the seed says which.
    Partial,
    /// The bits on their way read as either, differently each time.
    Noisy,
    /// Reads as complete this many times, then as if nothing had happened.
    LooksDone {
        /// Reads that show it complete.
        reads: u8,
    },
    /// Reads as untouched this many times, then as complete.
    LooksUndone {
        /// Reads that show it untouched.
        reads: u8,
    },
    /// The power held just long enough.
    Complete,
}

/// What a cut leaves of a segment being erased. But for [`NorEraseTear::NotBegun`] and
/// [`NorEraseTear::Complete`] it must be erased before it is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NorEraseTear {
    /// Nothing happened.
    NotBegun,
    /// Each byte holds what it held, or with some or all bits set, or with all bits clear.
    Partial,
    /// All bits are clear: chips program everything to 0 before they erase.
    Zeroed,
    /// Some random bytes.
    Random,
    /// Reads as erased; but after this many reads, as random bytes.
    LooksErased {
        /// Reads that show it erased.
        reads: u8,
    },
    /// The power held just long enough.
    Complete,
}

/// A NOR chip that can be torn on demand.
pub trait NorTearable: flashkit_nor::BankedNorFlash {
    /// Programs part of one word, and tears it.
    ///
    /// # Errors
    /// As a write.
    fn write_torn(
        &mut self,
        offset: u32,
        bytes: &[u8],
        tear: WordTear,
        seed: u64,
    ) -> Result<(), Self::Error>;

    /// Tears every erase that is under way.
    ///
    /// # Errors
    /// Of the driver.
    fn tear_erases(&mut self, tear: NorEraseTear, seed: u64) -> Result<(), Self::Error>;
}

impl<F: NorTearable> NorTearable for &mut F {
    fn write_torn(
        &mut self,
        offset: u32,
        bytes: &[u8],
        tear: WordTear,
        seed: u64,
    ) -> Result<(), Self::Error> {
        F::write_torn(self, offset, bytes, tear, seed)
    }

    fn tear_erases(&mut self, tear: NorEraseTear, seed: u64) -> Result<(), Self::Error> {
        F::tear_erases(self, tear, seed)
    }
}

/// How the bits of a torn word read.
#[derive(Clone, Debug)]
enum Mood {
    Noisy(Rng),
    /// Cleared for so many more reads, then set.
    Fading(u8),
    /// Set for so many more reads, then cleared.
    Settling(u8),
}

/// A word with bits that are neither 0 nor 1.
#[derive(Clone, Debug)]
struct WeakWord {
    /// The bits in question; they are stored as set.
    mask: [u8; NOR_WORD],
    mood: Mood,
}

impl WeakWord {
    /// The bits that this read finds cleared.
    fn cleared(&mut self) -> [u8; NOR_WORD] {
        match &mut self.mood {
            Mood::Noisy(rng) => {
                let noise = rng.next_u64().to_le_bytes();
                core::array::from_fn(|i| self.mask[i] & noise[i])
            }
            Mood::Fading(0) => [0; NOR_WORD],
            Mood::Fading(reads) => {
                *reads -= 1;
                self.mask
            }
            Mood::Settling(0) => self.mask,
            Mood::Settling(reads) => {
                *reads -= 1;
                [0; NOR_WORD]
            }
        }
    }
}

/// The unstable bits of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weak {
    words: BTreeMap<u32, WeakWord>,
    /// The whole segment reads as erased so many more times, then as noise of this seed.
    erased: Option<(u8, u64)>,
}

impl Weak {
    /// A segment that looks erased.
    pub fn looks_erased(reads: u8, seed: u64) -> Weak {
        Weak {
            words: BTreeMap::new(),
            erased: Some((reads, seed)),
        }
    }

    /// Whether nothing is unstable.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.erased.is_none()
    }

    /// Leaves bits of a word neither set nor cleared.
    pub fn add(&mut self, word: u32, mask: [u8; NOR_WORD], tear: WordTear, seed: u64) {
        let mood = match tear {
            WordTear::LooksDone { reads } => Mood::Fading(reads),
            WordTear::LooksUndone { reads } => Mood::Settling(reads),
            _ => Mood::Noisy(Rng::new(seed)),
        };
        self.words.insert(word, WeakWord { mask, mood });
    }

    /// A complete program of these bytes of a word makes the bits that it clears certain.
    pub fn programmed(&mut self, word: u32, at: usize, bytes: &[u8]) {
        let Some(weak) = self.words.get_mut(&word) else {
            return;
        };
        for (mask, byte) in weak.mask[at..].iter_mut().zip(bytes) {
            *mask &= byte;
        }
        if weak.mask == [0; NOR_WORD] {
            self.words.remove(&word);
        }
    }

    /// Shows bytes read from `offset` of the segment as this read finds them.
    pub fn show(&mut self, offset: usize, bytes: &mut [u8]) {
        if let Some((reads, seed)) = &mut self.erased {
            if *reads > 0 {
                *reads -= 1;
                bytes.fill(0xFF);
            } else {
                Rng::keyed(*seed, offset as u64).fill(bytes);
            }
            return;
        }
        let (first, last) = (offset / NOR_WORD, (offset + bytes.len()).div_ceil(NOR_WORD));
        for (word, weak) in self.words.range_mut(first as u32..last as u32) {
            let cleared = weak.cleared();
            for (i, bits) in cleared.iter().enumerate() {
                let at = (*word as usize * NOR_WORD + i).checked_sub(offset);
                if let Some(byte) = at.and_then(|at| bytes.get_mut(at)) {
                    *byte &= !bits;
                }
            }
        }
    }
}

/// The bits that a torn program has cleared for good: those of `mask` that the seed picks.
pub(crate) fn some_bits(mask: [u8; NOR_WORD], seed: u64) -> [u8; NOR_WORD] {
    let mut rng = Rng::new(seed);
    let (a, b) = (rng.next_u64().to_le_bytes(), rng.next_u64().to_le_bytes());
    let dense = rng.one_in(2);
    core::array::from_fn(|i| mask[i] & if dense { a[i] | b[i] } else { a[i] & b[i] })
}

/// What a torn erase leaves of a segment's bytes.
pub(crate) fn tear_bytes(bytes: &mut [u8], tear: NorEraseTear, seed: u64) {
    let mut rng = Rng::new(seed);
    match tear {
        NorEraseTear::Zeroed => bytes.fill(0),
        NorEraseTear::Random => rng.fill(bytes),
        NorEraseTear::Partial => {
            // Runs, for neighbouring cells fare alike.
            let mut at = 0;
            while at < bytes.len() {
                let end = (at + 1 + rng.below(64) as usize).min(bytes.len());
                let how = rng.below(5);
                for byte in &mut bytes[at..end] {
                    match how {
                        0 => {}
                        1 => *byte |= rng.next_u64() as u8,
                        2 => *byte = 0,
                        _ => *byte = 0xFF,
                    }
                }
                at = end;
            }
        }
        NorEraseTear::LooksErased { .. } | NorEraseTear::Complete => bytes.fill(0xFF),
        NorEraseTear::NotBegun => {}
    }
}
