//! Studies of cases that need no guest: results, resumption, states that are not as they should be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flashkit_experiments::micro::state::State;
use flashkit_experiments::study::{self, Case, Folder, How, Made, Outcome, System, any_state};
use flashkit_workload::{Line, Phase, Report, Stopped, trace};
use serde_json::Map;

fn case(id: &str, system: System, text: &'static str) -> Case {
    Case {
        id: id.into(),
        system,
        chip: flashkit_sim::preset("micron-20m").unwrap(),
        params: Map::new(),
        lines: Arc::new(move || -> Vec<Line> { trace::parse(text.as_bytes()).unwrap() }),
        request: 2048,
        fsync: false,
        cold: false,
        check: any_state(),
        timed: false,
        limit: 1,
        flash_limit: 1,
    }
}

fn run(cases: &[Case], folder: &Folder, retry: bool) -> anyhow::Result<study::Summary> {
    let steps = AtomicUsize::new(0);
    let summary = study::run(
        cases,
        &How {
            folder,
            guests: &|| anyhow::bail!("no guests here"),
            jobs: 2,
            retry,
            stale: false,
            progress: &|step| {
                assert!(step.done <= step.all);
                steps.fetch_add(1, Ordering::Relaxed);
            },
        },
    )?;
    assert_eq!(steps.into_inner(), summary.run);
    Ok(summary)
}

#[test]
fn a_study_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let good = "C a 100000\nM write\n";
    let cases = [
        case("s/one", System::FlashLight, good),
        case("s/deep/two", System::FlashLight, good),
        case("s/bad", System::FlashLight, "D nothing\n"),
    ];
    let summary = run(&cases[..1], &folder, false).unwrap();
    assert_eq!((summary.before, summary.run, summary.failed), (0, 1, 0));
    let summary = run(&cases, &folder, false).unwrap();
    assert_eq!((summary.before, summary.run, summary.failed), (1, 2, 1));
    let all = folder.load_all(&cases).unwrap();
    assert_eq!(all[0].report, {
        // Apart from the machine's own time.
        let mut same = all[1].report.clone().unwrap();
        let held = all[0].report.clone().unwrap();
        for (phase, held) in same
            .phases
            .iter_mut()
            .chain([&mut same.total])
            .zip(held.phases.iter().chain([&held.total]))
        {
            (phase.cpu_us, phase.host_us) = (held.cpu_us, held.host_us);
        }
        Some(same)
    });
    let error = all[2].error.as_deref().unwrap();
    assert_eq!(error, "line 1: `D nothing`: no such file or directory");
    assert_eq!(run(&cases, &folder, false).unwrap().run, 0);
    assert_eq!(run(&cases, &folder, true).unwrap().run, 1);
}

/// A run that its limit has stopped keeps its figures, and is no result to compare with.
#[test]
fn what_was_stopped_counts_for_nothing() {
    let case = case("s/stopped", System::LittleFs, "C a 1\nM write\n");
    let mut report = Report {
        total: Phase {
            flash_us: 12_000_400_000,
            ..Phase::default()
        },
        phases: vec![Phase {
            name: "write".into(),
            flash_us: 10_500_000,
            ..Phase::default()
        }],
        ..Report::default()
    };
    let whole = Outcome::new(&case, Ok(report.clone()), Made::here(None));
    assert!(whole.whole().is_some() && whole.phase("write").is_some());
    assert_eq!(whole.error, None);
    report.stopped = Some(Stopped {
        phase: "write".into(),
        ops: 7,
        of: 20,
    });
    let stopped = Outcome::new(&case, Ok(report), Made::here(None));
    assert!(stopped.report.is_some());
    assert!(stopped.whole().is_none() && stopped.phase("write").is_none());
    let why = "stopped after 12000 s of flash time and 7 of 20 operations of `write`, 1.500 s each";
    assert_eq!(stopped.error.as_deref(), Some(why));
}

#[test]
fn without_guests_the_rest_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let cases = [
        case("s/ubifs", System::Ubifs, "C a 1\n"),
        case("s/flashlight", System::FlashLight, "C a 1\n"),
    ];
    let error = run(&cases, &folder, false).unwrap_err();
    assert_eq!(error.to_string(), "no guests here");
    assert_eq!(folder.load_all(&cases).unwrap().len(), 1);
}

/// Each state is what its counters say, and one that was not made is noticed.
#[test]
fn states_are_verified() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let small = flashkit_sim::preset("micron-20m").unwrap();
    let large = flashkit_sim::preset("micron-100m").unwrap();
    let mut cases = Vec::new();
    for (name, state, chip, made) in [
        ("dirty", State::Dirty, small, State::Dirty),
        ("filled", State::Filled(75), large, State::Filled(75)),
        ("aged", State::Aged(1), small, State::Aged(1)),
        ("not-dirty", State::Dirty, small, State::Clean),
        ("less-filled", State::Filled(75), large, State::Filled(60)),
        ("less-aged", State::Aged(4), small, State::Aged(1)),
    ] {
        let bytes = u64::from(chip.blocks * chip.pages_per_block) * u64::from(chip.page_size);
        let mut case = case(name, System::FlashLight, "");
        case.chip = chip;
        case.lines = Arc::new(move || trace::number(made.ops(bytes, 1)).collect());
        case.check = Arc::new(move |case, report| state.verify(case, report));
        cases.push(case);
    }
    let summary = run(&cases, &folder, false).unwrap();
    assert_eq!(summary.failed, 3);
    for (i, outcome) in folder.load_all(&cases).unwrap().iter().enumerate() {
        assert_eq!(
            outcome.error.is_some(),
            i >= 3,
            "{}: {:?}",
            outcome.case,
            outcome.error
        );
        if let Some(error) = &outcome.error {
            assert!(error.starts_with("initial state: "), "{error}");
        }
    }
}

/// What this build or this user cannot run has no result, and it is said why.
#[test]
fn what_cannot_be_run_is_left_out() {
    let Some(why) = System::LittleFs.missing() else {
        println!("skipped: littlefs is in this build");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let cases = [
        case("s/littlefs", System::LittleFs, "C a 1\n"),
        case("s/flashlight", System::FlashLight, "C a 1\n"),
    ];
    let summary = run(&cases, &folder, true).unwrap();
    assert_eq!((summary.run, summary.failed), (1, 0));
    assert_eq!(summary.left_out.into_iter().collect::<Vec<_>>(), [(why, 1)]);
    assert!(folder.load("s/littlefs").unwrap().is_none());
}

/// The kernel's ext4 on the disk in this process: what it is asked to keep reaches
/// the chip, and is counted.
#[test]
fn ext4_on_a_translation_layer() {
    if let Some(why) = System::Ext4Jftl.missing() {
        println!("skipped: {why}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::at(dir.path());
    let mut synced = case(
        "s/ext4",
        System::Ext4Jftl,
        "C a 1000000\nM write\nU a 4096 4096\nM update\nR a 0 1000000\nD a\n",
    );
    synced.chip = flashkit_sim::preset("slc-256m").unwrap();
    synced.fsync = true;
    let bad = case("s/bad", System::Ext4Jftl, "D nothing\n");
    let summary = run(&[synced, bad.clone()], &folder, false).unwrap();
    let ended = folder.load("s/ext4").unwrap().unwrap();
    assert_eq!((summary.run, summary.failed), (2, 1), "{:?}", ended.error);
    let report = ended.report.unwrap();
    let [write, update, _] = &report.phases[..] else {
        panic!("{report:?}");
    };
    // 489 pages of data and some of ext4's own; then two, and the journal.
    assert!((489..600).contains(&write.page_programs), "{write:?}");
    assert!((2..60).contains(&update.page_programs), "{update:?}");
    assert!(write.flash_us > 489 * 252);
    let error = folder.load(&bad.id).unwrap().unwrap().error.unwrap();
    assert!(error.contains("No such file or directory"), "{error}");
}
