//! The list of parts: every crate that the binary is built from, in CycloneDX 1.5 (cyclonedx.org/docs/1.5/json).
//!
//! It comes from cargo's metadata and from `Cargo.lock`, without the crates that only tests and builds need, so that a scanner
//! asks about nothing that is not there.

pub mod notices;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::{Artefact, Workshop};

/// The package of the binary.
const BINARY: &str = "evenkeel";

/// The kernel and processor for which dependencies are chosen.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Writes `evenkeel-VERSION.cdx.json`.
///
/// # Errors
/// Reports what cargo says, and a crate without a licence.
pub fn make(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let path = workshop.out.join(format!("evenkeel-{}.cdx.json", workshop.version));
    let parts = Parts::read(&workshop.root)?;
    let document = serde_json::to_string_pretty(&parts.document(workshop.epoch_s)?)?;
    fs::write(&path, document + "\n").with_context(|| format!("write {}", path.display()))?;
    Ok(vec![Artefact { path }])
}

/// What `cargo metadata` says, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    description: Option<String>,
    repository: Option<String>,
    /// None of a crate of this workspace.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Debug, Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Debug, Deserialize)]
struct EdgeKind {
    /// None for what the binary is linked with; `build` and `dev` for the others.
    kind: Option<String>,
}

/// The lock file.
#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

/// The crates of the binary, and who needs whom.
struct Parts {
    packages: BTreeMap<String, Package>,
    needs: BTreeMap<String, BTreeSet<String>>,
    root: String,
    checksums: BTreeMap<(String, String), String>,
}

impl Parts {
    fn read(root: &Path) -> Result<Parts> {
        let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET];
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo).args(arguments).current_dir(root).output().context("start cargo")?;
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        let metadata = serde_json::from_slice(&output.stdout).context("read what cargo metadata prints")?;
        let lock = fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?;
        Parts::of(metadata, toml::from_str(&lock).context("read Cargo.lock")?)
    }

    /// What the binary is linked with, from the binary on.
    fn of(metadata: Metadata, lock: Lock) -> Result<Parts> {
        let mut all: BTreeMap<String, Package> =
            metadata.packages.into_iter().map(|package| (package.id.clone(), package)).collect();
        let is_linked = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        let edges: BTreeMap<String, BTreeSet<String>> = metadata
            .resolve
            .nodes
            .into_iter()
            .map(|node| (node.id, node.deps.iter().filter(is_linked).map(|edge| edge.pkg.clone()).collect()))
            .collect();
        let root = all.values().find(|package| package.name == BINARY && package.source.is_none());
        let root = root.with_context(|| format!("find the package {BINARY}"))?.id.clone();
        let (mut needs, mut left) = (BTreeMap::new(), vec![root.clone()]);
        while let Some(id) = left.pop() {
            if needs.contains_key(&id) {
                continue;
            }
            let needed = edges.get(&id).cloned().unwrap_or_default();
            left.extend(needed.iter().cloned());
            needs.insert(id, needed);
        }
        all.retain(|id, _| needs.contains_key(id));
        let checksums = lock
            .package
            .into_iter()
            .filter_map(|locked| Some(((locked.name, locked.version), locked.checksum?)))
            .collect();
        Ok(Parts { packages: all, needs, root, checksums })
    }

    fn document(&self, epoch_s: u64) -> Result<Value> {
        let root = &self.packages[&self.root];
        let others = self.packages.values().filter(|package| package.id != self.root);
        let components =
            others.map(|package| self.component(package, "library")).collect::<Result<Vec<_>>>()?;
        let name = |id: &String| reference(&self.packages[id]);
        let dependencies: Vec<Value> = self
            .needs
            .iter()
            .map(|(id, needs)| json!({"ref": name(id), "dependsOn": needs.iter().map(name).collect::<Vec<_>>()}))
            .collect();
        Ok(json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": {"timestamp": timestamp(epoch_s)?, "component": self.component(root, "application")?},
            "components": components,
            "dependencies": dependencies,
        }))
    }

    fn component(&self, package: &Package, kind: &str) -> Result<Value> {
        let licence = package.license.as_ref();
        let licence =
            licence.with_context(|| format!("find the licence of {} {}", package.name, package.version))?;
        let mut component = json!({
            "type": kind,
            "bom-ref": reference(package),
            "name": package.name,
            "version": package.version,
            // As crates wrote it before there were expressions.
            "licenses": [{"expression": licence.replace('/', " OR ")}],
        });
        // Crates of this workspace are in no registry.
        if package.source.is_some() {
            component["purl"] = json!(reference(package));
        }
        if let Some(text) = &package.description {
            component["description"] = json!(text.trim());
        }
        let place = (package.name.clone(), package.version.clone());
        if let Some(checksum) = self.checksums.get(&place) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        if let Some(url) = &package.repository {
            component["externalReferences"] = json!([{"type": "vcs", "url": url}]);
        }
        Ok(component)
    }
}

/// The name of a crate for all package managers (github.com/package-url/purl-spec).
fn reference(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.name, package.version)
}

/// A time as 2026-11-30T10:00:00Z.
fn timestamp(epoch_s: u64) -> Result<String> {
    let time = OffsetDateTime::from_unix_timestamp(i64::try_from(epoch_s)?)?;
    Ok(time.format(&Rfc3339)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_of_the_binary_is_listed_with_licence_and_checksum() {
        let parts = Parts::read(&checkout::workspace()).expect("cargo says");
        let document = parts.document(0).expect("a document");
        let components = document["components"].as_array().expect("a list");
        let find = |name: &str| components.iter().find(|component| component["name"] == name);
        // What is linked: ours, others', a library in C.
        for name in ["store", "rustls", "zstd-sys", "libsqlite3-sys"] {
            assert!(find(name).is_some(), "{name}");
        }
        // What only tests or this automation need.
        for name in ["transcript", "xtask", "ship"] {
            assert!(find(name).is_none(), "{name}");
        }
        let refs: BTreeSet<&str> = components
            .iter()
            .chain([&document["metadata"]["component"]])
            .map(|component| component["bom-ref"].as_str().expect("a text"))
            .collect();
        assert_eq!(refs.len(), components.len() + 1, "no crate is there twice");
        for component in components {
            let is_ours = component["purl"].is_null();
            assert_eq!(component["hashes"].is_null(), is_ours, "{component}");
            assert!(
                component["licenses"][0]["expression"].as_str().is_some_and(|licence| !licence.contains('/'))
            );
        }
        let dependencies = document["dependencies"].as_array().expect("a list");
        assert_eq!(dependencies.len(), refs.len());
        for needed in dependencies.iter().flat_map(|one| one["dependsOn"].as_array().expect("a list")) {
            assert!(refs.contains(needed.as_str().expect("a text")), "{needed}");
        }
    }
}
