//! Keys that sign a release: which files of a folder they are, who else may read them, and their public halves.
//!
//! No key is in the checkout, in a command line or in the environment. A passphrase is given to the one program that needs it.

use crate::commands::printed;
use anyhow::{Context, Result, bail, ensure};
use checkout::workspace;
use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A kind of key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// minisign's, for SHA256SUMS.
    Minisign,
    /// OpenPGP's, for deb and rpm.
    Pgp,
    /// RSA, for apk.
    Apk,
}

impl KeyKind {
    /// The name of the secret key's file. That of its passphrase ends with `.pass` in place of `.key`.
    pub fn file(self) -> &'static str {
        match self {
            KeyKind::Minisign => "minisign.key",
            KeyKind::Pgp => "pgp.key",
            KeyKind::Apk => "apk.key",
        }
    }

    /// The name under which its public half is published. apk knows a key by the name of its file.
    pub fn public(self) -> &'static str {
        match self {
            KeyKind::Minisign => "evenkeel.minisign.pub",
            KeyKind::Pgp => "evenkeel.pgp.asc",
            KeyKind::Apk => "evenkeel.rsa.pub",
        }
    }
}

/// The keys of a folder, as they were when it was opened.
#[derive(Clone, Debug)]
pub struct SigningKeys {
    folder: PathBuf,
}

impl SigningKeys {
    /// Opens a folder that has keys of these kinds.
    ///
    /// # Errors
    /// Reports a key that is missing, a file that others can read, a folder in which others can put other files, and one that lies
    /// in the checkout.
    pub fn open(folder: &Path, kinds: &[KeyKind]) -> Result<SigningKeys> {
        let folder = folder.canonicalize().with_context(|| format!("find {}", folder.display()))?;
        let tree = workspace().canonicalize().context("find the checkout")?;
        ensure!(!folder.starts_with(&tree), "{}: keys do not belong into the checkout", folder.display());
        check_owners(&folder)?;
        let me = me()?;
        let keys = SigningKeys { folder };
        for kind in kinds {
            check_file(&keys.path(*kind), me)?.with_context(|| {
                format!("there is no {} (docs/install.md says how it is made)", keys.path(*kind).display())
            })?;
            check_file(&keys.pass(*kind), me)?;
        }
        Ok(keys)
    }

    /// The file of a secret key.
    pub fn path(&self, kind: KeyKind) -> PathBuf {
        self.folder.join(kind.file())
    }

    fn pass(&self, kind: KeyKind) -> PathBuf {
        self.path(kind).with_extension("pass")
    }

    /// The passphrase of a key, if it has a file: its first line.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn passphrase(&self, kind: KeyKind) -> Result<Option<String>> {
        let path = self.pass(kind);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
    }

    /// Runs minisign with the secret key. Without a file for its passphrase, minisign asks for it itself.
    ///
    /// # Errors
    /// Reports a program that is missing or fails.
    pub fn minisign(&self, arguments: &[&str], folder: &Path) -> Result<()> {
        let mut minisign = Command::new("minisign");
        minisign.args(arguments).arg("-s").arg(self.path(KeyKind::Minisign)).current_dir(folder);
        minisign.stdout(Stdio::null());
        let passphrase = self.passphrase(KeyKind::Minisign)?;
        if passphrase.is_some() {
            minisign.stdin(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = minisign.spawn().context("start minisign")?;
        if let (Some(passphrase), Some(mut stdin)) = (passphrase, child.stdin.take()) {
            // One that needs no passphrase may have ended by now, which is not an error.
            let _ = stdin.write_all(format!("{passphrase}\n").as_bytes());
        }
        let ended = child.wait_with_output().context("wait for minisign")?;
        let complaint = String::from_utf8_lossy(&ended.stderr);
        ensure!(
            ended.status.success(),
            "minisign fails with {}: {} {}\n  hint: its passphrase is asked for at a terminal, or is the first line of {}",
            self.path(KeyKind::Minisign).display(),
            ended.status,
            complaint.trim(),
            self.pass(KeyKind::Minisign).display()
        );
        Ok(())
    }

    /// Writes the public half of a key. It is made from the secret one, so they belong together.
    ///
    /// # Errors
    /// Reports a program that is missing or fails.
    pub fn write_public(&self, kind: KeyKind, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(kind.public());
        match kind {
            KeyKind::Minisign => self.minisign(&["-R", "-p", kind.public()], folder)?,
            KeyKind::Pgp => {
                let text = self.public_pgp()?;
                fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            }
            KeyKind::Apk => {
                let mut openssl = Command::new("openssl");
                openssl.args(["rsa", "-pubout", "-in"]).arg(self.path(kind)).stdin(Stdio::null());
                if self.pass(kind).exists() {
                    openssl.arg("-passin").arg(format!("file:{}", self.pass(kind).display()));
                }
                fs::write(&path, printed(&mut openssl)?)
                    .with_context(|| format!("write {}", path.display()))?;
            }
        }
        Ok(path)
    }

    fn public_pgp(&self) -> Result<Vec<u8>> {
        let scratch = Scratch::make("gpg")?;
        let gpg = |arguments: &[&str]| {
            let mut gpg = Command::new("gpg");
            gpg.arg("--homedir")
                .arg(scratch.path())
                .args(["--batch", "--quiet", "--no-autostart"])
                .args(arguments);
            gpg.stdin(Stdio::null());
            gpg
        };
        let secret = self.path(KeyKind::Pgp);
        // The file of a secret key has the public one in it.
        let mut import = gpg(&["--import-options", "import-minimal", "--import"]);
        // Without its agent, gpg imports the public key and complains of the secret one.
        let _ = import.arg(&secret).output().context("start gpg")?;
        let public = printed(&mut gpg(&["--armor", "--export"]))?;
        ensure!(!public.is_empty(), "{} is no OpenPGP key that gpg can read", secret.display());
        Ok(public)
    }
}

fn me() -> Result<u32> {
    Ok(fs::metadata("/proc/self").context("ask who I am")?.uid())
}

/// Refuses a folder in which, or on the way to which, another user than root and this one may replace files.
///
/// # Errors
/// If there is one, or its folders cannot be looked at.
pub fn check_owners(folder: &Path) -> Result<()> {
    let me = me()?;
    folder.ancestors().try_for_each(|folder| check_folder(folder, me))
}

/// Refuses a folder in which another user than root and this one may put or replace files.
fn check_folder(folder: &Path, me: u32) -> Result<()> {
    let found = fs::metadata(folder).with_context(|| format!("look at {}", folder.display()))?;
    let (mode, owner) = (found.mode(), found.uid());
    let folder = folder.display();
    ensure!(
        owner == me || owner == 0,
        "{folder} belongs to the user {owner}, who could replace what lies there"
    );
    // In a folder like /tmp, others replace only what is theirs.
    let is_shared = mode & 0o022 != 0 && mode & 0o1000 == 0;
    ensure!(!is_shared, "others may write {folder} and replace what lies there\n  hint: chmod go-w {folder}");
    Ok(())
}

/// Refuses a file that another user may read. None if there is no file.
fn check_file(path: &Path, me: u32) -> Result<Option<()>> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("look at {}", path.display())),
    };
    let path = path.display();
    ensure!(found.is_file(), "{path} is no file of its own: a link may lead to where others read");
    if found.uid() != me && found.uid() != 0 {
        bail!("{path} belongs to the user {}, who can read it", found.uid());
    }
    ensure!(found.mode() & 0o077 == 0, "others may read {path}\n  hint: chmod 600 {path}");
    Ok(Some(()))
}

/// A folder for this user alone, which ends with its value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn make(name: &str) -> Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}-{number}", std::process::id()));
        // It fails if somebody has made one with this name.
        DirBuilder::new().mode(0o700).create(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
