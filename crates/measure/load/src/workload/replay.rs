//! A worker's part of a trace: the next request and its time.

use crate::types::clock::now_ns;
use crate::workload::trace::TraceRecord;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

/// Requests in the order of their time. The loop first gets the time of one, and takes it when a connection has room.
#[derive(Debug)]
pub(crate) struct Replay {
    rounds: Receiver<Vec<TraceRecord>>,
    queue: VecDeque<TraceRecord>,
    /// The first of the queue, whose time has been passed over.
    due: usize,
}

/// The time of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextDue {
    /// Since the start, in nanoseconds.
    At(u64),
    /// The reader has not come to it yet.
    Unread,
    /// There is none.
    End,
}

impl Replay {
    pub(crate) fn new(rounds: Receiver<Vec<TraceRecord>>) -> Replay {
        Replay { rounds, queue: VecDeque::new(), due: 0 }
    }

    /// Waits until the reader has the first request.
    pub(crate) fn prepare(&mut self) {
        // An error is the end of the trace, which `next` will meet too.
        if let Ok(round) = self.rounds.recv() {
            self.queue.extend(round);
        }
    }

    /// When the next request is due.
    pub(crate) fn next(&mut self) -> NextDue {
        while self.due == self.queue.len() {
            match self.rounds.try_recv() {
                Ok(round) => self.queue.extend(round),
                Err(TryRecvError::Empty) => return NextDue::Unread,
                Err(TryRecvError::Disconnected) => return NextDue::End,
            }
        }
        NextDue::At(self.queue[self.due].at_ns)
    }

    /// Passes over the time of the next request.
    pub(crate) fn advance(&mut self) {
        self.due += 1;
    }

    /// The first request that is due.
    pub(crate) fn take(&mut self) -> Option<TraceRecord> {
        self.due = self.due.checked_sub(1)?;
        self.queue.pop_front()
    }

    /// Passes the times of requests before a time that were never due. The reader still has most of them, if the load is
    /// far behind: they are counted for as long as `patience`.
    pub(crate) fn left(&mut self, before_ns: u64, patience: Duration, mut each: impl FnMut(u64)) {
        let end_ns = now_ns().saturating_add(patience.as_nanos() as u64);
        let is_before = |record: &&TraceRecord| record.at_ns < before_ns;
        let mut count = |record: &TraceRecord| each(record.at_ns);
        let mut round_len = self.queue.len() - self.due;
        let mut in_round = 0;
        for record in self.queue.iter().skip(self.due).take_while(is_before) {
            in_round += 1;
            count(record);
        }
        while in_round == round_len {
            let rest = Duration::from_nanos(end_ns.saturating_sub(now_ns()));
            // Either the trace ends here or the reader is too slow: there is no more to count.
            let Ok(round) = self.rounds.recv_timeout(rest) else { break };
            (round_len, in_round) = (round.len(), 0);
            for record in round.iter().take_while(is_before) {
                in_round += 1;
                count(record);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::mix::Command;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn what_the_reader_still_has_is_left() {
        let (sender, rounds) = sync_channel(1);
        let mut replay = Replay::new(rounds);
        let round = |range: std::ops::Range<u64>| -> Vec<TraceRecord> {
            let record = |at_ns| TraceRecord {
                at_ns,
                command: Command::Get,
                key: [b'a'].into(),
                value_len: 0,
                ttl: 0,
            };
            range.map(record).collect()
        };
        let reader = std::thread::spawn(move || {
            // A worker without requests for its keys at the moment gets empty rounds.
            for range in [0..10, 10..10, 10..20, 20..30, 30..40, 40..50] {
                if sender.send(round(range)).is_err() {
                    return;
                }
            }
        });
        replay.prepare();
        for at_ns in 0..3 {
            assert_eq!(replay.next(), NextDue::At(at_ns));
            replay.advance();
        }
        let left = |replay: &mut Replay, before_ns| {
            let mut times = Vec::new();
            replay.left(before_ns, Duration::MAX, |at_ns| times.push(at_ns));
            times
        };
        assert_eq!(left(&mut replay, 5), [3, 4]);
        assert_eq!(left(&mut replay, 25), (3..25).collect::<Vec<_>>());
        // Of the round 20..30, five are beyond; after it come two.
        assert_eq!(replay.rounds.iter().map(|round| round.len()).sum::<usize>(), 20);
        reader.join().expect("no panic");
        assert_eq!(left(&mut replay, u64::MAX), (3..10).collect::<Vec<_>>());
    }
}
