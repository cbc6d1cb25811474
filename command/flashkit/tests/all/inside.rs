//! `cp`, `ls` and `cat` on what is inside an image: symbolic links, extended attributes, damage.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};

use crate::common::Place;

const CHIP: &str = "micron-20m";

/// An image of a tree as systems have it: `/bin` leads to `/usr/bin`.
fn merged() -> Place {
    let here = Place::new();
    fs::create_dir_all(here.path("tree/usr/bin")).unwrap();
    symlink("usr/bin", here.path("tree/bin")).unwrap();
    symlink("/usr/bin/prog", here.path("tree/lnk")).unwrap();
    symlink("nowhere", here.path("tree/dangling")).unwrap();
    fs::write(here.path("tree/usr/bin/prog"), "prog").unwrap();
    fs::write(here.path("notes.txt"), "notes").unwrap();
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "x.img"]);
    here
}

#[test]
fn a_link_to_a_directory_is_a_directory_to_copy_into() {
    let here = merged();
    let link = here.said(0, &["ls", "-l", "x.img:/bin"]);
    assert!(link.trim_end().ends_with("/bin -> usr/bin"), "{link}");
    for to in ["x.img:/bin", "x.img:/bin/", "x.img:/bin/again.txt"] {
        here.said(0, &["cp", "notes.txt", to]);
        assert_eq!(here.said(0, &["ls", "-l", "x.img:/bin"]), link, "{to}");
    }
    let listed = here.said(0, &["ls", "x.img:/bin/"]);
    assert_eq!(listed, "again.txt\nnotes.txt\nprog\n");
    assert_eq!(here.said(0, &["ls", "x.img:/usr/bin"]), listed);
    here.said(0, &["cp", "-r", "tree/usr", "x.img:/bin"]);
    assert_eq!(
        here.said(0, &["cat", "x.img:/usr/bin/usr/bin/prog"]),
        "prog"
    );
    here.said(0, &["cp", "x.img:/bin/prog", "out"]);
    assert_eq!(fs::read(here.path("out")).unwrap(), b"prog");
    here.said(0, &["cp", "-r", "x.img:/bin/", "bin"]);
    assert_eq!(fs::read(here.path("bin/notes.txt")).unwrap(), b"notes");
}

#[test]
fn a_file_is_written_through_a_link() {
    let here = merged();
    let link = here.said(0, &["ls", "-l", "x.img:/lnk"]);
    here.said(0, &["cp", "notes.txt", "x.img:/lnk"]);
    assert_eq!(here.said(0, &["ls", "-l", "x.img:/lnk"]), link);
    assert_eq!(here.said(0, &["cat", "x.img:/usr/bin/prog"]), "notes");
    assert_eq!(
        here.complaint(1, &["cp", "notes.txt", "x.img:/dangling"]),
        "x.img:/dangling: a symbolic link to nothing"
    );
    // A link is not written through: it takes the place of another.
    symlink("elsewhere", here.path("link")).unwrap();
    here.said(0, &["cp", "link", "x.img:/lnk"]);
    let link = here.said(0, &["ls", "-l", "x.img:/lnk"]);
    assert!(link.trim_end().ends_with("-> elsewhere"), "{link}");
    assert_eq!(here.said(0, &["cat", "x.img:/usr/bin/prog"]), "notes");
}

#[test]
fn a_slash_behind_a_file_asks_for_a_directory() {
    let here = merged();
    for path in ["x.img:/usr/bin/prog/", "x.img:/lnk/", "x.img:/lnk/."] {
        for args in [&["cat", path][..], &["ls", path], &["cp", path, "out"]] {
            let why = here.complaint(1, args);
            assert_eq!(why, format!("{path}: not a directory"), "{args:?}");
        }
    }
}

#[test]
fn cat_goes_on_behind_what_cannot_be_printed() {
    let here = merged();
    let out = here.run(&[
        "cat",
        "x.img:/no",
        "x.img:/lnk",
        "none.img:/f",
        "x.img:/bin/prog",
    ]);
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "progprog");
    let said = String::from_utf8(out.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "flashkit: x.img:/no: no such file or directory",
            "flashkit: none.img: No such file or directory",
        ]
    );
}

fn give(path: &Path, name: &str, value: &[u8]) -> bool {
    lsetxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn has(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0; 100];
    let len = lgetxattr(path, name, &mut value[..]).ok()?;
    Some(value[..len].to_vec())
}

/// `CAP_NET_RAW`, as `setcap cap_net_raw+ep` stores it.
const CAPABILITY: [u8; 20] = [
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn extended_attributes_go_in_and_out() {
    let here = Place::new();
    fs::create_dir_all(here.path("tree/dir")).unwrap();
    let file = here.path("tree/dir/file");
    fs::write(&file, "x").unwrap();
    if !give(&file, "user.a", b"1") || !give(&here.path("tree/dir"), "user.d", b"") {
        println!("skipped: no extended attributes here");
        return;
    }
    let privileged =
        give(&file, "trusted.t", b"2") && give(&file, "security.capability", &CAPABILITY);
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "x.img"]);
    here.said(0, &["cp", "-r", "tree", "x.img:/in"]);
    for (from, to) in [("x.img:/dir", "out"), ("x.img:/in/dir", "out in")] {
        let out = here.run(&["cp", "-r", from, to]);
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(0), "{said}");
        let copy = here.path(to).join("file");
        assert_eq!(has(&copy, "user.a").unwrap(), b"1");
        assert_eq!(has(&here.path(to), "user.d").unwrap(), b"");
        // Who made the image need not be trusted.
        assert_eq!(has(&copy, "security.capability"), None);
        if privileged {
            let first = "2 extended attributes left out, the first security.capability of ";
            assert!(said.contains(first), "{said}");
        }
    }
    if privileged {
        here.said(0, &["cp", "-r", "-p", "x.img:/dir", "all"]);
        let copy = here.path("all/file");
        assert_eq!(has(&copy, "trusted.t").unwrap(), b"2");
        assert_eq!(has(&copy, "security.capability").unwrap(), CAPABILITY);
    }
    // A file that its owner may not write to has them too.
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    here.said(0, &["cp", file.to_str().unwrap(), "x.img:/read only"]);
    here.run(&[
        "cp",
        "--no-same-permissions",
        "x.img:/read only",
        "read only",
    ]);
    assert_eq!(has(&here.path("read only"), "user.a").unwrap(), b"1");
    assert_eq!(
        fs::metadata(here.path("read only")).unwrap().mode() & 0o777,
        0o400
    );
    // Where there are none, they are told of once.
    here.said(0, &["mkfs", "--fs", "nanofs", "card.img"]);
    let out = here.run(&["cp", file.to_str().unwrap(), "card.img:/"]);
    assert_eq!(out.status.code(), Some(0));
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(said.contains("extended attribute"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn links_and_pipes_keep_their_times() {
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    symlink("nowhere", here.path("tree/link")).unwrap();
    let made = Command::new("mkfifo").arg(here.path("tree/pipe")).status();
    assert!(made.unwrap().success());
    let names = ["tree/link", "tree/pipe"].map(|name| here.path(name));
    let touch = |name| {
        Command::new("touch")
            .args(["-h", "-d", "2001-02-03"])
            .arg(name)
            .status()
    };
    assert!(names.iter().all(|name| touch(name).unwrap().success()));
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "x.img"]);
    here.said(0, &["cp", "-r", "x.img:/", "out"]);
    let mtime = |name: &str| fs::symlink_metadata(here.path(name)).unwrap().mtime();
    for name in ["link", "pipe"] {
        let was = mtime(&format!("tree/{name}"));
        assert_eq!(mtime(&format!("out/{name}")), was, "{name}");
    }
}

#[test]
fn what_is_damaged_does_not_keep_the_rest_from_coming_out() {
    let here = Place::new();
    fs::create_dir(here.path("tree")).unwrap();
    for i in 0..9 {
        let text = format!("the text of file {i}. ").repeat(300);
        fs::write(here.path("tree").join(i.to_string()), text).unwrap();
    }
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "x.img"]);
    let mut bytes = fs::read(here.path("x.img")).unwrap();
    for mark in ["the text of file 2. ", "the text of file 5. "] {
        let found = bytes
            .windows(mark.len())
            .position(|at| at == mark.as_bytes());
        bytes[found.unwrap()] ^= 1;
    }
    fs::write(here.path("x.img"), bytes).unwrap();
    let out = here.run(&["cp", "-r", "x.img:/", "out"]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8(out.stderr).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    for name in ["out/2", "out/5"] {
        let told = format!("flashkit: {name}: damaged file data at page ");
        assert!(lines.iter().any(|line| line.starts_with(&told)), "{said}");
    }
    for i in 0..9 {
        let (from, to) = (format!("tree/{i}"), format!("out/{i}"));
        let copied = fs::read(here.path(&to)).ok();
        let whole = copied == Some(fs::read(here.path(&from)).unwrap());
        assert_eq!(whole, i != 2 && i != 5, "{i}");
        assert_eq!(copied.is_some(), whole, "{i}");
    }
    // The check names the files by their paths.
    let said = here.said(4, &["fsck", "x.img"]);
    assert!(said.contains(", /2: file data is damaged"), "{said}");
    let json = here.json(4, &["fsck", "--json", "x.img"]);
    let places = json["findings"].as_array().unwrap().iter();
    let mut places: Vec<&str> = places.map(|f| f["place"].as_str().unwrap()).collect();
    places.sort_by_key(|place| place.chars().last());
    let named = |at: usize, name| places[at].starts_with("page ") && places[at].ends_with(name);
    assert!(named(0, ", /2") && named(1, ", /5"), "{places:?}");
    assert_eq!(places.len(), 2);
}
