//! ARC and LIRS, with bytes in place of pages.

use crate::lists::Lists;
use crate::policy::PublishedPolicy;
use crate::trace::ReplayedRequest;

/// Recent and frequent items, whose shares follow the ghosts of both (Megiddo and Modha, 2003).
pub(crate) struct Arc {
    lists: Lists,
    room: u64,
    /// The share of recent items that is aimed at.
    goal: u64,
}

const RECENT: usize = 0;
const FREQUENT: usize = 1;
const RECENT_GHOSTS: usize = 2;
const FREQUENT_GHOSTS: usize = 3;

impl Arc {
    pub(crate) fn new(items: usize, room: u64) -> Arc {
        Arc { lists: Lists::new(items, 4), room, goal: 0 }
    }

    fn evict(&mut self, for_frequent_ghost: bool) {
        let recent = self.lists.bytes(RECENT);
        let from_recent = recent > 0 && (recent > self.goal || for_frequent_ghost && recent == self.goal)
            || self.lists.items(FREQUENT) == 0;
        let (from, to) = if from_recent { (RECENT, RECENT_GHOSTS) } else { (FREQUENT, FREQUENT_GHOSTS) };
        if let Some(item) = self.lists.oldest(from) {
            self.lists.push(item, to, self.lists.bytes_of(item));
        }
    }

    fn forget(&mut self) {
        while self.lists.bytes(RECENT) + self.lists.bytes(RECENT_GHOSTS) > self.room
            && self.lists.pop(RECENT_GHOSTS).is_some()
        {}
        let all = |lists: &Lists| (RECENT..=FREQUENT_GHOSTS).map(|list| lists.bytes(list)).sum::<u64>();
        while all(&self.lists) > 2 * self.room && self.lists.pop(FREQUENT_GHOSTS).is_some() {}
    }
}

impl PublishedPolicy for Arc {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let list = self.lists.list_of(request.item);
        if let Some(RECENT | FREQUENT) = list {
            self.lists.push(request.item, FREQUENT, request.bytes);
            return true;
        }
        if request.bytes > self.room {
            return false;
        }
        let ghosts = [RECENT_GHOSTS, FREQUENT_GHOSTS].map(|list| self.lists.bytes(list).max(1));
        match list {
            Some(RECENT_GHOSTS) => {
                let step = request.bytes * (ghosts[1] / ghosts[0]).max(1);
                self.goal = (self.goal + step).min(self.room);
            }
            Some(_) => self.goal = self.goal.saturating_sub(request.bytes * (ghosts[0] / ghosts[1]).max(1)),
            None => {}
        }
        self.lists.remove(request.item);
        while self.lists.bytes(RECENT) + self.lists.bytes(FREQUENT) + request.bytes > self.room {
            self.evict(list == Some(FREQUENT_GHOSTS));
        }
        self.lists.push(request.item, if list.is_some() { FREQUENT } else { RECENT }, request.bytes);
        self.forget();
        false
    }
}

/// Items by the distance of their last two uses (Jiang and Zhang, 2002): 99 % of the room for those of short distances.
pub(crate) struct Lirs {
    /// The stack: items of short distances, and others used since the oldest of them.
    stack: Lists,
    /// Items of long distances that are stored, and those that are not.
    queues: Lists,
    room: u64,
    is_short: Vec<bool>,
    short_bytes: u64,
}

const STORED: usize = 0;
const EVICTED: usize = 1;

impl Lirs {
    pub(crate) fn new(items: usize, room: u64) -> Lirs {
        Lirs {
            stack: Lists::new(items, 1),
            queues: Lists::new(items, 2),
            room,
            is_short: vec![false; items],
            short_bytes: 0,
        }
    }

    fn short_room(&self) -> u64 {
        self.room - self.room / 100
    }

    /// The oldest item of the stack is always one of a short distance.
    fn prune(&mut self) {
        while let Some(item) = self.stack.oldest(0)
            && !self.is_short[item as usize]
        {
            self.stack.remove(item);
            if self.queues.is_in(item, EVICTED) {
                self.queues.remove(item);
            }
        }
    }

    fn make_short(&mut self, item: u32, bytes: u64) {
        self.queues.remove(item);
        self.is_short[item as usize] = true;
        self.short_bytes += bytes;
        while self.short_bytes > self.short_room()
            && let Some(oldest) = self.stack.pop(0)
        {
            let bytes = self.stack.bytes_of(oldest);
            self.is_short[oldest as usize] = false;
            self.short_bytes -= bytes;
            self.queues.push(oldest, STORED, bytes);
            self.prune();
        }
    }

    fn make_room(&mut self, bytes: u64) {
        while self.short_bytes + self.queues.bytes(STORED) + bytes > self.room {
            if let Some(item) = self.queues.pop(STORED) {
                if self.stack.is_in(item, 0) {
                    self.queues.push(item, EVICTED, self.queues.bytes_of(item));
                }
            } else if let Some(item) = self.stack.pop(0) {
                self.is_short[item as usize] = false;
                self.short_bytes -= self.stack.bytes_of(item);
                self.prune();
            }
        }
        // Three rooms of what is only remembered.
        while self.queues.bytes(EVICTED) > 3 * self.room
            && let Some(item) = self.queues.pop(EVICTED)
        {
            self.stack.remove(item);
        }
    }
}

impl PublishedPolicy for Lirs {
    fn get(&mut self, request: &ReplayedRequest) -> bool {
        let ReplayedRequest { item, bytes, .. } = *request;
        if self.is_short[item as usize] {
            self.stack.push(item, 0, bytes);
            self.prune();
            return true;
        }
        let (was_stacked, found) = (self.stack.is_in(item, 0), self.queues.is_in(item, STORED));
        if !found {
            if bytes > self.room {
                return false;
            }
            self.queues.remove(item);
            self.make_room(bytes);
        }
        let was_stacked = was_stacked && (found || self.stack.is_in(item, 0));
        self.stack.push(item, 0, bytes);
        let has_room = self.short_bytes + bytes <= self.short_room();
        if was_stacked || !found && has_room && self.queues.items(STORED) == 0 {
            self.make_short(item, bytes);
        } else {
            self.queues.push(item, STORED, bytes);
        }
        self.prune();
        found
    }
}
