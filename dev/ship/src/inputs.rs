//! The programs that artefacts are made from: given ones are checked, others are built.

pub mod elf;

use crate::commands::said;
use crate::inputs::elf::{Architecture, is_static};
use crate::programs::run;
use anyhow::{Context, Result, bail, ensure};
use checkout::{target_directory, workspace};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that are built already.
#[derive(Clone, Debug, Default)]
pub struct GivenPrograms {
    /// Linked with glibc.
    pub binary: Option<PathBuf>,
    /// Linked statically.
    pub static_binary: Option<PathBuf>,
    /// One that runs here.
    pub native: Option<PathBuf>,
}

/// Which of them are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeededPrograms {
    /// The one that is linked with glibc.
    pub binary: bool,
    /// The one that is linked statically.
    pub static_binary: bool,
}

/// What there is now. What is not needed may be missing from its place.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Linked with glibc.
    pub binary: PathBuf,
    /// Linked statically, if it is needed.
    pub static_binary: Option<PathBuf>,
    /// One that runs here.
    pub speaker: PathBuf,
}

impl Programs {
    /// Finds those that are given, and builds the others that are needed.
    ///
    /// # Errors
    /// If one cannot be used for what it is given, or cannot be built.
    pub fn obtain(given: &GivenPrograms, needed: NeededPrograms) -> Result<Programs> {
        let (binary, static_binary) = (found(&given.binary)?, found(&given.static_binary)?);
        let static_binary = match (static_binary, &binary) {
            (Some(path), _) => {
                let shown = path.display();
                ensure!(is_static(&path)?, "--static-binary: {shown} is linked with libraries");
                Some(path)
            }
            (None, _) if !needed.static_binary => None,
            (None, Some(path)) if is_static(path)? => Some(path.clone()),
            (None, Some(path)) => bail!(
                "--binary: {} is linked with libraries, and the archive (tar) has one that is not: give it with \
                 --static-binary, or name the kinds without tar (--only)",
                path.display()
            ),
            (None, None) => Some(build(Linking::Static)?),
        };
        let binary = match (binary, &static_binary) {
            (Some(path), _) => path,
            (None, _) if needed.binary => build(Linking::WithGlibc)?,
            (None, Some(path)) => path.clone(),
            (None, None) => Linking::WithGlibc.built()?,
        };
        let speaker = match found(&given.native)? {
            Some(path) => path,
            None => binary.clone(),
        };
        if needed.binary || needed.static_binary {
            check_machines(&binary, static_binary.as_deref(), &speaker)?;
            for program in [Some(&binary), static_binary.as_ref(), Some(&speaker)].into_iter().flatten() {
                // Others cannot be asked here.
                if Architecture::of(program)? == Architecture::here()? {
                    check_version(program)?;
                }
            }
        }
        Ok(Programs { binary, static_binary, speaker })
    }
}

fn found(given: &Option<PathBuf>) -> Result<Option<PathBuf>> {
    let path =
        given.as_ref().map(|path| path.canonicalize().with_context(|| format!("find {}", path.display())));
    path.transpose()
}

/// The programs are for the same machines, and one runs here.
fn check_machines(binary: &Path, static_binary: Option<&Path>, speaker: &Path) -> Result<()> {
    let (architecture, here) = (Architecture::of(binary)?, Architecture::here()?);
    if let Some(path) = static_binary {
        let other = Architecture::of(path)?;
        ensure!(
            other == architecture,
            "{} is for {}, {} for {}: artefacts of one run are for one architecture",
            binary.display(),
            architecture.name(),
            path.display(),
            other.name()
        );
    }
    ensure!(
        Architecture::of(speaker)? == here,
        "{} is for {}, and this machine is {}: give a binary of the same version that runs here, with --native",
        speaker.display(),
        Architecture::of(speaker)?.name(),
        here.name()
    );
    Ok(())
}

/// How a program gets its C library.
#[derive(Clone, Copy, Debug)]
enum Linking {
    /// From the host that it runs on.
    WithGlibc,
    /// It has its own.
    Static,
}

impl Linking {
    /// Where cargo builds it.
    fn built(self) -> Result<PathBuf> {
        Ok(match self {
            Linking::WithGlibc => folder().join("dist/evenkeel"),
            Linking::Static => folder().join(Architecture::here()?.target()).join("dist/evenkeel"),
        })
    }
}

/// Builds the program. Folders of this machine do not get into it, so that two machines can build the same.
fn build(linking: Linking) -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let renamed = [(workspace(), "/evenkeel"), (cargo_home, "/cargo")];
    let renamed = renamed.map(|(folder, name)| format!("{}={name}", folder.display()));
    let mut rust = renamed.clone().map(|pair| format!("--remap-path-prefix={pair}")).to_vec();
    let c = renamed.map(|pair| format!("-ffile-prefix-map={pair}"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--profile", "dist", "--locked", "--package", "evenkeel", "--target-dir"]);
    build.arg(folder()).current_dir(workspace());
    if let Linking::Static = linking {
        rust.push("-Ctarget-feature=+crt-static".to_owned());
        // With a target, programs that run during the build are linked as usual: libraries of the compiler cannot be static.
        build.args(["--target", Architecture::here()?.target()]);
    }
    build.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
    run(&mut build)?;
    linking.built()
}

/// A folder of its own: other flags for the compiler would have cargo build everything again in the usual one.
fn folder() -> PathBuf {
    target_directory().join("dist-build")
}

fn check_version(binary: &Path) -> Result<()> {
    let expected = env!("CARGO_PKG_VERSION");
    let (said, binary) = (said(Command::new(binary).arg("--version"))?, binary.display());
    let found = said.trim().strip_prefix("evenkeel ");
    let found = found.with_context(|| format!("{binary} says `{}`", said.trim()))?;
    ensure!(found == expected, "{binary} is version {found}, this checkout is {expected}: build it again");
    Ok(())
}
