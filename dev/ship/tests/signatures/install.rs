//! docs/install.md, followed word by word: keys are made, artefacts are signed with them, and checked as a reader checks them.

use super::{GPG, GPGV, Keys, MINISIGN, OPENSSL, PASSPHRASE, empty, spoil};
use crate::tools::{binary, have, is_thorough, leave_out};
use checkout::workspace;
use clap::Parser;
use ship::commands::said;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use transcript::pages;

/// The command line of `cargo xtask dist`.
#[derive(Parser)]
struct Dist {
    #[command(flatten)]
    arguments: ship::dist::Arguments,
}

fn dist(words: &[&str], out: &Path) -> anyhow::Result<bool> {
    let out = out.to_str().expect("text");
    ship::dist::dist(&Dist::parse_from([&["dist"], words, &["--out", out]].concat()).arguments)
}

/// The fenced block of the page that begins so.
fn block(begin: &str) -> String {
    let page = fs::read_to_string(workspace().join("docs/install.md")).expect("a page");
    let mut blocks = pages::blocks(&page).into_iter().filter(|block| block.starts_with(begin));
    blocks.next().unwrap_or_else(|| panic!("no block begins with `{begin}`"))
}

/// Runs a block of the page in a folder, with a home that has the answers to programs which ask for a passphrase.
fn follow(begin: &str, home: &Path, folder: &Path) -> anyhow::Result<String> {
    let answers = home.join("answers");
    fs::create_dir_all(&answers)?;
    for (program, words) in [
        ("gpg", "--batch --quiet --pinentry-mode loopback --passphrase-file \"$HOME/passphrase\" \"$@\""),
        ("openssl", "\"$1\" -passout \"file:$HOME/passphrase\" \"${@:2}\""),
        ("rpm", "--dbpath \"$HOME/rpm\" \"$@\""),
    ] {
        let path = answers.join(program);
        fs::write(&path, format!("#!/bin/bash\nexec /usr/bin/{program} {words}\n"))?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
    }
    fs::write(home.join("passphrase"), format!("{PASSPHRASE}\n"))?;
    let path = format!("{}:{}", answers.display(), std::env::var("PATH")?);
    let typed = format!(
        "printf '%s\\n%s\\n' '{PASSPHRASE}' '{PASSPHRASE}' | bash -euo pipefail -c '{}'",
        block(begin)
    );
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &typed])
        .current_dir(folder)
        .env("HOME", home)
        .env("PATH", path)
        .env_remove("GNUPGHOME");
    said(shell.stdin(Stdio::null()))
}

/// What the list names, and what lies in the folder beside the list and its signature.
fn listed_and_there(out: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let list = fs::read_to_string(out.join("SHA256SUMS")).expect("a list");
    let listed = list.lines().map(|line| line.split_once("  ").expect("two words").1.to_owned());
    let there = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (listed.collect(), there.filter(|name| !name.starts_with("SHA256SUMS")).collect())
}

#[test]
fn the_list_of_checksums_has_every_artefact_and_nothing_else() {
    let out = empty("complete");
    assert!(dist(&["--only", "monitoring,sbom", "--twice"], &out).expect("artefacts"));
    let (listed, there) = listed_and_there(&out);
    assert_eq!(listed, there);
    assert_eq!(listed.len(), 2, "{listed:?}");
    said(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&out))
        .expect("good");
}

#[test]
fn what_lies_there_already_is_not_signed() {
    if !have(&[MINISIGN]) {
        return;
    }
    let out = empty("not-empty");
    let keys = Keys::folder("not-empty").minisign();
    let words = ["--only", "monitoring", "--sign-with", keys.0.to_str().unwrap()];
    assert!(dist(&words, &out).expect("signed"));
    let (listed, there) = listed_and_there(&out);
    assert_eq!(listed, there);
    assert!(listed.contains("evenkeel.minisign.pub") && listed.len() == 2, "{listed:?}");
    let error = dist(&words, &out).expect_err("refused").to_string();
    assert!(error.contains("is not empty"), "{error}");
}

#[test]
fn artefacts_are_signed_and_checked_as_the_page_says() {
    if !is_thorough() {
        leave_out("keys and signatures by the commands of docs/install.md (EVENKEEL_TEST_ALL=1 has them)");
        return;
    }
    let Some(binary) = binary() else { return };
    let programs = [MINISIGN, GPG, GPGV, OPENSSL, ("rpm", "Debian: rpm"), ("ar", "Debian: binutils")];
    if !have(&programs) {
        return;
    }
    let home = Keys::folder("home");
    follow("install --directory", &home.0, &home.0).expect("keys");
    said(Command::new("gpgconf").arg("--homedir").arg(home.0.join(".gnupg")).args(["--kill", "gpg-agent"]))
        .unwrap();
    let keys = home.0.join("evenkeel-keys");
    for name in ["minisign.pass", "pgp.pass", "apk.pass"] {
        fs::copy(home.0.join("passphrase"), keys.join(name)).unwrap();
        fs::set_permissions(keys.join(name), Permissions::from_mode(0o600)).unwrap();
    }
    // Debug symbols of a build for tests take minutes to pack, and a package of them is signed elsewhere.
    let stripped = home.0.join("evenkeel");
    said(Command::new("strip").arg("-o").arg(&stripped).arg(binary)).expect("a program without symbols");
    let binary = stripped;
    let out = empty("page");
    let sign = ["--sign-with", keys.to_str().unwrap(), "--binary", binary.to_str().unwrap()];
    let kinds = ["--only", "deb,rpm,apk,arch,sbom,monitoring"];
    assert!(dist(&[&sign[..], &kinds[..]].concat(), &out).expect("signed"));
    let (listed, there) = listed_and_there(&out);
    assert_eq!(listed, there);
    for public in ["evenkeel.minisign.pub", "evenkeel.pgp.asc", "evenkeel.rsa.pub"] {
        assert!(listed.contains(public), "{public}");
    }
    let secret = "PRIVATE";
    assert!(
        listed
            .iter()
            .filter(|name| name.contains(".pub") || name.contains(".asc"))
            .all(|name| { !fs::read_to_string(out.join(name)).unwrap().contains(secret) })
    );
    for begin in ["minisign -V", "gpg --dearmor", "rpm --import"] {
        let told = follow(begin, &home.0, &out).expect(begin);
        assert!(begin != "rpm --import" || told.contains("digests signatures OK"), "{told}");
    }
    // The same commands refuse what was changed. gpg makes its keyring anew only where there is none.
    fs::remove_file(out.join("evenkeel.gpg")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    let size = |name: &str| fs::metadata(out.join(name)).unwrap().len() as usize;
    for name in [format!("evenkeel_{version}-1_amd64.deb"), format!("evenkeel-{version}-1.x86_64.rpm")] {
        spoil(&out.join(&name), size(&name) / 2);
    }
    for begin in ["minisign -V", "gpg --dearmor", "rpm --import"] {
        follow(begin, &home.0, &out).expect_err(begin);
    }
}
