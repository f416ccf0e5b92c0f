//! A client's TLS from files that can be read again: its certificate, and the servers that it trusts.

use crate::certificate::CertificateEnd;
use crate::client::{Trust, client};
use crate::client_names::{NameCheck, TrustedServers};
use crate::files::{TlsFileError, authorities, certificates, is_public, key, unusable};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// Servers whose sessions are kept, to be resumed.
const SERVERS_MAX: usize = 4096;

/// Names of files, and choices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientSettings {
    /// The client's certificate chain and its key, PEM; without, it shows none.
    pub own: Option<(PathBuf, PathBuf)>,
    /// The authorities of servers' certificates, PEM; without, any server is trusted.
    pub authorities: Option<PathBuf>,
    /// What a trusted certificate must be for.
    pub names: NameCheck,
    /// Whether sessions are resumed.
    pub resumes: bool,
}

/// The TLS of a client.
#[derive(Debug)]
pub struct ClientTls {
    settings: ClientSettings,
    loaded: RwLock<ClientInForce>,
}

/// What was read from the files of a client.
#[derive(Clone, Debug)]
pub struct ClientInForce {
    /// Settings for handshakes.
    pub config: Arc<ClientConfig>,
    /// When its certificate ends; `None` if it has none.
    pub end: Option<CertificateEnd>,
}

impl ClientTls {
    /// Reads the files. Also returned are warnings: sentences about files that are used all the same.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn load(settings: ClientSettings) -> Result<(ClientTls, Vec<String>), TlsFileError> {
        let (loaded, warnings) = load(&settings)?;
        Ok((ClientTls { settings, loaded: RwLock::new(loaded) }, warnings))
    }

    /// Reads the files again, and changes nothing yet. Also returned are warnings.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn read(&self) -> Result<(ClientInForce, Vec<String>), TlsFileError> {
        load(&self.settings)
    }

    /// Puts what was read in force, for handshakes from now on. Sessions stay as they are, but are not resumed: they may
    /// be with a server that is not trusted any more.
    pub fn replace(&self, read: ClientInForce) {
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = read;
    }

    /// Settings for the next handshakes.
    pub fn current(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// When the certificate ends that the next handshakes show; `None` if they show none.
    pub fn certificate_end(&self) -> Option<CertificateEnd> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).end.clone()
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let own = self.settings.own.iter().flat_map(|(chain, key)| [chain, key]);
        own.chain(&self.settings.authorities)
    }
}

fn load(settings: &ClientSettings) -> Result<(ClientInForce, Vec<String>), TlsFileError> {
    let builder = match (&settings.authorities, &settings.names) {
        (None, _) => client(Trust::Anyone)?,
        (Some(path), NameCheck::Host) => client(Trust::Authorities(path))?,
        (Some(path), names) => {
            let provider = Arc::new(ring::default_provider());
            let verifier = TrustedServers::new(authorities(path)?, names.clone(), &provider);
            ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("ring has cipher suites for TLS 1.2 and 1.3")
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let (mut warnings, mut end) = (Vec::new(), None);
    let mut config = match &settings.own {
        None => builder.with_no_client_auth(),
        Some((chain, path)) => {
            if is_public(path) {
                warnings.push(format!("every user of this host may read the keys in {}", path.display()));
            }
            let shown = certificates(chain)?;
            end = CertificateEnd::of(chain, &shown);
            let own = builder.with_client_auth_cert(shown, key(path)?);
            own.map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    unusable(path, &format!("it is not the key of the certificate in {}", chain.display()))
                }
                error => unusable(chain, &error.to_string()),
            })?
        }
    };
    config.resumption = match settings.resumes {
        true => Resumption::in_memory_sessions(SERVERS_MAX),
        false => Resumption::disabled(),
    };
    Ok((ClientInForce { config: Arc::new(config), end }, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scratch, tests_file as file};
    use std::fs;

    fn own(chain: &str, key: &str) -> ClientSettings {
        ClientSettings { own: Some((file(chain), file(key))), ..ClientSettings::default() }
    }

    #[track_caller]
    fn refused(settings: ClientSettings, path: PathBuf, expected: &str) {
        let error = ClientTls::load(settings).expect_err("is refused");
        assert_eq!(error.path, path);
        assert!(error.source.to_string().contains(expected), "{}", error.source);
    }

    #[test]
    fn files_that_do_not_belong_together_are_refused() {
        assert!(ClientTls::load(own("writer.pem", "writer-key.pem")).is_ok());
        refused(
            own("writer.pem", "reader-key.pem"),
            file("reader-key.pem"),
            "not the key of the certificate",
        );
        refused(own("writer.pem", "nowhere"), file("nowhere"), "No such file");
        let authorities = ClientSettings { authorities: Some(file("key.pem")), ..ClientSettings::default() };
        refused(authorities, file("key.pem"), "no certificate in it");
    }

    #[test]
    fn what_is_read_again_is_in_force_once_it_replaces_the_other() {
        let scratch = Scratch::new();
        let path = scratch.file("ca.pem", fs::read(file("ca.pem")).expect("a file"));
        let settings = ClientSettings { authorities: Some(path.clone()), ..ClientSettings::default() };
        let (tls, _) = ClientTls::load(settings).expect("files");
        let before = tls.current();
        fs::write(&path, "nothing").expect("write");
        assert!(tls.read().is_err());
        assert!(Arc::ptr_eq(&before, &tls.current()));
        fs::copy(file("ca.pem"), &path).expect("copy");
        let (config, warnings) = tls.read().expect("files");
        assert_eq!(warnings, Vec::<String>::new());
        assert!(Arc::ptr_eq(&before, &tls.current()));
        tls.replace(config);
        assert!(!Arc::ptr_eq(&before, &tls.current()));
    }
}
