//! The flash operations of this machine's chips, for a replay.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use flashkit_flashmon::{Counts, Flashmon};
use flashkit_sim::{Preset, Timing};
use flashkit_vfs::Counters;
use flashkit_workload::Meter;

/// How long nothing must have happened.
const QUIET: Duration = Duration::from_millis(1500);
/// How long to wait for that.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(100);

/// Counts by tracing, priced with the latencies of a chip. Programs of spare bytes alone (JFFS2's
/// clean markers) are programs here.
///
/// A count that fails is the last one that did not, and [`Meter::check`] tells.
#[derive(Clone)]
pub struct Monitored(Rc<Counting>);

struct Counting {
    monitor: Flashmon,
    timing: Timing,
    blocks: usize,
    last: Cell<Counts>,
    failed: RefCell<Option<String>>,
}

impl Monitored {
    /// Starts to count, once nothing has happened for a while: a fresh UBI or JFFS2 goes on erasing
    /// blocks after it was mounted. Blocks are those of `chip`, or as many as
    /// the last one that is erased.
    pub fn start(chip: &Preset) -> Result<Monitored, flashkit_flashmon::Error> {
        let start = Instant::now();
        let mut monitor = Flashmon::start()?;
        let mut last = monitor.counts()?;
        let mut quiet = Instant::now();
        while quiet.elapsed() < QUIET && start.elapsed() < PATIENCE {
            std::thread::sleep(STEP);
            let now = monitor.counts()?;
            if now != last {
                (last, quiet) = (now, Instant::now());
            }
        }
        // From zero again.
        drop(monitor);
        monitor = Flashmon::start()?;
        Ok(Monitored(Rc::new(Counting {
            monitor,
            timing: chip.timing,
            blocks: chip.blocks as usize,
            last: Cell::default(),
            failed: RefCell::default(),
        })))
    }

    fn fail(&self, what: &dyn std::fmt::Display) {
        self.0.failed.borrow_mut().get_or_insert(what.to_string());
    }
}

impl Meter for Monitored {
    fn cost(&self) -> Counters {
        match self.0.monitor.counts() {
            Ok(counts) => self.0.last.set(counts),
            Err(error) => self.fail(&error),
        }
        priced(self.0.last.get(), self.0.timing)
    }

    fn erase_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.0.blocks];
        match self.0.monitor.erases() {
            Ok(erases) => {
                for ((_, block), erases) in erases.blocks {
                    let block = block as usize;
                    counts.resize(counts.len().max(block + 1), 0);
                    counts[block] += u32::try_from(erases).unwrap_or(u32::MAX);
                }
                if erases.dropped > 0 {
                    self.fail(&format!("{} erases of unknown blocks", erases.dropped));
                }
            }
            Err(error) => self.fail(&error),
        }
        counts
    }

    fn check(&self) -> io::Result<()> {
        let missed = self.0.last.get().missed;
        if missed > 0 {
            self.fail(&format!("{missed} flash operations were not counted"));
        }
        match &*self.0.failed.borrow() {
            Some(what) => Err(io::Error::other(what.clone())),
            None => Ok(()),
        }
    }
}

fn priced(counts: Counts, timing: Timing) -> Counters {
    let reads = counts.page_reads + counts.spare_reads;
    let programs = counts.page_programs + counts.spare_programs;
    Counters {
        page_reads: counts.page_reads,
        spare_reads: counts.spare_reads,
        page_programs: programs,
        page_copies: 0,
        block_erases: counts.block_erases,
        time_ns: timing.total_ns(reads, programs, counts.block_erases),
        ..Counters::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_price() {
        let counts = Counts {
            page_reads: 3,
            spare_reads: 1,
            page_programs: 2,
            spare_programs: 1,
            block_erases: 1,
            missed: 0,
        };
        let timing = flashkit_sim::presets()[0].timing;
        let cost = priced(counts, timing);
        assert_eq!(
            (cost.page_reads, cost.spare_reads, cost.page_programs),
            (3, 1, 3)
        );
        assert_eq!(cost.time_ns, 4 * 77_800 + 3 * 252_800 + 1_500_000);
    }
}
