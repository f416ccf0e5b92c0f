//! `cargo xtask bench up`: the time from the start of `evenkeel up` to the first answer of its router.
//!
//! Measured is the release build, which is what a newcomer runs, or the binary that `EVENKEEL_BIN` names. With and without TLS take
//! turns in a random order. The answer is a miss that has come from a server through the router.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use end_to_end::clock;
use end_to_end::subject;
use rustix::process::{Pid, Signal, kill_process};
use stdx::prng::Prng;
use stdx::statistics::median;

use super::network::handshake::{ask, newest, session};

/// Time the start of a cluster
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Rounds
    #[arg(long, default_value_t = 10, value_name = "N")]
    rounds: usize,
    /// Servers of the cluster
    #[arg(long, default_value_t = 3, value_name = "N")]
    servers: u16,
    /// Seed of the order in a round
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Names, and what they add to the command line.
const CASES: [(&str, &[&str]); 2] = [("plain", &[]), ("--tls", &["--tls"])];

/// Pause between two questions: as exact as the figure is.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Times of a start, in seconds.
struct StartTimes {
    /// Until our client had an answer.
    answered_s: f64,
    /// What the cluster says itself.
    said_s: f64,
}

/// Runs it, and prints the table.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.rounds > 0, "expected at least one round");
    // Built before anything is timed.
    subject::cluster();
    let mut prng = Prng::new(arguments.seed);
    let mut all: [Vec<StartTimes>; 2] = [Vec::new(), Vec::new()];
    for round in 1..=arguments.rounds {
        for index in super::shuffled(CASES.len(), &mut prng) {
            let (name, flags) = CASES[index];
            let times = start(arguments, flags).with_context(|| format!("round {round}, {name}"))?;
            eprintln!("round {round} {name:<6} first answer after {:.3} s", times.answered_s);
            all[index].push(times);
        }
    }
    println!(
        "seconds, median (lowest to highest) of {} starts with {} servers",
        arguments.rounds, arguments.servers
    );
    for ((name, _), times) in CASES.iter().zip(&all) {
        let answered: Vec<f64> = times.iter().map(|times| times.answered_s).collect();
        let said: Vec<f64> = times.iter().map(|times| times.said_s).collect();
        println!("{name:<6} first answer {}, says {}", shown(&answered), shown(&said));
    }
    Ok(())
}

fn shown(values: &[f64]) -> String {
    let (low, high) =
        values.iter().fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    format!("{:.3} ({low:.3}–{high:.3})", median(values))
}

/// Starts a cluster, times its first answer, and ends it.
fn start(arguments: &Arguments, flags: &[&str]) -> Result<StartTimes> {
    let folder = RunFolder::new()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let (kept, said) = (folder.0.join("cluster"), folder.0.join("said"));
    let (port_word, servers) = (port.to_string(), arguments.servers.to_string());
    let mut command = subject::cluster();
    command.args(["--port", &port_word, "--servers", &servers, "--memory", "16"]).args(flags);
    command.arg("--dir").arg(&kept).stdin(Stdio::null()).stdout(File::create(&said)?);
    let began = clock::now();
    let mut cluster = RunningCluster(command.spawn().context("start evenkeel up")?);
    let authority = (!flags.is_empty()).then(|| kept.join("authority.pem"));
    while !answers(port, authority.as_deref()) {
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
    Ok(StartTimes { answered_s, said_s: said_s.context("it does not say that it is up")? })
}

fn answers(port: u16, authority: Option<&Path>) -> bool {
    let asked = match authority {
        None => TcpStream::connect(("127.0.0.1", port)).map_err(Into::into).and_then(|mut stream| {
            stream.set_read_timeout(Some(clock::PATIENCE))?;
            ask(&mut stream)
        }),
        // There is no authority before the certificates are made.
        Some(authority) => newest(authority).and_then(|config| ask(&mut session(port, &config)?)),
    };
    asked.is_ok()
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

/// A folder for one run, removed with this value.
struct RunFolder(PathBuf);

impl RunFolder {
    fn new() -> Result<RunFolder> {
        let folder = std::env::temp_dir().join(format!("evenkeel-bench-up-{}", std::process::id()));
        std::fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(RunFolder(folder))
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // If it fails, the files do no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
