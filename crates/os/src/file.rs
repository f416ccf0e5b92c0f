//! Atomic replacement of files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces a file atomically: a reader gets the old or the new content.
pub fn replace(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let replaced = write_new(Path::new(&beside), text.as_ref()).and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        // Of a full disk, no half of a file is left. If that fails, too, the error is the first.
        let _ = fs::remove_file(&beside);
    }
    replaced
}

/// Writes a file anew. What stands in its place is not written into: a link may lead anywhere, and a pipe without a reader
/// would keep the caller waiting.
fn write_new(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)?.write_all(text)
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

    #[test]
    fn a_link_in_the_place_of_the_temporary_file_is_not_followed() {
        let directory = std::env::temp_dir().join(format!("os-file-link-{}", std::process::id()));
        fs::create_dir(&directory).expect("a directory of our own");
        let (path, other) = (directory.join("a"), directory.join("other"));
        fs::write(&other, "other").expect("written");
        std::os::unix::fs::symlink(&other, directory.join("a.new")).expect("a link");
        replace(&path, "new").expect("it can be written");
        assert_eq!(fs::read_to_string(&other).expect("it is there"), "other");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new");
        assert!(!path.is_symlink());
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}
