//! Probes: a controller's own look at every server, by the port that clients use.
//!
//! A server is asked for its `version` once a second, over one connection that stays, so that memcached can be asked, too.
//! Everything runs on one thread of its own.

pub(crate) mod objective;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet::MemberId;
use rustls::ClientConfig;
use stdx::prng::Prng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

/// Time from one probe of a server to its next.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// By how much that differs from probe to probe, either way.
const PROBE_JITTER_MS: u64 = 200;
/// A server that has not answered by then does not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The longest answer: a version is a word of some vendors with a few more.
const ANSWER_LEN_MAX: usize = 256;
/// Connections that are begun in the same moment would all be probed in the same moment, every second.
const SPREAD_MS: u64 = 1000;

/// A server to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeTarget {
    /// `HOST:PORT` or `unix:PATH`.
    pub address: String,
    /// Whether it speaks TLS.
    pub tls: bool,
}

/// What a probe has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// Of which server.
    pub member: MemberId,
    /// The time that it took to answer, or why it did not.
    pub answer: Result<Duration, String>,
}

/// Servers to probe, from now on: others are not probed any more.
#[derive(Clone, Debug)]
pub struct ProbeList {
    targets: Arc<watch::Sender<BTreeMap<MemberId, ProbeTarget>>>,
}

impl ProbeList {
    /// Replaces the list. A server that stays keeps its connection.
    pub fn set(&self, targets: BTreeMap<MemberId, ProbeTarget>) {
        self.targets.send_if_modified(|before| {
            let differs = *before != targets;
            if differs {
                *before = targets;
            }
            differs
        });
    }
}

/// Where the results go: called on the probes' thread, so it must not block.
pub(crate) type ProbeSink = Arc<dyn Fn(ProbeResult) + Send + Sync>;

/// Starts the thread. It ends when the list and all its copies are gone.
///
/// # Errors
/// If the system has no thread or descriptor left.
pub fn start_probes(tls: Arc<ClientConfig>, sink: ProbeSink) -> std::io::Result<ProbeList> {
    let (sender, receiver) = watch::channel(BTreeMap::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let thread = std::thread::Builder::new().name("probes".to_owned());
    thread.spawn(move || runtime.block_on(follow(receiver, TlsConnector::from(tls), sink)))?;
    Ok(ProbeList { targets: Arc::new(sender) })
}

/// Has a task for each server of the list.
async fn follow(
    mut list: watch::Receiver<BTreeMap<MemberId, ProbeTarget>>,
    connector: TlsConnector,
    sink: ProbeSink,
) {
    let mut tasks: BTreeMap<MemberId, (ProbeTarget, AbortHandle)> = BTreeMap::new();
    loop {
        let targets = list.borrow_and_update().clone();
        tasks.retain(|member, (target, task)| {
            let stays = targets.get(member) == Some(target);
            if !stays {
                task.abort();
            }
            stays
        });
        for (member, target) in targets {
            let begin = |target: &ProbeTarget| {
                let (member, target) = (member.clone(), target.clone());
                tokio::spawn(probe(member, target, connector.clone(), Arc::clone(&sink))).abort_handle()
            };
            tasks.entry(member.clone()).or_insert_with(|| (target.clone(), begin(&target)));
        }
        if list.changed().await.is_err() {
            return;
        }
    }
}

/// Probes one server for ever.
async fn probe(member: MemberId, target: ProbeTarget, connector: TlsConnector, sink: ProbeSink) {
    let spread: u64 = member.as_str().bytes().fold(0, |sum, byte| (sum * 31 + u64::from(byte)) % SPREAD_MS);
    sleep(Duration::from_millis(spread)).await;
    let mut prng = Prng::new(spread);
    let mut connection: Option<Box<dyn Dialogue>> = None;
    loop {
        let begun = Instant::now();
        let asked = timeout(ANSWER_WITHIN, ask(&mut connection, &target, &connector)).await;
        let answer = match asked {
            Ok(Ok(())) => Ok(begun.elapsed()),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("no answer within {} ms", ANSWER_WITHIN.as_millis())),
        };
        if answer.is_err() {
            // What comes late would be taken for the next answer.
            connection = None;
        }
        sink(ProbeResult { member: member.clone(), answer });
        // Not in step with anything: a server that stands still for half of each second would always be met at the same moment.
        let jitter = Duration::from_millis(prng.below(2 * PROBE_JITTER_MS));
        let next = PROBE_EVERY - Duration::from_millis(PROBE_JITTER_MS) + jitter;
        sleep(next.saturating_sub(begun.elapsed())).await;
    }
}

trait Dialogue: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Dialogue for S {}

/// Asks for the version, over a new connection if there is none.
async fn ask(
    connection: &mut Option<Box<dyn Dialogue>>,
    target: &ProbeTarget,
    connector: &TlsConnector,
) -> Result<(), String> {
    let stream = match connection {
        Some(stream) => stream,
        None => connection.insert(connect(target, connector).await?),
    };
    stream.write_all(b"version\r\n").await.map_err(|error| error.to_string())?;
    let (mut answer, mut len) = ([0; ANSWER_LEN_MAX], 0);
    while !answer[..len].ends_with(b"\n") {
        match stream.read(&mut answer[len..]).await {
            Ok(0) if len == ANSWER_LEN_MAX => return Err("its answer has no end".to_owned()),
            Ok(0) => return Err("it closes the connection".to_owned()),
            Ok(more) => len += more,
            Err(error) => return Err(error.to_string()),
        }
    }
    match answer.starts_with(b"VERSION ") {
        true => Ok(()),
        false => {
            let line = answer[..len].trim_ascii_end().escape_ascii();
            Err(format!("it answers \"{line}\" to `version`"))
        }
    }
}

async fn connect(target: &ProbeTarget, connector: &TlsConnector) -> Result<Box<dyn Dialogue>, String> {
    if let Some(path) = target.address.strip_prefix("unix:") {
        #[allow(
            clippy::disallowed_methods,
            reason = "a probe tells nothing, and believes only that something answers"
        )]
        let stream = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
        return Ok(Box::new(stream));
    }
    let stream = TcpStream::connect(&target.address).await.map_err(|error| error.to_string())?;
    if !target.tls {
        return Ok(Box::new(stream));
    }
    let host = target.address.rsplit_once(':').map_or(&*target.address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = rustls::pki_types::ServerName::try_from(host).map_err(|error| error.to_string())?;
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    Ok(Box::new(stream))
}

#[cfg(test)]
mod tests;
