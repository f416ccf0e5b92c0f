//! `evenkeel control top`: arguments, and asking for figures again and again.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::ask::{Place, escaped};
use crate::failure::Failure;
use crate::terminal::output::{columns, print};
use crate::top::fleet;

/// What is shown.
#[derive(Clone, Debug, Args)]
pub(super) struct TopArguments {
    /// Servers and routers of this host alone
    #[arg(long, value_name = "HOST", conflicts_with = "cluster")]
    host: Option<String>,
    /// Servers with a slot of this cluster alone
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Seconds between two questions; agents tell figures every 15 s
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Print one picture and end, also on a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    place: Place,
}

/// Pictures until `q`; one without a terminal, or as JSON.
pub(super) fn run(arguments: &TopArguments) -> Result<ExitCode, Failure> {
    let scope = [("host", &arguments.host), ("cluster", &arguments.cluster)];
    let scope = scope.into_iter().find_map(|(name, value)| Some((name, value.as_ref()?)));
    let path = match scope {
        Some((name, value)) => format!("/v1/figures?{name}={}", escaped(value)),
        None => "/v1/figures".to_owned(),
    };
    let place = arguments.place.clone();
    let is_live = !arguments.once && !place.json && io::stdin().is_terminal() && io::stdout().is_terminal();
    if is_live {
        let ask = move || -> Result<Value, String> {
            let answer = place.ask(|client, within| client.get(&path, within));
            let answer = answer.map_err(|failure| failure.in_one_line())?;
            if answer.is_ok() { Ok(answer.json) } else { Err(answer.error()) }
        };
        return fleet::show(Box::new(ask), Duration::from_secs(arguments.seconds.into()));
    }
    let answer = place.ask(|client, within| client.get(&path, within))?;
    if place.json || !answer.is_ok() {
        return place.show(&answer);
    }
    print(fleet::table(&answer.json, columns()).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
