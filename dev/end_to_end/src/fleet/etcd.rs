//! Members of etcd.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Fleet;
use crate::clock;
use crate::network::FleetHost;
use checkout::target_directory;

/// The etcd of this machine, or the one that `cargo xtask test` has fetched.
pub fn etcd_program() -> Option<PathBuf> {
    let unpacked = target_directory().join("etcd/unpacked/usr/bin/etcd");
    [unpacked, "/usr/bin/etcd".into()].into_iter().find(|program| program.exists())
}

impl Fleet {
    /// Starts the members of etcd that do not run, if there is an etcd; again with what they had.
    pub fn start_etcd(&mut self) {
        let Some(program) = etcd_program() else { return self.etcd.clear() };
        let peers: Vec<String> = self
            .etcd_ports
            .iter()
            .enumerate()
            .map(|(at, ports)| format!("e{at}=http://{}", ports[1].1))
            .collect();
        for at in (0..self.etcd.len()).filter(|at| self.etcd[*at].is_none()).collect::<Vec<_>>() {
            let [client, peer] = [0, 1].map(|of| format!("http://{}", self.etcd_ports[at][of].1));
            let mut command = Command::new(&program);
            command.arg("--data-dir").arg(self.folder.join(format!("etcd{at}")));
            command.args(["--unsafe-no-fsync", "--logger", "zap", "--name", &format!("e{at}")]);
            command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &peers.join(",")]).stdin(Stdio::null());
            self.etcd[at] = Some(self.start(FleetHost::Controller(at + 1), &mut command, "etcd.log"));
        }
        for ports in &self.etcd_ports {
            clock::wait_for(|| TcpStream::connect(ports[0].1).ok()).expect("etcd");
        }
    }

    /// Ends all members of etcd.
    pub fn kill_etcd(&mut self) {
        self.etcd.iter_mut().for_each(|member| *member = None);
    }

    /// The member that leads, if there is one.
    pub fn etcd_leader(&self) -> Option<usize> {
        (0..self.etcd.len()).filter(|at| self.etcd[*at].is_some()).find(|at| {
            let address = self.etcd_ports[*at][0].1;
            let status = post(address, "/v3/maintenance/status").unwrap_or_default();
            let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
            status["leader"].is_string() && status["leader"] == status["header"]["member_id"]
        })
    }

    /// Addresses of etcd's members.
    pub fn etcd_addresses(&self) -> Vec<String> {
        self.etcd_ports.iter().map(|ports| format!("http://{}", ports[0].1)).collect()
    }
}

fn post(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    // HTTP/1.0: without chunks, and the answer ends with the connection.
    write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: 2\r\n\r\n{{}}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}
