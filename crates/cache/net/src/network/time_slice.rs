//! Time slices of workers: shorter than the kernel's, and ended when they are over.
//!
//! Two workers that share a CPU with always something to do change places when the first one's slice is over. The
//! kernel notices that when its clock ticks (every 1 to 10 ms) or when another thread wakes up on that CPU, and until
//! then the clients of the waiting worker get nothing. So a worker has short slices, and makes the kernel look: reading
//! a thread's CPU time brings its account up to date, which ends a slice that is over if another thread waits. On a CPU
//! of its own a worker loses nothing but the time of that system call.
//!
//! sched_yield(2) would do that, too, but it gives up the rest of the slice, so that a worker beside a busy thread of
//! another program gets less than its share. Measurements: decision 31.

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use stdx::clock::Now;

/// Length of a slice, and time between two looks. About 70 requests of 4 µs: what two workers on a CPU wait for each
/// other is little more than a round. With 1 ms the 99th percentile of a crowded host is 0.5 ms higher.
const SLICE_US: u64 = 300;

/// Events between two looks at least. A look takes 0.6 µs; with few events a worker mostly sleeps, which ends its
/// slice, too.
const EVENTS_MIN: usize = 32;

/// The slices of the calling thread.
pub(crate) struct TimeSlice {
    looked: Now,
    events: usize,
    length_us: u64,
}

impl TimeSlice {
    /// Asks for short slices. Where the kernel refuses them, slices are as they were and nothing looks.
    pub(crate) fn begin() -> (TimeSlice, Result<(), Errno>) {
        let outcome = os::scheduling::shorten_slice(SLICE_US * 1000);
        let outcome = outcome.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::INVAL));
        let length_us = if outcome.is_ok() { SLICE_US } else { u64::MAX };
        (TimeSlice { looked: Now::default(), events: 0, length_us }, outcome)
    }

    /// Lets others run if this thread's slice is over: after every round, which began `now` with so many events.
    #[inline]
    pub(crate) fn end_if_over(&mut self, events: usize, now: Now) {
        // A round without events goes on with requests that an earlier one has left.
        self.events += events.max(1);
        if self.events >= EVENTS_MIN && now.us.saturating_sub(self.looked.us) >= self.length_us {
            (self.events, self.looked) = (0, now);
            // The time does not matter.
            let _consumed = clock_gettime(ClockId::ThreadCPUTime);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::clock::Clock;

    /// CPU time of each of two threads.
    const WORK_US: u64 = 500_000;

    /// A kernel with the fastest tick, 1 ms, lets threads change places `WORK_US / 1000` times. Slices of 0.3 ms end
    /// about three times as often.
    const SWITCHES_MIN: u64 = WORK_US / 1000 * 3 / 2;

    /// Time between the rounds of a busy worker.
    const ROUND_US: u64 = 50;

    /// How often the calling thread had to leave the CPU to another one.
    fn preemptions() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").expect("a file of every thread");
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).expect("a count in it")
    }

    /// Works without a pause, in rounds, and returns how often another thread came between; `None` where the kernel
    /// has no slices for threads.
    fn work() -> Option<u64> {
        let clock = Clock::start();
        let (mut slice, outcome) = TimeSlice::begin();
        match outcome {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM) => return None,
            Err(error) => panic!("slices are refused: {error}"),
        }
        let (before, began) = (preemptions(), clock.now());
        let mut round = began;
        // Half of the time of both together is this thread's.
        while round.us - began.us < 2 * WORK_US {
            let now = clock.now();
            if now.us - round.us >= ROUND_US {
                round = now;
                slice.end_if_over(64, now);
            }
        }
        Some(preemptions() - before)
    }

    #[test]
    fn two_busy_threads_on_one_cpu_change_places_more_often_than_ticks_make_them() {
        let cpus = sched_getaffinity(None).expect("affinity can be read");
        let cpu = (0..CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).expect("a thread has a CPU");
        let both = Arc::new(Barrier::new(2));
        let start = || {
            let both = Arc::clone(&both);
            std::thread::spawn(move || {
                let mut one = CpuSet::new();
                one.set(cpu);
                sched_setaffinity(None, &one).expect("it is one of ours");
                both.wait();
                work()
            })
        };
        let threads = [start(), start()];
        let switches = threads.map(|thread| thread.join().expect("no panic"));
        match switches {
            [Some(first), Some(second)] => assert!(first + second >= SWITCHES_MIN, "{first} + {second}"),
            _ => eprintln!("the kernel gives threads no slices"),
        }
    }

    #[test]
    fn a_worker_with_few_events_does_not_look() {
        let (mut slice, _) = TimeSlice::begin();
        slice.length_us = SLICE_US;
        for round in 1..EVENTS_MIN as u64 {
            slice.end_if_over(1, Now { us: round * SLICE_US });
            assert_eq!(slice.looked, Now::default(), "{round}");
        }
        let later = Now { us: 100 * SLICE_US };
        slice.end_if_over(1, later);
        assert_eq!((slice.looked, slice.events), (later, 0));
        slice.end_if_over(64, Now { us: later.us + SLICE_US - 1 });
        assert_eq!(slice.looked, later);
    }
}
