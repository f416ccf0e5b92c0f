//! `evenkeel kube`: what is done on Kubernetes, by its API server.
//!
//! Here are the command line, signals, and what a person or program reads; the work is done by the crate [`kube`]. The verb is `kube`
//! because nothing in it works elsewhere.

mod outcome;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, value_parser};
use kube::{ApiFault, ApiPlace, ApiServer, UpgradeOptions, UpgradeResult};
use os::signals::{Ignored, Signal, Signals};

use crate::control::read_file;
use crate::failure::Failure;
use crate::terminal::log;
use crate::terminal::output::print;

/// A server is not as it should be, or something else was decided meanwhile (EX_TEMPFAIL).
const STATUS_HALTED: u8 = 75;
/// The API server does not answer (EX_UNAVAILABLE).
const STATUS_UNAVAILABLE: u8 = 69;
/// The API server refuses.
const STATUS_REFUSED: u8 = 1;

/// Exit statuses, for the man page.
pub(crate) const STATUSES: [(&str, &str); 7] = [
    ("0", "Each server has the image and the flags, or it was shown what would be done."),
    (
        "75",
        "A server came back empty, or not in time, or something else is wanted by now; those after it were not touched.",
    ),
    ("69", "The API server does not answer."),
    ("1", "The API server refuses, and says why."),
    ("71", "A file cannot be read."),
    ("64", "The command line is wrong."),
    ("130, 143", "A signal ended it. What has begun goes on by itself; run again, it goes on from there."),
];

/// Where Kubernetes puts what a pod needs to ask its API server.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A pod is looked at so often. A server is back within about a second.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Do what Kubernetes does not: upgrades that keep the items
#[derive(Clone, Debug, Subcommand)]
enum Job {
    /// Give the servers of a StatefulSet its image and its flags, one after another, without losing their items
    ///
    /// The container of each pod is restarted in place, so the pod keeps its address and its file with the items (serve -e). It ends at
    /// the first server that comes back without its items, or not in time. Run again, it goes on where it was.
    WarmUpgrade(WarmUpgradeArguments),
}

#[derive(Clone, Debug, Args)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Clone, Debug, Args)]
struct WarmUpgradeArguments {
    /// The StatefulSet, whose updateStrategy has to be OnDelete
    #[arg(value_name = "STATEFULSET", value_parser = name)]
    name: String,
    /// Its namespace; in a pod that of the pod, otherwise `default`
    #[arg(short, long, value_name = "NAME", value_parser = name)]
    namespace: Option<String>,
    /// The API server: https://HOST:PORT, or http://127.0.0.1:8001 of `kubectl proxy`; without it, that of the cluster whose pod this is.
    /// With it, servers are asked through it
    #[arg(long, value_name = "URL")]
    server: Option<ApiPlace>,
    /// Of --server: a file with a token
    #[arg(long, value_name = "FILE", requires = "server")]
    token_file: Option<PathBuf>,
    /// Of --server: the authorities that sign its certificate (PEM); without it, those of the system
    #[arg(long, value_name = "FILE", requires = "server")]
    certificate_authority: Option<PathBuf>,
    /// Seconds for each step of a server: to get its flags, to be ready, to say how many items it has; and for an API server that does
    /// not answer
    #[arg(long, value_name = "S", default_value_t = 300, value_parser = value_parser!(u32).range(1..=86_400))]
    patience: u32,
    /// Change nothing: show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

/// What Kubernetes accepts as the name of such an object: it becomes a part of a path.
fn name(text: &str) -> Result<String, String> {
    let is_name = (1..=253).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte))
        && !text.starts_with(['-', '.'])
        && !text.ends_with(['-', '.'])
        && !text.contains("..");
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("expected a name of Kubernetes: small letters, digits, `-` and `.`".to_owned()),
    }
}

/// The command line of `kube`.
pub(crate) fn command() -> Command {
    let about = Command::new("kube").about("Upgrade servers on Kubernetes, with their items");
    Arguments::augment_args(about).arg_required_else_help(true).disable_help_subcommand(true)
}

/// Runs one of the jobs.
pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let arguments = Arguments::from_arg_matches(matches).map_err(|error| Failure::usage(error, None))?;
    let Job::WarmUpgrade(job) = &arguments.job;
    warm_upgrade(job)
}

fn warm_upgrade(arguments: &WarmUpgradeArguments) -> Result<ExitCode, Failure> {
    // As the first process of a container, it would not even be ended by a signal otherwise.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    let (ignored, first) = (Ignored::now(), Cell::new(None::<Signal>));
    let is_asked_to_end = || {
        if let Some(signal) = signals.take().filter(|signal| !ignored.has(*signal)) {
            first.set(first.get().or(Some(signal)));
        }
        first.get().is_some()
    };
    let api = api(arguments)?;
    let options = UpgradeOptions {
        namespace: namespace(arguments)?,
        name: arguments.name.clone(),
        patience: Duration::from_secs(arguments.patience.into()),
        is_dry_run: arguments.dry_run,
        by_proxy: arguments.server.is_some(),
        look_every: LOOK_EVERY,
    };
    let outcome = kube::warm_upgrade(&api, &options, &is_asked_to_end, &mut |level, line| {
        log::log(level, "kube", line)
    });
    let outcome = outcome.map_err(failure)?;
    let text = match arguments.json {
        true => outcome::json(&outcome),
        false => outcome::text(&outcome),
    };
    print(text.as_bytes())?;
    Ok(match &outcome.result {
        UpgradeResult::Done | UpgradeResult::Shown => ExitCode::SUCCESS,
        UpgradeResult::Interrupted => ExitCode::from(first.get().map_or(STATUS_HALTED, Signal::status)),
        UpgradeResult::Halted(..) | UpgradeResult::Overtaken => ExitCode::from(STATUS_HALTED),
    })
}

fn api(arguments: &WarmUpgradeArguments) -> Result<ApiServer, Failure> {
    let Some(place) = &arguments.server else {
        let place = ApiPlace::in_cluster(|name| std::env::var(name).ok()).map_err(|error| {
            Failure::usage(error, Some("outside of a pod, --server names the API server: with `kubectl proxy`, http://127.0.0.1:8001".into()))
        })?;
        let file = |name: &str| Some(Path::new(ACCOUNT).join(name));
        return ApiServer::new(&place, file("ca.crt"), file("token")).map_err(failure);
    };
    if !place.is_encrypted() && !place.is_loopback() {
        return Err(Failure::usage(
            format!(
                "--server {place}: expected https://, because others could read and change what goes over a network"
            ),
            Some("http:// is for `kubectl proxy` on this host".into()),
        ));
    }
    ApiServer::new(place, arguments.certificate_authority.clone(), arguments.token_file.clone())
        .map_err(failure)
}

/// The namespace that was given, or that of the pod.
fn namespace(arguments: &WarmUpgradeArguments) -> Result<String, Failure> {
    if let Some(namespace) = &arguments.namespace {
        return Ok(namespace.clone());
    }
    if arguments.server.is_some() {
        return Ok("default".to_owned());
    }
    let text = read_file(&Path::new(ACCOUNT).join("namespace"), 1024)?;
    name(text.trim()).map_err(|why| Failure::usage(format!("{ACCOUNT}/namespace: {why}"), None))
}

fn failure(fault: ApiFault) -> Failure {
    match &fault {
        ApiFault::Away { .. } => Failure::other(fault)
            .with_status(STATUS_UNAVAILABLE)
            .hint("what has begun goes on by itself; run this again, and it goes on from there"),
        ApiFault::Refused { status: 401, .. } => {
            Failure::other(fault).with_status(STATUS_REFUSED).hint("--token-file has to name a token that is valid now")
        }
        ApiFault::Refused { status: 403, .. } => Failure::other(fault)
            .with_status(STATUS_REFUSED)
            .hint("it needs the rights to get the StatefulSet, and to get and patch its pods (with --server also pods/proxy)"),
        ApiFault::Refused { .. } | ApiFault::Object(_) | ApiFault::Answer { .. } | ApiFault::Prepare(_) => {
            Failure::other(fault).with_status(STATUS_REFUSED)
        }
        ApiFault::Token { .. } | ApiFault::Authorities(_) => Failure::other(fault),
    }
}
