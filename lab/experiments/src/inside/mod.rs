//! What FlashLight's paper tells of its own inside: collisions of names, space for metadata,
//! remnants, intervals between programs, its variants, its Table VII as stated, and cleaning that
//! an application asks for.
//!
//! | module | what it does |
//! | --- | --- |
//! | `watch` | replays that are looked into |
//! | `names` | Figure 6 (b) |
//! | `space` | metadata, remnants |
//! | `times` | Figure 9 |
//! | `serve` | Create/DeleteFiles for 1,000 s, its variants, and Figure 12 |

mod names;
mod serve;
mod space;
mod times;
mod watch;

use crate::parts::{Part, Parts, Plot};

/// The paper.
pub const SOURCE: &str = "J. Kim et al., FlashLight, ACM TECS, 2012, sections 4.2, 4.3 and 5";

/// The experiment.
pub(crate) const INSIDE: Parts = Parts {
    parts: PARTS,
    code: &["flashlight", "workload", "rivals", "lab-inside"],
    notes: &[
        "Chip slc-256m: 2,048 blocks of 64 pages of 2,048 + 64 bytes; 77.8, 252.8 and 1,500 us. FlashLight has 16,384 \
         bytes of RAM, in this process.",
        "Filebench's own choices are not told in the paper: four fifths of the files are there at first, as its scripts \
         have it, sizes follow a gamma distribution with the shape 1.5, and a file that comes takes the place of one that \
         is not there.",
    ],
};

const PARTS: &[Part] = &[
    Part {
        id: "inside/names",
        title: "Figure 6 (b): names with one file ID",
        columns: &[
            "files",
            "directories",
            "number",
            "in the largest",
            "collisions, 7,680 IDs",
            "files to one",
            "collisions, FlashLight here",
        ],
        keys: 1,
        note: "paper: 5,000 files of users and 15,070 of a root file system; about one collision in 50 files of a user's \
               directory. Names here are of the machine that this was measured on, in the order of their paths. A \
               collision is a file whose ID is that of one before it in its directory. The paper's IDs are a hash \
               (SHA-1 there, SipHash here) modulo 7,680; those of FlashLight here have 28 bits",
        rows: names::rows,
        plot: None,
    },
    Part {
        id: "inside/metadata",
        title: "Metadata space (5.2 to 5.4)",
        columns: &["run", "MB at most", "paper", "its UBIFS"],
        keys: 1,
        note: "valid pages of inodes, maps and directories, looked at after every 16th fsync (SysBench has one, at its \
               end), of Create/DeleteFiles every 256th. The paper's two pages after SysBench are an inode and the root directory",
        rows: space::metadata,
        plot: None,
    },
    Part {
        id: "inside/remnants",
        title: "Remnants and compaction by fill (4.3)",
        columns: &[
            "filled, %",
            "data, MB",
            "remnants at most, pages",
            "% of the data",
            "blocks compacted",
            "blocks cleaned",
        ],
        keys: 0,
        note: "paper: films, music and pictures with 51.2, 30.5 and 18.3 % of the data; remnants take 0.001 % of the data \
               at most, and compaction begins beyond 96.4 % of the space. Sizes and transactions are not told: films of \
               4 to 12 MiB, music of 2 to 6, pictures of 0.5 to 2 here; 100 times one goes and others come at each fill. \
               Counts are since the fill before",
        rows: space::remnants,
        plot: None,
    },
    Part {
        id: "inside/intervals",
        title: "Figure 9: programs by the time since the one before",
        columns: &["ms", "FlashLight, %", "YAFFS2, %", "paper", "its YAFFS2"],
        keys: 0,
        note: "SysBench's 190 MiB, a page at a time. Flash time alone: what the host computes between two writes is in the \
               paper's figure, and not in this",
        rows: times::rows,
        plot: Some(Plot {
            x: "ms at most since the program before",
            y: "% of the programs",
            at: 0,
            curves: &[1, 2],
            papers: "within 1 ms come 96.5 % of FlashLight's writes and 89.1 % of YAFFS2's (5.2)",
        }),
    },
    Part {
        id: "inside/variants",
        title: "Variants: erase at allocation (5.2), compaction after every 50 files (5.4.1)",
        columns: &[
            "run",
            "variant",
            "flash s",
            "MB written",
            "MB/s",
            "over the first, %",
            "of reads, %",
            "of programs, %",
            "of erases, %",
        ],
        keys: 2,
        note: "paper: erasing at allocation costs 0.08 MB/s at most; compaction whenever 50 remnants are new costs 12.5 %, \
               and 71.8, 14.2 and 44 % of the reads, programs and erases. Here blocks are always erased when they are \
               taken: the first row's chip is erased, as the paper's is in advance, the second's was written full \
               before. After 50 new files all is cleaned that is worth it; shares are of what that takes",
        rows: serve::variants,
        plot: None,
    },
    Part {
        id: "inside/table-vii",
        title: "Table VII: Create/DeleteFiles as stated, 1,000 s of flash time",
        columns: &[
            "files at first",
            "of them fit",
            "flash s",
            "created",
            "MB/s",
            "page reads",
            "programs",
            "erases",
            "longest, ms",
        ],
        keys: 0,
        note: "paper: 2,000 files of 128 KiB in directories of 20, requests of 64 KiB, for 1,000 s. 2,000 files of the mean \
               size are 250 MiB, on a chip of 256. Each file is synced",
        rows: serve::table_vii,
        plot: None,
    },
    Part {
        id: "inside/realtime",
        title: "Figure 12: waits for writes of 64 KiB, cleaning asked for before each or not",
        columns: &[
            "MiB",
            "not asked, ms",
            "asked for all, ms",
            "asked for 64 KiB, ms",
        ],
        keys: 0,
        note: "the longest of each MiB, of a write and its fsync. After Create/DeleteFiles as in Table VII, with as many files \
               deleted as the stream needs",
        rows: serve::waits,
        plot: Some(Plot {
            x: "MiB written",
            y: "longest wait of each MiB, ms",
            at: 0,
            curves: &[1, 2, 3],
            papers: "512.1 ms at most, and 304.9 when cleaning is asked for before each write (5.4.4)",
        }),
    },
    Part {
        id: "inside/asked",
        title: "Cleaning on request (5.4.4): what it costs",
        columns: &[
            "cleaning",
            "mean, ms",
            "99 %, ms",
            "longest, ms",
            "flash s of writes",
            "flash s of cleaning",
            "programs",
            "erases",
        ],
        keys: 1,
        note: "the stream of Figure 12: 1,024 writes of 64 KiB, each with its fsync",
        rows: serve::asked,
        plot: None,
    },
];
