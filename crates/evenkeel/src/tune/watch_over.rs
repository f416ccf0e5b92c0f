//! `evenkeel tune watch-over`: the deadline of a plan that waits for its confirmation; started by
//! `apply --confirm-within`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::arguments::Place;
use crate::failure::Failure;

/// The plan to watch over.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The journal
    journal: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let place = &arguments.place;
    tuning::undo_at_deadline(&place.root(), &place.state.request(), &arguments.journal)?;
    Ok(ExitCode::SUCCESS)
}
