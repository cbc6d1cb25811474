//! The chips that are cut: small, so that a state costs little.

use std::fmt;
use std::str::FromStr;

use flashkit_flashlight::{Cleaner, Config, New, ram_needed_for, ram_useful};
use flashkit_nand::{Geometry, Nand};
use flashkit_sim::spi::CopyRange;
use flashkit_sim::{ChipSpec, Faults, SimNand, Timing};
use flashkit_vfs::any::{self, AnyNand};

use crate::recorder::{ENCRYPTED, Recorder};

/// A chip and how its volume is mounted, as `PAGE+SPARExPAGESxBLOCKS`, then `-badN` for each bad
/// block, `-paper` for the paper's cleaner, `-kept` for so much RAM that metadata pages are
/// kept, `-copies` for one that copies pages by itself, `-xts` for an encrypted one, `-tableN` for
/// a block table on flash of so many blocks a page, and `-dirtyN` for a dirty list of so many
/// entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Chip {
    /// Data bytes of a page.
    pub page: u32,
    /// Usable spare bytes of a page.
    pub spare: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Blocks.
    pub blocks: u32,
    /// Blocks bad from the factory.
    pub bad: Vec<u32>,
    /// Cleans by the length of the dirty list.
    pub paper: bool,
    /// Metadata pages are kept in RAM.
    pub kept: bool,
    /// It copies pages by itself, between blocks of the same parity.
    pub copies: bool,
    /// Page data is encrypted.
    pub xts: bool,
    /// Blocks of a page of the block table; 0: that is in RAM.
    pub table: u32,
    /// Entries of the dirty list; 0: as many as the RAM holds.
    pub dirty: u32,
}

impl Chip {
    /// A chip without bad blocks, for the default cleaner.
    pub const fn new(page: u32, spare: u32, pages: u32, blocks: u32) -> Chip {
        Chip {
            page,
            spare,
            pages,
            blocks,
            bad: Vec::new(),
            paper: false,
            kept: false,
            copies: false,
            xts: false,
            table: 0,
            dirty: 0,
        }
    }

    /// The same with the paper's cleaner.
    pub fn paper(self) -> Chip {
        Chip {
            paper: true,
            ..self
        }
    }

    /// The same with all the RAM that is of use.
    pub fn kept(self) -> Chip {
        Chip { kept: true, ..self }
    }

    /// The same with its page data encrypted.
    pub fn xts(self) -> Chip {
        Chip { xts: true, ..self }
    }

    /// The same with a block table on flash of so many blocks a page.
    pub const fn table(mut self, table: u32) -> Chip {
        self.table = table;
        self
    }

    /// The same with a dirty list of so many entries.
    pub const fn dirty(mut self, entries: u32) -> Chip {
        self.dirty = entries;
        self
    }

    /// The RAM of a volume on it while it is worked on. What comes after a cut
    /// has the least there may be.
    pub(crate) fn ram(&self, geometry: &Geometry) -> usize {
        if self.kept {
            ram_useful(geometry)
        } else {
            ram_needed_for(geometry, self.table)
        }
    }

    /// How its volume is mounted. The paper's threshold of 140 blocks is scaled to the chip.
    pub fn config(&self) -> Config {
        Config {
            cleaner: if self.paper {
                Cleaner::Paper
            } else {
                Cleaner::Space
            },
            table_page: self.table,
            dirty_entries: self.dirty as usize,
            dirty_threshold: 4,
            gc_batch: 2,
            // On a chip of few blocks moves for wear come early.
            wear_interval: if self.blocks < 512 {
                5
            } else {
                Config::default().wear_interval
            },
            ..Config::default()
        }
    }

    /// How many such blocks there must be at least, if any number up to 1,024 will do.
    pub fn blocks_needed(&self) -> Option<u32> {
        let of = |blocks| Chip {
            blocks,
            ..self.clone()
        };
        (1..=1024).find(|blocks| of(*blocks).formatted().is_ok())
    }

    /// The chip with an empty volume. Every block must be erased before its first program.
    ///
    /// # Errors
    /// The shape is not one that the chip or the volume can have.
    pub fn formatted(&self) -> Result<SimNand, String> {
        let geometry = Geometry::new(self.page, self.spare, self.pages, self.blocks)
            .map_err(|e| e.to_string())?;
        let timing = Timing {
            read_ns: 77_800,
            program_ns: 252_800,
            erase_ns: 1_500_000,
        };
        let mut spec = ChipSpec::new(geometry, timing);
        if self.xts {
            spec = spec.with_name(ENCRYPTED).ok_or("no such name")?;
        }
        let mut chip = SimNand::new(spec);
        chip.require_first_erase(true);
        if self.copies {
            chip.set_copies(CopyRange::Parity);
        }
        let faults = Faults {
            bad_blocks: self.bad.clone(),
            ..Faults::default()
        };
        chip.set_faults(faults).map_err(|e| e.to_string())?;
        let mut ram = vec![0; ram_needed_for(&chip.geometry(), self.table)];
        let root = New {
            mode: 0o755,
            ..New::default()
        };
        let mut chip = Recorder::new(chip);
        chip.recording = false;
        any::format(AnyNand::new(chip), &mut ram, 0x1234, &root, self.config())
            .map(|chip| chip.take::<Recorder>().into_inner())
            .map_err(|e| format!("format: {e}"))
    }
}

impl fmt::Display for Chip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}+{}x{}x{}",
            self.page, self.spare, self.pages, self.blocks
        )?;
        for b in &self.bad {
            write!(f, "-bad{b}")?;
        }
        f.write_str(if self.paper { "-paper" } else { "" })?;
        f.write_str(if self.kept { "-kept" } else { "" })?;
        f.write_str(if self.copies { "-copies" } else { "" })?;
        f.write_str(if self.xts { "-xts" } else { "" })?;
        for (what, number) in [("table", self.table), ("dirty", self.dirty)] {
            if number > 0 {
                write!(f, "-{what}{number}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Chip {
    type Err = String;

    fn from_str(text: &str) -> Result<Chip, String> {
        let wrong = || {
            let options = "[-badN...][-paper][-kept][-copies][-xts][-tableN][-dirtyN]";
            format!("not a chip (PAGE+SPARExPAGESxBLOCKS{options}): {text}")
        };
        let number = |word: &str| word.parse::<u32>().map_err(|_| wrong());
        let mut parts = text.split('-');
        let shape = parts.next().unwrap_or_default();
        let (page, rest) = shape.split_once('+').ok_or_else(wrong)?;
        let rest: Vec<&str> = rest.split('x').collect();
        let [spare, pages, blocks] = rest[..] else {
            return Err(wrong());
        };
        let mut chip = Chip::new(
            number(page)?,
            number(spare)?,
            number(pages)?,
            number(blocks)?,
        );
        for part in parts {
            let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
            let n = &part[word.len()..];
            match word {
                "bad" => chip.bad.push(number(n)?),
                "table" => chip.table = number(n)?,
                "dirty" => chip.dirty = number(n)?,
                _ if !n.is_empty() => return Err(wrong()),
                "paper" => chip.paper = true,
                "kept" => chip.kept = true,
                "copies" => chip.copies = true,
                "xts" => chip.xts = true,
                _ => return Err(wrong()),
            }
        }
        Ok(chip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "1024+24x8x64",
            "2048+0x16x96-paper",
            "1024+24x8x64-bad3-paper-kept",
            "1024+24x8x64-bad0-bad7",
            "1024+24x8x64-copies",
            "1024+24x8x64-table32",
            "1024+24x8x64-table32-dirty6",
            "1024+24x8x64-kept-xts-table32",
        ] {
            assert_eq!(text.parse::<Chip>().unwrap().to_string(), text);
        }
        for bad in [
            "",
            "1024",
            "1024+24x8",
            "1024+24x8x64x2",
            "1024+24x8x64-worn",
            "1024+24x8x64-paper1",
            "1024+24x8x64-bad",
            "1024+24x8x64-table",
        ] {
            assert!(bad.parse::<Chip>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bad_blocks_are_bad() {
        let chip = Chip {
            bad: vec![0, 5],
            ..Chip::new(1024, 24, 8, 64)
        };
        let bad: Vec<u32> = chip
            .formatted()
            .unwrap()
            .bad_blocks()
            .iter()
            .map(|b| b.0)
            .collect();
        assert_eq!(bad, [0, 5]);
        let small = Chip::new(1024, 24, 8, 20);
        assert!(small.formatted().is_err());
        let needed = small.blocks_needed().unwrap();
        let of = |blocks| Chip::new(1024, 24, 8, blocks).formatted();
        assert!(of(needed - 1).is_err() && of(needed).is_ok(), "{needed}");
        assert_eq!(Chip::new(1000, 24, 8, 64).blocks_needed(), None);
    }
}
