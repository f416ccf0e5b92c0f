//! Times of upkeep: when to look for connections that nobody uses, and when to sum up lines that were left out.

use stdx::clock::Now;

use super::place_timers::earliest;

/// Times of a worker's upkeep; `None` for nothing to do.
#[derive(Default)]
pub(super) struct Upkeep {
    /// When to look for connections that were not used.
    idle_at: Option<Now>,
    /// When to say what was left out.
    sum_up_at: Option<Now>,
}

impl Upkeep {
    /// The next of these times.
    #[inline]
    pub(super) fn next(&self) -> Option<Now> {
        earliest([self.idle_at, self.sum_up_at])
    }

    /// Lines are left out that are to be summed up then.
    pub(super) fn sum_up_at(&mut self, at: Now) {
        self.sum_up_at = Some(at);
    }

    /// Connections that were not used are to be looked for then, unless that is due earlier.
    pub(super) fn look_at(&mut self, at: Now) {
        self.idle_at.get_or_insert(at);
    }

    /// Whether it is time to sum up. That is done then.
    pub(super) fn sums_up(&mut self, now: Now) -> bool {
        self.sum_up_at.take_if(|at| *at <= now).is_some()
    }

    /// Whether it is time to look for such connections. That is done then.
    pub(super) fn looks(&mut self, now: Now) -> bool {
        self.idle_at.take_if(|at| *at <= now).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_done_once() {
        let mut upkeep = Upkeep::default();
        upkeep.look_at(Now::at_ms(20));
        upkeep.look_at(Now::at_ms(30));
        upkeep.sum_up_at(Now::at_ms(10));
        assert_eq!((upkeep.next(), upkeep.looks(Now::at_ms(10))), (Some(Now::at_ms(10)), false));
        assert!(upkeep.sums_up(Now::at_ms(10)) && !upkeep.sums_up(Now::at_ms(10)));
        assert!(upkeep.looks(Now::at_ms(20)) && upkeep.next().is_none());
    }
}
