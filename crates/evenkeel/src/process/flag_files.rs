//! Files whose flags this process was started with, and whether they have changed since.
//!
//! A file that changes changes no flag of a process that runs. Who changes it, or sees it change in a pod, learns here whether the
//! process knows the new one.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::control::read_file;

/// Longest file in bytes: all flags of a server, each with a page of comments.
pub(crate) const FILE_LEN_MAX: u64 = 256 * 1024;

/// A command line is the process's, and so are its files.
static FILES: Mutex<Vec<FlagFile>> = Mutex::new(Vec::new());

/// A file as it was read at the start.
struct FlagFile {
    path: PathBuf,
    sha256: String,
}

/// A file of this path had this content when the command line was read.
pub(crate) fn note(path: &Path, content: &[u8]) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    FILES.lock().unwrap_or_else(PoisonError::into_inner).push(FlagFile { path, sha256: sha256(content) });
}

/// The field `flag_files` of a report: checksums at the start, and now. A file that cannot be read now has no second one.
pub(crate) fn report() -> Map<String, Value> {
    let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let files: Vec<Value> = files.iter().map(FlagFile::report).collect();
    Map::from_iter([("flag_files".to_owned(), files.into())])
}

impl FlagFile {
    fn report(&self) -> Value {
        let now = read_file(&self.path, FILE_LEN_MAX).ok().map(|text| sha256(text.as_bytes()));
        json!({ "path": self.path.to_string_lossy(), "sha256": self.sha256, "sha256_now": now })
    }
}

fn sha256(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_checksums_of_the_start_and_of_now() {
        let path = std::env::temp_dir().join(format!("evenkeel-flag-file-{}", std::process::id()));
        let file = FlagFile { path: path.clone(), sha256: sha256(b"-m 64\n") };
        // As sha256sum says.
        let begun = "aa30ea163b16732be88af9e02bb1771cd66ab3588b0ac429a826ebcdd63e4b63";
        assert_eq!(file.report()["sha256"], begun);
        assert_eq!(file.report()["sha256_now"], Value::Null);
        std::fs::write(&path, "-m 64\n").expect("a file");
        assert_eq!(file.report()["sha256_now"], file.report()["sha256"]);
        std::fs::write(&path, "-m 65\n").expect("a file");
        assert_ne!(file.report()["sha256_now"], file.report()["sha256"]);
        std::fs::remove_file(&path).expect("it is there");
    }
}
