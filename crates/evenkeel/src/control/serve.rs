//! `control serve`: a controller as a process.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use stdx::log_level::LogLevel;

use admin::api::{ApiLimits, ApiListener};
use clap::Args;
use control::audit::{AuditHead, AuditLog};
use control::authority::Authority;
use control::identity::{FleetIdentity, FleetRole};
use control::register::{DirectoryRegister, EtcdRegister, EtcdSettings, EtcdUser};
use control::{
    AgentSeats, ControlPlace, ControlService, Controller, ControllerPages, ControllerSettings,
    FleetDecisions, LivenessOutbox, ObjectiveBoard, PrometheusPlace, RelaySettings, SayLine, SharedFigures,
    SharedRegister, moment, run_controller, start_objectives, start_probes, start_relay, start_watch,
};
use fleet::ZoneName;
use fleet::health::HealthThresholds;
use fleet::rollout::RolloutSettings;
use os::clock::{Stopwatch, unix_s};
use serde::de::DeserializeOwned;
use tls::{CertificateFiles, ClientSettings, ClientTls, ListenerTls, NameCheck, PeerCheck, TlsSettings};

use super::credentials::Credentials;
use super::file::read_file;
use crate::failure::Failure;
use crate::peers::console::{Console, ConsoleAddress};
use crate::peers::endpoint::{Endpoint, PagesAddress};
use crate::peers::renewal::{self, CertificateUsers, Signer};
use crate::peers::server_tls;
use crate::process::pidfile::PidFile;
use crate::process::resources::raise_open_files_to_hard_limit;
use crate::terminal::log;

/// Controllers of a fleet: etcd's members are as many at most.
const OTHERS_MAX: usize = 7;
/// Open files of the largest fleet: connections of agents, and probes of as many servers as there are hosts.
const FILES_MAX: u64 = 65_536;
/// With fewer, a fleet of some hundred hosts is too large.
const FILES_FEW: u64 = 4096;
/// Longest file of thresholds or durations.
const SETTINGS_LEN_MAX: u64 = 64 * 1024;

/// Arguments of `serve`.
#[derive(Clone, Debug, Args)]
pub(super) struct ServeArguments {
    /// Where decisions are kept: `directory:PATH`, for one controller, or `etcd:URL,URL`
    #[arg(long, value_name = "PLACE")]
    register: RegisterPlace,
    /// User of etcd, as NAME; the password is in the variable EVENKEEL_ETCD_PASSWORD
    #[arg(long, value_name = "NAME")]
    etcd_user: Option<String>,
    /// Authorities of etcd's certificates (PEM), for https
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// The certificate to show to etcd (PEM), if it asks for one; read at the start
    #[arg(long, value_name = "FILE", requires_all = ["etcd_ca", "etcd_key"])]
    etcd_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// Zone of this host
    #[arg(long, value_name = "ZONE")]
    zone: ZoneName,
    /// Where agents, operators and other controllers connect, as HOST:PORT
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// A socket file as well, for the owner of this process: whoever may open it may do everything
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Address of metrics and readiness over HTTP, as HOST:PORT; off without it
    #[arg(long, value_name = "HOST:PORT")]
    metrics_listen: Option<PagesAddress>,
    /// A file with the process id, for the agent of this host, which upgrades the controller
    #[arg(long, value_name = "PATH")]
    pid_file: Option<PathBuf>,
    /// Address of the console, pages for a browser, as HOST:PORT; off without it. At an address of this host alone (127.0.0.1) everybody of the host reads it; elsewhere it speaks TLS, and `control console-token` admits a browser
    #[arg(long, value_name = "HOST:PORT")]
    console: Option<ConsoleAddress>,
    /// The file of a history of `evenkeel lab`, which the console shows
    #[arg(long, value_name = "FILE", requires = "console")]
    lab_history: Option<PathBuf>,
    /// All controllers of the fleet, as HOST:PORT; this one may be among them
    #[arg(long, value_name = "ADDR,ADDR", value_delimiter = ',')]
    controllers: Vec<ControlPlace>,
    /// The authority's directory: this controller signs certificates of newcomers
    #[arg(long, value_name = "DIR")]
    authority: Option<PathBuf>,
    /// The audit log: each change, before and after it is made
    #[arg(long, value_name = "FILE")]
    audit: Option<PathBuf>,
    /// Authorities of servers' certificates (PEM), if servers speak TLS: probes do, too
    #[arg(long, value_name = "FILE")]
    server_ca: Option<PathBuf>,
    /// Thresholds of health (TOML); without it, those of the guide
    #[arg(long, value_name = "FILE")]
    health: Option<PathBuf>,
    /// Durations and shares of rollouts (TOML); without it, those of the guide
    #[arg(long, value_name = "FILE")]
    rollout: Option<PathBuf>,
    /// A Prometheus that is asked for objectives of changes, as http://HOST:PORT; without it, changes with an objective are refused
    #[arg(long, value_name = "URL")]
    prometheus: Option<PrometheusPlace>,
    #[command(flatten)]
    credentials: Credentials,
}

/// Where decisions are kept.
#[derive(Clone, Debug, PartialEq)]
enum RegisterPlace {
    Directory(PathBuf),
    Etcd(Vec<String>),
}

impl FromStr for RegisterPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<RegisterPlace, String> {
        match text.split_once(':') {
            Some(("directory", path)) if !path.is_empty() => Ok(RegisterPlace::Directory(path.into())),
            Some(("etcd", members)) if !members.is_empty() => {
                Ok(RegisterPlace::Etcd(members.split(',').map(str::to_owned).collect()))
            }
            _ => Err(format!("expected directory:PATH or etcd:URL,URL, found {text:?}")),
        }
    }
}

impl fmt::Display for RegisterPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self {
            RegisterPlace::Directory(path) => write!(formatter, "the directory {}", path.display()),
            RegisterPlace::Etcd(members) => write!(formatter, "etcd at {}", members.join(", ")),
        }
    }
}

/// Runs a controller until the process ends.
pub(super) fn run(job: &ServeArguments) -> Result<ExitCode, Failure> {
    let identity = job.credentials.identity()?;
    if identity.role != FleetRole::Controller {
        let found = format!("expected a controller's certificate, found that of {identity}");
        return Err(Failure::usage(found, Some("`control certificate --role controller` makes one".into())));
    }
    raise_open_files()?;
    let listener_tls = needs_tls(job).then(|| listener_tls(job)).transpose()?;
    let listener = listener(job, listener_tls.as_ref())?;
    let endpoint = job.metrics_listen.as_ref().map(PagesAddress::bind).transpose()?;
    let console = job.console.as_ref().map(|address| match &listener_tls {
        Some(tls) if !address.is_own() => Console::guarded(address, tls, &identity.fleet),
        _ => Console::own(address),
    });
    let console = console.transpose()?.map(|console| console.with_lab(job.lab_history.as_ref()));
    let fleet = identity.fleet.as_str().parse().map_err(Failure::other)?;
    let decisions = FleetDecisions::new(register(job)?, &fleet);
    let say_line: SayLine = Arc::new(|level, line: &str| log::log(level, "control", line));
    let clock = Stopwatch::start();
    let seats = Arc::new(AgentSeats::default());
    let (service, messages) =
        ControlService::new(Arc::clone(&seats), identity.fleet.clone(), Arc::clone(&say_line));
    let client_tls = job.credentials.client()?;
    let outboxes = relays(job, &identity, &client_tls, &say_line)?;
    let signer = match &job.authority {
        Some(directory) => Signer::Authority(Box::new(authority(directory, &identity)?)),
        None => Signer::Nobody,
    };
    let users = CertificateUsers { clients: vec![client_tls], listener: listener_tls };
    let end_s = renewal::start(&job.credentials, signer, users, std::process::id().into(), &say_line)?;
    let objectives = objectives(job, &service)?;
    let (now, unix_s) = (moment(&clock), unix_s().cast_signed());
    let controller = Controller::new(decisions.clone(), seats, settings(job, &identity)?, now, unix_s);
    let mut controller = controller
        .map_err(Failure::other)?
        .saying(Arc::clone(&say_line))
        .telling(outboxes)
        .asking_objectives(objectives)
        .showing_console(console.as_ref().map(Console::links))
        .showing_end(end_s);
    if let Some(directory) = &job.authority {
        controller = controller.signing(authority(directory, &identity)?);
    }
    if let Some(path) = &job.audit {
        let head = decisions.audit_head(identity.id.as_str()).map_err(Failure::other)?;
        let (log, verified) =
            AuditLog::open(path, &AuditHead::START, head.as_ref()).map_err(Failure::other)?;
        if verified.beyond_kept > 1 {
            say_line(
                LogLevel::Warning,
                &format!("the audit log has {} records that the register misses", verified.beyond_kept),
            );
        }
        controller = controller.recording(log);
    }
    let probed = Arc::clone(&service);
    // Without authorities, servers are probed without TLS.
    let server_tls = job.server_ca.clone().map_or_else(server_tls::unused, server_tls::trusting)?;
    let probes = start_probes(server_tls, Arc::new(move |result| probed.note_probe(result)));
    let probes = probes.map_err(|error| Failure::system("start probes", error))?;
    let (servers_speak_tls, thread) = (job.server_ca.is_some(), std::thread::Builder::new());
    let figures = SharedFigures::default();
    let kept = figures.clone();
    let decide =
        move || run_controller(controller, &messages, &probes, servers_speak_tls, clock, Some(&kept));
    let begun = thread.name("controller".to_owned()).spawn(decide).map(drop);
    begun.map_err(|error| Failure::system("start a thread", error))?;
    start_watch(decisions, &service).map_err(|error| Failure::system("start a thread", error))?;
    let mut shown = endpoint.as_ref().map_or(String::new(), Endpoint::shown);
    if let Some(console) = console {
        shown += &format!(", console at {}", console.url());
        console.serve(Arc::clone(&service))?;
    }
    if let Some(endpoint) = endpoint {
        let pages = ControllerPages::new(figures, Arc::clone(&service));
        endpoint.serve_beside(pages, "control", "the controller goes on without them")?;
    }
    let _pid_file = job.pid_file.as_deref().map(PidFile::write).transpose()?;
    let addresses: Vec<String> = listener.addresses().iter().map(ToString::to_string).collect();
    say_line(
        LogLevel::Info,
        &format!("{identity} serves at {}, decisions are in {}{shown}", addresses.join(", "), job.register),
    );
    listener.serve(service, ApiLimits::default()).map_err(Failure::other)?;
    Ok(ExitCode::SUCCESS)
}

/// A board for objectives, and the thread that asks them, if there is a Prometheus.
fn objectives(
    job: &ServeArguments,
    service: &Arc<ControlService>,
) -> Result<Option<Arc<ObjectiveBoard>>, Failure> {
    let Some(place) = job.prometheus.clone() else { return Ok(None) };
    let board = Arc::new(ObjectiveBoard::default());
    let service = Arc::downgrade(service);
    let take = Arc::new(move |answer| {
        let Some(service) = service.upgrade() else { return false };
        if let Some(answer) = answer {
            service.note_objective(answer);
        }
        true
    });
    start_objectives(place, server_tls::unused()?, Arc::clone(&board), take)
        .map_err(|error| Failure::system("start a thread", error))?;
    Ok(Some(board))
}

/// A descriptor for each agent that takes its turns here, and one for each server that is probed.
fn raise_open_files() -> Result<(), Failure> {
    let files = raise_open_files_to_hard_limit(FILES_MAX)
        .map_err(|error| Failure::system("raise the limit on open files to the hard limit", error))?;
    if files < FILES_FEW {
        let why = "one for each agent and each server: raise `ulimit -Hn` for a larger fleet";
        log::warning("control", format_args!("{files} files may be open, {why}"));
    }
    Ok(())
}

fn settings(job: &ServeArguments, identity: &FleetIdentity) -> Result<ControllerSettings, Failure> {
    let rollout = from_file::<RolloutSettings>(job.rollout.as_ref())?;
    if let Some(path) = &job.rollout {
        rollout.check().map_err(|error| Failure::usage(format!("{}: {error}", path.display()), None))?;
    }
    Ok(ControllerSettings {
        fleet: identity.fleet.clone(),
        host: identity.id.as_str().parse().map_err(Failure::other)?,
        zone: job.zone.clone(),
        rollout,
        health: from_file::<HealthThresholds>(job.health.as_ref())?,
    })
}

/// Settings of a file; the defaults without one.
fn from_file<T: Default + DeserializeOwned>(path: Option<&PathBuf>) -> Result<T, Failure> {
    let Some(path) = path else { return Ok(T::default()) };
    let text = read_file(path, SETTINGS_LEN_MAX)?;
    toml::from_str(&text)
        .map_err(|error| Failure::usage(format!("{}: {}", path.display(), error.to_string().trim()), None))
}

/// Whether anything is at an address of a network.
fn needs_tls(job: &ServeArguments) -> bool {
    job.listen.is_some() || job.console.as_ref().is_some_and(|console| !console.is_own())
}

/// The TLS of all that is at an address of a network.
fn listener_tls(job: &ServeArguments) -> Result<ListenerTls, Failure> {
    let chain = job.credentials.tls_cert.clone().unwrap_or_default();
    let files = CertificateFiles { chain, key: job.credentials.tls_key.clone() };
    let settings =
        TlsSettings { authorities: job.credentials.tls_ca.clone(), ..TlsSettings::new(vec![files]) };
    let (tls, warnings) = ListenerTls::load(settings).map_err(Failure::other)?;
    for warning in warnings {
        log::warning("control", warning);
    }
    Ok(tls)
}

/// The listener. Without TLS it has a socket file alone.
fn listener(job: &ServeArguments, tls: Option<&ListenerTls>) -> Result<ApiListener, Failure> {
    let mut listener = ApiListener::default();
    if let Some(socket) = &job.socket {
        listener = listener.unix(socket).map_err(Failure::other)?;
    }
    let Some((listen, tls)) = job.listen.as_ref().zip(tls) else {
        return match &job.socket {
            Some(_) => Ok(listener),
            None => Err(Failure::usage("expected --listen HOST:PORT or --socket PATH", None)),
        };
    };
    let place = listen.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let Some((host, port)) = place else {
        return Err(Failure::usage(format!("--listen: expected HOST:PORT, found {listen:?}"), None));
    };
    // A newcomer has a token and no certificate.
    let check = if job.authority.is_some() { PeerCheck::IfShown } else { PeerCheck::Always };
    let acceptor = tls.acceptor(check).map_err(Failure::other)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    listener.tcp(host, port, Some(Arc::new(move || acceptor.settings()))).map_err(Failure::other)
}

fn register(job: &ServeArguments) -> Result<SharedRegister, Failure> {
    match &job.register {
        RegisterPlace::Directory(path) => {
            Ok(Arc::new(DirectoryRegister::open(path).map_err(Failure::other)?))
        }
        RegisterPlace::Etcd(members) => {
            let password = std::env::var("EVENKEEL_ETCD_PASSWORD").unwrap_or_default();
            let tls = job.etcd_ca.as_ref().map(|path| ClientSettings {
                own: job.etcd_cert.clone().zip(job.etcd_key.clone()),
                authorities: Some(path.clone()),
                names: NameCheck::Host,
                ..ClientSettings::default()
            });
            let user = job.etcd_user.clone().map(|name| EtcdUser { name, password });
            let settings = EtcdSettings { members: members.clone(), user, tls, ..EtcdSettings::default() };
            Ok(Arc::new(EtcdRegister::new(&settings).map_err(Failure::other)?))
        }
    }
}

fn authority(directory: &std::path::Path, identity: &FleetIdentity) -> Result<Authority, Failure> {
    let authority = Authority::open(directory).map_err(Failure::other)?;
    let (found, expected) = (authority.fleet(), &identity.fleet);
    if found != expected {
        let error = format!("--authority: expected that of the fleet {expected}, found that of {found}");
        return Err(Failure::usage(error, None));
    }
    Ok(authority)
}

/// A thread for each of the other controllers, and what it has to tell.
fn relays(
    job: &ServeArguments,
    identity: &FleetIdentity,
    tls: &Arc<ClientTls>,
    say: &SayLine,
) -> Result<Vec<Arc<LivenessOutbox>>, Failure> {
    let found = job.controllers.len();
    if found > OTHERS_MAX {
        return Err(Failure::usage(
            format!("--controllers: expected {OTHERS_MAX} at most, found {found}"),
            None,
        ));
    }
    let start = |to: &ControlPlace| {
        let outbox = Arc::new(LivenessOutbox::default());
        let controller = identity.id.as_str().parse().map_err(Failure::other)?;
        let (zone, tls, say) = (job.zone.clone(), Arc::clone(tls), Arc::clone(say));
        let settings = RelaySettings { controller, zone, to: to.clone(), tls, say };
        start_relay(settings, &outbox).map_err(|error| Failure::system("start a thread", error))?;
        Ok(outbox)
    };
    job.controllers.iter().map(start).collect()
}
