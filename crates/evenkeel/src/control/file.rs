//! Files that people write: policies, members, settings.

use std::path::Path;

use crate::failure::Failure;

/// A file of a bounded length.
pub(crate) fn read_file(path: &Path, len_max: u64) -> Result<String, Failure> {
    let failed = |error| Failure::system(format!("read {}", path.display()), error);
    let found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_file() || found.len() > len_max {
        let (path, len) = (path.display(), found.len());
        return Err(Failure::usage(
            format!("{path}: expected a file of {len_max} bytes at most, found {len}"),
            None,
        ));
    }
    std::fs::read_to_string(path).map_err(failed)
}
