//! Commands whose output is wanted.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::process::Command;

/// What a command prints. What it complains of is part of the error if it fails.
///
/// # Errors
/// Reports a program that is missing or fails, or that prints what is no text.
pub fn said(command: &mut Command) -> Result<String> {
    String::from_utf8(printed(command)?).with_context(|| format!("read what {} prints", name(command)))
}

/// The bytes that a command prints.
///
/// # Errors
/// Reports a program that is missing or fails.
pub fn printed(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("start {}", name(command)))?;
    // Programs that judge a file do so on standard output.
    let complaint = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let complaint = String::from_utf8_lossy(complaint);
    ensure!(output.status.success(), "{}: {}: {}", name(command), output.status, complaint.trim());
    Ok(output.stdout)
}

/// The command as it would be typed.
fn name(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
