//! Atomic replacement of files.

use std::fs;
use std::io;
use std::path::Path;

/// Replaces a file atomically: a reader gets the old or the new content.
pub fn replace(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let replaced = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        // Of a full disk, no half of a file is left. If that fails, too, the error is the first.
        let _ = fs::remove_file(&beside);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_temporary_file_is_left() {
        let directory = std::env::temp_dir().join(format!("os-file-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory of our own");
        let path = directory.join("a.prom");
        for text in ["old", "new"] {
            replace(&path, text).expect("it can be written");
            assert_eq!(fs::read_to_string(&path).expect("it is there"), text);
        }
        assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 1);
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}
