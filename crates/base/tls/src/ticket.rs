//! Session tickets: what a server gives a client instead of remembering its session (TLS 1.2 and 1.3).
//!
//! A ticket is sealed with AES-256-GCM under a key of its own, which follows from a secret and 32 random bytes. So any
//! number of servers may make any number of tickets with the same secret: with one AES key for all, 2³² random nonces
//! would be too many (NIST SP 800-38D, 8.3), which a large fleet reaches in an hour.
//!
//! ```text
//! name of the secret  16 bytes
//! salt                32 bytes   key = HMAC-SHA-256(secret, "evenkeel ticket" ‖ salt), nonce = 0
//! sealed                         second of issue (8 bytes) ‖ session; with the context as additional data
//! tag                 16 bytes
//! ```

use crate::files::{TlsFileError, unusable, words};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use rustls::server::ProducesTickets;
use rustls::time_provider::TimeProvider;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// How long a ticket is accepted. Half a day lets clients that come back after a night's deployment resume; longer would
/// keep old secrets worth stealing.
const LIFETIME_S: u64 = 12 * 60 * 60;

/// A server whose clock is ahead of ours by no more than this makes tickets that we accept.
const CLOCK_SKEW_S: u64 = 5 * 60;

/// How long a secret in memory makes tickets. With the one before it, it covers the lifetime of a ticket.
const SECRET_AGE_MAX_S: u64 = LIFETIME_S;

/// Secrets in memory: the one that makes tickets, and the one before.
const ROTATION_LEN: usize = 2;

/// Secrets that a file may have: a current one, one to come, and those whose tickets are still accepted, for rotations
/// down to one each hour.
const SECRETS_MAX: usize = 16;

const SECRET_LEN: usize = 32;
const NAME_LEN: usize = 16;
const SALT_LEN: usize = 32;

/// The longest session that is put into a ticket. It holds the client's certificates; a client with more than that gets
/// no ticket. A ticket's length on the wire is a `u16`.
const SESSION_LEN_MAX: usize = 16 * 1024;

/// What a ticket is good for, besides this: it is not accepted where it would replace another check of the client's
/// certificate than was made.
pub(crate) type TicketContext = [u8; digest::SHA256_OUTPUT_LEN];

/// Makes and accepts tickets for one kind of listener.
#[derive(Debug)]
pub(crate) struct Tickets {
    pub(crate) secrets: Arc<TicketSecrets>,
    pub(crate) context: TicketContext,
}

/// The secrets behind tickets.
#[derive(Debug)]
pub(crate) struct TicketSecrets {
    source: Source,
    clock: Arc<dyn TimeProvider>,
}

#[derive(Debug)]
enum Source {
    /// Those of a file: the first makes tickets, all accept them.
    File(Vec<Secret>),
    /// Random ones, for this process alone.
    Memory(Mutex<Rotation>),
}

/// The youngest secret is the first.
#[derive(Debug)]
struct Rotation {
    since_s: u64,
    secrets: VecDeque<Arc<Secret>>,
}

/// The secrets that a process has made up, on their way to the one that takes over from it.
#[derive(Clone, PartialEq, Eq)]
pub struct HandedTickets {
    since_s: u64,
    /// The youngest is the first.
    secrets: Vec<[u8; SECRET_LEN]>,
}

impl HandedTickets {
    /// The second since which the first secret makes tickets, and all of them.
    pub fn to_parts(&self) -> (u64, Vec<String>) {
        let digits = |secret: &[u8; SECRET_LEN]| secret.iter().map(|byte| format!("{byte:02x}")).collect();
        (self.since_s, self.secrets.iter().map(digits).collect())
    }

    /// `None` if these are not such secrets.
    pub fn of_parts(since_s: u64, secrets: &[String]) -> Option<HandedTickets> {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret_bytes(secret)).collect::<Option<_>>()?;
        (1..=ROTATION_LEN).contains(&secrets.len()).then_some(HandedTickets { since_s, secrets })
    }
}

impl fmt::Debug for HandedTickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandedTickets").field("since_s", &self.since_s).finish_non_exhaustive()
    }
}

struct Secret {
    name: [u8; NAME_LEN],
    key: hmac::Key,
    /// What the key was made of, for a process that takes over.
    bytes: [u8; SECRET_LEN],
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

impl TicketSecrets {
    /// The secrets in a file: 64 hexadecimal digits on a line. Empty lines and those that begin with `#` are left out.
    pub(crate) fn from_file(path: &Path, clock: Arc<dyn TimeProvider>) -> Result<Self, TlsFileError> {
        let text = words(path)?;
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let secrets = lines.map(|(number, line)| {
            // What was found is a secret, or nearly: it is not shown.
            let problem = || format!("line {}: expected {} hexadecimal digits", number + 1, 2 * SECRET_LEN);
            secret_bytes(line).map(|bytes| Secret::new(&bytes)).ok_or_else(problem)
        });
        let secrets = secrets.collect::<Result<Vec<_>, _>>().map_err(|problem| unusable(path, &problem))?;
        match secrets.len() {
            0 => Err(unusable(path, "there is no key in it (`openssl rand -hex 32` makes one)")),
            1..=SECRETS_MAX => Ok(Self { source: Source::File(secrets), clock }),
            count => Err(unusable(path, &format!("it has {count} keys, and {SECRETS_MAX} is the most"))),
        }
    }

    /// Random secrets, replaced in turn, or at first those of the process before.
    pub(crate) fn in_memory(clock: Arc<dyn TimeProvider>, handed: Option<&HandedTickets>) -> Self {
        let secrets = handed.iter().flat_map(|handed| &handed.secrets);
        let secrets = secrets.map(|bytes| Arc::new(Secret::new(bytes))).collect();
        let rotation = Rotation { since_s: handed.map_or(0, |handed| handed.since_s), secrets };
        Self { source: Source::Memory(Mutex::new(rotation)), clock }
    }

    /// Secrets in memory, with one that makes tickets now, for a process that takes over. `None` for those of a file.
    pub(crate) fn handed(&self) -> Option<HandedTickets> {
        let Source::Memory(rotation) = &self.source else { return None };
        youngest(rotation, self.now_s()?)?;
        let rotation = rotation.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = rotation.secrets.iter().map(|secret| secret.bytes).collect();
        Some(HandedTickets { since_s: rotation.since_s, secrets })
    }

    fn now_s(&self) -> Option<u64> {
        self.clock.current_time().map(|time| time.as_secs())
    }

    fn seal(&self, session: &[u8], context: &TicketContext) -> Option<Vec<u8>> {
        if session.len() > SESSION_LEN_MAX {
            return None;
        }
        let now_s = self.now_s()?;
        match &self.source {
            Source::File(secrets) => secrets.first()?.seal(session, now_s, context),
            Source::Memory(rotation) => youngest(rotation, now_s)?.seal(session, now_s, context),
        }
    }

    fn open(&self, ticket: &[u8], context: &TicketContext) -> Option<Vec<u8>> {
        let now_s = self.now_s()?;
        let (name, sealed) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (issued_s, session) = match &self.source {
            Source::File(secrets) => {
                secrets.iter().find(|secret| secret.name == *name)?.open(sealed, context)?
            }
            Source::Memory(rotation) => {
                let secrets = rotation.lock().unwrap_or_else(PoisonError::into_inner).secrets.clone();
                secrets.iter().find(|secret| secret.name == *name)?.open(sealed, context)?
            }
        };
        let accepted = issued_s <= now_s + CLOCK_SKEW_S && now_s < issued_s + LIFETIME_S;
        accepted.then_some(session)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S as u32
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.secrets.seal(session, &self.context)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.secrets.open(ticket, &self.context)
    }
}

impl Secret {
    fn new(bytes: &[u8; SECRET_LEN]) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let name = hmac::sign(&key, b"evenkeel name of a ticket key");
        let name = *name.as_ref().first_chunk().expect("a tag is longer than a name");
        Self { name, key, bytes: *bytes }
    }

    fn random() -> Option<Self> {
        let mut bytes = [0; SECRET_LEN];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self::new(&bytes))
    }

    fn seal(&self, session: &[u8], now_s: u64, context: &TicketContext) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_LEN];
        SystemRandom::new().fill(&mut salt).ok()?;
        let mut sealed = [&now_s.to_be_bytes(), session].concat();
        let tag =
            self.key_of(&salt).seal_in_place_separate_tag(nonce(), Aad::from(context), &mut sealed).ok()?;
        Some([&self.name[..], &salt, &sealed, tag.as_ref()].concat())
    }

    fn open(&self, sealed: &[u8], context: &TicketContext) -> Option<(u64, Vec<u8>)> {
        let (salt, sealed) = sealed.split_first_chunk()?;
        let mut sealed = sealed.to_vec();
        let opened = self.key_of(salt).open_in_place(nonce(), Aad::from(context), &mut sealed).ok()?;
        let (issued_s, session) = opened.split_first_chunk()?;
        Some((u64::from_be_bytes(*issued_s), session.to_vec()))
    }

    /// The key of the only ticket with this salt.
    fn key_of(&self, salt: &[u8; SALT_LEN]) -> LessSafeKey {
        let key = hmac::sign(&self.key, &[b"evenkeel ticket", &salt[..]].concat());
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("SHA-256 gives 32 bytes"))
    }
}

/// Each key seals one ticket, so that no nonce is used twice with it.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

/// The secret that makes tickets now. `None` if the system has no random bytes.
fn youngest(rotation: &Mutex<Rotation>, now_s: u64) -> Option<Arc<Secret>> {
    let mut rotation = rotation.lock().unwrap_or_else(PoisonError::into_inner);
    // A clock that was set back makes a new one, too.
    if rotation.secrets.is_empty() || now_s.abs_diff(rotation.since_s) >= SECRET_AGE_MAX_S {
        rotation.secrets.push_front(Arc::new(Secret::random()?));
        rotation.secrets.truncate(ROTATION_LEN);
        rotation.since_s = now_s;
    }
    rotation.secrets.front().cloned()
}

fn secret_bytes(line: &str) -> Option<[u8; SECRET_LEN]> {
    let mut bytes = [0; SECRET_LEN];
    if line.len() != 2 * SECRET_LEN || !line.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&line[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FakeClock, Scratch};

    const NOON_S: u64 = 1_800_000_000;

    fn keys(digits: &[char]) -> String {
        digits.iter().map(|digit| digit.to_string().repeat(64) + "\n").collect()
    }

    fn from_file(text: &str, clock: &Arc<FakeClock>) -> Result<TicketSecrets, TlsFileError> {
        let scratch = Scratch::new();
        TicketSecrets::from_file(&scratch.file("tickets", text), Arc::clone(clock) as _)
    }

    /// Whether a ticket of the first secrets is accepted by the second ones.
    #[track_caller]
    fn check(makes: &str, accepts: &str, expected: bool) {
        let clock = FakeClock::at(NOON_S);
        let ticket = from_file(makes, &clock).expect("keys").seal(b"session", &[1; 32]).expect("a ticket");
        let opened = from_file(accepts, &clock).expect("keys").open(&ticket, &[1; 32]);
        assert_eq!(opened, expected.then(|| b"session".to_vec()));
    }

    #[test]
    fn the_first_key_makes_tickets_and_all_accept_them() {
        check(&keys(&['1', '2']), &keys(&['1']), true);
        check(&keys(&['1', '2']), &keys(&['2']), false);
        check(&keys(&['1']), &keys(&['2', '3', '1']), true);
        check(&keys(&['1']), &format!("# retired: {}", keys(&['1', '2'])), false);
        check(&keys(&['a']), &keys(&['A']), true);
    }

    #[test]
    fn a_ticket_of_another_context_is_not_accepted() {
        let secrets = from_file(&keys(&['1']), &FakeClock::at(NOON_S)).expect("keys");
        let ticket = secrets.seal(b"session", &[1; 32]).expect("a ticket");
        assert_eq!(secrets.open(&ticket, &[2; 32]), None);
    }

    #[test]
    fn a_damaged_ticket_is_not_accepted() {
        let secrets = from_file(&keys(&['1']), &FakeClock::at(NOON_S)).expect("keys");
        let ticket = secrets.seal(b"session", &[1; 32]).expect("a ticket");
        for at in 0..ticket.len() {
            assert_eq!(secrets.open(&ticket[..at], &[1; 32]), None, "cut at {at}");
            let mut damaged = ticket.clone();
            damaged[at] ^= 1;
            assert_eq!(secrets.open(&damaged, &[1; 32]), None, "damaged at {at}");
        }
    }

    #[test]
    fn two_tickets_of_one_session_share_only_the_name_of_the_key() {
        let secrets = from_file(&keys(&['1']), &FakeClock::at(NOON_S)).expect("keys");
        let [one, other] = [(); 2].map(|()| secrets.seal(b"session", &[1; 32]).expect("a ticket"));
        assert_eq!(one[..NAME_LEN], other[..NAME_LEN]);
        assert_ne!(one[NAME_LEN..NAME_LEN + SALT_LEN], other[NAME_LEN..NAME_LEN + SALT_LEN]);
        assert_ne!(one[NAME_LEN + SALT_LEN..], other[NAME_LEN + SALT_LEN..]);
    }

    #[test]
    fn a_ticket_is_accepted_for_its_lifetime_and_by_clocks_that_are_nearly_right() {
        let clock = FakeClock::at(NOON_S);
        let secrets = from_file(&keys(&['1']), &clock).expect("keys");
        let ticket = secrets.seal(b"session", &[1; 32]).expect("a ticket");
        let accepted = |now_s| {
            clock.set(now_s);
            secrets.open(&ticket, &[1; 32]).is_some()
        };
        assert!(accepted(NOON_S + LIFETIME_S - 1));
        assert!(!accepted(NOON_S + LIFETIME_S));
        assert!(accepted(NOON_S - CLOCK_SKEW_S));
        assert!(!accepted(NOON_S - CLOCK_SKEW_S - 1));
    }

    #[test]
    fn secrets_in_memory_rotate_and_accept_tickets_for_their_lifetime() {
        let clock = FakeClock::at(NOON_S);
        let secrets = TicketSecrets::in_memory(Arc::clone(&clock) as _, None);
        let ticket = |at_s| {
            clock.set(at_s);
            secrets.seal(b"session", &[1; 32]).expect("a ticket")
        };
        let first = ticket(NOON_S);
        let last_of_it = ticket(NOON_S + SECRET_AGE_MAX_S - 1);
        let second = ticket(NOON_S + SECRET_AGE_MAX_S);
        assert_eq!(first[..NAME_LEN], last_of_it[..NAME_LEN]);
        assert_ne!(first[..NAME_LEN], second[..NAME_LEN]);
        clock.set(NOON_S + SECRET_AGE_MAX_S + LIFETIME_S - 2);
        assert!(secrets.open(&last_of_it, &[1; 32]).is_some());
        assert!(secrets.open(&second, &[1; 32]).is_some());
        let third = ticket(NOON_S + 3 * SECRET_AGE_MAX_S);
        assert!(secrets.open(&third, &[1; 32]).is_some());
        let other_process = TicketSecrets::in_memory(Arc::clone(&clock) as _, None);
        assert_eq!(other_process.open(&third, &[1; 32]), None);
    }

    #[test]
    fn a_process_that_takes_over_accepts_the_tickets_of_the_one_before() {
        let clock = FakeClock::at(NOON_S);
        let before = TicketSecrets::in_memory(Arc::clone(&clock) as _, None);
        let old = before.seal(b"session", &[1; 32]).expect("a ticket");
        clock.set(NOON_S + SECRET_AGE_MAX_S);
        let young = before.seal(b"session", &[1; 32]).expect("a ticket");
        let handed = before.handed().expect("secrets in memory");
        let (since_s, secrets) = handed.to_parts();
        assert_eq!(HandedTickets::of_parts(since_s, &secrets), Some(handed.clone()));
        assert!(!format!("{handed:?} {before:?}").contains(&secrets[0]));
        let after = TicketSecrets::in_memory(Arc::clone(&clock) as _, Some(&handed));
        clock.set(NOON_S + SECRET_AGE_MAX_S - 1);
        assert!([&old, &young].into_iter().all(|ticket| after.open(ticket, &[1; 32]).is_some()));
        clock.set(NOON_S + SECRET_AGE_MAX_S + 1);
        let new = after.seal(b"session", &[1; 32]).expect("a ticket");
        assert_eq!(new[..NAME_LEN], young[..NAME_LEN], "it goes on with the same one");
        clock.set(NOON_S + 2 * SECRET_AGE_MAX_S);
        let next = after.seal(b"session", &[1; 32]).expect("a ticket");
        assert_ne!(next[..NAME_LEN], young[..NAME_LEN], "until it is too old");
        assert!(from_file(&keys(&['1']), &clock).expect("keys").handed().is_none());
        assert_eq!(HandedTickets::of_parts(1, &[]), None);
        assert_eq!(HandedTickets::of_parts(1, &["12".to_owned()]), None);
    }

    #[test]
    fn a_session_that_is_too_long_gets_no_ticket() {
        let secrets = TicketSecrets::in_memory(FakeClock::at(NOON_S), None);
        assert!(secrets.seal(&[0; SESSION_LEN_MAX], &[1; 32]).is_some());
        assert!(secrets.seal(&[0; SESSION_LEN_MAX + 1], &[1; 32]).is_none());
    }

    #[test]
    fn a_file_without_usable_keys_is_refused_and_its_content_not_shown() {
        let check = |text: &str, expected: &str| {
            let error = from_file(text, &FakeClock::at(NOON_S)).expect_err("an error").source.to_string();
            assert!(error.contains(expected) && !error.contains("12345"), "{error}");
        };
        check("", "no key in it");
        check("# nothing\n\n", "no key in it");
        check(&("12345".repeat(12) + "123"), "line 1: expected 64 hexadecimal digits");
        check(&format!("{}{}", keys(&['1']), "12345".repeat(12) + "é12"), "line 2: expected 64");
        check(&keys(&['1'; SECRETS_MAX + 1]), "17 keys, and 16 is the most");
        assert!(from_file(&keys(&['1'; SECRETS_MAX]), &FakeClock::at(NOON_S)).is_ok());
    }
}
