//! The files of the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// What is in the top folder and has sources of ours: no build, no mount, no clone beside it.
const FOLDERS: [&str; 10] = [
    ".ci", "command", "device", "examples", "firmware", "fuzz", "host", "lab", "meter", "sim",
];
/// Folders in these that have none.
const NONE_OF_OURS: [&str; 4] = ["target", "corpus", "findings", "artifacts"];

/// A file: its path from the top of the tree, with `/` between its parts, and its text.
pub struct File {
    /// Its path.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// A file.
    pub fn new(path: &str, text: &str) -> File {
        File {
            path: path.into(),
            text: text.into(),
        }
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The top of the tree that this was built from.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files of the tree that are Rust, Python, shell or Cargo's manifests, sorted by path.
///
/// # Panics
/// If one cannot be read.
pub fn files(top: &Path) -> Vec<File> {
    let mut found = Vec::new();
    let manifest = top.join("Cargo.toml");
    found.push(File::new("Cargo.toml", &read(&manifest)));
    for folder in FOLDERS {
        if top.join(folder).is_dir() {
            collect(&top.join(folder), folder, &mut found);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn collect(folder: &Path, path: &str, found: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{path}: {error}"));
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        let (full, path) = (entry.path(), format!("{path}/{name}"));
        if entry.file_type().unwrap().is_dir() {
            if !NONE_OF_OURS.contains(&name.as_str()) {
                collect(&full, &path, found);
            }
        } else if is_source(&name, &full) {
            found.push(File::new(&path, &read(&full)));
        }
    }
}

/// By its name, or as a script by its first two bytes.
fn is_source(name: &str, file: &Path) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    match ending {
        Some(ending) => ["rs", "py", "sh"].contains(&ending) || name == "Cargo.toml",
        None => fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"#!")),
    }
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
