//! Randomised model tests: any file system in lockstep with [`MemoryFs`].
//!
//! Every operation runs on the file system under test and on the model, and every result is
//! compared: which error, attributes (kind, size, mode, owner, nlink, mtime), data, entries. From
//! time to time, and at the end, so is the whole tree; after a remount as well, with everything
//! looked up anew. Not compared: blocks, atime, ctime, the size of directories, and the nlink of a
//! directory where it is 1, by which a file system says that it does not count subdirectories.
//!
//! Each seed draws its own mix of operations, sizes, names and shapes of the tree, so that some
//! runs do much of what others never do. Calls with several faults at once are not made: which
//! fault is found first is nobody's promise.
//!
//! Three environment variables help with a failure, which names them: `FLASHKIT_MODEL_SEED` runs
//! one seed only, `FLASHKIT_MODEL_OPS` stops after so many operations and compares everything,
//! `FLASHKIT_MODEL_LOG` prints each operation.

mod choose;
mod compare;
mod driver;
mod names;
mod ops;

use std::fmt;
use std::ops::Range;

use flashkit_vfs::FileSystem;
#[cfg(doc)]
use flashkit_vfs::MemoryFs;

/// A file system under test, with what the driver cannot do through [`FileSystem`].
pub trait Target {
    /// The mounted file system.
    fn fs(&mut self) -> &mut dyn FileSystem;

    /// Unmounts and mounts again. Nothing is open at this time.
    ///
    /// # Errors
    /// Why that failed, in words.
    fn remount(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Checks the medium's invariants, as `fsck` does.
    ///
    /// # Errors
    /// What is damaged.
    fn check(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// A run of random operations.
#[derive(Clone, Debug)]
pub struct ModelRun {
    /// Everything random follows from it.
    pub seed: u64,
    /// Operations.
    pub ops: u64,
    /// Bytes that all files may have together, holes included.
    pub space: u64,
    /// Files, directories and symbolic links that may exist at once.
    pub objects: u64,
    /// Longest single write in bytes.
    pub write_max: u64,
    /// Whether the file system may say [`flashkit_vfs::Error::NoSpace`]. An operation that says
    /// so must have done nothing; a write may have done a part. Set `space` beyond the chip's
    /// size to get there.
    pub full: bool,
    /// A remount once in so many operations on average; 0: only at the end.
    pub remount_every: u64,
    /// A comparison of everything once in so many operations on average; 0: only at the end.
    pub compare_every: u64,
    /// A [`Target::check`] once in so many operations on average; 0: only at the end.
    pub check_every: u64,
    /// Timestamps have nanoseconds.
    pub nanos: bool,
    /// Which test this is, as `cargo test` takes it: `-p package name`.
    pub test: String,
}

impl ModelRun {
    /// A run of 2,000 operations in 4 MiB and 300 objects.
    pub fn new(seed: u64) -> ModelRun {
        ModelRun {
            seed,
            ops: 2000,
            space: 4 << 20,
            objects: 300,
            write_max: 300_000,
            full: false,
            remount_every: 300,
            compare_every: 300,
            check_every: 200,
            nanos: true,
            test: String::new(),
        }
    }

    /// Runs.
    ///
    /// # Errors
    /// The first difference.
    pub fn run(&self, target: &mut dyn Target) -> Result<Stats, Failure> {
        driver::run(self, target)
    }
}

/// The seeds that a test should run: the one of `FLASHKIT_MODEL_SEED` if it is set.
///
/// # Panics
/// When the variable is no number.
pub fn seeds(default: Range<u64>) -> Range<u64> {
    number_of("FLASHKIT_MODEL_SEED").map_or(default, |seed| seed..seed + 1)
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
    )
}

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Operations done.
    pub ops: u64,
    /// Bytes written to the file system under test.
    pub written: u64,
    /// Times it was full.
    pub full: u64,
    /// Remounts.
    pub remounts: u64,
    /// Comparisons of everything.
    pub compares: u64,
    /// Objects in the tree at the end.
    pub objects: u64,
}

/// A difference between a file system and the model.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Number of the operation; the first is 1.
    pub op: u64,
    /// What differs.
    pub what: String,
    /// The last operations before it, the culprit last.
    pub log: Vec<String>,
    /// Runs it again up to there.
    pub command: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, operation {}: {}",
            self.seed, self.op, self.what
        )?;
        for line in &self.log {
            writeln!(f, "  {line}")?;
        }
        write!(f, "again: {}", self.command)
    }
}

impl std::error::Error for Failure {}
