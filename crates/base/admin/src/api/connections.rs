//! Connections of the API: handshakes, limits, and who is at the other end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::requests::respond;
use super::{Api, ApiLimits, ApiListener, ApiPeer, ApiTls};
use crate::streams::HttpStream;

/// The longest head: a path, a name and a few headers.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// Pause after a failure to accept (no descriptor is left), so that the thread does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections share.
struct Service {
    api: Arc<dyn Api>,
    limits: ApiLimits,
    /// A permit for each connection.
    room: Arc<Semaphore>,
    /// A permit for each byte of a body that is being read.
    bodies: Arc<Semaphore>,
    handshakes: Mutex<VecDeque<AbortHandle>>,
}

/// Serves all sockets for ever.
pub(super) async fn serve(listener: ApiListener, api: Arc<dyn Api>, limits: ApiLimits) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(limits.connections));
    let bodies = Arc::new(Semaphore::new(limits.bodies_len));
    let service = Arc::new(Service { api, limits, room, bodies, handshakes: Mutex::default() });
    let mut accepting = Vec::new();
    for (socket, tls) in listener.tcp {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(socket)?;
        accepting.push(tokio::spawn(accept_tcp(socket, tls, Arc::clone(&service))));
    }
    for socket in listener.unix {
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UnixListener::from_std(socket)?;
        accepting.push(tokio::spawn(accept_unix(socket, Arc::clone(&service))));
    }
    for task in accepting {
        // It ends only with the runtime.
        let _ = task.await;
    }
    Ok(())
}

async fn accept_tcp(
    socket: tokio::net::TcpListener,
    tls: Option<ApiTls>,
    service: Arc<Service>,
) -> Infallible {
    loop {
        match (socket.accept().await, &tls) {
            (Ok((stream, _)), None) => service.begin(stream, ApiPeer::Unknown),
            (Ok((stream, _)), Some(tls)) => service.shake_hands(stream, tls),
            (Err(_), _) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn accept_unix(socket: tokio::net::UnixListener, service: Arc<Service>) -> Infallible {
    loop {
        match socket.accept().await {
            Ok((stream, _)) => service.begin(stream, ApiPeer::Local),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

impl Service {
    /// Answers the requests of a connection from now on, if there is room.
    fn begin(self: &Arc<Service>, stream: impl HttpStream + 'static, peer: ApiPeer) {
        if let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() {
            tokio::spawn(Arc::clone(self).answer(Box::new(stream), peer, permit));
        }
    }

    /// Begins a handshake. A peer that fails is its own affair: it has been told by an alert, or has gone.
    fn shake_hands(self: &Arc<Service>, stream: TcpStream, tls: &ApiTls) {
        // Without it, a small reply waits for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let (service, accepting) = (Arc::clone(self), TlsAcceptor::from(tls()).accept(stream));
        let task = tokio::spawn(async move {
            if let Ok(Ok(stream)) = timeout(service.limits.handshake_time, accepting).await {
                let chain = stream.get_ref().1.peer_certificates();
                let leaf = chain.and_then(<[_]>::first).map(|leaf| leaf.as_ref().to_vec());
                service.begin(stream, leaf.map_or(ApiPeer::Unknown, ApiPeer::Certificate));
            }
        });
        let mut handshakes = self.handshakes.lock().unwrap_or_else(PoisonError::into_inner);
        if handshakes.len() >= self.limits.handshakes {
            handshakes.retain(|task| !task.is_finished());
        }
        while handshakes.len() >= self.limits.handshakes {
            if let Some(oldest) = handshakes.pop_front() {
                oldest.abort();
            }
        }
        handshakes.push_back(task.abort_handle());
    }

    async fn answer(
        self: Arc<Service>,
        stream: Box<dyn HttpStream>,
        peer: ApiPeer,
        _room: OwnedSemaphorePermit,
    ) {
        let head_time = self.limits.head_time;
        let answer = service_fn(|request| {
            respond(Arc::clone(&self.api), self.limits, Arc::clone(&self.bodies), peer.clone(), request)
        });
        let connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(head_time)
                .max_buf_size(HEAD_LEN_MAX)
                .max_headers(HEADERS_MAX)
                .serve_connection(TokioIo::new(stream), answer)
        );
        // hyper has answered or closed: what is wrong is the client's affair.
        let _ = connection.await;
    }
}
