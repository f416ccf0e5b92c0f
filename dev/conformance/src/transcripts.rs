//! `conformance transcripts PATH_TO_SERVER`: how any server differs from the transcripts.

use anyhow::Result;
use end_to_end::judge::judge;
use end_to_end::subject::ServerUnderTest;
use std::path::PathBuf;

/// Which server.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A memcached, or another program that takes its flags
    server: PathBuf,
    /// Over TLS; a memcached must be built with it
    #[arg(long)]
    tls: bool,
    /// What stands before memcached's flags, such as `serve --driver epoll`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Prints each difference; whether there was none.
pub(crate) fn transcripts(arguments: &Arguments) -> Result<bool> {
    let subject = ServerUnderTest::given(&arguments.server, &arguments.arguments)?;
    let subject = if arguments.tls { subject.over_tls() } else { subject };
    let verdict = judge(&subject, &transcript::all());
    println!("{}: {verdict}", subject.name);
    Ok(verdict.failures.is_empty())
}
