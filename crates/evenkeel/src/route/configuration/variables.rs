//! Runtime variables of a router (`--runtime-vars-file`): a file that is read again when it has changed.
//!
//! A file that cannot be used changes nothing, and a line says why.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use router::RoutePlan;
use router::config::Json;
use router::config::json::parse;

use crate::process::bounded_file::read_at_most;
use crate::process::watched::WatchedFiles;
use crate::route::lines::notice;

/// The longest file: weights of 10,000 servers for each of several pools.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// Lines about one change: each of many routes may find something wrong with it.
const LINES_MAX: usize = 10;

pub(crate) struct Variables {
    path: Option<PathBuf>,
    seen: WatchedFiles,
    present: Option<Arc<Json>>,
}

impl Variables {
    /// Reads the file, if there is one.
    pub(crate) fn new(path: Option<PathBuf>) -> Variables {
        let mut variables = Variables { path, seen: WatchedFiles::default(), present: None };
        variables.read();
        variables
    }

    /// Those of the last file that could be used.
    pub(crate) fn present(&self) -> Option<Arc<Json>> {
        self.present.clone()
    }

    /// Reads the file if it has changed, and hands its variables to the plan.
    pub(crate) fn look(&mut self, plan: impl FnOnce() -> Arc<RoutePlan>) {
        if self.seen.has_changed() && self.read() {
            let Some(variables) = &self.present else { return };
            let wrong = plan().update_variables(variables);
            for error in wrong.iter().take(LINES_MAX) {
                notice(&format!("a runtime variable stays as it was: {error}"));
            }
            match wrong.len().saturating_sub(LINES_MAX) {
                0 => {}
                more => notice(&format!("{more} more runtime variables stay as they were")),
            }
        }
    }

    /// Whether there are new variables.
    fn read(&mut self) -> bool {
        let Some(path) = &self.path else { return false };
        self.seen = WatchedFiles::default();
        self.seen.add(path);
        match variables(path) {
            Ok(variables) => {
                self.present = Some(Arc::new(variables));
                true
            }
            Err(error) => {
                notice(&format!("runtime variables stay as they were: {}: {error}", path.display()));
                false
            }
        }
    }
}

fn variables(path: &Path) -> Result<Json, String> {
    // A pipe would keep this thread waiting.
    if !fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("expected a file, found something else".to_owned());
    }
    let text = read_at_most(path, FILE_LEN_MAX).map_err(|error| error.to_string())?;
    let json = parse(0, &text).map_err(|error| error.to_string())?;
    json.object("runtime variables").map_err(|error| error.to_string())?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_changes_nothing() {
        let folder = std::env::temp_dir().join(format!("evenkeel-variables-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("variables.json");
        let mut variables = Variables::new(Some(path.clone()));
        assert_eq!(variables.present(), None, "there is no file");
        let mut step = |bytes: Option<&[u8]>, expected: &str| {
            match bytes {
                Some(bytes) => fs::write(&path, bytes).expect("written"),
                None => fs::remove_file(&path).expect("removed"),
            }
            variables.look(Arc::default);
            let present = variables.present().expect("variables");
            assert!(present.object("variables").expect("an object").get(expected).is_some(), "{bytes:?}");
        };
        step(Some(b"{\"a\": 1}"), "a");
        step(Some(b"{\"b\": 1, "), "a");
        step(Some(b"[]"), "a");
        step(None, "a");
        step(Some(b"{\"b\": 1} // with a comment"), "b");
        step(Some(&[b' '; FILE_LEN_MAX as usize + 1]), "b");
        step(Some(b""), "b");
        step(Some(b"{\"c\": []}"), "c");
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder in its place");
        variables.look(Arc::default);
        assert!(variables.present().is_some());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
