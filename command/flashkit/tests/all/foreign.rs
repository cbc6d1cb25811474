//! Images that are not what a command takes: disks, encrypted volumes, random bytes.

use std::fs;

use flashkit_sim::{SimNand, preset};

use crate::common::{Place, complaint};

const CHIP: &str = "micron-20m";
const SEALED: &str = "no FlashLight volume found, or encrypted: --key-file";

fn key(here: &Place, name: &str, first: u8) {
    let bytes: Vec<u8> = (0..32).map(|i| i * 7 + first).collect();
    fs::write(here.path(name), bytes).unwrap();
}

#[test]
fn an_encrypted_volume_is_not_taken_for_anything_else() {
    let here = Place::new();
    key(&here, "key", 1);
    key(&here, "other", 2);
    here.said(0, &["mkfs", "--chip", CHIP, "--key-file", "key", "x.img"]);
    let before = fs::read(here.path("x.img")).unwrap();
    for (status, args) in [
        (1, &["ls", "x.img"][..]),
        (1, &["info", "x.img"]),
        (1, &["dump", "x.img"]),
        (1, &["dump", "--json", "--data", "x.img"]),
        (1, &["cp", "key", "x.img:/"]),
        (8, &["fsck", "x.img"]),
        (8, &["fsck", "-y", "x.img"]),
    ] {
        assert_eq!(
            here.complaint(status, args),
            format!("x.img: {SEALED}"),
            "{args:?}"
        );
    }
    let other = ["--key-file", "other", "x.img"];
    for (status, args) in [
        (1, &["dump"][..]),
        (8, &["fsck", "-y"]),
        (1, &["export", "--spare"]),
    ] {
        let raw: &[&str] = if args[0] == "export" { &["x.bin"] } else { &[] };
        let args = [args, &other, raw].concat();
        let said = here.complaint(status, &args);
        assert_eq!(said, "x.img: not formatted, or another key", "{args:?}");
    }
    assert!(!here.path("x.bin").exists());
    here.said(
        0,
        &["export", "--spare", "--key-file", "key", "x.img", "x.bin"],
    );
    let held =
        "x.img: holds data that is not flashkit's, or an encrypted volume; --force overwrites it";
    assert_eq!(here.complaint(1, &["mkfs", "--chip", CHIP, "x.img"]), held);
    assert!(before == fs::read(here.path("x.img")).unwrap());
    let sent = [
        "mkfs",
        "--chip",
        "w25n01gv",
        "--slack",
        "20",
        "--key-file",
        "key",
        "y.img",
    ];
    here.said(0, &sent);
    let said = here.complaint(1, &["export", "--spare", "y.img", "y.bin"]);
    assert_eq!(said, format!("y.img: {SEALED}"));
}

#[test]
fn the_check_has_the_statuses_of_fsck() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", CHIP, "x.img"]);
    fs::write(here.path("short"), [1; 63]).unwrap();
    fs::write(here.path("text"), "a text").unwrap();
    for (status, args) in [
        (8, &["--key-file", "none", "x.img"][..]),
        (8, &["none.img"]),
        (8, &["text"]),
        (2, &["--key-file", "short", "x.img"]),
        (2, &["--ram", "1", "x.img"]),
        (2, &["-x", "x.img"]),
        (2, &["-n", "-y", "x.img"]),
    ] {
        here.complaint(status, &[&["fsck"], args].concat());
    }
}

#[test]
fn a_dump_of_what_is_no_volume_is_one_line() {
    let here = Place::new();
    // Tags with any index at all: pages of random bytes, and such that all but repeat.
    for (name, mut seed, step) in [("random.img", 1_u64, 1), ("same.img", 1, 0)] {
        let chip = SimNand::create(here.path(name), preset(CHIP).unwrap()).unwrap();
        let page = chip.raw_page_len(true);
        drop(chip);
        let raw: Vec<u8> = (0..64 * page)
            .map(|_| {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                if step == 0 { 0xfe } else { seed as u8 }
            })
            .collect();
        fs::write(here.path("raw"), raw).unwrap();
        let import = [
            "import", "--spare", "--bad", "0", "--force", "--chip", CHIP, "raw", name,
        ];
        here.said(0, &import);
        for how in ["--data", "--json"] {
            let said = here.complaint(1, &["dump", how, name]);
            assert_eq!(said, format!("{name}: {SEALED}"));
        }
    }
}

#[test]
fn a_card_has_no_key_and_is_the_same_every_time() {
    let here = Place::new();
    key(&here, "key", 1);
    fs::create_dir(here.path("tree")).unwrap();
    for i in 0..20 {
        fs::write(here.path("tree").join(format!("f{i}")), [i; 3000]).unwrap();
    }
    for name in ["a.img", "b.img"] {
        let made = [
            "mkfs", "--fs", "nanofs", "--files", "600", "-r", "tree", name,
        ];
        here.said(0, &made);
    }
    let [a, b] = ["a.img", "b.img"].map(|name| fs::read(here.path(name)).unwrap());
    assert!(a == b, "two images of one directory differ");
    for (status, args) in [
        (2, &["ls"][..]),
        (2, &["info"]),
        (2, &["mount"]),
        (2, &["fsck"]),
    ] {
        let args = [args, &["--key-file", "key", "a.img"]].concat();
        let said = here.complaint(status, &args);
        assert_eq!(said, "a.img: --key-file is not for nanofs", "{args:?}");
    }
}

#[test]
fn the_option_that_was_given_is_named() {
    let here = Place::new();
    for (args, said) in [
        (&["--size", "10MiB"][..], "--size is not for flashlight"),
        (&["--files", "10"], "--files is not for flashlight"),
        (&["--key", "1"], "--key is not for flashlight"),
        (
            &["--fs", "nanofs", "--ram", "17KiB"],
            "--ram is not for nanofs",
        ),
        (
            &["--fs", "nanofs", "--chip", CHIP],
            "--chip is not for nanofs",
        ),
    ] {
        let args = [&["mkfs"], args, &["x.img"]].concat();
        assert_eq!(here.complaint(2, &args), said);
    }
    for (value, why) in [
        ("-1", "not a size like"),
        ("18446744073709551616", "too large"),
    ] {
        let said = here.complaint(2, &["mkfs", "--ram", value, "x.img"]);
        let named = format!("invalid value '{value}' for '--ram <BYTES>': {why}");
        assert!(said.starts_with(&named), "{said}");
    }
    let said = here.complaint(2, &["ls", "-x", "x.img"]);
    assert_eq!(
        said,
        "unexpected argument '-x' found (see `flashkit ls --help`)"
    );
}

#[test]
fn lengths_and_places_are_said_as_they_are() {
    let here = Place::new();
    fs::write(here.path("raw"), [0; 9]).unwrap();
    let said = here.complaint(1, &["import", "--chip", "w25n01gv", "raw", "x.img"]);
    assert_eq!(
        said,
        "raw: 9 bytes are not whole pages: w25n01gv has them of 2048"
    );
    here.said(0, &["mkfs", "--chip", CHIP, "x.img"]);
    for force in [&[][..], &["--force"]] {
        let args = [&["export", "--spare"], force, &["x.img", "."]].concat();
        assert_eq!(here.complaint(1, &args), ".: is a directory");
    }
    // A device is taken as it is.
    here.said(0, &["export", "--spare", "x.img", "/dev/null"]);
    assert_eq!(here.complaint(1, &["man", "raw"]), "raw: is not a folder");
    let long = "s".repeat(108);
    let serve = ["serve", "--ftl", "jftl", "d.img", "--socket", &long];
    assert!(
        here.complaint(2, &serve)
            .contains("108 bytes; Linux takes 107 at most")
    );
    assert!(!here.path("d.img").exists());
    fs::write(here.path("table"), "# none\n/no/x c 600 0 0 1 3\n").unwrap();
    let made = [
        "mkfs",
        "--force",
        "--chip",
        CHIP,
        "--devtable",
        "table",
        "x.img",
    ];
    let said = here.complaint(1, &made);
    assert!(
        said.ends_with("table: line 2: /no/x: no such file or directory"),
        "{said}"
    );
    fs::write(here.path("table"), [0xff, 0xfe]).unwrap();
    assert_eq!(here.complaint(1, &made), "table: no table: it is not text");
}

#[test]
fn a_report_that_nobody_reads_is_no_failure() {
    let here = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut made = here.command(&["mkfs", "--chip", CHIP, "x.img"]);
    let out = made.stdout(writer).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    here.said(0, &["fsck", "x.img"]);
}

#[test]
fn a_disk_is_said_to_be_one() {
    let here = Place::new();
    let mut made = here.command(&["attach", "--ftl", "jftl", "-o", "commit=5", "j.img", "j"]);
    assert_eq!(
        complaint(&made.output().unwrap(), 2),
        "mount option `commit=5` is not for a disk of jftl"
    );
    assert_eq!(
        here.complaint(
            2,
            &["attach", "--ftl", "logdisk", "-o", "scrub=3", "n.img", "n"]
        ),
        "mount option `scrub=3` is not for a disk of logdisk"
    );
    for (option, value, why) in [
        (
            "--size",
            "0",
            "--size 0: not a whole number of sectors of 512 bytes (--sector)",
        ),
        (
            "--size",
            "1000",
            "--size 1000: not a whole number of sectors of 512 bytes (--sector)",
        ),
        (
            "--sector",
            "3",
            "'--sector <BYTES>': not a power of two from 512 to 65536",
        ),
    ] {
        let said = here.complaint(
            2,
            &["attach", "--ftl", "logdisk", option, value, "n.img", "n"],
        );
        assert!(said.contains(why), "{said}");
    }
}
