//! Handshakes of TLS: connections that a client opens one after the other, counted against the server's CPU time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use end_to_end::clock;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use super::row::TlsVersion;
use super::server::NetworkServer;

/// Resumptions without which a row about them has no figure: a server that gives no tickets is not measured.
const RESUMED_MIN: f64 = 0.99;

/// A server that answers no request within this is broken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Server CPU in microseconds for each connection, with its handshake and one request; `None` if sessions are asked to
/// be resumed and are not.
pub(super) fn cpu_us(
    server: &NetworkServer,
    chain: &Path,
    (version, resumed): (TlsVersion, bool),
    window: Duration,
) -> Result<Option<f64>> {
    let config = Arc::new(config(chain, version, resumed)?);
    // The first one has nothing to resume.
    connect(server.port, &config)?;
    let (began, before) = (clock::now(), server.cpu_s()?);
    let (mut connections, mut of_kind) = (0_u32, 0_u32);
    while began.elapsed() < window {
        let kind = connect(server.port, &config)?;
        connections += 1;
        of_kind += u32::from((kind == HandshakeKind::Resumed) == resumed);
    }
    let share = f64::from(of_kind) / f64::from(connections);
    if resumed && share < RESUMED_MIN {
        return Ok(None);
    }
    ensure!(share >= RESUMED_MIN, "sessions were resumed that should not be");
    Ok(Some((server.cpu_s()? - before) * 1e6 / f64::from(connections)))
}

/// The settings of a client that trusts this certificate only.
fn config(chain: &Path, version: TlsVersion, resumed: bool) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(chain).context("read the certificate")?)?;
    let version = match version {
        TlsVersion::V1_2 => &TLS12,
        TlsVersion::V1_3 => &TLS13,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version])?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    if !resumed {
        config.resumption = Resumption::disabled();
    }
    Ok(config)
}

/// Opens a connection, has one request answered, and closes it. The answer follows what a server sends after its
/// handshake: tickets of TLS 1.3.
fn connect(port: u16, config: &Arc<ClientConfig>) -> Result<HandshakeKind> {
    let mut stream = session(port, config)?;
    ask(&mut stream)?;
    let kind = stream.conn.handshake_kind().context("a handshake that is over")?;
    stream.conn.send_close_notify();
    // A server may close first.
    let _ = stream.flush();
    Ok(kind)
}

/// An encrypted connection whose handshake begins with the first request.
pub(in crate::bench) fn session(
    port: u16,
    config: &Arc<ClientConfig>,
) -> Result<StreamOwned<ClientConnection, TcpStream>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).context("connect")?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let connection = ClientConnection::new(Arc::clone(config), name)?;
    Ok(StreamOwned::new(connection, stream))
}

/// The settings of a client of the newest version.
pub(in crate::bench) fn newest(chain: &Path) -> Result<Arc<ClientConfig>> {
    config(chain, TlsVersion::V1_3, false).map(Arc::new)
}

/// Sends a get, which any server here answers, and reads the end of its reply.
pub(in crate::bench) fn ask(stream: &mut (impl Read + Write)) -> Result<()> {
    converse(stream, b"get a\r\n", b"END\r\n")
}

/// Sends a request, and reads the reply until it ends so.
pub(super) fn converse(stream: &mut (impl Read + Write), request: &[u8], end: &[u8]) -> Result<()> {
    stream.write_all(request).context("send a request")?;
    let (mut reply, mut buffer) = (Vec::new(), [0; 1024]);
    while !reply.ends_with(end) {
        let received = stream.read(&mut buffer).context("receive a reply")?;
        ensure!(received > 0, "the server closed the connection");
        reply.extend_from_slice(&buffer[..received]);
    }
    Ok(())
}
