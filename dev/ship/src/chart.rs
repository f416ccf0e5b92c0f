//! The Helm chart of `deploy/helm/evenkeel`: packed for a release, and read by its checks.
//!
//! No check is here: they are in this crate's tests.

use crate::programs::{GoProgram, HELM, run};
use crate::{Artefact, Workshop};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

pub mod schemas;
pub mod values;
pub mod yaml;

/// The chart, from the root of the checkout.
pub const CHART: &str = "deploy/helm/evenkeel";

/// Compares manifests with schemas of Kubernetes.
pub const KUBECONFORM: GoProgram = GoProgram {
    name: "kubeconform",
    package: "github.com/yannh/kubeconform/cmd/kubeconform",
    version: "v0.7.0",
};

/// Packs the chart with the version of the workspace.
///
/// # Errors
/// Reports a program that is missing or fails, or a folder that cannot be written.
pub fn make(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let archive = format!("evenkeel-{}.tgz", workshop.version);
    let scratch = workshop.out.join(".chart");
    let unpacked = scratch.join("unpacked");
    fs::create_dir_all(&unpacked).with_context(|| format!("create {}", unpacked.display()))?;
    let versions = ["--version", &workshop.version, "--app-version", &workshop.version];
    let mut package = helm(&HELM.path()?, &scratch);
    package.arg("package").args(versions).arg("--destination").arg(&scratch).arg(workshop.root.join(CHART));
    run(package.stdout(std::process::Stdio::null()))?;
    // Helm has checked it and written the version. Its archive bears the time of packing, so another one is made.
    run(Command::new("tar").arg("-xmzf").arg(scratch.join(&archive)).arg("-C").arg(&unpacked))?;
    let path = workshop.out.join(&archive);
    pack(&unpacked, "evenkeel", workshop.epoch_s, &path)?;
    fs::remove_dir_all(&scratch).with_context(|| format!("remove {}", scratch.display()))?;
    Ok(vec![Artefact { path }])
}

/// Helm, with no configuration of the user and none that stays.
#[must_use]
pub fn helm(program: &Path, scratch: &Path) -> Command {
    let mut helm = Command::new(program);
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(variable, scratch.join("helm"));
    }
    helm
}

/// Packs a folder so that equal files give equal bytes: in the order of names, with one time, one user and two modes.
fn pack(parent: &Path, folder: &str, epoch_s: u64, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.args(["--mode=u=rwX,go=rX", "--use-compress-program=gzip -9n"]);
    tar.arg(format!("--mtime=@{epoch_s}")).arg("--file").arg(archive).arg("-C").arg(parent).arg(folder);
    run(&mut tar)
}
