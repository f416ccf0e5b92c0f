//! LRU, SIEVE and S3-FIFO.

use crate::lists::Lists;
use crate::policy::PublishedPolicy;
use crate::trace::ReplayedRequest;

/// Evicts what was used longest ago.
pub(crate) struct Lru {
    lists: Lists,
    room: u64,
}

impl Lru {
    pub(crate) fn new(items: usize, room: u64) -> Lru {
        Lru { lists: Lists::new(items, 1), room }
    }
}

impl PublishedPolicy for Lru {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let found = self.lists.is_in(request.item, 0);
        if !found && request.bytes > self.room {
            return false;
        }
        while !found && self.lists.bytes(0) + request.bytes > self.room {
            self.lists.pop(0);
        }
        self.lists.push(request.item, 0, request.bytes);
        found
    }
}

/// A hand walks from the oldest item to the newest and evicts the first that was not visited (Zhang et al., 2024).
pub(crate) struct Sieve {
    lists: Lists,
    room: u64,
    visited: Vec<bool>,
    hand: Option<u32>,
}

impl Sieve {
    pub(crate) fn new(items: usize, room: u64) -> Sieve {
        Sieve { lists: Lists::new(items, 1), room, visited: vec![false; items], hand: None }
    }

    fn evict(&mut self) {
        let mut at = self.hand.or_else(|| self.lists.oldest(0)).expect("something is stored");
        while std::mem::take(&mut self.visited[at as usize]) {
            at = self.lists.newer(at).or_else(|| self.lists.oldest(0)).expect("something is stored");
        }
        self.hand = self.lists.newer(at);
        self.lists.remove(at);
    }
}

impl PublishedPolicy for Sieve {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        if self.lists.is_in(request.item, 0) {
            self.visited[request.item as usize] = true;
            return true;
        }
        if request.bytes > self.room {
            return false;
        }
        while self.lists.bytes(0) + request.bytes > self.room {
            self.evict();
        }
        self.visited[request.item as usize] = false;
        self.lists.push(request.item, 0, request.bytes);
        false
    }
}

/// Two queues and ghosts (Yang et al., 2023): a tenth for new items, and ghosts of as many bytes as the main queue.
pub(crate) struct S3Fifo {
    lists: Lists,
    room: u64,
    /// Uses that send an item to the main queue.
    threshold: u8,
    uses: Vec<u8>,
}

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOSTS: usize = 2;

impl S3Fifo {
    pub(crate) fn new(items: usize, room: u64, threshold: u8) -> S3Fifo {
        S3Fifo { lists: Lists::new(items, 3), room, threshold, uses: vec![0; items] }
    }

    fn evict(&mut self) {
        let is_over = self.lists.bytes(SMALL) > self.room / 10 || self.lists.items(MAIN) == 0;
        if is_over && let Some(item) = self.lists.oldest(SMALL) {
            let bytes = self.lists.bytes_of(item);
            let uses = std::mem::take(&mut self.uses[item as usize]);
            self.lists.push(item, if uses >= self.threshold { MAIN } else { GHOSTS }, bytes);
            while self.lists.bytes(GHOSTS) > self.room / 10 * 9 {
                self.lists.pop(GHOSTS);
            }
        } else if let Some(item) = self.lists.pop(MAIN)
            && self.uses[item as usize] > 0
        {
            self.uses[item as usize] -= 1;
            let bytes = self.lists.bytes_of(item);
            self.lists.push(item, MAIN, bytes);
        }
    }
}

impl PublishedPolicy for S3Fifo {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let list = self.lists.list_of(request.item);
        if matches!(list, Some(SMALL | MAIN)) {
            let uses = &mut self.uses[request.item as usize];
            *uses = (*uses + 1).min(3);
            return true;
        }
        if request.bytes > self.room {
            return false;
        }
        self.lists.remove(request.item);
        while self.lists.bytes(SMALL) + self.lists.bytes(MAIN) + request.bytes > self.room {
            self.evict();
        }
        self.uses[request.item as usize] = 0;
        self.lists.push(request.item, if list.is_some() { MAIN } else { SMALL }, request.bytes);
        false
    }
}
