//! Kinds of NOR chips, and what they count.

/// Bytes that one program operation covers: four byte-wide chips side by side.
pub const NOR_WORD: usize = 4;

/// Erase segment of the presets, in bytes.
pub const NOR_SEGMENT: usize = 262_144;

/// Name of the NOR chip used where none is asked for.
pub const NOR_DEFAULT: &str = "nor-16m";

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NorTiming {
    /// A word read.
    pub read_ns: u64,
    /// A word, or a part of it, programmed.
    pub program_ns: u64,
    /// A segment erased.
    pub erase_ns: u64,
    /// An erase suspended for a read and resumed; added to the read, and the erase ends later by
    /// this and the read.
    pub suspend_ns: u64,
}

/// All that makes one NOR chip. The segment size is a constant of [`super::SimNor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NorSpec {
    pub(crate) name: String,
    pub(crate) banks: u32,
    pub(crate) segments_per_bank: u32,
    pub(crate) timing: NorTiming,
    pub(crate) endurance: u32,
}

impl NorSpec {
    /// Longest name in bytes.
    pub const NAME_MAX: usize = 32;

    /// A chip of this shape named `custom`; it endures any number of erases.
    ///
    /// # Panics
    /// Without banks or segments, or with more than 65,536 segments.
    pub fn new(banks: u32, segments_per_bank: u32, timing: NorTiming) -> NorSpec {
        let segments = banks.checked_mul(segments_per_bank);
        assert!(
            segments.is_some_and(|n| (1..=65_536).contains(&n)),
            "{banks} banks of {segments_per_bank} segments"
        );
        NorSpec {
            name: "custom".into(),
            banks,
            segments_per_bank,
            timing,
            endurance: 0,
        }
    }

    /// The same chip, whose segments fail to erase after this many erases; 0: never.
    pub fn with_endurance(mut self, erases: u32) -> NorSpec {
        self.endurance = erases;
        self
    }

    /// The preset's name, or `custom`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a preset is, in a few words.
    pub fn what(&self) -> &'static str {
        if self.name == NOR_DEFAULT {
            "four Intel 28F008SA a bank, the test platform of a paper of 1995"
        } else {
            "not a preset"
        }
    }

    /// Banks.
    pub fn banks(&self) -> u32 {
        self.banks
    }

    /// Erase segments of a bank.
    pub fn segments_per_bank(&self) -> u32 {
        self.segments_per_bank
    }

    /// Erase segments of the chip.
    pub fn segments(&self) -> u32 {
        self.banks * self.segments_per_bank
    }

    /// Latencies.
    pub fn timing(&self) -> NorTiming {
        self.timing
    }

    /// Erases that a segment endures; 0: any number.
    pub fn endurance(&self) -> u32 {
        self.endurance
    }
}

/// Every NOR preset, the default first; their segments are of [`NOR_SEGMENT`] bytes.
///
/// `nor-16m` is the test platform of Kawaguchi, Nishioka and Motoda (*A Flash-Memory Based File
/// System*, USENIX Winter 1995), Table 3: 8 banks of 8 segments, 4 MB/s read, 400 KB/s written,
/// 1 s an erase; 100,000 erases (Table 1). A bank of 256 KiB segments is four byte-wide Intel
/// 28F008SA side by side, so a word has 4 bytes. What suspending an erase costs the paper does not
/// say; 20 us is assumed.
pub fn nor_presets() -> Vec<NorSpec> {
    let timing = NorTiming {
        read_ns: 1_000,
        program_ns: 10_000,
        erase_ns: 1_000_000_000,
        suspend_ns: 20_000,
    };
    let mut spec = NorSpec::new(8, 8, timing).with_endurance(100_000);
    spec.name = NOR_DEFAULT.into();
    vec![spec]
}

/// The NOR preset of this name.
pub fn nor_preset(name: &str) -> Option<NorSpec> {
    nor_presets().into_iter().find(|spec| spec.name == name)
}

/// Operations of a NOR chip since it was made, opened or cleared. Not persistent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NorCounters {
    /// Words read.
    pub word_reads: u64,
    /// Words programmed, in whole or in part, torn ones included.
    pub word_programs: u64,
    /// Erases begun.
    pub erases: u64,
    /// Erases suspended for a read.
    pub suspends: u64,
    /// Virtual time in nanoseconds, waiting and idle time included.
    pub time_ns: u64,
}

impl core::ops::Sub for NorCounters {
    type Output = NorCounters;

    /// The cost between two readings; `before` must be the earlier one.
    fn sub(self, before: NorCounters) -> NorCounters {
        NorCounters {
            word_reads: self.word_reads - before.word_reads,
            word_programs: self.word_programs - before.word_programs,
            erases: self.erases - before.erases,
            suspends: self.suspends - before.suspends,
            time_ns: self.time_ns - before.time_ns,
        }
    }
}
