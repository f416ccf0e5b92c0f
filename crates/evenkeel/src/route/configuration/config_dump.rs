//! Copies of the last configuration that was good (`--config-dump-root`), with which a router can start if the files are not
//! good then. Folders and names are mcrouter's.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use os::DirectoryEntry;
use router::flags::RouteOptions;

use super::read;
use crate::route::lines::notice;

/// Whoever runs the router next may be another user of the group.
const MODE: u32 = 0o664;

/// A folder with copies.
#[derive(Clone, Debug)]
pub(crate) struct ConfigDump {
    folder: PathBuf,
    /// Older copies are not used.
    age_max: Duration,
    /// The last failure was reported.
    has_complained: bool,
}

impl ConfigDump {
    /// `None` without `--config-dump-root`.
    pub(crate) fn new(options: &RouteOptions) -> Option<ConfigDump> {
        let root = options.config_dump_root.as_ref()?;
        let folder = root.join(&options.service_name).join(options.name_of_router());
        let age_max = Duration::from_secs(options.config_dump_age_max_s);
        Some(ConfigDump { folder, age_max, has_complained: false })
    }

    /// Keeps the files of a configuration that is good. A failure is a line, once: requests are routed without copies.
    pub(crate) fn keep(&mut self, files: &[(PathBuf, Vec<u8>)]) {
        let result = files.iter().try_for_each(|(path, text)| self.keep_one(path, text));
        match result {
            Ok(()) => self.has_complained = false,
            Err(_) if self.has_complained => {}
            Err(error) => {
                self.has_complained = true;
                notice(&format!("the configuration is not kept in {}: {error}", self.folder.display()));
            }
        }
    }

    fn keep_one(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        DirectoryEntry::of(&self.copy_of(path))?.replace(MODE, |file| {
            file.set_permissions(Permissions::from_mode(MODE))?;
            file.write_all(text)
        })
    }

    /// The copy of a file, if it is not too old.
    pub(crate) fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let copy = self.copy_of(path);
        let age = fs::metadata(&copy)?.modified()?.elapsed().unwrap_or_default();
        if age > self.age_max {
            return Err(io::Error::other(format!("its copy is {} s old", age.as_secs())));
        }
        read(&copy)
    }

    fn copy_of(&self, path: &Path) -> PathBuf {
        self.folder.join(format!("file-{}", escaped(path.as_os_str().as_encoded_bytes())))
    }
}

/// As in a URI.
fn escaped(text: &[u8]) -> String {
    text.iter()
        .map(|byte| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'_' | b'.' | b'~' => {
                char::from(*byte).to_string()
            }
            other => format!("%{other:02x}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_found_until_they_are_too_old_and_failures_end_nothing() {
        let root = std::env::temp_dir().join(format!("evenkeel-dump-{}", std::process::id()));
        let options = RouteOptions {
            config_dump_root: Some(root.clone()),
            ports: vec!["5000".into()],
            ..RouteOptions::default()
        };
        let mut dump = ConfigDump::new(&options).expect("a folder");
        let file = PathBuf::from("/etc/a b.json");
        assert!(dump.read(&file).is_err());
        dump.keep(&[(file.clone(), b"{}".to_vec())]);
        assert!(root.join("mcrouter/5000/file-%2fetc%2fa%20b.json").is_file());
        assert_eq!(dump.read(&file).expect("a copy"), b"{}");
        let old = ConfigDump { age_max: Duration::ZERO, ..dump.clone() };
        assert!(old.read(&file).expect_err("too old").to_string().contains("s old"));
        // A name that no file can have.
        let long = PathBuf::from("x".repeat(300));
        dump.keep(&[(long.clone(), b"{}".to_vec())]);
        assert!(dump.has_complained && dump.read(&long).is_err());
        dump.keep(&[(file, b"{ }".to_vec())]);
        assert!(!dump.has_complained);
        assert_eq!(
            fs::read_dir(root.join("mcrouter/5000")).expect("a folder").count(),
            1,
            "nothing else is left"
        );
        fs::remove_dir_all(root).expect("it is ours");
    }
}
