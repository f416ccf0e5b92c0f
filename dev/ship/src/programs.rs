//! Programs that make or check an artefact: Debian's, and Go's that are built once into the target directory.

use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use std::path::PathBuf;
use std::process::Command;

/// A program that is built from its Go module.
#[derive(Clone, Copy, Debug)]
pub struct GoProgram {
    /// Its name.
    pub name: &'static str,
    /// Its package.
    pub package: &'static str,
    /// Its version. Others may give other bytes.
    pub version: &'static str,
}

/// Makes packages.
pub const NFPM: GoProgram =
    GoProgram { name: "nfpm", package: "github.com/goreleaser/nfpm/v2/cmd/nfpm", version: "v2.45.2" };

/// Renders and packs the chart.
pub const HELM: GoProgram =
    GoProgram { name: "helm", package: "helm.sh/helm/v3/cmd/helm", version: "v3.22.0" };

impl GoProgram {
    /// The program, built if it is not there; that takes minutes once.
    ///
    /// # Errors
    /// Reports that Go is missing, or what it says.
    pub fn path(self) -> Result<PathBuf> {
        let folder = target_directory().join("programs").join(self.version);
        let program = folder.join(self.name);
        if !program.exists() {
            eprintln!("{} {} is built once, which takes a minute or more", self.name, self.version);
            let module = format!("{}@{}", self.package, self.version);
            run(Command::new("go").args(["install", &module]).env("GOBIN", &folder).env("CGO_ENABLED", "0"))?;
        }
        Ok(program)
    }
}

/// Runs a command to its end.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("start {program}"))?;
    ensure!(status.success(), "{program}: {status}");
    Ok(())
}
