//! `cargo xtask dist`: the binary of the profile `dist`, and the artefacts that are made from it.

use crate::commands::said;
use crate::programs::run;
use crate::{Artefact, Make, Workshop, chart, checksums, image, monitoring, packages, sbom, seccomp, site};
use anyhow::{Context, Result, ensure};
use checkout::{target_directory, workspace};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use os::clock::Stopwatch;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kind of artefact, as `--only` names it.
#[derive(Debug)]
pub struct ArtefactKind {
    name: &'static str,
    make: Make,
    /// Whether it is made from the binary, which takes minutes to build.
    needs_binary: bool,
}

/// All of them, in the order in which they are made.
static KINDS: &[ArtefactKind] = &[
    ArtefactKind { name: "deb", make: packages::deb, needs_binary: true },
    ArtefactKind { name: "rpm", make: packages::rpm, needs_binary: true },
    ArtefactKind { name: "apk", make: packages::apk, needs_binary: true },
    ArtefactKind { name: "arch", make: packages::arch, needs_binary: true },
    ArtefactKind { name: "tar", make: packages::tar, needs_binary: true },
    ArtefactKind { name: "seccomp", make: seccomp::make, needs_binary: false },
    ArtefactKind { name: "image", make: image::make, needs_binary: true },
    ArtefactKind { name: "chart", make: chart::make, needs_binary: false },
    ArtefactKind { name: "monitoring", make: monitoring::make, needs_binary: false },
    ArtefactKind { name: "sbom", make: sbom::make, needs_binary: false },
    ArtefactKind { name: "site", make: site::make, needs_binary: false },
];

/// Make what is shipped: packages, an image and their checksums
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only these kinds
    #[arg(long, value_name = "KIND,KIND", value_delimiter = ',', value_parser = kinds())]
    only: Vec<&'static ArtefactKind>,
    /// Folder for the artefacts; without it, dist-out in the target directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A binary that is built already
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Make everything a second time, and fail if a byte differs
    #[arg(long)]
    twice: bool,
}

fn kinds() -> impl TypedValueParser<Value = &'static ArtefactKind> {
    let names = PossibleValuesParser::new(KINDS.iter().map(|kind| kind.name));
    names.map(|name| KINDS.iter().find(|kind| kind.name == name).expect("it is one of them"))
}

/// Makes them, and prints a table. Whether a second time gave the same, if it was asked for.
///
/// # Errors
/// Reports what could not be made.
pub fn dist(arguments: &Arguments) -> Result<bool> {
    let kinds: Vec<&ArtefactKind> = match arguments.only.is_empty() {
        true => KINDS.iter().collect(),
        false => arguments.only.clone(),
    };
    let needs_binary = kinds.iter().any(|kind| kind.needs_binary);
    let binary = match &arguments.binary {
        Some(path) => path.canonicalize().with_context(|| format!("find {}", path.display()))?,
        None if needs_binary => build()?,
        None => built(),
    };
    let workshop = Workshop {
        root: workspace(),
        out: arguments.out.clone().unwrap_or_else(|| target_directory().join("dist-out")),
        binary,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch_s: epoch_s()?,
    };
    if needs_binary {
        check_version(&workshop)?;
    }
    let (made, table) = make(&workshop, &kinds)?;
    checksums::write(&workshop.out, &made)?;
    let is_same = !arguments.twice || again(&workshop, &kinds, &made)?;
    print!("{table}");
    println!("all in {}, with SHA256SUMS", workshop.out.display());
    Ok(is_same)
}

/// Makes artefacts of these kinds. Also returns a table of them, with the seconds of each kind in its first line.
fn make(workshop: &Workshop, kinds: &[&ArtefactKind]) -> Result<(Vec<Artefact>, String)> {
    fs::create_dir_all(&workshop.out).with_context(|| format!("make {}", workshop.out.display()))?;
    let mut all = Vec::new();
    let mut table = format!("{:<48} {:>12} {:>8}\n", "artefact", "bytes", "seconds");
    for kind in kinds {
        let clock = Stopwatch::start();
        let made = (kind.make)(workshop).with_context(|| format!("make {}", kind.name))?;
        let mut seconds = format!("{:.1}", clock.passed().as_secs_f64());
        for artefact in made {
            let bytes = fs::metadata(&artefact.path).context("look at an artefact")?.len();
            let name = checksums::name(&artefact.path);
            table += &format!("{name:<48} {bytes:>12} {:>8}\n", std::mem::take(&mut seconds));
            all.push(artefact);
        }
    }
    Ok((all, table))
}

/// Makes the same once more in another folder, and compares.
fn again(workshop: &Workshop, kinds: &[&ArtefactKind], first: &[Artefact]) -> Result<bool> {
    let second = Workshop { out: target_directory().join("dist-again"), ..workshop.clone() };
    let (second, _) = make(&second, kinds)?;
    let (first, second) = (checksums::sums(first)?, checksums::sums(&second)?);
    for (first, second) in first.iter().zip(&second).filter(|(first, second)| first != second) {
        println!("{}: {} at first, {} the second time", first.name, first.digest, second.digest);
    }
    if first == second {
        println!("the same bytes a second time");
    }
    Ok(first == second)
}

/// Builds the binary. Folders of this machine do not get into it, so that two machines can build the same.
fn build() -> Result<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    let renamed = [(workspace(), "/evenkeel"), (cargo_home, "/cargo")];
    let renamed = renamed.map(|(folder, name)| format!("{}={name}", folder.display()));
    let rust = renamed.clone().map(|pair| format!("--remap-path-prefix={pair}"));
    let c = renamed.map(|pair| format!("-ffile-prefix-map={pair}"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--profile", "dist", "--locked", "--package", "evenkeel", "--target-dir"]);
    build.arg(folder()).current_dir(workspace());
    build.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
    run(&mut build)?;
    Ok(built())
}

/// Where cargo builds it. A folder of its own: other flags for the compiler would have cargo build everything again in the usual one.
fn folder() -> PathBuf {
    target_directory().join("dist-build")
}

/// The binary that it builds.
fn built() -> PathBuf {
    folder().join("dist/evenkeel")
}

/// The time of the commit, unless the environment names another one: reproducible-builds.org.
fn epoch_s() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace()))?,
    };
    let text = text.trim();
    text.parse().with_context(|| format!("expected seconds since 1970, found `{text}`"))
}

fn check_version(workshop: &Workshop) -> Result<()> {
    let (found, expected) = (version_of(&workshop.binary)?, &workshop.version);
    let binary = workshop.binary.display();
    ensure!(found == *expected, "{binary} is version {found}, this checkout is {expected}: build it again");
    Ok(())
}

fn version_of(binary: &Path) -> Result<String> {
    let said = said(Command::new(binary).arg("--version"))?;
    let version = said.trim().strip_prefix("evenkeel ");
    Ok(version.with_context(|| format!("{} says `{}`", binary.display(), said.trim()))?.to_owned())
}
