//! TLS of a cluster: certificates that are made for this run, and the flags with which members use them.

use std::path::PathBuf;
use std::sync::Arc;

use os::clock::unix_s;
use rustls::ClientConfig;
use tls::RunCertificates;

use super::place::Place;
use crate::failure::Failure;
use crate::peers::server_tls;

/// Where members listen, by address and by name.
const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// Files of a cluster's certificates, and the settings of a client that trusts them.
pub(super) struct Encryption {
    /// The certificate of the authority: what a client needs.
    pub(super) authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    pub(super) client: Arc<ClientConfig>,
}

impl Encryption {
    /// Makes certificates. Those of an earlier run are replaced.
    pub(super) fn new(place: &Place) -> Result<Encryption, Failure> {
        let folder = place.folder().display();
        // A list of sub-options has no escapes.
        if folder.to_string().contains(',') {
            return Err(Failure::usage(format!("--tls needs a --dir without commas, found {folder}"), None));
        }
        let made = RunCertificates::new(&NAMES, unix_s())
            .map_err(|error| Failure::system("make certificates", error))?;
        let key = place.write_secret("member-key.pem", &made.key)?;
        let certificate = place.write("member.pem", &made.certificate)?;
        let authority = place.write("authority.pem", &made.authority)?;
        let client = server_tls::trusting(authority.clone())?;
        Ok(Encryption { authority, certificate, key, client })
    }

    /// Of a server: all of its connections are encrypted.
    pub(super) fn server_flags(&self) -> Vec<String> {
        let files = format!("ssl_chain_cert={},ssl_key={}", self.certificate.display(), self.key.display());
        vec!["-Z".to_owned(), "-o".to_owned(), files]
    }

    /// Of the router, towards clients.
    pub(super) fn listener_flags(&self) -> Vec<String> {
        let files = [("--server-pem-cert-path", &self.certificate), ("--server-pem-key-path", &self.key)];
        files.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]).collect()
    }

    /// Of the router, towards servers: they are trusted by this run's authority, for their address.
    pub(super) fn trust_flags(&self) -> Vec<String> {
        let authority = self.authority.display().to_string();
        ["--ssl-verify-peers", "--ssl-verify-names", "--pem-ca-path", &authority].map(str::to_owned).to_vec()
    }
}
