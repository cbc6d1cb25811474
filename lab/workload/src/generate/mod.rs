//! Generated workloads, and all that are known by name.

pub mod filebench;
mod loads;

use crate::rng::Rng;
use crate::trace::{self, Line, Op};
use crate::traces;

/// `SysBench`'s sequential write: one file, written once.
#[derive(Clone, Copy, Debug)]
pub struct Sysbench {
    /// Bytes written.
    pub size: u64,
}

impl Default for Sysbench {
    fn default() -> Self {
        Sysbench { size: 190 << 20 }
    }
}

impl Sysbench {
    /// The operations: one phase, `write`.
    pub fn ops(self) -> impl Iterator<Item = Op> {
        let create = Op::Create {
            path: "sysbench".into(),
            size: self.size,
        };
        [create, phase("write")].into_iter()
    }
}

/// Postmark in a single directory, without reads and appends.
#[derive(Clone, Copy, Debug)]
pub struct Postmark {
    /// Files created at first.
    pub files: u64,
    /// Bytes of each file.
    pub size: u64,
    /// Creates and deletes after that, half and half at random.
    pub transactions: u64,
    /// More files than this are never there at once: a delete takes the place of a create.
    pub files_max: u64,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Default for Postmark {
    /// 1,300 files of 128 KiB and 30,000 transactions, in at most 200 MiB.
    fn default() -> Self {
        Postmark {
            files: 1300,
            size: 128 << 10,
            transactions: 30_000,
            files_max: 1600,
            seed: 1,
        }
    }
}

impl Postmark {
    /// The operations: phases `create`, `mixed` and `delete`.
    pub fn ops(self) -> impl Iterator<Item = Op> {
        let mut rng = Rng::new(self.seed);
        let mut live: Vec<u64> = Vec::new();
        let (mut next_file, mut step) = (0, 0);
        std::iter::from_fn(move || {
            step += 1;
            let mixed = self.files + 1..=self.files + self.transactions;
            let create = match step - 1 {
                at if at < self.files => true,
                at if at == self.files => return Some(phase("create")),
                at if mixed.contains(&at) => {
                    live.is_empty() || rng.one_in(2) && (live.len() as u64) < self.files_max
                }
                at if at == mixed.end() + 1 => return Some(phase("mixed")),
                _ => false,
            };
            if create {
                live.push(next_file);
                next_file += 1;
                return Some(Op::Create {
                    path: format!("f{}", next_file - 1),
                    size: self.size,
                });
            }
            if live.is_empty() {
                // The one more step after the last delete, then the end.
                let ended = std::mem::replace(&mut next_file, u64::MAX) == u64::MAX;
                return (!ended).then(|| phase("delete"));
            }
            let gone = live.swap_remove(rng.below(live.len() as u64) as usize);
            Some(Op::Unlink {
                path: format!("f{gone}"),
            })
        })
    }
}

fn phase(name: &str) -> Op {
    Op::Phase { name: name.into() }
}

/// A workload that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// What to ask for.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Whether the reference figures were taken with an fsync after every write.
    pub fsync: bool,
    make: fn() -> Vec<Line>,
}

impl Known {
    /// Its operations.
    pub fn lines(&self) -> Vec<Line> {
        (self.make)()
    }
}

fn stored(name: &str) -> Vec<Line> {
    traces::open(name).unwrap_or_default()
}

/// All workloads with a name.
pub const KNOWN: &[Known] = &[
    Known {
        name: "sysbench",
        about: "one file of 190 MiB, written in sequence",
        fsync: false,
        make: || trace::number(Sysbench::default().ops()).collect(),
    },
    Known {
        name: "seq",
        about: "the same as a trace",
        fsync: false,
        make: || stored("seq"),
    },
    Known {
        name: "postmark",
        about: "1,300 files of 128 KiB, 30,000 creates and deletes, all deleted",
        fsync: true,
        make: || trace::number(Postmark::default().ops()).collect(),
    },
    Known {
        name: "small",
        about: "5,000 files of 0.5 to 4 KB, then 15,000 rewrites and appends",
        fsync: true,
        make: || stored("small"),
    },
    Known {
        name: "randupd",
        about: "20,000 random overwrites of 4 KiB in a file of 100 MiB",
        fsync: true,
        make: || stored("randupd"),
    },
    Known {
        name: "randupd75",
        about: "40,000 random overwrites of 4 KiB in a file of 180 MiB",
        fsync: true,
        make: || stored("randupd75"),
    },
    Known {
        name: "append",
        about: "20,000 appends of 100 bytes to one file",
        fsync: true,
        make: || stored("append"),
    },
    Known {
        name: "config",
        about: "60 settings files in 6 directories, replaced 12,000 times by a rename",
        fsync: true,
        make: || stored("config"),
    },
    Known {
        name: "tree",
        about: "directories in directories: files made, renamed, truncated, grown a little",
        fsync: true,
        make: || stored("tree"),
    },
    Known {
        name: "mail",
        about: "mails in 40 directories that come, grow, are read and go",
        fsync: true,
        make: || stored("mail"),
    },
    Known {
        name: "cache",
        about: "files in 256 directories that come and go on a chip 80 % full",
        fsync: true,
        make: || stored("cache"),
    },
    Known {
        name: "fileserver",
        about: "1,000 files of about 64 KiB: 3,000 times one created, appended to, read, deleted",
        fsync: false,
        make: || trace::number(loads::fileserver()).collect(),
    },
    Known {
        name: "varmail",
        about: "1,000 mails of about 16 KiB: 4,000 times one deleted, written, read and grown, synced",
        fsync: false,
        make: || trace::number(loads::varmail()).collect(),
    },
    Known {
        name: "webserver",
        about: "1,000 pages of about 16 KiB: 20,000 read, 16 KiB of a log for each ten",
        fsync: false,
        make: || trace::number(loads::webserver()).collect(),
    },
    Known {
        name: "dbench",
        about: "4 clients: 1,000 trees of some files made, read back, renamed and removed",
        fsync: false,
        make: || trace::number(loads::dbench()).collect(),
    },
    Known {
        name: "compile",
        about: "a source tree copied, read and compiled 20 times, after Andrew",
        fsync: false,
        make: || trace::number(loads::compile()).collect(),
    },
    Known {
        name: "sqlite",
        about: "5,000 transactions of one row through a rollback journal",
        fsync: false,
        make: || trace::number(loads::sqlite()).collect(),
    },
    Known {
        name: "sensor",
        about: "20,000 records of 64 bytes, one in 100 ms, ten to a sync, in files of 64 KiB",
        fsync: false,
        make: || trace::number(loads::sensor()).collect(),
    },
    Known {
        name: "filebench-createfiles",
        about: "100 files of about 128 KiB in a directory, each synced",
        fsync: false,
        make: || trace::number(filebench::create_files()).collect(),
    },
    Known {
        name: "filebench-copyfiles",
        about: "500 files of about 128 KiB copied, each synced",
        fsync: false,
        make: || trace::number(filebench::copy_files()).collect(),
    },
    Known {
        name: "filebench-createdelete",
        about: "1,500 files of about 128 KiB: 4,000 times one deleted, another created and synced",
        fsync: false,
        make: || trace::number(filebench::create_delete()).collect(),
    },
    Known {
        name: "filebench-threads-1",
        about: "1 thread: 2,000 times 128 KiB created, 128 KiB appended, one deleted, one looked at",
        fsync: false,
        make: || trace::number(filebench::threads(1)).collect(),
    },
    Known {
        name: "filebench-threads-5",
        about: "5 threads: 2,000 times 128 KiB created, 128 KiB appended, one deleted, one looked at",
        fsync: false,
        make: || trace::number(filebench::threads(5)).collect(),
    },
    Known {
        name: "filebench-threads-10",
        about: "10 threads: 2,000 times 128 KiB created, 128 KiB appended, one deleted, one looked at",
        fsync: false,
        make: || trace::number(filebench::threads(10)).collect(),
    },
    Known {
        name: "filebench-threads-20",
        about: "20 threads: 2,000 times 128 KiB created, 128 KiB appended, one deleted, one looked at",
        fsync: false,
        make: || trace::number(filebench::threads(20)).collect(),
    },
    Known {
        name: "filebench-update-0",
        about: "1,500 files of 128 KiB: 2,000 times one created, one deleted, one looked at",
        fsync: false,
        make: || trace::number(filebench::updates(0, 0)).collect(),
    },
    Known {
        name: "filebench-update-32",
        about: "the same, and 32 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(1, 32)).collect(),
    },
    Known {
        name: "filebench-update-64",
        about: "the same, and 64 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(1, 64)).collect(),
    },
    Known {
        name: "filebench-update-128",
        about: "the same, and 128 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(1, 128)).collect(),
    },
    Known {
        name: "filebench-update-16x2",
        about: "the same, and 2 pieces of 16 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(2, 16)).collect(),
    },
    Known {
        name: "filebench-update-8x4",
        about: "the same, and 4 pieces of 8 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(4, 8)).collect(),
    },
    Known {
        name: "filebench-update-4x8",
        about: "the same, and 8 pieces of 4 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(8, 4)).collect(),
    },
    Known {
        name: "filebench-update-2x16",
        about: "the same, and 16 pieces of 2 KiB of one overwritten and synced",
        fsync: false,
        make: || trace::number(filebench::updates(16, 2)).collect(),
    },
    Known {
        name: "realtime",
        about: "after filebench-createdelete 64 MiB written, 64 KiB at a time",
        fsync: true,
        make: || trace::number(filebench::stream(0)).collect(),
    },
    Known {
        name: "realtime-idle",
        about: "the same with 100 ms before each 64 KiB, for cleaning",
        fsync: true,
        make: || trace::number(filebench::stream(100)).collect(),
    },
];

/// The workload of a name.
pub fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}
