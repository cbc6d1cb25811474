//! `flashkit lab guest`, studies and `flashkit monitor`: what goes wrong without a guest, over
//! programs that play QEMU and apt; and with `FLASHKIT_GUEST=1` real guests, for which QEMU and
//! Debian's archive (or an image in the cache folder) are needed.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{Place, complaint};
use flashkit_guest::{LIBRARIES, MODULES, TOOLS};
use serde_json::Value;

/// A folder with programs that come before those of the system.
struct Stage(Place);

impl Deref for Stage {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

impl Stage {
    fn new() -> Stage {
        let place = Place::new();
        fs::create_dir(place.path("bin")).unwrap();
        Stage(place)
    }

    /// Makes such a program.
    fn program(&self, name: &str, script: &str) {
        let text = self.path("program");
        fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        install(&text, &self.path("bin").join(name));
    }

    /// A QEMU that runs this where the shared folder is the current one.
    fn qemu(&self, script: &str) {
        let find =
            "for a; do case $a in local,path=*) a=${a#local,path=}; cd \"${a%%,*}\";; esac; done";
        let version = "[ \"$1\" != --version ] || { echo QEMU emulator version 7.2; exit; }";
        self.program(
            "qemu-system-x86_64",
            &format!("{version}\n{find}\n{script}"),
        );
    }

    /// Empty files with the names of a guest's.
    fn image(&self) -> PathBuf {
        let image = self.path("image");
        let root = image.join("root");
        let modules = root.join("lib/modules/6.1-test");
        let mut dep = String::new();
        for module in MODULES {
            dep += &format!("{module}/{module}.ko:\n");
            touch(&modules.join(format!("{module}/{module}.ko")), "");
        }
        touch(&modules.join("modules.dep"), &dep);
        touch(&modules.join("modules.alias"), "");
        touch(&modules.join("modules.symbols"), "");
        touch(&root.join("boot/vmlinuz-6.1-test"), "");
        touch(&root.join("bin/busybox"), "");
        for tool in TOOLS {
            touch(&root.join("usr/sbin").join(tool), "");
        }
        for library in LIBRARIES {
            touch(&root.join("lib/x86_64-linux-gnu").join(library), "");
        }
        touch(&image.join("packages"), "libc6 2.36 1\nf2fs-tools 1.15 1\n");
        image
    }

    /// The programs that are found.
    fn programs(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.path("bin").display())
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = self.command(args);
        command.env("PATH", self.programs()).output().unwrap()
    }

    /// Runs a command in a guest that this test plays.
    fn guest(&self, more: &[&str]) -> Output {
        self.image();
        fs::create_dir_all(self.path("share")).unwrap();
        let args = [
            "lab", "guest", "run", "true", "--image", "image", "--share", "share",
        ];
        self.run(&[&args, more].concat())
    }
}

/// Copies a program, in a process of its own: what this one has open for writing, a child that
/// another test begins at that moment has open too until it runs its own program, and what is open
/// for writing does not run.
fn install(program: &Path, to: &Path) {
    let mut command = Command::new("install");
    assert!(command.arg(program).arg(to).status().unwrap().success());
}

/// What a command prints that must succeed.
fn good(out: &Output) -> String {
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{complaint}");
    String::from_utf8(out.stdout.clone()).unwrap()
}

fn touch(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The arguments of cases of a study.
fn of_study<'a>(study: &'a str, only: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let only = only.iter().flat_map(|case| ["--only", case]);
    let args = ["lab", "run", study, "--results", "results"];
    args.into_iter()
        .chain(only)
        .chain(more.iter().copied())
        .collect()
}

#[test]
fn no_qemu() {
    let place = Stage::new();
    let mut command = place.command(&["lab", "guest", "run", "true"]);
    let out = command.env("PATH", "/nowhere").output().unwrap();
    assert_eq!(
        complaint(&out, 1),
        "qemu-system-x86_64 is not here; Debian's package qemu-system-x86 brings it"
    );
}

#[test]
fn a_guest_that_works() {
    let place = Stage::new();
    place.qemu("cat job >stdout; echo hm >stderr; echo 0 >status; echo kept >result");
    let out = place.guest(&[]);
    assert_eq!(String::from_utf8_lossy(&out.stderr), "hm\n");
    assert!(out.status.success());
    assert_eq!(String::from_utf8_lossy(&out.stdout), "true");
    assert_eq!(
        fs::read_to_string(place.path("share/result")).unwrap(),
        "kept\n"
    );
    assert!(!place.path("share/initrd").exists());
}

/// Jobs call the program `flashkit`, whatever its file is called.
#[test]
fn the_program_has_its_name_in_a_guest() {
    let place = Stage::new();
    let entry = r"bin/flashkit\x00+\x7fELF";
    place.qemu(&format!(
        "LC_ALL=C grep --text --count --perl-regexp '{entry}' initrd >stdout; echo 0 >status"
    ));
    place.image();
    let other = place.path("other");
    install(Path::new(env!("CARGO_BIN_EXE_flashkit")), &other);
    let out = Command::new(other)
        .args(["lab", "guest", "run", "true", "--image", "image"])
        .current_dir(place.dir.path())
        .env("PATH", place.programs())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "1\n");
}

#[test]
fn a_job_that_fails() {
    let place = Stage::new();
    place.qemu("echo some >stdout; echo 3 >status");
    let out = place.guest(&[]);
    assert!(complaint(&out, 1).contains("ended with status 3"));
    assert_eq!(String::from_utf8_lossy(&out.stdout), "some\n");
}

#[test]
fn a_guest_that_dies() {
    let place = Stage::new();
    place.qemu(
        "echo kept >result; echo 'Kernel panic - not syncing: Attempted to kill init!' >console",
    );
    let said = complaint(&place.guest(&[]), 1);
    assert!(
        said.contains("the guest died; its last words: Kernel panic"),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(place.path("share/result")).unwrap(),
        "kept\n"
    );
}

#[test]
fn a_qemu_that_does_not_start() {
    let place = Stage::new();
    place.qemu("echo 'qemu: failed to initialize kvm: Permission denied' >&2; exit 1");
    let said = complaint(&place.guest(&["--kvm"]), 1);
    assert!(said.contains("failed to initialize kvm"), "{said}");
}

#[test]
fn a_guest_that_hangs() {
    let place = Stage::new();
    place.qemu("echo kept >result; echo so far >stdout; exec sleep 1000");
    let out = place.guest(&["--limit", "1"]);
    let said = complaint(&out, 1);
    assert_eq!(said, "the guest did not finish within 1 s and was stopped");
    assert_eq!(out.stdout, b"so far\n");
    assert_eq!(
        fs::read_to_string(place.path("share/result")).unwrap(),
        "kept\n"
    );
}

#[test]
fn a_guest_of_nothing() {
    let place = Stage::new();
    let run = |more: &[&str]| place.run(&[&["lab", "guest", "run"], more].concat());
    assert!(complaint(&run(&[""]), 2).contains("an empty name was given"));
    let said = complaint(&run(&["true", "--share", "nosuch"]), 1);
    assert_eq!(said, "nosuch: no such directory");
    assert!(!place.path("nosuch").exists());
}

/// Fetching into an empty folder fails in a way.
fn no_image(place: &Stage) -> String {
    place.qemu("exit 1");
    let out = place.run(&["lab", "guest", "fetch", "--image", "fetched"]);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{said}");
    let left: Vec<_> = fs::read_dir(place.path("fetched")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    said.lines().last().unwrap().to_owned()
}

#[test]
fn no_kernel_package() {
    let place = Stage::new();
    place.program("apt-get", "exit 0");
    place.program("apt-cache", "exit 0");
    place.program("dpkg-deb", "exit 0");
    let said = no_image(&place);
    assert!(said.contains("no kernel package"), "{said}");
}

#[test]
fn no_archive() {
    let place = Stage::new();
    place.program(
        "apt-get",
        "echo 'E: Could not resolve deb.debian.org'; exit 100",
    );
    place.program("apt-cache", "exit 0");
    place.program("dpkg-deb", "exit 0");
    let said = no_image(&place);
    assert!(
        said.contains("package lists: E: Could not resolve"),
        "{said}"
    );
}

#[test]
fn no_space() {
    let place = Stage::new();
    for program in ["apt-get", "apt-cache", "dpkg-deb"] {
        place.program(program, "exit 0");
    }
    place.program("df", "echo head; echo fs 1000000 999000 1000 99% /");
    let said = no_image(&place);
    assert!(said.contains("0 MiB free, "), "{said}");
}

#[test]
fn a_monitor_without_a_chip() {
    if Path::new("/sys/class/mtd/mtd0").exists() {
        println!("skipped: this machine has MTD devices");
        return;
    }
    let place = Stage::new();
    let said = complaint(&place.run(&["monitor", "--seconds", "1"]), 1);
    let reasons = [
        "only root",
        "no tracefs",
        "no raw NAND chip",
        "no kprobe events",
    ];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
}

/// A report as a replay in a guest leaves it.
fn report(place: &Stage) -> String {
    touch(&place.path("a.trace"), "C a 10\n");
    let out = place.run(&["replay", "--json", "a.trace"]);
    String::from_utf8(out.stdout).unwrap()
}

fn study(place: &Stage, more: &[&str]) -> Output {
    place.image();
    let only = ["seq/ubifs", "seq/jffs2", "append/jffs2"];
    let args = of_study(
        "peers",
        &only,
        &["--json", "--jobs", "1", "--image", "image"],
    );
    place.run(&[&args, more].concat())
}

/// The second of three cases kills the guest: the first has its result, the second an error, the
/// third is run in a guest of its own, and nothing is run twice.
#[test]
fn a_study_survives_a_guest_that_dies() {
    let place = Stage::new();
    let report = report(&place);
    touch(&place.path("report"), &report);
    let report = place.path("report").display().to_string();
    // The first boot has three cases, the next has one.
    let boots = place.path("boots").display().to_string();
    place.qemu(&format!(
        "echo boot >>{boots}; touch 0.err; cp {report} 0.json
        if [ -e 1.trace.gz ]; then echo '[ 1.0] Kernel panic - not syncing' >console; touch 1.err; exit; fi
        echo 0 >status"
    ));
    let out = study(&place, &[]);
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(said, "flashkit: 1 case failed; --retry runs them again\n");
    let result = |name: &str| -> Value {
        let text = fs::read(place.path("results/peers").join(name)).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    assert_eq!(result("seq/ubifs.json")["report"]["fs"], "flashlight");
    let error = result("seq/jffs2.json")["error"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(error.contains("Kernel panic"), "{error}");
    assert_eq!(result("append/jffs2.json")["report"]["total"]["ops"], 1);
    let count = || fs::read_to_string(&boots).unwrap().lines().count();
    assert_eq!(count(), 2);
    // What has a result, or an error, is not run again unless asked for.
    assert!(study(&place, &[]).status.success());
    assert_eq!(count(), 2);
    assert!(study(&place, &["--retry"]).status.success());
    assert_eq!(count(), 3);
    assert!(result("seq/jffs2.json")["error"].is_null());
    // Nothing but results is left.
    assert_eq!(fs::read_dir(place.path("results")).unwrap().count(), 1);
}

#[test]
fn a_study_without_qemu() {
    let place = Stage::new();
    place.program("qemu-system-x86_64", "exit 127");
    fs::remove_file(place.path("bin/qemu-system-x86_64")).unwrap();
    let args = of_study("micro", &["saturated/sw/512k"], &["--jobs", "1"]);
    let mut command = place.command(&args);
    let out = command.env("PATH", "/nowhere").output().unwrap();
    assert!(complaint(&out, 1).contains("qemu-system-x86_64 is not here"));
    // What needs no guest is done.
    let printed = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        printed.contains("micro/saturated/sw/512k/flashlight"),
        "{printed}"
    );
    assert!(
        place
            .path("results/micro/saturated/sw/512k/flashlight.json")
            .exists()
    );
}

#[test]
fn a_study_as_commands() {
    let place = Stage::new();
    let planned = |only: &str| {
        let out = place.run(&of_study("micro", &[only], &["--plan"]));
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    };
    let plan = planned("saturated/sw/512k");
    // FlashLight here and mounted, UBIFS, JFFS2.
    let systems =
        4 + usize::from(cfg!(feature = "littlefs")) + usize::from(cfg!(feature = "yaffs2"));
    assert_eq!(plan.lines().count(), systems, "{plan}");
    let own = plan
        .lines()
        .find(|line| line.contains("/flashlight'"))
        .unwrap();
    let words = own
        .strip_prefix("flashkit ")
        .unwrap()
        .strip_suffix(" >/dev/null")
        .unwrap();
    let words = words.replace('\'', "");
    let out = place.run(&words.split(' ').collect::<Vec<_>>());
    good(&out);
    assert_eq!(planned("saturated/sw/512k").lines().count(), systems - 1);
    // A page of what there is, and what it is made of.
    let out = place.run(&[
        "lab",
        "report",
        "--results",
        "results",
        "--output",
        "page.html",
    ]);
    assert_eq!(good(&out), "page.html\npage.csv\npage.json\n");
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(
        page.contains("<svg") && page.contains("923 of 924 cases have no result yet"),
        "{page}"
    );
    let json: Value = serde_json::from_slice(&fs::read(place.path("page.json")).unwrap()).unwrap();
    assert_eq!(
        json["studies"][0]["cases"][0]["case"],
        "micro/saturated/sw/512k/flashlight"
    );
    let said = complaint(&place.run(&["lab", "report", "--results", "none"]), 1);
    assert!(said.contains("none: no such folder"), "{said}");
    let out = place.run(&of_study("micro", &["nonsense"], &[]));
    assert_eq!(out.status.code(), Some(2));
}

/// What needs root says so, and nothing is tried.
#[test]
fn no_root() {
    let place = Stage::new();
    let program = place.path("flashkit");
    install(Path::new(env!("CARGO_BIN_EXE_flashkit")), &program);
    fs::create_dir(place.path("results")).unwrap();
    for open in [place.path("."), place.path("results")] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let run = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        if nix::unistd::geteuid().is_root() {
            command.args(["--reuid=65534", "--clear-groups"]);
        }
        command.arg(&program).args(args);
        command.current_dir(place.dir.path()).output().unwrap()
    };
    let out = run(&of_study("peers", &["append/ext4"], &["--json"]));
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(
        said,
        "flashkit: 1 case left out: this needs root, for loop devices and mounts\n"
    );
    assert!(out.status.success());
    let left = fs::read_dir(place.path("results")).unwrap().count();
    assert_eq!(left, 0, "no result of what was not run");
    let said = complaint(&run(&["lab", "run", "jftl", "--quick"]), 1);
    assert!(said.contains("this needs root"), "{said}");
    let said = complaint(&run(&["monitor", "--seconds", "1"]), 1);
    let reasons = ["only root", "no tracefs"];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
    touch(&place.path("a.trace"), "C a 10\n");
    let said = complaint(
        &run(&["replay", "--dir", "results", "--monitor", "a.trace"]),
        1,
    );
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
}

/// No space for a result: the study ends with the file's name, and the results before are whole.
#[test]
fn no_space_for_results() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: a small file system needs root to be mounted");
        return;
    }
    let place = Stage::new();
    let results = place.path("results");
    fs::create_dir(&results).unwrap();
    let mount = |args: &[&str]| {
        Command::new(args[0])
            .args(&args[1..])
            .arg(&results)
            .status()
    };
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=16k", "none"]);
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: no tmpfs");
        return;
    }
    let plan = of_study("micro", &["/512k/flashlight"], &["--plan"]);
    let plan = good(&place.run(&plan));
    let all: Vec<String> = plan
        .lines()
        .filter_map(|line| line.split('=').nth(1)?.split('\'').next())
        .filter(|id| id.ends_with("/flashlight"))
        .map(|id| format!("={id}"))
        .collect();
    let only: Vec<&str> = all.iter().map(String::as_str).collect();
    let out = place.run(&of_study("micro", &only, &["--jobs", "1", "--json"]));
    let said = complaint(&out, 1);
    // As far as it came, each result is whole.
    let found = Command::new("find")
        .arg(&results)
        .args(["-type", "f"])
        .output();
    let kept: Vec<Value> = String::from_utf8_lossy(&found.unwrap().stdout)
        .lines()
        .map(|path| serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
        .collect();
    let umounted = mount(&["umount"]);
    assert!(umounted.unwrap().success());
    assert!(
        said.contains("results/micro/") && said.contains("No space left on device"),
        "{said}"
    );
    assert!(!kept.is_empty() && kept.len() < all.len(), "{}", kept.len());
    assert!(kept.iter().all(|outcome| outcome["report"].is_object()));
}

/// Whether real guests are asked for.
fn real_guests() -> bool {
    let asked = std::env::var_os("FLASHKIT_GUEST").is_some_and(|v| v == "1");
    if !asked {
        println!("skipped: FLASHKIT_GUEST=1 starts real guests");
    }
    asked
}

fn real(place: &Stage, script: &str, more: &[&str]) -> Output {
    fs::create_dir_all(place.path("share")).unwrap();
    let args = ["lab", "guest", "run", script, "--share", "share"];
    place.command(&[&args, more].concat()).output().unwrap()
}

/// UBI formats the chip: each block is erased and gets a header. The monitor must count just that.
#[test]
fn a_monitor_in_a_guest() {
    if !real_guests() {
        return;
    }
    let place = Stage::new();
    let script = "modprobe nandsim id_bytes=0x98,0xaa,0x00,0x15 && mkfifo /tmp/ready || exit 1
        flashkit monitor --seconds 9 --interval 0.5 --log ops --json >monitor &
        while ! [ -s monitor ]; do usleep 50000; done
        modprobe ubi mtd=0 && wait && cat /sys/kernel/tracing/kprobe_events && ls /sys/kernel/tracing/instances";
    let out = real(&place, script, &["--limit", "120"]);
    assert_eq!(good(&out), "", "nothing is left in the kernel");
    let monitor = fs::read_to_string(place.path("share/monitor")).unwrap();
    let end: Value = serde_json::from_str(monitor.lines().last().unwrap()).unwrap();
    assert_eq!(end["devices"][0]["block_size"], 131_072);
    // UBI reads each block's header to find none, erases each block once, and writes headers.
    assert_eq!(end["all"]["block_erases"], 2048);
    assert_eq!(end["all"]["page_reads"], 2048);
    assert_eq!(end["all"]["missed"], 0);
    let erases = end["erases"].as_array().unwrap();
    assert_eq!(erases.len(), 2048);
    assert!(erases.iter().all(|block| block[2] == 1));
    // Who asked: but for the volume table, UBI's thread.
    let of = |process: &Value| process["counts"]["block_erases"].as_u64().unwrap();
    let processes = end["processes"].as_array().unwrap();
    assert_eq!(processes.iter().map(of).sum::<u64>(), 2048);
    assert_eq!(processes[0]["name"], "ubi_bgt0d");
    assert_eq!(of(&processes[0]), 2046, "{processes:?}");
    let programs = end["all"]["page_programs"].as_u64().unwrap();
    assert!((2048..2200).contains(&programs), "{programs}");
    // The log has each operation.
    let log = fs::read_to_string(place.path("share/ops")).unwrap();
    let all = log.lines().count() as u64;
    assert_eq!(end["log"]["lost"], 0);
    assert_eq!(end["log"]["operations"], all);
    let of = |op: &str| log.lines().filter(|line| line.contains(op)).count() as u64;
    assert_eq!(of("block_erase"), 2048);
    assert_eq!(of("page_program"), programs);
    assert!(log.contains("\"name\":\"ubi_bgt0d\""));
}

/// A replay over JFFS2: what is written reaches the chip, and is counted.
#[test]
fn a_study_in_a_guest() {
    if !real_guests() {
        return;
    }
    let place = Stage::new();
    let cases = [
        "saturated/sw/512k/ubifs",
        "saturated/sw/512k/jffs2",
        "durable/rw-fsync/512k/flashlight-mtd",
        "pause/rw-1000ms/512k/jffs2",
    ];
    let args = of_study("micro", &cases, &["--jobs", "1"]);
    let out = place.command(&args).output().unwrap();
    good(&out);
    for case in cases {
        let text = fs::read(place.path("results/micro").join(format!("{case}.json"))).unwrap();
        let outcome: Value = serde_json::from_slice(&text).unwrap();
        assert!(
            outcome["made"]["kernel"]
                .as_str()
                .unwrap()
                .starts_with("6."),
            "{outcome}"
        );
        let phases = outcome["report"]["phases"].as_array().unwrap();
        let test = phases.iter().find(|phase| phase["name"] == "test").unwrap();
        assert_eq!(test["user_bytes"], 20 << 20);
        let programs = test["page_programs"].as_u64().unwrap();
        // Each request once and no more than twice, or each page of the file where a page cache
        // takes what is overwritten.
        let least = if case.ends_with("ubifs") {
            6_144
        } else {
            10_240
        };
        assert!((least..20_480).contains(&programs), "{case}: {programs}");
        let fill = phases.iter().find(|phase| phase["name"] == "fill").unwrap();
        assert!(fill["page_programs"].as_u64().unwrap() > 5_120, "{case}");
    }
}

/// FlashLight mounted in a guest, counted by the same tracing: the file's pages, and little more.
#[test]
fn a_mounted_study_in_a_guest() {
    if !real_guests() {
        return;
    }
    let place = Stage::new();
    let args = of_study("peers", &["=peers/seq/flashlight-mtd"], &["--jobs", "1"]);
    good(&place.command(&args).output().unwrap());
    let text = fs::read(place.path("results/peers/seq/flashlight-mtd.json")).unwrap();
    let outcome: Value = serde_json::from_slice(&text).unwrap();
    let total = &outcome["report"]["total"];
    assert_eq!(total["user_bytes"], 190 << 20);
    let programs = total["page_programs"].as_u64().unwrap();
    // A commit every five seconds is some pages, and machines are slow.
    assert!((97_280..100_000).contains(&programs), "{programs}");
    assert!(total["block_erases"].as_u64().unwrap() < 50, "{total}");
}

#[test]
fn a_guest_that_panics() {
    if !real_guests() {
        return;
    }
    let place = Stage::new();
    let out = real(
        &place,
        "echo kept >result; echo c >/proc/sysrq-trigger",
        &["--limit", "60"],
    );
    let said = complaint(&out, 1);
    assert!(said.contains("the guest died; its last words:"), "{said}");
    assert_eq!(
        fs::read_to_string(place.path("share/result")).unwrap(),
        "kept\n"
    );
}

/// FlashLight on the kernel's MTD layer, with bad blocks and failing ones.
#[test]
fn a_volume_on_an_mtd_device() {
    if !real_guests() {
        return;
    }
    let place = Stage::new();
    let script = include_str!("../../../../lab/guest/mtd.sh");
    let out = real(&place, script, &["--limit", "550"]);
    let said = String::from_utf8_lossy(&out.stdout);
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}\n{complaints}");
    assert!(said.ends_with("file 7\npassed\n"), "{said}");
}

/// A disk of JFTL there, under F2FS.
#[test]
fn a_disk_on_an_mtd_device() {
    if !real_guests() {
        return;
    }
    let place = Stage::new();
    let script = include_str!("../../../../lab/guest/disk.sh");
    let out = real(&place, script, &["--limit", "300"]);
    let said = String::from_utf8_lossy(&out.stdout);
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}\n{complaints}");
    assert!(said.ends_with("passed\n"), "{said}");
    assert!(said.contains("/dev/mtd0: made, a disk of "), "{said}");
    let refused = "/dev/mtd0: holds a FlashLight volume; `flash_erase` clears it";
    assert!(complaints.contains(refused), "{complaints}");
    assert!(
        complaints.contains("logdisk is for NOR chips"),
        "{complaints}"
    );
}

/// There and back: mkfs here, nandwrite to a chip with bad blocks, mount, nanddump, fsck here.
#[test]
fn a_volume_that_a_programmer_writes() {
    if !real_guests() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/guest/transfer");
    let mut command = Command::new(script);
    let out = command.env("FLASHKIT", env!("CARGO_BIN_EXE_flashkit"));
    let out = out.output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    let complaints = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}\n{complaints}");
    let end = "read back from a dump: the same\n";
    assert!(said.ends_with(end), "{said}");
}
