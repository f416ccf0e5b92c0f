//! Archives in the kernel's format for an initial file system (`newc`,
//! Documentation/driver-api/early-userspace/buffer-format.rst). Only bytes: the caller writes them to a file.

use std::collections::BTreeSet;
use std::fmt::Write;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// An archive that is being built.
#[derive(Debug, Default)]
pub struct Archive {
    content: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a folder and its parents.
    pub fn folder(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        if self.folders.insert(path.to_owned()) {
            self.entry(path, FOLDER, &[]);
        }
    }

    /// Adds an executable file.
    pub fn add(&mut self, path: &str, content: &[u8]) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        self.entry(path, PROGRAM, content);
    }

    /// The bytes of the complete archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.content
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        // Inode, mode, owner, group, links, time, size, device (4 numbers), length of the name, checksum (none).
        let (size, name) = (content.len() as u32, path.len() as u32 + 1);
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        let mut head = "070701".to_owned();
        for field in fields {
            write!(head, "{field:08X}").expect("a string takes everything");
        }
        self.content.extend(head.as_bytes());
        self.content.extend(path.as_bytes());
        self.content.push(0);
        self.pad();
        self.content.extend(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.content.resize(self.content.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_folders_before_files_and_an_end() {
        let mut archive = Archive::default();
        archive.add("a/b", b"hello");
        let content = archive.finish();
        let text = String::from_utf8_lossy(&content);
        let head = "070701000000020000 81ED".replace(' ', "");
        let at = text.find(&head).expect("the file's head");
        assert_eq!(&text[..6], "070701");
        assert_eq!(text.find("000041ED"), Some(14), "the folder comes first");
        assert_eq!(&text[at + 54..at + 62], "00000005", "its size");
        assert_eq!(&text[at + 110..at + 114], "a/b\0");
        assert_eq!(&text[at + 116..at + 124], "hello\0\0\0");
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
        assert_eq!(content.len() % 4, 0);
    }
}
