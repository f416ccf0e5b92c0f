//! `conformance mcrouter-cases PATH_TO_CHECKOUT`: our configurations and command lines, held to mcrouter's own tests.
//!
//! The cases are files of a checkout of mcrouter outside of this repository, and stay there.

mod configurations;
mod options;
mod preprocessor;
mod refused;
mod tally;

use std::path::PathBuf;

use anyhow::{Result, ensure};

use tally::Tally;

/// Which checkout.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A checkout of mcrouter
    checkout: PathBuf,
    /// Print the error of each case that must be one
    #[arg(short, long)]
    verbose: bool,
}

/// Prints each difference; whether there was none.
pub(crate) fn mcrouter_cases(arguments: &Arguments) -> Result<bool> {
    let (checkout, verbose) = (arguments.checkout.as_path(), arguments.verbose);
    let mut tally = Tally::default();
    preprocessor::check(checkout, verbose, &mut tally)?;
    configurations::check(checkout, verbose, &mut tally)?;
    options::check(checkout, &mut tally)?;
    ensure!(tally.passed + tally.failed > 0, "no cases in {}", checkout.display());
    println!("{} cases as mcrouter has them, {} otherwise", tally.passed, tally.failed);
    Ok(tally.failed == 0)
}
