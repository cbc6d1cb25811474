//! `flashkit powercut` as people call it.

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::common::{Place, complaint};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flashkit"));
    command.arg("powercut").args(args).output().unwrap()
}

fn text(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

#[test]
fn a_script_of_ones_own_gives_figures() {
    let out = run(&["--given", "create a; write a 0 1500; fsync a", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let json: Value = serde_json::from_str(&text(&out)).unwrap();
    let number = |key: &str| json[key].as_u64().unwrap();
    assert_eq!((number("scripts"), number("violations")), (1, 0));
    assert!(number("cut_points") >= 4 && number("states") > 50, "{json}");
    assert!(number("double_cuts") > 500, "{json}");
    assert!(json["examples"].as_array().unwrap().is_empty());
    let chip = [
        "--given",
        "create a; fsync a",
        "--chip",
        "2048+0x16x96-paper",
    ];
    let table = text(&run(&chip));
    assert!(table.contains("\nviolations  "), "{table}");
}

#[test]
fn a_violation_is_an_id_that_replays() {
    // Of no length: no volume takes it.
    let out = run(&["--given", "create d; symlink s 0"]);
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let said = text(&out);
    let id = said
        .split("--replay '")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap();
    let replayed = run(&["--replay", id]);
    assert_eq!(replayed.status.code(), Some(1));
    assert!(text(&replayed).contains("violation: "), "{replayed:?}");
}

#[test]
fn a_replay_shows_each_step() {
    let out = run(&["--replay", "1024+24x8x64:=create_a,fsync_a:4.garbage"]);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let said = text(&out);
    for line in [
        "step 1: fsync a",
        "left of it: garbage",
        "may be seen:",
        "is seen:",
        "as guaranteed",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn scripts_are_listed_and_found_by_the_begin_of_their_names() {
    let out = run(&["--list", "single-rename-over"]);
    let said = text(&out);
    assert!(
        said.lines().count() >= 12 && said.contains(" single-rename-over-sync\n"),
        "{said}"
    );
    let out = run(&["single-rename-to-itself", "--json"]);
    let json: Value = serde_json::from_str(&text(&out)).unwrap();
    assert_eq!(
        (json["scripts"].as_u64(), json["violations"].as_u64()),
        (Some(6), Some(0))
    );
}

#[test]
fn a_copy_of_real_files_survives_cuts() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let chip = ["--chip", "2048+40x16x192", "--cuts", "20"];
    let args = [&["--tree", sources, "--json"], &chip[..]].concat();
    let out = run(&args);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    let json: Value = serde_json::from_str(&text(&out)).unwrap();
    let number = |key: &str| json[key].as_u64().unwrap();
    assert_eq!((number("cuts"), number("violations")), (20, 0), "{json}");
    assert!(number("tree_files") > 20 && number("tree_bytes") > 50_000);
    assert!(number("durable_files_compared") > 50, "{json}");
    assert!(number("durable_bytes_compared") > 500_000, "{json}");
    let table = text(&run(&[&args[..2], &chip[..], &["--seed", "2"]].concat()));
    assert!(table.contains("\ncuts in a row  "), "{table}");
}

#[test]
fn mistakes_are_told_in_a_line() {
    for (status, args) in [
        (2, &["no-such-script"][..]),
        (2, &["--given", "frob a"]),
        (2, &["--given", "create a", "--chip", "small"]),
        (2, &["--replay", "nonsense"]),
        (2, &["--full", "--replay", "1024+24x8x64:=sync:@0"]),
        (2, &["--part", "9/8"]),
        (2, &["--part", "1/8", "--given", "create a"]),
        (2, &["--cuts", "20"]),
        (2, &["--chip", "1024+24x8x64"]),
        (2, &["--tree", "/", "--full"]),
        (1, &["--tree", "/no/such/tree"]),
        (2, &["--tree", env!("CARGO_MANIFEST_DIR"), "--limit", "0"]),
        (2, &["--tree", env!("CARGO_MANIFEST_DIR"), "--cuts", "0"]),
        (1, &["--replay", "1024+24x8x64:=create_a:99.none"]),
        (2, &["--given", "create a", "--chip", "1024+24x8x20"]),
        (2, &["--tree", "/", "--chip", "1000+24x8x64"]),
        (2, &["--replay", "1024+24x8x64-bad70:=create_a:0.none"]),
        (2, &["--given", ""]),
        (2, &["--given", " ; "]),
        (2, &["--given", "fsync none"]),
        (2, &["--given", "create a; close"]),
        (2, &["--list", "no-such-script"]),
    ] {
        let out = run(args);
        assert_eq!(out.status.code(), Some(status), "{args:?} {out:?}");
    }
}

#[test]
fn a_script_that_cannot_run_is_refused() {
    let long = format!("create {}", "x".repeat(300));
    for (script, why) in [
        (
            "create a; append a 9",
            "there are create P, write P OFFSET LENGTH,",
        ),
        (&long, "of more than 255 bytes"),
        ("create ..", "no name"),
        (
            "create a; truncate a 9223372036854775807",
            "more than 16777216 bytes",
        ),
        (
            "create a; write a 18446744073709551615 300",
            "more than 16777216 bytes",
        ),
        (
            "create a; write a 9223372036854775807 300; fsync a",
            "more than 16777216 bytes",
        ),
        (
            "create a; write a 4294967296000 5; fsync a",
            "more than 16777216 bytes",
        ),
    ] {
        let said = complaint(&run(&["--given", script]), 2);
        assert!(said.contains(why), "{script}: {said}");
    }
    let part = ["single-create", "--part", "4294967295/4294967295"];
    let said = complaint(&run(&part), 2);
    assert!(said.starts_with("--part: "), "{said}");
    let said = complaint(&run(&["--given", "sync", "--chip", "2048+64x64x16"]), 2);
    assert!(said.contains("from 44 such blocks on"), "{said}");
}

#[test]
fn help_has_every_operation() {
    let help = text(&run(&["--help"]));
    for operation in flashkit_powercut::OPERATIONS.split(", ") {
        assert!(help.contains(operation), "{operation}");
    }
}

#[test]
fn what_was_done_until_ctrl_c_is_told() {
    let here = Place::new();
    for (args, told) in [
        (&["powercut", "--full"][..], "\nviolations  "),
        (&["soak"], "\noperations  "),
        (&["soak", "--in-use"], "\noperations  "),
        (&["bench", "postmark", "--fsync"], "stopped in phase "),
    ] {
        let child = here.command(args).stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id() as i32);
        // The signal is of use once the program looks for it.
        let status = format!("/proc/{pid}/status");
        let catches = || {
            let status = fs::read_to_string(&status).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
            caught >> (Signal::SIGINT as u32 - 1) & 1 == 1
        };
        while !catches() {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_millis(300));
        kill(pid, Signal::SIGINT).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(130), "{args:?}: {out:?}");
        assert!(text(&out).contains(told), "{args:?}: {}", text(&out));
    }
}

#[test]
fn the_last_seeds_are_seeds() {
    let here = Place::new();
    let last = u64::MAX.to_string();
    // More sessions than the chip of one seed stands.
    let worn = [
        "--seed",
        &last,
        "--endurance",
        "32",
        "--rounds",
        "200",
        "--json",
    ];
    let done = here.json(0, &[&["soak"][..], &worn].concat());
    assert!(done["chips_worn_out"].as_u64().unwrap() > 0, "{done}");
}
