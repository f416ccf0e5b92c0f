//! Browsers that may read over a network: each has shown a certificate or a token.
//!
//! ```text
//! an operator's command ─► ConsoleGate::issue ─► https://HOST:PORT/#t=TOKEN
//! the page              ─► POST /session, authorization: Bearer TOKEN ─► set-cookie, once for each token
//! each document         ─► the cookie, or a certificate that the fleet trusts
//! ```
//!
//! Tokens and cookies are in memory alone: a controller that begins anew knows none.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use os::clock::Stopwatch;
use rustix::rand::{GetRandomFlags, getrandom};

/// How long a token can be shown: time to copy it into a browser.
pub(crate) const TOKEN_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// How long a browser that has shown one may read: a working day. A screen on a wall has a certificate.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Tokens that wait to be shown. A further one takes the place of the oldest.
const TOKENS_MAX: usize = 64;
/// Browsers that may read. A further one takes the place of the oldest.
const SESSIONS_MAX: usize = 256;
/// The begin of the cookie's name. A browser accepts one of such a name over TLS only, and sends it to the host alone that has set it, whatever
/// the port: the port is the rest of the name, so that two consoles of a host do not take each other's place.
const COOKIE: &str = "__Host-evenkeel";

/// Whether the certificate of a browser, in DER, is of somebody that may read.
type TrustsCertificate = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// Who may read over a network.
pub struct ConsoleGate {
    cookie: String,
    trusts: TrustsCertificate,
    tokens: Mutex<Secrets>,
    sessions: Mutex<Secrets>,
}

impl ConsoleGate {
    /// Of the console at this port, for browsers with a token or a trusted certificate.
    pub fn new(port: u16, trusts: TrustsCertificate) -> ConsoleGate {
        let cookie = format!("{COOKIE}-{port}");
        let tokens = Mutex::new(Secrets::new(TOKENS_MAX, TOKEN_LIFETIME));
        let sessions = Mutex::new(Secrets::new(SESSIONS_MAX, SESSION_LIFETIME));
        ConsoleGate { cookie, trusts, tokens, sessions }
    }

    /// A token, which one browser can show once.
    ///
    /// # Errors
    /// If the kernel gives no random bytes.
    pub fn issue(&self) -> io::Result<String> {
        lock(&self.tokens).add()
    }

    /// A cookie, as in `set-cookie`, for a token; none if the token was never made, was shown before or is too old.
    pub(crate) fn exchange(&self, token: &str) -> io::Result<Option<String>> {
        if !lock(&self.tokens).take(token) {
            return Ok(None);
        }
        let secret = lock(&self.sessions).add()?;
        let seconds = SESSION_LIFETIME.as_secs();
        let name = &self.cookie;
        Ok(Some(format!("{name}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Strict")))
    }

    /// Whether a browser with these cookies and this certificate may read.
    pub(crate) fn admits(&self, cookies: Option<&str>, certificate: Option<&[u8]>) -> bool {
        let named =
            |cookie: &str| Some(cookie.trim().strip_prefix(&*self.cookie)?.strip_prefix('=')?.to_owned());
        let session = cookies.and_then(|all| all.split(';').find_map(named));
        session.is_some_and(|secret| lock(&self.sessions).knows(&secret))
            || certificate.is_some_and(|der| (self.trusts)(der))
    }
}

/// Random texts of one kind, and when each was made. 256 bits are not guessed, and a map with a random seed tells nothing by its time.
struct Secrets {
    max: usize,
    lifetime: Duration,
    since: HashMap<String, Stopwatch>,
}

impl Secrets {
    fn new(max: usize, lifetime: Duration) -> Secrets {
        Secrets { max, lifetime, since: HashMap::new() }
    }

    fn add(&mut self) -> io::Result<String> {
        let lifetime = self.lifetime;
        self.since.retain(|_, since| since.passed() < lifetime);
        if self.since.len() >= self.max {
            let oldest = self.since.iter().max_by_key(|(_, since)| since.passed());
            if let Some(oldest) = oldest.map(|(secret, _)| secret.clone()) {
                self.since.remove(&oldest);
            }
        }
        let mut bytes = [0; 32];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.since.insert(secret.clone(), Stopwatch::start());
        Ok(secret)
    }

    fn knows(&self, secret: &str) -> bool {
        self.since.get(secret).is_some_and(|since| since.passed() < self.lifetime)
    }

    fn take(&mut self, secret: &str) -> bool {
        let lifetime = self.lifetime;
        self.since.remove(secret).is_some_and(|since| since.passed() < lifetime)
    }
}

fn lock(secrets: &Mutex<Secrets>) -> MutexGuard<'_, Secrets> {
    secrets.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> ConsoleGate {
        ConsoleGate::new(7580, Arc::new(|der| der == b"reader"))
    }

    /// The cookie as a browser sends it.
    fn sent(set: &str) -> String {
        set.split(';').next().expect("a cookie").to_owned()
    }

    #[test]
    fn a_token_admits_one_browser_once() {
        let gate = gate();
        assert!(!gate.admits(None, None));
        let token = gate.issue().expect("random bytes");
        assert!(!gate.admits(Some(&format!("{COOKIE}-7580={token}")), None), "a token is no cookie");
        let set = gate.exchange(&token).expect("random bytes").expect("a cookie");
        assert!(set.ends_with("; Path=/; Max-Age=43200; Secure; HttpOnly; SameSite=Strict"), "{set}");
        let cookie = sent(&set);
        assert!(gate.admits(Some(&cookie), None));
        assert!(gate.admits(Some(&format!("other=1; {cookie}; last=2")), None));
        assert_eq!(gate.exchange(&token).expect("random bytes"), None, "a token is shown once");
        for other in [
            String::new(),
            COOKIE.to_owned(),
            format!("{COOKIE}="),
            format!("x{cookie}"),
            format!("{cookie}0"),
        ] {
            assert!(!gate.admits(Some(&other), None), "{other}");
            assert_eq!(gate.exchange(&other).expect("random bytes"), None, "{other}");
        }
    }

    #[test]
    fn a_certificate_is_asked_about() {
        assert!(gate().admits(None, Some(b"reader")));
        assert!(!gate().admits(None, Some(b"server")));
        assert!(gate().admits(Some("__Host-evenkeel-7580=wrong"), Some(b"reader")));
    }

    #[test]
    fn what_is_too_old_is_not_known_and_many_are_not_kept() {
        let mut secrets = Secrets::new(3, Duration::from_secs(3600));
        let made: Vec<String> = (0..5).map(|_| secrets.add().expect("random bytes")).collect();
        assert_eq!(secrets.since.len(), 3);
        assert!(secrets.knows(&made[4]) && !secrets.knows(&made[0]));
        secrets.lifetime = Duration::ZERO;
        assert!(!secrets.knows(&made[4]) && !secrets.take(&made[4]));
        secrets.add().expect("random bytes");
        assert_eq!(secrets.since.len(), 1);
    }
}
