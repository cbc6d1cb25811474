//! Fingerprints of the sources that decide what a measurement gives: a result says which it was
//! made with, and is stale when they are no longer these.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Name of a group of sources, and the files and folders of it, from the top of the tree.
const GROUPS: [(&str, &[&str]); 13] = [
    (
        "workload",
        &[
            "sim/src",
            "device/nand/src",
            "lab/workload/src",
            "lab/workload/traces",
        ],
    ),
    (
        "flashlight",
        &["device/flashlight/src", "device/bytes/src", "host/vfs/src"],
    ),
    ("mounted", &["host/fuse/src", "host/mtd/src"]),
    (
        "guest",
        &[
            "lab/guest/init.sh",
            "host/flashmon/src",
            "lab/experiments/src/study/peer.sh",
        ],
    ),
    ("rivals", &["lab/rivals/src", "lab/rivals/yaffs2"]),
    ("jftl", &["device/jftl/src", "host/disk/src"]),
    ("logdisk", &["device/logdisk/src", "device/nor/src"]),
    ("nanofs", &["device/nanofs/src", "device/block/src"]),
    (
        "micro",
        &[
            "lab/experiments/src/micro/cases.rs",
            "lab/experiments/src/micro/pattern.rs",
            "lab/experiments/src/micro/state.rs",
        ],
    ),
    (
        "lab-jftl",
        &[
            "lab/experiments/src/jftl/load.rs",
            "lab/experiments/src/jftl/filebench.rs",
            "lab/experiments/src/jftl/garbage.rs",
            "lab/experiments/src/jftl/recovery.rs",
            "lab/experiments/src/jftl/record.rs",
            "lab/experiments/src/jftl/rig.rs",
            "lab/experiments/src/jftl/tally.rs",
        ],
    ),
    (
        "lab-logdisk",
        &[
            "lab/experiments/src/logdisk/load.rs",
            "lab/experiments/src/logdisk/andrew.rs",
        ],
    ),
    (
        "lab-inside",
        &[
            "lab/experiments/src/inside/names.rs",
            "lab/experiments/src/inside/serve.rs",
            "lab/experiments/src/inside/space.rs",
            "lab/experiments/src/inside/times.rs",
            "lab/experiments/src/inside/watch.rs",
        ],
    ),
    (
        "lab-nanofs",
        &[
            "lab/experiments/src/nanofs/collect.rs",
            "lab/experiments/src/nanofs/measure.rs",
            "lab/experiments/src/nanofs/streams.rs",
        ],
    ),
];

/// What no measurement runs: these chips have no serial bus, and nothing reads a volume as a boot
/// loader does.
const APART: [&str; 3] = [
    "sim/src/spi",
    "sim/src/bus.rs",
    "device/flashlight/src/boot",
];

fn main() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut lines = String::from("[\n");
    for (name, paths) in GROUPS {
        let mut files = Vec::new();
        for path in paths {
            println!("cargo::rerun-if-changed={}", top.join(path).display());
            collect(&top, Path::new(path), &mut files);
        }
        files.sort();
        let mut hash = 0xcbf2_9ce4_8422_2325;
        for file in files {
            let bytes = fs::read(top.join(&file)).unwrap_or_default();
            add(&mut hash, file.to_string_lossy().as_bytes());
            match file.extension().is_some_and(|end| end == "rs") {
                true => add(&mut hash, code(&String::from_utf8_lossy(&bytes)).as_bytes()),
                false => add(&mut hash, &bytes),
            }
        }
        lines += &format!("    (\"{name}\", 0x{hash:016x}),\n");
    }
    lines += "]\n";
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("code.rs"), lines).expect("the folder of what is built");
    println!("cargo::rerun-if-changed=build.rs");
}

/// All files at or below a path, without those of tests.
fn collect(top: &Path, path: &Path, files: &mut Vec<PathBuf>) {
    if APART.iter().any(|apart| Path::new(apart) == path) || path.ends_with("tests.rs") {
        return;
    }
    match fs::read_dir(top.join(path)) {
        Ok(entries) => {
            for entry in entries.flatten() {
                collect(top, &path.join(entry.file_name()), files);
            }
        }
        Err(_) if top.join(path).is_file() => files.push(path.to_owned()),
        Err(_) => {}
    }
}

/// Without comments of whole lines, blank lines and tests at the end: they change no result.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = text.lines().map(str::trim);
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    kept.collect::<Vec<_>>().join("\n")
}

/// FNV-1a of 64 bits.
fn add(hash: &mut u64, bytes: &[u8]) {
    for byte in bytes {
        *hash = (*hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
}
