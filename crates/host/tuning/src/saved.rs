//! Plans and intents in files.

use std::path::Path;

use tuner::Root;
use tuner::apply::saved::{PlanOrigin, Saved};
use tuner::persist::intent::Intent;
use tuner::plan::Plan;

use crate::error::Error;

/// A plan from a file, if it was made on this host and has only known settings.
pub(crate) fn plan(path: &Path, root: &Root) -> Result<Plan, Error> {
    let what = || format!("read the plan {}", path.display());
    let hint = "`evenkeel tune plan --json` makes one, for this host as it is now";
    let text = std::fs::read(path).map_err(|error| Error::system(what(), error))?;
    let saved: Saved = serde_json::from_slice(&text)
        .map_err(|error| Error::request(format_args!("{}: {error}", what())).with_hint(hint))?;
    saved.check(&PlanOrigin::of(root).map_err(Error::other)?).map_err(|refused| {
        Error::refused(format_args!("carry out the plan {}: {refused}", path.display())).with_hint(hint)
    })?;
    Ok(saved.plan)
}

/// An intent from a file.
pub(crate) fn intent(path: &Path) -> Result<Intent, Error> {
    let what = format!("read the intent {}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| Error::system(what, error))?;
    Intent::parse(&text).map_err(Error::other)
}
