//! A real etcd: processes of one test on ports of its own, which end with it.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use control::register::{EtcdLimits, EtcdRegister, EtcdSettings, EtcdUser, Register};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use rustix::process::{Pid, Signal, kill_process};
use tls::{ClientSettings, RunCertificates};

use crate::register::{PATIENCE, Scratch, until};

/// The members of a cluster.
pub(crate) struct Cluster {
    members: Vec<Member>,
    program: PathBuf,
    folder: Scratch,
}

struct Member {
    child: Child,
    client: SocketAddr,
    peer: SocketAddr,
    /// Keep the ports, also while the process is away.
    _ports: [OwnedFd; 2],
}

impl Cluster {
    /// Starts so many members, and waits until they answer. Without an etcd on this machine there is none, which is said.
    pub(crate) fn start(count: usize) -> Option<Cluster> {
        let program = program()?;
        let folder = Scratch::new();
        let ports: Vec<_> = (0..count).map(|_| (reserve_port(), reserve_port())).collect();
        let peers: Vec<String> =
            ports.iter().enumerate().map(|(at, (_, peer))| format!("m{at}=http://{}", peer.1)).collect();
        let members = ports.into_iter().enumerate().map(|(at, (client, peer))| {
            let child = launch(&program, &folder.0, at, client.1, peer.1, &peers);
            Member { child, client: client.1, peer: peer.1, _ports: [client.0, peer.0] }
        });
        let cluster = Cluster { members: members.collect(), program: program.clone(), folder };
        cluster.wait();
        Some(cluster)
    }

    /// One member that speaks TLS and asks for certificates, and its client, when they have spoken.
    pub(crate) fn start_over_tls() -> Option<(Cluster, EtcdRegister)> {
        let program = program()?;
        let folder = Scratch::new();
        let certificates = RunCertificates::new(&["127.0.0.1"], os::clock::unix_s()).expect("certificates");
        let file = |name: &str, text: &str| {
            let path = folder.0.join(name);
            std::fs::write(&path, text).expect("write");
            path
        };
        let authorities = file("ca.pem", &certificates.authority);
        let own = (file("cert.pem", &certificates.certificate), file("key.pem", &certificates.key));
        let ((client, address), (peer, peer_address)) = (reserve_port(), reserve_port());
        let url = format!("https://{address}");
        let mut etcd = Command::new(&program);
        etcd.args(["--data-dir"]).arg(folder.0.join("m0")).args(["--listen-client-urls", &url]);
        etcd.args(["--advertise-client-urls", &url, "--client-cert-auth", "--trusted-ca-file"]);
        etcd.arg(&authorities).arg("--cert-file").arg(&own.0).arg("--key-file").arg(&own.1);
        let peers = format!("http://{peer_address}");
        etcd.args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers]);
        etcd.args(["--initial-cluster", &format!("default={peers}"), "--unsafe-no-fsync", "--logger", "zap"]);
        let log = File::create(folder.0.join("m0.log")).expect("a log");
        etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = etcd.spawn().expect("etcd");
        let member = Member { child, client: address, peer: peer_address, _ports: [client, peer] };
        let cluster = Cluster { members: vec![member], program, folder };
        let tls =
            ClientSettings { own: Some(own), authorities: Some(authorities), ..ClientSettings::default() };
        let settings = EtcdSettings { members: vec![url], tls: Some(tls), ..EtcdSettings::default() };
        let register = EtcdRegister::new(&settings).expect("a client");
        let root = "/".parse().expect("a prefix");
        until("an etcd that speaks TLS", || register.range(&root).ok());
        Some((cluster, register))
    }

    /// The addresses with TLS, for clients that do not have all it takes.
    pub(crate) fn tls_settings(&self, tls: ClientSettings) -> EtcdSettings {
        let members = self.members.iter().map(|member| format!("https://{}", member.client)).collect();
        EtcdSettings { members, tls: Some(tls), ..EtcdSettings::default() }
    }

    /// The file of the authority, of a cluster with TLS.
    pub(crate) fn authority(&self) -> PathBuf {
        self.folder.0.join("ca.pem")
    }

    /// A client of all members.
    pub(crate) fn register(&self) -> EtcdRegister {
        EtcdRegister::new(&self.settings()).expect("a client")
    }

    pub(crate) fn register_with(&self, limits: EtcdLimits) -> EtcdRegister {
        EtcdRegister::new(&EtcdSettings { limits, ..self.settings() }).expect("a client")
    }

    pub(crate) fn register_as(&self, name: &str, password: &str) -> EtcdRegister {
        let user = Some(EtcdUser { name: name.to_owned(), password: password.to_owned() });
        EtcdRegister::new(&EtcdSettings { user, ..self.settings() }).expect("a client")
    }

    fn settings(&self) -> EtcdSettings {
        let members = self.members.iter().map(|member| format!("http://{}", member.client)).collect();
        EtcdSettings { members, ..EtcdSettings::default() }
    }

    /// What a member answers.
    pub(crate) fn ask(&self, member: usize, path: &str, request: &str) -> Option<serde_json::Value> {
        post(self.members[member].client, path, request).ok()
    }

    /// The member that leads.
    pub(crate) fn leader(&self) -> usize {
        until("a leader", || {
            (0..self.members.len()).find(|at| {
                let status = self.ask(*at, "/v3/maintenance/status", "{}").unwrap_or_default();
                status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
            })
        })
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.members[at].child.kill().expect("kill");
        self.members[at].child.wait().expect("its end");
    }

    pub(crate) fn restart(&mut self, at: usize) {
        let peers: Vec<String> = (self.members.iter().enumerate())
            .map(|(at, member)| format!("m{at}=http://{}", member.peer))
            .collect();
        let Member { client, peer, .. } = self.members[at];
        self.members[at].child = launch(&self.program, &self.folder.0, at, client, peer, &peers);
    }

    /// Saves what a member has in a file. Without an etcdctl on this machine there is none, which is said.
    pub(crate) fn snapshot(&self, at: usize) -> Option<PathBuf> {
        let file = self.folder.0.join("snapshot");
        let member = format!("http://{}", self.members[at].client);
        let saved =
            etcdctl(&self.program)?.args(["--endpoints", &member, "snapshot", "save"]).arg(&file).output();
        let saved = saved.expect("etcdctl");
        assert!(saved.status.success(), "{saved:?}");
        Some(file)
    }

    /// Ends the only member, and starts it again with what was saved.
    pub(crate) fn restore(&mut self, at: usize, snapshot: &Path) {
        self.kill(at);
        let directory = self.folder.0.join(format!("m{at}"));
        std::fs::remove_dir_all(&directory).expect("its directory");
        let (name, peer) = (format!("m{at}"), format!("http://{}", self.members[at].peer));
        let mut restore = etcdctl(&self.program).expect("it has saved");
        restore.args(["snapshot", "restore"]).arg(snapshot).arg("--data-dir").arg(&directory);
        restore.args(["--name", &name, "--initial-cluster", &format!("{name}={peer}")]);
        let restored = restore.args(["--initial-advertise-peer-urls", &peer]).output().expect("etcdctl");
        assert!(restored.status.success(), "{restored:?}");
        self.restart(at);
        self.wait();
    }

    pub(crate) fn signal(&self, at: usize, signal: Signal) {
        let pid = Pid::from_child(&self.members[at].child);
        kill_process(pid, signal).expect("it is ours, and runs");
    }

    /// Waits until every member answers and knows the leader.
    pub(crate) fn wait(&self) {
        for at in 0..self.members.len() {
            until("a member that is ready", || {
                // Read by the member itself only if there is a leader.
                let answer = self.ask(at, "/v3/kv/range", r#"{"key":"AA=="}"#)?;
                answer["header"]["revision"].as_str().map(drop)
            });
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

/// The one that `EVENKEEL_TEST_ETCD` names, that `cargo xtask test` has unpacked, or that is installed.
fn program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("EVENKEEL_TEST_ETCD") {
        return Some(program.into());
    }
    let unpacked = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../etcd/unpacked/usr/bin/etcd");
    let found = [unpacked, "/usr/bin/etcd".into()].into_iter().find(|program| program.exists());
    if found.is_none() {
        eprintln!("left out: there is no etcd (Debian: etcd-server); EVENKEEL_TEST_ETCD names another one");
    }
    found
}

/// The one beside etcd, or the one that is installed.
fn etcdctl(etcd: &Path) -> Option<Command> {
    let found = [etcd.with_file_name("etcdctl"), "/usr/bin/etcdctl".into()];
    let Some(program) = found.into_iter().find(|program| program.exists()) else {
        eprintln!("left out: there is no etcdctl (Debian: etcd-client)");
        return None;
    };
    let mut command = Command::new(program);
    command.env("ETCDCTL_API", "3").stdin(Stdio::null());
    Some(command)
}

fn launch(
    program: &Path,
    folder: &Path,
    at: usize,
    client: SocketAddr,
    peer: SocketAddr,
    peers: &[String],
) -> Child {
    let log = File::options().create(true).append(true).open(folder.join(format!("m{at}.log")));
    let (client, peer) = (format!("http://{client}"), format!("http://{peer}"));
    let mut etcd = Command::new(program);
    etcd.args(["--name", &format!("m{at}"), "--data-dir"]).arg(folder.join(format!("m{at}")));
    etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    etcd.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    etcd.args(["--initial-cluster", &peers.join(","), "--initial-cluster-state", "new"]);
    // The tests end processes, never the machine.
    etcd.args(["--unsafe-no-fsync", "--logger", "zap"]);
    etcd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
    etcd.spawn().unwrap_or_else(|error| panic!("start {}: {error}", program.display()))
}

/// A port that the kernel gives to nobody else while the socket exists. It does not listen, and both it and etcd set
/// SO_REUSEADDR to share the port.
fn reserve_port() -> (OwnedFd, SocketAddr) {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("a port");
    let address = getsockname(&socket).expect("its name").try_into().expect("IPv4");
    (socket, address)
}

fn post(address: SocketAddr, path: &str, request: &str) -> std::io::Result<serde_json::Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0: without chunks, and the answer ends with the connection.
    let head = format!("POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n", request.len());
    stream.write_all(format!("{head}{request}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(serde_json::from_str(body.lines().next().unwrap_or_default()).unwrap_or_default())
}
