//! Advice for a workload of a file, or of what runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use advise::catalogue::{CATALOGUE_LEN_MAX, Catalogue};
use advise::report::{self, AdviceQuestion};
use advise::running::ServerSeen;
use advise::{
    AroundFleet, AroundServer, AroundTrace, COSTS_LEN_MAX, TraceSums, TracedClass, TracedRequest,
    WORKLOAD_LEN_MAX, fleet_workloads, parse_workload, replace_costs, usual_inputs,
};
use clap::value_parser;
use control::ControlPlace;
use fleet::advise::{AdviceInputs, CacheWorkload, HostShape, ShapePrice};
use load::TraceClass;
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
    #[arg(long, value_name = "FILE", conflicts_with = "measured")]
    workload: Option<PathBuf>,
    /// HOST:PORT or unix:PATH of a memcached or an Evenkeel, whose statistics are read twice
    #[arg(long, value_name = "ADDR", value_parser = address, group = "measured")]
    pub(super) server: Option<ServerAddress>,
    /// With --server: HOST:PORT of its --metrics-listen, which has what `stats` does not
    #[arg(long, value_name = "ADDR", value_parser = metrics_page, requires = "server")]
    pub(super) metrics: Option<PrometheusServer>,
    /// Controllers, as HOST:PORT or unix:PATH, of which the first that answers has figures of all servers
    #[arg(long, value_name = "ADDR,ADDR", value_delimiter = ',', value_parser = str::parse::<ControlPlace>, group = "measured")]
    pub(super) control: Vec<ControlPlace>,
    /// With --control: this cluster alone
    #[arg(long, value_name = "NAME", requires = "control")]
    pub(super) cluster: Option<String>,
    #[command(flatten)]
    pub(super) credentials: Credentials,
    #[command(flatten)]
    pub(super) running: RunningArguments,
    /// A trace of all requests to the cluster, in a format of `evenkeel load --trace`
    #[arg(long, value_name = "FILE", group = "measured")]
    trace: Option<PathBuf>,
    /// With --trace: its requests per second, if it has no times
    #[arg(long, value_name = "N", value_parser = positive, requires = "trace")]
    rate: Option<f64>,
    /// With --trace: what a million misses cost the backend; with it, the cheapest hit ratio is chosen
    #[arg(long, value_name = "USD", value_parser = positive, requires = "trace")]
    usd_per_million_misses: Option<f64>,
    /// With --server: seconds between the two readings
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = value_parser!(u32).range(1..=3600), requires = "server", conflicts_with = "workload")]
    pub(super) seconds: u32,
    /// With --server: how many servers like it the cluster has
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=10_000), requires = "server", conflicts_with = "workload")]
    servers: u32,
    /// The busiest minute as a multiple of what is measured now, or of the trace's
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = factor, requires = "measured", conflicts_with = "workload")]
    pub(super) peak: f64,
    /// The 99th percentile of latency that is wanted, in ms
    #[arg(long, value_name = "MS", default_value_t = 1.0, value_parser = positive, requires = "measured", conflicts_with = "workload")]
    p99: f64,
    /// Zones over which the servers are spread [1; with --control those that they are in]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=16), requires = "measured", conflicts_with = "workload")]
    zones: Option<u32>,
    /// The other zones carry everything when one is lost
    #[arg(long, requires = "measured", conflicts_with = "workload")]
    survive_zone: bool,
    /// A catalogue of your own, put over the built-in one; repeatable
    #[arg(long, value_name = "FILE")]
    catalogue: Vec<PathBuf>,
    /// Costs and assumptions of your own, put over the measured ones
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// The region of the prices; of several clouds one of each, as us-east-1,us-central1: of each shape the first that it has
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "us-east-1")]
    region: Vec<String>,
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
    let regions = arguments.region.join(", ");
    let shapes = shapes(arguments, &regions)?;
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
        let (answer, has_shape) = answer(arguments, &inputs, &shapes, &regions)?;
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
    regions: &str,
) -> Result<(String, bool), Failure> {
    let advice = fleet::advise::advise(inputs, shapes, regions)
        .map_err(|error| Failure::other(error).with_status(STATUS_FILE))?;
    let asked = AdviceQuestion { inputs, region: regions };
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
    if let Some(path) = &arguments.workload {
        let text = text_of(path, WORKLOAD_LEN_MAX)?;
        let workload = parse_workload(&text).map_err(|error| of_file(path, error))?;
        return Ok((workload, None));
    }
    let zones = arguments.zones.unwrap_or(1);
    if arguments.survive_zone && zones < 2 {
        return Err(Failure::usage("--survive-zone: expected --zones of 2 or more, found 1", None));
    }
    if let Some(path) = &arguments.trace {
        let around = AroundTrace {
            name: path.display().to_string(),
            peak: arguments.peak,
            p99_ms: arguments.p99,
            zones,
            survives_zone: arguments.survive_zone,
            headroom: HEADROOM,
            backend_usd_per_million: arguments.usd_per_million_misses,
        };
        return Ok((traced(path, arguments.rate, &around)?, None));
    }
    let Some(place) = &arguments.server else {
        let hint = "docs/advise/README.md has a file to begin with".to_owned();
        let what =
            "expected --workload FILE, --server ADDR, --control ADDR or --trace FILE, found none of them";
        return Err(Failure::usage(what, Some(hint)));
    };
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
    Ok((measured.0, Some(measured.1)))
}

/// The workload of a trace.
fn traced(path: &Path, rate: Option<f64>, around: &AroundTrace) -> Result<CacheWorkload, Failure> {
    let mut sums = TraceSums::default();
    let bytes = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let read = load::read_trace(path, rate, |request| {
        sums.add(&TracedRequest {
            at_ns: request.at_ns,
            class: match request.class {
                TraceClass::Get => TracedClass::Get,
                TraceClass::Set => TracedClass::Set,
                TraceClass::Delete => TracedClass::Delete,
                TraceClass::Touch => TracedClass::Touch,
            },
            key_hash: request.key_hash,
            key_bytes: bytes(request.key_len),
            value_bytes: bytes(request.value_len),
        });
    });
    read.map_err(|error| match error {
        load::Error::TraceFile { path, source } => {
            Failure::system(format!("read {}", path.display()), source)
        }
        load::Error::Arguments(what) => Failure::usage(what, None),
        error => Failure::other(error).with_status(STATUS_FILE),
    })?;
    sums.workload(around).map_err(|error| of_file(path, error))
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
fn shapes(arguments: &Arguments, regions: &str) -> Result<Vec<HostShape>, Failure> {
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
    let mut known: Vec<&str> =
        asked.iter().flat_map(|shape| &shape.prices).map(|price| price.region.as_str()).collect();
    if let Some(region) =
        arguments.region.iter().find(|region| !known.is_empty() && !known.contains(&region.as_str()))
    {
        known.sort_unstable();
        known.dedup();
        let hint = format!("it has prices in {} (--region)", known.join(", "));
        let what = format!("the catalogue has no price of these shapes in the region `{region}`");
        return Err(Failure::usage(what, Some(hint)));
    }
    Ok(asked.into_iter().map(|shape| priced_in(shape, arguments, regions)).collect())
}

/// The shape with the price of the first region that it has one of, as that of all of them.
fn priced_in(shape: HostShape, arguments: &Arguments, regions: &str) -> HostShape {
    let first = arguments.region.iter().find_map(|region| shape.price(region).cloned());
    let prices = first.map(|price| ShapePrice { region: regions.to_owned(), ..price });
    HostShape { prices: prices.into_iter().collect(), ..shape }
}

pub(super) fn of_file(path: &Path, error: impl Into<anyhow::Error>) -> Failure {
    Failure::other(error).within(path.display()).with_status(STATUS_FILE)
}

/// A text that is not longer than its reader takes.
pub(super) fn text_of(path: &Path, len_max: usize) -> Result<String, Failure> {
    let text = read_at_most(path, len_max as u64)
        .map_err(|error| Failure::system(format!("read {}", path.display()), error))?;
    String::from_utf8(text).map_err(|error| of_file(path, error))
}
