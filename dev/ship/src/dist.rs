//! `cargo xtask dist`: the binary of the profile `dist`, and the artefacts that are made from it.

use crate::commands::said;
use crate::inputs::{GivenPrograms, NeededPrograms, Programs};
use crate::signatures::keys::{KeyKind, SigningKeys, check_owners};
use crate::stage::signing_key;
use crate::{
    Artefact, Make, Workshop, chart, checksums, image, monitoring, packages, sbom, seccomp, signatures, site,
};
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
    needs: Needs,
}

/// What a kind of artefact is made from. A program takes minutes to build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// Files of the checkout.
    Sources,
    /// The program that is linked with glibc.
    Program,
    /// The one that is linked statically.
    StaticProgram,
}

/// All of them, in the order in which they are made.
static KINDS: &[ArtefactKind] = &[
    ArtefactKind { name: "deb", make: packages::deb, needs: Needs::Program },
    ArtefactKind { name: "rpm", make: packages::rpm, needs: Needs::Program },
    ArtefactKind { name: "apk", make: packages::apk, needs: Needs::Program },
    ArtefactKind { name: "arch", make: packages::arch, needs: Needs::Program },
    ArtefactKind { name: "tar", make: packages::tar, needs: Needs::StaticProgram },
    ArtefactKind { name: "seccomp", make: seccomp::make, needs: Needs::Sources },
    ArtefactKind { name: "image", make: image::make, needs: Needs::Program },
    ArtefactKind { name: "chart", make: chart::make, needs: Needs::Sources },
    ArtefactKind { name: "monitoring", make: monitoring::make, needs: Needs::Sources },
    ArtefactKind { name: "sbom", make: sbom::make, needs: Needs::Sources },
    ArtefactKind { name: "site", make: site::make, needs: Needs::Sources },
];

/// Make what is shipped: packages, an image, a chart, a site and their checksums
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Only these kinds
    #[arg(long, value_name = "KIND,KIND", value_delimiter = ',', value_parser = kinds())]
    only: Vec<&'static ArtefactKind>,
    /// Folder for the artefacts; without it, dist-out in the target directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A binary that is built already, also one for another architecture
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The same, linked statically, for the archive
    #[arg(long, value_name = "PATH")]
    static_binary: Option<PathBuf>,
    /// A binary of this version that runs here: it writes the man pages where the others are for another architecture
    #[arg(long, value_name = "PATH")]
    native: Option<PathBuf>,
    /// Make everything a second time, and fail if a byte differs. Signatures, which bear their time, are made after that
    #[arg(long)]
    twice: bool,
    /// Sign packages and SHA256SUMS with the keys in this folder: minisign.key, pgp.key for deb and rpm, apk.key for apk
    #[arg(long, value_name = "DIR")]
    sign_with: Option<PathBuf>,
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
    let out = arguments.out.clone().unwrap_or_else(|| target_directory().join("dist-out"));
    let keys = arguments.sign_with.as_deref().map(|folder| open_keys(folder, &kinds)).transpose()?;
    // Programs are run in folders of their own, where a relative path would lead elsewhere.
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    let out = out.canonicalize().with_context(|| format!("find {}", out.display()))?;
    if keys.is_some() {
        check_empty(&out)?;
        check_owners(&out)?;
    }
    let needs = |what| kinds.iter().any(|kind| kind.needs == what);
    let given = GivenPrograms {
        binary: arguments.binary.clone(),
        static_binary: arguments.static_binary.clone(),
        native: arguments.native.clone(),
    };
    let needed = NeededPrograms { binary: needs(Needs::Program), static_binary: needs(Needs::StaticProgram) };
    let programs = Programs::obtain(&given, needed)?;
    let workshop = Workshop {
        root: workspace(),
        out,
        binary: programs.binary,
        static_binary: programs.static_binary,
        speaker: programs.speaker,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch_s: epoch_s()?,
        keys: None,
    };
    let (mut made, seconds) = make(&workshop, &kinds)?;
    let is_same = !arguments.twice || again(&workshop, &kinds, &made)?;
    if !is_same && keys.is_some() {
        println!("nothing is signed: the second time gave other bytes");
        return Ok(false);
    }
    if let Some(keys) = &keys {
        made.extend(sign_packages(&workshop, &kinds, keys, &made)?);
    }
    checksums::write(&workshop.out, &made)?;
    print!("{}", table(&made, &seconds)?);
    let out = workshop.out.display();
    match &keys {
        None => println!("all in {out}, with SHA256SUMS"),
        Some(keys) => {
            signatures::sign_sums(keys, &workshop.out, &format!("evenkeel {}", workshop.version))?;
            println!("all in {out}, with SHA256SUMS and its signature SHA256SUMS.minisig");
        }
    }
    for other in others(&workshop.out, &made)? {
        println!("{other} is in the folder, too: it was not made by this run, and is not in SHA256SUMS");
    }
    Ok(is_same)
}

/// The keys that these kinds need.
fn open_keys(folder: &Path, kinds: &[&ArtefactKind]) -> Result<SigningKeys> {
    let mut needed = vec![KeyKind::Minisign];
    needed.extend(kinds.iter().filter_map(|kind| signing_key(kind.name)));
    needed.dedup();
    SigningKeys::open(folder, &needed)
}

/// A signature is for what was just made, and for nothing that lay there before.
fn check_empty(out: &Path) -> Result<()> {
    let mut entries = fs::read_dir(out).with_context(|| format!("list {}", out.display()))?;
    let out = out.display();
    ensure!(
        entries.next().is_none(),
        "{out} is not empty: name an empty folder for what is signed, with --out"
    );
    Ok(())
}

/// Makes those packages anew that bear signatures, and returns the public keys as artefacts.
fn sign_packages(
    workshop: &Workshop,
    kinds: &[&ArtefactKind],
    keys: &SigningKeys,
    made: &[Artefact],
) -> Result<Vec<Artefact>> {
    let workshop = Workshop { keys: Some(keys.clone()), ..workshop.clone() };
    let mut public = vec![keys.write_public(KeyKind::Minisign, &workshop.out)?];
    for kind in kinds {
        let Some(key) = signing_key(kind.name) else { continue };
        let signed = (kind.make)(&workshop).with_context(|| format!("sign {}", kind.name))?;
        ensure!(
            signed.iter().all(|artefact| made.contains(artefact)),
            "{} has other names if it is signed",
            kind.name
        );
        let path = workshop.out.join(key.public());
        if !public.contains(&path) {
            public.push(keys.write_public(key, &workshop.out)?);
        }
        signatures::check_packages(&signed, &path)?;
    }
    Ok(public.into_iter().map(|path| Artefact { path }).collect())
}

/// What else lies in the folder.
fn others(out: &Path, made: &[Artefact]) -> Result<Vec<String>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(out).with_context(|| format!("list {}", out.display()))? {
        let path = entry.with_context(|| format!("list {}", out.display()))?.path();
        let is_list = ["SHA256SUMS", "SHA256SUMS.minisig"].iter().any(|name| path.ends_with(name));
        if !is_list && made.iter().all(|artefact| artefact.path != path) {
            others.push(checksums::name(&path));
        }
    }
    others.sort();
    Ok(others)
}

/// Makes artefacts of these kinds. Also returns the seconds of each kind, at its first artefact.
fn make(workshop: &Workshop, kinds: &[&ArtefactKind]) -> Result<(Vec<Artefact>, Vec<String>)> {
    fs::create_dir_all(&workshop.out).with_context(|| format!("make {}", workshop.out.display()))?;
    let (mut all, mut seconds) = (Vec::new(), Vec::new());
    for kind in kinds {
        let clock = Stopwatch::start();
        let made = (kind.make)(workshop).with_context(|| format!("make {}", kind.name))?;
        let mut took = format!("{:.1}", clock.passed().as_secs_f64());
        for artefact in made {
            seconds.push(std::mem::take(&mut took));
            all.push(artefact);
        }
    }
    Ok((all, seconds))
}

/// A table of artefacts as they lie there. Those that were made last have taken no time of their own.
fn table(made: &[Artefact], seconds: &[String]) -> Result<String> {
    let mut table = format!("{:<48} {:>12} {:>8}\n", "artefact", "bytes", "seconds");
    for (artefact, seconds) in
        made.iter().zip(seconds.iter().map(String::as_str).chain(std::iter::repeat("")))
    {
        let bytes = fs::metadata(&artefact.path).context("look at an artefact")?.len();
        table += &format!("{:<48} {bytes:>12} {seconds:>8}\n", checksums::name(&artefact.path));
    }
    Ok(table)
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

/// The time of the commit, unless the environment names another one: reproducible-builds.org.
fn epoch_s() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => said(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace()))?,
    };
    let text = text.trim();
    text.parse().with_context(|| format!("expected seconds since 1970, found `{text}`"))
}
