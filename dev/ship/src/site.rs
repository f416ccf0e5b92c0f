//! The site: the pages of the checkout as a book with a search, readable from a web server and from a folder without one.
//!
//! The order of the pages is that of `docs/README.md`, which no other file repeats. mdBook makes the HTML; what is linked is
//! checked in the HTML that was made, because its anchors are what a reader's browser follows.

use crate::commands::said;
use crate::packages::archive;
use crate::programs::MDBOOK;
use crate::{Artefact, Workshop};
use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub mod book;
pub mod html;
mod links;
mod order;

/// Its configuration and its style, from the root of the checkout.
const FOLDER: &str = "packaging/site";

/// Makes `evenkeel-VERSION-site.tar.gz`.
///
/// # Errors
/// Reports a page that cannot be read, a link that leads nowhere, or what mdBook says.
pub fn make(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let name = format!("evenkeel-{}-site", workshop.version);
    let made = build(&workshop.root, &target_directory().join("dist-stage/site"))?;
    let parent = made.with_file_name("named");
    let folder = parent.join(&name);
    fs::create_dir_all(&parent).with_context(|| format!("make {}", parent.display()))?;
    fs::rename(&made, &folder).with_context(|| format!("rename {}", made.display()))?;
    said(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&folder))?;
    let path = workshop.out.join(format!("{name}.tar.gz"));
    archive(&parent, &name, workshop.epoch_s, &path)?;
    Ok(vec![Artefact { path }])
}

/// Makes the HTML in a folder of this folder, which it empties first, and checks all links of it.
///
/// # Errors
/// Reports a page that cannot be read, a link that leads nowhere, or what mdBook says.
pub fn build(root: &Path, stage: &Path) -> Result<PathBuf> {
    if stage.exists() {
        fs::remove_dir_all(stage).with_context(|| format!("empty {}", stage.display()))?;
    }
    let book = book::Book::read(root)?;
    book.write(root, &stage.join("src"))?;
    for file in ["book.toml", "evenkeel.css"] {
        fs::copy(root.join(FOLDER).join(file), stage.join(file)).with_context(|| format!("copy {file}"))?;
    }
    let mut mdbook = Command::new(MDBOOK.path()?);
    let output = mdbook.arg("build").arg(stage).output().context("start mdbook")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    // A warning is about a page that would not look as it was meant: a tag that is not closed, a chapter that is not there.
    let is_clean = output.status.success() && !complaint.contains("WARN") && !complaint.contains("ERROR");
    ensure!(is_clean, "mdbook: {}: {}", output.status, complaint.trim());
    let made = stage.join("book");
    let faults = html::faults(&made)?;
    ensure!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(made)
}
