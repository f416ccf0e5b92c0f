//! Programs that tests need, the binary that they pack, and folders for what they make.

use checkout::{target_directory, workspace};
use ship::Workshop;
use ship::programs::GoProgram;
use std::path::{Path, PathBuf};

/// Whether tests run that take long, and nothing may be left out.
pub(crate) fn is_thorough() -> bool {
    std::env::var_os("EVENKEEL_TEST_ALL").is_some_and(|value| value == "1")
}

/// Says what is left out, and why. A thorough run must leave out nothing.
pub(crate) fn leave_out(why: &str) -> bool {
    assert!(!is_thorough(), "left out: {why}");
    eprintln!("left out: {why}");
    false
}

/// Whether these programs are here, each given with where it comes from. If not, it says so.
pub(crate) fn have(programs: &[(&str, &str)]) -> bool {
    match programs.iter().find(|(name, _)| !is_installed(name)) {
        None => true,
        Some((name, source)) => leave_out(&format!("there is no {name} ({source})")),
    }
}

/// Whether a program is built already, or may be built now because the run is thorough.
pub(crate) fn have_built(program: GoProgram) -> bool {
    if program.place().exists() || is_thorough() && is_installed("go") {
        return true;
    }
    leave_out(&format!("there is no {} yet (`cargo xtask dist` builds it)", program.name))
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian has them where only root's PATH leads.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.into_iter().any(|folder: PathBuf| folder.join(name).is_file())
}

/// The binary: the one that `EVENKEEL_BIN` names, or the one that cargo has built for tests.
pub(crate) fn binary() -> Option<PathBuf> {
    let built = || target_directory().join("debug/evenkeel");
    let path = std::env::var_os("EVENKEEL_BIN").map_or_else(built, PathBuf::from);
    if !path.exists() {
        leave_out(&format!("there is no {} (`cargo build -p evenkeel`)", path.display()));
        return None;
    }
    Some(path)
}

/// What artefacts of tests are made from: this binary, in a folder of this name.
pub(crate) fn workshop(binary: &Path, name: &str) -> Workshop {
    Workshop {
        root: workspace(),
        out: target_directory().join("ship-tests").join(name),
        binary: binary.to_owned(),
        static_binary: None,
        speaker: binary.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        epoch_s: 1_764_460_800,
        keys: None,
    }
}
