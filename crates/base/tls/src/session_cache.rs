//! A cache of sessions on the server, for TLS 1.2 clients that resume by session ID and not by ticket
//! (`ssl_session_cache`).

use crate::ticket::TicketContext;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use rustls::time_provider::TimeProvider;
use std::sync::Arc;

/// Sessions that are kept, as in OpenSSL, which memcached uses: the oldest makes room.
const SESSIONS_MAX: usize = 20_480;

/// The longest session that is kept, in bytes: with the client's certificates in it, one has about 1000. So the cache
/// takes 80 MiB at most, and 4 MB if clients have no certificates.
const SESSION_LEN_MAX: usize = 4096;

/// How long a session can be resumed, as in OpenSSL.
const LIFETIME_S: u64 = 300;

/// Sessions of one kind of listener, in a memory that all kinds share.
#[derive(Debug)]
pub(crate) struct SessionCache {
    pub(crate) sessions: Arc<ServerSessionMemoryCache>,
    pub(crate) context: TicketContext,
    pub(crate) clock: Arc<dyn TimeProvider>,
}

impl SessionCache {
    /// The memory.
    pub(crate) fn memory() -> Arc<ServerSessionMemoryCache> {
        ServerSessionMemoryCache::new(SESSIONS_MAX)
    }

    fn key(&self, id: &[u8]) -> Vec<u8> {
        [&self.context, id].concat()
    }

    /// The session in an entry that is young enough.
    fn unexpired(&self, entry: &[u8]) -> Option<Vec<u8>> {
        let (stored_s, session) = entry.split_first_chunk()?;
        let age_s = self.clock.current_time()?.as_secs().checked_sub(u64::from_be_bytes(*stored_s))?;
        (age_s < LIFETIME_S).then(|| session.to_vec())
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        let Some(now) = self.clock.current_time() else { return false };
        session.len() <= SESSION_LEN_MAX
            && self.sessions.put(self.key(&id), [&now.as_secs().to_be_bytes(), &*session].concat())
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.unexpired(&self.sessions.get(&self.key(id))?)
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.unexpired(&self.sessions.take(&self.key(id))?)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeClock;

    fn cache(clock: &Arc<FakeClock>) -> SessionCache {
        SessionCache { sessions: SessionCache::memory(), context: [1; 32], clock: Arc::clone(clock) as _ }
    }

    #[test]
    fn a_session_is_found_by_listeners_of_its_kind_until_it_expires() {
        let clock = FakeClock::at(1000);
        let cache = cache(&clock);
        assert!(cache.put(vec![7], vec![8]));
        let stricter = SessionCache {
            sessions: Arc::clone(&cache.sessions),
            context: [2; 32],
            clock: FakeClock::at(1000),
        };
        assert_eq!((cache.get(&[7]), stricter.get(&[7])), (Some(vec![8]), None));
        clock.set(1000 + LIFETIME_S);
        assert_eq!(cache.get(&[7]), None);
    }

    #[test]
    fn the_cache_is_bounded_in_sessions_and_their_length() {
        let cache = cache(&FakeClock::at(1000));
        assert!(cache.put(vec![0], vec![0; SESSION_LEN_MAX]));
        assert!(!cache.put(vec![1], vec![0; SESSION_LEN_MAX + 1]));
        for id in 0..2 * SESSIONS_MAX as u32 {
            assert!(cache.put(id.to_be_bytes().to_vec(), vec![0]));
        }
        let kept = (0..2 * SESSIONS_MAX as u32).filter(|id| cache.get(&id.to_be_bytes()).is_some()).count();
        assert!((SESSIONS_MAX..=SESSIONS_MAX * 5 / 4).contains(&kept), "{kept}");
    }
}
