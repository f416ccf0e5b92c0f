//! Limit of a worker's memory for requests and replies: when it looks at what is held, and which clients it closes.

use crate::slab::Id;

/// Looks while as many bytes arrive as the limit has. Each looks at every client: with 16, ten thousand clients cost less
/// than a tenth of what copying the bytes does, and the limit is exceeded by a sixteenth at most, and by what one turn
/// receives.
const LOOKS: usize = 16;

/// A client that holds less is not closed: that would free little.
const LIGHT_MAX: usize = 64 << 10;

/// What a worker knows of its memory for requests and replies.
#[derive(Debug)]
pub(super) struct HeldMemory {
    /// Bytes.
    limit: usize,
    /// Bytes that have arrived since the last look.
    arrived: usize,
    /// At the last look so much was held for servers, which closing clients does not free, that no further large values are
    /// accepted.
    is_short: bool,
}

impl HeldMemory {
    pub(super) fn new(limit: usize) -> HeldMemory {
        HeldMemory { limit, arrived: 0, is_short: false }
    }

    /// Bytes, at most.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether so much was held for servers at the last look, which closing clients does not free, that no further large values
    /// are accepted.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// So many bytes have arrived that wait, or may.
    #[inline]
    pub(super) fn note(&mut self, len: usize) {
        self.arrived += len;
    }

    /// Whether it is time to look at what is held: every turn while values are refused.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.arrived >= self.limit / LOOKS || self.is_short && self.arrived > 0
    }

    /// The look has been; so many bytes are held for servers. `again`: the next turn looks again.
    pub(super) fn looked(&mut self, for_servers: usize, again: bool) {
        self.arrived = if again { self.limit } else { 0 };
        self.is_short = for_servers > self.limit / 2;
    }

    /// Which clients to close while `held` bytes are held: those that hold most, down to three quarters of the limit, so that
    /// what arrives next does not end the next client at once.
    pub(super) fn to_close(&self, mut held: usize, mut clients: Vec<(usize, Id)>) -> Vec<(usize, Id)> {
        clients.retain(|(size, _)| *size > LIGHT_MAX);
        clients.sort_unstable();
        let mut closed = Vec::new();
        while held > self.limit / 4 * 3
            && let Some(client) = clients.pop()
        {
            held = held.saturating_sub(client.0);
            closed.push(client);
        }
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::IdSlab;

    const MB: usize = 1 << 20;

    #[test]
    fn the_largest_clients_are_closed_and_those_with_little_never() {
        let mut slab = IdSlab::default();
        let clients: Vec<(usize, Id)> =
            [3 * MB, LIGHT_MAX, 40 * MB, 9 * MB, 41 * MB].map(|size| (size, slab.insert(()))).into();
        let memory = HeldMemory::new(100 * MB);
        let sizes = |held| {
            memory.to_close(held, clients.clone()).into_iter().map(|(size, _)| size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(75 * MB), []);
        assert_eq!(sizes(110 * MB), [41 * MB]);
        assert_eq!(sizes(120 * MB), [41 * MB, 40 * MB]);
        assert_eq!(sizes(900 * MB), [41 * MB, 40 * MB, 9 * MB, 3 * MB]);
    }

    #[test]
    fn looks_follow_what_arrives() {
        let mut memory = HeldMemory::new(160 * MB);
        memory.note(10 * MB - 1);
        assert!(!memory.is_due());
        memory.note(1);
        assert!(memory.is_due());
        memory.looked(81 * MB, false);
        assert_eq!((memory.is_due(), memory.is_short), (false, true));
        memory.note(1);
        assert!(memory.is_due());
        memory.looked(79 * MB, true);
        assert_eq!((memory.is_due(), memory.is_short), (true, false));
    }
}
