//! Kim and others: *FlashLight: A Lightweight Flash File System for Embedded Systems*, 2012.

use flashkit_workload::Phase;

use super::{Item, Judged, Look, Paper, better, holds, inside, open};
use crate::peers;
use crate::report::grouped;
use crate::study::System;

pub const PAPER: Paper = Paper {
    name: "FlashLight: A Lightweight Flash File System for Embedded Systems (ACM TECS 2012)",
    study: "flashlight",
    by_title: false,
    items: &[
        Item {
            place: "Figure 6 (b)",
            what: "collisions of names' hashes in a real set of files",
            ours: "inside Figure 6 (b)",
            judge: inside::collisions,
        },
        Item {
            place: "Section 4.3",
            what: "remnants take 0.001 % of the data, and compaction begins beyond 96.4 % of the space",
            ours: "inside Remnants",
            judge: inside::remnants,
        },
        Item {
            place: "Figure 8 (a)",
            what: "sequential writes: FlashLight is fastest at all sizes of requests",
            ours: "sysbench",
            judge: |look| fastest(look, &SYSBENCH, ""),
        },
        Item {
            place: "Figure 8 (b)",
            what: "nearly all its time goes to programs of data",
            ours: "sysbench-2k",
            judge: |look| data_alone(look, "sysbench-2k"),
        },
        Item {
            place: "Table V",
            what: "98,805 programs and 1,544 erases, UBIFS 104,782 and 1,550",
            ours: "sysbench-2k",
            judge: |look| programs(look, "sysbench-2k", 98_805),
        },
        Item {
            place: "Figure 9",
            what: "96.5 % of the writes come within 1 ms of the one before, of YAFFS2's 89.1 %",
            ours: "inside Figure 9",
            judge: inside::intervals,
        },
        Item {
            place: "Section 5.2",
            what: "erasing when blocks are taken, not before, makes little difference: 0.08 MB/s at most",
            ours: "inside Variants",
            judge: inside::erase_at_allocation,
        },
        Item {
            place: "Sections 5.2 to 5.4",
            what: "metadata takes 0.004, 3.5 and 2.6 MB of flash, UBIFS's index 4.7, 5.2 and 6.3",
            ours: "inside Metadata",
            judge: inside::metadata,
        },
        Item {
            place: "Figure 10 (a)",
            what: "Postmark: FlashLight has the most transactions a second",
            ours: "postmark",
            judge: |look| fastest(look, &["postmark-2k", "postmark-64k"], ""),
        },
        Item {
            place: "Figure 10 (b)",
            what: "its index and its cleaning take a small part of the time",
            ours: "postmark-2k",
            judge: |look| data_alone(look, "postmark-2k"),
        },
        Item {
            place: "Table VI",
            what: "Postmark: 68,464 reads, 1,035,964 programs, 15,816 erases",
            ours: "postmark-2k",
            judge: postmark,
        },
        Item {
            place: "Table VII",
            what: "tests of 2,000 files that run for 1,000 s",
            ours: "inside Table VII",
            judge: inside::table_vii,
        },
        Item {
            place: "Section 5.4.1",
            what: "compaction whenever 50 remnants are new costs 12.5 % of Create/DeleteFiles",
            ours: "inside Variants",
            judge: inside::compaction,
        },
        Item {
            place: "Figure 11 (a)",
            what: "Filebench: about 20 % faster than UBIFS in Create/DeleteFiles, faster in the others",
            ours: "filebench-c",
            judge: |look| fastest(look, &MICRO, PAGE_CACHE),
        },
        Item {
            place: "Figure 11 (b)",
            what: "Create/DeleteFiles: where the time goes",
            ours: "filebench-createdelete",
            judge: |look| data_alone(look, "filebench-createdelete"),
        },
        Item {
            place: "Figure 11 (c)",
            what: "1 to 20 threads: FlashLight is faster with all, and gains up to 10",
            ours: "filebench-threads",
            judge: threads,
        },
        Item {
            place: "Figure 11 (d)",
            what: "updates: faster than UBIFS in one piece, and UBIFS is faster where they are in many",
            ours: "filebench-update",
            judge: updates,
        },
        Item {
            place: "Figure 12",
            what: "the longest wait for 64 KiB is 512 ms, and 305 when the application asks for cleaning",
            ours: "inside Figure 12",
            judge: inside::waits,
        },
    ],
};

const SYSBENCH: [&str; 4] = ["sysbench-2k", "sysbench-4k", "sysbench-16k", "sysbench-64k"];
const MICRO: [&str; 3] = [
    "filebench-createfiles",
    "filebench-copyfiles",
    "filebench-createdelete",
];
const THREADS: [&str; 4] = [
    "filebench-threads-1",
    "filebench-threads-5",
    "filebench-threads-10",
    "filebench-threads-20",
];
const UPDATES: [&str; 8] = [
    "filebench-update-0",
    "filebench-update-32",
    "filebench-update-64",
    "filebench-update-128",
    "filebench-update-16x2",
    "filebench-update-8x4",
    "filebench-update-4x8",
    "filebench-update-2x16",
];
const PAGE_CACHE: &str =
    "FlashLight runs in this process without a page cache, UBIFS behind the kernel's";

/// The phase that counts of a run.
fn phase<'a>(look: &'a Look<'_>, name: &str, system: System) -> Option<&'a Phase> {
    let mut chapters = look.chapters.iter();
    let held = chapters.find(|chapter| chapter.name == PAPER.study)?;
    peers::paper_phase(&held.outcomes, name, system)
}

fn seconds(look: &Look<'_>, name: &str, system: System) -> Option<f64> {
    phase(look, name, system).map(|phase| phase.flash_us as f64 / 1e6)
}

/// Times of the best other over that of FlashLight, least and most, and where it is behind.
struct Ahead {
    least: f64,
    most: f64,
    behind: Vec<&'static str>,
    said: String,
}

/// FlashLight beside all others that were measured, in these runs; `Err`: UBIFS, which the paper
/// compares with, is not measured in all of them, or FlashLight is not.
fn beside(look: &Look<'_>, runs: &[&'static str]) -> Option<Result<Ahead, Judged>> {
    let others = [System::Ubifs, System::Jffs2, System::Yaffs2];
    let lacks = |system: System| runs.iter().any(|run| seconds(look, run, system).is_none());
    if lacks(System::FlashLight) {
        return None;
    }
    if lacks(System::Ubifs) {
        let missing = runs
            .iter()
            .filter(|run| seconds(look, run, System::Ubifs).is_none());
        let missing = missing.copied().collect::<Vec<_>>().join(", ");
        return Some(Err(open(&format!(
            "of UBIFS, which the paper compares with, there is no {missing}"
        ))));
    }
    let mut ahead = Ahead {
        least: f64::INFINITY,
        most: 0.0,
        behind: Vec::new(),
        said: String::new(),
    };
    let mut by = Vec::new();
    for run in runs {
        let own = seconds(look, run, System::FlashLight)?;
        let (best, system) = others
            .iter()
            .filter_map(|system| Some((seconds(look, run, *system)?, *system)))
            .min_by(|a, b| a.0.total_cmp(&b.0))?;
        ahead.least = ahead.least.min(best / own);
        ahead.most = ahead.most.max(best / own);
        if best < own {
            ahead.behind.push(run);
            by.push(format!("{run} ({})", system.title()));
        }
    }
    ahead.said = format!(
        "the best other takes {:.2} to {:.2} times its time",
        ahead.least, ahead.most
    );
    if !by.is_empty() {
        ahead.said += &format!("; behind in {}", by.join(", "));
    }
    let missing = others.iter().filter(|other| lacks(**other));
    let missing: Vec<_> = missing.map(|other| other.title()).collect();
    if !missing.is_empty() {
        ahead.said += &format!("; not measured in all: {}", missing.join(", "));
    }
    Some(Ok(ahead))
}

/// Whether FlashLight takes less time than all others that were measured, in all of these runs.
fn fastest(look: &Look<'_>, runs: &[&'static str], cause: &str) -> Judged {
    match beside(look, runs)? {
        Ok(ahead) => holds(ahead.behind.is_empty(), ahead.said, cause),
        Err(open) => open,
    }
}

/// In the paper UBIFS is faster where updates are scattered.
fn updates(look: &Look<'_>) -> Judged {
    let [one, many] = [&UPDATES[..4], &UPDATES[4..]];
    match (beside(look, one)?, beside(look, many)?) {
        (Err(open), _) | (_, Err(open)) => open,
        (Ok(one), Ok(many)) => better(
            one.behind.is_empty() && many.behind.is_empty(),
            one.behind.is_empty() && many.behind.len() == UPDATES.len() - 4,
            format!("in one piece {}; in many {}", one.said, many.said),
            "Pieces of one size are a page and more, so each costs what a page costs",
        ),
    }
}

fn data_alone(look: &Look<'_>, run: &str) -> Judged {
    let phase = phase(look, run, System::FlashLight)?;
    let pages = phase.user_bytes.div_ceil(2_048);
    let data = pages as f64 * 252.8e-6;
    let all = phase.flash_us as f64 / 1e6;
    let parts = [
        (
            "reads",
            (phase.page_reads + phase.spare_reads) as f64 * 77.8e-6,
        ),
        ("programs", phase.page_programs as f64 * 252.8e-6),
        ("erases", phase.block_erases as f64 * 1_500e-6),
    ];
    let parts = parts.map(|(what, s)| format!("{what} {s:.1} s"));
    holds(
        data > 0.75 * all,
        format!(
            "of {all:.1} s the data alone takes {:.0} %: {}",
            100.0 * data / all,
            parts.join(", ")
        ),
        "What is read by the application is in the time as well",
    )
}

fn programs(look: &Look<'_>, run: &str, papers: u64) -> Judged {
    let phase = phase(look, run, System::FlashLight)?;
    better(
        phase.page_programs < papers,
        false,
        format!(
            "{} programs, {} erases: free blocks are erased when they are taken, and a fresh chip needs none",
            grouped(phase.page_programs),
            grouped(phase.block_erases)
        ),
        "",
    )
}

fn postmark(look: &Look<'_>) -> Judged {
    let phase = phase(look, "postmark-2k", System::FlashLight)?;
    let reads = phase.page_reads + phase.spare_reads;
    better(
        reads < 68_464 && phase.block_erases < 15_816,
        false,
        format!(
            "{} reads, {} programs, {} erases; this random stream's data alone is 1,044,352 programs",
            grouped(reads),
            grouped(phase.page_programs),
            grouped(phase.block_erases)
        ),
        "",
    )
}

fn threads(look: &Look<'_>) -> Judged {
    let own: Option<Vec<f64>> = THREADS
        .iter()
        .map(|run| seconds(look, run, System::FlashLight))
        .collect();
    let own = own?;
    let found = match beside(look, &THREADS)? {
        Ok(ahead) => ahead.said,
        Err(open) => open?.1,
    };
    let gains = own[2] < own[0];
    holds(
        gains,
        format!(
            "{:.1}, {:.1}, {:.1}, {:.1} s with 1, 5, 10, 20 threads; {found}",
            own[0], own[1], own[2], own[3]
        ),
        "In 16 KiB two files' inodes are in RAM; with more threads they are written each time that it is another's turn. \
         The paper gains by calls that overlap on the host; flash time is the chip's alone",
    )
}
