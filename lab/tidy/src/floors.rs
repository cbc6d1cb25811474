//! Which crates may use which: those of their own floor and of the floors below.

use crate::tree::File;
use std::collections::BTreeMap;

/// The floors, from the bottom: the folders of each.
const FLOORS: [&[&str]; 5] = [
    &["device"],
    &["meter", "sim"],
    &["host"],
    &["lab"],
    &["command"],
];

/// A crate of the workspace.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    folder: String,
    floor: usize,
    /// Names of packages, and whether tests alone use them.
    uses: Vec<(String, bool)>,
}

/// Dependencies that lead upwards. For tests alone they may, with a reason: `(crate, dependency,
/// reason)`. And what is in that list and is not so.
pub fn findings(files: &[File], allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let mut findings = Vec::new();
    let mut crates = BTreeMap::new();
    for file in files {
        let Some(folder) = file.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        // These are workspaces of their own, whose crates nothing uses.
        if ["firmware", "firmware/flashlight-size", "fuzz"].contains(&folder) {
            continue;
        }
        match read(folder, &file.text) {
            Ok((name, read)) => drop(crates.insert(name, read)),
            Err(finding) => findings.push(finding),
        }
    }
    let mut upwards = Vec::new();
    for (name, user) in &crates {
        for (used, for_tests) in &user.uses {
            let Some(used_crate) = crates.get(used).filter(|used| used.floor > user.floor) else {
                continue;
            };
            let pair = (name.as_str(), used.as_str());
            let is_allowed = allowed.iter().any(|(a, b, _)| (*a, *b) == pair);
            upwards.push(pair);
            if !*for_tests || !is_allowed {
                let (from, to) = (&user.folder, &used_crate.folder);
                findings.push(format!("{from} stands below {to} and uses it"));
            }
        }
    }
    for (user, used, reason) in allowed {
        if !upwards.contains(&(*user, *used)) {
            findings.push(format!(
                "{user} does not use {used} of a floor above: not to be listed"
            ));
        }
        if reason.trim().is_empty() {
            findings.push(format!("{user} uses {used}: listed without a reason"));
        }
    }
    findings
}

/// A crate's name and what of its manifest counts here.
fn read(folder: &str, manifest: &str) -> Result<(String, Crate), String> {
    let first = folder.split('/').next().unwrap_or_default();
    let floor = FLOORS.iter().position(|folders| folders.contains(&first));
    let floor = floor.ok_or_else(|| format!("{folder} stands on no floor"))?;
    let (mut name, mut uses, mut section) = (None, Vec::new(), "");
    for line in manifest
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
    {
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_matches(['[', ']']);
            // [dependencies.name]
            if let Some((kind, package)) = section.rsplit_once("dependencies.") {
                uses.push((package.to_string(), kind.ends_with("dev-")));
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim().split('.').next().unwrap_or_default();
        if section == "package" && key == "name" {
            name = Some(value.trim().trim_matches('"').to_string());
        } else if section.ends_with("dependencies") {
            let package = renamed(value).unwrap_or(key);
            uses.push((package.to_string(), section.ends_with("dev-dependencies")));
        }
    }
    let name = name.ok_or_else(|| format!("{folder}/Cargo.toml names no package"))?;
    Ok((
        name,
        Crate {
            folder: folder.into(),
            floor,
            uses,
        },
    ))
}

/// The package behind a dependency of another name: `{ package = "name" }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, behind) = value.split_once("package")?;
    behind.trim_start().strip_prefix('=')?.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIM: &str = "[package]\nname = \"a-sim\"\n[dependencies]\na-nand.workspace = true\n";

    fn found(nand: &str, allowed: &[(&str, &str, &str)]) -> Vec<String> {
        let nand = format!("[package]\nname = \"a-nand\"\n{nand}");
        let files = [
            File::new("device/nand/Cargo.toml", &nand),
            File::new("sim/Cargo.toml", SIM),
        ];
        findings(&files, allowed)
    }

    #[test]
    fn a_floor_uses_what_is_below() {
        assert_eq!(found("", &[]), [""; 0]);
        assert_eq!(found("[dependencies]\ncrc = \"3\"", &[]), [""; 0]);
    }

    #[test]
    fn a_dependency_upwards_is_found_however_it_is_written() {
        for how in [
            "[dependencies]\na-sim.workspace = true",
            "[dependencies]\na-sim = { workspace = true, features = [\"b\"] }",
            "[dependencies]\nb = { package = \"a-sim\", path = \"../sim\" }",
            "[dependencies.a-sim]\nworkspace = true",
            "[build-dependencies]\na-sim.workspace = true",
            "[target.'cfg(unix)'.dependencies]\na-sim.workspace = true",
        ] {
            assert_eq!(
                found(how, &[]),
                ["device/nand stands below sim and uses it"],
                "{how}"
            );
            let allowed = [("a-nand", "a-sim", "it is no test's")];
            assert_eq!(found(how, &allowed).len(), 1, "{how}");
        }
    }

    #[test]
    fn tests_may_use_what_is_above_with_a_reason() {
        let tests = "[dev-dependencies]\na-sim.workspace = true # chips";
        assert_eq!(found(tests, &[]).len(), 1);
        assert_eq!(found(tests, &[("a-nand", "a-sim", "chips")]), [""; 0]);
        assert_eq!(found(tests, &[("a-nand", "a-sim", "")]).len(), 1);
        assert_eq!(
            found("", &[("a-nand", "a-sim", "chips")]).len(),
            1,
            "not so any more"
        );
    }

    #[test]
    fn a_crate_of_no_floor_and_one_without_a_name_are_found() {
        let files = [File::new("roof/a/Cargo.toml", SIM)];
        assert_eq!(findings(&files, &[]), ["roof/a stands on no floor"]);
        let files = [File::new("host/a/Cargo.toml", "[workspace]")];
        assert_eq!(
            findings(&files, &[]),
            ["host/a/Cargo.toml names no package"]
        );
    }
}
