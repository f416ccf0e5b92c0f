//! Agents that take turns: a task and a TLS connection for each.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use control::authority::Authority;
use end_to_end::clock;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tls::CertificateKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::counts::TurnCounts;
use super::layout::{CONTROLLERS, FleetLayout, names};
use super::tuner::PlayedTuner;

/// Agents of a process that begin in a second: what controllers and these processes can do on two cores.
const BEGIN_PER_S: u64 = 200;
/// Time after a failure.
const AGAIN: Duration = Duration::from_secs(1);
/// Orders with the text of 4,000 servers.
const ANSWER_LEN_MAX: usize = 1024 * 1024;

/// What a process plays.
#[derive(Serialize, Deserialize)]
pub(super) struct Part {
    /// The authority's directory.
    pub(super) authority: PathBuf,
    pub(super) controllers: Vec<SocketAddr>,
    /// Agents from here on.
    pub(super) first: usize,
    /// And before this one.
    pub(super) end: usize,
    pub(super) layout: FleetLayout,
}

/// Plays for ever, and counts.
pub(super) fn play(part: &Part, counts: &Arc<TurnCounts>) -> Result<()> {
    let authority = Authority::open(&part.authority).context("the fleet's authority")?;
    let roots = Arc::new(roots(&part.authority)?);
    let agents: Result<Vec<Agent>> = (part.first..part.end)
        .map(|number| {
            Ok(Agent {
                number,
                has_server: part.layout.has_server(number),
                routers: part.layout.routers_of(number),
                place: part.controllers[number % CONTROLLERS],
                connector: TlsConnector::from(Arc::new(config(&authority, number, &roots)?)),
                counts: Arc::clone(counts),
            })
        })
        .collect();
    let agents = agents?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for (number, agent) in agents.into_iter().enumerate() {
            tokio::spawn(agent.run());
            if (number as u64).is_multiple_of(BEGIN_PER_S) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        std::future::pending::<()>().await;
    });
    Ok(())
}

fn roots(authority: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority.join("authority.pem"))? {
        roots.add(certificate?)?;
    }
    Ok(roots)
}

/// An agent's own certificate.
fn config(authority: &Authority, number: usize, roots: &Arc<RootCertStore>) -> Result<ClientConfig> {
    let identity = format!("evenkeel://prod/agent/{}", names(number).0).parse()?;
    let key = CertificateKey::new()?;
    let signed = authority.sign(&key.request()?, &identity, &[], clock::unix_time())?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(signed.pem.as_bytes()).collect();
    let key = PrivateKeyDer::from_pem_slice(key.pem().as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut config = builder.with_root_certificates(Arc::clone(roots)).with_client_auth_cert(chain?, key)?;
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

struct Agent {
    number: usize,
    has_server: bool,
    routers: usize,
    place: SocketAddr,
    connector: TlsConnector,
    counts: Arc<TurnCounts>,
}

/// What the host of an agent has.
struct HostState {
    turn: u64,
    seen: u64,
    /// The server was emptied by this order.
    flushes: u64,
    /// What each router has loaded: a generation and a digest.
    loaded: Vec<Option<(u64, String)>>,
    tuner: PlayedTuner,
}

impl Agent {
    async fn run(self) {
        let Ok(tuner) = PlayedTuner::new(&names(self.number).0) else { return };
        let loaded = vec![None; self.routers];
        let (mut host, mut is_known) = (HostState { turn: 0, seen: 0, flushes: 0, loaded, tuner }, false);
        loop {
            if let Ok(mut stream) = self.connect().await {
                if !std::mem::replace(&mut is_known, true) {
                    self.counts.connected.fetch_add(1, Ordering::Relaxed);
                }
                while self.take_turn(&mut stream, &mut host).await.is_ok() {
                    self.counts.turns.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn connect(&self) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.place).await?;
        stream.set_nodelay(true)?;
        Ok(self.connector.connect(ServerName::from(self.place.ip()), stream).await?)
    }

    /// Says what the host has, and does what it is told.
    async fn take_turn(&self, stream: &mut TlsStream<TcpStream>, host: &mut HostState) -> Result<()> {
        host.turn += 1;
        let orders = ask(stream, &self.report(host)).await?;
        host.seen = orders.version;
        if let Some(order) = orders.members.first() {
            host.flushes = host.flushes.max(order.flushes);
        }
        for order in orders.routers {
            let number = order.router.rsplit_once('-').and_then(|(_, number)| number.parse::<usize>().ok());
            let router = number.and_then(|number| host.loaded.get_mut(number));
            let Some(loaded) = router else { bail!("an order for a router {}", order.router) };
            if loaded.as_ref().is_none_or(|(generation, _)| *generation != order.generation) {
                self.counts.loaded.fetch_add(1, Ordering::Relaxed);
            }
            *loaded = Some((order.generation, order.digest));
        }
        if host.tuner.change(&orders.changes) {
            self.counts.changed.fetch_add(1, Ordering::Relaxed);
        }
        host.tuner.answer(orders.tune)?;
        Ok(())
    }

    fn report(&self, host: &HostState) -> Value {
        let (number, (name, zone)) = (self.number, names(self.number));
        let server = || {
            json!({
                "member": format!("m{number}"), "process": {"running": {"pid": 4711}}, "flushes": host.flushes,
                "hits": host.turn, "misses": 1, "figures": server_figures(),
            })
        };
        let router = |(router, loaded): (usize, &Option<(u64, String)>)| {
            let (generation, loaded) = loaded.clone().unzip();
            json!({
                "router": format!("r{number}-{router}"), "view": "main", "generation": generation, "loaded": loaded,
                "text": "loaded", "has_traffic": true, "figures": router_figures(),
            })
        };
        let members: Vec<Value> = self.has_server.then(server).into_iter().collect();
        let routers: Vec<Value> = host.loaded.iter().enumerate().map(router).collect();
        let texts: BTreeSet<&String> = host.loaded.iter().flatten().map(|(_, digest)| digest).collect();
        json!({
            "host": name, "zone": zone, "boot": 1, "turn": host.turn, "seen": host.seen, "texts": texts,
            "tune": host.tuner.report(), "changes": host.tuner.changes(), "members": members, "routers": routers,
        })
    }
}

/// Since when all processes run, in seconds: counters have the length that they have after months.
const RUNS_S: u64 = 10_000_000;

/// What an agent tells of a server with 36,000 requests a second.
fn server_figures() -> Value {
    let now_s = clock::unix_time();
    let (at, up) = (now_s * 1000, now_s % 1_000_000 + RUNS_S);
    json!({
        "at": at, "pid": 4711, "up": up, "req": 36_000 * up, "hit": 35_000 * up, "miss": 1000 * up, "in": 4_000_000 * up,
        "out": 40_000_000 * up, "evict": 700 * up, "used": 91_000_000_000_u64, "limit": 92_000_000_000_u64, "conn": 20_000,
        "items": 75_000_000, "cpu": 900 * up,
        "page": {"at": at, "up": 1000 * up, "ready": 10 * up, "workers": 8, "wait": 112, "service": 48},
    })
}

/// The same of a router with 9,000 requests a second to one pool.
fn router_figures() -> Value {
    let now_s = clock::unix_time();
    let (at, up) = (now_s * 1000, now_s % 1_000_000 + RUNS_S);
    json!({
        "at": at, "pid": 4711, "req": 9000 * up, "err": up,
        "page": {
            "at": at, "up": 1000 * up, "late": up / 10, "hit": 8500 * up, "miss": 400 * up, "in": 11_000_000 * up,
            "out": 11_000_000 * up, "fail": up / 5, "tko": 0, "conn": 40, "p99": 512, "cpu": 200 * up,
            "pools": {"web": [9000 * up, up, up / 10]},
        },
    })
}

/// What a controller orders, without the texts: a real agent writes them.
#[derive(Deserialize)]
struct Orders {
    version: u64,
    #[serde(default)]
    members: Vec<ServerOrder>,
    #[serde(default)]
    routers: Vec<TextOrder>,
    #[serde(default)]
    changes: Vec<control::ChangeOrder>,
    #[serde(default)]
    tune: Option<control::TuneOrders>,
}

#[derive(Deserialize)]
struct ServerOrder {
    #[serde(default)]
    flushes: u64,
}

#[derive(Deserialize)]
struct TextOrder {
    router: String,
    generation: u64,
    digest: String,
}

/// One turn, and its orders.
async fn ask(stream: &mut TlsStream<TcpStream>, report: &Value) -> Result<Orders> {
    let body = report.to_string();
    let len = body.len();
    let head = format!(
        "POST /v1/turn HTTP/1.1\r\nHost: controller\r\nContent-Type: application/json\r\nContent-Length: {len}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.flush().await?;
    let (mut answer, mut part) = (Vec::new(), [0; 16_384]);
    loop {
        let len = stream.read(&mut part).await?;
        ensure!(len > 0 && answer.len() <= ANSWER_LEN_MAX, "the connection has ended");
        answer.extend_from_slice(&part[..len]);
        if let Some(body) = whole_body(&answer)? {
            return serde_json::from_slice(body).context("orders");
        }
    }
}

/// The body of an answer once all of it is there.
fn whole_body(answer: &[u8]) -> Result<Option<&[u8]>> {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = std::str::from_utf8(&answer[..end])?;
    if !head.starts_with("HTTP/1.1 200") {
        bail!("it answers {:?}", head.lines().next());
    }
    let len = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let body = &answer[end + 4..];
    Ok((body.len() >= len.context("a length")?).then_some(body))
}
