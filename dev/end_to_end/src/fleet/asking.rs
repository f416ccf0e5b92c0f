//! Questions to a fleet, as its operators and its clients ask them.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::{Fleet, Host};
use crate::clock;
use crate::network::FleetHost;

impl Fleet {
    /// Puts a policy in force when the members are fit, and waits until all routers have it.
    pub fn begin(&mut self, policy: &str) {
        fs::write(self.folder.join("policy.toml"), policy).expect("a file");
        let (count, is_fit) =
            (self.hosts.len(), |line: &&str| line.contains(" spare ") && line.contains("; answers within"));
        self.until(|fleet| fleet.status().lines().filter(is_fit).count() == count);
        self.control(&["plan", "--policy", "policy.toml", "--apply", "--why", "begin"]);
        self.until(|fleet| fleet.has_loaded(1));
    }

    /// Whether every router has loaded this generation.
    pub fn has_loaded(&self, generation: u64) -> bool {
        let row = |line: &&str| line.starts_with('r') && line.contains(" main ");
        let status = self.status();
        let rows: Vec<&str> = status.lines().filter(row).collect();
        let is_loaded = |line: &&str| line.split_whitespace().nth(2) == Some(&generation.to_string());
        rows.len() == self.hosts.iter().filter(|host| host.router.is_some()).count()
            && rows.iter().all(is_loaded)
    }

    /// The generation in force.
    pub fn generation(&self) -> Option<u64> {
        self.status()
            .lines()
            .find_map(|line| line.strip_prefix("generation ")?.split(':').next()?.parse().ok())
    }

    /// The first of these hosts whose server has a slot of a cluster.
    pub fn host_with_slot(&self, cluster: &str, hosts: impl IntoIterator<Item = usize>) -> Option<usize> {
        let (status, slot) = (self.status(), format!("{cluster}/s"));
        hosts.into_iter().find(|number| {
            let name = format!("m{number} ");
            status.lines().any(|line| line.starts_with(&name) && line.contains(&slot))
        })
    }

    /// The member that has a slot.
    #[track_caller]
    pub fn member_of(&self, slot: &str) -> String {
        let status = self.status();
        let line = status.lines().find(|line| line.contains(slot)).unwrap_or_else(|| panic!("{status}"));
        line.split_whitespace().next().expect("a member").to_owned()
    }

    /// Asks the router of a host, and returns the lines of its answer with spaces between them.
    pub fn ask_router(&self, number: usize, request: &str, last: &str) -> String {
        let router = self.host_of(number).router.as_ref().expect("a router");
        ask(router.connect().expect("a connection"), request, last)
    }

    /// Asks the server of a host.
    pub fn ask_server(&self, number: usize, request: &str, last: &str) -> String {
        ask(self.host_of(number).server.connect().expect("a connection"), request, last)
    }

    /// Where the server of a host listens.
    pub fn server_address(&self, number: usize) -> SocketAddr {
        self.host_of(number).server.address()
    }

    /// Where the router of a host listens.
    pub fn router_address(&self, number: usize) -> SocketAddr {
        self.host_of(number).router.as_ref().expect("a router").address()
    }

    fn host_of(&self, number: usize) -> &Host {
        self.hosts.iter().find(|host| host.number == number).expect("a host")
    }

    /// `evenkeel control` as its first operator.
    #[track_caller]
    pub fn control(&self, words: &[&str]) -> String {
        self.try_control(words).unwrap_or_else(|error| {
            let logs = (1..=self.controllers.len()).filter(|number| self.controllers[number - 1].is_some());
            let logs: Vec<String> = logs.map(|number| self.read(&format!("c{number}.log"))).collect();
            panic!("control {words:?}: {error}\nthe logs of controllers:\n{}", logs.join("\n"))
        })
    }

    /// The same, or what it says instead.
    ///
    /// # Errors
    /// What was said on standard error.
    pub fn try_control(&self, words: &[&str]) -> Result<String, String> {
        self.control_with("ca", words)
    }

    /// What `advise` says with these words about the fleet, or what it says instead.
    ///
    /// # Errors
    /// What was said on standard error.
    pub fn advise(&self, words: &[&str]) -> Result<String, String> {
        self.advise_with("ca/operator.pem", words)
    }

    /// The same for somebody with another role.
    ///
    /// # Errors
    /// What was said on standard error.
    pub fn advise_as(&self, role: &str, words: &[&str]) -> Result<String, String> {
        self.advise_with(&format!("{role}.pem"), words)
    }

    fn advise_with(&self, certificate: &str, words: &[&str]) -> Result<String, String> {
        let all: Vec<String> = self.ports.iter().map(|port| port.1.to_string()).collect();
        let mut command = self.verb("advise");
        command.args(words).args(["--control", &all.join(","), "--tls-ca", "ca/authority.pem"]);
        self.try_run(command.args(["--tls-cert", certificate]))
    }

    /// What `control status` says.
    pub fn status(&self) -> String {
        self.try_control(&["status"]).unwrap_or_else(|error| error)
    }

    /// Asks one controller alone, from its own host.
    ///
    /// # Errors
    /// What was said on standard error.
    pub fn control_at(&self, controller: usize, words: &[&str]) -> Result<String, String> {
        let mut command = self.verb("control");
        let address = self.controller_address(controller).to_string();
        command.args(words).args(["--at", &address, "--tls-ca", "ca/authority.pem"]);
        command.args(["--tls-cert", "ca/operator.pem"]);
        self.network.within(FleetHost::Controller(controller), || self.try_run(&mut command))
    }

    /// As the operator of an authority, who trusts the fleet's.
    pub fn control_with(&self, authority: &str, words: &[&str]) -> Result<String, String> {
        self.ask(&format!("{authority}/operator.pem"), words)
    }

    /// With a certificate of this role.
    pub fn control_as(&self, role: &str, words: &[&str]) -> Result<String, String> {
        self.ask(&format!("{role}.pem"), words)
    }

    fn ask(&self, certificate: &str, words: &[&str]) -> Result<String, String> {
        let all: Vec<String> = self.ports.iter().map(|port| port.1.to_string()).collect();
        let mut command = self.verb("control");
        command.args(words).args(["--at", &all.join(","), "--tls-ca", "ca/authority.pem"]);
        self.try_run(command.args(["--tls-cert", certificate]))
    }

    /// A file of the fleet's folder; nothing if there is none.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    /// Waits until something is so.
    #[track_caller]
    pub fn until(&self, is_so: impl Fn(&Fleet) -> bool) {
        let found = clock::wait_for(|| is_so(self).then_some(()));
        assert!(found.is_some(), "it does not happen; {}", self.status());
    }
}

fn ask(mut stream: TcpStream, request: &str, last: &str) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    stream.write_all(request.as_bytes()).expect("a request");
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    let is_whole =
        |answer: &[u8]| [last, "ERROR"].iter().any(|end| answer.ends_with(format!("{end}\r\n").as_bytes()));
    while !is_whole(&answer) {
        let len = stream.read(&mut part).unwrap_or(0);
        if len == 0 {
            break;
        }
        answer.extend_from_slice(&part[..len]);
    }
    String::from_utf8_lossy(&answer).lines().collect::<Vec<_>>().join(" ")
}
