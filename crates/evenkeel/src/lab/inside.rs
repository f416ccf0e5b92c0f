//! `evenkeel lab inside`: the part of a trial that runs in a subject's virtual machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use lab::Halt;
use lab::guest::inside::{GuestTask, inside};

use crate::failure::Failure;
use crate::terminal::output::print;

/// Arguments from `lab run`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The strategy
    #[arg(long, value_name = "NAME")]
    strategy: String,
    /// The machine's interface
    #[arg(long, value_name = "NAME")]
    nic: String,
    /// The subject's process
    #[arg(long, value_name = "PID")]
    subject: u32,
    /// Where to write samples
    #[arg(long, value_name = "FILE")]
    samples: PathBuf,
    /// From a sample to the next
    #[arg(long, value_name = "SECONDS")]
    every: u32,
    /// For the journal of the strategy
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
}

pub(super) fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Arguments { strategy, nic, subject, samples, every, state } = arguments;
    let every = Duration::from_secs(every.into());
    let asked = GuestTask { strategy, nic, subject, samples, every, state };
    // A console that cannot be written to has no reader.
    let Err(error) =
        inside(&asked, &Halt::default(), &mut |line| drop(print(format!("{line}\n").as_bytes())));
    Err(Failure::other(error))
}
