//! Settings for the handshakes of each kind of listener, made from the files of a server.

use crate::certificate::{CertificateEnd, facts};
use crate::choice::CertificateChoice;
use crate::files::{TlsFileError, authorities, certificates, is_public, key, key_in_der, unusable, words};
use crate::role::RoleRules;
use crate::session_cache::SessionCache;
use crate::settings::{CertificateFiles, KeyFormat, PeerCheck, TlsServerError, TlsSettings};
use crate::ticket::{HandedTickets, TicketContext, TicketSecrets, Tickets};
use ring::digest;
use rustls::crypto::{CryptoProvider, ring as provider};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};
use std::path::Path;
use std::sync::Arc;

/// Tickets that a client gets after each handshake of TLS 1.3: one, because it gets another when it resumes. A second
/// one would be for clients that open several connections at once and use no ticket twice; those can ask for more. Each
/// takes 224 bytes on the wire, or 685 with a small client certificate in it, which the client keeps.
const TICKETS: usize = 1;

/// Tickets that a client gets at most if it asks for a number (RFC 9149).
const TICKETS_ASKED_FOR_MAX: usize = 4;

/// What was read from the files.
pub(super) struct Loaded {
    never: Arc<ServerConfig>,
    /// If there are authorities.
    checked: Option<Checked>,
    /// What clients may do, if a file says it.
    pub(super) roles: Option<RoleRules>,
    pub(super) secrets: Arc<TicketSecrets>,
    sessions: Option<Arc<ServerSessionMemoryCache>>,
    /// When our certificates end.
    pub(super) ends: Vec<CertificateEnd>,
}

struct Checked {
    if_shown: Arc<ServerConfig>,
    always: Arc<ServerConfig>,
}

impl Loaded {
    /// Settings for handshakes with this check, which there are authorities for.
    pub(super) fn config(&self, check: PeerCheck) -> Arc<ServerConfig> {
        let config = match (check, &self.checked) {
            (PeerCheck::Never, _) => &self.never,
            (PeerCheck::IfShown, Some(checked)) => &checked.if_shown,
            (PeerCheck::Always, Some(checked)) => &checked.always,
            (_, None) => unreachable!("an acceptor that checks is not given out without authorities"),
        };
        Arc::clone(config)
    }
}

/// Reads all files. What is in memory only is taken over from `before`: so a reload without a change ends no ticket.
pub(super) fn load(
    settings: &TlsSettings,
    clock: &Arc<dyn TimeProvider>,
    before: Option<&Loaded>,
    handed: Option<&HandedTickets>,
) -> Result<(Loaded, Vec<String>), TlsServerError> {
    let mut warnings = Vec::new();
    let suites = CryptoProvider { cipher_suites: settings.ciphers.suites(), ..provider::default_provider() };
    let own = settings.certificates.iter().map(|files| certified_key(files, settings.key_format, &suites));
    let own = own.collect::<Result<Vec<_>, _>>()?;
    warnings
        .extend(settings.certificates.iter().zip(&own).filter_map(|(files, own)| warning(files, own, clock)));
    let ends = settings.certificates.iter().zip(&own);
    let mut ends: Vec<_> =
        ends.filter_map(|(files, own)| CertificateEnd::of(&files.chain, &own.cert)).collect();
    ends.sort_by(|one, other| one.file.cmp(&other.file));
    ends.dedup_by(|one, other| one.file == other.file);
    let authorities = match &settings.authorities {
        None => None,
        Some(path) => {
            let found = authorities(path)?;
            warnings.extend(left_out(path, &found)?);
            Some(Arc::new(found))
        }
    };
    let roles = settings.roles.as_deref().map(role_rules).transpose()?;
    let secrets = match (&settings.ticket_keys, before) {
        (Some(path), _) => {
            warnings.extend(public(path));
            Arc::new(TicketSecrets::from_file(path, Arc::clone(clock))?)
        }
        (None, Some(before)) => Arc::clone(&before.secrets),
        (None, None) => Arc::new(TicketSecrets::in_memory(Arc::clone(clock), handed)),
    };
    let sessions = match before {
        Some(before) => before.sessions.clone(),
        None => settings.session_cache.then(SessionCache::memory),
    };
    let recipe = Recipe {
        settings,
        clock,
        suites: Arc::new(suites),
        own: Arc::new(CertificateChoice::new(own)),
        secrets: &secrets,
        sessions: sessions.as_ref(),
    };
    let never = recipe.config(PeerCheck::Never, None)?;
    let checked = authorities.as_ref().map(|authorities| {
        let config = |check| recipe.config(check, Some(authorities));
        Ok::<_, TlsServerError>(Checked {
            if_shown: config(PeerCheck::IfShown)?,
            always: config(PeerCheck::Always)?,
        })
    });
    let checked = checked.transpose()?;
    Ok((Loaded { never, checked, roles, secrets, sessions, ends }, warnings))
}

/// All that the kinds of listeners have in common.
struct Recipe<'l> {
    settings: &'l TlsSettings,
    clock: &'l Arc<dyn TimeProvider>,
    suites: Arc<CryptoProvider>,
    own: Arc<CertificateChoice>,
    secrets: &'l Arc<TicketSecrets>,
    sessions: Option<&'l Arc<ServerSessionMemoryCache>>,
}

impl Recipe<'_> {
    fn config(
        &self,
        check: PeerCheck,
        authorities: Option<&Arc<RootCertStore>>,
    ) -> Result<Arc<ServerConfig>, TlsServerError> {
        let versions: &[_] = if self.settings.tls13_only { &[&TLS13] } else { &[&TLS12, &TLS13] };
        let builder = ServerConfig::builder_with_details(Arc::clone(&self.suites), Arc::clone(self.clock))
            .with_protocol_versions(versions)
            .map_err(TlsServerError::Unusable)?;
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(authorities) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    Arc::clone(authorities),
                    Arc::clone(&self.suites),
                );
                let verifier = match check {
                    PeerCheck::Always => verifier,
                    PeerCheck::IfShown | PeerCheck::Never => verifier.allow_unauthenticated(),
                };
                builder.with_client_cert_verifier(verifier.build().expect("a store of authorities has one"))
            }
        };
        let context = context(check, authorities);
        let mut config = builder.with_cert_resolver(Arc::clone(&self.own) as _);
        config.ticketer = Arc::new(Tickets { secrets: Arc::clone(self.secrets), context });
        config.send_tls13_tickets = TICKETS;
        config.max_tls13_tickets = TICKETS_ASKED_FOR_MAX;
        config.session_storage = match self.sessions {
            Some(sessions) => {
                let (sessions, clock) = (Arc::clone(sessions), Arc::clone(self.clock));
                Arc::new(SessionCache { sessions, context, clock })
            }
            None => Arc::new(NoServerSessionStorage {}),
        };
        // Requests in a client's first flight can be repeated by anyone who has seen them: there are none.
        config.max_early_data_size = 0;
        config.enable_secret_extraction = self.settings.kernel;
        Ok(Arc::new(config))
    }
}

/// What a session that is resumed was checked for: a client without a certificate must not come in by a ticket of
/// another listener, nor one whose authority is not trusted any more.
fn context(check: PeerCheck, authorities: Option<&Arc<RootCertStore>>) -> TicketContext {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(match check {
        PeerCheck::Never => b"never",
        PeerCheck::IfShown => b"shown",
        PeerCheck::Always => b"always",
    });
    for authority in authorities.iter().flat_map(|authorities| &authorities.roots) {
        for part in [&*authority.subject, &*authority.subject_public_key_info] {
            hash.update(&(part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    *hash.finish().as_ref().first_chunk().expect("SHA-256 gives 32 bytes")
}

fn certified_key(
    files: &CertificateFiles,
    format: KeyFormat,
    suites: &CryptoProvider,
) -> Result<CertifiedKey, TlsFileError> {
    let chain = certificates(&files.chain)?;
    let path = files.key.as_ref().unwrap_or(&files.chain);
    let key = match format {
        KeyFormat::Pem => key(path)?,
        KeyFormat::Der => key_in_der(path)?,
    };
    CertifiedKey::from_der(chain, key, suites).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            unusable(path, &format!("it is not the key of the certificate in {}", files.chain.display()))
        }
        rustls::Error::InvalidCertificate(_) => unusable(&files.chain, &error.to_string()),
        error => unusable(path, &error.to_string()),
    })
}

fn role_rules(path: &Path) -> Result<RoleRules, TlsFileError> {
    RoleRules::parse(&words(path)?).map_err(|problem| unusable(path, &problem))
}

/// What is wrong with a certificate that can be used.
fn warning(files: &CertificateFiles, own: &CertifiedKey, clock: &Arc<dyn TimeProvider>) -> Option<String> {
    let now_s = clock.current_time()?.as_secs();
    let (facts, chain) = (own.cert.first().and_then(|own| facts(own)), files.chain.display());
    if facts.as_ref().is_some_and(|facts| facts.not_after_s < now_s) {
        return Some(format!("the certificate in {chain} has expired"));
    }
    if facts.is_some_and(|facts| facts.is_authority) {
        return Some(format!(
            "the certificate in {chain} is that of an authority (CA:TRUE), which many clients do not accept of a server \
             (CaUsedAsEndEntity): make one with basicConstraints=CA:FALSE (docs/serve/tls.md, A certificate to begin with)"
        ));
    }
    public(files.key.as_ref().unwrap_or(&files.chain))
}

/// Certificates that cannot be an authority's are left out: a system's list may have some, a list of our clients'
/// authorities should not.
fn left_out(path: &Path, authorities: &RootCertStore) -> Result<Option<String>, TlsFileError> {
    let (all, usable) = (certificates(path)?.len(), authorities.len());
    let line = || {
        format!("{} of {all} certificates in {} cannot be used", all.saturating_sub(usable), path.display())
    };
    Ok((usable < all).then(line))
}

fn public(path: &Path) -> Option<String> {
    is_public(path).then(|| format!("every user of this host may read the keys in {}", path.display()))
}
