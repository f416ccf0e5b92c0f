//! Connections of scrapers and browsers: how many there are, how long they last, how much they may send.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::Limits;
use crate::answers::{Answers, PeerCertificate};
use crate::streams::{ApiTls, HttpStream};

/// The longest head: a request for a page needs some 200 bytes, with a browser's cookies a few thousand.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// Headers of a request; browsers send 20.
const HEADERS_MAX: usize = 64;
/// Pause after a failure to accept (no descriptor is left), so that the thread does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for a reply in progress when its connection has reached its age.
const LAST_REPLY: Duration = Duration::from_secs(5);

/// Serves all sockets for ever, by TLS if there are settings for it.
pub(crate) async fn serve(
    sockets: Vec<TcpListener>,
    tls: Option<ApiTls>,
    site: Arc<impl Answers>,
    limits: Limits,
) -> io::Result<()> {
    let open = Arc::new(Open::new(limits.connections));
    let mut accepting = Vec::new();
    for socket in sockets {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(socket)?;
        accepting.push(tokio::spawn(accept(
            socket,
            tls.clone(),
            Arc::clone(&site),
            Arc::clone(&open),
            limits,
        )));
    }
    for task in accepting {
        // It ends only with the runtime.
        let _ = task.await;
    }
    Ok(())
}

async fn accept(
    socket: tokio::net::TcpListener,
    tls: Option<ApiTls>,
    site: Arc<impl Answers>,
    open: Arc<Open>,
    limits: Limits,
) -> Infallible {
    // Peers that say nothing take the place of each other, and of nobody who has shaken hands.
    let handshakes = Open::new(limits.connections);
    loop {
        match socket.accept().await {
            Ok((stream, _)) => {
                let site = Arc::clone(&site);
                match &tls {
                    None => {
                        open.admit(|| {
                            tokio::spawn(answer(Box::new(stream), None, site, limits)).abort_handle()
                        });
                    }
                    Some(tls) => {
                        let begin = begin(stream, Arc::clone(tls), site, Arc::clone(&open), limits);
                        handshakes.admit(|| tokio::spawn(begin).abort_handle());
                    }
                }
            }
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// A connection over TLS from its first byte. A peer whose handshake fails has been told by an alert, or has gone.
async fn begin(stream: TcpStream, tls: ApiTls, site: Arc<impl Answers>, open: Arc<Open>, limits: Limits) {
    // Without it, a small reply waits for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let shaken = timeout(limits.head_time, TlsAcceptor::from(tls()).accept(stream)).await;
    if let Ok(Ok(stream)) = shaken {
        let chain = stream.get_ref().1.peer_certificates();
        let leaf = chain.and_then(<[_]>::first).map(|leaf| PeerCertificate(leaf.as_ref().to_vec()));
        open.admit(|| tokio::spawn(answer(Box::new(stream), leaf, site, limits)).abort_handle());
    }
}

/// Answers the requests of one connection. What is wrong with it is its client's affair: hyper has answered or closed.
async fn answer(
    stream: Box<dyn HttpStream>,
    peer: Option<PeerCertificate>,
    site: Arc<impl Answers>,
    limits: Limits,
) {
    let answer = service_fn(|mut request: Request<Incoming>| {
        if let Some(peer) = &peer {
            request.extensions_mut().insert(peer.clone());
        }
        let answer = Arc::clone(&site).answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head_time)
            .max_buf_size(HEAD_LEN_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), answer)
    );
    if timeout(limits.age, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(LAST_REPLY, connection).await;
    }
}

/// The open connections, the oldest first.
struct Open {
    max: usize,
    tasks: Mutex<VecDeque<AbortHandle>>,
}

impl Open {
    fn new(max: usize) -> Open {
        Open { max, tasks: Mutex::default() }
    }

    /// Begins a connection. At the limit the oldest one is closed first: clients that do nothing must not keep out the
    /// next scrape, and a scraper whose idle connection is closed opens another.
    fn admit(&self, begin: impl FnOnce() -> AbortHandle) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= self.max {
            tasks.retain(|task| !task.is_finished());
        }
        while tasks.len() >= self.max {
            if let Some(oldest) = tasks.pop_front() {
                oldest.abort();
            }
        }
        tasks.push_back(begin());
    }
}
