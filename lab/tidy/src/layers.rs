//! FlashLight's layers: the folders of its sources. A layer uses those below, never one above.

use crate::lexer::only_code;
use crate::tree::File;
use std::collections::BTreeMap;

/// The layers, from the bottom.
pub const LAYERS: [&str; 8] = [
    "format",
    "boot",
    "space",
    "index",
    "checkpoint",
    "cleaning",
    "recovery",
    "api",
];
/// Where their folders are.
pub const SOURCES: &str = "device/flashlight/src/";

/// A path of one layer, in a source of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The source, and its line.
    pub path: String,
    /// From 1.
    pub line: usize,
    /// The layer of the source. What stands beside the folders counts as of the lowest.
    pub from: usize,
    /// The layer that the path leads to.
    pub to: usize,
}

/// Imports upwards, and folders that are no layer.
pub fn findings(files: &[File]) -> Vec<String> {
    let mut findings = Vec::new();
    for (from, path) in sources(files).filter_map(|file| Some((folder(file)?, &file.path))) {
        if !LAYERS.contains(&from) {
            findings.push(format!("{path}: {from} is no layer"));
        }
    }
    for import in imports(files) {
        if import.from < import.to {
            let (from, to) = (LAYERS[import.from], LAYERS[import.to]);
            let (path, line) = (&import.path, import.line);
            findings.push(format!("{path}:{line}: {from} uses {to}, which is above"));
        }
    }
    findings
}

/// The imports from layer to layer, and how many there are of each.
pub fn edges(files: &[File]) -> BTreeMap<(usize, usize), usize> {
    let mut edges = BTreeMap::new();
    for import in imports(files) {
        *edges.entry((import.from, import.to)).or_default() += 1;
    }
    edges
}

/// All imports of other layers. The crate's own first file sees everything.
pub fn imports(files: &[File]) -> Vec<Import> {
    let mut found = Vec::new();
    for file in sources(files).filter(|file| file.path != format!("{SOURCES}lib.rs")) {
        let Some(from) = folder(file).map_or(Some(0), layer) else {
            continue;
        };
        let code = only_code(&file.text);
        for (at, name) in paths(&code, depth(&file.path)) {
            let Some(to) = layer(&name).filter(|to| *to != from) else {
                continue;
            };
            found.push(Import {
                path: file.path.clone(),
                line: code[..at].matches('\n').count() + 1,
                from,
                to,
            });
        }
    }
    found
}

fn sources(files: &[File]) -> impl Iterator<Item = &File> {
    let is_source = |file: &&File| file.path.starts_with(SOURCES) && file.is_rust();
    files.iter().filter(is_source)
}

/// The folder in which a source stands; none for those beside the folders.
fn folder(file: &File) -> Option<&str> {
    let (folder, _) = file.path.strip_prefix(SOURCES)?.split_once('/')?;
    Some(folder)
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

/// How many `super::` lead from a source to the crate's root.
fn depth(path: &str) -> usize {
    let inner = path.strip_prefix(SOURCES).unwrap_or(path);
    let parts = inner.split('/').count();
    if inner.ends_with("/mod.rs") {
        parts - 1
    } else {
        parts
    }
}

/// Where paths from the crate's root are, and their first names.
fn paths(code: &str, depth: usize) -> Vec<(usize, String)> {
    let root = format!("{}::", vec!["super"; depth].join("::"));
    let mut found = Vec::new();
    for start in ["crate::", &root] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].trim_end();
            let is_inner = code[..at].ends_with(|c: char| is_of_name(c) || c == ':');
            // `pub(in crate::a)` says who may see, not what is seen.
            let is_scope = before.ends_with(" in") || before.ends_with("(in");
            if !is_inner && !is_scope {
                found.extend(
                    names(&code[at + start.len()..])
                        .into_iter()
                        .map(|name| (at, name)),
                );
            }
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The name that a path begins with, or the names, if it is a group: `{a::{b, c}, d}` begins with
/// `a` and `d`.
fn names(rest: &str) -> Vec<String> {
    let name = |text: &str| text.chars().take_while(|c| is_of_name(*c)).collect();
    let Some(group) = rest.trim_start().strip_prefix('{') else {
        return vec![name(rest.trim_start())];
    };
    let (mut depth, mut names, mut begins) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                names.push(name(group[begins..at].trim_start()));
                begins = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File::new(&format!("{SOURCES}{path}"), text)
    }

    fn found(path: &str, text: &str) -> Vec<String> {
        findings(&[file(path, text)])
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        for how in [
            "use crate::index::dir::DirView;",
            "use crate::{error::Error, index::{self, dir}};",
            "use crate::{\n    error::Error,\n    index,\n};",
            "pub use crate::index::*;",
            "fn a() { crate::index::find() }",
            "fn a(dir: &crate::index::Dir) {}",
            "use super::super::index::dir;",
        ] {
            let found = found("space/table.rs", how);
            assert_eq!(found.len(), 1, "{how}: {found:?}");
            assert!(
                found[0].ends_with(": space uses index, which is above"),
                "{found:?}"
            );
        }
        assert_eq!(
            found("format/tag.rs", "//! A tag.\n\nuse crate::api;"),
            ["device/flashlight/src/format/tag.rs:3: format uses api, which is above"]
        );
        assert_eq!(found("space/mod.rs", "use super::index;").len(), 1);
        assert_eq!(
            found("space/log/record.rs", "use super::super::super::index;").len(),
            1
        );
    }

    #[test]
    fn imports_from_below_and_of_the_same_layer_are_good() {
        let text = "use crate::{format::tag, index::dir, space};\nuse super::dir;";
        assert_eq!(found("index/file.rs", text), [""; 0]);
        assert_eq!(
            found("lib.rs", "pub use crate::api::FlashLight; mod format;"),
            [""; 0]
        );
    }

    #[test]
    fn what_only_looks_like_an_import_is_none() {
        for text in [
            "/// As [`crate::index`] does.\nfn a() {}",
            "const A: &str = \"crate::index\";",
            "pub(in crate::index) fn a() {}",
            "use crate::indexes::a;",
            "use other_crate::index::a;",
            "use crate::format::{index, api};",
        ] {
            assert_eq!(found("space/table.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn what_stands_beside_the_folders_uses_the_lowest_alone() {
        assert_eq!(found("error.rs", "use crate::space::table;").len(), 1);
        assert_eq!(found("error.rs", "use crate::format::tag;"), [""; 0]);
    }

    #[test]
    fn a_folder_that_is_no_layer_is_found() {
        assert_eq!(
            found("attic/a.rs", ""),
            ["device/flashlight/src/attic/a.rs: attic is no layer"]
        );
    }

    #[test]
    fn edges_are_counted() {
        let files = [
            file(
                "index/dir.rs",
                "use crate::{format::tag, space};\nuse crate::format::inode;",
            ),
            file("index/file.rs", "use crate::format::inode;"),
        ];
        let (format, space, index) = (0, 2, 3);
        let edges: Vec<_> = edges(&files).into_iter().collect();
        assert_eq!(edges, [((index, format), 3), ((index, space), 1)]);
    }
}
