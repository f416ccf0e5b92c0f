//! A cluster: its members, the router's configuration, and what happens to a member that ends.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use os::clock::{Stopwatch, pause};
use stdx::log_level::LogLevel;

use super::Arguments;
use super::encryption::Encryption;
use super::held_lines::HeldLines;
use super::member::Member;
use super::place::Place;
use super::plane::{self, PlaneServer, PlaneSettings, SharedPid};
use super::ports::FreePorts;
use crate::failure::Failure;
use crate::process::privileges;
use crate::terminal::log;

/// Time for all members to answer.
const START_WITHIN: Duration = Duration::from_secs(30);
const LOOK_FOR_START_EVERY: Duration = Duration::from_millis(5);
/// Time for all members to end when they are asked to.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Interval at which members are asked whether they answer.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// A member that ends sooner after its start than this is started again no sooner than this after its start: one that
/// cannot run does not take a CPU.
const RESTART_EVERY: Duration = Duration::from_secs(2);

/// A reply of a server takes some microseconds here: one that has not answered within this many milliseconds hangs.
const SERVER_TIMEOUT_MS: &str = "200";
/// Milliseconds until a server that was unavailable is asked again.
const PROBE_AFTER_MS: &str = "1000";
/// The longest time between two such questions, in milliseconds: one that is back is refused for half as long again at most.
const PROBE_EVERY_MS: &str = "5000";

/// A key that nobody stores: the miss proves that the router and a server answer.
const QUESTION: &[u8] = b"get evenkeel-up-is-there\r\n";
const MISS: &[u8] = b"END\r\n";

pub(super) struct Cluster {
    router: SocketAddr,
    servers: Vec<SocketAddr>,
    /// Where the router, then each server, serves its metrics.
    metrics: Vec<SocketAddr>,
    /// Where the console is.
    console: SocketAddr,
    /// How many of them have a slot.
    slots: usize,
    memory_mb: u32,
    encryption: Option<Encryption>,
    /// The servers, then the router.
    members: Vec<Member>,
    asked: Stopwatch,
}

impl Cluster {
    /// Finds ports.
    pub(super) fn new(arguments: &Arguments, place: &Place) -> Result<Cluster, Failure> {
        let mut ports = FreePorts::from(arguments.port);
        let router = ports.take()?;
        let slots = usize::from(arguments.servers);
        let servers =
            (0..arguments.servers + arguments.spares).map(|_| ports.take()).collect::<Result<Vec<_>, _>>()?;
        let metrics = (0..=servers.len()).map(|_| ports.take()).collect::<Result<Vec<_>, _>>()?;
        let console = ports.take()?;
        let encryption = arguments.tls.then(|| Encryption::new(place)).transpose()?;
        let memory_mb = arguments.memory;
        Ok(Cluster {
            router,
            servers,
            metrics,
            console,
            slots,
            memory_mb,
            encryption,
            members: Vec::new(),
            asked: Stopwatch::start(),
        })
    }

    /// Starts all members, and waits until they answer; `false` if the user does not want to wait. The router comes last:
    /// a server that is not there yet would count as unavailable for it.
    pub(super) fn start(
        &mut self,
        place: &Place,
        lines: &Arc<HeldLines>,
        is_asked_to_end: &dyn Fn() -> bool,
    ) -> Result<bool, Failure> {
        let stays_root = privileges::default_user_is_missing()?;
        if stays_root {
            lines.say(
                LogLevel::Info,
                "this system has no user for servers that root starts, so they stay root (-u root)",
            );
        }
        for (index, address) in self.servers.clone().into_iter().enumerate() {
            let (port, memory) = (address.port().to_string(), self.memory_mb.to_string());
            let words = ["serve", "-l", "127.0.0.1", "-p", &port, "-m", &memory, "-t", "1"];
            let mut words = words.map(str::to_owned).to_vec();
            words.push(metrics_flag(self.metrics[index + 1]));
            if stays_root {
                words.extend(["-u", "root"].map(str::to_owned));
            }
            words.extend(self.encryption.iter().flat_map(Encryption::server_flags));
            self.add(format!("server {}", index + 1), address, words, place, SharedPid::default())?;
        }
        if !self.wait_until_it_answers(is_asked_to_end)? {
            return Ok(false);
        }
        let router_pid = SharedPid::default();
        let servers = self.members.iter().zip(&self.metrics[1..]).map(|(member, metrics)| PlaneServer {
            name: member.name.replace(' ', "-"),
            address: member.address,
            metrics: *metrics,
            pid: member.shared_pid(),
        });
        let settings = PlaneSettings {
            place,
            servers: servers.collect(),
            slots: self.slots,
            router_pid: SharedPid::clone(&router_pid),
            router_metrics: self.metrics[0],
            lines: Arc::clone(lines),
            tls: self.encryption.as_ref().map(|encryption| Arc::clone(&encryption.client)),
            console: self.console,
        };
        if !plane::start(settings, is_asked_to_end)? {
            return Ok(false);
        }
        let port = self.router.port().to_string();
        let fixed = [
            self.port_flag(),
            &port,
            "--listen-addresses",
            "127.0.0.1",
            "-t",
            SERVER_TIMEOUT_MS,
            "-r",
            PROBE_AFTER_MS,
            "--probe-timeout-max",
            PROBE_EVERY_MS,
        ];
        let mut words = vec![
            "route".to_owned(),
            "--asynclog-disable".to_owned(),
            // Test suites of clients begin with it.
            "--enable-flush-cmd".to_owned(),
            metrics_flag(self.metrics[0]),
            format!("--config=file:{}", plane::configuration(place).display()),
            format!("--unix-domain-sock={}", plane::router_socket(place).display()),
            "--reconfiguration-delay-ms=0".to_owned(),
        ];
        words.extend(fixed.map(str::to_owned));
        if let Some(encryption) = &self.encryption {
            words.extend([encryption.listener_flags(), encryption.trust_flags()].concat());
        }
        self.add("router".to_owned(), self.router, words, place, router_pid)?;
        if !self.wait_until_it_answers(is_asked_to_end)? {
            return Ok(false);
        }
        // One that takes longer serves all the same.
        let watch = Stopwatch::start();
        while !plane::is_settled(place)? && watch.passed() < START_WITHIN {
            if is_asked_to_end() {
                return Ok(false);
            }
            pause(LOOK_FOR_START_EVERY);
        }
        Ok(true)
    }

    fn add(
        &mut self,
        name: String,
        address: SocketAddr,
        words: Vec<String>,
        place: &Place,
        pid: SharedPid,
    ) -> Result<(), Failure> {
        let output = place.file(&format!("{}.log", name.replace(' ', "-")));
        self.members.push(Member::start(name, address, words, output, pid)?);
        Ok(())
    }

    /// Whether all that have been started answer.
    fn wait_until_it_answers(&mut self, is_asked_to_end: &dyn Fn() -> bool) -> Result<bool, Failure> {
        let watch = Stopwatch::start();
        loop {
            for member in &mut self.members {
                if let Some(status) = member.ended() {
                    let (name, words) = (&member.name, member.last_words());
                    return Err(Failure::other(anyhow::anyhow!(
                        "{name} ended at its start ({status}): {words}"
                    )));
                }
            }
            let tls = self.encryption.as_ref().map(|encryption| &encryption.client);
            if self.members.iter().all(|member| member.answers(tls, QUESTION, MISS)) {
                return Ok(true);
            }
            if is_asked_to_end() {
                return Ok(false);
            }
            if watch.passed() > START_WITHIN {
                let silent = self.members.iter().find(|member| !member.answers(tls, QUESTION, MISS));
                let name = silent.map_or("a member", |member| &member.name);
                return Err(Failure::other(anyhow::anyhow!(
                    "{name} does not answer within {} s",
                    START_WITHIN.as_secs()
                )));
            }
            pause(LOOK_FOR_START_EVERY);
        }
    }

    /// Starts members again that have ended, and reports those that do not answer.
    pub(super) fn look_after(&mut self) {
        for member in &mut self.members {
            restart_if_ended(member);
        }
        if self.asked.passed() < ASK_EVERY {
            return;
        }
        let tls = self.encryption.as_ref().map(|encryption| &encryption.client);
        for member in &mut self.members {
            let is_silent = !member.answers(tls, QUESTION, MISS);
            if is_silent != member.is_silent {
                let (name, address) = (&member.name, member.address);
                let words = if is_silent { "does not answer" } else { "answers again" };
                log::warning("up", format_args!("{name} ({address}) {words}"));
                member.is_silent = is_silent;
            }
        }
        self.asked = Stopwatch::start();
    }

    /// Ends all members: the router first, so that it has no server to miss.
    pub(super) fn stop(&mut self) {
        let watch = Stopwatch::start();
        self.members.iter().rev().for_each(Member::ask_to_end);
        while watch.passed() < END_WITHIN && self.members.iter_mut().any(|member| member.ended().is_none()) {
            pause(LOOK_FOR_START_EVERY);
        }
        // Those that have ended are not touched; the others have had their time (see Drop).
    }

    /// The router's flag for the port of its clients.
    fn port_flag(&self) -> &'static str {
        if self.encryption.is_some() { "--ssl-port" } else { "-p" }
    }

    /// What the user sees.
    pub(super) fn welcome(&self, place: &Place, after: Duration) -> String {
        let [servers @ .., router] = &self.members[..] else { return String::new() };
        let mut text = String::new();
        let mut line = |name: &str, words: String| {
            writeln!(text, "  {name:<9} {words}").expect("writing to memory does not fail");
        };
        line("router", format!("{}  (process {})", router.address, router.pid()));
        for (index, server) in servers.iter().enumerate() {
            let spare = if index < self.slots { "" } else { ", spare" };
            line(
                &server.name,
                format!("{}  (process {}), {} MB{spare}", server.address, server.pid(), self.memory_mb),
            );
        }
        line("policy", plane::policy_file(place).display().to_string());
        line("routes", plane::configuration(place).display().to_string());
        line("control", format!("unix:{}", plane::socket(place).display()));
        line(
            "metrics",
            format!(
                "http://{}/metrics of the router, :{} to :{} of the servers",
                self.metrics[0],
                self.metrics[1].port(),
                self.metrics[servers.len()].port()
            ),
        );
        line("console", format!("http://{}/", self.console));
        line("output", format!("{}/*.log", place.folder().display()));
        if let Some(encryption) = &self.encryption {
            line("TLS", format!("trust {}", encryption.authority.display()));
        }
        let (port, first) = (router.address.port(), servers.first().map_or(0, Member::pid));
        let (client, load_flags, route_flags) = match &self.encryption {
            None => (format!("nc 127.0.0.1 {port}"), String::new(), String::new()),
            Some(encryption) => (
                format!(
                    "openssl s_client -quiet -verify_return_error -CAfile {} -connect 127.0.0.1:{port}",
                    encryption.authority.display()
                ),
                format!(" --tls --tls-ca {}", encryption.authority.display()),
                format!(" {}", [encryption.listener_flags(), encryption.trust_flags()].concat().join(" ")),
            ),
        };
        let tops = self.metrics.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let replace = match self.slots < self.servers.len() {
            true => {
                "  evenkeel control replace server-1    # shows the plan; with --apply --why TEXT, a spare takes its slot\n"
            }
            false => "",
        };
        format!(
            "evenkeel {} is up after {:.2} s:\n{text}\n\
             Try it:\n  \
             printf 'set greeting 0 0 5\\r\\nhello\\r\\nget greeting\\r\\nquit\\r\\n' | {client}\n  \
             evenkeel load --server 127.0.0.1:{port}{load_flags} --rate 2000 --duration 5s --prefill\n  \
             evenkeel top {tops}\n  \
             kill -9 {first}    # a server: the others answer for it until it is there again, empty\n  \
             export EVENKEEL_CONTROL=unix:{}    # then `evenkeel control status`\n{replace}  \
             evenkeel route {} {} --config file:{}{route_flags}    # another router\n\n\
             Ctrl-C ends all.\n",
            env!("CARGO_PKG_VERSION"),
            after.as_secs_f64(),
            plane::socket(place).display(),
            self.port_flag(),
            self.console.port().saturating_add(1),
            plane::configuration(place).display(),
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.members.iter_mut().for_each(Member::kill);
    }
}

fn metrics_flag(address: SocketAddr) -> String {
    format!("--metrics-listen={address}")
}

fn restart_if_ended(member: &mut Member) {
    let Some(status) = member.ended() else { return };
    if !member.is_silent {
        member.is_silent = true;
        let (name, address, words) = (&member.name, member.address, member.last_words());
        log::warning("up", format_args!("{name} ({address}) has ended ({status}); its last output: {words}"));
    }
    if member.age() < RESTART_EVERY {
        return;
    }
    let restarted = member.restart();
    match restarted {
        Ok(()) => log::info("up", format_args!("{} is started again, process {}", member.name, member.pid())),
        Err(failure) => log::warning("up", failure),
    }
}
