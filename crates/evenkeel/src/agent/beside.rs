//! Certificates of the servers and routers that an agent is beside: which of them it gets and renews.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use control::identity::{FleetIdentity, FleetName, FleetRole};
use control::{PeerPlace, SayLine};
use rustls::ClientConfig;
use tls::ClientTls;

use super::settings::AgentFile;
use crate::control::Credentials;
use crate::failure::Failure;
use crate::peers::renewal::beside::{self, BesideCertificate, BesideSigners};

/// Gets and renews those that the file names. Returned are the ends of their lives.
pub(super) fn renew(
    file: &AgentFile,
    credentials: &Credentials,
    (tls, own): (Option<&Arc<ClientConfig>>, &Arc<ClientTls>),
    seed: u64,
    say: &SayLine,
) -> Result<Vec<(FleetIdentity, Arc<AtomicU64>)>, Failure> {
    let servers = file.server.iter().map(|one| {
        let id = one.member.as_str();
        // Where it is reached, the inventory says.
        (FleetRole::Server, id, one.certificate.as_ref(), &one.address, Vec::new())
    });
    let routers = file.router.iter().map(|one| {
        let id = one.name.as_str();
        let addresses = one.client_address.iter().chain([&one.address]);
        let mut hosts: Vec<String> = addresses.filter_map(|address| host_part(address)).collect();
        hosts.dedup();
        (FleetRole::Router, id, one.certificate.as_ref(), &one.address, hosts)
    });
    let mut certificates = Vec::new();
    for (role, id, path, address, hosts) in servers.chain(routers) {
        let Some(path) = path else { continue };
        let fleet = fleet(credentials)?;
        let identity = FleetIdentity { fleet, role, id: id.parse().map_err(Failure::other)? };
        let tls = tls.cloned().filter(|_| !address.starts_with("unix:"));
        let place = PeerPlace { address: address.clone(), tls };
        certificates.push(BesideCertificate { identity, path: path.clone(), place, hosts });
    }
    let Some(authorities) = credentials.tls_ca.clone().filter(|_| !certificates.is_empty()) else {
        return Ok(Vec::new());
    };
    let signers = BesideSigners {
        controllers: file.controllers.clone(),
        authorities,
        host: file.host.clone(),
        own: Arc::clone(own),
    };
    beside::start(certificates, signers, seed, say)
}

/// The host of HOST:PORT; none of the path of a socket.
fn host_part(address: &str) -> Option<String> {
    let (host, _) = address.rsplit_once(':').filter(|_| !address.starts_with("unix:"))?;
    Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}

/// The fleet, as the agent's own certificate says.
fn fleet(credentials: &Credentials) -> Result<FleetName, Failure> {
    if !credentials.are_given() {
        let expected = "`certificate` of a server or router: expected --tls-ca FILE and --tls-cert FILE of the agent, found none";
        let hint = "controllers sign over TLS only, for whoever shows the present certificate";
        return Err(Failure::usage(expected.to_owned(), Some(hint.to_owned())));
    }
    Ok(credentials.identity()?.fleet)
}
