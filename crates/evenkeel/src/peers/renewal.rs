//! Renewal of a program's own certificate: a thread that gets the next one in time.
//!
//! ```text
//! certificate in its file ─► due after two thirds of its life ─► new key, request ─► a controller signs, or the authority here
//! ─► checked, the file is replaced in one step ─► read again ─► the next connection shows it
//! ```
//!
//! Whatever fails, the certificate that is there stays in use, and it is tried again. A certificate that another program has
//! put into the file is taken as well. Where nobody signs the next one here, a line says so in time.

pub(crate) mod beside;
mod schedule;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow};
use control::authority::{Authority, keep_certificate};
use control::identity::FleetIdentity;
use control::{ControlClient, ControlPlace, SayLine};
use os::clock::{pause, unix_s};
use serde_json::{Value, json};
use stdx::log_level::LogLevel;
use stdx::prng::Prng;
use tls::{CertificateKey, ClientTls, ListenerTls, certificate_uris, certificates};

use crate::control::Credentials;
use crate::failure::Failure;
use schedule::{Life, Schedule};

/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Who signs the next certificate.
pub(crate) enum Signer {
    /// The first of these controllers that has an authority.
    Controllers(Vec<ControlPlace>),
    /// The authority that this program holds, for the hosts of the present certificate. It signs for its own only: who
    /// trusts another authority's certificate may not trust this one's.
    Authority(Box<Authority>),
    /// A person, or another program.
    Nobody,
}

/// What shows the certificate.
pub(crate) struct CertificateUsers {
    /// Connections to others.
    pub(crate) clients: Vec<Arc<ClientTls>>,
    /// Connections of others.
    pub(crate) listener: Option<ListenerTls>,
}

/// A program's own certificate, and where the next one comes from.
struct Renewal {
    identity: FleetIdentity,
    /// The file with the certificate and its key.
    path: PathBuf,
    signer: Signer,
    users: CertificateUsers,
    say: SayLine,
    schedule: Schedule,
    /// The certificate that connections show (DER).
    in_force: Option<Vec<u8>>,
    /// What was wrong the last time, which is said once.
    trouble: Option<String>,
    /// The last second of the certificate's life.
    end_s: Arc<AtomicU64>,
}

/// Starts the thread, if there is a certificate; it ends with the process. Returned is the last second of the certificate's
/// life, which changes with each renewal; 0 before it was looked at.
pub(crate) fn start(
    credentials: &Credentials,
    mut signer: Signer,
    users: CertificateUsers,
    seed: u64,
    say: &SayLine,
) -> Result<Option<Arc<AtomicU64>>, Failure> {
    let Some(path) = &credentials.tls_cert else { return Ok(None) };
    if !matches!(signer, Signer::Nobody) && credentials.tls_key.as_ref().is_some_and(|key| key != path) {
        say(
            LogLevel::Info,
            &format!(
                "{} is renewed by whoever made it: its key is in another file, and both cannot be replaced in one step",
                path.display()
            ),
        );
        signer = Signer::Nobody;
    }
    let end_s = Arc::new(AtomicU64::new(0));
    let renewal = Renewal {
        identity: credentials.identity()?,
        path: path.clone(),
        signer,
        users,
        say: Arc::clone(say),
        schedule: Schedule::new(Prng::new(seed)),
        in_force: first_of(path).ok(),
        trouble: None,
        end_s: Arc::clone(&end_s),
    };
    let spawned = std::thread::Builder::new().name("renewal".to_owned()).spawn(move || renewal.run());
    spawned.map_err(|error| Failure::system("start a thread", error))?;
    Ok(Some(end_s))
}

impl Renewal {
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
                self.schedule.after_failure()
            }
        }
    }

    /// The second at which the next renewal is due.
    fn try_pass(&mut self, now_s: u64) -> anyhow::Result<u64> {
        let found = first_of(&self.path)?;
        if self.in_force.as_ref() != Some(&found) {
            self.take(&found)?;
            let line = format!("{} has another certificate, which is used from now on", self.path.display());
            (self.say)(LogLevel::Info, &line);
        }
        let life = life(&found)?;
        self.end_s.store(life.not_after_s, Ordering::Relaxed);
        if matches!(self.signer, Signer::Nobody) {
            let warned_s = life.warned_s();
            if now_s < warned_s {
                return Ok(warned_s);
            }
            // The same words until its end, so that there is one line.
            return Err(
                anyhow!("nobody signs the next one here").context(life.end_shown(now_s, &self.identity))
            );
        }
        let due_s = life.due_s(&self.identity);
        if now_s < due_s {
            return Ok(due_s);
        }
        self.renew(&found, now_s).with_context(|| life.shown(now_s, &self.identity))?;
        let found = first_of(&self.path)?;
        self.take(&found)?;
        let life = self::life(&found)?;
        self.end_s.store(life.not_after_s, Ordering::Relaxed);
        let shown = life.shown(now_s, &self.identity);
        (self.say)(LogLevel::Info, &format!("the certificate of {} is renewed: {shown}", self.identity));
        Ok(life.due_s(&self.identity))
    }

    /// Gets the next certificate, with a key of its own, and puts it into the file.
    fn renew(&self, present: &[u8], now_s: u64) -> anyhow::Result<()> {
        let key = CertificateKey::new().context("make a key")?;
        let request = key.request().context("make a request")?;
        let certificate = match &self.signer {
            Signer::Controllers(controllers) => {
                let tls = self.users.clients.first().context("expected a client, found none")?;
                ask(tls, controllers, ("/v1/renew", &json!({"request": request})))?
            }
            Signer::Authority(authority) => {
                if !authority.has_signed(present) {
                    return Err(anyhow!(
                        "expected one that the authority here has signed, found another one's"
                    ));
                }
                let hosts = certificate_uris(present).map_or(Vec::new(), |found| found.hosts);
                authority.sign(&request, &self.identity, &hosts, now_s)?.pem
            }
            Signer::Nobody => return Err(anyhow!("nobody signs the next one here")),
        };
        Ok(keep_certificate(&self.path, &key, &certificate, &self.identity, now_s)?)
    }

    /// Has the file read again for the next connections.
    fn take(&mut self, certificate: &[u8]) -> anyhow::Result<()> {
        let read = |tls: &Arc<ClientTls>| {
            let read = tls.read().map_err(|error| anyhow!(error.source).context(shown(&error.path)));
            read.map(|(config, warnings)| (Arc::clone(tls), config, warnings))
        };
        // All of them, or none: what is read for the listener is in force at once.
        let clients: Vec<_> = self.users.clients.iter().map(read).collect::<anyhow::Result<_>>()?;
        let mut warnings = match &self.users.listener {
            Some(listener) => listener.reload()?,
            None => Vec::new(),
        };
        for (tls, config, more) in clients {
            tls.replace(config);
            warnings.extend(more);
        }
        warnings.sort();
        warnings.dedup();
        warnings.iter().for_each(|warning| (self.say)(LogLevel::Warning, warning));
        self.in_force = Some(certificate.to_owned());
        Ok(())
    }

    fn note_trouble(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            let line = format!("the certificate of {} is not renewed yet: {why}", self.identity);
            (self.say)(LogLevel::Warning, &line);
        }
        self.trouble = Some(why);
    }
}

/// The certificate of the first answer that has one: not every controller has an authority.
fn ask(
    tls: &ClientTls,
    controllers: &[ControlPlace],
    (path, body): (&str, &Value),
) -> anyhow::Result<String> {
    let mut last = anyhow!("expected the address of a controller, found none");
    for place in controllers {
        let asked = ControlClient::new(place, tls.current())
            .and_then(|client| client.post(path, body, ANSWER_WITHIN));
        match asked {
            Ok(answer) if answer.is_ok() => {
                let certificate = answer.json.get("certificate").and_then(Value::as_str);
                return Ok(certificate.unwrap_or_default().to_owned());
            }
            Ok(answer) => last = anyhow!("{}", answer.error()),
            Err(fault) => last = fault.into(),
        }
    }
    Err(last)
}

/// The first certificate of a file (DER).
fn first_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let chain = certificates(path).map_err(|error| anyhow!(error.source).context(shown(&error.path)))?;
    let first = chain.first().with_context(|| format!("{}: expected a certificate", path.display()))?;
    Ok(first.to_vec())
}

fn life(certificate: &[u8]) -> anyhow::Result<Life> {
    let found = certificate_uris(certificate).context("expected a certificate, found something else")?;
    Ok(Life { not_before_s: found.not_before_s, not_after_s: found.not_after_s })
}

fn shown(path: &Path) -> String {
    format!("read {}", path.display())
}

#[cfg(test)]
mod tests;
