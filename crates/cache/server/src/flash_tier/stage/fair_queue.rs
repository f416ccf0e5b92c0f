//! Reads that wait for a device, in an order that is fair to clients.
//!
//! Each connection has a queue of its own, and they have their turns by bytes (deficit round robin, with a list of newcomers as in
//! fq_codel, RFC 8290): a client with a single read does not wait behind what hundreds of others have asked for in advance.

use std::collections::{HashMap, VecDeque};

/// Bytes of a connection's turn: eight items of 4 KB, whose values leave together.
const TURN_BYTES: i64 = 32 << 10;

/// A read that waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueuedRead {
    pub(super) tag: usize,
    pub(super) len: usize,
}

/// Connections with reads that wait, by their places in the table of connections.
#[derive(Default)]
pub(super) struct FairQueue {
    flows: HashMap<usize, Flow>,
    /// Those that had nothing queued: they come first, for one turn.
    newcomers: VecDeque<usize>,
    others: VecDeque<usize>,
    reads: usize,
}

/// The reads of one connection.
struct Flow {
    reads: VecDeque<QueuedRead>,
    /// Bytes that are left of its turn.
    left: i64,
}

impl FairQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.reads == 0
    }

    pub(super) fn push(&mut self, place: usize, read: QueuedRead) {
        let flow = self.flows.entry(place).or_insert_with(|| {
            self.newcomers.push_back(place);
            Flow { reads: VecDeque::new(), left: TURN_BYTES }
        });
        flow.reads.push_back(read);
        self.reads += 1;
        self.settle();
    }

    /// The read whose turn it is.
    pub(super) fn front(&self) -> Option<QueuedRead> {
        let place = self.newcomers.front().or(self.others.front())?;
        self.flows[place].reads.front().copied()
    }

    pub(super) fn pop_front(&mut self) -> Option<QueuedRead> {
        let place = *self.newcomers.front().or(self.others.front())?;
        let flow = self.flows.get_mut(&place)?;
        let read = flow.reads.pop_front()?;
        flow.left -= read.len as i64;
        self.reads -= 1;
        self.settle();
        Some(read)
    }

    /// Takes out a read of a connection. Returns whether it was there.
    pub(super) fn remove(&mut self, place: usize, tag: usize) -> bool {
        let Some(flow) = self.flows.get_mut(&place) else { return false };
        let Some(at) = flow.reads.iter().position(|read| read.tag == tag) else { return false };
        flow.reads.remove(at);
        self.reads -= 1;
        self.settle();
        true
    }

    /// Brings the connection to the front whose turn it is.
    fn settle(&mut self) {
        loop {
            let is_newcomer = !self.newcomers.is_empty();
            let list = if is_newcomer { &mut self.newcomers } else { &mut self.others };
            let Some(&place) = list.front() else { return };
            let flow = self.flows.get_mut(&place).expect("a flow for each place in a list");
            let has_turn = flow.left > 0;
            if has_turn && !flow.reads.is_empty() {
                return;
            }
            list.pop_front();
            if !has_turn {
                flow.left += TURN_BYTES;
            } else if !is_newcomer {
                // It comes as a newcomer again, but not before all others have had their turns.
                self.flows.remove(&place);
                continue;
            }
            self.others.push_back(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pushes reads, `connection.len` in KiB each, and pops all; `+` pops one in between. Returns the connections in the order of their reads.
    #[track_caller]
    fn check(steps: &str, expected: &str) {
        let (mut queue, mut order) = (FairQueue::default(), Vec::new());
        let mut owners = Vec::new();
        for step in steps.split(' ') {
            let Some((place, kib)) = step.split_once('.') else {
                order.push(owners[queue.pop_front().expect("a read").tag]);
                continue;
            };
            let place: usize = place.parse().expect("a place");
            let len = kib.parse::<usize>().expect("a length") << 10;
            queue.push(place, QueuedRead { tag: owners.len(), len });
            owners.push(place);
        }
        while let Some(read) = queue.pop_front() {
            order.push(owners[read.tag]);
        }
        assert!(queue.is_empty() && queue.front().is_none(), "{steps}");
        let order: Vec<String> = order.iter().map(usize::to_string).collect();
        assert_eq!(order.join(" "), expected, "{steps}");
    }

    #[test]
    fn a_single_connection_has_its_reads_in_order() {
        check("1.4 1.40 1.4 1.100 1.4", "1 1 1 1 1");
    }

    #[test]
    fn connections_take_turns_by_bytes() {
        check("1.16 1.16 1.16 1.16 2.16 2.16 2.16 2.16", "1 1 2 2 1 1 2 2");
        // A long read is paid for by later turns.
        check("1.100 1.4 2.16 2.16 2.16 2.16 2.16 2.16 2.16 2.16", "1 2 2 2 2 2 2 1 2 2");
    }

    #[test]
    fn a_newcomer_does_not_wait_for_what_others_asked_for_before() {
        check("1.32 1.32 1.32 2.32 2.32 2.32 + + 3.4", "1 2 3 1 2 1 2");
        // But who comes back at once waits for the others.
        check("1.4 1.4 2.32 2.32 3.4 + + + + 3.4 3.4", "1 1 2 3 2 3 3");
    }

    #[test]
    fn what_is_taken_out_is_not_read() {
        let mut queue = FairQueue::default();
        for tag in 0..6 {
            queue.push(tag % 2, QueuedRead { tag, len: 4096 });
        }
        assert!(queue.remove(0, 0) && queue.remove(0, 2) && queue.remove(0, 4));
        assert!(!queue.remove(0, 4) && !queue.remove(1, 2) && !queue.remove(7, 1));
        let order: Vec<usize> = std::iter::from_fn(|| queue.pop_front()).map(|read| read.tag).collect();
        assert_eq!(order, [1, 3, 5]);
    }
}
