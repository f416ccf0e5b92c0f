//! Settings of etcd's client: members, user, TLS, limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use rustls::ClientConfig;
use tls::{ClientSettings, ClientTls};

use crate::register::error::RegisterError;
use http_client::{HttpClient, HttpPlace};

/// Members of a cluster: etcd advises against more than seven.
const MEMBERS_MAX: usize = 16;

/// Which etcd, and how it is reached.
#[derive(Clone, Debug, Default)]
pub struct EtcdSettings {
    /// `http://HOST:PORT` or `https://HOST:PORT` of each member's client port.
    pub members: Vec<String>,
    /// Who the controllers are, if etcd's authentication is enabled. (Its gateway refuses users by certificate.)
    pub user: Option<EtcdUser>,
    /// Certificates for `https`.
    pub tls: Option<ClientSettings>,
    /// Times and sizes.
    pub limits: EtcdLimits,
}

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "EtcdUser({})", self.name)
    }
}

/// Limits of calls.
#[derive(Clone, Copy, Debug)]
pub struct EtcdLimits {
    /// Time until a member answers, and between two pieces of its answer; then the next one is asked. A healthy one
    /// answers in milliseconds; a write that is under way when the leader dies is answered after 7 s.
    pub attempt: Duration,
    /// Time of a call, whatever it meets: a leader's loss takes 1 to 2 s, and this is twice that, with room.
    pub operation: Duration,
    /// Time of a whole range.
    pub range: Duration,
    /// Silence after which a watch asks whether it has missed something.
    pub silence: Duration,
    /// Bytes of one answer, or of one message of a stream.
    pub answer_len: usize,
    /// Bytes of one answer to a part of a range. Longer ones are asked for again in smaller parts.
    pub page_len: usize,
    /// Keys in a part of a range.
    pub page_keys: u64,
    /// Keys in a range: twenty times a fleet of 5,000 hosts.
    pub range_keys: usize,
    /// Bytes of keys and values in a range.
    pub range_len: usize,
}

impl Default for EtcdLimits {
    fn default() -> EtcdLimits {
        EtcdLimits {
            attempt: Duration::from_millis(500),
            operation: Duration::from_secs(5),
            range: Duration::from_secs(30),
            silence: Duration::from_secs(60),
            answer_len: 64 << 20,
            page_len: 4 << 20,
            page_keys: 256,
            range_keys: 100_000,
            range_len: 256 << 20,
        }
    }
}

/// The addresses of the members, checked.
///
/// # Errors
/// Says which is wrong.
fn addresses(settings: &EtcdSettings) -> Result<Vec<HttpPlace>, RegisterError> {
    let count = settings.members.len();
    if !(1..=MEMBERS_MAX).contains(&count) {
        let why = format!("{count} members are named: 1 to {MEMBERS_MAX} are accepted");
        return Err(RegisterError::Settings(why));
    }
    settings.members.iter().map(|text| address(text, settings)).collect()
}

fn address(text: &str, settings: &EtcdSettings) -> Result<HttpPlace, RegisterError> {
    let wrong = |why: &str| RegisterError::Settings(format!("{text:?} is not a member's address: {why}"));
    let unclear = "it is not clear where it is\n  hint: write http://HOST:PORT or https://HOST:PORT";
    let uri = text.parse::<Uri>().map_err(|error| wrong(&format!("{error}: {unclear}")))?;
    let is_tls = match uri.scheme_str() {
        None => return Err(wrong(unclear)),
        Some("http") => false,
        Some("https") => true,
        Some(_) => return Err(wrong("http://HOST:PORT and https://HOST:PORT are accepted")),
    };
    if uri.path() != "/" || uri.query().is_some() || text.contains('#') {
        return Err(wrong("nothing is accepted behind the port"));
    }
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    if authority.contains('@') {
        return Err(wrong("the user is a setting of its own"));
    }
    let host = uri.host().unwrap_or_default();
    let port = match authority[host.len()..].strip_prefix(':') {
        Some(port) => port.parse().ok().filter(|port| *port != 0),
        None => Some(if is_tls { 443 } else { 80 }),
    };
    let Some(port) = port.filter(|_| !host.is_empty()) else { return Err(wrong(unclear)) };
    // Without authorities any server would be trusted, and given the password.
    if is_tls && settings.tls.as_ref().is_none_or(|tls| tls.authorities.is_none()) {
        return Err(wrong("https needs the authorities of its certificates"));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(HttpPlace::Network { is_tls, host, port })
}

/// A client of each member.
///
/// # Errors
/// If an address or a file of certificates cannot be used.
pub(super) fn clients(settings: &EtcdSettings) -> Result<Vec<HttpClient>, RegisterError> {
    let wrong = |error: &dyn fmt::Display| RegisterError::Settings(error.to_string());
    let tls = ClientTls::load(settings.tls.clone().unwrap_or_default());
    let (tls, _) = tls.map_err(|error| wrong(&format!("{error}: {}", error.source)))?;
    let tls: Arc<ClientConfig> = tls.current();
    // Less than an attempt: who was never connected has certainly sent nothing.
    let connect_within = settings.limits.attempt * 4 / 5;
    let client = |place| HttpClient::new(place, Arc::clone(&tls), connect_within);
    addresses(settings)?.into_iter().map(|place| client(place).map_err(|error| wrong(&error))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(members: &[&str], tls: Option<ClientSettings>, expected: &str) {
        let members = members.iter().map(|text| (*text).to_owned()).collect();
        let settings = EtcdSettings { members, tls, ..EtcdSettings::default() };
        let said = addresses(&settings).err().map_or(String::new(), |error| error.to_string());
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{said}");
    }

    #[test]
    fn members_are_addresses_and_nothing_else() {
        check(&["http://127.0.0.1:2379", "http://[::1]:2379", "http://etcd.example.org:2379/"], None, "");
        check(&[], None, "0 members are named");
        check(&["http://h:1"; 17], None, "17 members are named");
        for unclear in [
            "127.0.0.1:2379",
            "h",
            "",
            "http://",
            "http://h:",
            "http://h:0",
            "http://h:65536",
            "http://h h:1",
        ] {
            check(&[unclear], None, "hint: write http://HOST:PORT");
        }
        check(&["ftp://h:1"], None, "http://HOST:PORT and https://HOST:PORT are accepted");
        for behind in ["http://h:1/v3", "http://h:1/?x", "http://h:1#x"] {
            check(&[behind], None, "nothing is accepted behind the port");
        }
        check(&["http://root:p@h:1"], None, "the user is a setting of its own");
        check(&["https://h:1"], None, "needs the authorities");
        check(&["https://h:1"], Some(ClientSettings::default()), "needs the authorities");
        let authorities = Some("ca.pem".into());
        check(&["https://h:1"], Some(ClientSettings { authorities, ..ClientSettings::default() }), "");
    }

    #[test]
    fn a_password_is_not_shown() {
        let user = EtcdUser { name: "control".to_owned(), password: "secret".to_owned() };
        assert_eq!(format!("{user:?}"), "EtcdUser(control)");
    }
}
