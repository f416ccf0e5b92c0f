//! Advice for a workload of a file, or of what runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use advise::catalogue::{CATALOGUE_LEN_MAX, Catalogue};
use advise::report::{self, AdviceQuestion};
use advise::running::ServerSeen;
use advise::{
    AroundFleet, AroundServer, COSTS_LEN_MAX, WORKLOAD_LEN_MAX, fleet_workloads, parse_workload,
    replace_costs, usual_inputs,
};
use clap::value_parser;
use control::ControlPlace;
use fleet::advise::{AdviceInputs, CacheWorkload, HostShape};
use serde_json::Value;
use wire::ServerAddress;

use super::running::{self, RunningArguments};
use super::server;
use crate::control::Credentials;
use crate::failure::{Failure, say};
use crate::peers::prometheus::PrometheusServer;
use crate::process::bounded_file::read_at_most;
use crate::terminal::output::print;

/// No shape carries the workload.
const STATUS_NONE: u8 = 20;
/// A file says something that is not accepted (EX_DATAERR).
pub(super) const STATUS_FILE: u8 = 65;

/// Exit statuses.
pub(crate) const STATUSES: [(&str, &str); 6] = [
    ("0", "There is an answer."),
    ("20", "No shape of the catalogue carries the workload; the answer says why."),
    ("64", "The command line is wrong: also a family or a cloud that the catalogue does not have."),
    ("65", "A file says something that is not accepted, or the server's statistics are no workload."),
    ("69", "The server, the controller or Prometheus does not answer."),
    ("71", "The system refused: a file cannot be read or written."),
];

/// Which machines a workload needs, how many, what binds, what it costs
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// A file with the workload (docs/advise/README.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["server", "control"])]
    workload: Option<PathBuf>,
    /// HOST:PORT or unix:PATH of a memcached or an Evenkeel, whose statistics are read twice
    #[arg(long, value_name = "ADDR", value_parser = address, group = "place")]
    pub(super) server: Option<ServerAddress>,
    /// With --server: HOST:PORT of its --metrics-listen, which has what `stats` does not
    #[arg(long, value_name = "ADDR", value_parser = metrics_page, requires = "server")]
    pub(super) metrics: Option<PrometheusServer>,
    /// Controllers, as HOST:PORT or unix:PATH, of which the first that answers has figures of all servers
    #[arg(long, value_name = "ADDR,ADDR", value_delimiter = ',', value_parser = str::parse::<ControlPlace>, group = "place")]
    pub(super) control: Vec<ControlPlace>,
    /// With --control: this cluster alone
    #[arg(long, value_name = "NAME", requires = "control")]
    pub(super) cluster: Option<String>,
    #[command(flatten)]
    pub(super) credentials: Credentials,
    #[command(flatten)]
    pub(super) running: RunningArguments,
    /// With --server: seconds between the two readings
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=3600), requires = "server", conflicts_with = "workload")]
    pub(super) seconds: u32,
    /// With --server: how many servers like it the cluster has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000), requires = "server", conflicts_with = "workload")]
    servers: u32,
    /// The busiest minute as a multiple of what is measured now
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, requires = "place", conflicts_with = "workload")]
    pub(super) peak: f64,
    /// The 99th percentile of latency that is wanted from measured servers, in ms
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = positive, requires = "place", conflicts_with = "workload")]
    p99: f64,
    /// Zones over which measured servers are spread [1; with --control those that they are in]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=16), requires = "place", conflicts_with = "workload")]
    zones: Option<u32>,
    /// The other zones carry everything when one is lost
    #[arg(long, requires = "place", conflicts_with = "workload")]
    survive_zone: bool,
    /// A catalogue of your own, put over the built-in one; repeatable
    #[arg(long, value_name = "FILE")]
    catalogue: Vec<PathBuf>,
    /// Costs and assumptions of your own, put over the measured ones
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// The region of the prices
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    region: String,
    /// Only shapes of this cloud
    #[arg(long, value_name = "CLOUD")]
    cloud: Option<String>,
    /// Only shapes of these families: r5,c5
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    family: Vec<String>,
    /// Print JSON, with the source of each figure
    #[arg(long)]
    pub(super) json: bool,
    /// Also write a picture, as SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// The share of each limit that the busiest minute of a measured server may use, as where a file does not say it.
const HEADROOM: f64 = 0.75;

fn address(text: &str) -> Result<ServerAddress, String> {
    ServerAddress::parse(text).ok_or_else(|| "expected HOST:PORT or unix:PATH".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn factor(text: &str) -> Result<f64, String> {
    positive(text)
        .ok()
        .filter(|factor| (0.01..=1000.0).contains(factor))
        .ok_or_else(|| "expected a factor from 0.01 to 1000, such as 2.5".to_owned())
}

fn metrics_page(text: &str) -> Result<PrometheusServer, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text);
    PrometheusServer::parse(&format!("http://{bare}")).map_err(|_| "expected HOST:PORT".to_owned())
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.running.is_asked() {
        return running::run(arguments);
    }
    let shapes = shapes(arguments)?;
    let costs = arguments.costs.as_deref().map(|path| text_of(path, COSTS_LEN_MAX)).transpose()?;
    let workloads = workloads(arguments)?;
    if workloads.len() > 1 && arguments.picture.is_some() {
        let hint = "name one of them (--cluster)".to_owned();
        let what = format!("--picture: expected one workload, found {} clusters", workloads.len());
        return Err(Failure::usage(what, Some(hint)));
    }
    let (mut answers, mut has_all) = (Vec::new(), true);
    for (workload, seen) in workloads {
        let mut inputs = usual_inputs(workload);
        if let (Some(text), Some(path)) = (&costs, &arguments.costs) {
            replace_costs(&mut inputs, text).map_err(|error| of_file(path, error))?;
        }
        let (answer, has_shape) = answer(arguments, &inputs, &shapes)?;
        answers.push(with_seen(answer, seen, arguments.json));
        has_all &= has_shape;
    }
    let text = match arguments.json && !arguments.control.is_empty() {
        true => format!("[\n{}]\n", answers.join(",\n")),
        false => answers.join("\n"),
    };
    print(text.as_bytes())?;
    Ok(if has_all { ExitCode::SUCCESS } else { ExitCode::from(STATUS_NONE) })
}

/// The answer for one workload, and whether a shape carries it.
fn answer(
    arguments: &Arguments,
    inputs: &AdviceInputs,
    shapes: &[HostShape],
) -> Result<(String, bool), Failure> {
    let advice = fleet::advise::advise(inputs, shapes, &arguments.region)
        .map_err(|error| Failure::other(error).with_status(STATUS_FILE))?;
    let asked = AdviceQuestion { inputs, region: &arguments.region };
    if let Some(path) = &arguments.picture {
        os::file::replace(path, report::picture(&advice, &asked))
            .map_err(|error| Failure::system(format!("write {}", path.display()), error))?;
    }
    let text = match arguments.json {
        true => report::json(&advice, &asked),
        false => report::text(&advice, &asked),
    };
    Ok((text, !advice.best.is_empty()))
}

/// An answer with what was seen at the server that it is about.
fn with_seen(answer: String, seen: Option<ServerSeen>, is_json: bool) -> String {
    let Some(seen) = seen else { return answer };
    if !is_json {
        return answer + &seen.text();
    }
    let mut document: Value = serde_json::from_str(&answer).expect("it was just written as JSON");
    document["seen"] = seen.json();
    format!("{document:#}\n")
}

/// One, or one of each cluster, and what was seen beside it.
fn workloads(arguments: &Arguments) -> Result<Vec<(CacheWorkload, Option<ServerSeen>)>, Failure> {
    if arguments.control.is_empty() {
        return workload(arguments).map(|workload| vec![workload]);
    }
    let around = AroundFleet {
        cluster: arguments.cluster.as_deref(),
        peak: arguments.peak,
        p99_ms: arguments.p99,
        zones: arguments.zones,
        survives_zone: arguments.survive_zone,
        headroom: HEADROOM,
    };
    let figures = running::figures(arguments)?;
    let workloads = fleet_workloads(&figures, &around);
    let workloads = workloads.map_err(|error| Failure::other(error).with_status(STATUS_FILE))?;
    Ok(workloads.into_iter().map(|workload| (workload, None)).collect())
}

fn workload(arguments: &Arguments) -> Result<(CacheWorkload, Option<ServerSeen>), Failure> {
    let Some(path) = &arguments.workload else {
        let Some(place) = &arguments.server else {
            let hint = "docs/advise/README.md has a file to begin with".to_owned();
            return Err(Failure::usage(
                "expected --workload FILE, --server ADDR or --control ADDR, found none of them",
                Some(hint),
            ));
        };
        let zones = arguments.zones.unwrap_or(1);
        if arguments.survive_zone && zones < 2 {
            return Err(Failure::usage("--survive-zone: expected --zones of 2 or more, found 1", None));
        }
        let around = AroundServer {
            name: named(place),
            servers: arguments.servers,
            peak: arguments.peak,
            p99_ms: arguments.p99,
            zones,
            survives_zone: arguments.survive_zone,
            headroom: HEADROOM,
        };
        let measured = server::workload(place, arguments.seconds, arguments.metrics.as_ref(), &around)?;
        return Ok((measured.0, Some(measured.1)));
    };
    let text = text_of(path, WORKLOAD_LEN_MAX)?;
    let workload = parse_workload(&text).map_err(|error| of_file(path, error))?;
    Ok((workload, None))
}

pub(super) fn named(place: &ServerAddress) -> String {
    match place {
        ServerAddress::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
        ServerAddress::Tcp(host, port) => format!("{host}:{port}"),
        ServerAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// The built-in catalogue with the user's own over it.
pub(super) fn catalogue(arguments: &Arguments) -> Result<Catalogue, Failure> {
    let mut catalogue = Catalogue::built_in();
    for path in &arguments.catalogue {
        let text = text_of(path, CATALOGUE_LEN_MAX)?;
        for change in catalogue.put(&text).map_err(|error| of_file(path, error))? {
            say(format_args!("evenkeel: advise: {}: {change}", path.display()));
        }
    }
    Ok(catalogue)
}

/// The catalogue's shapes, with the user's own, of which some are asked for.
fn shapes(arguments: &Arguments) -> Result<Vec<HostShape>, Failure> {
    let catalogue = catalogue(arguments)?;
    let all: Vec<HostShape> = catalogue.shapes().map(|entry| entry.shape.clone()).collect();
    let known = |what: &str, of: fn(&HostShape) -> &String, wanted: &String| {
        if all.iter().any(|shape| of(shape) == wanted) {
            return Ok(());
        }
        let mut names: Vec<&str> = all.iter().map(|shape| of(shape).as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let hint = format!("the catalogue has {}", names.join(", "));
        Err(Failure::usage(format!("the catalogue has no {what} `{wanted}`"), Some(hint)))
    };
    for family in &arguments.family {
        known("family", |shape| &shape.family, family)?;
    }
    if let Some(cloud) = &arguments.cloud {
        known("cloud", |shape| &shape.cloud, cloud)?;
    }
    let is_asked = |shape: &&HostShape| {
        let is_of_family = arguments.family.is_empty() || arguments.family.contains(&shape.family);
        is_of_family && arguments.cloud.as_ref().is_none_or(|cloud| *cloud == shape.cloud)
    };
    let asked: Vec<HostShape> = all.iter().filter(is_asked).cloned().collect();
    let prices = || asked.iter().flat_map(|shape| &shape.prices);
    let mut regions: Vec<&str> = prices().map(|price| price.region.as_str()).collect();
    if !regions.is_empty() && !regions.contains(&arguments.region.as_str()) {
        regions.sort_unstable();
        regions.dedup();
        let hint = format!("it has prices in {} (--region)", regions.join(", "));
        let what = format!("the catalogue has no price of these shapes in the region `{}`", arguments.region);
        return Err(Failure::usage(what, Some(hint)));
    }
    Ok(asked)
}

fn of_file(path: &Path, error: impl Into<anyhow::Error>) -> Failure {
    Failure::other(error).within(path.display()).with_status(STATUS_FILE)
}

/// A text that is not longer than its reader takes.
fn text_of(path: &Path, len_max: usize) -> Result<String, Failure> {
    let text = read_at_most(path, len_max as u64)
        .map_err(|error| Failure::system(format!("read {}", path.display()), error))?;
    String::from_utf8(text).map_err(|error| of_file(path, error))
}
