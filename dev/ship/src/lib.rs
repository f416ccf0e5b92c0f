//! Artefacts: packages, an image, a chart, dashboards, a list of parts, and a site. Made by `cargo xtask dist`.
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
pub mod inputs;
pub mod kubernetes;
pub mod monitoring;
pub mod packages;
pub mod programs;
pub mod sbom;
pub mod seccomp;
pub mod signatures;
pub mod site;
pub mod stage;

/// What an artefact is made from, and where it goes.
#[derive(Clone, Debug)]
pub struct Workshop {
    /// The root of the checkout.
    pub root: PathBuf,
    /// The folder for artefacts.
    pub out: PathBuf,
    /// The binary that is shipped, of the profile `dist`. Kinds that are not made from it do without it.
    pub binary: PathBuf,
    /// The same program, linked statically, for the archive; without it, `binary`.
    pub static_binary: Option<PathBuf>,
    /// A binary of the same version that runs here and tells its man pages: `binary`, unless that is for another architecture.
    pub speaker: PathBuf,
    /// The version, as in `Cargo.toml`.
    pub version: String,
    /// The time that all artefacts bear, in seconds since 1970: that of the commit. So two runs give the same bytes.
    pub epoch_s: u64,
    /// What signs packages, if they are signed.
    pub keys: Option<signatures::keys::SigningKeys>,
}

/// A file that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    /// Where it lies.
    pub path: PathBuf,
}

/// How a kind of artefact is made.
pub type Make = fn(&Workshop) -> Result<Vec<Artefact>>;
