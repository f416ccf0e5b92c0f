//! The control plane of a cluster on one machine: a register in its folder, a controller, an agent.
//!
//! It is the control plane of a fleet with one host: `evenkeel control` asks it as it asks any other.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use admin::api::{ApiLimits, ApiListener};
use control::register::{DirectoryRegister, Revision};
use control::{
    AgentRouter, AgentSeats, AgentServer, AgentSettings, ControlAnswer, ControlClient, ControlPlace,
    ControlService, Controller, ControllerSettings, FleetDecisions, PeerPlace, ProcessLook, ProcessReport,
    SayLine, TuneSettings, moment, run_controller, start_agent, start_probes, start_watch,
};
use fleet::health::HealthThresholds;
use fleet::rollout::RolloutSettings;
use os::clock::{Stopwatch, pause, unix_s};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tls::{ClientSettings, ClientTls};

use super::held_lines::HeldLines;
use super::place::Place;
use crate::failure::Failure;
use crate::peers::console::Console;

/// Where the controller listens, in the cluster's folder.
const SOCKET: &str = "control.sock";
/// Where the router listens for its agent.
const ROUTER_SOCKET: &str = "router.sock";
/// What the router reads.
const CONFIGURATION: &str = "route.json";

/// The policy that is put in force at the start.
const POLICY: &str = "policy.toml";

/// Name of the fleet, the host and its zone.
const HERE: &str = "here";
const CLUSTER: &str = "cache";
const VIEW: &str = "main";
const ROUTER: &str = "router";

/// Time for the first generation: probes and agents need some milliseconds.
const BEGIN_WITHIN: Duration = Duration::from_secs(20);
const LOOK_FOR_BEGIN_EVERY: Duration = Duration::from_millis(5);
/// Time for an answer of the controller.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// A process, as those that look after it and those that report about it share it; 0 if it does not run.
pub(super) type SharedPid = Arc<AtomicU32>;

/// A server of the cluster.
pub(super) struct PlaneServer {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    /// Where its page of figures is.
    pub(super) metrics: SocketAddr,
    pub(super) pid: SharedPid,
}

/// What the plane is made for.
pub(super) struct PlaneSettings<'p> {
    pub(super) place: &'p Place,
    pub(super) servers: Vec<PlaneServer>,
    /// How many of them have a slot; the others are spares.
    pub(super) slots: usize,
    pub(super) router_pid: SharedPid,
    /// Where the router's page of figures is.
    pub(super) router_metrics: SocketAddr,
    /// Where its lines go.
    pub(super) lines: Arc<HeldLines>,
    /// Of a client of the servers, if they speak TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// Where the console is.
    pub(super) console: SocketAddr,
}

fn fleet_name() -> control::identity::FleetName {
    HERE.parse().expect("a word is a name")
}

/// The place of the controller.
pub(super) fn socket(place: &Place) -> PathBuf {
    place.file(SOCKET)
}

/// The place of the router's socket for its agent.
pub(super) fn router_socket(place: &Place) -> PathBuf {
    place.file(ROUTER_SOCKET)
}

/// The policy of the start.
pub(super) fn policy_file(place: &Place) -> PathBuf {
    place.file(POLICY)
}

/// The router's configuration.
pub(super) fn configuration(place: &Place) -> PathBuf {
    place.file(CONFIGURATION)
}

/// Starts it all, and waits until the router's configuration is there; `false` if the user does not want to wait.
pub(super) fn start(
    settings: PlaneSettings<'_>,
    is_asked_to_end: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    let decisions = decisions(&settings)?;
    let clock = Stopwatch::start();
    let seats = Arc::new(AgentSeats::default());
    let lines = Arc::clone(&settings.lines);
    let say_line: SayLine = Arc::new(move |level, line: &str| lines.say(level, line));
    let (service, messages) = ControlService::new(Arc::clone(&seats), fleet_name(), Arc::clone(&say_line));
    let (now, unix_s) = (moment(&clock), unix_s().cast_signed());
    let choices = ControllerSettings {
        fleet: fleet_name(),
        host: HERE.parse().expect("a word is a name"),
        zone: HERE.parse().expect("a word is a name"),
        rollout: RolloutSettings::default(),
        health: HealthThresholds::default(),
    };
    let controller = Controller::new(decisions.clone(), seats, choices, now, unix_s);
    let console = Console::own(&settings.console.into())?;
    let controller = controller.map_err(Failure::other)?.saying(say_line);
    let controller = controller.showing_console(Some(console.links()));
    let begun =
        |result: std::io::Result<()>| result.map_err(|error| Failure::system("start a thread", error));
    let client_tls = match &settings.tls {
        Some(tls) => Arc::clone(tls),
        None => crate::peers::server_tls::unused()?,
    };
    let listener = ApiListener::default().unix(&socket(settings.place)).map_err(Failure::other)?;
    let probed = Arc::clone(&service);
    let probes = start_probes(Arc::clone(&client_tls), Arc::new(move |result| probed.note_probe(result)));
    let probes = probes.map_err(|error| Failure::system("start probes", error))?;
    let has_tls = settings.tls.is_some();
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let run = move || run_controller(controller, &messages, &probes, has_tls, clock, None);
    begun(thread("controller").spawn(run).map(drop))?;
    begun(start_watch(decisions, &service))?;
    console.serve(Arc::clone(&service))?;
    begun(thread("api").spawn(move || listener.serve(service, ApiLimits::default())).map(drop))?;
    agent(&settings)?;
    publish(&settings, client_tls, is_asked_to_end)
}

/// The register with the servers as members. It may be there from an earlier run, with other addresses.
fn decisions(settings: &PlaneSettings<'_>) -> Result<FleetDecisions, Failure> {
    let register = DirectoryRegister::open(&settings.place.file("register")).map_err(Failure::other)?;
    let fleet = HERE.parse().expect("a word is a name");
    let decisions = FleetDecisions::new(Arc::new(register), &fleet);
    let known = decisions.members().map_err(Failure::other)?;
    for server in &settings.servers {
        let json =
            json!({"id": server.name, "host": HERE, "zone": HERE, "address": server.address.to_string()});
        let before = known.iter().find(|entry| entry.key.as_str().rsplit('/').next() == Some(&server.name));
        let revision = before.map_or(Revision::ABSENT, |entry| entry.revision);
        decisions.set_member(&server.name, &json.to_string(), revision).map_err(Failure::other)?;
    }
    Ok(decisions)
}

fn agent(settings: &PlaneSettings<'_>) -> Result<(), Failure> {
    let look = |pid: &SharedPid| -> ProcessLook {
        let pid = Arc::clone(pid);
        Arc::new(move || match pid.load(Ordering::Relaxed) {
            0 => ProcessReport::Down,
            pid => ProcessReport::Running { pid },
        })
    };
    let servers = settings.servers.iter().map(|server| AgentServer {
        member: server.name.parse().expect("a word and a number are a name"),
        metrics: Some(server.metrics.into()),
        place: PeerPlace { address: server.address.to_string(), tls: settings.tls.clone() },
        process: look(&server.pid),
        cluster_file: None,
    });
    let router = AgentRouter {
        router: ROUTER.parse().expect("a word is a name"),
        view: VIEW.parse().expect("a word is a name"),
        metrics: Some(settings.router_metrics.into()),
        file: configuration(settings.place),
        first_text: None,
        place: PeerPlace { address: format!("unix:{}", router_socket(settings.place).display()), tls: None },
        process: look(&settings.router_pid),
        client_address: None,
        cluster_file: None,
    };
    let mut boot = [0; 8];
    getrandom(&mut boot)?;
    // Its controller is at a socket file, where nothing is encrypted.
    let tls = ClientTls::load(ClientSettings::default());
    let (tls, _) = tls.map_err(|error| Failure::system("prepare TLS", error.source))?;
    let lines = Arc::clone(&settings.lines);
    let settings = AgentSettings {
        host: HERE.parse().expect("a word is a name"),
        zone: HERE.parse().expect("a word is a name"),
        boot: u64::from_le_bytes(boot),
        routers: vec![router],
        servers: servers.collect(),
        tune: TuneSettings::default(),
        upgrade: None,
        folder: settings.place.file("agent"),
        controllers: vec![ControlPlace::Unix(socket(settings.place))],
        tls: Arc::new(tls),
        say: Arc::new(move |level, line: &str| lines.say(level, line)),
    };
    start_agent(settings).map(drop).map_err(Failure::other)
}

fn getrandom(bytes: &mut [u8]) -> Result<(), Failure> {
    rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())
        .map(drop)
        .map_err(|error| Failure::system("get a random number", error))
}

/// Puts the policy in force as soon as the servers are fit for slots, and waits for what follows from it.
fn publish(
    settings: &PlaneSettings<'_>,
    tls: Arc<ClientConfig>,
    is_asked_to_end: &dyn Fn() -> bool,
) -> Result<bool, Failure> {
    let place = ControlPlace::Unix(socket(settings.place));
    let client = ControlClient::new(&place, tls).map_err(Failure::other)?;
    let policy = policy(settings);
    // For a person who changes it: `control plan --policy` takes it.
    settings.place.write(POLICY, &policy)?;
    // Its servers begin empty, and nobody is served yet: no keys are moved by phases.
    let mut body = json!({"policy_at_once": policy});
    let watch = Stopwatch::start();
    loop {
        let planned = client.post("/v1/plan", &body, ANSWER_WITHIN).map_err(Failure::other)?;
        let last = match planned.json.get("plan") {
            Some(Value::String(plan)) => {
                body["plan"] = json!(plan);
                body["why"] = json!("as `evenkeel up` was asked to");
                let applied = client.post("/v1/apply", &body, ANSWER_WITHIN).map_err(Failure::other)?;
                if applied.is_ok() { None } else { Some(applied) }
            }
            Some(Value::Null) if planned.is_ok() => None,
            _ => Some(planned),
        };
        if last.is_none() && configuration(settings.place).exists() {
            return Ok(true);
        }
        if is_asked_to_end() {
            return Ok(false);
        }
        if watch.passed() > BEGIN_WITHIN {
            let why = last
                .as_ref()
                .map_or("the router's configuration is not written".to_owned(), ControlAnswer::error);
            return Err(Failure::other(anyhow::anyhow!("give each slot a server: {why}")));
        }
        pause(LOOK_FOR_BEGIN_EVERY);
    }
}

/// Whether the router has what it shall read, as the controller has heard, or does not get it: until then nothing is resized or drained.
pub(super) fn is_settled(place: &Place) -> Result<bool, Failure> {
    let place = ControlPlace::Unix(socket(place));
    let client = ControlClient::new(&place, crate::peers::server_tls::unused()?).map_err(Failure::other)?;
    let status = client.get("/v1/status", ANSWER_WITHIN).map_err(Failure::other)?;
    Ok(status.json["rollout_state"]["state"].as_str().is_some_and(|state| state != "going"))
}

/// The policy: one cluster. If a server does not answer, another one of the pool is asked, which follows from the key.
fn policy(settings: &PlaneSettings<'_>) -> String {
    let slots = settings.slots;
    let route = match slots {
        1 => json!(format!("PoolRoute|{CLUSTER}")),
        count => json!({
            "type": "FailoverRoute",
            "children": [format!("PoolRoute|{CLUSTER}"), format!("Pool|{CLUSTER}")],
            "failover_policy": {
                "type": "DeterministicOrderPolicy",
                "max_tries": count + 1,
                "max_error_tries": count,
            },
        }),
    };
    let pool = if settings.tls.is_some() { "pool.security_mech = \"ssl\"\n" } else { "" };
    let routes = format!("{:#}", json!({"route": route}));
    format!(
        "fleet = \"{HERE}\"\n\n[[cluster]]\nname = \"{CLUSTER}\"\nslots = {slots}\nshares_hosts = true\n{pool}\n\
         [[view]]\nname = \"{VIEW}\"\nroutes = '''\n{routes}\n'''\n"
    )
}
