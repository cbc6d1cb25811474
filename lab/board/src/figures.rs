//! What calls of the image cost.

use std::fmt::{self, Write};

/// What a call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Instructions of the core, the image's own glue to the bus included.
    pub instructions: u64,
    /// Bytes over the bus in both directions.
    pub bytes: u64,
    /// Microseconds of bus, array and the driver's waits.
    pub chip_us: u64,
    /// Reads of the array.
    pub reads: u64,
    /// Programs, copies included.
    pub programs: u64,
    /// Erases.
    pub erases: u64,
}

/// A call that was measured.
#[derive(Debug)]
pub struct Call {
    /// Which, by the image's number.
    pub which: u32,
    /// Bytes that had gone over the bus before it.
    pub at: u64,
    pub cost: Cost,
}

/// What the image's numbers mean. The first is not the image's: mounts are told apart here.
const NAMES: [&str; 8] = [
    "mount that recovers",
    "mount",
    "append 100 bytes, fsync",
    "overwrite 4 KiB, fsync",
    "read 100 bytes",
    "unmount",
    "rename over a file",
    "boot reader: open and find",
];

/// The image's number of a mount, and what stands for one that recovers here.
const MOUNT: u32 = 1;
const RECOVERY: u32 = 0;
/// The image's number of an append: the first thing that it does once it has read everything.
pub const APPEND: u32 = 2;

/// All calls of a run.
#[derive(Default)]
pub struct Figures {
    calls: [Vec<Cost>; NAMES.len()],
}

impl Figures {
    /// Adds a call. Whether there is one of that number.
    pub fn add(&mut self, call: &Call) -> bool {
        // A mount writes if anything was written since the last unmount or mount, and only then.
        let which = match call.which {
            MOUNT if call.cost.programs > 0 => RECOVERY,
            which => which,
        };
        let calls = self.calls.get_mut(which as usize);
        calls.map(|calls| calls.push(call.cost)).is_some()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| call | calls | instructions | bytes over the bus | chip, us | reads | programs | \
             erases |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
        )?;
        for (name, calls) in NAMES.iter().zip(&self.calls) {
            if calls.is_empty() {
                continue;
            }
            let mut row = format!("| {name} | {}", calls.len());
            for figure in [
                |cost: &Cost| cost.instructions,
                |cost: &Cost| cost.bytes,
                |cost: &Cost| cost.chip_us,
                |cost: &Cost| cost.reads,
                |cost: &Cost| cost.programs,
                |cost: &Cost| cost.erases,
            ] {
                let mut all: Vec<u64> = calls.iter().map(figure).collect();
                all.sort_unstable();
                let (median, most) = (all[all.len() / 2], all[all.len() - 1]);
                write!(row, " | {median}, {most}")?;
            }
            writeln!(f, "{row} |")?;
        }
        writeln!(f, "Each figure is the median, and the most.")
    }
}
