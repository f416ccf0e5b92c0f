//! Delays inside of flights: requests and replies that wait for their time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stdx::clock::Now;

use crate::slab::Id;

/// Requests that wait at a time, of one worker.
const DELAYED_MAX: usize = 65_536;

/// Bytes of the requests and replies that wait.
const DELAYED_BYTES_MAX: usize = 64 << 20;

/// What waits, by the time at which it goes on.
#[derive(Default)]
pub(crate) struct Delays {
    /// With the bytes that wait.
    heap: BinaryHeap<Reverse<(Now, Id, usize)>>,
    bytes: usize,
}

impl Delays {
    /// Whether another one may wait.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.heap.len() < DELAYED_MAX && self.bytes + bytes <= DELAYED_BYTES_MAX
    }

    /// Lets a frame wait.
    pub(crate) fn add(&mut self, until: Now, frame: Id, bytes: usize) {
        self.heap.push(Reverse((until, frame, bytes)));
        self.bytes += bytes;
    }

    /// When the first one goes on.
    pub(crate) fn next(&self) -> Option<Now> {
        self.heap.peek().map(|Reverse((until, ..))| *until)
    }

    /// Takes the first one whose time has come.
    pub(crate) fn take_due(&mut self, now: Now) -> Option<Id> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, frame, bytes)) = self.heap.pop()?;
        self.bytes -= bytes;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::IdSlab;

    #[test]
    fn what_waits_is_limited_and_taken_in_the_order_of_time() {
        let mut slab = IdSlab::default();
        let (mut delays, ids) = (Delays::default(), [(); 3].map(|()| slab.insert(())));
        for (ms, id) in [30, 10, 20].into_iter().zip(ids) {
            delays.add(Now::at_ms(ms), id, 1);
        }
        assert_eq!((delays.next(), delays.take_due(Now::at_ms(9))), (Some(Now::at_ms(10)), None));
        let due = [(); 3].map(|()| delays.take_due(Now::at_ms(25)));
        assert_eq!(due, [Some(ids[1]), Some(ids[2]), None]);
        assert!(!delays.has_room(DELAYED_BYTES_MAX));
        assert_eq!(delays.take_due(Now::at_ms(30)), Some(ids[0]));
        assert!(delays.has_room(DELAYED_BYTES_MAX));
        (0..DELAYED_MAX).for_each(|_| delays.add(Now::at_ms(1), ids[0], 0));
        assert!(!delays.has_room(0));
    }
}
