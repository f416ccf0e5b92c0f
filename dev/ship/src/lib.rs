//! Artefacts: packages, an image, a chart, dashboards, and a list of parts. Made by `cargo xtask dist`.
//!
//! Each kind of artefact is a module with one function that makes it. This crate links nothing that it ships: it works on the
//! binary that was built, and asks that binary for its man pages, completions and version.

use anyhow::Result;
use std::path::PathBuf;

pub mod chart;
pub mod checksums;
pub mod commands;
pub mod dist;
pub mod image;
pub mod kubernetes;
pub mod monitoring;
pub mod notices;
pub mod packages;
pub mod programs;
pub mod sbom;
pub mod seccomp;
pub mod stage;

/// What an artefact is made from, and where it goes.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// The root of the checkout.
    pub root: PathBuf,
    /// The folder for artefacts.
    pub out: PathBuf,
    /// The binary that is shipped, of the profile `dist`.
    pub binary: PathBuf,
    /// The version, as in `Cargo.toml`.
    pub version: String,
    /// The time that all artefacts bear, in seconds since 1970: that of the commit. So two runs give the same bytes.
    pub epoch_s: u64,
}

/// A file that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    /// Where it lies.
    pub path: PathBuf,
}

/// How a kind of artefact is made.
pub type Make = fn(&Workshop) -> Result<Vec<Artefact>>;
