//! Signatures: minisign's of SHA256SUMS, and a look at those of packages with the programs of those who receive them.

pub mod keys;

use crate::commands::{printed, said};
use crate::signatures::keys::{KeyKind, Scratch, SigningKeys};
use crate::{Artefact, checksums};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Signs SHA256SUMS of a folder, and checks the signature with the public key that lies beside it.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn sign_sums(keys: &SigningKeys, folder: &Path, comment: &str) -> Result<()> {
    keys.minisign(&["-S", "-m", "SHA256SUMS", "-t", comment], folder)?;
    let mut verify = Command::new("minisign");
    verify.args(["-V", "-q", "-p", KeyKind::Minisign.public(), "-m", "SHA256SUMS"]);
    said(verify.current_dir(folder)).map(drop).context("check the signature of SHA256SUMS")
}

/// Checks that each package that bears a signature of OpenPGP was signed by this public key.
///
/// # Errors
/// Reports a package without a valid signature.
pub fn check_packages(artefacts: &[Artefact], public: &Path) -> Result<()> {
    for Artefact { path } in artefacts {
        let checked = match path.extension().and_then(|extension| extension.to_str()) {
            Some("deb") => check_deb(path, public),
            Some("rpm") => check_rpm(path, public),
            _ => Ok(()),
        };
        checked.with_context(|| format!("check the signature of {}", checksums::name(path)))?;
    }
    Ok(())
}

/// The signature is a member of the archive, over all others.
fn check_deb(package: &Path, public: &Path) -> Result<()> {
    let scratch = Scratch::make("deb")?;
    let members = said(Command::new("ar").arg("t").arg(package))?;
    let (signed, content): (Vec<&str>, Vec<&str>) = members.lines().partition(|name| *name == "_gpgorigin");
    ensure!(!signed.is_empty(), "it has no signature");
    let write = |name: &str, bytes: Vec<u8>| -> Result<_> {
        let path = scratch.path().join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        Ok(path)
    };
    // In the order in which they lie in the archive, which is that of the signature.
    let content = write("content", printed(Command::new("ar").arg("p").arg(package).args(content))?)?;
    let signature = write("signature", printed(Command::new("ar").arg("p").arg(package).args(signed))?)?;
    let keyring = scratch.path().join("keyring.gpg");
    let mut dearmor = Command::new("gpg");
    dearmor
        .args(["--batch", "--no-autostart", "--homedir"])
        .arg(scratch.path())
        .arg("--output")
        .arg(&keyring);
    said(dearmor.arg("--dearmor").arg(public).stdin(Stdio::null()))?;
    said(Command::new("gpgv").arg("--keyring").arg(&keyring).arg(&signature).arg(&content)).map(drop)
}

fn check_rpm(package: &Path, public: &Path) -> Result<()> {
    let scratch = Scratch::make("rpm")?;
    let rpm = || {
        let mut rpm = Command::new("rpm");
        rpm.arg("--dbpath").arg(scratch.path());
        rpm
    };
    said(rpm().arg("--import").arg(public))?;
    let found = said(rpm().arg("--checksig").arg(package))?;
    // Of a package without a signature it says `digests OK`.
    ensure!(found.contains("signatures OK"), "rpm says `{}`", found.trim());
    Ok(())
}
