//! Ways back to clients: the newest request of each says how its reply goes.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;

use crate::frame::FrameLink;

/// Clients of one queue whose ways are known. One that falls out is answered by the kernel's socket, which asks its own tables.
const LINKS: usize = 4096;

/// A table with one place for each client; a newer client takes it from an older one.
pub(crate) struct FrameLinks {
    places: Box<[Option<(SocketAddr, FrameLink)>]>,
    /// Keyed, so that nobody can choose addresses that share a place.
    hasher: RandomState,
}

impl FrameLinks {
    pub(crate) fn new() -> FrameLinks {
        FrameLinks { places: vec![None; LINKS].into_boxed_slice(), hasher: RandomState::new() }
    }

    fn place(&self, client: &SocketAddr) -> usize {
        self.hasher.hash_one(client) as usize % LINKS
    }

    /// Notes the way that a request has come.
    pub(crate) fn note(&mut self, client: SocketAddr, link: FrameLink) {
        let place = self.place(&client);
        self.places[place] = Some((client, link));
    }

    /// The way back.
    pub(crate) fn find(&self, client: &SocketAddr) -> Option<FrameLink> {
        self.places[self.place(client)].filter(|(known, _)| known == client).map(|(_, link)| link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_found_until_another_takes_its_place() {
        let mut links = FrameLinks::new();
        let link = |last| FrameLink { peer: [2, 0, 0, 0, 0, last], own: [2; 6], tag: None };
        let client = |port| SocketAddr::from(([10, 0, 0, 1], port));
        assert_eq!(links.find(&client(1)), None);
        links.note(client(1), link(1));
        links.note(client(1), link(2));
        assert_eq!(links.find(&client(1)), Some(link(2)));
        assert_eq!(links.find(&client(2)), None);
        for port in 2..u16::MAX {
            links.note(client(port), link(3));
        }
        assert_eq!(links.find(&client(1)), None, "many others have come");
        assert_eq!(links.find(&client(u16::MAX - 1)), Some(link(3)));
    }
}
