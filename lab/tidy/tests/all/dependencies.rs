//! What the project depends on: licences that fit its own, one registry, one version of each crate.
//! `deny.toml` says the same to cargo-deny, which also knows of advisories.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

/// Licences that may be combined with MIT or Apache-2.0.
const LICENCES: [&str; 4] = ["MIT", "Apache-2.0", "Unicode-3.0", "Zlib"];
/// Where crates come from; the project's own come from nowhere.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Crates of which two versions are in use, as others need them.
const TWICE: [&str; 3] = ["bitflags", "embedded-io", "syn"];

/// Whether a licence expression can be met by the licences above. Each term of an AND must be, and
/// of an OR (or a slash, as it was written once) one.
fn is_allowed(expression: &str) -> bool {
    expression.replace('/', " OR ").split(" AND ").all(|term| {
        let term = term.trim_matches(['(', ')', ' ']);
        term.split(" OR ").any(|name| LICENCES.contains(&name))
    })
}

/// What is wrong with the packages of `cargo metadata`.
fn problems(metadata: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |field: &str| package[field].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        if !is_allowed(text("license")) {
            found.push(format!("{name} {version}: licence {}", text("license")));
        }
        if !matches!(text("source"), "" | REGISTRY) {
            found.push(format!("{name} {version}: from {}", text("source")));
        }
        versions.entry(name).or_default().push(version);
    }
    for (name, versions) in versions {
        match (versions.len() > 1, TWICE.contains(&name)) {
            (true, false) => found.push(format!("{name}: versions {}", versions.join(", "))),
            (false, true) => found.push(format!("{name}: one version now, no exception needed")),
            _ => {}
        }
    }
    found
}

/// The packages that are built on this machine: they are there when this test runs, so nothing is
/// asked of a registry.
fn metadata() -> Value {
    let cargo = || Command::new(env!("CARGO"));
    let version = cargo().arg("-vV").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--offline"])
        .args(["--filter-platform", host.unwrap()])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn licences_sources_and_versions_are_as_allowed() {
    let metadata = metadata();
    // As many as there are members at least: the list is not empty by mistake.
    assert!(metadata["packages"].as_array().unwrap().len() > 20);
    let found = problems(&metadata);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_licence_expression_is_read_as_it_is_meant() {
    for good in ["MIT", "MIT/GPL-2.0", "(MIT OR GPL-2.0) AND Zlib"] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in [
        "",
        "GPL-2.0",
        "MIT AND GPL-2.0",
        "(GPL-2.0 OR AGPL-3.0) AND MIT",
    ] {
        assert!(!is_allowed(bad), "{bad}");
    }
}

#[test]
fn what_is_not_allowed_is_found() {
    let metadata = serde_json::json!({ "packages": [
        { "name": "bitflags", "version": "1.0.0", "license": "MIT", "source": REGISTRY },
        { "name": "bitflags", "version": "2.0.0", "license": "MIT", "source": REGISTRY },
        { "name": "embedded-io", "version": "0.6.0", "license": "MIT", "source": REGISTRY },
        { "name": "embedded-io", "version": "0.7.0", "license": "MIT", "source": REGISTRY },
        { "name": "syn", "version": "2.0.0", "license": "MIT", "source": null },
        { "name": "copied", "version": "1.0.0", "license": "GPL-2.0", "source": REGISTRY },
        { "name": "forked", "version": "1.0.0", "license": "MIT", "source": "git+https://x" },
        { "name": "other", "version": "1.0.0", "license": "MIT", "source": REGISTRY },
        { "name": "other", "version": "2.0.0", "license": "MIT", "source": REGISTRY },
    ]});
    assert_eq!(
        problems(&metadata),
        [
            "copied 1.0.0: licence GPL-2.0",
            "forked 1.0.0: from git+https://x",
            "other: versions 1.0.0, 2.0.0",
            "syn: one version now, no exception needed",
        ]
    );
}
