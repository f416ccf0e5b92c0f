//! A folder with all that a package is made of, as packaging/nfpm.yaml names it, and packages that are made of it.

use crate::commands::{printed, said};
use crate::inputs::elf::{Architecture, is_static};
use crate::programs::{NFPM, run};
use crate::sbom::notices;
use crate::signatures::keys::{KeyKind, SigningKeys};
use crate::{Artefact, Workshop, seccomp};
use anyhow::{Context, Result, ensure};
use checkout::target_directory;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Shells with completions in packages: the shell, and the file.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "evenkeel.bash"), ("zsh", "_evenkeel"), ("fish", "evenkeel.fish")];

/// The folder, and what packages say of its program.
#[derive(Clone, Debug)]
pub struct PackageStage {
    /// The folder.
    pub folder: PathBuf,
    /// The version of the packages.
    pub version: String,
    /// The time that packages bear.
    pub epoch_s: u64,
    /// For which machines it is.
    pub architecture: Architecture,
    /// The least version of glibc that the program needs; `None` if it is linked statically.
    pub glibc: Option<String>,
    /// The path of the debug symbols below .build-id, if there are any.
    pub build_id: Option<String>,
    /// What signs packages, if they are signed.
    pub keys: Option<SigningKeys>,
}

impl PackageStage {
    /// Fills a folder with this name in the target directory.
    ///
    /// # Errors
    /// Reports a program that is missing or fails.
    pub fn of(workshop: &Workshop, name: &str) -> Result<PackageStage> {
        let folder = target_directory().join("dist-stage").join(name);
        let mut stage = PackageStage {
            folder: folder.clone(),
            version: workshop.version.clone(),
            epoch_s: workshop.epoch_s,
            architecture: Architecture::of(&workshop.binary)?,
            glibc: glibc(&workshop.binary)?,
            build_id: None,
            keys: workshop.keys.clone(),
        };
        stage.copy_sources(&workshop.root)?;
        stage.build_id = stage.split(&workshop.binary)?;
        stage.write_manual(&workshop.speaker)?;
        for (shell, file) in COMPLETIONS {
            let text = printed(Command::new(&workshop.speaker).args(["completions", shell]))?;
            stage.write(&format!("completions/{file}"), &text)?;
        }
        stage.write("seccomp.json", seccomp::profile(&workshop.root)?.as_bytes())?;
        Ok(stage)
    }

    /// Empties the folder, and copies what lies in the checkout.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn copy_sources(&self, root: &Path) -> Result<()> {
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).with_context(|| format!("empty {}", self.folder.display()))?;
        }
        fs::create_dir_all(&self.folder).with_context(|| format!("make {}", self.folder.display()))?;
        run(Command::new("cp").arg("-R").arg(root.join("packaging/.")).arg(&self.folder))?;
        let read = |name: &str| fs::read(root.join(name)).with_context(|| format!("read {name}"));
        self.write("LICENSE", &read("LICENSE")?)?;
        self.write("NEWS", &read("CHANGELOG.md")?)?;
        self.write("changelog.Debian", self.changelog()?.as_bytes())?;
        self.write("THIRD-PARTY", notices::texts(root)?.as_bytes())?;
        self.compress(&["NEWS", "THIRD-PARTY", "changelog.Debian"])
    }

    /// Packs for one of nfpm's formats, by one of the recipes in packaging.
    ///
    /// # Errors
    /// Reports a program that is missing or fails.
    pub fn pack(&self, recipe: &str, format: &str, out: &Path) -> Result<Artefact> {
        fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
        // nfpm gives scripts the times of their files.
        let mut touch = Command::new("find");
        touch.arg(&self.folder).args(["-exec", "touch", "--date", &format!("@{}", self.epoch_s), "{}", "+"]);
        run(&mut touch)?;
        let mut nfpm = Command::new(NFPM.path()?);
        nfpm.args(["package", "--config", recipe, "--packager", format, "--target"]).arg(out);
        nfpm.current_dir(&self.folder);
        nfpm.env("SOURCE_DATE_EPOCH", self.epoch_s.to_string());
        let glibc = self.glibc.as_ref();
        let glibc = glibc.context("the program is linked statically, and packages name the glibc that they need: give one that is linked with it")?;
        nfpm.env("ARCH", self.architecture.name()).env("GLIBC", glibc);
        nfpm.env("VERSION", &self.version).env("PACKAGE_VERSION", self.package_version());
        // Each world has its own name for a package of debug symbols.
        nfpm.env("SYMBOLS", if format == "rpm" { "evenkeel-debuginfo" } else { "evenkeel-dbg" });
        nfpm.env("BUILD_ID", self.build_id.as_deref().unwrap_or_default());
        self.give_keys(format, &mut nfpm)?;
        let said = said(&mut nfpm)?;
        let path = said.lines().find_map(|line| line.strip_prefix("created package: "));
        let path = path.with_context(|| format!("nfpm names no package, but says `{}`", said.trim()))?;
        Ok(Artefact { path: path.into() })
    }

    /// Tells nfpm which keys sign this format. The passphrase is in its environment alone, which is how nfpm takes it.
    fn give_keys(&self, format: &str, nfpm: &mut Command) -> Result<()> {
        // The recipe names both, and what is empty signs nothing.
        nfpm.env("PGP_KEY", "").env("APK_KEY", "");
        for variable in
            ["NFPM_PASSPHRASE", "NFPM_DEB_PASSPHRASE", "NFPM_RPM_PASSPHRASE", "NFPM_APK_PASSPHRASE"]
        {
            nfpm.env_remove(variable);
        }
        let Some((keys, kind)) = self.keys.as_ref().zip(signing_key(format)) else { return Ok(()) };
        nfpm.env(if kind == KeyKind::Apk { "APK_KEY" } else { "PGP_KEY" }, keys.path(kind));
        if let Some(passphrase) = keys.passphrase(kind)? {
            nfpm.env("NFPM_PASSPHRASE", passphrase);
        }
        Ok(())
    }

    /// Writes a file, and the folders on the way to it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))
    }

    /// Replaces files by compressed ones that are the same each time.
    fn compress(&self, names: &[&str]) -> Result<()> {
        run(Command::new("gzip").args(["-9", "-n", "--"]).args(names).current_dir(&self.folder))
    }

    /// The program without symbols, and its debug symbols in a file of their own if it has them. Returns their path.
    fn split(&self, binary: &Path) -> Result<Option<String>> {
        let strip = self.architecture.binutil("strip")?;
        run(Command::new(strip).arg("-o").arg(self.folder.join("evenkeel")).arg(binary))?;
        let sections = said(Command::new("readelf").args(["--wide", "--sections"]).arg(binary))?;
        let notes = said(Command::new("readelf").args(["--wide", "--notes"]).arg(binary))?;
        let id = notes.split_once("Build ID: ").and_then(|(_, rest)| rest.split_whitespace().next());
        let (true, Some(id)) = (sections.contains(" .debug_line "), id) else { return Ok(None) };
        let mut split = Command::new(self.architecture.binutil("objcopy")?);
        split.args(["--only-keep-debug", "--compress-debug-sections"]);
        run(split.arg(binary).arg(self.folder.join("evenkeel.debug")))?;
        let (first, rest) = id.split_at(2);
        Ok(Some(format!("{first}/{rest}")))
    }

    /// A man page for the program, and one for each verb and each job of a verb.
    fn write_manual(&self, binary: &Path) -> Result<()> {
        let help = said(Command::new(binary).args(["man", "--help"]))?;
        let listed = help.split_once("[possible values:").and_then(|(_, rest)| rest.split_once(']'));
        let (listed, _) = listed.context("expected a list of man pages in `evenkeel man --help`")?;
        let names = listed.split(',').map(str::trim);
        let mut written = Vec::new();
        for words in std::iter::once(Vec::new()).chain(names.map(|name| vec![name])) {
            let page = printed(Command::new(binary).arg("man").args(&words))?;
            let name = format!("man/{}.1", [&["evenkeel"], &words[..]].concat().join("-"));
            self.write(&name, &page)?;
            written.push(name);
        }
        ensure!(written.len() > 1, "`evenkeel man --help` lists no man page");
        self.compress(&written.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Debian's changelog: a release, and where its changes are described.
    fn changelog(&self) -> Result<String> {
        let time = format!("@{}", self.epoch_s);
        let date = said(Command::new("date").args(["--utc", "--rfc-email", "--date", &time]))?;
        let maintainer = fs::read_to_string(self.folder.join("nfpm.yaml")).context("read nfpm.yaml")?;
        let maintainer = maintainer.lines().find_map(|line| line.strip_prefix("maintainer: "));
        let maintainer = maintainer.context("expected a maintainer in nfpm.yaml")?;
        let version = self.package_version();
        Ok(format!(
            "evenkeel ({version}-1) stable; urgency=medium\n\n  * Release {}: changes are in NEWS.gz.\n\n -- {maintainer}  {date}",
            self.version
        ))
    }

    /// The version as Debian and rpm order it: a candidate comes before the release.
    fn package_version(&self) -> String {
        self.version.replace('-', "~")
    }
}

/// The kind of key that signs packages of one of nfpm's formats. pacman has signatures in files beside the packages, and
/// SHA256SUMS says the same of those.
pub fn signing_key(format: &str) -> Option<KeyKind> {
    match format {
        "deb" | "rpm" => Some(KeyKind::Pgp),
        "apk" => Some(KeyKind::Apk),
        _ => None,
    }
}

/// The newest version of glibc of which a program needs a symbol.
fn glibc(binary: &Path) -> Result<Option<String>> {
    if is_static(binary)? {
        return Ok(None);
    }
    let symbols = said(Command::new("readelf").args(["--wide", "--version-info"]).arg(binary))?;
    let newest = newest_glibc(&symbols);
    newest.map(Some).with_context(|| format!("{} needs no version of glibc", binary.display()))
}

fn newest_glibc(symbols: &str) -> Option<String> {
    let names = symbols.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    let numbers =
        names.filter_map(|name| name.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>());
    let newest = numbers.max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_is_found_by_number_and_not_by_text() {
        let symbols = "0x1: Name: GLIBC_2.9  Flags: none\n0x2: Name: GLIBC_2.34  Flags: none\n\
                       0x3: Name: GLIBC_2.2.5  Flags: none\n0x4: Name: GLIBC_PRIVATE\n0x5: Name: GCC_4.2.0";
        assert_eq!(newest_glibc(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest_glibc("Name: GCC_3.0"), None);
    }
}
