//! The runs of FlashLight's paper (section 5), in flash operations: exact, so that a change for the
//! worse fails. `SysBench` and Postmark with 2 KiB are in `figures`.

use crate::common::{Fs, format, on_preset, try_mount_in};
use flashkit_flashlight::{Cleaner, Config};
use flashkit_sim::{SimNand, preset};
use flashkit_vfs::any::AnyNand;
use flashkit_workload::{Options, Phase, Report, generate, replay_fs};

fn report(name: &str, fsync: bool, request: usize) -> Report {
    report_of(&mut on_preset("slc-256m"), name, fsync, request)
}

fn report_of(fs: &mut Fs, name: &str, fsync: bool, request: usize) -> Report {
    let options = Options {
        fsync,
        request,
        verify: true,
        ..Options::default()
    };
    let lines = generate::find(name).unwrap().lines();
    let replayed = replay_fs(fs, lines, options).unwrap();
    replayed.expected.unwrap().check_fs(fs).unwrap();
    replayed.report
}

fn phase_of(report: Report, name: &str) -> Phase {
    let mut phases = report.phases.into_iter();
    phases.find(|p| p.name == name).unwrap()
}

/// Reads, programs and erases.
fn counts_of(p: &Phase) -> (u64, u64, u64) {
    (
        p.page_reads + p.spare_reads,
        p.page_programs,
        p.block_erases,
    )
}

fn counts(name: &str, request: usize, phase: &str) -> (u64, u64, u64) {
    counts_of(&phase_of(report(name, false, request), phase))
}

/// Table V: 98,805 programs, whatever the request. One read for each block.
#[test]
fn a_file_in_requests_of_any_size() {
    for request in [2, 4, 16, 64] {
        let total = report("sysbench", false, request << 10).total;
        let counts = (total.page_reads, total.page_programs, total.block_erases);
        assert_eq!(counts, (1_529, 97_420, 2), "{request} KiB");
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
        (120, 7_116, 1)
    );
    assert_eq!(
        counts("filebench-copyfiles", 4 << 10, "copy"),
        (33_095, 32_608, 1)
    );
    demand("filebench-createdelete", (45_084, 277_646, 3_905));
}

/// 5.4.2.
#[test]
fn threads() {
    demand("filebench-threads-1", (23_171, 264_676, 2_869));
    demand("filebench-threads-10", (55_427, 280_878, 3_199));
    demand("filebench-threads-20", (66_252, 287_359, 3_372));
}

/// 5.4.3: there, updates in many pieces take longer than with UBIFS.
#[test]
fn updates_in_one_piece_and_in_many() {
    demand("filebench-update-32", (46_332, 189_255, 2_593));
    demand("filebench-update-2x16", (46_693, 189_836, 2_609));
}

/// 5.4.4: the longest wait for 64 KiB and their fsync, in microseconds. There 512.1 ms, and
/// 304.9 with cleaning before.
#[test]
fn waits_of_a_stream() {
    for (name, longest) in [("realtime", 22_602), ("realtime-idle", 27_330)] {
        let stream = phase_of(report(name, true, 64 << 10), "stream");
        assert_eq!(stream.latency_us.max as u64, longest, "{name}");
    }
}

/// What a run costs with the paper's cleaner, in so much RAM: at most twice the flash time that it
/// takes with the default.
fn demand_of_the_papers_cleaner(name: &str, ram: usize, want: (u64, u64, u64)) {
    let [usual, papers] = [Cleaner::Space, Cleaner::Paper].map(|cleaner| {
        let config = Config {
            cleaner,
            ..Config::default()
        };
        let chip = format(SimNand::new(preset("slc-256m").unwrap()), 1);
        let mut fs = try_mount_in(AnyNand::new(chip), ram, config).unwrap();
        phase_of(report_of(&mut fs, name, false, 64 << 10), "serve")
    });
    assert_eq!(counts_of(&papers), want, "{name} in {ram} bytes");
    let (usual, papers) = (usual.flash_us, papers.flash_us);
    assert!(papers <= 2 * usual, "{name}: {papers} us, else {usual} us");
}

/// 4.3: with more than 140 blocks on the dirty list, 9 are cleaned. A block of metadata that is
/// moved makes others dirty: once there was no end of that.
#[test]
fn the_papers_cleaner_comes_to_an_end() {
    demand_of_the_papers_cleaner("filebench-createdelete", 65_536, (85_182, 319_749, 4_496));
    demand_of_the_papers_cleaner("filebench-update-2x16", 16_384, (76_811, 188_170, 2_522));
}
