//! Packages for deb, rpm, apk and Arch, and an archive for everything else.

use crate::commands::said;
use crate::image::library_licences;
use crate::programs::run;
use crate::stage::PackageStage;
use crate::{Artefact, Workshop};
use anyhow::{Context, Result};
use std::fs;
use std::process::Command;

/// Debian's package, and its debug symbols.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn deb(workshop: &Workshop) -> Result<Vec<Artefact>> {
    with_symbols(workshop, "deb")
}

/// The package of Fedora and its relatives, and its debug symbols.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn rpm(workshop: &Workshop) -> Result<Vec<Artefact>> {
    with_symbols(workshop, "rpm")
}

/// The package of apk, for distributions with glibc.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn apk(workshop: &Workshop) -> Result<Vec<Artefact>> {
    Ok(vec![PackageStage::of(workshop, "apk")?.pack("nfpm.yaml", "apk", &workshop.out)?])
}

/// The package of Arch.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn arch(workshop: &Workshop) -> Result<Vec<Artefact>> {
    Ok(vec![PackageStage::of(workshop, "arch")?.pack("nfpm.yaml", "archlinux", &workshop.out)?])
}

fn with_symbols(workshop: &Workshop, format: &str) -> Result<Vec<Artefact>> {
    let stage = PackageStage::of(workshop, format)?;
    let mut made = vec![stage.pack("nfpm.yaml", format, &workshop.out)?];
    match stage.build_id {
        Some(_) => made.push(stage.pack("nfpm-dbg.yaml", format, &workshop.out)?),
        None => {
            println!("left out: evenkeel-dbg, because {} has no debug symbols", workshop.binary.display())
        }
    }
    Ok(made)
}

/// The program, linked statically, its man pages and completions, to be unpacked below /usr/local.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn tar(workshop: &Workshop) -> Result<Vec<Artefact>> {
    let binary = workshop.static_binary.as_ref().unwrap_or(&workshop.binary);
    let stage = PackageStage::of(&Workshop { binary: binary.clone(), ..workshop.clone() }, "tar")?;
    let name = format!("evenkeel-{}-linux-{}", workshop.version, stage.architecture.name());
    let folder = stage.folder.join(&name);
    for (from, to) in [
        ("evenkeel", "bin/evenkeel"),
        ("man", "share/man/man1"),
        ("completions/evenkeel.bash", "share/bash-completion/completions/evenkeel"),
        ("completions/evenkeel.fish", "share/fish/vendor_completions.d/evenkeel.fish"),
        ("completions/_evenkeel", "share/zsh/site-functions/_evenkeel"),
        ("LICENSE", "share/doc/evenkeel/LICENSE"),
        ("NEWS.gz", "share/doc/evenkeel/NEWS.gz"),
        ("THIRD-PARTY.gz", "share/doc/evenkeel/THIRD-PARTY.gz"),
    ] {
        let to = folder.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&folder))
            .with_context(|| format!("make {}", to.display()))?;
        fs::rename(stage.folder.join(from), &to).with_context(|| format!("place {from}"))?;
    }
    for (package, text) in library_licences() {
        let to = folder.join(format!("share/doc/evenkeel/{package}.copyright"));
        fs::copy(&text, &to).with_context(|| format!("copy {}", text.display()))?;
    }
    run(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(&folder))?;
    let path = workshop.out.join(format!("{name}.tar.gz"));
    archive(&stage.folder, &name, workshop.epoch_s, &path)?;
    Ok(vec![Artefact { path }])
}

/// An archive of one entry of a folder that is the same each time.
pub(crate) fn archive(
    folder: &std::path::Path,
    entry: &str,
    epoch_s: u64,
    path: &std::path::Path,
) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    // Whatever umask there was.
    tar.arg("--mode=u=rwX,go=rX");
    tar.arg(format!("--mtime=@{epoch_s}")).arg("--directory").arg(folder);
    if path.extension().is_some_and(|extension| extension == "gz") {
        tar.arg("--use-compress-program=gzip -9 -n");
    }
    said(tar.arg("--create").arg("--file").arg(path).arg(entry)).map(drop)
}
