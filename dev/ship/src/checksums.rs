//! Checksums of artefacts: the file SHA256SUMS, as `sha256sum --check` reads it.

use crate::Artefact;
use crate::commands::said;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checksum {
    /// Its name without its folder.
    pub name: String,
    /// SHA-256, in hexadecimal.
    pub digest: String,
}

/// The checksums of artefacts, by name.
///
/// # Errors
/// If a file cannot be read.
pub fn sums(artefacts: &[Artefact]) -> Result<Vec<Checksum>> {
    let mut sums = Vec::new();
    for Artefact { path } in artefacts {
        let said = said(Command::new("sha256sum").arg("--").arg(path))?;
        let digest = said.split(' ').next().unwrap_or_default().to_owned();
        sums.push(Checksum { name: name(path), digest });
    }
    sums.sort();
    Ok(sums)
}

/// Writes SHA256SUMS into the folder of the artefacts. A signature that lies there is of an earlier list, and is removed.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write(folder: &Path, artefacts: &[Artefact]) -> Result<()> {
    let old = folder.join("SHA256SUMS.minisig");
    if old.exists() {
        fs::remove_file(&old).with_context(|| format!("remove {}", old.display()))?;
    }
    let lines = sums(artefacts)?.into_iter().map(|Checksum { name, digest }| format!("{digest}  {name}\n"));
    fs::write(folder.join("SHA256SUMS"), lines.collect::<String>()).context("write SHA256SUMS")
}

/// The name of a file without its folder.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
