//! The processes of a fleet, in a folder of its own. All of them end with it.

mod asking;
mod etcd;

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use control::authority::{Authority, keep_certificate};
pub use etcd::etcd_program;
use tls::CertificateKey;

use crate::clock;
use crate::network::{self, FleetHost, FleetNetwork};
use crate::server::{Server, reserve_port_on};
use crate::subject::{self, ServerUnderTest, SocketDriver};
use checkout::target_directory;

/// Where the fleet keeps its decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionStore {
    /// In files, for one controller.
    Directory,
    /// In etcd with so many members.
    Etcd(usize),
}

/// A process that ends with this value.
#[derive(Debug)]
pub struct FleetProcess(Child);

impl FleetProcess {
    /// Its id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug)]
struct Port(#[expect(dead_code, reason = "keeps the port")] OwnedFd, SocketAddr);

fn port(ip: Ipv4Addr) -> Port {
    let (kept, address) = reserve_port_on(ip).expect("a port");
    Port(kept, address)
}

/// Where the page of figures of a server or router is, by its line at the start.
fn page_of(server: &Server) -> SocketAddr {
    let address = || {
        let said = server.said();
        let (_, behind) = said.split_once("metrics at http://")?;
        behind.split_once("/metrics")?.0.parse().ok()
    };
    clock::wait_for(address).expect("the line at the start names it")
}

/// A host: a server, perhaps a router, and their agent.
#[derive(Debug)]
pub struct Host {
    /// Its number, from 1: the names of its parts end with it.
    pub number: usize,
    /// Its server.
    pub server: Server,
    /// Its router.
    pub router: Option<Server>,
    /// Its agent, if it runs.
    pub agent: Option<FleetProcess>,
}

/// What is special about a host.
#[derive(Debug, Clone, Copy, Default)]
pub struct HostKind {
    /// It has a server alone.
    pub has_no_router: bool,
    /// Its server is ours, and tells clients of its cluster.
    pub tells_clients: bool,
    /// Its router tells clients of the routers of its zone.
    pub lists_routers: bool,
    /// Its zone, if it is not one of its own.
    pub zone: Option<&'static str>,
    /// Its server is ours, and both it and its router have pages of figures that its agent reads.
    pub has_pages: bool,
    /// What its agent is told to be its server's page.
    pub server_page: Option<SocketAddr>,
    /// Its agent changes the host, by the program `tuner` in the folder `tunerN` of the fleet's.
    pub has_tuner: bool,
    /// Its agent has had its certificate for so many days, and needs no token.
    pub certificate_days: Option<u64>,
    /// Its server and its router show certificates to clients, which they have had for so many days.
    pub shown_days: Option<u64>,
}

/// The fleet.
#[derive(Debug)]
pub struct Fleet {
    folder: PathBuf,
    place: DecisionStore,
    /// What its servers are.
    pub servers: ServerUnderTest,
    /// Members of etcd that run.
    pub etcd: Vec<Option<FleetProcess>>,
    etcd_ports: Vec<[Port; 2]>,
    ports: Vec<Port>,
    controllers: Vec<Option<FleetProcess>>,
    /// More flags of controllers.
    pub controller_flags: Vec<String>,
    /// Hosts in the order of their numbers.
    pub hosts: Vec<Host>,
    /// Controllers have had their certificates for so many days.
    pub controller_days: Option<u64>,
    /// Where its processes run.
    pub network: FleetNetwork,
}

impl Fleet {
    /// An authority, and nothing else yet.
    pub fn new(place: DecisionStore) -> Fleet {
        Fleet::on(FleetNetwork::loopback(), place)
    }

    /// The same on another network.
    pub fn on(network: FleetNetwork, place: DecisionStore) -> Fleet {
        Fleet::of(network, place, ServerUnderTest::memcached().expect("a memcached"))
    }

    /// The same with other servers.
    pub fn of(network: FleetNetwork, place: DecisionStore, servers: ServerUnderTest) -> Fleet {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder =
            target_directory().join("tmp").join(format!("fleet-{}-{number}", network::unique_name()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let folder = folder.canonicalize().expect("a folder");
        let ports = |at: usize| {
            let place = FleetHost::Controller(at + 1);
            network.within(place, || [port(network.ip(place)), port(network.ip(place))])
        };
        let controller_port = |at: usize| {
            let place = FleetHost::Controller(at + 1);
            network.within(place, || port(network.ip(place)))
        };
        let members = if let DecisionStore::Etcd(count) = place { count } else { 0 };
        let mut fleet = Fleet {
            folder,
            place,
            servers,
            etcd: (0..members).map(|_| None).collect(),
            etcd_ports: (0..members).map(ports).collect(),
            ports: (0..3).map(controller_port).collect(),
            controllers: (0..3).map(|_| None).collect(),
            controller_flags: Vec::new(),
            hosts: Vec::new(),
            controller_days: None,
            network,
        };
        fleet.run(fleet.verb("control").args(["init", "ca", "--fleet", "prod", "--operator", "ann"]));
        fleet.run(fleet.verb("control").args(["init", "another", "--fleet", "prod", "--operator", "ann"]));
        for role in ["agent", "router", "server", "reader"] {
            fleet.certificate(role, role);
        }
        fleet.start_etcd();
        fleet
    }

    pub(crate) fn verb(&self, verb: &str) -> Command {
        self.verb_behind(&[], verb)
    }

    /// The same behind words that start it, such as `env NAME=VALUE`.
    fn verb_behind(&self, words: &[&str], verb: &str) -> Command {
        let program = subject::router().get_program().to_owned();
        let mut command = match words {
            [] => Command::new(program),
            [first, more @ ..] => {
                let mut command = Command::new(first);
                command.args(more).arg(program);
                command
            }
        };
        command.arg(verb).current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn try_run(&self, command: &mut Command) -> Result<String, String> {
        let output = command.output().expect("a process");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    #[track_caller]
    fn run(&self, command: &mut Command) -> String {
        self.try_run(command).unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }

    fn start(&self, place: FleetHost, command: &mut Command, log: &str) -> FleetProcess {
        let log = File::options().create(true).append(true).open(self.folder.join(log)).expect("a log");
        command.stdout(Stdio::null()).stderr(log);
        FleetProcess(self.network.within(place, || command.spawn()).expect("a process"))
    }

    /// Makes a certificate, in the file that has the name of its owner.
    pub fn certificate(&self, role: &str, id: &str) {
        self.certificate_for(role, id, Ipv4Addr::LOCALHOST);
    }

    fn certificate_for(&self, role: &str, id: &str, ip: Ipv4Addr) {
        let out = format!("{id}.pem");
        let mut command = self.verb("control");
        command.args(["certificate", "--authority", "ca", "--role", role, "--id", id, "--out", &out]);
        if ["controller", "router", "server"].contains(&role) {
            command.args(["--host", &ip.to_string()]);
        }
        self.run(&mut command);
    }

    /// Starts a controller, one of so many.
    pub fn controller(&mut self, number: usize, count: usize) {
        self.controller_behind(number, count, &[]);
    }

    /// The same behind words that start it.
    pub fn controller_behind(&mut self, number: usize, count: usize, words: &[&str]) {
        let (name, place) = (format!("c{number}"), FleetHost::Controller(number));
        let ip = self.network.ip(place);
        match self.controller_days {
            Some(days) => self.old_certificate("controller", &name, &[ip.to_string()], days),
            None => self.certificate_for("controller", &name, ip),
        }
        let register = match self.place {
            DecisionStore::Directory => "directory:register".to_owned(),
            DecisionStore::Etcd(_) => format!("etcd:{}", self.etcd_addresses().join(",")),
        };
        let all: Vec<String> = self.ports[..count].iter().map(|port| port.1.to_string()).collect();
        let listen = self.ports[number - 1].1.to_string();
        let mut command = self.verb_behind(words, "control");
        command.args(["serve", "--zone", &format!("z{number}"), "--listen", &listen, "--authority", "ca"]);
        command.args(["--register", &register, "--controllers", &all.join(",")]);
        command.args(["--audit", &format!("audit{number}.log"), "--tls-ca", "ca/authority.pem"]);
        command.args(["--tls-cert", &format!("{name}.pem")]).args(&self.controller_flags);
        self.controllers[number - 1] = Some(self.start(place, &mut command, &format!("{name}.log")));
        let address = self.ports[number - 1].1;
        clock::wait_for(|| TcpStream::connect(address).ok()).unwrap_or_else(|| {
            panic!("controller {number} does not begin: {}", self.read(&format!("{name}.log")));
        });
    }

    /// A path in the fleet's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file of the fleet's folder.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect("a file");
    }

    /// Where a controller listens.
    pub fn controller_address(&self, number: usize) -> SocketAddr {
        self.ports[number - 1].1
    }

    /// Tells the agent which process a server is now.
    pub fn note_pid(&self, at: usize) {
        let host = &self.hosts[at];
        self.write(&format!("m{}", host.number), &format!("{}\n", host.server.pid()));
    }

    /// Tells the agent which process a router is now.
    pub fn note_router_pid(&self, at: usize) {
        let host = &self.hosts[at];
        if let Some(router) = &host.router {
            self.write(&format!("r{}", host.number), &format!("{}\n", router.pid()));
        }
    }

    /// Starts an agent again, with the certificate that it has.
    pub fn restart_agent(&mut self, at: usize) {
        self.restart_agent_behind(at, &[]);
    }

    /// The same behind words that start it.
    pub fn restart_agent_behind(&mut self, at: usize, words: &[&str]) {
        self.hosts[at].agent = None;
        let number = self.hosts[at].number;
        let mut command = self.agent_behind(words, number, &[]);
        self.hosts[at].agent =
            Some(self.start(FleetHost::Host(number), &mut command, &format!("agent{number}.log")));
    }

    /// The process of a controller.
    pub fn controller_pid(&self, number: usize) -> Option<u32> {
        self.controllers[number - 1].as_ref().map(FleetProcess::pid)
    }

    /// Ends a controller.
    pub fn kill_controller(&mut self, number: usize) {
        self.controllers[number - 1] = None;
    }

    /// A host with a server, a router and an agent that joins with a token.
    pub fn host(&mut self, number: usize) {
        self.host_with(number, HostKind::default());
    }

    /// A host of this kind.
    pub fn host_with(&mut self, number: usize, kind: HostKind) {
        let file = |name: &str| self.folder.join(format!("{name}{number}"));
        let list = file("list").display().to_string();
        let shown = kind.shown_days.map(|days| self.old_certificates(number, days));
        let pages: &[&str] = if kind.has_pages { &["--metrics-listen", "127.0.0.1:0"] } else { &[] };
        let (server, mut entry) = match kind.tells_clients || kind.has_pages {
            _ if let Some([path, _]) = &shown => {
                let files = format!("ssl_chain_cert={path},ssl_key={path}");
                let server = self.server(number, &self.servers, &["-Z", "-o", &files]);
                (server, format!("certificate = \"{path}\"\n"))
            }
            true if kind.has_pages => {
                let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
                (self.server(number, &subject, pages), String::new())
            }
            true => {
                let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
                let server = self.server(number, &subject, &["--cluster-file", &list]);
                (server, format!("cluster_file = \"{list}\"\n"))
            }
            false => (self.server(number, &self.servers, &[]), String::new()),
        };
        fs::write(file("m"), format!("{}\n", server.pid())).expect("a file");
        fs::write(file("route"), "{\"route\": \"ErrorRoute\"}").expect("a file");
        let routers = self.folder.join(format!("routers{number}")).display().to_string();
        let compared = [pages, &["--compare-shadows"]].concat();
        let flags: &[&str] = match kind.lists_routers {
            true => &["--cluster-file", &routers],
            false if kind.has_pages => &compared,
            false => &[],
        };
        let page = |server: &Server| kind.has_pages.then(|| page_of(server));
        if let Some(page) = kind.server_page.or(page(&server)) {
            entry += &format!("metrics = \"{page}\"\n");
        }
        let router = (!kind.has_no_router).then(|| match &shown {
            Some([_, path]) => {
                let own = ["--server-pem-cert-path", path, "--server-pem-key-path", path];
                self.router_at(number, "--ssl-port", &own)
            }
            None => self.router_with(number, flags),
        });
        let zone = kind.zone.map_or_else(|| format!("z{number}"), str::to_owned);
        let controllers: Vec<String> = self.ports.iter().map(|port| format!("\"{}\"", port.1)).collect();
        let (folder, all) = (self.folder.display(), controllers.join(", "));
        let tls =
            shown.as_ref().map_or(String::new(), |_| format!("tls_ca = \"{folder}/ca/authority.pem\"\n"));
        let mut text = format!(
            "host = \"h{number}\"\nzone = \"{zone}\"\ncontrollers = [{all}]\nfolder = \"{folder}/agent{number}\"\n{tls}\
             [[server]]\nmember = \"m{number}\"\naddress = \"{}\"\npid_file = \"{folder}/m{number}\"\n{entry}",
            server.address()
        );
        if let Some(router) = &router {
            text += &format!(
                "[[router]]\nname = \"r{number}\"\nview = \"main\"\nfile = \"{folder}/route{number}\"\n\
                 address = \"{}\"\npid_file = \"{folder}/r{number}\"\n",
                router.address()
            );
            if let Some([_, path]) = &shown {
                text += &format!("certificate = \"{path}\"\n");
            }
            if let Some(page) = page(router) {
                text += &format!("metrics = \"{page}\"\n");
            }
            if kind.lists_routers {
                text += &format!("client_address = \"{}\"\ncluster_file = \"{routers}\"\n", router.address());
            }
        }
        if kind.has_tuner {
            text +=
                &format!("[tune]\nplan = true\napply = true\nbinary = \"{folder}/tuner{number}/tuner\"\n");
        }
        fs::write(file("agent.toml"), text).expect("a file");
        let member = format!(
            "[[member]]\nid = \"m{number}\"\nhost = \"h{number}\"\nzone = \"{zone}\"\naddress = \"{}\"\n",
            server.address()
        );
        fs::write(file("members"), member).expect("a file");
        self.control(&["members", &format!("members{number}"), "--apply", "--why", "a new host"]);
        let mut command = match kind.certificate_days {
            Some(days) => {
                self.old_certificate("agent", &format!("h{number}"), &[], days);
                self.agent(number, &[])
            }
            None => {
                let token = self.control(&["token", "--zone", &zone]);
                self.agent(number, &["--join", token.trim()])
            }
        };
        let agent = self.start(FleetHost::Host(number), &mut command, &format!("agent{number}.log"));
        self.hosts.push(Host { number, server, router, agent: Some(agent) });
    }

    fn server(&self, number: usize, subject: &ServerUnderTest, flags: &[&str]) -> Server {
        let place = FleetHost::Host(number);
        let start = || Server::start_on(self.network.ip(place), subject, flags);
        self.network.within(place, start).expect("a server")
    }

    fn router(&self, number: usize) -> Server {
        self.router_with(number, &[])
    }

    fn router_with(&self, number: usize, more: &[&str]) -> Server {
        self.router_at(number, "-p", more)
    }

    /// A router with this flag for its port.
    fn router_at(&self, number: usize, port: &str, more: &[&str]) -> Server {
        let configuration = format!("file:{}", self.folder.join(format!("route{number}")).display());
        let flags = [&["--config", &*configuration, "--reconfiguration-delay-ms", "0"], more].concat();
        let place = FleetHost::Host(number);
        let start = || Server::start_router_on(self.network.ip(place), port, &flags);
        let router = self.network.within(place, start).expect("a router");
        fs::write(self.folder.join(format!("r{number}")), format!("{}\n", router.pid())).expect("a file");
        router
    }

    /// The router of a host, on another port.
    pub fn restart_router(&mut self, number: usize) {
        self.hosts[number - 1].router = None;
        self.hosts[number - 1].router = Some(self.router(number));
    }

    fn agent(&self, number: usize, flags: &[&str]) -> Command {
        self.agent_behind(&[], number, flags)
    }

    fn agent_behind(&self, words: &[&str], number: usize, flags: &[&str]) -> Command {
        let mut command = self.verb_behind(words, "agent");
        command.arg(format!("agent.toml{number}")).args(flags).args(["--tls-ca", "ca/authority.pem"]);
        command.args(["--tls-cert", &format!("h{number}.pem")]);
        command
    }

    /// Signs a certificate as the fleet's authority has done it so many days ago.
    fn old_certificate(&self, role: &str, id: &str, hosts: &[String], days: u64) {
        let authority = Authority::open(&self.folder.join("ca")).expect("an authority");
        let identity = format!("evenkeel://prod/{role}/{id}").parse().expect("an identity");
        let key = CertificateKey::new().expect("a key");
        let begin_s = clock::unix_time() - days * 24 * 60 * 60;
        let signed = authority.sign(&key.request().expect("a request"), &identity, hosts, begin_s);
        let path = self.folder.join(format!("{id}.pem"));
        keep_certificate(&path, &key, &signed.expect("a certificate").pem, &identity, begin_s)
            .expect("a file");
    }

    /// Old certificates of a host's server and router. Returns their files.
    fn old_certificates(&self, number: usize, days: u64) -> [String; 2] {
        let hosts = [self.network.ip(FleetHost::Host(number)).to_string()];
        [("server", format!("m{number}")), ("router", format!("r{number}"))].map(|(role, id)| {
            self.old_certificate(role, &id, &hosts, days);
            self.folder.join(format!("{id}.pem")).display().to_string()
        })
    }

    /// Joins as a host that has nothing, and ends when it has joined or was refused.
    pub fn join(&self, number: usize, token: &str) -> Result<(), String> {
        let text = self.read("agent.toml1").replace("\"h1\"", &format!("\"h{number}\""));
        let text = text.replace("zone = \"z1\"", &format!("zone = \"z{number}\""));
        let text = text.replace("/agent1\"", &format!("/agent{number}\""));
        fs::write(self.folder.join(format!("agent.toml{number}")), text).expect("a file");
        let log = format!("join{number}.log");
        let _ = fs::remove_file(self.folder.join(&log));
        let mut process =
            self.start(FleetHost::Host(number), &mut self.agent(number, &["--join", token.trim()]), &log);
        let said = clock::wait_for(|| {
            let has_ended = process.0.try_wait().expect("a child").is_some();
            let said = self.read(&log);
            (has_ended || said.contains("beside 1 router ")).then_some((has_ended, said))
        });
        match said.expect("it joins or is refused") {
            (false, _) => Ok(()),
            (true, said) => Err(said),
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["c1.log", "agent1.log", "agent2.log", "etcd.log"] {
                let text = self.read(name);
                eprintln!("{name}: {}", &text[text.floor_char_boundary(text.len().saturating_sub(2000))..]);
            }
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
