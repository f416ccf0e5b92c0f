//! `evenkeel advise rate`: the rate of one worker, which `evenkeel load --search` can check.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use advise::{COSTS_LEN_MAX, WORKLOAD_LEN_MAX, parse_workload, replace_costs, report, usual_inputs};
use clap::value_parser;
use fleet::advise::{CpuStops, worker_rate};

use super::ask::{STATUS_FILE, of_file, text_of};
use super::clock::watch_stops;
use crate::failure::Failure;
use crate::terminal::output::print;

/// Exit statuses of `rate`.
pub(crate) const STATUSES: [(&str, &str); 5] = [
    ("0", "There is a prediction."),
    ("20", "The CPUs stop for so long that no rate keeps the latency."),
    ("64", "The command line is wrong."),
    ("65", "A file says something that is not accepted."),
    ("71", "The system refused: a file cannot be read, or a CPU is none of this process."),
];

/// No rate keeps the latency.
const STATUS_NONE: u8 = 20;

/// Predict the rate at which one worker of a server on this host reaches the latency of a workload
///
/// The costs must be those of this host. Rates of the workload count as shares of their classes. The prediction is for requests that come
/// at random from many connections, on a CPU that the worker has for itself.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// A file with the workload (docs/advise/README.md)
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// Costs and assumptions of this host, put over the measured ones
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// CPUs to watch for stops first: the server's, and that of the load which checks it, as 0,1
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = value_parser!(u16).range(0..=1023), required_unless_present = "stops", conflicts_with = "stops")]
    cpus: Vec<u16>,
    /// Seconds of watching
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(3..=3600), conflicts_with = "stops")]
    seconds: u32,
    /// Instead of watching: the share of the time that stops of the CPUs last beyond the target of the workload, and of shorter stops the sum of
    /// their squares by the time, in µs, as 0.001,10
    #[arg(long, value_name = "SHARE,US", value_parser = stops)]
    stops: Option<(f64, f64)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn stops(text: &str) -> Result<(f64, f64), String> {
    let parsed = text.split_once(',').and_then(|(share, us)| Some((share.parse().ok()?, us.parse().ok()?)));
    let accepted = |(share, us): &(f64, f64)| (0.0..=1.0).contains(share) && (0.0..=SHORT_MAX).contains(us);
    parsed
        .filter(accepted)
        .ok_or_else(|| "expected a share from 0 to 1 and a number of µs, as 0.001,10".to_owned())
}

/// Of squares by the time, in µs, at most: one second that stands still.
const SHORT_MAX: f64 = 1e6;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let path = &arguments.workload;
    let workload = parse_workload(&text_of(path, WORKLOAD_LEN_MAX)?).map_err(|error| of_file(path, error))?;
    let mut inputs = usual_inputs(workload);
    if let Some(path) = &arguments.costs {
        replace_costs(&mut inputs, &text_of(path, COSTS_LEN_MAX)?).map_err(|error| of_file(path, error))?;
    }
    let stops = match arguments.stops {
        Some((beyond, short_us)) => CpuStops::stated(beyond, short_us),
        None => {
            let cpus: Vec<usize> = arguments.cpus.iter().map(|cpu| usize::from(*cpu)).collect();
            let limit = Duration::from_secs_f64(inputs.workload.p99_ms.value / 1e3);
            watch_stops(&cpus, arguments.seconds, limit)
                .map_err(|error| Failure::system("watch the CPUs of --cpus", error))?
        }
    };
    let rate = worker_rate(&inputs, &stops)
        .map_err(|error| Failure::other(error).within(path.display()).with_status(STATUS_FILE))?;
    let text = match arguments.json {
        true => report::rate_json(&rate, &stops, &inputs),
        false => report::rate_text(&rate, &stops, &inputs),
    };
    print(text.as_bytes())?;
    Ok(if rate.per_s > 0.0 { ExitCode::SUCCESS } else { ExitCode::from(STATUS_NONE) })
}
