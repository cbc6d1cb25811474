//! The runs of FlashLight's paper (section 5), in flash operations: exact, so that a change for the worse fails.
//! `SysBench` and Postmark with 2 KiB are in `figures`.

mod common;

use common::on_preset;
use flashkit_workload::{Options, Report, generate, replay_fs};

fn report(name: &str, fsync: bool, request: usize) -> Report {
    let mut fs = on_preset("slc-256m");
    let options = Options {
        fsync,
        request,
        verify: true,
        ..Options::default()
    };
    let lines = generate::find(name).unwrap().lines();
    let replayed = replay_fs(&mut fs, lines, options).unwrap();
    replayed.expected.unwrap().check_fs(&mut fs).unwrap();
    replayed.report
}

/// Reads, programs and erases of a phase.
fn counts(name: &str, request: usize, phase: &str) -> (u64, u64, u64) {
    let report = report(name, false, request);
    let p = report.phases.iter().find(|p| p.name == phase).unwrap();
    (
        p.page_reads + p.spare_reads,
        p.page_programs,
        p.block_erases,
    )
}

/// Table V: 98,805 programs, whatever the request. One read for each block.
#[test]
fn a_file_in_requests_of_any_size() {
    for request in [2, 4, 16, 64] {
        let total = report("sysbench", false, request << 10).total;
        let counts = (total.page_reads, total.page_programs, total.block_erases);
        assert_eq!(counts, (1_526, 97_415, 2), "{request} KiB");
    }
}

/// What a run costs with requests of 64 KiB, but for what it prepares.
fn demand(name: &str, want: (u64, u64, u64)) {
    assert_eq!(counts(name, 64 << 10, "serve"), want, "{name}");
}

/// 5.4.1.
#[test]
fn files_created_copied_and_deleted() {
    assert_eq!(
        counts("filebench-createfiles", 4 << 10, "create"),
        (119, 7_114, 1)
    );
    assert_eq!(
        counts("filebench-copyfiles", 4 << 10, "copy"),
        (34_000, 33_088, 1)
    );
    demand("filebench-createdelete", (44_880, 286_936, 4_070));
}

/// 5.4.2.
#[test]
fn threads() {
    demand("filebench-threads-1", (21_675, 270_832, 2_968));
    demand("filebench-threads-10", (56_517, 288_057, 3_321));
    demand("filebench-threads-20", (63_865, 292_392, 3_435));
}

/// 5.4.3: there, updates in many pieces take longer than with UBIFS.
#[test]
fn updates_in_one_piece_and_in_many() {
    demand("filebench-update-32", (46_101, 196_180, 2_705));
    demand("filebench-update-2x16", (45_890, 196_165, 2_700));
}

/// 5.4.4: the longest wait for 64 KiB and their fsync, in microseconds. There 512.1 ms, and 304.9 with cleaning before.
#[test]
fn waits_of_a_stream() {
    for (name, longest) in [("realtime", 21_515), ("realtime-idle", 20_616)] {
        let report = report(name, true, 64 << 10);
        let stream = report.phases.iter().find(|p| p.name == "stream").unwrap();
        assert_eq!(stream.latency_us.max as u64, longest, "{name}");
    }
}
