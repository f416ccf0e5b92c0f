//! `evenkeel replay`: deletes of an async log, sent to the servers that have missed them.
//!
//! Here are the command line, signals, and what a person or program reads; the work is done by the crate [`replay`].

mod outcome;
mod progress;

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::value_parser;
use os::signals::{Ignored, Signal, Signals};
use replay::{ReplayOptions, ReplayTally};
use rustls::ClientConfig;
use tls::{ClientSettings, ClientTls, NameCheck};
use wire::ServerAddress;

use crate::failure::Failure;
use crate::terminal::log;
use crate::terminal::output::print;
use progress::ProgressLine;

/// Something is left: a server does not answer, or refuses (EX_TEMPFAIL).
const STATUS_LEFT: u8 = 75;
/// Lines that are no deletes were moved out of the way (EX_DATAERR).
const STATUS_REFUSED: u8 = 65;
/// A file cannot be read, or what is left of it cannot be written (EX_OSERR).
const STATUS_SYSTEM: u8 = 71;

/// Exit statuses, for the man page.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "All deletes are sent, but for those of files in use; or --follow was ended by a signal."),
    ("65", "All deletes are sent, but lines that are no deletes were moved out of the way."),
    ("75", "Some deletes are left: a server does not answer, or answers with an error."),
    ("71", "Some are left: a file cannot be read, or what is left of it cannot be written."),
    ("64", "The command line is wrong."),
    ("130, 143", "A signal ended it before all was sent."),
];

/// Send the deletes of an async log
///
/// `evenkeel route` and mcrouter write deletes that do not reach their server to files (--async-dir). This sends them once the
/// server is back, the oldest file first, and removes files that are done. Files that a router writes to are left alone.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder of the log, as given to the router
    #[arg(short, long, value_name = "DIR", default_value = "/var/spool/mcrouter")]
    async_dir: PathBuf,
    /// Router for deletes whose record names a pool (AS2.0), as HOST:PORT or unix:PATH; without it they go, as all others
    /// do, to the server that the record names
    #[arg(long, value_name = "ADDR", value_parser = address)]
    router: Option<String>,
    /// Go on with what comes, until a signal
    #[arg(long)]
    follow: bool,
    /// Deletes in a second, to all servers together; without it, as many as they take
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=10_000_000))]
    rate: Option<u32>,
    /// Deletes of each server on their way at a time
    #[arg(long, value_name = "N", default_value = "256", value_parser = window)]
    window: usize,
    /// Time to connect to a server, and for its replies to what is on its way, in ms
    #[arg(short, long, value_name = "MS", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=3_600_000))]
    timeout: u32,
    /// End when nothing could be sent for so many seconds; 0: try each file once
    #[arg(long, value_name = "S", default_value_t = 60, conflicts_with = "follow")]
    give_up_after: u32,
    /// Encrypt connections
    #[arg(long)]
    tls: bool,
    /// Of --tls: trust the authorities whose certificates are in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "tls", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    tls_ca: PathBuf,
    /// Of --tls: trust any certificate
    #[arg(long, requires = "tls")]
    tls_insecure: bool,
    /// Of --tls: the certificate to show to servers (PEM)
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Of --tls: its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Send nothing and change nothing: count what would be sent, and to whom
    #[arg(long, conflicts_with = "follow")]
    dry_run: bool,
    /// Print the counts as JSON
    #[arg(long)]
    json: bool,
}

fn address(text: &str) -> Result<String, String> {
    match ServerAddress::parse(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected HOST:PORT, [ADDRESS]:PORT or unix:PATH".to_owned()),
    }
}

/// 4096 of the longest keys are 1 MB: what the kernel takes for a connection without waiting for replies.
fn window(text: &str) -> Result<usize, String> {
    let window = text.parse().ok().filter(|window| (1..=4096).contains(window));
    window.ok_or_else(|| "expected a number from 1 to 4096".to_owned())
}

/// Replays a log.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // Before there are threads: a signal is to find the one that ends the replay.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    // A file-size limit is an error of one file, too.
    os::signals::survive_file_size_limit();
    let (ignored, first) = (Ignored::now(), Cell::new(None));
    let is_asked_to_end = || {
        match (signals.take().filter(|signal| !ignored.has(*signal)), first.get()) {
            // Nothing is lost at any moment.
            (Some(signal), Some(_)) => std::process::exit(signal.status().into()),
            (Some(signal), None) => first.set(Some(signal)),
            (None, _) => {}
        }
        first.get().is_some()
    };
    let tls = arguments.tls.then(|| client_tls(arguments)).transpose()?;
    let options = options(arguments, tls);
    let tally = match arguments.dry_run {
        true => replay::dry_run(&options)?,
        false => {
            let mut line = ProgressLine::new(!arguments.follow);
            replay::replay(&options, &is_asked_to_end, &mut |step| line.take(step))?
        }
    };
    let text = match arguments.json {
        true => outcome::json(&tally, arguments.dry_run),
        false => outcome::text(&tally, arguments.dry_run),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::from(status(arguments, &tally, first.get())))
}

fn options(arguments: &Arguments, tls: Option<Arc<ClientConfig>>) -> ReplayOptions {
    ReplayOptions {
        async_dir: arguments.async_dir.clone(),
        router: arguments.router.clone(),
        follow: arguments.follow,
        rate: arguments.rate,
        window: arguments.window,
        timeout: Duration::from_millis(arguments.timeout.into()),
        give_up_after: Duration::from_secs(arguments.give_up_after.into()),
        tls,
        notice: |level, line| log::log(level, "replay", line),
    }
}

fn status(arguments: &Arguments, tally: &ReplayTally, signal: Option<Signal>) -> u8 {
    match signal {
        Some(_) if arguments.follow => 0,
        Some(signal) => signal.status(),
        None if tally.trouble.is_some() => STATUS_SYSTEM,
        None if tally.files_left > 0 => STATUS_LEFT,
        None if tally.refused > 0 => STATUS_REFUSED,
        None => 0,
    }
}

fn client_tls(arguments: &Arguments) -> Result<Arc<ClientConfig>, Failure> {
    let settings = ClientSettings {
        own: arguments.tls_cert.clone().zip(arguments.tls_key.clone()),
        authorities: (!arguments.tls_insecure).then(|| arguments.tls_ca.clone()),
        names: NameCheck::Host,
        resumes: true,
    };
    let (tls, warnings) = ClientTls::load(settings).map_err(Failure::unreadable)?;
    warnings.iter().for_each(|warning| log::warning("replay", format_args!("{warning}")));
    Ok(tls.current())
}
