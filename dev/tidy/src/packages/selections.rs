//! Selections of packages that build the same crates.
//!
//! cargo chooses a crate's features for what it is told to build. Where two selections differ in the features of a crate
//! that many stand on (`syn` below every macro), the second builds all of these once more: minutes. xtask's manifest
//! names such features, so that they are the same everywhere.

use super::cargo::cargo;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;

/// What `cargo xtask` itself and the steps of `cargo xtask test` build, in the words of `cargo tree`.
const SELECTIONS: [&[&str]; 2] = [&["--package", "xtask", "--edges", "normal,build"], &["--workspace"]];

/// Crates of others that these selections build with different features.
///
/// # Errors
/// If cargo does not say.
pub(crate) fn check() -> Result<Vec<String>> {
    let trees: Vec<String> = SELECTIONS.iter().map(|selection| tree(selection)).collect::<Result<_>>()?;
    Ok(different(&trees))
}

fn tree(selection: &[&str]) -> Result<String> {
    let words = ["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}"];
    let output = cargo(&[&words[..], selection].concat()).output().context("run cargo tree")?;
    ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn different(trees: &[String]) -> Vec<String> {
    let mut known: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in trees.iter().flat_map(|tree| tree.lines()) {
        // `(*)`: the crates below were listed before.
        let line = line.strip_suffix(" (*)").unwrap_or(line);
        let Some((package, features)) = line.split_once('|') else { continue };
        let is_ours = package.contains(" (/");
        let features_of = known.entry(package).or_default();
        if !is_ours && !features_of.contains(&features) {
            features_of.push(features);
        }
    }
    let twice = known.into_iter().filter(|(_, features)| features.len() > 1);
    let said = |(package, features): (&str, Vec<&str>)| {
        let features = features.join("; ");
        format!(
            "{package} is built more than once, with {features}: name the features in dev/xtask/Cargo.toml"
        )
    };
    twice.map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_other_features_elsewhere_are_named() {
        let trees = [
            "xtask v0.1.0 (/w/xtask)|\nsyn v3.0.9|full\nserde v1.0.0|std\nsyn v3.0.9|full (*)\n",
            "lab v0.1.0 (/w/lab)|shared\nsyn v3.0.9|full,visit\nserde v1.0.0|std (*)\nsyn v2.0.0|full\n",
        ];
        let wanted = "syn v3.0.9 is built more than once, with full; full,visit: name the features in dev/xtask/Cargo.toml";
        assert_eq!(different(&trees.map(str::to_owned)), [wanted]);
    }
}
