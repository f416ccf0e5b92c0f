//! The seccomp profile for containers: containerd's default, and the three system calls of io_uring.
//!
//! A Go program prints it (packaging/seccomp), because the list of system calls is in a module of containerd's.

use crate::commands::said;
use crate::{Artefact, Workshop};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes it.
///
/// # Errors
/// Reports that Go is missing, or what it says.
pub fn make(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let path = workshop.out.join("evenkeel-seccomp.json");
    fs::write(&path, profile(&workshop.root)?).context("write the seccomp profile")?;
    Ok(vec![Artefact { path }])
}

/// The profile as JSON. Docker, containerd and Kubernetes read it.
///
/// # Errors
/// Reports that Go is missing, or what it says.
pub fn profile(root: &Path) -> Result<String> {
    said(Command::new("go").args(["run", "."]).current_dir(root.join("packaging/seccomp")))
}
