//! Folders of this checkout, for all that works on it. This crate has no dependencies, so that `cargo xtask` begins soon.

use std::path::{Path, PathBuf};

pub mod clients;

/// The root of this checkout.
pub fn workspace() -> PathBuf {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    folders.nth(2).expect("dev/checkout lies two levels down").to_owned()
}

/// Cargo's target directory.
pub fn target_directory() -> PathBuf {
    workspace().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or("target".into()))
}
