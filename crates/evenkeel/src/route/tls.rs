//! The TLS of a router: files from the command line, read again when they change.

use std::path::PathBuf;
use std::sync::Arc;

use router::TlsInForce;
use router::flags::{RouteOptions, RouteTlsOptions};
use tls::{
    Acceptor, CertificateFiles, ClientSettings, ClientTls, ListenerTls, NameCheck, PeerCheck, TlsFileError,
    TlsSettings,
};

use super::lines::{inform, notice, transient};
use crate::failure::Failure;
use crate::process::watched::WatchedFiles;

/// TLS to servers and of clients.
pub(super) struct RouterTls {
    client: ClientTls,
    listener: Option<ClientListener>,
    /// How the files looked when they were read.
    read: WatchedFiles,
    /// How they looked last, if that is different.
    changed: Option<WatchedFiles>,
}

/// What listeners with TLS have in common.
struct ClientListener {
    tls: ListenerTls,
    acceptor: Arc<Acceptor>,
    files: Vec<PathBuf>,
}

impl RouterTls {
    /// Reads the files for the first time.
    pub(super) fn load(options: &RouteOptions) -> Result<RouterTls, Failure> {
        let (client, warnings) = ClientTls::load(client_settings(&options.tls)).map_err(failed)?;
        warnings.iter().for_each(|warning| notice(warning));
        let listener = ClientListener::load(&options.tls)?;
        let mut tls = RouterTls { client, listener, read: WatchedFiles::default(), changed: None };
        tls.read = tls.look();
        Ok(tls)
    }

    /// What the next connections begin with.
    pub(super) fn in_force(&self) -> TlsInForce {
        let shown_to_servers = self.client.certificate_end();
        let mut ends = self.listener.as_ref().map(|l| l.tls.certificate_ends()).unwrap_or_default();
        // One file may be for both.
        ends.retain(|end| shown_to_servers.as_ref().is_none_or(|shown| shown.file != end.file));
        ends.extend(shown_to_servers);
        TlsInForce { to_servers: Some(self.client.current()), ends }
    }

    /// What a listener with TLS accepts sessions with; `None` if there is none.
    pub(super) fn acceptor(&self) -> Option<Arc<Acceptor>> {
        self.listener.as_ref().map(|listener| Arc::clone(&listener.acceptor))
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
        match self.read_again() {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| notice(warning));
                inform("certificates and keys are read again");
                true
            }
            Err(failure) => {
                notice(&format!("certificates and keys stay as they were: {failure}"));
                false
            }
        }
    }

    /// What is for servers is replaced last, when nothing can fail any more.
    fn read_again(&self) -> Result<Vec<String>, Failure> {
        let (client, mut warnings) = self.client.read().map_err(failed)?;
        if let Some(listener) = &self.listener {
            let more = listener.tls.reload().map_err(|error| transient("read files for clients", error))?;
            warnings.extend(more);
        }
        self.client.replace(client);
        Ok(warnings)
    }

    fn look(&self) -> WatchedFiles {
        let listener = self.listener.iter().flat_map(|listener| &listener.files);
        WatchedFiles::of(self.client.files().chain(listener).map(AsRef::as_ref))
    }
}

impl ClientListener {
    /// `None` without `--ssl-port`.
    fn load(options: &RouteTlsOptions) -> Result<Option<ClientListener>, Failure> {
        let (Some(chain), Some(key), false) =
            (&options.server_cert, &options.server_key, options.ssl_ports.is_empty())
        else {
            return Ok(None);
        };
        let settings = TlsSettings {
            authorities: options.server_ca.clone(),
            ticket_keys: options.ticket_keys.clone(),
            kernel: options.kernel,
            ..TlsSettings::new(vec![CertificateFiles { chain: chain.clone(), key: Some(key.clone()) }])
        };
        let check = match (&options.server_ca, options.require_peer_certs) {
            (None, _) => PeerCheck::Never,
            (Some(_), false) => PeerCheck::IfShown,
            (Some(_), true) => PeerCheck::Always,
        };
        let unusable = |error| transient("read files for clients", error);
        let (tls, warnings) = ListenerTls::load(settings).map_err(unusable)?;
        warnings.iter().for_each(|warning| notice(warning));
        let acceptor = Arc::new(tls.acceptor(check).map_err(unusable)?);
        let more = options.server_ca.iter().chain(&options.ticket_keys);
        let files = [chain, key].into_iter().chain(more).cloned().collect();
        Ok(Some(ClientListener { tls, acceptor, files }))
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
    transient(&format!("read {}", path.display()), source)
}
