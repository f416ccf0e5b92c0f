//! The TLS of a router: files from the command line, read again when they change.

use std::sync::Arc;

use anyhow::Error;
use net::ClientConfig;
use router::flags::{RouteOptions, RouteTlsOptions};
use tls::{ClientSettings, ClientTls, NameCheck, TlsFileError};

use super::lines::{notice, transient};
use super::watched::Watched;
use crate::failure::Failure;

/// TLS to servers.
pub(super) struct RouterTls {
    client: ClientTls,
    /// How the files looked when they were read.
    read: Watched,
    /// How they looked last, if that is different.
    changed: Option<Watched>,
}

impl RouterTls {
    /// Reads the files for the first time.
    pub(super) fn load(options: &RouteOptions) -> Result<RouterTls, Failure> {
        let (client, warnings) = ClientTls::load(client_settings(&options.tls)).map_err(failed)?;
        warnings.iter().for_each(|warning| notice(warning));
        let mut tls = RouterTls { client, read: Watched::default(), changed: None };
        tls.read = tls.look();
        Ok(tls)
    }

    /// Settings for the next connections to servers.
    pub(super) fn client(&self) -> Arc<ClientConfig> {
        self.client.current()
    }

    /// Reads files that have changed, once they stay the same from one call to the next: whoever replaces a
    /// certificate has time to replace its key, too. Whether they were read.
    pub(super) fn reload_if_changed(&mut self) -> bool {
        let now = self.look();
        if now == self.read {
            self.changed = None;
            return false;
        }
        if self.changed.as_ref() != Some(&now) {
            self.changed = Some(now);
            return false;
        }
        self.reload()
    }

    /// Reads the files. Whether they can be used; if not, everything stays as it was.
    pub(super) fn reload(&mut self) -> bool {
        self.read = self.look();
        self.changed = None;
        if self.read.is_empty() {
            return false;
        }
        match self.client.reload() {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| notice(warning));
                notice("certificates and keys are read again");
                true
            }
            Err(TlsFileError { path, source }) => {
                notice(&format!(
                    "certificates and keys stay as they were: read {}: {source}",
                    path.display()
                ));
                false
            }
        }
    }

    fn look(&self) -> Watched {
        Watched::of(self.client.files().map(AsRef::as_ref))
    }
}

fn client_settings(options: &RouteTlsOptions) -> ClientSettings {
    ClientSettings {
        own: options.cert.clone().zip(options.key.clone()),
        authorities: options.ca.clone().filter(|_| options.verify_peers),
        names: match () {
            () if options.verify_names => NameCheck::Host,
            () if options.enforce_identity => NameCheck::OneOf(options.identities.clone()),
            () => NameCheck::Nobody,
        },
        resumes: options.resumes,
    }
}

fn failed(TlsFileError { path, source }: TlsFileError) -> Failure {
    transient(&format!("read {}", path.display()), Error::from(source))
}
