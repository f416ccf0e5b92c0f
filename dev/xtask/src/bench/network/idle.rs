//! Memory of idle connections: the growth of the server while very many connect, ask once, and stay.

use std::net::TcpStream;
use std::path::Path;

use anyhow::Result;
use end_to_end::process::raise_open_files;

use super::handshake::{ask, newest, session};
use super::row::Service;
use super::server::NetworkServer;

/// Connections: so many that the pages of each count, and what a server grows by only once does not.
const CONNECTIONS: usize = 5000;

/// Connections before the first look, which make a server touch what it needs for any.
const FIRST: usize = 100;

/// Files of this process: a socket for each, and some more.
const FILES: u64 = 8192;

/// Bytes of resident memory for each idle connection.
pub(super) fn bytes_each(server: &NetworkServer, service: Service, chain: &Path) -> Result<f64> {
    raise_open_files(FILES)?;
    let config = newest(chain)?;
    let is_tls = service == Service::Tls;
    let open = |count: usize| -> Result<Vec<TcpStream>> {
        let one = |_| match is_tls {
            true => {
                let mut stream = session(server.port, &config)?;
                ask(&mut stream)?;
                Ok(stream.sock)
            }
            false => {
                let mut stream = TcpStream::connect(("127.0.0.1", server.port))?;
                ask(&mut stream)?;
                Ok(stream)
            }
        };
        (0..count).map(one).collect()
    };
    let _first = open(FIRST)?;
    let before = os::processes::resident_bytes(&[server.id()]);
    let _idle = open(CONNECTIONS)?;
    let grown = os::processes::resident_bytes(&[server.id()]).saturating_sub(before);
    Ok(grown as f64 / CONNECTIONS as f64)
}
