//! Replies of servers, read one by one.

use std::sync::Arc;

use net::Turn;

use super::Servers;
use super::counting::{Asked, asked};
use crate::servers::destination::{Delivery, Malformed, Read};
use crate::servers::health::HealthRecovery;
use crate::shared::notices::NoticeKind;
use crate::worker::hot::{HotValues, NotedReply};

/// The next of what a server has sent.
pub(crate) enum ReadStep<'a> {
    /// More bytes are needed.
    Incomplete,
    /// Nothing that is to be handed over. There may be more.
    Nothing,
    /// A reply, and to what.
    Reply(Asked, Delivery<'a>),
}

impl Servers {
    /// A server has sent something.
    #[inline]
    pub(crate) fn note_answer(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        self.destinations[place as usize].connection.note_answer(turn);
    }

    /// Reads what comes next of `input` behind the bytes that are consumed. A line that is not forwarded as it was received is
    /// written to `scratch`.
    #[inline]
    pub(crate) fn read<'a>(
        &mut self,
        place: u32,
        input: &'a [u8],
        consumed: &mut usize,
        scratch: &'a mut Vec<u8>,
        hot: &mut HotValues,
    ) -> Result<ReadStep<'a>, Malformed> {
        let destination = &mut self.destinations[place as usize];
        let asked = asked(destination);
        let noted = hot.noted(destination);
        if destination.queue.is_receiving() {
            return self.read_large(place, input, consumed, (asked, noted), hot);
        }
        if *consumed == input.len() {
            return Ok(ReadStep::Incomplete);
        }
        match destination.queue.read(&input[*consumed..], scratch)? {
            Read::Incomplete => Ok(ReadStep::Incomplete),
            Read::Nothing { consumed: more } => {
                *consumed += more;
                Ok(ReadStep::Nothing)
            }
            Read::Deliver { consumed: more, delivery } => {
                *consumed += more;
                destination.health.answered();
                if let Some(noted) = noted {
                    hot.follow_reply(destination, noted, &delivery, self.now);
                }
                if delivery.operation.is_none() {
                    self.probed(place);
                    return Ok(ReadStep::Nothing);
                }
                Ok(ReadStep::Reply(asked, delivery))
            }
        }
    }

    /// The same of a large reply that is being received.
    fn read_large<'a>(
        &mut self,
        place: u32,
        input: &[u8],
        consumed: &mut usize,
        (asked, noted): (Asked, Option<NotedReply>),
        hot: &mut HotValues,
    ) -> Result<ReadStep<'a>, Malformed> {
        let destination = &mut self.destinations[place as usize];
        let (taken, is_progress) = destination.queue.fill_large(&input[*consumed..], self.now);
        *consumed += taken;
        self.arrived += taken;
        if is_progress {
            destination.health.delivers(self.now);
        }
        if !destination.queue.is_large_whole() {
            return Ok(ReadStep::Incomplete);
        }
        destination.health.answered();
        let delivery = destination.queue.finish_large()?;
        if let Some(noted) = noted {
            hot.follow_reply(destination, noted, &delivery, self.now);
        }
        Ok(ReadStep::Reply(asked, delivery))
    }

    /// Counts a reply.
    #[inline]
    pub(crate) fn count_reply(&self, place: u32, asked: Asked, delivery: &Delivery<'_>, is_failover: bool) {
        self.counts.reply(&self.destinations[place as usize], asked, delivery, is_failover, self.now);
    }

    /// The key of a delivery with a route that is to be asked for it, as its client wrote it. It is put back by
    /// [`Servers::keep_failed_key`].
    pub(crate) fn take_failed_key(&mut self, place: u32) -> Vec<u8> {
        self.destinations[place as usize].queue.take_failed_key()
    }

    /// Keeps the memory of such a key.
    pub(crate) fn keep_failed_key(&mut self, place: u32, key: Vec<u8>) {
        self.destinations[place as usize].queue.keep_failed_key(key);
    }

    /// The server has answered a probe.
    fn probed(&mut self, place: u32) {
        let destination = &mut self.destinations[place as usize];
        destination.probe_interval_ms = None;
        let recovered = self.shared.recovered(&destination.health, self.now);
        let Some((HealthRecovery { after_us, closed }, count)) = recovered else { return };
        let spec = Arc::clone(&destination.spec);
        self.say(NoticeKind::Available, || {
            let after_s = after_us / 1_000_000;
            format!("server {} is available again after {after_s} s; unavailable now: {count}", spec.name)
        });
        if let Some(guard) = closed {
            self.say(NoticeKind::Other, || {
                format!("pool {}: servers that fail become unavailable again (tko_tracker)", guard.pool)
            });
        }
    }

    /// What a server sent is no reply to what it was asked.
    pub(crate) fn note_malformed(&mut self, place: u32, malformed: &Malformed, effect: &str) {
        let spec = Arc::clone(&self.destinations[place as usize].spec);
        self.say(NoticeKind::Other, || {
            let Malformed { found, expected } = malformed;
            format!("{} sent \"{found}\", expected {expected}: {effect}", spec.name)
        });
    }
}
