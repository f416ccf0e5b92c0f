//! The choice among a server's certificates, by the name that a client asks for (SNI).

use crate::certificate::{NameKind, facts};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::sync::Arc;

/// The certificates of a server. The first is for clients that ask for none of their names, or for no name.
#[derive(Debug)]
pub(crate) struct CertificateChoice {
    all: Vec<Arc<CertifiedKey>>,
    /// For each name, `*.` in it for one label, the certificates that have it.
    by_name: HashMap<String, Vec<usize>>,
}

impl CertificateChoice {
    pub(crate) fn new(all: Vec<CertifiedKey>) -> Self {
        let mut by_name = HashMap::<_, Vec<usize>>::new();
        for (number, certificate) in all.iter().enumerate() {
            let facts = certificate.cert.first().and_then(|own| facts(own));
            let names = facts.map(|facts| facts.names).unwrap_or_default();
            for name in names.into_iter().filter(|name| name.kind == NameKind::Dns) {
                by_name.entry(name.text).or_default().push(number);
            }
        }
        Self { all: all.into_iter().map(Arc::new).collect(), by_name }
    }

    /// The certificates for a name, best first: those that have it, those with a wildcard for it, the default.
    fn candidates(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        let name = name.map(str::to_ascii_lowercase);
        let wildcard =
            name.as_deref().and_then(|name| name.split_once('.')).map(|(_, parent)| format!("*.{parent}"));
        let named =
            [name, wildcard].into_iter().flatten().filter_map(|name| self.by_name.get(&name)).flatten();
        named.map(|number| &self.all[*number]).chain(self.all.first())
    }
}

impl ResolvesServerCert for CertificateChoice {
    /// Of several for a name, the first whose key can sign in a way that the client accepts: so a server may have an
    /// ECDSA certificate, and one with RSA for old clients.
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let signs = |certificate: &&Arc<CertifiedKey>| {
            certificate.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let best = self.candidates(hello.server_name()).find(signs);
        best.or_else(|| self.all.iter().find(signs)).or(self.all.first()).cloned()
    }
}
