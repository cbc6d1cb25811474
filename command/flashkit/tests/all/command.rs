//! The command as people call it: what it prints, its exit statuses, and one line for an error.

use std::fs;
use std::process::Command;

use crate::common::Place;
use serde_json::Value;

#[test]
fn help_names_every_subcommand() {
    let here = Place::new();
    let help = here.said(0, &["--help"]);
    for name in [
        "demo",
        "chips",
        "mkfs",
        "mount",
        "umount",
        "sync",
        "gc",
        "fsck",
        "info",
        "dump",
        "ls",
        "cat",
        "cp",
        "replay",
        "bench",
        "powercut",
        "attach",
        "clean",
        "serve",
        "lab",
        "man",
        "completions",
    ] {
        assert!(help.contains(&format!("\n  {name} ")), "{name}");
        let of_one = here.said(0, &[name, "--help"]);
        assert!(
            of_one.contains("Usage: flashkit ") && of_one.lines().count() < 50,
            "{name}"
        );
    }
    assert!(here.said(0, &["--version"]).starts_with("flashkit "));
}

#[test]
fn manual_pages_and_completions_are_made() {
    let here = Place::new();
    here.said(0, &["man", "man1"]);
    for (page, says) in [
        ("flashkit.1", "flashkit\\-mount(1)"),
        ("flashkit-mount.1", "\\-\\-daemon"),
        ("flashkit-mkfs.1", "\\-\\-devtable"),
        ("flashkit-lab-run.1", "\\-\\-quick"),
        ("flashkit-mkfs.1", " [\\-\\-chip <NAME>] "),
        ("flashkit-mkfs.1", " <IMAGE>\n.SH DESCRIPTION"),
    ] {
        let text = fs::read_to_string(here.path("man1").join(page)).unwrap();
        assert!(text.contains(".TH ") && text.contains(says), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let text = here.said(0, &["completions", shell]);
        assert!(text.contains("devtable"), "{shell}");
    }
    assert!(here.complaint(2, &["completions", "csh"]).contains("csh"));
    fs::write(here.path("file"), "").unwrap();
    assert!(here.complaint(1, &["man", "file"]).starts_with("file: "));
}

#[test]
fn chips_as_a_table_and_as_json() {
    let here = Place::new();
    let table = here.said(0, &["chips"]);
    assert!(table.lines().nth(1).unwrap().starts_with("slc-256m "));
    assert!(table.contains("77.8 / 252.8 / 1500"));
    let chips: Value = serde_json::from_str(&here.said(0, &["chips", "--json"])).unwrap();
    let chip = &chips[0];
    assert_eq!(chip["name"], "slc-256m");
    assert_eq!(chip["page_size"], 2048);
    assert_eq!(chip["spare_size"], 64);
    assert_eq!(chip["pages_per_block"], 64);
    assert_eq!(chip["capacity"], 256 << 20);
    assert_eq!(chip["program_ns"], 252_800);
    assert_eq!(chip["kind"], "nand");
    let chips = chips.as_array().unwrap();
    assert!(chips.len() >= 7);
    let nor = chips.iter().find(|c| c["name"] == "nor-16m").unwrap();
    assert_eq!(
        (&nor["kind"], &nor["capacity"]),
        (&"nor".into(), &(16 << 20).into())
    );
    assert_eq!(
        (&nor["banks"], &nor["segments_per_bank"]),
        (&8.into(), &8.into())
    );
    assert_eq!(
        (&nor["segment_size"], &nor["word_size"]),
        (&262_144.into(), &4.into())
    );
    assert_eq!(
        (&nor["program_ns"], &nor["erase_ns"]),
        (&10_000.into(), &1_000_000_000.into())
    );
    let line = table.lines().find(|l| l.starts_with("nor-16m ")).unwrap();
    assert!(
        line.contains("16 MiB") && line.contains("1 / 10, 1 "),
        "{line}"
    );
}

#[test]
fn wrong_usage_is_status_2_and_one_line() {
    let here = Place::new();
    assert!(here.complaint(2, &["frobnicate"]).contains("frobnicate"));
    assert!(here.complaint(2, &["mkfs"]).contains("<IMAGE>"));
    assert!(
        here.complaint(2, &["mkfs", "--frob", "x.img"])
            .contains("--frob")
    );
    let chip = here.complaint(2, &["mkfs", "--chip", "nand9000", "x.img"]);
    assert!(
        chip.contains("nand9000") && chip.contains("flashkit chips"),
        "{chip}"
    );
    assert!(
        here.complaint(2, &["mkfs", "--ram", "lots", "x.img"])
            .contains("--ram")
    );
    assert!(
        here.complaint(2, &["mkfs", "--fs", "fat", "x.img"])
            .contains("fat")
    );
    assert!(
        here.complaint(2, &["replay", "--request", "0", "t"])
            .contains("--request")
    );
    assert!(
        here.complaint(2, &["replay", "--dir", ".", "--chip", "slc-256m", "t"])
            .contains("--dir")
    );
    assert!(
        here.complaint(2, &["bench", "no-such"])
            .contains("no-such: no such workload")
    );
    assert!(
        here.complaint(2, &["mount", "-o", "frob", "x.img", "."])
            .contains("`frob`")
    );
    assert!(
        here.complaint(2, &["fsck", "-n", "-a", "x.img"])
            .contains("-a")
    );
    assert!(here.complaint(2, &["cp", "a", "b"]).contains("IMAGE:/path"));
    assert!(
        here.complaint(2, &["cat", "a"])
            .contains("a: not IMAGE:/path")
    );
    assert_eq!(fs::read_dir(here.dir.path()).unwrap().count(), 0);
}

#[test]
fn images_that_are_none_are_named_and_left_alone() {
    let here = Place::new();
    fs::write(
        here.path("text"),
        "not an image, but long enough to look into".repeat(99),
    )
    .unwrap();
    fs::write(here.path("empty"), "").unwrap();
    fs::create_dir(here.path("dir")).unwrap();
    for command in ["ls", "info", "dump", "fsck", "mount"] {
        let call = |image: &str| match command {
            "mount" => here.complaint(1, &[command, image, "dir"]),
            "fsck" => here.complaint(8, &[command, image]),
            _ => here.complaint(1, &[command, image]),
        };
        assert_eq!(
            call("missing"),
            "missing: No such file or directory",
            "{command}"
        );
        assert_eq!(
            call("dir"),
            "dir: is a directory, not an image",
            "{command}"
        );
        assert_eq!(call("text"), "text: not a flashkit image", "{command}");
        assert!(call("empty").starts_with("empty: "), "{command}");
    }
    let refused = here.complaint(1, &["mkfs", "text"]);
    assert_eq!(
        refused,
        "text: holds data that is not flashkit's; --force overwrites it"
    );
    assert!(
        here.complaint(1, &["mkfs", "dir"])
            .starts_with("dir: is a directory")
    );
    assert!(
        here.complaint(1, &["mkfs", "no/such/x.img"])
            .starts_with("no/such/x.img: ")
    );
    assert!(
        fs::read_to_string(here.path("text"))
            .unwrap()
            .starts_with("not an image")
    );
    assert_eq!(fs::read(here.path("empty")).unwrap(), b"");
}

#[test]
fn a_truncated_image_is_refused() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    let path = here.path("x.img");
    let len = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(len / 2)
        .unwrap();
    assert!(
        here.complaint(1, &["ls", "x.img"])
            .starts_with("x.img: image is too short")
    );
}

#[test]
fn too_little_ram_changes_nothing() {
    let here = Place::new();
    assert!(
        here.complaint(2, &["mkfs", "--ram", "1000", "x.img"])
            .contains("--ram 1000: too small")
    );
    assert!(!here.path("x.img").exists());
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    assert!(
        here.complaint(2, &["ls", "--ram", "1000", "x.img"])
            .contains("too small")
    );
    assert!(
        here.complaint(2, &["bench", "append", "--ram", "100"])
            .contains("too small")
    );
}

#[test]
fn files_go_in_and_come_out() {
    let here = Place::new();
    fs::create_dir_all(here.path("tree/deep/er")).unwrap();
    fs::write(here.path("tree/hello"), "hello\n").unwrap();
    fs::write(here.path("tree/deep/er/blob"), vec![7; 300_000]).unwrap();
    std::os::unix::fs::symlink("hello", here.path("tree/link")).unwrap();
    let made = here.said(0, &["mkfs", "--chip", "micron-20m", "-r", "tree", "x.img"]);
    assert!(made.contains("flashlight on micron-20m, 20 MiB"), "{made}");
    assert!(
        made.contains("stored 2 files, 3 directories, 1 symbolic link"),
        "{made}"
    );

    assert_eq!(here.said(0, &["ls", "x.img"]), "deep\nhello\nlink\n");
    assert_eq!(here.said(0, &["ls", "x.img:/deep"]), "er\n");
    let long = here.said(0, &["ls", "-l", "x.img:/"]);
    assert!(
        long.contains(" link -> hello\n") && long.contains("\nlrwxrwxrwx"),
        "{long}"
    );
    assert!(
        here.said(0, &["ls", "-R", "x.img"])
            .contains("\n/deep/er:\nblob\n")
    );
    assert_eq!(
        here.said(0, &["cat", "x.img:/hello", "x.img:/link"]),
        "hello\nhello\n"
    );

    fs::write(here.path("more"), "more").unwrap();
    here.said(0, &["cp", "more", "x.img:/deep"]);
    here.said(0, &["cp", "more", "x.img:/renamed"]);
    assert_eq!(
        here.said(0, &["cat", "x.img:/deep/more", "x.img:/renamed"]),
        "moremore"
    );
    here.said(0, &["cp", "-r", "tree", "x.img:/again"]);
    here.said(0, &["cp", "-r", "x.img:/again", "back"]);
    let same = Command::new("diff")
        .args(["-r", "tree", "back"])
        .current_dir(here.dir.path())
        .status();
    assert!(same.unwrap().success());
    here.said(0, &["cp", "x.img:/deep/er/blob", "."]);
    assert_eq!(fs::read(here.path("blob")).unwrap(), vec![7; 300_000]);

    assert!(
        here.said(0, &["fsck", "-n", "x.img"])
            .starts_with("x.img: clean")
    );
    let fsck: Value = serde_json::from_str(&here.said(0, &["fsck", "--json", "x.img"])).unwrap();
    assert_eq!(fsck["clean"], true);
    let info: Value = serde_json::from_str(&here.said(0, &["info", "--json", "x.img"])).unwrap();
    assert_eq!(info["chip"], "micron-20m");
    for record in here.said(0, &["dump", "--json", "x.img"]).lines() {
        let record: Value = serde_json::from_str(record).unwrap();
        assert!(
            record["kind"].is_string() && record["page"].is_number(),
            "{record}"
        );
    }
    here.said(0, &["mkfs", "--force", "--chip", "micron-20m", "x.img"]);
    assert_eq!(here.said(0, &["ls", "x.img"]), "");
}

#[test]
fn paths_that_are_wrong_are_named() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    fs::create_dir(here.path("d")).unwrap();
    fs::write(here.path("f"), "f").unwrap();
    assert_eq!(
        here.complaint(1, &["cat", "x.img:/no"]),
        "x.img:/no: no such file or directory"
    );
    assert_eq!(
        here.complaint(1, &["cat", "x.img:/"]),
        "x.img:/: is a directory"
    );
    assert_eq!(
        here.complaint(1, &["ls", "x.img:/a/b"]),
        "x.img:/a/b: no such file or directory"
    );
    assert_eq!(
        here.complaint(1, &["cp", "no", "x.img:/"]),
        "no: No such file or directory"
    );
    assert_eq!(
        here.complaint(1, &["cp", "d", "x.img:/"]),
        "d: is a directory; -r copies it"
    );
    assert!(
        here.complaint(1, &["cp", "f", "x.img:/a/b"])
            .contains("no such file or directory")
    );
    assert!(
        here.complaint(1, &["mkfs", "-r", "no", "y.img"])
            .contains("no: no such directory")
    );
    let long = format!("x.img:/{}", "n".repeat(256));
    assert!(
        here.complaint(1, &["cp", "f", &long])
            .contains("file name too long")
    );
    assert_eq!(here.said(0, &["ls", "x.img"]), "");
    assert!(!here.path("y.img").exists());
    // A slash less is no mistake; what has no content, and links that lead back, are.
    std::os::unix::fs::symlink("round", here.path("round")).unwrap();
    nix::unistd::mkfifo(&here.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(here.path("tree")).unwrap();
    for name in ["round", "pipe", "f"] {
        fs::rename(here.path(name), here.path("tree").join(name)).unwrap();
    }
    here.said(0, &["cp", "-r", "tree", "x.img:"]);
    assert_eq!(here.said(0, &["ls", "x.img:tree"]), "f\npipe\nround\n");
    assert_eq!(here.said(0, &["cat", "x.img:tree/f"]), "f");
    assert_eq!(
        here.complaint(1, &["cat", "x.img:tree/pipe"]),
        "x.img:/tree/pipe: not a regular file"
    );
    assert_eq!(
        here.complaint(1, &["cat", "x.img:/tree/round"]),
        "x.img:/tree/round: too many levels of symbolic links"
    );
}

#[test]
fn traces_are_replayed() {
    let here = Place::new();
    let trace = "K d\nC d/a 10000\nA d/a 100\nM fill\nU d/a 4096 4096\nR d/a 0 10100\nD d/a\n";
    fs::write(here.path("t.trace"), trace).unwrap();
    let json = here.said(
        0,
        &[
            "replay",
            "t.trace",
            "--fs",
            "flashlight",
            "--chip",
            "micron-20m",
            "--request",
            "2KiB",
            "--fsync",
            "--verify",
            "--json",
        ],
    );
    let report: Value = serde_json::from_str(&json).unwrap();
    let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
    let expected = [
        "fs",
        "chip",
        "ram_bytes",
        "request",
        "fsync",
        "phases",
        "total",
        "remount",
    ];
    assert_eq!(keys, expected);
    assert_eq!(report["fs"], "flashlight");
    assert_eq!(report["chip"], "micron-20m");
    assert_eq!(report["ram_bytes"], 16_384);
    assert_eq!(report["request"], 2048);
    assert_eq!(report["fsync"], true);
    assert_eq!(report["phases"][0]["name"], "fill");
    assert_eq!(report["phases"][0]["ops"], 3);
    assert_eq!(report["total"]["ops"], 6);
    assert!(report["remount"]["page_reads"].is_number());

    let table = here.said(
        0,
        &["replay", "t.trace", "--chip", "micron-20m", "--verify"],
    );
    assert!(
        table.contains("\nfill ") && table.contains("\ntotal "),
        "{table}"
    );
    assert!(table.contains("verified: "), "{table}");

    fs::create_dir(here.path("dir")).unwrap();
    let json = here.said(0, &["replay", "t.trace", "--dir", "dir", "--json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["chip"], Value::Null);
    assert!(here.path("dir/d").is_dir());

    assert!(here.said(0, &["bench"]).contains("\npostmark "));
}

#[test]
fn bad_traces_are_refused_by_line() {
    let here = Place::new();
    fs::write(here.path("t"), "C a 10\nX b\n").unwrap();
    let error = here.complaint(1, &["replay", "t"]);
    assert!(error.starts_with("t: line 2"), "{error}");
    fs::write(here.path("t"), "C a 10\nD b\n").unwrap();
    let error = here.complaint(1, &["replay", "t", "--chip", "micron-20m"]);
    assert!(
        error.starts_with("t: line 2: `D b`: no such file"),
        "{error}"
    );
    assert_eq!(
        here.complaint(1, &["replay", "missing"]),
        "missing: No such file or directory"
    );
    assert!(
        here.complaint(1, &["replay", "."])
            .contains("is a directory, not a trace")
    );
    assert!(
        here.complaint(1, &["replay", "t", "--dir", "no"])
            .contains("no: no such directory")
    );
}

#[test]
fn a_closed_pipe_is_no_panic() {
    let here = Place::new();
    for command in [
        "chips",
        "--help",
        "bench",
        "completions bash",
        "completions zsh",
    ] {
        let shell = format!(
            "{} {command} 2>&1 >&- | cat",
            env!("CARGO_BIN_EXE_flashkit")
        );
        let closed = Command::new("sh").arg("-c").arg(shell).output().unwrap();
        let said = String::from_utf8_lossy(&closed.stdout).into_owned();
        assert!(!said.contains("panicked"), "{said}");
        let shell = format!("{} {command} 2>err | true", env!("CARGO_BIN_EXE_flashkit"));
        Command::new("sh")
            .arg("-c")
            .arg(shell)
            .current_dir(here.dir.path())
            .status()
            .unwrap();
        let said = fs::read_to_string(here.path("err")).unwrap();
        assert!(!said.contains("panicked"), "{said}");
    }
}

#[test]
fn an_output_that_is_full_is_told_in_one_line() {
    for command in [
        "chips",
        "chips --json",
        "completions bash",
        "completions fish",
    ] {
        let shell = format!("{} {command} >/dev/full", env!("CARGO_BIN_EXE_flashkit"));
        let full = Command::new("sh").arg("-c").arg(shell).output().unwrap();
        assert_eq!(full.status.code(), Some(1), "{command}");
        let said = String::from_utf8_lossy(&full.stderr).into_owned();
        assert_eq!(
            said, "flashkit: standard output: No space left on device\n",
            "{command}"
        );
    }
}

#[test]
fn the_demo_stores_cuts_recovers_and_verifies() {
    let here = Place::new();
    let tree = here.path("tree");
    fs::create_dir_all(tree.join("sub")).unwrap();
    for i in 0..200_u32 {
        let name = format!("{}file {i}", if i % 3 == 0 { "sub/" } else { "" });
        fs::write(tree.join(name), vec![i as u8; i as usize * 97]).unwrap();
    }
    let said = here.said(0, &["demo", "--chip", "micron-20m", "tree"]);
    for stage in ["chip ", "format ", "store ", "cut ", "recover ", "verify "] {
        assert!(
            said.contains(&format!("\n{stage}")) || said.starts_with(stage),
            "{stage}: {said}"
        );
    }
    assert!(said.contains("the power goes in flash operation"), "{said}");
    assert!(said.contains("every synced byte is there"), "{said}");
    assert!(
        said.contains("verify   200 files, 1.8 MiB: every byte as in the source"),
        "{said}"
    );
    assert!(said.contains("\ncheck    no finding in "), "{said}");
    // The peers were measured on a larger chip.
    assert!(
        said.contains("write amplification") && !said.contains("UBIFS"),
        "{said}"
    );
    assert_eq!(
        here.said(0, &["ls", "flashkit-demo.img:/sub"])
            .lines()
            .count(),
        67
    );
    assert!(
        here.said(0, &["fsck", "flashkit-demo.img"])
            .contains(": clean")
    );
    // Again over its own image, the same every time, and never over anything else.
    assert_eq!(
        here.said(0, &["demo", "--chip", "micron-20m", "tree"]),
        said
    );
    let large = here.said(0, &["demo", "tree"]);
    assert!(
        large.contains("UBIFS") && large.contains("flashlight, now"),
        "{large}"
    );
}

#[test]
fn the_demo_replaces_only_what_a_demo_has_left() {
    let here = Place::new();
    fs::create_dir_all(here.path("tree/sub")).unwrap();
    for i in 0..40_u32 {
        let name = format!("tree/sub/file {i}");
        fs::write(here.path(&name), vec![i as u8; i as usize * 97]).unwrap();
    }
    let said = here.said(0, &["demo", "--chip", "micron-20m", "tree"]);
    // Not over what was put into it since.
    let before = fs::read_dir(here.dir.path()).unwrap().count();
    fs::write(here.path("mine"), "mine").unwrap();
    here.said(0, &["cp", "mine", "flashkit-demo.img:/sub/mine"]);
    let holds = "that no demo has left so; --force overwrites it";
    assert_eq!(
        here.complaint(1, &["demo", "tree"]),
        format!("flashkit-demo.img: holds a FlashLight volume {holds}")
    );
    let mine = here.said(0, &["cat", "flashkit-demo.img:/sub/mine"]);
    assert_eq!(mine, "mine");
    let again = ["demo", "--chip", "micron-20m", "--force", "tree"];
    assert_eq!(here.said(0, &again), said);
    fs::write(here.path("flashkit-demo.img"), "precious").unwrap();
    assert!(here.complaint(1, &["demo", "tree"]).contains(holds));
    // What cannot be is refused before anything is said or made.
    for args in [&["--ram", "0"][..], &["--chip", "small-256m"]] {
        let out = here.run(&[&["demo", "--force"], args, &["tree"]].concat());
        assert_eq!((out.status.code(), &out.stdout[..]), (Some(2), &b""[..]));
    }
    let kept = fs::read(here.path("flashkit-demo.img")).unwrap();
    assert_eq!(kept, b"precious");
    // Who has read enough ends it, and the image stays as it was.
    let mut child = here
        .command(&["demo", "--force", "--chip", "micron-20m", "tree"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
    let kept = fs::read(here.path("flashkit-demo.img")).unwrap();
    assert_eq!(kept, b"precious");
    // All that came since is `mine`.
    let now = fs::read_dir(here.dir.path()).unwrap().count();
    assert_eq!(now, before + 1);
    assert!(
        here.complaint(1, &["demo", "no-tree"])
            .starts_with("flashkit-demo.img")
    );
}

#[test]
fn the_lab_repeats_a_papers_tables_and_figures() {
    let here = Place::new();
    let list: Value = serde_json::from_str(&here.said(0, &["lab", "list", "--json"])).unwrap();
    assert_eq!(list[0]["name"], "logdisk");
    assert!(here.said(0, &["lab", "list"]).contains("\nlogdisk  "));
    let unknown = here.complaint(2, &["lab", "run", "no-such"]);
    assert!(unknown.contains("no-such: no such experiment"), "{unknown}");
    let json = here.said(0, &["lab", "run", "logdisk", "--quick", "--json"]);
    let found: Value = serde_json::from_str(&json).unwrap();
    let tables = found["tables"].as_array().unwrap();
    let titles: Vec<&str> = tables
        .iter()
        .map(|t| t["title"].as_str().unwrap())
        .collect();
    for n in 4..=7 {
        assert!(
            titles[n - 4].starts_with(&format!("Table {n}: ")),
            "{titles:?}"
        );
    }
    let figures = found["figures"].as_array().unwrap();
    for (n, figure) in (5..=10).zip(figures) {
        let title = figure["title"].as_str().unwrap();
        assert!(title.starts_with(&format!("Figure {n}: ")), "{title}");
        let points = figure["series"][0]["points"].as_array().unwrap();
        assert!(points.len() >= 3, "{figure}");
    }
    let row = &tables[1]["rows"][2];
    assert_eq!(
        (&row["test"], &row["data"]),
        (&"random".into(), &"90 %".into())
    );
    assert_eq!(row["copied, paper"], 938_294);
    // Exact: 12 MiB written, from a seed.
    assert_eq!(
        (&row["erased"], &row["copied"]),
        (&121.into(), &42_048.into())
    );
    assert!(
        found["notes"][2]
            .as_str()
            .unwrap()
            .contains("704 sectors beside the data")
    );
}

/// A fresh clone has a page without a run of anything: of what the project keeps.
#[test]
fn the_lab_has_a_page_of_the_results_that_are_kept() {
    let here = Place::new();
    let said = here.said(0, &["lab", "report", "--verdicts"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], ["report.html", "report.csv", "report.json"]);
    assert!(lines.last().unwrap().starts_with("all 55: "), "{said}");
    let page = fs::read_to_string(here.path("report.html")).unwrap();
    for has in [
        "Which flash file system for my load and chip",
        "The papers, to the last table and figure",
        "FlashLight",
        "Figure 9",
    ] {
        assert!(page.contains(has), "{has}");
    }
    // Kept, not measured here; and what is put beside them says so.
    let kept = fs::read_to_string(here.path("report.csv")).unwrap();
    assert!(kept.lines().skip(1).all(|line| line.contains(",kept,")));
    assert!(kept.lines().count() > 100, "{}", kept.lines().count());
    here.said(
        0,
        &["lab", "run", "peers", "--only", "=peers/append/flashlight"],
    );
    // The command replaces what it has made itself, and nothing else.
    here.said(0, &["lab", "report"]);
    let mixed = fs::read_to_string(here.path("report.csv")).unwrap();
    let own = mixed.lines().filter(|line| line.contains(",here,"));
    assert!(own.clone().count() > 0 && own.count() < 10);
    for name in ["report.html", "report.csv", "report.json"] {
        let made = fs::read(here.path(name)).unwrap();
        fs::write(here.path(name), "of someone else").unwrap();
        let refused = format!("{name}: exists; --force overwrites it");
        assert_eq!(here.complaint(1, &["lab", "report"]), refused);
        assert_eq!(fs::read(here.path(name)).unwrap(), b"of someone else");
        here.said(0, &["lab", "report", "--force"]);
        assert_eq!(fs::read(here.path(name)).unwrap(), made);
    }
    let csv = ["lab", "report", "--output", "report.csv"];
    assert!(here.complaint(2, &csv).contains("cannot end in .csv"));
    fs::write(here.path("notes"), "mine").unwrap();
    let draw = ["lab", "picture", "--output", "notes"];
    let refused = here.complaint(1, &draw);
    assert_eq!(refused, "notes: exists; --force overwrites it");
    assert_eq!(fs::read(here.path("notes")).unwrap(), b"mine");
    here.said(0, &[&draw[..], &["--force"]].concat());
    here.said(0, &draw);
}
