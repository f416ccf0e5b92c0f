//! Measurements of one proxy, for one row.

use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::proxy::Proxy;
use super::rows::{RouteFigure, RouteRow};

/// Idle clients: so many that the pages of each count, and what a proxy grows by only once does not.
const IDLE_CLIENTS: usize = 5000;

/// Clients before the first look, which make a proxy touch what it needs for any.
const FIRST_CLIENTS: usize = 100;

/// Files of this process, and of proxies that do not raise the limit themselves: a socket for each client, and some more.
pub(super) const FILES: u64 = 8192;

/// Where and how long is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    pub(super) load_cpu: usize,
    pub(super) window_ms: u64,
    /// Requests per second beside which probes are sent.
    pub(super) half_load: f64,
}

impl Measurement {
    /// The figure of a row.
    pub(super) fn of(&self, proxy: &Proxy, row: &RouteRow) -> Result<f64> {
        match row.figure {
            RouteFigure::KeysPerCpuSecond => {
                number(&self.load(proxy, row.words)?, "/server/keys_per_cpu_second")
            }
            RouteFigure::P50Us => number(&self.load(proxy, row.words)?, "/latency/p50_us"),
            RouteFigure::ProbesP99Us => {
                let rate = format!("{:.0}", self.half_load);
                let result = self.load(proxy, &[row.words, &["--rate", &rate]].concat())?;
                number(&result, "/probes/waits/service/p99_us")
            }
            RouteFigure::IdleBytes => idle_bytes(proxy),
        }
    }

    fn load(&self, proxy: &Proxy, words: &[&str]) -> Result<Value> {
        let duration = format!("{}ms", self.window_ms);
        let window = ["--warm-up", "200ms", "--duration", &duration];
        proxy.load_through(self.load_cpu, &[&window, words].concat())
    }
}

/// A number of a result.
pub(super) fn number(result: &Value, place: &str) -> Result<f64> {
    result.pointer(place).and_then(Value::as_f64).with_context(|| format!("no {place} in the result"))
}

/// Resident bytes for each of many clients that have asked once, and stay.
fn idle_bytes(proxy: &Proxy) -> Result<f64> {
    let open = |count: usize| (0..count).map(|_| client(proxy.port())).collect::<Result<Vec<_>>>();
    let _first = open(FIRST_CLIENTS)?;
    let before = os::processes::resident_bytes(&[proxy.id()]);
    let _idle = open(IDLE_CLIENTS)?;
    let grown = os::processes::resident_bytes(&[proxy.id()]).saturating_sub(before);
    Ok(grown as f64 / IDLE_CLIENTS as f64)
}

/// A client that has had its answer.
fn client(port: u16) -> Result<TcpStream> {
    const MISS: &[u8] = b"END\r\n";
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"get nobody-has-stored-this\r\n")?;
    let mut answer = [0; MISS.len()];
    stream.read_exact(&mut answer)?;
    ensure!(answer == MISS, "expected END, found {}", answer.escape_ascii());
    Ok(stream)
}
