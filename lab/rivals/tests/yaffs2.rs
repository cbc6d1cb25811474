//! YAFFS2 over a chip: it keeps what it was given, over a remount and a power cut as well; its
//! counts are exact; a full chip is told.
#![cfg(feature = "yaffs2")]

use flashkit_rivals::Yaffs2;
use flashkit_sim::{Faults, SimNand, preset};
use flashkit_workload::{Options, Replayed, Store, replay_store, trace, traces};

fn chip() -> SimNand {
    SimNand::new(preset("micron-20m").unwrap())
}

fn fresh() -> Yaffs2 {
    Yaffs2::new(chip()).unwrap()
}

fn replay_on(fs: Yaffs2, text: &str, fsync: bool) -> Result<Replayed, String> {
    let options = Options {
        verify: true,
        fsync,
        ..Options::default()
    };
    let lines = trace::parse(text.as_bytes()).unwrap();
    replay_store(fs, lines, options).map_err(|error| error.to_string())
}

fn replay(text: &str) -> Result<Replayed, String> {
    replay_on(fresh(), text, false)
}

fn put(fs: &mut Yaffs2, path: &str, data: &[u8]) {
    let file = fs.create(path).unwrap();
    fs.write(&file, 0, data).unwrap();
    fs.close(file).unwrap();
}

fn get(fs: &mut Yaffs2, path: &str) -> Vec<u8> {
    let file = fs.open(path).unwrap();
    let mut data = vec![0; fs.size(&file).unwrap() as usize];
    let mut done = 0;
    while done < data.len() {
        let read = fs.read(&file, done as u64, &mut data[done..]).unwrap();
        assert!(read > 0, "{path} ends at {done}");
        done += read;
    }
    fs.close(file).unwrap();
    data
}

fn text(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed + (i >> 8)) as u8).collect()
}

#[test]
fn what_is_written_is_read() {
    let text = "K d\nC d/a 100000\nU d/a 5000 3000\nR d/a 0 100000\nC b 10\nA b 300\nN b d/c\nT d/c 200\nS d/c\n\
                W d/a 7000\nC gone 4096\nD gone\nK e\nZ e\nI 5\nM end\nR d/c 0 999\n";
    assert_eq!(replay(text).unwrap().verified_bytes, 7200);
    let mut fs = fresh();
    fs.mkdir("x").unwrap();
    put(&mut fs, "x/y", b"");
    let mut names = fs.list().unwrap();
    names.sort();
    assert_eq!(names, [("x".into(), true), ("x/y".into(), false)]);
    let error = |done: Result<_, flashkit_workload::StoreError>| done.unwrap_err().to_string();
    assert_eq!(error(fs.open("no")), "no such file or directory");
    assert_eq!(error(fs.open("x")), "is a directory");
    assert_eq!(error(fs.rmdir("x").map(|()| 0)), "directory not empty");
    assert_eq!(error(fs.mkdir("x").map(|()| 0)), "file exists");
    assert!(fs.close(99).is_err(), "a file that is not open");
}

#[test]
fn a_file_grows_with_zeros_and_takes_the_place_of_another() {
    let mut fs = fresh();
    put(&mut fs, "a", &text(1, 5000));
    let file = fs.open("a").unwrap();
    fs.resize(&file, 9000).unwrap();
    fs.close(file).unwrap();
    put(&mut fs, "b", &text(2, 3));
    fs.rename("a", "b").unwrap();
    let mut grown = text(1, 5000);
    grown.resize(9000, 0);
    assert_eq!(get(&mut fs, "b"), grown);
    assert_eq!(fs.list().unwrap(), [("b".into(), false)]);
}

#[test]
fn costs_are_exact() {
    // 1 MiB is 512 pages of data. The file's header comes before and after them, and its
    // directory's once; a summary ends each of eight blocks. YAFFS2 reads the first page of each of
    // nine blocks before and after it is written, and a header before it writes the next.
    let total = replay("C a 1048576\n").unwrap().report.total;
    let programs: Vec<(&str, u64)> = total
        .programs
        .iter()
        .map(|p| (&p.purpose[..], p.pages))
        .collect();
    assert_eq!(
        programs[..5],
        [
            ("data", 512),
            ("moved by cleaning", 0),
            ("file headers", 3),
            ("summaries", 8),
            ("checkpoints", 3)
        ]
    );
    assert_eq!(
        (
            total.page_reads,
            total.spare_reads,
            total.page_programs,
            total.block_erases
        ),
        (19, 0, 526, 0)
    );
    let reads = total.page_reads + total.spare_reads;
    assert_eq!(
        total.flash_us,
        25 * reads + 200 * total.page_programs + 500 * total.block_erases
    );
}

#[test]
fn a_full_chip() {
    let full = replay("C a 40000000\n").unwrap_err();
    assert_eq!(full, "line 1: `C a 40000000`: no space left on the chip");
    let text = "F a 99999999\nM full\nD a\nC b 1000\n";
    let replayed = replay(text).unwrap();
    assert!(replayed.report.phases[0].user_bytes > 18 << 20);
}

/// Written over twice, with files that stay in each block: cleaning has to move them.
#[test]
fn cleaning_keeps_what_stays() {
    let mut lines = String::new();
    for i in 0..60 {
        lines += &format!("C churn{i} 100000\nC stays{i} 100000\n");
    }
    for round in 0..5 {
        for i in 0..60 {
            lines += &format!("W churn{i} {}\n", 90_000 + round * 2000);
        }
    }
    let replayed = replay_on(fresh(), &lines, true).unwrap();
    assert_eq!(replayed.verified_bytes, 60 * (98_000 + 100_000));
    let programs = &replayed.report.total.programs;
    let moved = programs.iter().find(|p| p.purpose == "moved by cleaning");
    assert!(moved.unwrap().pages > 0, "{programs:?}");
}

#[test]
fn an_unmounted_volume_is_mounted_from_its_checkpoint() {
    let mut fs = fresh();
    fs.mkdir("d").unwrap();
    for i in 0..50 {
        put(&mut fs, &format!("d/{i}"), &text(i, 10_000));
    }
    fs.finish().unwrap();
    let mut fs = Yaffs2::mount(fs.cut()).unwrap();
    let clean = fs.cost();
    for i in 0..50 {
        assert_eq!(get(&mut fs, &format!("d/{i}")), text(i, 10_000));
    }
    assert_eq!(fs.list().unwrap().len(), 51);
    drop(fs);
    assert!(clean.page_reads > 0);
}

/// Cuts between calls: what was closed or synced is there, what was neither is as it was.
#[test]
fn a_power_cut_takes_what_was_not_synced() {
    let mut fs = fresh();
    put(&mut fs, "closed", &text(1, 5000));
    put(&mut fs, "synced", &text(2, 5000));
    let file = fs.open("synced").unwrap();
    fs.write(&file, 100, &text(3, 300)).unwrap();
    fs.fsync(&file).unwrap();
    // In a cache of YAFFS2.
    fs.write(&file, 100, b"lost").unwrap();
    put(&mut fs, "gone", b"x");
    fs.unlink("gone").unwrap();
    fs.rename("closed", "renamed").unwrap();
    let mut after = Yaffs2::mount(fs.cut()).unwrap();
    assert_eq!(get(&mut after, "renamed"), text(1, 5000));
    let mut expected = text(2, 5000);
    expected[100..400].copy_from_slice(&text(3, 300));
    assert_eq!(get(&mut after, "synced"), expected);
    let mut names = after.list().unwrap();
    names.sort();
    assert_eq!(names, [("renamed".into(), false), ("synced".into(), false)]);
    // And it goes on from there.
    put(&mut after, "new", &text(4, 100_000));
    let mut again = Yaffs2::mount(after.cut()).unwrap();
    assert_eq!(get(&mut again, "new"), text(4, 100_000));
}

/// Two at a time, each with files open, and one ends: they share tables.
#[test]
fn volumes_do_not_mix() {
    let (mut one, mut two) = (fresh(), fresh());
    let a = one.create("a").unwrap();
    let b = two.create("a").unwrap();
    one.write(&a, 0, b"one").unwrap();
    two.write(&b, 0, b"second").unwrap();
    // A mount, while files are open.
    let three = fresh();
    assert_eq!((one.size(&a).unwrap(), two.size(&b).unwrap()), (3, 6));
    drop(three);
    // With its file open.
    drop(one);
    two.fsync(&b).unwrap();
    two.close(b).unwrap();
    assert_eq!(get(&mut two, "a"), b"second");
    let threads: Vec<_> = (0..4)
        .map(|i| {
            std::thread::spawn(move || {
                let mut fs = fresh();
                for n in 0..40 {
                    put(&mut fs, &n.to_string(), &text(i * n, 3000));
                }
                (0..40).all(|n| get(&mut fs, &n.to_string()) == text(i * n, 3000))
            })
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap());
    }
}

#[test]
fn bad_blocks_are_not_used() {
    let mut nand = chip();
    let faults = Faults {
        bad_blocks: vec![0, 5, 159],
        ..Faults::default()
    };
    nand.set_faults(faults).unwrap();
    let mut fs = Yaffs2::new(nand).unwrap();
    put(&mut fs, "a", &text(1, 10 << 20));
    assert_eq!(get(&mut fs, "a"), text(1, 10 << 20));
    assert!(fs.erase_counts().len() == 160 && fs.cost().page_programs > 5000);
}

#[test]
fn memory_grows_with_the_files() {
    let small = replay("C a 1000\n").unwrap().report.ram_bytes;
    let large = replay("C a 10000000\n").unwrap().report.ram_bytes;
    assert!(small > 20_000 && large > small, "{small} {large}");
}

/// The figures that the demo and the documents have of it, as far as they take no long time.
#[test]
fn traces_cost_what_the_documents_say() {
    for (name, fsync, request, phase, reads, programs, erases) in [
        ("seq", false, 2048, None, 3_091, 99_046, 0),
        ("append", true, 4096, None, 41_260, 41_624, 1),
        ("randupd", true, 4096, Some("update"), 23_213, 62_363, 45),
    ] {
        let fs = Yaffs2::new(SimNand::new(preset("slc-256m").unwrap())).unwrap();
        let options = Options {
            request,
            fsync,
            ..Options::default()
        };
        let report = replay_store(fs, traces::open(name).unwrap(), options).unwrap();
        let report = report.report;
        let counted = phase.map_or(&report.total, |phase| {
            let found = report.phases.iter().find(|held| held.name == phase);
            found.unwrap()
        });
        assert_eq!(
            (
                counted.page_reads + counted.spare_reads,
                counted.page_programs,
                counted.block_erases
            ),
            (reads, programs, erases),
            "{name}"
        );
        if name == "seq" {
            assert_eq!(report.ram_bytes, 544_320);
        }
    }
}
