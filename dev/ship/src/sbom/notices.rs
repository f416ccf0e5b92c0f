//! Licences of the crates that are linked into the program: MIT, BSD and others demand that their texts go with it.

use crate::commands::said;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the names of files with licences begin, in capital letters.
const FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The part of `cargo metadata` that says what is linked.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// None is a dependency that is linked, and not one of tests or build scripts.
    kind: Option<String>,
}

/// A list of these crates, and each text with the names of those that it belongs to.
///
/// # Errors
/// Reports what cargo says, or a file that cannot be read.
pub fn texts(root: &Path) -> Result<String> {
    let mut ask = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    ask.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", &platform]);
    let metadata: Metadata =
        serde_json::from_str(&said(ask.current_dir(root))?).context("read what cargo metadata says")?;
    let linked = linked(&metadata, "evenkeel");
    ensure!(!linked.is_empty(), "cargo metadata names no crate that evenkeel is linked with");
    let mut list = String::from("Evenkeel is linked with these crates, whose licences are below.\n\n");
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in linked {
        let name = format!("{} {}", package.name, package.version);
        list += &format!("{name}: {}\n", package.license.as_deref().unwrap_or("see below"));
        for text in files(package.manifest_path.parent().unwrap_or(root))? {
            texts.entry(text).or_default().push(name.clone());
        }
    }
    let rule = "-".repeat(80);
    let parts =
        texts.iter().map(|(text, names)| format!("\n{rule}\n{}\n{rule}\n\n{text}\n", names.join(", ")));
    Ok(list + &parts.collect::<String>())
}

/// Crates of others that this package is linked with, by name.
fn linked<'a>(metadata: &'a Metadata, name: &str) -> Vec<&'a Package> {
    let start = metadata.packages.iter().find(|package| package.name == name);
    let mut waiting: Vec<&str> = start.iter().map(|package| &*package.id).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !found.insert(id) {
            continue;
        }
        let node = metadata.resolve.nodes.iter().find(|node| node.id == id);
        let dependencies = node.iter().flat_map(|node| &node.deps);
        let is_linked =
            |dependency: &&Dependency| dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
        waiting.extend(dependencies.filter(is_linked).map(|dependency| &*dependency.pkg));
    }
    let is_of_others = |package: &&Package| package.source.is_some() && found.contains(&*package.id);
    let mut packages: Vec<&Package> = metadata.packages.iter().filter(is_of_others).collect();
    packages.sort_by_key(|package| (&package.name, &package.version));
    packages
}

/// The texts of licences in the folder of a crate, in the order of their names.
fn files(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let paths: std::io::Result<BTreeSet<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        FILES.iter().any(|begin| name.starts_with(begin)) && path.is_file()
    };
    let paths = paths.with_context(|| format!("list {}", folder.display()))?.into_iter().filter(is_licence);
    let read = |path: PathBuf| fs::read_to_string(&path).with_context(|| format!("read {}", path.display()));
    paths.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_and_build_scripts_use_is_not_linked() {
        let package = |name: &str, source: &str| {
            format!(
                r#"{{"id": "{name}", "name": "{name}", "version": "1.0.0", "license": "MIT", "source": {source}, "manifest_path": "/r/{name}/Cargo.toml"}}"#
            )
        };
        let dependency =
            |name: &str, kind: &str| format!(r#"{{"pkg": "{name}", "dep_kinds": [{{"kind": {kind}}}]}}"#);
        let others = ["far", "near", "cc", "proptest"].map(|name| package(name, "\"registry\""));
        let json = format!(
            r#"{{"packages": [{}, {}, {}], "resolve": {{"nodes": [
                {{"id": "evenkeel", "deps": [{}]}}, {{"id": "ours", "deps": [{}, {}, {}]}}, {{"id": "near", "deps": [{}]}}]}}}}"#,
            package("evenkeel", "null"),
            package("ours", "null"),
            others.join(","),
            dependency("ours", "null"),
            dependency("near", "null"),
            dependency("cc", "\"build\""),
            dependency("proptest", "\"dev\""),
            dependency("far", "null"),
        );
        let metadata: Metadata = serde_json::from_str(&json).expect("metadata");
        let names: Vec<&str> = linked(&metadata, "evenkeel").iter().map(|package| &*package.name).collect();
        assert_eq!(names, ["far", "near"]);
    }
}
