//! Renewal of the agent's certificate: a thread that asks a controller for the next one in time.
//!
//! ```text
//! certificate in its file ─► due after two thirds of its life ─► new key, request ─► a controller signs
//! ─► checked, the file is replaced in one step ─► read again ─► the next connection shows it
//! ```
//!
//! Whatever fails, the certificate that is there stays in use, and it is tried again. A certificate that another program has
//! put into the file is taken as well.

mod schedule;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use control::authority::keep_certificate;
use control::identity::FleetIdentity;
use control::{ControlAnswer, ControlClient, ControlPlace, SayLine};
use os::clock::{pause, unix_s};
use serde_json::{Value, json};
use stdx::prng::Prng;
use tls::{CertificateKey, ClientTls, certificate_uris, certificates};

use crate::control::Credentials;
use crate::failure::Failure;
use schedule::{Life, Schedule};

/// Time for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The certificate of an agent, and where the next one comes from.
struct Renewal {
    identity: FleetIdentity,
    /// The file with the certificate and its key.
    path: PathBuf,
    controllers: Vec<ControlPlace>,
    tls: Arc<ClientTls>,
    say: SayLine,
    schedule: Schedule,
    /// The certificate that connections show (DER).
    in_force: Option<Vec<u8>>,
    /// What was wrong the last time, which is said once.
    trouble: Option<String>,
}

/// Starts the thread, if there is a certificate; it ends with the process.
pub(super) fn start(
    credentials: &Credentials,
    controllers: &[ControlPlace],
    tls: &Arc<ClientTls>,
    seed: u64,
    say: &SayLine,
) -> Result<(), Failure> {
    let Some(path) = &credentials.tls_cert else { return Ok(()) };
    if credentials.tls_key.as_ref().is_some_and(|key| key != path) {
        say(&format!(
            "{} is renewed by whoever made it: its key is in another file, and both cannot be replaced in one step",
            path.display()
        ));
        return Ok(());
    }
    let renewal = Renewal {
        identity: credentials.identity()?,
        path: path.clone(),
        controllers: controllers.to_vec(),
        tls: Arc::clone(tls),
        say: Arc::clone(say),
        schedule: Schedule::new(Prng::new(seed)),
        in_force: first_of(path).ok(),
        trouble: None,
    };
    let spawned = std::thread::Builder::new().name("renewal".to_owned()).spawn(move || renewal.run());
    spawned.map(drop).map_err(|error| Failure::system("start a thread", error))
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
            (self.say)(&format!(
                "{} has another certificate, which is used from now on",
                self.path.display()
            ));
        }
        let life = life(&found)?;
        let due_s = life.due_s(&self.identity);
        if now_s < due_s {
            return Ok(due_s);
        }
        self.renew(now_s).with_context(|| life.shown(now_s))?;
        let found = first_of(&self.path)?;
        self.take(&found)?;
        let life = self::life(&found)?;
        (self.say)(&format!("the certificate of {} is renewed: {}", self.identity, life.shown(now_s)));
        Ok(life.due_s(&self.identity))
    }

    /// Asks for the next certificate, with a key of its own, and puts it into the file.
    fn renew(&self, now_s: u64) -> anyhow::Result<()> {
        let key = CertificateKey::new().context("make a key")?;
        let body = json!({"request": key.request().context("make a request")?});
        let answer = self.ask(&body)?;
        let certificate = answer.json.get("certificate").and_then(Value::as_str).unwrap_or_default();
        Ok(keep_certificate(&self.path, &key, certificate, &self.identity, now_s)?)
    }

    /// The first answer that has a certificate: not every controller has an authority.
    fn ask(&self, body: &Value) -> anyhow::Result<ControlAnswer> {
        let mut last = anyhow!("expected the address of a controller, found none");
        for place in &self.controllers {
            let asked = ControlClient::new(place, self.tls.current())
                .and_then(|client| client.post("/v1/renew", body, ANSWER_WITHIN));
            match asked {
                Ok(answer) if answer.is_ok() => return Ok(answer),
                Ok(answer) => last = anyhow!("{}", answer.error()),
                Err(fault) => last = fault.into(),
            }
        }
        Err(last)
    }

    /// Has the file read again for the next connections.
    fn take(&mut self, certificate: &[u8]) -> anyhow::Result<()> {
        let read = self.tls.read().map_err(|error| anyhow!(error.source).context(shown(&error.path)));
        let (config, warnings) = read?;
        warnings.iter().for_each(|warning| (self.say)(warning));
        self.tls.replace(config);
        self.in_force = Some(certificate.to_owned());
        Ok(())
    }

    fn note_trouble(&mut self, why: String) {
        if self.trouble.as_ref() != Some(&why) {
            (self.say)(&format!("the certificate of {} is not renewed yet: {why}", self.identity));
        }
        self.trouble = Some(why);
    }
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
