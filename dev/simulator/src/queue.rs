//! The event queue of a simulation: events in the order of their time, and of equal times in the order of their arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events to come.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(u64, u64, E)>>,
    count: u64,
}

impl<E: Ord> EventQueue<E> {
    pub(crate) fn new() -> EventQueue<E> {
        EventQueue { heap: BinaryHeap::new(), count: 0 }
    }

    /// Adds an event at a time in milliseconds.
    pub(crate) fn push(&mut self, at_ms: u64, event: E) {
        self.count += 1;
        self.heap.push(Reverse((at_ms, self.count, event)));
    }

    /// Takes the next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse((at_ms, _, event))| (at_ms, event))
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_arrival() {
        let mut queue = EventQueue::new();
        for (at_ms, event) in [(5, 'z'), (1, 'b'), (5, 'a'), (1, 'c')] {
            queue.push(at_ms, event);
        }
        assert_eq!(queue.len(), 4);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(1, 'b'), (1, 'c'), (5, 'z'), (5, 'a')]);
    }
}
