//! Clients that people use, whose programs the tests run: their sources, and where `cargo xtask test` puts what they need.

use std::path::PathBuf;
use std::process::Command;

use crate::{target_directory, workspace};

/// The sources of the client programs.
pub fn sources() -> PathBuf {
    workspace().join("dev/end_to_end/clients")
}

/// The virtual environment with the packages of `python/requirements.txt`.
pub fn python_environment() -> PathBuf {
    target_directory().join("clients/python")
}

/// The folder that holds `node_modules`.
pub fn node_project() -> PathBuf {
    target_directory().join("clients/node")
}

/// The folder that holds Maven's repository and, in `lib`, what `java/checksums.txt` lists.
pub fn java_project() -> PathBuf {
    target_directory().join("clients/java")
}

/// The folder that holds Go's modules and cache.
pub fn go_home() -> PathBuf {
    target_directory().join("clients/go")
}

/// Go with its caches under our target directory.
pub fn go() -> Command {
    let home = go_home();
    let mut go = Command::new("go");
    go.current_dir(sources().join("go"))
        .env("GOMODCACHE", home.join("modules"))
        .env("GOCACHE", home.join("cache"))
        // In a checkout of another user, Go would fail when it queries git. Programs that run for a second are built without what
        // makes them fast and what debuggers read: with an empty cache that takes two thirds of the CPU time.
        .env("GOFLAGS", "-modcacherw -buildvcs=false '-gcflags=all=-l -dwarf=false' -ldflags=-w")
        .env("CGO_ENABLED", "0")
        .env("GOTOOLCHAIN", "local");
    go
}
