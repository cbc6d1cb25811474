//! Encrypted volumes by the command, and chips with a bus.

use std::fs;

use crate::common::Place;
use serde_json::Value;

const SECRET: &str = "what nobody is to read off the chip";

/// An encrypted image with a file, and its key.
fn made(here: &Place) {
    let key: Vec<u8> = (0..64).collect();
    fs::write(here.path("key"), key).unwrap();
    fs::create_dir(here.path("tree")).unwrap();
    fs::write(here.path("tree/named"), SECRET.repeat(200)).unwrap();
    let mkfs = ["mkfs", "--chip", "micron-20m", "--key-file", "key"];
    here.said(0, &[&mkfs[..], &["-r", "tree", "x.img"]].concat());
}

#[test]
fn an_encrypted_volume_is_used_by_its_key() {
    let here = Place::new();
    made(&here);
    let ls = here.said(0, &["ls", "--key-file", "key", "x.img:/"]);
    assert_eq!(ls.trim(), "named");
    let cat = here.said(0, &["cat", "--key-file", "key", "x.img:/named"]);
    assert_eq!(cat, SECRET.repeat(200));
    here.said(0, &["fsck", "--key-file", "key", "x.img"]);
    here.said(0, &["info", "--key-file", "key", "x.img"]);
    here.said(0, &["dump", "--key-file", "key", "x.img"]);
    fs::write(here.path("other"), "of the host").unwrap();
    here.said(0, &["cp", "--key-file", "key", "other", "x.img:/other"]);
    here.said(0, &["cp", "--key-file", "key", "x.img:/other", "back"]);
    assert_eq!(fs::read(here.path("back")).unwrap(), b"of the host");

    let image = fs::read(here.path("x.img")).unwrap();
    let shows = |what: &str| image.windows(what.len()).any(|w| w == what.as_bytes());
    assert!(!shows("nobody is to read") && !shows("named"));
}

/// What a programmer writes is encrypted as well, whichever blocks of a board are bad.
#[test]
fn an_encrypted_volume_is_sent_to_chips() {
    let here = Place::new();
    made(&here);
    let mkfs = ["mkfs", "--chip", "micron-20m", "--key-file", "key"];
    here.said(
        0,
        &[&mkfs[..], &["--slack", "4", "-r", "tree", "y.img"]].concat(),
    );
    here.said(
        0,
        &["export", "--spare", "--key-file", "key", "y.img", "y.bin"],
    );
    let import = ["import", "--spare", "--chip", "micron-20m", "--bad", "0,3"];
    here.said(0, &[&import[..], &["y.bin", "z.img"]].concat());
    let cat = here.said(0, &["cat", "--key-file", "key", "z.img:/named"]);
    assert_eq!(cat, SECRET.repeat(200));
}

#[test]
fn another_key_finds_nothing_and_leaves_the_image() {
    let here = Place::new();
    made(&here);
    let before = fs::read(here.path("x.img")).unwrap();
    let other: Vec<u8> = (1..65).collect();
    fs::write(here.path("other"), other).unwrap();
    for command in ["info", "fsck", "mount"] {
        let args = [command, "--key-file", "other", "x.img"];
        let args = match command {
            "mount" => [&args[..], &["."]].concat(),
            _ => args.to_vec(),
        };
        let status = if command == "fsck" { 8 } else { 1 };
        let out = here.run(&args);
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("not formatted, or another key"), "{said}");
        assert_eq!(out.status.code(), Some(status), "{command}: {said}");
    }
    // Without the key it holds something, which is not overwritten.
    here.complaint(1, &["ls", "x.img:/"]);
    here.complaint(1, &["mkfs", "--chip", "micron-20m", "x.img"]);
    assert!(before == fs::read(here.path("x.img")).unwrap());
}

#[test]
fn what_is_no_key() {
    let here = Place::new();
    let long = vec![1; 4096];
    for (bytes, why) in [
        (&long[..16], "a key of 16 bytes, not of 32 or 64"),
        (&long, "a key of 65 bytes, not of 32 or 64"),
        (&long[..64], "a key whose halves are the same"),
        (b"", "a key of 0 bytes, not of 32 or 64"),
    ] {
        fs::write(here.path("key"), bytes).unwrap();
        let args = ["mkfs", "--key-file", "key", "x.img"];
        let said = here.complaint(2, &args);
        assert!(said.contains(why), "{said}");
    }
    here.complaint(1, &["mkfs", "--key-file", "missing", "x.img"]);
    assert!(!here.path("x.img").exists());
}

/// A trace of appends, replayed on a bus.
fn replayed(here: &Place, args: &[&str]) -> Value {
    let all = [&["replay", "--fsync", "--json", "t.trace"], args].concat();
    here.json(0, &all)
}

#[test]
fn array_and_bus_are_apart() {
    let here = Place::new();
    let appends: String = (0..200).map(|_| "A log 100\n").collect();
    fs::write(here.path("t.trace"), format!("C log 0\n{appends}")).unwrap();
    let own = replayed(&here, &["--chip", "w25n01gv"]);
    let total = &own["total"];
    let us = |of: &Value, what: &str| of[what].as_u64().unwrap();
    let (flash, array) = (us(total, "flash_us"), us(total, "array_us"));
    assert!(flash.abs_diff(array + us(total, "bus_us")) <= 1, "{total}");
    assert!(us(total, "bus_bytes") > 200 * 100, "{total}");
    assert!(us(&own["remount"], "bus_bytes") > 0);
    assert_eq!(
        replayed(&here, &["--chip", "w25n01gv", "--bus", "104x1"])["total"]["bus_us"],
        total["bus_us"]
    );

    // The array does the same on another bus; without one its time is all there is.
    let slow = replayed(&here, &["--chip", "w25n01gv", "--bus", "40x1"]);
    assert_eq!(us(&slow["total"], "array_us"), array);
    assert!(us(&slow["total"], "bus_us") > 2 * us(total, "bus_us"));
    let none = replayed(&here, &["--chip", "w25n01gv", "--bus", "none"]);
    assert_eq!(us(&none["total"], "flash_us"), array);
    assert_eq!(none["total"].get("bus_us"), None);
    // A chip that is no SPI part can have one.
    assert_eq!(replayed(&here, &[])["total"].get("bus_bytes"), None);
    assert!(us(&replayed(&here, &["--bus", "104x4"])["total"], "bus_bytes") > 0);
    let shown = here.said(0, &["replay", "--fsync", "t.trace", "--chip", "w25n01gv"]);
    assert!(shown.contains("bytes over the bus"), "{shown}");

    for bus in ["104", "0x1", "104x3", "x", "104x", "1001x1", "-1x1"] {
        let bus = format!("--bus={bus}");
        let said = here.complaint(2, &["mkfs", &bus, "x.img"]);
        assert!(said.contains("not a bus like 104x1"), "{said}");
    }
}
