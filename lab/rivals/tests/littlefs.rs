//! littlefs over a strict chip: it keeps what it was given, its counts are exact,
//! and what does not end ends.
#![cfg(feature = "littlefs")]

use flashkit_rivals::LittleFs;
use flashkit_sim::{SimNand, preset};
use flashkit_workload::{Options, Replayed, Store, replay_store, trace};

fn fresh(limit_s: u64) -> LittleFs {
    LittleFs::new(SimNand::new(preset("micron-20m").unwrap()), limit_s).unwrap()
}

fn replay(text: &str, limit_s: u64) -> Result<Replayed, String> {
    let options = Options {
        verify: true,
        ..Options::default()
    };
    let lines = trace::parse(text.as_bytes()).unwrap();
    replay_store(fresh(limit_s), lines, options).map_err(|error| error.to_string())
}

#[test]
fn what_is_written_is_read() {
    let text = "K d\nC d/a 100000\nU d/a 5000 3000\nR d/a 0 100000\nC b 10\nA b 300\nN b d/c\nT d/c 200\nS d/c\n\
                W d/a 7000\nC gone 4096\nD gone\nK e\nZ e\nI 5\nM end\nR d/c 0 999\n";
    let replayed = replay(text, 1000).unwrap();
    assert_eq!(replayed.verified_bytes, 7200);
    let mut fs = fresh(1000);
    fs.mkdir("x").unwrap();
    let file = fs.create("x/y").unwrap();
    fs.close(file).unwrap();
    let mut names = fs.list().unwrap();
    names.sort();
    assert_eq!(names, [("x".into(), true), ("x/y".into(), false)]);
    assert_eq!(
        fs.open("nothing").unwrap_err().to_string(),
        "no such file or directory"
    );
    assert_eq!(
        fs.rmdir("x").unwrap_err().to_string(),
        "directory not empty"
    );
    assert!(fs.close(99).is_err(), "a file that is not open");
}

#[test]
fn costs_are_exact() {
    // 1 MiB and the pointers between its blocks are 513 pages in 9 blocks, read back as they are
    // written; the file's name and its size are a page each.
    let total = replay("C a 1048576\n", 1000).unwrap().report.total;
    assert_eq!(
        (total.page_reads, total.page_programs, total.block_erases),
        (534, 515, 9)
    );
    assert_eq!(
        total.flash_us,
        25 * total.page_reads + 200 * total.page_programs + 500 * total.block_erases
    );
}

#[test]
fn a_full_chip_and_a_limit() {
    let full = replay("C a 40000000\n", 1000).unwrap_err();
    assert_eq!(full, "line 1: `C a 40000000`: no space left on the chip");
    let text = "F a 99999999\nM full\nD a\nC b 1000\n";
    let replayed = replay(text, 1000).unwrap();
    assert!(replayed.report.phases[0].user_bytes > 18 << 20);
    let text = format!("C a 1000000\n{}", "U a 5 5\nS a\n".repeat(1000));
    let late = replay(&text, 2).unwrap_err();
    assert!(late.ends_with("given up after 2 s of flash time"), "{late}");
}
