//! A client's end of a connection, with TLS or without.

use crate::server::Server;
use crate::subject::certificate;
use anyhow::{Context, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum ClientStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl ClientStream {
    /// A new connection; the handshake of TLS is over.
    pub(crate) fn open(server: &Server, tls: bool) -> Result<ClientStream> {
        let mut socket = server.connect()?;
        if !tls {
            return Ok(ClientStream::Plain(socket));
        }
        let name = ServerName::try_from("localhost").expect("a name");
        let mut session = ClientConnection::new(Arc::clone(config()), name)?;
        session.complete_io(&mut socket).context("handshake")?;
        Ok(ClientStream::Tls(Box::new(StreamOwned::new(session, socket))))
    }

    /// Tells the server that nothing more comes.
    pub(crate) fn finish(&mut self) {
        // After the server's own close there is nothing left to shut down.
        let socket = match self {
            ClientStream::Plain(socket) => socket,
            ClientStream::Tls(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
                &mut stream.sock
            }
        };
        let _ = socket.shutdown(Shutdown::Write);
    }
}

impl Read for ClientStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ClientStream::Plain(socket) => socket.read(buffer),
            ClientStream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for ClientStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ClientStream::Plain(socket) => socket.write(bytes),
            ClientStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ClientStream::Plain(socket) => socket.flush(),
            ClientStream::Tls(stream) => stream.flush(),
        }
    }
}

/// The settings of a client that trusts the authority of the servers under test.
fn config() -> &'static Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let mut authorities = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(certificate("authority")).expect("a certificate");
        authorities.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.expect("versions").with_root_certificates(authorities);
        Arc::new(builder.with_no_client_auth())
    })
}
