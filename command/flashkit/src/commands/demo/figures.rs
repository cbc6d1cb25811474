//! The figures at the end of the demo.

use std::io::{self, Write};

use flashkit_sim::Preset;
use flashkit_vfs::Counters;

use crate::text::{self, Table};

/// What the demo has cost.
pub struct Figures {
    pub format: Counters,
    /// Storing, before the cut and after it, without mounting.
    pub store: Counters,
    /// Mounting after the power cut.
    pub recovery: Counters,
    /// Mounting after the clean unmount.
    pub mount: Counters,
    /// Reading everything back.
    pub verify: Counters,
    /// Pages that the stored bytes fill.
    pub data_pages: u64,
    pub bytes: u64,
    pub ram: usize,
}

impl Figures {
    pub fn print(&self, chip: &Preset, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["", "page reads", "programs", "erases", "flash time"]);
        let limit = Counters {
            page_programs: self.data_pages,
            time_ns: self.data_pages * chip.timing.program_ns,
            ..Counters::default()
        };
        for (what, cost) in [
            ("format", self.format),
            ("store", self.store),
            ("  its data alone", limit),
            ("mount after the power cut", self.recovery),
            ("mount after the unmount", self.mount),
            ("read everything back", self.verify),
        ] {
            table.row([
                what.into(),
                text::count(cost.page_reads + cost.spare_reads),
                text::count(cost.page_programs),
                text::count(cost.block_erases),
                text::duration(cost.time_ns),
            ]);
        }
        writeln!(out)?;
        table.print(out, 0)?;
        let written = self.store.page_programs * u64::from(chip.page_size);
        writeln!(
            out,
            "write amplification {:.3} (bytes programmed for each byte stored); RAM {} bytes",
            ratio(written, self.bytes),
            text::count(self.ram as u64)
        )
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
