//! Routers: their processes, and how they load their files.

use std::net::SocketAddr;
use std::sync::Arc;

use net::sim::{HostId, World};
use net::{Options, Place};
use router::config::{CompileOptions, Environment, compile, expand_config};
use router::{HealthSettings, KeyTracer, Operation, RoutePlan, RouteWorker, RouterShared, Settings};

use super::disk::FileText;
use super::shape::{KEYS, PORT};
use super::traffic::key;

/// A router that has ended is started again after this.
const RESTARTS_AFTER_MS: u64 = 700;
/// What routes have in them that end a router.
pub(super) const DEADLY: &str = "deadly";

/// A router on a host of its own.
pub(super) struct SmallRouter {
    pub(super) host: HostId,
    /// While its process runs.
    pub(super) process: Option<RouterProcess>,
    pub(super) starts_ms: Option<u64>,
    /// Processes so far.
    pub(super) starts: u64,
    probe_max_ms: u32,
}

pub(super) struct RouterProcess {
    pub(super) shared: Arc<RouterShared>,
    pub(super) loaded: FileText,
    /// The text that was looked at last, good or not.
    seen: String,
    plans: u64,
}

/// What a router has done with its file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileLook {
    Same,
    Loaded(FileText),
    /// It serves with the text before, or does not start.
    Refused(String),
    /// The text has ended it.
    Ended,
}

impl SmallRouter {
    /// Looks at the file, as a router does when it has changed.
    pub(super) fn look(
        &mut self,
        net: &mut World,
        file: &FileText,
        servers: &[SocketAddr],
        now_ms: u64,
    ) -> FileLook {
        let Some(process) = &mut self.process else { return FileLook::Same };
        if process.seen == file.text {
            // Only the agent knows of generations.
            process.loaded.generation = file.generation;
            return FileLook::Same;
        }
        process.seen.clone_from(&file.text);
        process.plans += 1;
        match plan(&file.text, process.plans, servers) {
            Err(why) => FileLook::Refused(why),
            Ok(_) if file.text.contains(DEADLY) => {
                self.end(net, now_ms);
                FileLook::Ended
            }
            Ok(plan) => {
                process.shared.replace(plan);
                process.loaded = file.clone();
                net.nudge(self.host);
                FileLook::Loaded(file.clone())
            }
        }
    }

    /// Ends the process.
    pub(super) fn end(&mut self, net: &mut World, now_ms: u64) {
        if self.process.take().is_some() {
            let _worker: RouteWorker = net.stop(self.host);
            self.starts_ms = Some(now_ms + RESTARTS_AFTER_MS);
        }
    }

    /// Starts it again, if it is time.
    pub(super) fn start_due(
        &mut self,
        net: &mut World,
        file: &FileText,
        servers: &[SocketAddr],
        now_ms: u64,
    ) -> FileLook {
        if self.starts_ms.is_none_or(|at| at > now_ms) {
            return FileLook::Same;
        }
        self.starts_ms = Some(now_ms + RESTARTS_AFTER_MS);
        let plan = match plan(&file.text, 1, servers) {
            Err(why) => return FileLook::Refused(why),
            Ok(_) if file.text.contains(DEADLY) => return FileLook::Ended,
            Ok(plan) => plan,
        };
        let process = RouterProcess::new(plan, file, self.probe_max_ms);
        net.start_again(
            self.host,
            RouteWorker::new(Arc::clone(&process.shared), now_ms),
            &[PORT],
            &options(),
        );
        (self.process, self.starts_ms) = (Some(process), None);
        self.starts += 1;
        FileLook::Loaded(file.clone())
    }

    /// A router that runs with its first file.
    pub(super) fn start(
        net: &mut World,
        file: &FileText,
        servers: &[SocketAddr],
        probe_max_ms: u32,
        seed: u64,
    ) -> SmallRouter {
        let plan = plan(&file.text, 1, servers).expect("the first text is good");
        let process = RouterProcess::new(plan, file, probe_max_ms);
        let worker = RouteWorker::new(Arc::clone(&process.shared), seed);
        let host = net.add(worker, &[PORT], &options());
        SmallRouter { host, process: Some(process), starts_ms: None, starts: 1, probe_max_ms }
    }
}

impl RouterProcess {
    fn new(plan: RoutePlan, file: &FileText, probe_max_ms: u32) -> RouterProcess {
        // A server that is back is asked soon: runs are short.
        let health = HealthSettings { probe_initial_ms: 500, probe_max_ms, ..HealthSettings::default() };
        let settings = Settings { health, ..Settings::default() };
        let shared = Arc::new(RouterShared::new(settings, plan));
        RouterProcess { shared, loaded: file.clone(), seen: file.text.clone(), plans: 1 }
    }

    /// The server of each key.
    pub(super) fn servers_of_keys(&self) -> Vec<String> {
        let mut tracer = KeyTracer::new(self.shared.plan(), 1);
        let server = |at: usize| tracer.servers(Operation::Get, key(at).as_bytes(), 1).concat();
        (0..KEYS).map(server).collect()
    }
}

pub(super) fn options() -> Options {
    Options { workers: 1, ..Options::default() }
}

/// The plan of a text, as a router without flags makes it.
pub(super) fn plan(text: &str, generation: u64, servers: &[SocketAddr]) -> Result<RoutePlan, String> {
    let mut importer = |path: &str| Err(format!("expected no @import, found one of {path}"));
    let is_local = |_| false;
    let environment =
        Environment { globals: Vec::new(), importer: &mut importer, is_local: &is_local, seed: 1 };
    let expanded =
        expand_config("route.json", text.as_bytes(), environment).map_err(|error| error.to_string())?;
    let mut resolve =
        |name: &str, _: u16| servers.get(name.strip_prefix('m')?.parse::<usize>().ok()?).copied();
    compile(&expanded.root, generation, &CompileOptions::default(), &mut resolve)
        .map_err(|error| error.located(&expanded.sources).to_string())
}

/// The address of a server.
pub(super) fn address(place: Place) -> SocketAddr {
    match place {
        Place::Tcp(address) => address,
        other => unreachable!("hosts have addresses, not {other}"),
    }
}
