//! Programs that make or check an artefact: Debian's, and those of Go and Rust that are built once into the target directory.

use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use std::fs;
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

/// Starts deploy/compose.yaml in tests. Go names a program by the folder of its package.
pub const COMPOSE: GoProgram =
    GoProgram { name: "cmd", package: "github.com/docker/compose/v2/cmd", version: "v2.32.4" };

impl GoProgram {
    /// Where it lies once it is built.
    pub fn place(self) -> PathBuf {
        target_directory().join("programs").join(self.version).join(self.name)
    }

    /// The program, built if it is not there; that takes minutes once.
    ///
    /// # Errors
    /// Reports that Go is missing, or what it says.
    pub fn path(self) -> Result<PathBuf> {
        let program = self.place();
        let folder = program.parent().unwrap_or(&program);
        if !program.exists() {
            eprintln!("{} {} is built once, which takes a minute or more", self.name, self.version);
            let module = format!("{}@{}", self.package, self.version);
            run(Command::new("go").args(["install", &module]).env("GOBIN", folder).env("CGO_ENABLED", "0"))?;
        }
        Ok(program)
    }
}

/// A program that is built from its crate.
#[derive(Clone, Copy, Debug)]
pub struct CrateProgram {
    /// Its name, which is that of the crate.
    pub name: &'static str,
    /// Its version. Others may give other bytes.
    pub version: &'static str,
    /// The features that are needed; its default ones are left out.
    pub features: &'static str,
}

/// Makes the site. It is no dependency: its licence, MPL-2.0, is not among those of `deny.toml`, and all of `cargo xtask` would wait
/// for its build.
pub const MDBOOK: CrateProgram = CrateProgram { name: "mdbook", version: "0.5.4", features: "search" };

impl CrateProgram {
    /// Where it lies once it is built.
    pub fn place(self) -> PathBuf {
        self.root().join("bin").join(self.name)
    }

    /// The program, built if it is not there; that takes minutes once.
    ///
    /// # Errors
    /// Reports what cargo says.
    pub fn path(self) -> Result<PathBuf> {
        let program = self.place();
        if !program.exists() {
            eprintln!("{} {} is built once, which takes some minutes", self.name, self.version);
            let root = self.root();
            let build = root.join("build");
            let mut install = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
            // Unoptimised, it makes the site in seconds, and is built in half the time.
            install.args(["install", self.name, "--version", self.version, "--locked", "--profile", "dev"]);
            install.args(["--no-default-features", "--features", self.features]);
            install.arg("--root").arg(&root).arg("--target-dir").arg(&build);
            run(&mut install)?;
            fs::remove_dir_all(&build).with_context(|| format!("remove {}", build.display()))?;
        }
        Ok(program)
    }

    fn root(self) -> PathBuf {
        target_directory().join("programs").join(format!("{}-{}", self.name, self.version))
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
