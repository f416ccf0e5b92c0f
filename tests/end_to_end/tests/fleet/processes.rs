//! The processes of a fleet, in a folder of its own. All of them end with it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use control::authority::{Authority, keep_certificate};
use end_to_end::clock;
use end_to_end::server::{Server, reserve_port};
use end_to_end::subject::{self, ServerUnderTest, SocketDriver, target_directory};
use tls::CertificateKey;

/// Where the fleet keeps its decisions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    Directory,
    Etcd,
}

/// A process that ends with this value.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Port(#[expect(dead_code, reason = "keeps the port")] OwnedFd, SocketAddr);

fn port() -> Port {
    let (kept, address) = reserve_port().expect("a port");
    Port(kept, address)
}

struct Host {
    number: usize,
    server: Server,
    router: Option<Server>,
    _agent: Process,
}

/// The fleet.
pub(crate) struct Fleet {
    folder: PathBuf,
    place: Place,
    pub(crate) etcd: Option<Process>,
    etcd_ports: [Port; 2],
    ports: Vec<Port>,
    controllers: Vec<Option<Process>>,
    hosts: Vec<Host>,
}

impl Fleet {
    /// An authority, and nothing else yet.
    pub(crate) fn new(place: Place) -> Fleet {
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = target_directory().join("tmp").join(format!("fleet-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let folder = folder.canonicalize().expect("a folder");
        let ports = (0..3).map(|_| port()).collect();
        let (etcd_ports, controllers) = ([port(), port()], (0..3).map(|_| None).collect());
        let mut fleet =
            Fleet { folder, place, etcd: None, etcd_ports, ports, controllers, hosts: Vec::new() };
        fleet.run(fleet.verb("control").args(["init", "ca", "--fleet", "prod", "--operator", "ann"]));
        fleet.run(fleet.verb("control").args(["init", "another", "--fleet", "prod", "--operator", "ann"]));
        for role in ["agent", "router", "server", "reader"] {
            fleet.certificate(role, role);
        }
        if place == Place::Etcd {
            fleet.start_etcd();
        }
        fleet
    }

    fn verb(&self, verb: &str) -> Command {
        let mut command = Command::new(subject::router().get_program());
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

    fn start(&self, command: &mut Command, log: &str) -> Process {
        let log = File::options().create(true).append(true).open(self.folder.join(log)).expect("a log");
        Process(command.stdout(Stdio::null()).stderr(log).spawn().expect("a process"))
    }

    fn certificate(&self, role: &str, id: &str) {
        let out = format!("{id}.pem");
        let mut command = self.verb("control");
        command.args(["certificate", "--authority", "ca", "--role", role, "--id", id, "--out", &out]);
        if ["controller", "router", "server"].contains(&role) {
            command.args(["--host", "127.0.0.1"]);
        }
        self.run(&mut command);
    }

    /// Starts etcd, if there is one; again with what it had.
    pub(crate) fn start_etcd(&mut self) {
        let unpacked = target_directory().join("etcd/unpacked/usr/bin/etcd");
        let found = [unpacked, "/usr/bin/etcd".into()].into_iter().find(|program| program.exists());
        let Some(program) = found else { return };
        let [client, peer] = [0, 1].map(|at| format!("http://{}", self.etcd_ports[at].1));
        let mut command = Command::new(program);
        command.arg("--data-dir").arg(self.folder.join("etcd")).args([
            "--unsafe-no-fsync",
            "--logger",
            "zap",
        ]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}")]).stdin(Stdio::null());
        self.etcd = Some(self.start(&mut command, "etcd.log"));
        let address = self.etcd_ports[0].1;
        clock::wait_for(|| TcpStream::connect(address).ok()).expect("etcd");
    }

    pub(crate) fn kill_etcd(&mut self) {
        self.etcd = None;
    }

    /// Starts a controller, one of so many.
    pub(crate) fn controller(&mut self, number: usize, count: usize) {
        let name = format!("c{number}");
        self.certificate("controller", &name);
        let register = match self.place {
            Place::Directory => "directory:register".to_owned(),
            Place::Etcd => format!("etcd:http://{}", self.etcd_ports[0].1),
        };
        let all: Vec<String> = self.ports[..count].iter().map(|port| port.1.to_string()).collect();
        let listen = self.ports[number - 1].1.to_string();
        let mut command = self.verb("control");
        command.args(["serve", "--zone", &format!("z{number}"), "--listen", &listen, "--authority", "ca"]);
        command.args(["--register", &register, "--controllers", &all.join(",")]);
        command.args(["--audit", &format!("audit{number}.log"), "--tls-ca", "ca/authority.pem"]);
        command.args(["--tls-cert", &format!("{name}.pem")]);
        self.controllers[number - 1] = Some(self.start(&mut command, &format!("{name}.log")));
        let address = self.ports[number - 1].1;
        clock::wait_for(|| TcpStream::connect(address).ok()).unwrap_or_else(|| {
            panic!("controller {number} does not begin: {}", self.read(&format!("{name}.log")));
        });
    }

    pub(crate) fn kill_controller(&mut self, number: usize) {
        self.controllers[number - 1] = None;
    }

    /// A host with memcached, a router and an agent that joins with a token.
    pub(crate) fn host(&mut self, number: usize) {
        self.host_with(number, memcached(), "", |fleet| fleet.joining(number));
    }

    /// The same with a server of ours, which tells clients of its cluster.
    pub(crate) fn host_with_discovery(&mut self, number: usize) {
        let path = format!("{}/list{number}", self.folder.display());
        let subject = ServerUnderTest::evenkeel(SocketDriver::Epoll);
        let server = Server::start(&subject, &["--cluster-file", &path]).expect("a server");
        let entry = format!("cluster_file = \"{path}\"\n");
        self.host_with(number, server, &entry, |fleet| fleet.joining(number));
    }

    /// A host whose agent has had its certificate for so many days.
    pub(crate) fn host_with_old_certificate(&mut self, number: usize, days: u64) {
        self.old_certificate(number, days);
        self.host_with(number, memcached(), "", |fleet| fleet.agent(number, &[]));
    }

    fn joining(&self, number: usize) -> Command {
        let token = self.control(&["token", "--zone", &format!("z{number}")]);
        self.agent(number, &["--join", token.trim()])
    }

    fn host_with(
        &mut self,
        number: usize,
        server: Server,
        entry: &str,
        agent: impl FnOnce(&Fleet) -> Command,
    ) {
        let file = |name: &str| self.folder.join(format!("{name}{number}"));
        fs::write(file("m"), format!("{}\n", server.pid())).expect("a file");
        fs::write(file("route"), "{\"route\": \"ErrorRoute\"}").expect("a file");
        let router = self.router(number);
        let controllers: Vec<String> = self.ports.iter().map(|port| format!("\"{}\"", port.1)).collect();
        let (folder, all) = (self.folder.display(), controllers.join(", "));
        let text = format!(
            "host = \"h{number}\"\nzone = \"z{number}\"\ncontrollers = [{all}]\nfolder = \"{folder}/agent{number}\"\n\
             [[server]]\nmember = \"m{number}\"\naddress = \"{}\"\npid_file = \"{folder}/m{number}\"\n{entry}\
             [[router]]\nname = \"r{number}\"\nview = \"main\"\nfile = \"{folder}/route{number}\"\n\
             address = \"{}\"\npid_file = \"{folder}/r{number}\"\n",
            server.address(),
            router.address()
        );
        fs::write(file("agent.toml"), text).expect("a file");
        let agent = self.start(&mut agent(self), &format!("agent{number}.log"));
        let member = format!(
            "[[member]]\nid = \"m{number}\"\nhost = \"h{number}\"\nzone = \"z{number}\"\naddress = \"{}\"\n",
            server.address()
        );
        fs::write(file("members"), member).expect("a file");
        self.control(&["members", &format!("members{number}"), "--apply", "--why", "a new host"]);
        self.hosts.push(Host { number, server, router: Some(router), _agent: agent });
    }

    fn router(&self, number: usize) -> Server {
        let configuration = format!("file:{}", self.folder.join(format!("route{number}")).display());
        let flags = ["--config", &configuration, "--reconfiguration-delay-ms", "0"];
        let router = Server::start_router(&flags).expect("a router");
        fs::write(self.folder.join(format!("r{number}")), format!("{}\n", router.pid())).expect("a file");
        router
    }

    /// The router of a host, on another port.
    pub(crate) fn restart_router(&mut self, number: usize) {
        self.hosts[number - 1].router = None;
        self.hosts[number - 1].router = Some(self.router(number));
    }

    fn agent(&self, number: usize, flags: &[&str]) -> Command {
        let mut command = self.verb("agent");
        command.arg(format!("agent.toml{number}")).args(flags).args(["--tls-ca", "ca/authority.pem"]);
        command.args(["--tls-cert", &format!("h{number}.pem")]);
        command
    }

    /// Signs an agent's certificate as the fleet's authority has done it so many days ago.
    fn old_certificate(&self, number: usize, days: u64) {
        let authority = Authority::open(&self.folder.join("ca")).expect("an authority");
        let identity = format!("evenkeel://prod/agent/h{number}").parse().expect("an identity");
        let key = CertificateKey::new().expect("a key");
        let begin_s = clock::unix_time() - days * 24 * 60 * 60;
        let signed = authority.sign(&key.request().expect("a request"), &identity, &[], begin_s);
        let path = self.folder.join(format!("h{number}.pem"));
        keep_certificate(&path, &key, &signed.expect("a certificate").pem, &identity, begin_s)
            .expect("a file");
    }

    /// Joins as a host that has nothing, and ends when it has joined or was refused.
    pub(crate) fn join(&self, number: usize, token: &str) -> Result<(), String> {
        let text = self.read("agent.toml1").replace("\"h1\"", &format!("\"h{number}\""));
        let text = text.replace("zone = \"z1\"", &format!("zone = \"z{number}\""));
        let text = text.replace("/agent1\"", &format!("/agent{number}\""));
        fs::write(self.folder.join(format!("agent.toml{number}")), text).expect("a file");
        let log = format!("join{number}.log");
        let _ = fs::remove_file(self.folder.join(&log));
        let mut process = self.start(&mut self.agent(number, &["--join", token.trim()]), &log);
        let said = clock::wait_for(|| {
            let has_ended = process.0.try_wait().expect("a child").is_some();
            let said = self.read(&log);
            (has_ended || said.contains("beside 1 routers")).then_some((has_ended, said))
        });
        match said.expect("it joins or is refused") {
            (false, _) => Ok(()),
            (true, said) => Err(said),
        }
    }

    /// Puts a policy in force when the members are fit, and waits until all routers have it.
    pub(crate) fn begin(&mut self, policy: &str) {
        fs::write(self.folder.join("policy.toml"), policy).expect("a file");
        let (count, is_fit) =
            (self.hosts.len(), |line: &&str| line.contains(" spare ") && line.contains("; answers within"));
        self.until(|fleet| fleet.status().lines().filter(is_fit).count() == count);
        self.control(&["plan", "--policy", "policy.toml", "--apply", "--why", "begin"]);
        self.until(|fleet| fleet.has_loaded(1));
    }

    /// Whether every router has loaded this generation.
    pub(crate) fn has_loaded(&self, generation: u64) -> bool {
        let row = |line: &&str| line.starts_with('r') && line.contains(" main ");
        let status = self.status();
        let rows: Vec<&str> = status.lines().filter(row).collect();
        let is_loaded = |line: &&str| line.split_whitespace().nth(2) == Some(&generation.to_string());
        rows.len() == self.hosts.len() && rows.iter().all(is_loaded)
    }

    /// The member that has a slot.
    #[track_caller]
    pub(crate) fn member_of(&self, slot: &str) -> String {
        let status = self.status();
        let line = status.lines().find(|line| line.contains(slot)).unwrap_or_else(|| panic!("{status}"));
        line.split_whitespace().next().expect("a member").to_owned()
    }

    /// Asks the router of a host, and returns the lines of its answer with spaces between them.
    pub(crate) fn ask_router(&self, number: usize, request: &str, last: &str) -> String {
        let router = self.host_of(number).router.as_ref().expect("a router");
        ask(router.connect().expect("a connection"), request, last)
    }

    /// Asks the server of a host.
    pub(crate) fn ask_server(&self, number: usize, request: &str, last: &str) -> String {
        ask(self.host_of(number).server.connect().expect("a connection"), request, last)
    }

    pub(crate) fn server_address(&self, number: usize) -> SocketAddr {
        self.host_of(number).server.address()
    }

    fn host_of(&self, number: usize) -> &Host {
        self.hosts.iter().find(|host| host.number == number).expect("a host")
    }

    /// `evenkeel control` as its first operator.
    #[track_caller]
    pub(crate) fn control(&self, words: &[&str]) -> String {
        self.try_control(words).unwrap_or_else(|error| panic!("control {words:?}: {error}"))
    }

    pub(crate) fn try_control(&self, words: &[&str]) -> Result<String, String> {
        self.control_with("ca", words)
    }

    pub(crate) fn status(&self) -> String {
        self.try_control(&["status"]).unwrap_or_else(|error| error)
    }

    /// As the operator of an authority, who trusts the fleet's.
    pub(crate) fn control_with(&self, authority: &str, words: &[&str]) -> Result<String, String> {
        self.ask(&format!("{authority}/operator.pem"), words)
    }

    /// With a certificate of this role.
    pub(crate) fn control_as(&self, role: &str, words: &[&str]) -> Result<String, String> {
        self.ask(&format!("{role}.pem"), words)
    }

    fn ask(&self, certificate: &str, words: &[&str]) -> Result<String, String> {
        let all: Vec<String> = self.ports.iter().map(|port| port.1.to_string()).collect();
        let mut command = self.verb("control");
        command.args(words).args(["--at", &all.join(","), "--tls-ca", "ca/authority.pem"]);
        self.try_run(command.args(["--tls-cert", certificate]))
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn until(&self, is_so: impl Fn(&Fleet) -> bool) {
        let found = clock::wait_for(|| is_so(self).then_some(()));
        assert!(found.is_some(), "it does not happen; {}", self.status());
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

fn memcached() -> Server {
    Server::start::<&str>(&ServerUnderTest::memcached().expect("a memcached"), &[]).expect("a server")
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
