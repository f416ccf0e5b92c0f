//! Results as files for programs.

use crate::types::arguments::Arguments;
use crate::types::error::Error;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Reports before a run that its result could not be written after it; an existing file is left alone.
pub(crate) fn check_json(arguments: &Arguments) -> Result<(), Error> {
    let Some(path) = &arguments.json else { return Ok(()) };
    arguments.run.json()?;
    let opened = fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|source| Error::Output { path: path.clone(), source })
}

/// Writes a result to `path` as JSON.
pub(crate) fn write_json(result: &impl Serialize, path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Output { path: path.to_path_buf(), source };
    let mut text = serde_json::to_string_pretty(result).map_err(|error| failed(error.into()))?;
    text.push('\n');
    fs::write(path, text).map_err(failed)
}
