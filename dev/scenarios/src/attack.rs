//! Hostile clients of a server, until this process or the server is ended.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use end_to_end::clock;
use end_to_end::hostile::{ATTACKS, Attack, Attackers};
use end_to_end::process::raise_open_files;

/// Open files: all attacks together have some thousand connections.
const FILES: u64 = 8_192;

/// Attacks a server of this host in all of these ways at the same time; without names in every way that there is.
pub(crate) fn attack(port: u16, names: &[String]) -> Result<()> {
    let is_wanted = |attack: &&Attack| names.is_empty() || names.iter().any(|name| name == attack.name);
    let wanted: Vec<&Attack> = ATTACKS.into_iter().filter(is_wanted).collect();
    ensure!(
        !wanted.is_empty() && (names.is_empty() || wanted.len() == names.len()),
        "expected attacks out of: {}",
        ATTACKS.map(|attack| attack.name).join(", ")
    );
    raise_open_files(FILES)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let _attackers = Attackers::start(address, &wanted);
    loop {
        // A server that is full accepts, and says so; one that is gone refuses.
        if let Err(error) = TcpStream::connect(address)
            && error.kind() == ErrorKind::ConnectionRefused
        {
            bail!("connect to {address}: {error}");
        }
        clock::pass(Duration::from_secs(1));
    }
}
