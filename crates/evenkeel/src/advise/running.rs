//! `evenkeel advise --running`: what is left on hosts that run, from a server or a controller, and from Prometheus' history.

use std::process::ExitCode;

use advise::catalogue::Catalogue;
use advise::running::{
    FleetDocuments, HistorySubject, RunningGroup, ServerReadings, UseHistory, fleet_clusters, fleet_groups,
    history_queries, running_json, running_text, server_group,
};
use fleet::advise::HostShape;
use lab::weeks::prometheus::{ServiceFigure, paths};
use serde_json::Value;
use stdx::calendar::DAY_S;
use wire::ServerAddress;

use super::ask::{self, Arguments, named};
use super::server::{self, STATUS_NO_ANSWER};
use crate::control::{document, escaped};
use crate::failure::{Failure, say};
use crate::peers::prometheus::PrometheusServer;
use crate::terminal::output::print;

/// What is left, and when it is used up
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RunningArguments {
    /// Instead: what is left on the hosts that run, and when the first resource binds
    #[arg(long, requires = "measured", conflicts_with_all = ["workload", "trace", "picture", "costs", "family", "cloud", "region", "servers", "p99", "zones", "survive_zone"])]
    running: bool,
    /// With --running: the shape of the hosts, where they do not say it themselves: r5.2xlarge
    #[arg(long, value_name = "NAME", requires = "running")]
    shape: Option<String>,
    /// With --running: a Prometheus with history of the servers, for trends: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", value_parser = PrometheusServer::parse, requires = "running")]
    prometheus: Option<PrometheusServer>,
    /// A file with authorities (PEM) of that Prometheus [default: those that this system trusts]
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_ca: Option<std::path::PathBuf>,
    /// A file with a token for that Prometheus, sent as `Authorization: Bearer`
    #[arg(long, value_name = "FILE", requires = "prometheus")]
    prometheus_token_file: Option<std::path::PathBuf>,
    /// Matchers of labels of the servers' series, such as job="cache"
    #[arg(
        long,
        value_name = "MATCHERS",
        default_value = "",
        hide_default_value = true,
        requires = "prometheus"
    )]
    select: String,
    /// Weeks of history that are asked for
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=12), requires = "prometheus")]
    weeks: u64,
    /// With --server: the label `instance` of its series [that of --metrics]
    #[arg(long, value_name = "NAME", requires = "prometheus", requires = "server")]
    instance: Option<String>,
}

impl RunningArguments {
    /// Whether it is asked what is left.
    pub(super) fn is_asked(&self) -> bool {
        self.running
    }
}

/// Points of Prometheus are a day apart.
const STEP_S: u64 = DAY_S;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let catalogue = ask::catalogue(arguments)?;
    let shape = shape(&catalogue, arguments.running.shape.as_deref())?;
    let mut groups = match &arguments.server {
        Some(place) => vec![of_server(arguments, place, shape)?],
        None => of_fleet(arguments, &catalogue, shape)?,
    };
    if let Some(prometheus) = &arguments.running.prometheus {
        let today = os::clock::unix_s() / DAY_S;
        let history = history(&arguments.running, prometheus, today)?;
        if history.is_empty() {
            say(format_args!(
                "evenkeel: advise: {prometheus} has no series of servers: `--select` chooses them, `evenkeel serve --metrics-listen` exports them"
            ));
        }
        history.put_into(&mut groups, today, &catalogue);
    }
    let text = if arguments.json { running_json(&groups) } else { running_text(&groups) };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn shape<'a>(catalogue: &'a Catalogue, name: Option<&str>) -> Result<Option<&'a HostShape>, Failure> {
    let Some(name) = name else { return Ok(None) };
    let found = catalogue.shape(name).map(|entry| &entry.shape);
    found.map(Some).ok_or_else(|| {
        let hint = "docs/advise/catalogue.md says how to add one of your own (--catalogue)".to_owned();
        Failure::usage(format!("the catalogue has no shape `{name}`"), Some(hint))
    })
}

/// Figures of all servers of a fleet.
pub(super) fn figures(arguments: &Arguments) -> Result<Value, Failure> {
    document(&arguments.control, &arguments.credentials, "/v1/figures")
}

fn of_fleet(
    arguments: &Arguments,
    catalogue: &Catalogue,
    shape: Option<&HostShape>,
) -> Result<Vec<RunningGroup>, Failure> {
    let cluster = arguments.cluster.as_deref();
    let figures = figures(arguments)?;
    let not_understood = |why: String| Failure::other(anyhow::anyhow!("{why}")).with_status(ask::STATUS_FILE);
    let clusters = fleet_clusters(&figures).map_err(not_understood)?;
    let asked = clusters.iter().filter(|name| cluster.is_none_or(|cluster| cluster == *name));
    let checks: Vec<Value> = asked.filter_map(|name| checks(arguments, name)).collect();
    let documents = FleetDocuments {
        figures: &figures,
        checks: &checks,
        catalogue,
        shape,
        cluster,
        peak: arguments.peak,
    };
    let groups = fleet_groups(&documents).map_err(not_understood)?;
    if groups.is_empty() {
        let what = match cluster {
            Some(name) => format!("no server of the cluster `{name}` has figures"),
            None => "no server of a cluster has figures".to_owned(),
        };
        let failure = Failure::other(anyhow::anyhow!("{what}")).with_status(ask::STATUS_FILE);
        return Err(failure.hint("`evenkeel control top --once` shows which servers have some"));
    }
    Ok(groups)
}

/// What the hosts of a cluster say of themselves. A fleet whose hosts have no tuner has figures all the same.
fn checks(arguments: &Arguments, cluster: &str) -> Option<Value> {
    let path = format!("/v1/tune/check?hosts={}", escaped(&format!("cluster={cluster}")));
    let answer = document(&arguments.control, &arguments.credentials, &path);
    let failed = |failure: &Failure| {
        let why = failure.in_one_line();
        say(format_args!("evenkeel: advise: what the hosts of {cluster} are is not known: {why}"));
    };
    answer.inspect_err(failed).ok()
}

fn of_server(
    arguments: &Arguments,
    place: &ServerAddress,
    shape: Option<&HostShape>,
) -> Result<RunningGroup, Failure> {
    let name = named(place);
    let (answers, page) = server::ask_with_page(place, &name, arguments.seconds, arguments.metrics.as_ref())?;
    if arguments.metrics.is_some() && page.counters().is_none() {
        say(format_args!(
            "evenkeel: advise: the server could not read its host's counters, so packets are not known"
        ));
    }
    let [before, after] = &answers.stats;
    let page_name = arguments.metrics.as_ref().map(PrometheusServer::address);
    let readings = ServerReadings {
        name: &name,
        stats: [before, after],
        seconds: answers.seconds,
        peak: arguments.peak,
        counters: page.counters(),
        pages: page.reports(),
        instance: arguments.running.instance.as_deref().or(page_name.as_deref()),
        shape,
    };
    server_group(&readings).map_err(|error| server::is_no_workload(&name, error))
}

fn history(
    arguments: &RunningArguments,
    prometheus: &PrometheusServer,
    today: u64,
) -> Result<UseHistory, Failure> {
    let client =
        prometheus.client(arguments.prometheus_ca.as_deref(), arguments.prometheus_token_file.as_deref())?;
    // A point at midnight is that of the day before it; today is not over.
    let (from, to) = ((today - arguments.weeks * 7 + 1) * DAY_S, today * DAY_S);
    let mut history = UseHistory::default();
    for query in history_queries(&arguments.select) {
        let what = match query.subject {
            HistorySubject::Use(resource) => resource.as_str(),
            HistorySubject::FlashLimit => "the limit of flash",
            HistorySubject::Allowances => "allowances",
        };
        let figure = ServiceFigure { name: String::new(), expression: query.expression.clone() };
        for path in paths(&figure, from, to, STEP_S) {
            let answer = client.get(&path).map_err(|error| {
                Failure::system(format!("ask {prometheus} for {what}"), error).with_status(STATUS_NO_ANSWER)
            })?;
            history.add(&query, &answer).map_err(|why| {
                let failure = Failure::other(anyhow::anyhow!("ask {prometheus} for {what}: {why}"));
                failure.with_status(ask::STATUS_FILE).hint(format!("the expression is {}", query.expression))
            })?;
        }
    }
    Ok(history)
}
