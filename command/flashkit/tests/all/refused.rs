//! What is asked for in vain: what is wrong is said in one line, with the status that it has.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use flashkit_sim::{Access, SimNand};

use crate::common::{Place, can_mount, complaint};
use crate::output::holders;

#[test]
fn what_an_image_holds_instead_is_said() {
    let here = Place::new();
    fs::create_dir(here.path("at")).unwrap();
    fs::write(here.path("f"), "f").unwrap();
    holders(&here);
    let jftl = "jftl: holds a disk of jftl; `flashkit attach --ftl jftl` takes it";
    let logdisk = "logdisk: holds a disk of logdisk; `flashkit attach --ftl logdisk` takes it";
    for (name, told) in [("jftl", jftl), ("logdisk", logdisk)] {
        let inside = format!("{name}:/f");
        for args in [
            &["ls", name][..],
            &["cat", &inside],
            &["cp", "f", &inside],
            &["cp", &inside, "out"],
            &["mount", name, "at"],
        ] {
            assert_eq!(here.complaint(1, args), told, "{args:?}");
        }
    }
    // It shows disks as well.
    for name in ["jftl", "logdisk"] {
        let told = here.json(0, &["info", "--json", name]);
        assert_eq!(told["disk"], name);
        assert!(told["sectors"].as_u64() > Some(0), "{told}");
    }
    assert_eq!(here.complaint(1, &["dump", "jftl"]), jftl);
    assert_eq!(here.complaint(1, &["dump", "logdisk"]), logdisk);
    for (ftl, name, told) in [
        ("logdisk", "jftl", jftl),
        ("page", "logdisk", logdisk),
        (
            "jftl",
            "flashlight",
            "flashlight: holds a FlashLight volume; `flashkit mount` takes it",
        ),
        (
            "logdisk",
            "nanofs",
            "nanofs: holds a Nano-FS volume; `flashkit mount` takes it",
        ),
        ("jftl", "text", "text: not a flashkit image"),
    ] {
        let args = ["serve", "--ftl", ftl, name, "--socket", "s"];
        assert_eq!(here.complaint(1, &args), told, "{ftl}");
    }
}

#[test]
fn values_that_can_never_be_right_are_refused_before_anything_is_done() {
    let here = Place::new();
    fs::write(here.path("raw"), vec![0xff; 2048]).unwrap();
    let nanofs = ["mkfs", "--fs", "nanofs"];
    for (args, why) in [
        (
            &["mkfs", "--slack", "200", "--chip", "micron-20m", "x"][..],
            "--slack 200: too many blocks",
        ),
        (&["mkfs", "--ram", "16", "x"], "--ram 16: too small"),
        (
            &["import", "--chip", "micron-20m", "--bad", "999", "raw", "x"],
            "--bad 999: micron-20m has the blocks 0 to 159",
        ),
        (
            &["import", "--chip", "micron-20m", "--bad", "one", "raw", "x"],
            "not the number of a block from 0 to",
        ),
        (
            &["bench", "seq", "--fs", "nanofs"],
            "[possible values: flashlight]",
        ),
    ] {
        let said = here.complaint(2, args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    for (option, value, why) in [
        (
            "--size",
            "5GiB",
            "--size 5368709120: a volume has 4 GiB at most",
        ),
        ("--files", "5000", "not a number of files from 1 to 4096"),
        ("--files", "-1", "not a number of files from 1 to 4096"),
    ] {
        let argument = format!("{option}={value}");
        let said = here.complaint(2, &[&nanofs[..], &[&argument, "x"]].concat());
        assert!(said.contains(why), "{argument}: {said}");
    }
    here.said(0, &["mkfs", "--chip", "micron-20m", "y"]);
    for command in ["fsck", "info", "ls"] {
        let said = here.complaint(2, &[command, "--ram", "16", "y"]);
        assert!(said.contains("--ram 16: too small"), "{command}: {said}");
    }
    assert!(!here.path("x").exists());
}

#[test]
fn numbers_and_options_that_mean_nothing_are_refused() {
    let here = Place::new();
    for (args, why) in [
        (
            &["soak", "--endurance", "1"][..],
            "not a number of erases from 32 to",
        ),
        (&["soak", "--chip", "1024+24x8x4"], "blocks must be from 8"),
        (
            &["soak", "--in-use", "--chip", "1000+24x8x64"],
            "a power of two",
        ),
        (
            &["soak", "--rounds", "0"],
            "not a number of sessions from 1 to",
        ),
        (&["soak", "--hours", "0"], "not a number of hours above 0"),
        (
            &["soak", "--seed", "99999999999999999999"],
            "not a seed from 0 to",
        ),
        (
            &["lab", "run", "peers", "--jobs", "0"],
            "not a number of cases from 1",
        ),
        (
            &["lab", "run", "logdisk", "--plan"],
            "--plan: logdisk is an experiment",
        ),
        (
            &["lab", "run", "nanofs", "--jobs", "2"],
            "--jobs: nanofs is an experiment",
        ),
        (
            &["lab", "run", "peers", "--plan", "--only", "none"],
            "no case of peers",
        ),
    ] {
        let said = here.complaint(2, args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    assert_eq!(fs::read_dir(here.dir.path()).unwrap().count(), 0);
}

#[test]
fn a_plan_makes_no_folder() {
    let here = Place::new();
    let planned = here.said(0, &["lab", "run", "micro", "--plan", "--quick"]);
    assert!(planned.contains("flashkit lab run micro --results 'lab-results'"));
    assert_eq!(fs::read_dir(here.dir.path()).unwrap().count(), 0);
}

/// A call by a shell, in the folder of a test; `flashkit` stands for the program.
fn shell(here: &Place, line: &str) -> Output {
    let line = line.replace("flashkit", env!("CARGO_BIN_EXE_flashkit"));
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(here.dir.path());
    command.output().unwrap()
}

#[test]
fn a_misspelt_word_is_set_right() {
    let here = Place::new();
    for (args, told) in [
        (
            &["mkfss"][..],
            "unrecognized subcommand 'mkfss'; tip: a similar subcommand exists: 'mkfs' \
             (see `flashkit --help`)",
        ),
        (
            &["mkfs", "--chp", "x"],
            "unexpected argument '--chp' found; tip: a similar argument exists: '--chip' \
             (see `flashkit mkfs --help`)",
        ),
        (
            &["mkfs", "--fs", "flashlite", "x"],
            "invalid value 'flashlite' for '--fs <FS>' [possible values: flashlight, nanofs]; \
             tip: a similar value exists: 'flashlight' (see `flashkit mkfs --help`)",
        ),
        (
            &["lab", "run", "--jbs", "3"],
            "unexpected argument '--jbs' found; tip: a similar argument exists: '--jobs' \
             (see `flashkit lab run --help`)",
        ),
        (
            &["mkfs", "--fs", "a\u{1b}[31m\n\nb", "x"],
            "invalid value 'a\\x1b[31m\\n\\nb' for '--fs <FS>' \
             [possible values: flashlight, nanofs] (see `flashkit mkfs --help`)",
        ),
    ] {
        assert_eq!(here.complaint(2, args), told, "{args:?}");
    }
}

#[test]
fn an_empty_name_is_called_so() {
    let here = Place::new();
    fs::write(here.path("f"), "f").unwrap();
    for args in [
        &["mkfs", ""][..],
        &["mkfs", "--root=", "x"],
        &["mount", "", "d"],
        &["ls", ""],
        &["cat", ""],
        &["cp", "", "x:/"],
        &["cp", "f", ""],
        &["lab", "run", ""],
        &["bench", ""],
        &["powercut", ""],
    ] {
        let said = here.complaint(2, args);
        assert!(said.contains("an empty name"), "{args:?}: {said}");
    }
    let said = here.complaint(2, &["mkfs", "x", "--chip"]);
    assert!(said.contains("a value is required"), "{said}");
}

#[test]
fn a_file_in_the_place_of_a_directory_is_not_said_to_be_missing() {
    let here = Place::new();
    fs::write(here.path("f"), "C a 10\n").unwrap();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x"]);
    for args in [
        &["mkfs", "-r", "f", "y"][..],
        &["replay", "f", "--dir", "f"],
        &["bench", "seq", "--dir", "f"],
        &["lab", "report", "--results", "f"],
    ] {
        assert_eq!(here.complaint(1, args), "f: not a directory", "{args:?}");
    }
    // The other way round: what ends in a slash is no file.
    let new = here.complaint(1, &["cp", "f", "x:/new/"]);
    assert_eq!(new, "x:/new/: no such directory");
    assert_eq!(here.said(0, &["ls", "x"]), "");
}

#[test]
fn what_did_not_take_something_is_named() {
    let here = Place::new();
    fs::write(here.path("large"), vec![7; 1 << 20]).unwrap();
    let made = [
        "mkfs",
        "--chip",
        "micron-20m",
        "--slack",
        "2",
        "--no-spare",
        "x.img",
    ];
    here.said(0, &made);
    here.said(0, &["cp", "large", "x.img:/"]);
    here.said(0, &["export", "x.img", "x.bin"]);
    let full = "No space left on device";
    let large = "File too large";
    for (line, told) in [
        (
            "flashkit --help >/dev/full",
            format!("standard output: {full}"),
        ),
        (
            "flashkit cat x.img:/large >/dev/full",
            format!("standard output: {full}"),
        ),
        (
            "flashkit ls x.img >/dev/full",
            format!("standard output: {full}"),
        ),
        (
            "flashkit cp x.img:/large /dev/full",
            format!("/dev/full: {full}"),
        ),
        (
            "ulimit -f 100; flashkit cp x.img:/large out",
            format!("out: {large}"),
        ),
        (
            "ulimit -f 100; flashkit cp -r x.img:/ out",
            format!("out/large: {large}"),
        ),
        (
            "ulimit -f 100; flashkit export x.img out.bin",
            format!("out.bin: {large}"),
        ),
        (
            "ulimit -f 100; flashkit mkfs out.img",
            format!("out.img: {large}"),
        ),
        (
            "ulimit -f 100; flashkit import --chip micron-20m x.bin out.img",
            format!("out.img: {large}"),
        ),
        (
            "ulimit -f 100; flashkit cp large x.img:/new",
            format!("x.img:/new: large: flash driver: {large}"),
        ),
    ] {
        let _ = fs::remove_dir_all(here.path("out"));
        assert_eq!(complaint(&shell(&here, line), 1), told, "{line}");
    }
    // Nothing that was begun is left.
    let _ = fs::remove_dir_all(here.path("out"));
    let names: Vec<_> = fs::read_dir(here.dir.path()).unwrap().collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(here.said(0, &["ls", "x.img"]), "large\n");
}

#[test]
fn what_is_in_use_is_refused_soon() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    here.said(0, &["mkfs", "--fs", "nanofs", "--size", "1MiB", "y.img"]);
    let _held = SimNand::open(here.path("x.img"), Access::ReadWrite).unwrap();
    let card = fs::File::open(here.path("y.img")).unwrap();
    card.lock().unwrap();
    for args in [
        &["ls", "x.img"][..],
        &["ls", "y.img"],
        &["export", "--spare", "x.img", "out"],
        &["serve", "--ftl", "jftl", "x.img", "--socket", "s"],
    ] {
        let start = Instant::now();
        let said = here.complaint(1, args);
        assert!(said.contains("in use"), "{args:?}: {said}");
        let waited = start.elapsed();
        assert!(
            waited < Duration::from_millis(1_500),
            "{args:?}: {waited:?}"
        );
    }
}

#[test]
fn a_replay_spares_what_is_there() {
    let here = Place::new();
    fs::write(here.path("t"), "C a 10\n").unwrap();
    fs::create_dir_all(here.path("dir/lost+found")).unwrap();
    here.said(0, &["replay", "t", "--dir", "dir"]);
    fs::write(here.path("dir/a"), "precious").unwrap();
    let told = "dir: not empty; --force replays over what is there";
    assert_eq!(here.complaint(1, &["replay", "t", "--dir", "dir"]), told);
    assert_eq!(here.complaint(1, &["bench", "seq", "--dir", "dir"]), told);
    assert_eq!(fs::read(here.path("dir/a")).unwrap(), b"precious");
    here.said(0, &["replay", "t", "--dir", "dir", "--force"]);
    assert_eq!(fs::read(here.path("dir/a")).unwrap().len(), 10);
}

#[test]
fn a_mount_makes_its_directory_and_no_other() {
    if !can_mount() {
        return;
    }
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    let none = here.complaint(1, &["mount", "x.img", "no/at"]);
    assert_eq!(none, "no/at: No such file or directory");
    let refused = here.complaint(1, &["mount", "none.img", "at"]);
    assert_eq!(refused, "none.img: No such file or directory");
    assert!(!here.path("at").exists());
    let mounted = here.mount(&["x.img", "at"]);
    fs::write(here.path("at/f"), "f").unwrap();
    mounted.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(here.said(0, &["cat", "x.img:/f"]), "f");
}

#[test]
fn json_is_all_that_there_is() {
    let here = Place::new();
    let list = here.json(0, &["bench", "--json"]);
    assert_eq!(list[0]["name"], "sysbench");
    let run = ["bench", "append", "--chip", "micron-20m", "--json"];
    assert_eq!(here.json(0, &run)["fs"], "flashlight");
}
