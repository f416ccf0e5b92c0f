//! Allowed dependencies between crates: the table, and whether the manifests agree with it.

use super::cargo::cargo;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A crate, what it may use of ours, and what only its tests may use.
///
/// Arrows go down, and crates of one layer never use each other. A new edge is a new word here, in the commit that
/// makes the edge: that is the moment to ask whether it should be. An edge that nobody needs any more leaves the table.
const ALLOWED: [(&str, &[&str], &[&str]); 37] = [
    ("stdx", &[], &[]),
    ("os", &[], &[]),
    ("tls", &[], &[]),
    ("flash", &[], &[]),
    ("flags", &["stdx"], &[]),
    ("protocol", &[], &["stdx"]),
    ("store", &["flash", "stdx"], &[]),
    ("hot_keys", &["stdx"], &[]),
    ("net", &["os", "stdx", "tls"], &[]),
    ("wire", &["os"], &[]),
    ("http_client", &[], &[]),
    ("admin", &["os"], &["tls"]),
    ("console", &["admin", "os"], &[]),
    (
        "server",
        &["flags", "flash", "hot_keys", "protocol", "store", "net", "os", "stdx", "tls"],
        &["transcript"],
    ),
    ("succession", &["flash", "net", "os", "server", "stdx"], &[]),
    ("router", &["flags", "hot_keys", "net", "protocol", "stdx"], &[]),
    ("replay", &["os", "router", "stdx", "wire"], &[]),
    ("kube", &["http_client", "os", "stdx", "tls"], &[]),
    ("load", &["net", "protocol", "os", "stdx", "tls"], &[]),
    ("null", &["net", "stdx", "tls"], &[]),
    ("tuner", &["os", "stdx"], &[]),
    ("fleet", &["stdx"], &["os"]),
    ("advise", &["flags", "fleet", "stdx"], &["os"]),
    ("control", &["admin", "fleet", "http_client", "os", "protocol", "router", "stdx", "tls"], &[]),
    ("lab", &["load", "tuner", "os", "stdx"], &[]),
    ("tuning", &["tuner", "protocol", "os", "stdx"], &[]),
    (
        "evenkeel",
        &[
            "admin",
            "advise",
            "net",
            "protocol",
            "router",
            "replay",
            "kube",
            "server",
            "succession",
            "load",
            "null",
            "tuner",
            "tuning",
            "lab",
            "control",
            "console",
            "fleet",
            "flash",
            "http_client",
            "os",
            "stdx",
            "tls",
            "wire",
        ],
        &["transcript"],
    ),
    ("simulator", &["control", "fleet", "net", "os", "router", "server", "stdx"], &["transcript"]),
    ("transcript", &[], &[]),
    ("checkout", &[], &[]),
    ("end_to_end", &["checkout", "transcript", "control", "stdx", "tls"], &[]),
    ("conformance", &["end_to_end", "transcript", "router"], &[]),
    ("hit_ratio", &["os", "stdx"], &[]),
    ("scenarios", &["end_to_end", "control", "os", "router", "stdx", "tls", "wire"], &["transcript"]),
    ("tidy", &["checkout"], &[]),
    ("ship", &["checkout", "os"], &["end_to_end", "transcript"]),
    ("xtask", &["checkout", "ship", "tidy", "os", "stdx"], &["transcript"]),
];

/// Crates that stand on nothing but the standard library, so that anything may stand on them.
const NOTHING_BUT_STD: [&str; 3] = ["stdx", "transcript", "checkout"];

/// The metadata of cargo.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    path: Option<String>,
}

/// Asks cargo.
pub(crate) fn metadata() -> Result<Metadata> {
    let output =
        cargo(&["metadata", "--format-version", "1", "--no-deps"]).output().context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("read what cargo metadata says")
}

/// Edges that the table does not have, and those that only the table has.
pub(crate) fn check(metadata: &Metadata) -> Vec<String> {
    let packages = || metadata.packages.iter();
    packages().flat_map(forbidden).chain(packages().flat_map(unused)).collect()
}

fn unused(package: &Package) -> Vec<String> {
    let Some((name, uses, tests_use)) = ALLOWED.iter().find(|(name, ..)| *name == package.name) else {
        return Vec::new();
    };
    let has = |kind: Option<&str>, to: &str| {
        package.dependencies.iter().any(|edge| edge.name == to && edge.kind.as_deref() == kind)
    };
    let uses = uses.iter().filter(|to| !has(None, to)).map(|to| format!("{name} does not use {to}"));
    let tests_use = tests_use.iter().filter(|to| !has(Some("dev"), to));
    let tests_use = tests_use.map(|to| format!("the tests of {name} do not use {to}"));
    let table = "as the table of dev/tidy/src/packages/edges.rs says";
    uses.chain(tests_use).map(|missing| format!("{missing}, {table}")).collect()
}

fn forbidden(package: &Package) -> Vec<String> {
    let name = &package.name;
    let Some((_, uses, tests_use)) = ALLOWED.iter().find(|(allowed, ..)| allowed == name) else {
        return vec![format!("{name} is not in the table of dev/tidy/src/packages/edges.rs")];
    };
    let is_allowed = |dependency: &Dependency| match (&dependency.path, dependency.kind.as_deref()) {
        (Some(_), Some("dev")) => [*uses, *tests_use].concat().contains(&&*dependency.name),
        (Some(_), _) => uses.contains(&&*dependency.name),
        (None, Some("dev")) => true,
        (None, _) => !NOTHING_BUT_STD.contains(&&**name),
    };
    let forbidden = package.dependencies.iter().filter(|dependency| !is_allowed(dependency));
    forbidden.map(|dependency| format!("{name} may not use {}", dependency.name)).collect()
}

/// Members that the root manifest does not explain.
pub(crate) fn members_without_comment(manifest: &str) -> Vec<String> {
    manifest
        .lines()
        .skip_while(|line| !line.starts_with("members"))
        .skip(1)
        .take_while(|line| !line.starts_with(']'))
        .filter(|line| line.trim_start().starts_with('"') && !line.contains("# "))
        .map(|line| format!("Cargo.toml does not say what {} is", line.trim()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_edge(from: &str, to: &str, kind: &str, expected: bool) {
        let (kind, path) =
            (if kind == "dev" { "\"dev\"" } else { "null" }, if to == "clap" { "null" } else { "\"x\"" });
        let json = format!(
            r#"{{"packages": [{{"name": "{from}", "dependencies": [{{"name": "{to}", "kind": {kind}, "path": {path}}}]}}]}}"#
        );
        let metadata: Metadata = serde_json::from_str(&json).expect("metadata");
        assert_eq!(forbidden(&metadata.packages[0]).is_empty(), expected, "{from} -> {to}");
    }

    #[test]
    fn what_nobody_uses_leaves_the_table() {
        let json = r#"{"packages": [{"name": "server", "dependencies": [
            {"name": "protocol", "kind": null, "path": "x"}, {"name": "stdx", "kind": null, "path": "x"},
            {"name": "net", "kind": "dev", "path": "x"}, {"name": "transcript", "kind": "dev", "path": "x"}]}]}"#;
        let metadata: Metadata = serde_json::from_str(json).expect("metadata");
        let table = "as the table of dev/tidy/src/packages/edges.rs says";
        let missing = ["flags", "flash", "hot_keys", "store", "net", "os", "tls"]
            .map(|to| format!("server does not use {to}, {table}"));
        assert_eq!(check(&metadata), missing);
    }

    #[test]
    fn arrows_go_down_and_only_down() {
        check_edge("server", "store", "", true);
        check_edge("store", "server", "", false);
        check_edge("store", "net", "", false);
        check_edge("server", "transcript", "dev", true);
        check_edge("server", "transcript", "", false);
        check_edge("somebody", "stdx", "", false);
        check_edge("server", "clap", "", true);
        check_edge("stdx", "clap", "", false);
    }

    #[test]
    fn each_member_says_what_it_is() {
        let manifest = "[workspace]\nmembers = [\n    \"a\", # the first\n    \"b\",\n]\n\"c\",";
        assert_eq!(members_without_comment(manifest), ["Cargo.toml does not say what \"b\", is"]);
    }
}
