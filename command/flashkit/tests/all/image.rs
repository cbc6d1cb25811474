//! Images in every state: never formatted, stopped uncleanly, damaged.

use std::fs;
use std::path::Path;

use crate::common::{Place, can_mount, complaint, umount};
use flashkit_flashlight::{Config, FIRST_FILE, FlashLight, New, Node, ROOT_DIR, ram_needed};
use flashkit_nand::{Nand, PageAddr};
use flashkit_sim::{Access, Rot, SimNand, preset};
use flashkit_vfs::any::AnyNand;
use serde_json::Value;

const CHIP: &str = "micron-20m";
/// Stands in the page of a file's inode, and nowhere else.
const MARK: &[u8] = b"a text to be found in the image";

/// An image with files, left without an unmount.
fn unclean(here: &Place) {
    here.said(0, &["mkfs", "--chip", CHIP, "x.img"]);
    let chip = SimNand::open(here.path("x.img"), Access::ReadWrite).unwrap();
    let mut ram = vec![0; ram_needed(&chip.geometry())];
    let mut fs = FlashLight::mount(AnyNand::new(chip), &mut ram, Config::default()).unwrap();
    let now = New::default().now;
    let Node::Dir(dir) = fs.mkdir(ROOT_DIR, b"dir", &New::default()).unwrap() else {
        panic!("a directory is one")
    };
    for i in 0..300_u32 {
        let name = format!("file {i}");
        let node = fs.create(dir, name.as_bytes(), &New::default()).unwrap();
        let Node::File(file) = node else {
            panic!("a file is one")
        };
        let bytes = [MARK, &vec![i as u8; 19 * i as usize]].concat();
        fs.write(file, 0, &bytes, now).unwrap();
        fs.fsync(node).unwrap();
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

#[test]
fn looking_at_an_unclean_image_does_not_change_it() {
    let here = Place::new();
    unclean(&here);
    let before = bytes(&here.path("x.img"));
    let said = here.said(0, &["fsck", "-n", "x.img"]);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines[0],
        "x.img: not unmounted cleanly; recovery was simulated"
    );
    assert!(lines[1].starts_with("x.img: clean (3 directories, 300 files, "));
    assert_eq!(lines.len(), 2);
    let json = here.json(0, &["fsck", "--json", "x.img"]);
    assert_eq!(json["clean"], true);
    assert_eq!(json["recovery"], "simulated");
    let info = here.json(0, &["info", "--json", "x.img"]);
    assert_eq!(info["clean"], false);
    assert_eq!(info["chip"], CHIP);
    assert_eq!(info["erase_counts"]["min"], 1);
    assert!(
        here.said(0, &["info", "x.img"])
            .contains("\nclean           no\n")
    );
    assert_eq!(here.said(0, &["ls", "x.img:/dir"]).lines().count(), 300);
    assert!(
        here.said(0, &["dump", "x.img"])
            .contains("name \"file 299\"")
    );
    assert!(
        bytes(&here.path("x.img")) == before,
        "the image has changed"
    );
}

#[test]
fn repair_recovers_on_the_image() {
    let here = Place::new();
    unclean(&here);
    let said = here.said(0, &["fsck", "-a", "x.img"]);
    assert!(
        said.starts_with("x.img: not unmounted cleanly; recovered\nx.img: clean"),
        "{said}"
    );
    let after = bytes(&here.path("x.img"));
    assert!(
        here.said(0, &["fsck", "-a", "x.img"])
            .starts_with("x.img: clean")
    );
    assert_eq!(
        here.json(0, &["fsck", "--json", "x.img"])["recovery"],
        "not needed"
    );
    let info = here.json(0, &["info", "--json", "x.img"]);
    assert_eq!(info["clean"], true);
    assert_eq!(info["mount"]["page_programs"], 0);
    assert!(info["mount"]["page_reads"].as_u64().unwrap() <= 64);
    assert!(
        bytes(&here.path("x.img")) == after,
        "a clean image has changed"
    );
    let text = here.said(0, &["cat", "x.img:/dir/file 7"]);
    assert_eq!(text.len(), MARK.len() + 133);
}

/// Flips a bit where `MARK` stands in an image: in the inode of a small file, or in the data of a
/// larger one.
fn damage(image: &Path, is_data: bool) {
    let mut bytes = bytes(image);
    let places: Vec<usize> = (0..bytes.len() - MARK.len())
        .filter(|&at| bytes[at..].starts_with(MARK))
        .collect();
    // Data pages begin with it.
    let place = places.iter().find(|&&at| (at % 64 == 0) == is_data);
    bytes[*place.unwrap()] ^= 1;
    fs::write(image, &bytes).unwrap();
}

#[test]
fn damage_is_found_and_stays() {
    for (is_data, what) in [
        (false, ": damaged inode of a file of this directory\n"),
        (true, ": file data is damaged\n"),
    ] {
        let here = Place::new();
        unclean(&here);
        here.said(0, &["fsck", "-a", "x.img"]);
        damage(&here.path("x.img"), is_data);
        for mode in ["-n", "-a"] {
            let said = here.said(4, &["fsck", mode, "x.img"]);
            assert!(said.contains(what), "{said}");
            assert!(said.lines().last().unwrap().contains("x.img: damaged, "));
        }
        if !is_data {
            // The name of a file that cannot be read goes; of damaged data
            // nothing says what it was.
            fs::copy(here.path("x.img"), here.path("y.img")).unwrap();
            let said = here.said(1, &["fsck", "-y", "y.img"]);
            assert!(said.contains("this directory: repaired\n"), "{said}");
            assert!(
                said.lines().last().unwrap().contains("y.img: clean"),
                "{said}"
            );
            here.said(0, &["fsck", "-n", "y.img"]);
        } else {
            here.said(4, &["fsck", "-y", "x.img"]);
        }
        let json = here.json(4, &["fsck", "--json", "x.img"]);
        assert_eq!(json["clean"], false);
        let place = json["findings"][0]["place"].as_str().unwrap();
        assert!(
            place.starts_with("page ") && place.contains(", inode "),
            "{place}"
        );
    }
}

#[test]
fn a_chip_without_a_volume_is_refused_by_name() {
    let here = Place::new();
    drop(SimNand::create(here.path("x.img"), preset(CHIP).unwrap()).unwrap());
    let none = "x.img: no FlashLight volume found";
    for command in ["ls", "info"] {
        assert_eq!(here.complaint(1, &[command, "x.img"]), none);
    }
    // There is nothing to check, and nothing that a repair would have left.
    for how in ["-n", "-y", "--json"] {
        assert_eq!(here.complaint(8, &["fsck", how, "x.img"]), none);
    }
    assert_eq!(here.said(0, &["dump", "x.img"]), "");
}

#[test]
fn chips_that_do_not_suit_are_refused_before_anything_is_made() {
    let here = Place::new();
    let why = here.complaint(2, &["mkfs", "--chip", "small-256m", "x.img"]);
    assert!(
        why.contains("small-256m: ") && why.contains("do not suit"),
        "{why}"
    );
    assert!(!here.path("x.img").exists());
    // More RAM than 16 KiB without being asked, but never than what was asked.
    here.said(0, &["mkfs", "--chip", "mlc-1g", "x.img"]);
    let info = here.json(0, &["info", "--json", "x.img"]);
    assert_eq!(info["ram"]["given"], info["ram"]["needed"]);
    assert_eq!(info["ram"]["pages_kept"], 0);
    // What more of it is for.
    let info = here.json(0, &["info", "--json", "--ram", "524288", "x.img"]);
    assert_eq!(info["ram"]["erases_counted"], 2048);
    assert_eq!(info["ram"]["dirty_entries"], 2048);
    assert_eq!(info["ram"]["pages_kept"], 116);
    let why = here.complaint(2, &["ls", "--ram", "16384", "x.img"]);
    assert!(
        why.contains("--ram 16384: too small: mlc-1g needs at least "),
        "{why}"
    );
}

#[test]
fn dump_tells_every_record() {
    let here = Place::new();
    unclean(&here);
    let text = here.said(0, &["dump", "x.img"]);
    let json = here.said(0, &["dump", "--json", "x.img"]);
    let records: Vec<Value> = json
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let records_told = text
        .lines()
        .filter(|line| line.starts_with("page "))
        .count();
    assert_eq!(records.len(), records_told);
    let of = |kind: &'static str| records.iter().filter(move |r| r["kind"] == kind);
    for kind in [
        "root",
        "second level",
        "checkpoint",
        "snapshot",
        "allocation",
        "directory map",
    ] {
        assert!(of(kind).count() > 0, "{kind}");
    }
    assert_eq!(of("file").count(), 300);
    assert!(of("file").all(|file| file["uid"] == 0));
    // The image was not unmounted: what is live is what a recovery makes of it, and that writes
    // the newest inode anew.
    assert_eq!(of("file").filter(|file| file["live"] == true).count(), 299);
    let named = of("file").find(|file| file["name"] == "file 299").unwrap();
    assert_eq!(named["ino"], FIRST_FILE + 299);
    assert_eq!(named["size"], MARK.len() + 5_681);
    let pages: u64 = named["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["count"].as_u64().unwrap())
        .sum();
    assert_eq!(pages, 2, "the rest is in the inode: {named}");
    assert_eq!(named["fragment"]["bytes"], MARK.len() + 5_681 - 4_096);
    assert_eq!(of("checkpoint").filter(|c| c["live"] == true).count(), 1);
    // Data pages, once by the block and once by the page.
    let summed: u64 = of("data")
        .map(|block| block["pages"].as_u64().unwrap())
        .sum();
    let single = here.said(0, &["dump", "--json", "--data", "x.img"]);
    let single = single
        .lines()
        .filter(|l| l.contains("\"kind\":\"data\""))
        .count();
    assert_eq!(summed, single as u64);
    assert!(text.contains("    entry: index 0, page "), "{text}");
}

/// A tree with a hard link, a symbolic link and a name in a directory.
fn small_tree(here: &Place) {
    fs::create_dir_all(here.path("tree/d")).unwrap();
    fs::write(here.path("tree/d/a"), "hi\n").unwrap();
    fs::write(here.path("tree/big"), vec![7; 50_000]).unwrap();
    fs::hard_link(here.path("tree/d/a"), here.path("tree/b")).unwrap();
    std::os::unix::fs::symlink("d/a", here.path("tree/s")).unwrap();
}

#[test]
fn the_same_tree_gives_the_same_bytes() {
    let here = Place::new();
    small_tree(&here);
    for image in ["a.img", "b.img"] {
        here.said(0, &["mkfs", "-r", "tree", image]);
    }
    let read = |image: &str| fs::read(here.path(image)).unwrap();
    assert!(read("a.img") == read("b.img"), "the images differ");
    // Another tree, another volume: none of its names are found by the other's hashes.
    fs::write(here.path("tree/more"), "").unwrap();
    here.said(0, &["mkfs", "--force", "-r", "tree", "b.img"]);
    let volume = |image: &str| here.json(0, &["info", "--json", image])["volume"].clone();
    assert_ne!(volume("a.img"), volume("b.img"));
}

#[test]
fn a_device_table_makes_devices_and_sets_attributes() {
    let here = Place::new();
    small_tree(&here);
    let table = "/dev d 755 0 0\n/dev/console c 622 0 5 5 1\n/dev/hda b 640 0 6 3 1 1 1 3\n\
                 /big f 4711 12 13\n";
    fs::write(here.path("table"), table).unwrap();
    let filled = [
        "mkfs",
        "-r",
        "tree",
        "--squash-owner",
        "--devtable",
        "table",
    ];
    here.said(0, &[&filled[..], &["a.img"]].concat());
    let listed = here.said(0, &["ls", "-lR", "a.img"]);
    let line = |name: &str| {
        let words = listed.lines().map(|line| line.split_whitespace());
        let mut found = words.filter(|words| words.clone().any(|word| word == name));
        let words: Vec<&str> = found.next().unwrap().collect();
        words[..words.len().min(7)].join(" ")
    };
    assert!(line("console").starts_with("crw--w--w- 1 0 5 5, 1 "));
    assert!(line("hda3").starts_with("brw-r----- 1 0 6 3, 3 "));
    assert!(line("big").starts_with("-rws--x--x 1 12 13 50000 "));
    assert!(line("b").contains(" 2 0 0 3 "));
    here.said(0, &["fsck", "a.img"]);
    // What is wrong with a table is said before there is an image.
    fs::write(here.path("table"), "/x q 600\n").unwrap();
    let refused = here.complaint(1, &["mkfs", "--devtable", "table", "none.img"]);
    assert_eq!(refused, "table: line 1: `q` is no type: d, f, c, b, p or s");
    assert!(!here.path("none.img").exists());
    fs::write(here.path("table"), "/x f 600\n").unwrap();
    let refused = here.complaint(1, &["mkfs", "--devtable", "table", "b.img"]);
    assert_eq!(
        refused,
        "b.img: filling it: table: line 1: /x: no such file or directory"
    );
}

/// Bits flipped anywhere in the file, in what it says of the chip's pages too:
/// no panic, one line at most.
#[test]
fn an_image_with_bits_flipped_panics_nothing() {
    let here = Place::new();
    unclean(&here);
    here.said(0, &["fsck", "-a", "x.img"]);
    let good = bytes(&here.path("x.img"));
    fs::write(here.path("small"), [7; 20_000]).unwrap();
    let mut promises = 0;
    for seed in 1..=8_u64 {
        let (mut bad, mut at) = (good.clone(), seed);
        for _ in 0..400 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Behind the head; what is told of blocks and pages comes first.
            bad[128 + (at >> 33) as usize % 20_000] ^= 1 << (at >> 61);
        }
        for args in [&["fsck", "-y", "y.img"][..], &["cp", "small", "y.img:/new"]] {
            fs::write(here.path("y.img"), &bad).unwrap();
            let out = here.run(args);
            let said = String::from_utf8_lossy(&out.stderr);
            let status = out.status.code().unwrap();
            assert!(
                status < 16 && said.lines().count() <= 1,
                "seed {seed}, {args:?}: {said}"
            );
            promises += usize::from(said.contains("the image is damaged: "));
        }
    }
    assert!(promises > 0, "no seed is bad enough");
}

#[test]
fn what_a_lost_directory_held_is_in_lost_found() {
    let here = Place::new();
    fs::create_dir_all(here.path("tree/a/b")).unwrap();
    fs::write(here.path("tree/a/b/f"), "below").unwrap();
    fs::write(here.path("tree/a/g"), vec![7; 9_000]).unwrap();
    fs::hard_link(here.path("tree/a/g"), here.path("tree/h")).unwrap();
    fs::write(here.path("tree/a/i"), vec![8; 9_000]).unwrap();
    here.said(0, &["mkfs", "--chip", CHIP, "-r", "tree", "x.img"]);
    let records = here.said(0, &["dump", "--json", "x.img"]);
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let records: Vec<Value> = records.collect();
    let live = |name: &str| {
        let is = |r: &&Value| r["live"] == true && r["name"] == name;
        records.iter().find(is).unwrap()
    };
    let page = live("a")["page"].as_u64().unwrap() as u32;
    let (b, i) = (&live("b")["ino"], &live("i")["ino"]);
    let mut chip = SimNand::open(here.path("x.img"), Access::ReadWrite).unwrap();
    assert!(chip.rot(PageAddr(page), Rot::Lost).unwrap());
    drop(chip);
    here.said(4, &["fsck", "x.img"]);
    here.said(1, &["fsck", "-y", "x.img"]);
    for mode in ["-n", "-y"] {
        let said = here.said(0, &["fsck", mode, "x.img"]);
        assert!(said.starts_with("x.img: clean"), "{said}");
    }
    assert_eq!(here.said(0, &["ls", "x.img"]), "h\nlost+found\n");
    let listed = here.said(0, &["ls", "x.img:/lost+found"]);
    let mut names = [format!("#{b}"), format!("#{i}")];
    names.sort();
    assert_eq!(listed, format!("{}\n{}\n", names[0], names[1]));
    let read = |path: String| here.said(0, &["cat", &format!("x.img:/{path}")]);
    assert_eq!(read(format!("lost+found/#{b}/f")), "below");
    assert_eq!(read(format!("lost+found/#{i}")), "\u{8}".repeat(9_000));
    assert_eq!(read("h".into()), "\u{7}".repeat(9_000));
}

/// Without them the data of such a volume would be nobody's.
#[test]
fn spare_bytes_in_use_are_not_left_out_of_a_raw_image() {
    let here = Place::new();
    fs::write(here.path("f"), [7; 5_000]).unwrap();
    here.said(0, &["mkfs", "--chip", "micron-20m", "flash.img"]);
    here.said(0, &["cp", "f", "flash.img:/f"]);
    let said = complaint(&here.run(&["export", "flash.img", "raw"]), 1);
    assert!(said.contains("--spare"), "{said}");
    assert!(!here.path("raw").exists());
    here.said(0, &["export", "--spare", "flash.img", "raw"]);
    let import = [
        "import",
        "--spare",
        "--chip",
        "micron-20m",
        "raw",
        "again.img",
    ];
    here.said(0, &import);
    assert_eq!(here.run(&["cat", "again.img:/f"]).stdout, [7; 5_000]);
}

/// A healthy disk of another kind is no damaged volume.
#[test]
fn a_disk_of_jftl_is_not_called_damaged() {
    let here = Place::new();
    let mut chip = SimNand::create(here.path("disk.img"), preset(CHIP).unwrap()).unwrap();
    let len = flashkit_jftl::ram_bytes(&chip.geometry(), flashkit_jftl::MapCache::Whole).unwrap();
    flashkit_jftl::Jftl::format(&mut chip, &mut vec![0; len], 1).unwrap();
    drop(chip);
    let said = here.complaint(8, &["fsck", "disk.img"]);
    assert!(said.contains("holds a disk of jftl"), "{said}");
    let said = here.complaint(2, &["mkfs", "--chip", "nor-16m", "x.img"]);
    assert!(said.contains("a NOR chip"), "{said}");
}

#[test]
fn a_pipe_is_no_image_and_not_waited_for() {
    let here = Place::new();
    let pipe = here.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for command in ["info", "ls", "fsck", "dump"] {
        let out = here.run(&[command, "pipe"]);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(said.contains("pipe, not an image"), "{command}: {said}");
    }
    let out = here.run(&["soak", "--hours", "nan"]);
    assert_eq!(out.status.code(), Some(2));
}

/// One page of a file's inode must not take the rest of its directory out of reach.
#[test]
fn what_is_beside_a_damaged_inode_is_listed_and_copied() {
    let here = Place::new();
    here.said(0, &["mkfs", "--chip", "micron-20m", "x.img"]);
    fs::create_dir(here.path("dir")).unwrap();
    for name in ["a", "b", "c", "d", "e"] {
        fs::write(here.path("dir").join(name), name).unwrap();
    }
    here.said(0, &["cp", "-r", "dir", "x.img:/"]);
    let records = here.said(0, &["dump", "--json", "x.img"]);
    let mut records = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lost = records.find(|record| record["name"] == "c" && record["live"] == true);
    let lost = PageAddr(lost.unwrap()["page"].as_u64().unwrap() as u32);
    let mut chip = SimNand::open(here.path("x.img"), Access::ReadWrite).unwrap();
    assert!(chip.rot(lost, Rot::Lost).unwrap());
    drop(chip);
    for args in [&["ls", "x.img:/dir"][..], &["ls", "-lR", "x.img"]] {
        let out = here.run(args);
        let why = complaint(&out, 1);
        assert!(why.starts_with("x.img:/dir: damaged"), "{why}");
        let said = String::from_utf8(out.stdout).unwrap();
        let last = said.lines().filter_map(|line| line.split(' ').next_back());
        let files: String = last.filter(|word| word.len() == 1).collect();
        assert_eq!(files, "abde", "{said}");
    }
    let why = complaint(&here.run(&["cp", "-r", "x.img:/", "out"]), 1);
    assert!(why.starts_with("out/dir: damaged"), "{why}");
    for (name, there) in [
        ("a", true),
        ("b", true),
        ("c", false),
        ("d", true),
        ("e", true),
    ] {
        let copied = fs::read(here.path("out/dir").join(name)).ok();
        assert_eq!(copied, there.then(|| name.into()), "{name}");
    }
    if !can_mount() {
        return;
    }
    let mounted = here.mount(&["-o", "ro", "x.img", "flash"]);
    let listed = fs::read_dir(here.path("flash/dir")).unwrap();
    let (found, failed): (Vec<_>, Vec<_>) = listed.partition(Result::is_ok);
    let names = found.into_iter().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    umount(&here.path("flash"));
    let mut mounted = mounted;
    let told = mounted.complaints();
    mounted.end_with(1);
    assert_eq!(names, ["a", "b", "d", "e"]);
    assert_eq!(failed.len(), 1, "that there was more is told");
    assert_eq!(told.lines().count(), 1, "{told}");
}
