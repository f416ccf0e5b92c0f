//! Renewal of certificates of servers and routers by the agent beside them.
//!
//! The agent asks with the certificate that is to be renewed, so it needs no right of its own, and the file says whose that is. The first one,
//! and one after one that has run out, it asks for as the agent of the host: the controller knows what is on it. The file
//! may be in a folder of the program's own user: it is read and replaced without following a link, keeps owner and mode, and what is
//! signed for anybody else is not put there.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use control::authority::{
    OwnFileError, certificate_of, has_certificate_of, keep_certificate_of, keep_first_certificate_of,
};
use control::identity::{FleetIdentity, FleetRole};
use control::{ControlPlace, PeerPlace, SayLine, refresh_certificates, shown_certificate};
use fleet::HostId;
use os::clock::{pause, unix_s};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::json;
use stdx::log_level::LogLevel;
use stdx::prng::Prng;
use tls::{CertificateKey, ClientSettings, ClientTls, NameCheck, certificate_uris};

use super::schedule::{Life, Schedule};
use super::{ask, life};
use crate::failure::Failure;

/// Time for an answer of a server or router.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Looks whether a new certificate is shown, one a second: Evenkeel's programs read it within two, and the machine may be busy.
const LOOKS_MAX: u32 = 10;

/// A server or router, and the file with its certificate and key.
pub(crate) struct BesideCertificate {
    /// Whose certificate it must be.
    pub(crate) identity: FleetIdentity,
    pub(crate) path: PathBuf,
    /// Where it can be seen, if the program speaks TLS there.
    pub(crate) place: PeerPlace,
    /// Where a router is reached, for its first certificate.
    pub(crate) hosts: Vec<String>,
}

/// Whom to ask for the next ones.
pub(crate) struct BesideSigners {
    pub(crate) controllers: Vec<ControlPlace>,
    /// Authorities of controllers.
    pub(crate) authorities: PathBuf,
    /// The agent's host, and its own connections.
    pub(crate) host: HostId,
    pub(crate) own: Arc<ClientTls>,
}

/// A certificate, and where the next one comes from.
struct BesideRenewal {
    certificate: BesideCertificate,
    signers: Arc<BesideSigners>,
    say: SayLine,
    schedule: Schedule,
    /// What was wrong the last time, which is said once.
    trouble: Option<String>,
    /// The last second of the certificate's life; 0 while it is not known.
    end_s: Arc<AtomicU64>,
}

/// Puts a certificate and its key into a file: a new one, or that of the one before.
type Keep = fn(&Path, &CertificateKey, &str, &FleetIdentity, u64) -> Result<(), OwnFileError>;

/// Starts a thread for each certificate, since a program that does not answer holds up its own only; they end with the process. Returned are
/// the ends of their lives.
pub(crate) fn start(
    certificates: Vec<BesideCertificate>,
    signers: BesideSigners,
    seed: u64,
    say: &SayLine,
) -> Result<Vec<(FleetIdentity, Arc<AtomicU64>)>, Failure> {
    let signers = Arc::new(signers);
    let mut ends = Vec::new();
    for (number, certificate) in certificates.into_iter().enumerate() {
        let end_s = Arc::new(AtomicU64::new(0));
        ends.push((certificate.identity.clone(), Arc::clone(&end_s)));
        let schedule = Schedule::new(Prng::new(seed.wrapping_add(number as u64 + 1)));
        let (signers, say) = (Arc::clone(&signers), Arc::clone(say));
        let renewal = BesideRenewal { certificate, signers, say, schedule, trouble: None, end_s };
        let spawned = std::thread::Builder::new().name("renewal".to_owned()).spawn(move || renewal.run());
        spawned.map_err(|error| Failure::system("start a thread", error))?;
    }
    Ok(ends)
}

impl BesideRenewal {
    fn run(mut self) {
        loop {
            let wait = self.pass(unix_s());
            pause(wait);
        }
    }

    /// Does what is due, and returns the time until the next look.
    fn pass(&mut self, now_s: u64) -> Duration {
        match self.try_pass(now_s) {
            Ok(due_s) => {
                self.trouble = None;
                self.schedule.after_success(now_s, due_s)
            }
            Err(error) => {
                self.note_trouble(format!("{error:#}"));
                match has_certificate_of(&self.certificate.path) {
                    Ok(false) => self.schedule.after_failure_at_first(),
                    Ok(true) | Err(_) => self.schedule.after_failure(),
                }
            }
        }
    }

    /// The second at which the next renewal is due.
    fn try_pass(&self, now_s: u64) -> anyhow::Result<u64> {
        let BesideCertificate { identity, path, .. } = &self.certificate;
        if !has_certificate_of(path)? {
            self.certify(now_s, keep_first_certificate_of).context("there is none yet")?;
            let (_, life, _) = self.present()?;
            let shown = life.shown(now_s, identity);
            let line = format!("the first certificate of {identity} is in {}: {shown}", path.display());
            (self.say)(LogLevel::Info, &line);
        }
        let (mut found, mut life, file) = self.present()?;
        let mut due_s = life.due_s(identity);
        if now_s >= due_s {
            let left = life.shown(now_s, identity);
            let renewed = match now_s > life.not_after_s {
                true => self.certify(now_s, keep_certificate_of),
                false => self.renew(&file, now_s),
            };
            renewed.with_context(|| left)?;
            (found, life, _) = self.present()?;
            due_s = life.due_s(identity);
            let shown = life.shown(now_s, identity);
            (self.say)(LogLevel::Info, &format!("the certificate of {identity} is renewed: {shown}"));
        }
        self.check_shown(&found).with_context(|| life.shown(now_s, identity))?;
        Ok(due_s)
    }

    /// The certificate that is in the file, which must be this program's, and all of the file.
    fn present(&self) -> anyhow::Result<(Vec<u8>, Life, Vec<u8>)> {
        let BesideCertificate { identity, path, .. } = &self.certificate;
        let (found, file) = certificate_of(path)?;
        let uris =
            certificate_uris(&found).filter(|found| found.all_read).map_or(Vec::new(), |found| found.uris);
        if uris != [identity.to_string()] {
            let found = if uris.is_empty() { "none".to_owned() } else { uris.join(", ") };
            let path = path.display();
            return Err(anyhow!("{path}: expected a certificate with the one URI {identity}, found {found}"));
        }
        let life = life(&found)?;
        self.end_s.store(life.not_after_s, Ordering::Relaxed);
        Ok((found, life, file))
    }

    /// Gets a certificate that no present one is shown for, with a key of its own, and puts it into the file.
    fn certify(&self, now_s: u64, keep: Keep) -> anyhow::Result<()> {
        let BesideCertificate { identity, path, hosts, .. } = &self.certificate;
        let BesideSigners { controllers, host, own, .. } = &*self.signers;
        let key = CertificateKey::new().context("make a key")?;
        let request = key.request().context("make a request")?;
        let body = json!({"host": host, "role": identity.role, "id": identity.id, "hosts": hosts, "request": request});
        let certificate = ask(own, controllers, ("/v1/certify", &body))?;
        Ok(keep(path, &key, &certificate, identity, now_s)?)
    }

    /// Gets the next certificate, with a key of its own, and puts it into the file, which had this in it: by its path, another user
    /// could have us show what is in a different one.
    fn renew(&self, present: &[u8], now_s: u64) -> anyhow::Result<()> {
        let BesideCertificate { identity, path, .. } = &self.certificate;
        let mut held =
            File::from(memfd_create("certificate", MemfdFlags::CLOEXEC).context("make a file in memory")?);
        held.write_all(present).context("write a file in memory")?;
        let own = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        let settings = ClientSettings {
            own: Some((own.clone(), own)),
            authorities: Some(self.signers.authorities.clone()),
            names: NameCheck::UriUnder(FleetIdentity::uris_of(&identity.fleet, FleetRole::Controller)),
            resumes: false,
        };
        let (tls, _) =
            ClientTls::load(settings).map_err(|error| anyhow!(error.source).context(super::shown(path)))?;
        let key = CertificateKey::new().context("make a key")?;
        let request = key.request().context("make a request")?;
        let certificate = ask(&tls, &self.signers.controllers, ("/v1/renew", &json!({"request": request})))?;
        Ok(keep_certificate_of(path, &key, &certificate, identity, now_s)?)
    }

    /// Sees that the program shows what is in the file. One that does not answer is no matter of its certificate.
    fn check_shown(&self, expected: &[u8]) -> anyhow::Result<()> {
        let BesideCertificate { identity, place, .. } = &self.certificate;
        for look in 0..LOOKS_MAX {
            match shown_certificate(place, ANSWER_WITHIN) {
                Ok(Some(shown)) if shown != expected => {}
                Ok(_) | Err(_) => return Ok(()),
            }
            if identity.role == FleetRole::Server && look == 0 {
                // A memcached waits for this. Whether it helps is seen.
                let _ = refresh_certificates(place, ANSWER_WITHIN);
            } else {
                pause(Duration::from_secs(1));
            }
        }
        let address = &place.address;
        Err(anyhow!(
            "{address} shows another certificate than the one in {}, which it has not read again",
            self.certificate.path.display()
        ))
    }

    fn note_trouble(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            let line = format!("the certificate of {}: {why}", self.certificate.identity);
            (self.say)(LogLevel::Warning, &line);
        }
        self.trouble = Some(why);
    }
}

#[cfg(test)]
mod tests;
