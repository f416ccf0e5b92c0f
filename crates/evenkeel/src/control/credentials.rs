//! Certificates of controllers, agents and people: which files, and who they say their owner is.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use control::identity::{FleetIdentity, FleetRole};
use tls::{ClientSettings, ClientTls, NameCheck, certificate_uris, certificates};

use crate::failure::{Failure, say};

/// Files of an identity.
#[derive(Clone, Debug, Args)]
pub(crate) struct Credentials {
    /// Authorities whose certificates the others must have (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The certificate to show (PEM); its URI evenkeel://FLEET/ROLE/ID says whose it is
    #[arg(long, value_name = "FILE", requires = "tls_ca")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its key (PEM); without it, the key is in the certificate's file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl Credentials {
    /// Whether there are any.
    pub(crate) fn are_given(&self) -> bool {
        self.tls_cert.is_some()
    }

    /// Whose certificate it is.
    pub(crate) fn identity(&self) -> Result<FleetIdentity, Failure> {
        let Some(path) = &self.tls_cert else {
            let hint =
                "`control init` makes an authority, `control certificate` and join tokens make certificates";
            return Err(Failure::usage("expected --tls-ca FILE and --tls-cert FILE", Some(hint.to_owned())));
        };
        let chain = certificates(path).map_err(Failure::unreadable)?;
        let found = chain.first().and_then(|certificate| certificate_uris(certificate));
        let uris = found.map_or(Vec::new(), |found| found.uris);
        let [uri] = &uris[..] else {
            let (count, path) = (uris.len(), path.display());
            let expected = "expected a certificate with one URI, evenkeel://FLEET/ROLE/ID";
            return Err(Failure::usage(format!("{path}: {expected}, found {count} URIs"), None));
        };
        uri.parse().map_err(|error| Failure::usage(format!("{}: {error}", path.display()), None))
    }

    /// TLS settings for controllers: whatever their address, they must be controllers of this identity's fleet. Without
    /// certificates, nobody is trusted, and socket files can be used.
    pub(crate) fn client(&self) -> Result<Arc<ClientTls>, Failure> {
        let settings = match &self.tls_cert {
            None => ClientSettings::default(),
            Some(certificate) => {
                let key = self.tls_key.as_ref().unwrap_or(certificate);
                let fleet = self.identity()?.fleet;
                ClientSettings {
                    own: Some((certificate.clone(), key.clone())),
                    authorities: self.tls_ca.clone(),
                    names: NameCheck::UriUnder(FleetIdentity::uris_of(&fleet, FleetRole::Controller)),
                    resumes: false,
                }
            }
        };
        let (tls, warnings) = ClientTls::load(settings).map_err(Failure::unreadable)?;
        for warning in warnings {
            say(format_args!("evenkeel: control: {warning}"));
        }
        Ok(Arc::new(tls))
    }
}
