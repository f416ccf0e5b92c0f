//! `evenkeel route`: start of a router from a command line, and its orderly end.
//!
//! The order: the configuration is read before anything is bound, limits are raised before sockets exist, signals are
//! blocked before there are threads. Exit statuses are mcrouter's: 2 where a later start may succeed, 3 where it cannot.

mod async_log;
mod configuration;
mod lines;
mod listening;
mod pages;
pub(crate) mod replay;
mod reports;
mod resolver;
mod shadow_file;
mod stats_files;
mod takeover;
mod threads;
mod tls;
mod unresolved;
mod unused_memory;

use std::collections::HashMap;
use std::ffi::OsString;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use net::clock::Clock;
use net::{DriverChoice, Network, Running};
use os::signals::{Signal, Signals};
use router::flags::{RouteOptions, Validate};
use router::{CountedPools, RoutePlan, RouteWorker, RouterShared, Settings, StartupFacts, flags};
use server::options::MetricsAddress;
use stdx::words::counted;

use crate::failure::Failure;
use crate::peers::cluster_file::ClusterFile;
use crate::peers::endpoint::Endpoint;
use crate::process::parent;
use crate::process::uring;
use crate::terminal::line_queue::{LAST_LINES, LINES};
use crate::terminal::log;
use crate::terminal::output::print;
use async_log::{AsyncLog, LogFiles};
use configuration::config_dump::ConfigDump;
use configuration::counted_pools::counted_pools;
use configuration::reload::{Reload, ReloadBell};
use configuration::variables::Variables;
use configuration::{Attempt, Configuration};
use lines::{TRANSIENT, inform, transient};
pub(crate) use lines::{notice, refused};
use listening::{Limits, ListenPlace};
use pages::RoutePages;
use reports::Reports;
use resolver::{Resolver, lookup};
use shadow_file::ShadowFile;
use stats_files::StatsFiles;
use takeover::{OfferedNetwork, RouterSuccession, Starter};
use threads::{ANSWERS_WITHIN, start};
use tls::RouterTls;

/// Threads that make TLS handshakes, with clients and with servers.
const HANDSHAKE_THREADS: usize = 2;

/// Exit statuses, for the man page.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "The router was ended as requested, or the configuration is valid."),
    ("2", "Another start may succeed: a port is taken, a file is missing."),
    ("3", "The same start would fail again: flags or the configuration are wrong."),
    ("1", "A second signal ended it."),
];

/// The words of a command line without those that have no effect, and a line about each of those.
pub(crate) fn words(typed: &[OsString]) -> (Vec<OsString>, Vec<String>) {
    let (verb, rest) = typed.split_at(typed.len().min(2));
    let (kept, notes) = flags::known(rest.iter().cloned());
    // The last one counts. `--validate-config` alone has become this word, too.
    let validate = kept.iter().rev().find(|word| word.as_encoded_bytes().starts_with(b"--validate-config"));
    if validate.is_some_and(|word| word == "--validate-config=exit") {
        lines::only_check();
    }
    (verb.iter().cloned().chain(kept).collect(), notes)
}

/// Routes until a signal ends it.
pub(crate) fn run(options: RouteOptions) -> Result<(), Failure> {
    // A log that has reached the limit on file sizes must not end the router.
    os::signals::survive_file_size_limit();
    // Before anything else is open. A check listens nowhere, so its descriptor need not be there.
    let is_check = options.validate == Some(Validate::Exit);
    let inherited = if is_check { None } else { listening::inherited(&options)? };
    let cpus = thread::available_parallelism().map_or(1, NonZero::get);
    let options = options.check(cpus).map_err(refused)?;
    // Before the first thread. A process in the background does not end with whoever has started it.
    let starter = if is_check { None } else { Some(Starter::begin(&options)?) };
    if !options.background {
        parent::follow()?;
    }
    options.notes.iter().for_each(|note| notice(note));
    let pools = counted_pools(options.pool_stats_file.as_deref());
    let mut configuration = Configuration::new(&options, Arc::clone(&pools));
    let variables = Variables::new(options.runtime_variables.clone());
    configuration.set_variables(variables.present());
    let dump = ConfigDump::new(&options);
    let mut attempt = configuration.load(1);
    let plan = match attempt.take_plan() {
        Ok(plan) => plan,
        Err(failure) => match dump.as_ref().map(|dump| configuration.load_copies(dump)) {
            Some(Ok(plan)) => {
                notice(&format!("the configuration is a copy of the last good one: {failure}"));
                attempt.is_from_dump = true;
                plan
            }
            _ => return Err(failure),
        },
    };
    plan.notes.iter().for_each(|note| notice(note));
    if let Some(validate) = options.validate {
        print(validated(&plan, options.proxies).as_bytes())?;
        if validate == Validate::Exit {
            unresolved::unresolved(&plan, lookup).iter().for_each(|line| notice(line));
            return Ok(());
        }
    }
    let starter = starter.expect("a check has ended");
    let settings = settings(&options, pools);
    let ended =
        serve(&options, settings, (inherited, starter), (configuration, variables), plan, attempt, dump);
    LINES.finish(LAST_LINES);
    ended
}

fn serve(
    options: &RouteOptions,
    settings: Settings,
    (inherited, starter): (Option<OwnedFd>, Starter),
    (configuration, variables): (Configuration, Variables),
    plan: RoutePlan,
    attempt: Attempt,
    dump: Option<ConfigDump>,
) -> Result<(), Failure> {
    let server_count = plan.servers.len();
    let tls = RouterTls::load(options)?;
    let limits = Limits::raise(options, plan.sockets())?;
    let places = listening::places(options, inherited)?;
    let clock = Clock::start();
    let mut succession = RouterSuccession::begin(options)?;
    let network = bind(options, &places, &limits, &tls, clock, succession.take_listeners())?;
    let shown = |(address, place): (_, &ListenPlace)| {
        if place.with_tls { format!("tls:{address}") } else { format!("{address}") }
    };
    let addresses: Vec<String> = network.addresses().iter().zip(&places).map(shown).collect();
    let endpoint = endpoint(options, succession.take_metrics())?;
    let pidfile = succession.claim()?;
    let signals = Signals::block().map_err(|error| transient("block signals", error))?;
    LINES.start().map_err(|error| transient("start thread lines", error))?;
    let shared = share(options, settings, plan, &tls, attempt.is_from_dump);
    let (_names_end, ends) = mpsc::channel();
    let resolver = Resolver {
        shared: Arc::clone(&shared),
        nudge: network.nudge(),
        workers: options.proxies,
        refresh_s: options.dns_refresh_s,
    };
    resolver.start(ends)?;
    let bell = ReloadBell::new().map_err(|error| transient("make an eventfd", error))?;
    let reload = Reload {
        configuration,
        variables,
        shadow_file: ShadowFile::new(options.shadow_report.clone()),
        tls,
        shared: Arc::clone(&shared),
        nudge: network.nudge(),
        workers: options.proxies,
        servers_max: limits.servers_max(),
        is_watching: options.reload,
        delay: Duration::from_millis(options.reconfiguration_delay_ms),
        jitter: Duration::from_millis(options.reconfiguration_jitter_ms),
        rest: Duration::from_millis(options.post_reconfiguration_delay_ms),
        dump,
    };
    let rung = bell.clone();
    start("reload", move || reload.run(attempt, &rung))?;
    start_observers(options, &shared, &network, clock)?;
    let (stop, ending) = (network.stop(), starter.supervisor().clone());
    start("signals", move || {
        answer_signals(&signals, &bell, || {
            ending.stopping();
            let leaving = stop.clone();
            // Beside this thread, for a second signal does not wait.
            if start("ending", move || leaving.hand_over(ANSWERS_WITHIN)).is_err() {
                stop.stop();
            }
        });
    })?;
    let (view, leave) = (network.view(), network.stop());
    let scraped = endpoint.as_ref().map(Endpoint::shown).unwrap_or_default();
    let metrics = endpoint.as_ref().map_or(Ok(Vec::new()), Endpoint::sockets);
    let metrics = metrics.map_err(|error| transient("duplicate the sockets of metrics", error))?;
    let offered = OfferedNetwork::of(&network, addresses.clone(), metrics).map_err(failed_later)?;
    if let Some(endpoint) = endpoint {
        let pages =
            RoutePages { shared: Arc::clone(&shared), view: view.clone(), clock, workers: options.proxies };
        start("admin", move || endpoint.serve_process(pages, "route", "requests are routed without them"))?;
    }
    if let Some(queue) = shared.spool() {
        let log = AsyncLog { queue, nudge: network.nudge(), files: LogFiles::new(options) };
        start("async-log", move || log.run())?;
    }
    let (running, driver) = start_workers(options, &shared, network)?;
    let (threads, servers) = (counted(options.proxies, "thread"), counted(server_count, "server"));
    let announce = |taken: &str| {
        inform(&format!(
            "evenkeel {} routes on {}{taken}: {servers}, {threads} driven by {driver}, at most {} connections{scraped}",
            env!("CARGO_PKG_VERSION"),
            addresses.join(", "),
            limits.connections_max,
        ));
    };
    let begun = succession.take_over(offered, starter, options.verbosity, announce);
    if begun.is_err() {
        // The router before goes on, and this one has served meanwhile.
        leave.hand_over(ANSWERS_WITHIN);
    }
    let ended = running.join().map_err(failed_later);
    pidfile.remove();
    begun?;
    ended.map(drop)
}

/// What all threads have in common.
fn share(
    options: &RouteOptions,
    settings: Settings,
    plan: RoutePlan,
    tls: &RouterTls,
    is_from_dump: bool,
) -> Arc<RouterShared> {
    let shared = Arc::new(RouterShared::new(settings, plan));
    reports::tell_time(&shared);
    shared.set_tls(tls.in_force());
    shared.started(StartupFacts {
        command_line: reports::command_line(std::env::args_os()),
        started_s: os::clock::unix_s(),
        options: options.reported(),
        host_id: configuration::host_id(),
    });
    shared.set_verbosity(options.verbosity.into());
    shared.note_config(|loads| {
        loads.note(os::clock::unix_s(), true);
        loads.is_from_dump = is_from_dump;
    });
    shared
}

/// Starts the threads that read the list of members, and that write and gather reports.
fn start_observers(
    options: &RouteOptions,
    shared: &Arc<RouterShared>,
    network: &Network,
    clock: Clock,
) -> Result<(), Failure> {
    if let Some(path) = options.cluster_file.clone() {
        let told = Arc::clone(shared);
        let publish = move |state| told.set_discovery(state);
        let file = ClusterFile::start(path, "route", publish);
        start("cluster-file", move || file.run())?;
    }
    stats_files::make_fifos(options);
    if let Some(files) = StatsFiles::new(options, shared, clock) {
        start("stats-files", move || files.run())?;
    }
    let reports = Reports { shared: Arc::clone(shared), nudge: network.nudge(), clock, stop: network.stop() };
    start("reports", move || reports.run())
}

/// Starts the workers: clients are answered from now on.
fn start_workers(
    options: &RouteOptions,
    shared: &Arc<RouterShared>,
    network: Network,
) -> Result<(Running<RouteWorker>, String), Failure> {
    let seeds = (0..options.proxies).map(|_| random()).collect::<Result<Vec<_>, _>>()?;
    let workers = seeds.into_iter().map(|seed| RouteWorker::new(Arc::clone(shared), seed)).collect();
    let nudge = network.nudge();
    let mut name = String::new();
    // A driver that the kernel refuses is found before anybody is served: a router that takes over would lose connections.
    let begin = |view: &net::View| {
        name = driver(options, view)?;
        Ok(())
    };
    let running = network.start_with(workers, Vec::new(), begin);
    let running = running.map_err(|failure: Failure| failure.with_status(TRANSIENT))?;
    // Their first turn: limits of rates count from now on, not from the first connection.
    (0..options.proxies).for_each(|worker| nudge.nudge(worker));
    Ok((running, name))
}

fn bind(
    options: &RouteOptions,
    places: &[ListenPlace],
    limits: &Limits,
    tls: &RouterTls,
    clock: Clock,
    adopted: Vec<Arc<OwnedFd>>,
) -> Result<Network, Failure> {
    let listen: Vec<_> = places.iter().map(|place| place.listen.clone()).collect();
    let acceptor = |place: &ListenPlace| if place.with_tls { tls.acceptor() } else { None };
    let settings = net::Options {
        workers: options.proxies,
        driver: options.driver,
        connections_max: limits.connections_max,
        dialled_max: limits.dialled_max,
        reads_max: 0,
        // A later configuration may have servers with TLS, though this one has none.
        secure_dials: true,
        fast_open: if options.tls.fast_open && options.ports.is_empty() {
            options.tls.fast_open_queue
        } else {
            0
        },
        acceptors: places.iter().map(acceptor).collect(),
        handshake_threads: HANDSHAKE_THREADS,
        handshakes_max: limits.handshakes_max,
        backlog: options.backlog,
        adopted,
        follows_another: options.takeover.is_some(),
        notice,
        clock,
        ..net::Options::default()
    };
    Network::bind(&listen, settings).map_err(failed_later)
}

/// The endpoint of metrics, with the sockets of the router before where they are at its address.
fn endpoint(options: &RouteOptions, passed: Vec<OwnedFd>) -> Result<Option<Endpoint>, Failure> {
    let address = options.metrics_address().map_err(refused)?;
    let address = address.map(|(host, port)| MetricsAddress { host: host.map(str::to_owned), port });
    let endpoint = address.map(|address| Endpoint::take_or_bind(&address, passed)).transpose();
    endpoint.map_err(|failure| failure.with_status(TRANSIENT))
}

fn settings(options: &RouteOptions, counted_pools: Arc<CountedPools>) -> Settings {
    Settings {
        counted_pools,
        spool: options.asynclog.then(Arc::default),
        health: options.health,
        partial_multiget: options.partial_multiget,
        shadows_max: options.shadows_max,
        held_max: options.buffer_memory_mb << 20,
        shows_hot_keys: !options.hides_hot_keys,
        reset_inactive_ms: options.reset_inactive_ms,
        flush_enabled: options.flush_enabled,
        shutdown_enabled: options.shutdown_enabled,
        discovers: options.cluster_file.is_some(),
        notice: |level, line| log::log(level, "route", line),
    }
}

/// The name of the driver that runs; an error if io_uring was asked for by name and refused.
fn driver(options: &RouteOptions, view: &net::View) -> Result<String, Failure> {
    let name = match view.driver(0) {
        DriverChoice::Uring => "io_uring",
        _ => "epoll",
    };
    let why = view.uring_refused(0).map(|error| uring::refused(&error));
    match (options.driver, name, why) {
        (DriverChoice::Uring, "epoll", why) => {
            let why = why.unwrap_or_else(|| "the kernel refuses it".to_owned());
            Err(transient("use io_uring (`--driver auto` does without)", anyhow::anyhow!(why)))
        }
        (DriverChoice::Auto, "epoll", Some(why)) => Ok(format!("{name} ({why})")),
        _ => Ok(name.to_owned()),
    }
}

/// What `--validate-config` prints.
fn validated(plan: &RoutePlan, workers: usize) -> String {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    plan.servers.iter().for_each(|spec| *by_name.entry(&spec.name).or_default() += workers);
    format!(
        "the configuration is valid\n\
         {}, {}: at most {} to each server, {} in all\n",
        counted(by_name.len(), "server"),
        counted(workers, "thread"),
        counted(by_name.values().copied().max().unwrap_or(0), "connection"),
        plan.servers.len() * workers
    )
}

fn failed_later(error: net::Error) -> Failure {
    Failure::other(error).with_status(TRANSIENT)
}

/// An unpredictable number, for choices at random.
fn random() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| transient("draw a random number", error))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// SIGHUP reads the configuration again. The first terminating signal stops the router; a second one ends the process
/// without waiting for it.
fn answer_signals(signals: &Signals, bell: &ReloadBell, stop: impl Fn()) {
    let mut stopping = false;
    loop {
        match signals.wait() {
            Signal::Reload => bell.ring(),
            _ if stopping => std::process::exit(1),
            Signal::Interrupt | Signal::Terminate | Signal::Graceful => {
                stopping = true;
                stop();
            }
        }
    }
}
