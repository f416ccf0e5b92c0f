//! Pace of an open loop: the source of due times, and how threads wait for them.

use crate::types::arrivals::Arrivals;
use crate::types::description::Description;
use crate::types::span::Span;
use std::time::Duration;

/// When the requests of an open loop are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenLoopPace {
    pub(crate) timing: Timing,
    pub(crate) sleep: Sleep,
}

/// How an open loop waits for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Awake for as long before it is due as it takes to wake up, unless that is most of the time.
    Learned,
    /// Awake for this long before it is due, and after one was sent.
    Spin(Duration),
    /// A request waits this long for others: they are sent together, and replies that have come meanwhile are read.
    Slot(Duration),
}

impl Sleep {
    pub(crate) fn of(run: &Description) -> Sleep {
        match (run.spin, run.slot) {
            (_, Some(Span(slot))) => Sleep::Slot(slot),
            (Some(Span(spin)), None) => Sleep::Spin(spin),
            (None, None) => Sleep::Learned,
        }
    }

    /// Whether a thread stays awake because the flags ask for it.
    pub(crate) fn is_spin(self) -> bool {
        matches!(self, Sleep::Spin(spin) if !spin.is_zero())
    }

    /// How long a request waits for others, 0 if it does not.
    pub(crate) fn slot_ns(self) -> u64 {
        if let Sleep::Slot(slot) = self { slot.as_nanos() as u64 } else { 0 }
    }

    /// The same without slots: connections that send little have nothing to wait for.
    pub(crate) fn alone(self) -> Sleep {
        if let Sleep::Slot(_) = self { Sleep::Learned } else { self }
    }
}

/// The source of due times.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timing {
    /// Requests per second of all threads of all machines together, and their distribution.
    Law(f64, Arrivals),
    /// The plan's trace.
    Trace,
}
