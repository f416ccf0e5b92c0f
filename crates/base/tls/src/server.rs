//! Listeners' TLS: what they show to clients and ask of them, from files that can be read again.

mod loaded;

use crate::certificate::{CertificateEnd, facts};
use crate::role::{Identity, Role, RoleRules, displayed};
use crate::settings::{PeerCheck, TlsServerError, TlsSettings};
use crate::ticket::HandedTickets;
use loaded::{Loaded, load};
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::time_provider::{DefaultTimeProvider, TimeProvider};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The TLS of a server: what its listeners show and ask, from files that can be read again.
pub struct ListenerTls {
    settings: TlsSettings,
    clock: Arc<dyn TimeProvider>,
    loaded: Arc<RwLock<Arc<Loaded>>>,
}

/// What a listener accepts sessions with. All threads share it; a reload replaces what later handshakes get.
#[derive(Clone)]
pub struct Acceptor {
    check: PeerCheck,
    kernel: bool,
    clock: Arc<dyn TimeProvider>,
    loaded: Arc<RwLock<Arc<Loaded>>>,
}

impl ListenerTls {
    /// Reads the files. Also returned are warnings: sentences about files that are used all the same.
    ///
    /// # Errors
    /// If one cannot be used.
    pub fn load(settings: TlsSettings) -> Result<(Self, Vec<String>), TlsServerError> {
        Self::load_at(settings, Arc::new(DefaultTimeProvider), None)
    }

    /// The same after another process, whose tickets are accepted, too, if neither has keys in a file.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub fn load_after(
        settings: TlsSettings,
        handed: Option<&HandedTickets>,
    ) -> Result<(Self, Vec<String>), TlsServerError> {
        Self::load_at(settings, Arc::new(DefaultTimeProvider), handed)
    }

    /// The secrets of tickets that this process has made up; `None` if they are in a file.
    pub fn tickets(&self) -> Option<HandedTickets> {
        current(&self.loaded).secrets.handed()
    }

    fn load_at(
        settings: TlsSettings,
        clock: Arc<dyn TimeProvider>,
        handed: Option<&HandedTickets>,
    ) -> Result<(Self, Vec<String>), TlsServerError> {
        let (loaded, warnings) = load(&settings, &clock, None, handed)?;
        Ok((Self { settings, clock, loaded: Arc::new(RwLock::new(Arc::new(loaded))) }, warnings))
    }

    /// Reads the files again, for handshakes from now on. Returned are warnings. Sessions stay as they are.
    ///
    /// # Errors
    /// If one cannot be used; then what was read before stays in use, all of it.
    pub fn reload(&self) -> Result<Vec<String>, TlsServerError> {
        let before = current(&self.loaded);
        let (loaded, warnings) = load(&self.settings, &self.clock, Some(&before), None)?;
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(loaded);
        Ok(warnings)
    }

    /// When each certificate ends that later handshakes may show.
    pub fn certificate_ends(&self) -> Vec<CertificateEnd> {
        current(&self.loaded).ends.clone()
    }

    /// What a listener needs that checks clients so.
    ///
    /// # Errors
    /// If it checks them, but there are no authorities.
    pub fn acceptor(&self, check: PeerCheck) -> Result<Acceptor, TlsServerError> {
        if check != PeerCheck::Never && self.settings.authorities.is_none() {
            return Err(TlsServerError::NoAuthorities);
        }
        let (clock, loaded) = (Arc::clone(&self.clock), Arc::clone(&self.loaded));
        Ok(Acceptor { check, kernel: self.settings.kernel, clock, loaded })
    }

    /// The settings, as given.
    pub fn settings(&self) -> &TlsSettings {
        &self.settings
    }
}

impl Acceptor {
    /// Settings for the next handshake.
    pub fn settings(&self) -> Arc<ServerConfig> {
        current(&self.loaded).config(self.check)
    }

    /// Who the peer of a session is, by its verified certificate. `None` without a certificate, unless a file of roles
    /// says what such a peer may do.
    pub fn identify(&self, chain: Option<&[CertificateDer<'_>]>) -> Option<Arc<Identity>> {
        let loaded = current(&self.loaded);
        let Some(certificate) = chain.and_then(<[_]>::first) else {
            return loaded.roles.as_ref().map(|roles| Arc::new(roles.anonymous()));
        };
        Some(Arc::new(self.certified(certificate, loaded.roles.as_ref())))
    }

    fn certified(&self, certificate: &[u8], roles: Option<&RoleRules>) -> Identity {
        let Some(facts) = facts(certificate) else {
            return Identity { name: displayed(None), role: Role::Nothing };
        };
        // A resumed session has the certificate of a handshake in the past, which nobody checks again.
        let now_s = self.clock.current_time().map(|time| time.as_secs());
        if now_s.is_none_or(|now_s| now_s > facts.not_after_s) {
            return Identity { name: displayed(facts.names.first()), role: Role::Nothing };
        }
        match roles {
            // A rule might be about a name that was not looked at.
            Some(_) if !facts.all_names => {
                Identity { name: displayed(facts.names.first()), role: Role::Nothing }
            }
            Some(roles) => roles.identify(&facts.names),
            None => Identity { name: displayed(facts.names.first()), role: Role::Admin },
        }
    }

    /// Whether a session's keys are given to the kernel where it can use them (`ssl_kernel_tls`).
    pub fn kernel(&self) -> bool {
        self.kernel
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("check", &self.check)
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}

fn current(loaded: &RwLock<Arc<Loaded>>) -> Arc<Loaded> {
    Arc::clone(&loaded.read().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests;
