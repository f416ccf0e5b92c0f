//! Rights of clients: which requests a role may make, and a count of those that were refused.
//!
//! Only a client that has come by TLS and has a role is restricted; all others may make every request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use protocol::Request;
use protocol::binary::{BinaryCommand, BinaryRequest};
use protocol::request::StatsTopic;
use tls::{Identity, Role};

use crate::commands::binary;

/// Names whose refused requests are counted apart. Those of further ones are counted together, so that clients with many
/// names take no more memory than this, some 40 KB, and their list is one reply.
const NAMES_MAX: usize = 128;

/// The name under which the others are counted. No name of a client is without a colon.
const OTHERS: &str = "others";

/// What a client may do.
pub(crate) struct Rights {
    identity: Arc<Identity>,
    /// The count of its name, from its first refused request on.
    refused: Option<Arc<AtomicU64>>,
}

impl Rights {
    pub(crate) fn of(identity: Arc<Identity>) -> Rights {
        Rights { identity, refused: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    pub(crate) fn role(&self) -> Role {
        self.identity.role
    }

    /// Counts a refused request.
    #[cold]
    pub(crate) fn count_refusal(&mut self, refusals: &Refusals) {
        self.refused.get_or_insert_with(|| refusals.counter(&self.identity.name)).fetch_add(1, Relaxed);
    }
}

/// Counts of refused requests, by the names of clients.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<Arc<str>, Arc<AtomicU64>>>);

impl Refusals {
    fn counter(&self, name: &Arc<str>) -> Arc<AtomicU64> {
        let mut by_name = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = by_name.contains_key(name) || by_name.len() < NAMES_MAX;
        let name = if known { Arc::clone(name) } else { OTHERS.into() };
        Arc::clone(by_name.entry(name).or_default())
    }

    /// The names with their counts, sorted by name.
    pub(crate) fn by_name(&self) -> Vec<(Arc<str>, u64)> {
        let by_name = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> =
            by_name.iter().map(|(name, count)| (Arc::clone(name), count.load(Relaxed))).collect();
        counts.sort_unstable();
        counts
    }
}

/// The least role that may make this request: it follows from the most that it can do. `Role::Nothing` stands for everyone.
///
/// Whoever may only read does not win a stale item either, which takes no letter of its own: see `Worker::may_write`.
pub(crate) fn needed(request: &Request<'_>) -> Role {
    match request {
        // What tells nothing of the cache.
        Request::Version | Request::Quit | Request::MetaNoop | Request::Refused(_) => Role::Nothing,
        Request::Get(get) if get.exptime.is_none() => Role::Read,
        // A new time to live, a new item, or the right to replace a stale one.
        Request::MetaGet { flags, .. } if [b'T', b'N', b'R'].iter().any(|&letter| flags.has(letter)) => {
            Role::Write
        }
        // The key of `get` for the same list needs this role, too.
        Request::Discover => Role::Read,
        Request::MetaGet { .. } | Request::MetaDebug { .. } => Role::Read,
        Request::Stats { topic, .. } => needed_for_stats(*topic),
        Request::Get(_)
        | Request::Store(_)
        | Request::MetaSet { .. }
        | Request::MetaDelete { .. }
        | Request::MetaArithmetic { .. }
        | Request::Delete { .. }
        | Request::Arithmetic { .. }
        | Request::Touch { .. } => Role::Write,
        Request::FlushAll { .. }
        | Request::Verbosity { .. }
        | Request::Shutdown { .. }
        | Request::Watch { .. }
        | Request::CacheMemlimit { .. }
        | Request::LruCrawler { .. }
        | Request::Slabs { .. }
        | Request::Lru { .. }
        | Request::Extstore { .. }
        | Request::RefreshCerts { .. } => Role::Admin,
    }
}

/// Figures are for monitors; what changes them, lists keys or lists other clients is not, and so are our own topics.
fn needed_for_stats(topic: StatsTopic) -> Role {
    match topic {
        StatsTopic::General
        | StatsTopic::Settings
        | StatsTopic::Items
        | StatsTopic::Slabs
        | StatsTopic::Sizes
        | StatsTopic::Times
        | StatsTopic::Extstore
        | StatsTopic::Proxy => Role::Read,
        StatsTopic::Reset
        | StatsTopic::Detail(_)
        | StatsTopic::Cachedump(_)
        | StatsTopic::Connections
        | StatsTopic::HotKeys
        | StatsTopic::Other => Role::Admin,
    }
}

/// Whether the client of this request expects no reply, not even an error.
pub(crate) fn is_silent(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.noreply,
        Request::Delete { noreply, .. }
        | Request::Arithmetic { noreply, .. }
        | Request::Touch { noreply, .. }
        | Request::FlushAll { noreply, .. }
        | Request::Verbosity { noreply, .. }
        | Request::Shutdown { noreply, .. }
        | Request::CacheMemlimit { noreply, .. }
        | Request::LruCrawler { noreply, .. }
        | Request::Slabs { noreply, .. }
        | Request::Lru { noreply, .. }
        | Request::Extstore { noreply, .. }
        | Request::RefreshCerts { noreply, .. } => *noreply,
        _ => false,
    }
}

/// The least role that may make this request of the binary protocol.
pub(crate) fn needed_for_packet(request: &BinaryRequest<'_>) -> Role {
    match request.command {
        BinaryCommand::Noop
        | BinaryCommand::Version
        | BinaryCommand::Quit
        | BinaryCommand::SaslList
        | BinaryCommand::Sasl { .. }
        | BinaryCommand::Unknown { .. }
        | BinaryCommand::Refused { .. } => Role::Nothing,
        BinaryCommand::Get { exptime: None, .. } | BinaryCommand::Discover => Role::Read,
        BinaryCommand::Get { .. }
        | BinaryCommand::Touch { .. }
        | BinaryCommand::Store(_)
        | BinaryCommand::Delete { .. }
        | BinaryCommand::Arithmetic { .. } => Role::Write,
        BinaryCommand::Flush { .. } => Role::Admin,
        BinaryCommand::Stat { name } => {
            needed_for_stats(binary::stats_topic(name).unwrap_or(StatsTopic::Other))
        }
    }
}
