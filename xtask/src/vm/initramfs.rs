//! The machine's file system: an archive of the kind that the kernel unpacks (`newc`, Documentation/driver-api/
//! early-userspace/buffer-format.rst).

use super::conversation::Conversation;
use super::modules;
use super::packages::Parts;
use crate::steps::command;
use anyhow::{Context, Result, ensure};
use end_to_end::subject::workspace;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

/// Where the machine's first program finds things.
const FOLDERS: [&str; 10] = ["dev", "proc", "sys", "tmp", "run", "etc", "bin", "var", "modules", "steps"];

/// An archive with our binary, the kernel's modules, and the conversations as one script for each step.
pub(super) fn pack(parts: &Parts, binary: &Path, conversations: &[Conversation]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|folder| archive.folder(folder));
    let sources = workspace().join("tests/vm");
    for (name, path) in [("init", sources.join("init.sh")), ("functions.sh", sources.join("functions.sh"))] {
        archive.add(name, &read(&path)?);
    }
    archive.add("bin/busybox", &read(&parts.busybox)?);
    archive.add("bin/ethtool", &read(&parts.ethtool)?);
    archive.add("bin/evenkeel", &stripped(binary, &parts.folder)?);
    for library in libraries(&[binary, &parts.ethtool])? {
        archive.add(&library.to_string_lossy()[1..], &read(&library)?);
    }
    for (number, module) in modules::in_order(&parts.modules)?.iter().enumerate() {
        archive.add(&format!("modules/{number:02}"), &read(module)?);
    }
    let steps = conversations
        .iter()
        .flat_map(|conversation| conversation.steps.iter().map(move |step| (&conversation.name, step)));
    for (number, (name, step)) in steps.enumerate() {
        let script = format!("# {name}:{}\n{}\n", step.line, step.command);
        archive.add(&format!("steps/{number:03}"), script.as_bytes());
    }
    Ok(archive.finish())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

/// Without what only debuggers read: the machine unpacks it into its memory.
fn stripped(binary: &Path, folder: &Path) -> Result<Vec<u8>> {
    let copy = folder.join("evenkeel");
    let arguments = ["--strip-all", "-o", &copy.to_string_lossy(), &binary.to_string_lossy()];
    crate::steps::run(command("strip", &arguments))?;
    read(&copy)
}

/// The shared libraries of programs, and the one that loads them.
fn libraries(programs: &[&Path]) -> Result<BTreeSet<PathBuf>> {
    let mut libraries = BTreeSet::new();
    for program in programs {
        let output = command("ldd", &[&program.to_string_lossy()]).output().context("run ldd")?;
        ensure!(output.status.success(), "ldd {}: {}", program.display(), output.status);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(!text.contains("not found"), "ldd {}: {text}", program.display());
        let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(paths.map(PathBuf::from));
    }
    Ok(libraries)
}

/// An archive in the making.
#[derive(Default)]
struct Archive {
    content: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// A folder, and those that it lies in.
    fn folder(&mut self, path: &str) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        if self.folders.insert(path.to_owned()) {
            self.entry(path, FOLDER, &[]);
        }
    }

    /// A file that may be run.
    fn add(&mut self, path: &str, content: &[u8]) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent);
        }
        self.entry(path, PROGRAM, content);
    }

    fn finish(mut self) -> Vec<u8> {
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
