//! What is asked for in vain: what is wrong is said in one line, with the status that it has.

use std::fs;

use crate::common::Place;
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
    assert_eq!(here.complaint(1, &["info", "jftl"]), jftl);
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
        (
            &["soak", "--endurance", "1"],
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
fn a_plan_makes_no_folder() {
    let here = Place::new();
    let planned = here.said(0, &["lab", "run", "micro", "--plan", "--quick"]);
    assert!(planned.contains("flashkit lab run micro --results 'lab-results'"));
    assert_eq!(fs::read_dir(here.dir.path()).unwrap().count(), 0);
}
