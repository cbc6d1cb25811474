//! The figures at the end of the demo, and the measured peers.

use std::io::{self, Write};

use flashkit_sim::Preset;
use flashkit_vfs::FlashCost;

use crate::text::{self, Table};

/// What the demo has cost.
pub struct Figures {
    pub format: FlashCost,
    /// Storing, before the cut and after it, without mounting.
    pub store: FlashCost,
    /// Mounting after the power cut.
    pub recovery: FlashCost,
    /// Mounting after the clean unmount.
    pub mount: FlashCost,
    /// Reading everything back.
    pub verify: FlashCost,
    /// Pages that the stored bytes fill.
    pub data_pages: u64,
    pub bytes: u64,
    pub ram: usize,
}

/// A peer's counts for the trace `seq`.
struct Peer {
    name: &'static str,
    reads: u64,
    programs: u64,
    erases: u64,
    ram: &'static str,
}

/// Data pages of the trace `seq`: one file of 190 MiB, without fsync.
const SEQ_PAGES: u64 = 97_280;

/// Measured on 2,048 blocks x 64 pages x (2,048 + 64) bytes. UBIFS and JFFS2: Linux 6.1 over
/// nandsim, without compression, operations counted in the kernel; YAFFS2: its direct interface;
/// littlefs 2.11: cache of a page. RAM: UBIFS and JFFS2 after a long Postmark run on a full chip.
const PEERS: [Peer; 4] = [
    Peer {
        name: "UBIFS",
        reads: 528,
        programs: 102_871,
        erases: 41,
        ram: "about 10 MB and page cache",
    },
    Peer {
        name: "YAFFS2",
        reads: 3_091,
        programs: 99_047,
        erases: 1,
        ram: "about 150 KB on 128 MB, says its vendor",
    },
    Peer {
        name: "littlefs",
        reads: 98_814,
        programs: 97_288,
        erases: 1_521,
        ram: "not measured",
    },
    Peer {
        name: "JFFS2",
        reads: 129_236,
        programs: 194_372,
        erases: 1_034,
        ram: "about 260 MB",
    },
];

impl Figures {
    pub fn print(&self, chip: &Preset, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new(&["", "page reads", "programs", "erases", "flash time"]);
        let limit = FlashCost {
            page_programs: self.data_pages,
            flash_ns: self.data_pages * chip.timing.program_ns,
            ..FlashCost::default()
        };
        for (what, cost) in [
            ("format", self.format),
            ("store", self.store),
            ("  limit: the data pages", limit),
            ("mount after the power cut", self.recovery),
            ("mount after the unmount", self.mount),
            ("read everything back", self.verify),
        ] {
            table.row([
                what.into(),
                text::count(cost.page_reads + cost.spare_reads),
                text::count(cost.page_programs),
                text::count(cost.block_erases),
                text::duration(cost.flash_ns),
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
        )?;
        self.print_peers(out)
    }

    fn print_peers(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "\nFor each page of data, beside peers measured on a chip of 2,048 blocks of 64 pages \
             of 2 KiB\nstoring one file of 190 MiB without fsync (this run: many files, each \
             synced, and a power cut):"
        )?;
        let mut table = Table::new(&["", "reads", "programs", "erases/1000", "RAM"]).ragged();
        let mut row = |name: &str, reads, programs, erases: u64, pages, ram: String| {
            table.row([
                name.into(),
                format!("{:.3}", ratio(reads, pages)),
                format!("{:.3}", ratio(programs, pages)),
                format!("{:.1}", ratio(erases * 1_000, pages)),
                ram,
            ]);
        };
        let s = self.store;
        let reads = s.page_reads + s.spare_reads;
        let ram = format!("{} bytes", text::count(self.ram as u64));
        row(
            "this run",
            reads,
            s.page_programs,
            s.block_erases,
            self.data_pages,
            ram,
        );
        for p in &PEERS {
            row(
                p.name,
                p.reads,
                p.programs,
                p.erases,
                SEQ_PAGES,
                p.ram.into(),
            );
        }
        table.print(out, 2)
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}
