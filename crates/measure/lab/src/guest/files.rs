//! Files of a machine: those that a command line names, with the libraries that they need.

use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stdx::newc::Archive;

/// The files, at the paths that they have here.
#[derive(Debug)]
pub(super) struct Files<'a> {
    /// The key in the experiment's file.
    place: &'a str,
    /// The subject's environment: LD_PRELOAD and LD_LIBRARY_PATH name libraries.
    env: &'a BTreeMap<String, String>,
    archive: Archive,
    known: BTreeSet<PathBuf>,
}

impl<'a> Files<'a> {
    pub(super) fn new(place: &'a str, env: &'a BTreeMap<String, String>) -> Files<'a> {
        Files { place, env, archive: Archive::default(), known: BTreeSet::new() }
    }

    fn wrong(&self, what: impl ToString) -> Error {
        Error::place(self.place, what)
    }

    pub(super) fn text(&mut self, path: &str, text: &str) {
        self.content(path, text.as_bytes());
    }

    pub(super) fn content(&mut self, path: &str, content: &[u8]) {
        self.archive.add(path, content);
    }

    /// A file or a directory with all that is in it.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), Error> {
        let path = std::path::absolute(path).map_err(Error::io("find", path))?;
        let failed = |error| Error::io("read", &path)(error);
        if !std::fs::metadata(&path).map_err(failed)?.is_dir() {
            return self.at(&path.to_string_lossy(), &path);
        }
        self.archive.folder(&path.to_string_lossy()[1..]);
        for entry in std::fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            // A link to a directory may lead back to this one, and sockets and the like belong to other processes.
            let is_file = kind.is_file() || (kind.is_symlink() && entry.path().is_file());
            if kind.is_dir() || is_file {
                self.add(&entry.path())?;
            }
        }
        Ok(())
    }

    /// A file at another path, with what it needs.
    pub(super) fn at(&mut self, path: &str, file: &Path) -> Result<(), Error> {
        if !self.known.insert(path.into()) {
            return Ok(());
        }
        let content = std::fs::read(file).map_err(Error::io("read", file))?;
        self.archive.add(path.trim_start_matches('/'), &content);
        if content.starts_with(b"\x7fELF") {
            for library in self.libraries(file)? {
                self.at(&library.to_string_lossy(), &library)?;
            }
        } else if let Some(line) = content.strip_prefix(b"#!") {
            let line = String::from_utf8_lossy(line.split(|byte| *byte == b'\n').next().unwrap_or_default());
            if let Some(shell) = line.split_whitespace().map(Path::new).find(|path| path.is_file()) {
                self.at(&shell.to_string_lossy(), shell)?;
            }
        }
        Ok(())
    }

    /// The words of a command line that are files, or programs on the path.
    pub(super) fn named_in(&mut self, line: &str) -> Result<(), Error> {
        for word in line.split(|c: char| c.is_whitespace() || "\"'`$();|&<>=,:".contains(c)) {
            let found = match word.contains('/') {
                true => Some(PathBuf::from(word)).filter(|path| path.is_file() && !is_of_the_kernel(path)),
                false => program(word),
            };
            if let Some(path) = found {
                self.add(&path)?;
            }
        }
        Ok(())
    }

    fn libraries(&self, program: &Path) -> Result<BTreeSet<PathBuf>, Error> {
        let output = Command::new("ldd").arg(program).envs(self.env).stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.wrong(format!("start ldd: {error}")))?;
        let (said, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // The error would only be in a log, and the program would run without it.
        if let Some(line) = errors.lines().find(|line| line.contains("cannot be preloaded")) {
            return Err(self.wrong(line));
        }
        if let Some(line) = said.lines().find(|line| line.contains("not found")) {
            return Err(self.wrong(format!("{} needs {}", program.display(), line.trim())));
        }
        // A program that needs none makes ldd end with another status, which is no error.
        Ok(said.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.archive.finish()
    }
}

/// The machine has its own.
fn is_of_the_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|folder| path.starts_with(folder))
}

/// Where a shell finds it.
pub(super) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let is_program = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    (!name.is_empty())
        .then(|| std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn packed(env: &BTreeMap<String, String>, pack: impl FnOnce(&mut Files)) -> BTreeSet<PathBuf> {
        let mut files = Files::new("here", env);
        pack(&mut files);
        files.known
    }

    #[test]
    fn what_a_command_line_names_is_there_with_its_libraries() {
        let scratch = Scratch::new("guest-files");
        let settings = scratch.path().join("settings");
        std::fs::write(&settings, "").expect("written");
        let line = format!("cat /proc/cmdline; A=b exec 'ls' --color={} /nowhere no-ls", settings.display());
        let known = packed(&BTreeMap::new(), |files| files.named_in(&line).expect("they are here"));
        let has = |end: &str| known.iter().any(|path| path.to_string_lossy().contains(end));
        assert!(known.contains(&settings) && has("/ls") && has("/libc.so") && has("/ld-linux"), "{known:?}");
        assert!(!has("nowhere") && !has("no-ls") && !has("/proc"), "{known:?}");
    }

    #[test]
    fn a_directory_is_there_with_all_that_is_in_it() {
        let scratch = Scratch::new("guest-folder");
        let inner = scratch.path().join("a/b");
        std::fs::create_dir_all(&inner).expect("a directory");
        std::fs::write(inner.join("file"), "text").expect("written");
        std::fs::write(inner.join("script"), "#!/bin/sh -e\n").expect("written");
        std::os::unix::fs::symlink("..", inner.join("back")).expect("a link");
        let known = packed(&BTreeMap::new(), |files| files.add(scratch.path()).expect("it is here"));
        assert!(known.contains(&inner.join("file")) && known.contains(Path::new("/bin/sh")), "{known:?}");
        let missing =
            Files::new("here", &BTreeMap::new()).add(&scratch.path().join("no")).map_err(|it| it.to_string());
        assert!(missing.is_err_and(|error| error.starts_with("read ")));
    }

    #[test]
    fn a_library_that_cannot_be_preloaded_is_refused() {
        let env = BTreeMap::from([("LD_PRELOAD".to_owned(), "libnowhere.so.7".to_owned())]);
        let ls = program("ls").expect("it is everywhere");
        let error = Files::new("here", &env).add(&ls).expect_err("nowhere").to_string();
        assert!(error.contains("libnowhere.so.7") && error.starts_with("carry out here: "), "{error}");
    }
}
