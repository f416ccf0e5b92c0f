//! A cluster starts: the time from the start of `evenkeel up` to the first answer of its router, which is a miss that has come from a
//! server.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use end_to_end::subject;
use rustix::process::{Pid, Signal, kill_process};
use rustls::ClientConfig;
use tls::{ClientSettings, ClientTls, NameCheck};
use wire::{Deadline, ServerAddress, Wire};

use crate::figures::ScenarioFigures;
use crate::run_folder::RunFolder;

/// Pause between two questions: as exact as the figure is.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Starts a cluster, times its first answer, and ends it.
pub(crate) fn measure(servers: u16, is_encrypted: bool) -> Result<ScenarioFigures> {
    // Built before anything is timed.
    let mut command = subject::cluster();
    let folder = RunFolder::below(&std::env::temp_dir())?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let (kept, said) = (folder.path("cluster"), folder.path("said"));
    let (port_word, servers) = (port.to_string(), servers.to_string());
    command.args(["--port", &port_word, "--servers", &servers, "--memory", "16"]);
    command.args(is_encrypted.then_some("--tls"));
    command.arg("--dir").arg(&kept).stdin(Stdio::null()).stdout(File::create(&said)?);
    let began = clock::now();
    let mut cluster = RunningCluster(command.spawn().context("start evenkeel up")?);
    let authority = is_encrypted.then(|| kept.join("authority.pem"));
    while ask(port, authority.as_deref()).is_err() {
        if let Some(status) = cluster.0.try_wait()? {
            bail!("it ended at its start ({status})");
        }
        ensure!(began.elapsed() < clock::PATIENCE, "no answer");
        clock::pass(LOOK_EVERY);
    }
    let answered_s = began.elapsed().as_secs_f64();
    let said_s = clock::wait_for(|| {
        let said = std::fs::read_to_string(&said).ok()?;
        said.split_once("is up after ")?.1.split_once(" s")?.0.parse().ok()
    });
    cluster.end()?;
    Ok(vec![
        ("answered_s", answered_s),
        // What the cluster says itself.
        ("said_s", said_s.context("it does not say that it is up")?),
    ])
}

/// Has one get answered. There is no authority before the certificates are made.
fn ask(port: u16, authority: Option<&Path>) -> Result<()> {
    let (config, deadline) = (authority.map(trust).transpose()?, Deadline::within(ANSWER_WITHIN));
    let place = ServerAddress::Tcp("127.0.0.1".to_owned(), port);
    let mut wire = Wire::connect(&place, config.as_ref(), &deadline)?;
    wire.send(b"get a\r\n", &deadline)?;
    let (mut reply, mut part) = (Vec::new(), [0; 64]);
    while !reply.ends_with(b"END\r\n") {
        let len = wire.receive(&mut part, &deadline)?;
        ensure!(len > 0, "the connection has ended");
        reply.extend_from_slice(&part[..len]);
        ensure!(!reply.ends_with(b"\r\n") || reply.ends_with(b"END\r\n"), "it answers an error");
    }
    Ok(())
}

/// The settings of a client that trusts this authority.
fn trust(authority: &Path) -> Result<Arc<ClientConfig>> {
    let settings = ClientSettings {
        own: None,
        authorities: Some(authority.to_owned()),
        names: NameCheck::Host,
        resumes: false,
    };
    let (tls, _) = ClientTls::load(settings)
        .map_err(|error| anyhow::anyhow!("{}: {}", error.path.display(), error.source))?;
    Ok(tls.current())
}

/// A running cluster, killed with this value; its members end with it.
struct RunningCluster(Child);

impl RunningCluster {
    fn end(&mut self) -> Result<()> {
        let process = Pid::from_raw(self.0.id() as i32).context("a process id")?;
        kill_process(process, Signal::INT)?;
        let status = clock::wait_for(|| self.0.try_wait().transpose()).context("it does not end")??;
        ensure!(status.success(), "it ended with {status}");
        Ok(())
    }
}

impl Drop for RunningCluster {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
