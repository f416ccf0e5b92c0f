//! Events of servers: replies, connections that begin and end, time limits.

use std::fmt::Display;
use std::sync::Arc;

use net::{CloseReason, Datagram, Next, Progress, Turn, Unreachable};

use super::RouteWorker;
use super::servers::ReadStep;
use crate::flight::FlightReply;
use crate::message::operation::Operation;
use crate::message::outcome::Outcome;
use crate::servers::destination::{Delivery, FailedExchange, Malformed, ReplyKind, ReplyTarget};
use crate::servers::udp::{UdpNews, UdpRequest};

impl RouteWorker {
    /// Reads what a server sent.
    pub(super) fn on_replies(&mut self, place: u32, input: &[u8], turn: &mut Turn<Arc<[u8]>>) -> Progress {
        let mut consumed = 0;
        self.servers.note_answer(place, turn);
        match self.read_replies(place, input, &mut consumed, turn) {
            Ok(()) => Progress { consumed, next: Next::Read },
            Err(malformed) => {
                self.servers.note_malformed(place, &malformed, "its connection is closed");
                Progress { consumed, next: Next::Close(CloseReason::Error) }
            }
        }
    }

    fn read_replies(
        &mut self,
        place: u32,
        input: &[u8],
        consumed: &mut usize,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Result<(), Malformed> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = loop {
            match self.servers.read(place, input, consumed, &mut scratch, &mut self.hot) {
                Err(malformed) => break Err(malformed),
                Ok(ReadStep::Incomplete) => break Ok(()),
                Ok(ReadStep::Nothing) => {}
                Ok(ReadStep::Reply(asked, delivery)) => {
                    let is_failover = self.flights.is_failover(delivery.target);
                    self.servers.count_reply(place, asked, &delivery, is_failover);
                    self.deliver_read(place, delivery, turn);
                }
            }
        };
        self.scratch = scratch;
        result
    }

    /// Hands over a reply that was read: an error of a get through a FailoverRoute without a flight is one of the flight's.
    #[inline]
    fn deliver_read(&mut self, place: u32, delivery: Delivery<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let (Some(late), Some(operation)) = (delivery.late_failover, delivery.operation) else {
            return self.deliver(delivery, turn);
        };
        let Delivery { target, outcome, answer, .. } = delivery;
        let key = self.servers.take_failed_key(place);
        self.fail_over(late, operation, &key, target, FlightReply { outcome, answer }, turn);
        self.servers.keep_failed_key(place, key);
    }

    /// A dial has failed.
    pub(super) fn unreachable(&mut self, place: u32, why: Unreachable, turn: &mut Turn<Arc<[u8]>>) {
        if let Some(outcome) = self.servers.unreachable(place, why, turn) {
            self.lose(place, outcome, Some(&why), turn);
        }
    }

    /// A connection has ended.
    pub(super) fn disconnected(&mut self, place: u32, turn: &mut Turn<Arc<[u8]>>) {
        let (outcome, is_unused) = self.servers.disconnected(place);
        self.lose(place, outcome, None, turn);
        if is_unused {
            // This side has closed it.
            self.servers.set_closed(place);
        }
    }

    /// The requests of a destination without a connection fail.
    pub(super) fn lose(
        &mut self,
        place: u32,
        outcome: Outcome,
        why: Option<&dyn Display>,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        for failed in self.servers.lose(place, outcome, why, &mut self.hot) {
            self.end_failed(place, failed, outcome, turn);
        }
    }

    /// Ends requests that have waited too long.
    pub(super) fn expire(&mut self, turn: &mut Turn<Arc<[u8]>>) {
        while let Some((place, failed)) = self.servers.take_expired(&mut self.hot, turn) {
            self.end_failed(place, failed, Outcome::Timeout, turn);
        }
        while let Some((place, request)) = self.servers.take_lost() {
            self.miss(place, &request, Outcome::Timeout, turn);
        }
    }

    fn end_failed(
        &mut self,
        place: u32,
        failed: FailedExchange,
        outcome: Outcome,
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let is_failover = self.flights.is_failover(failed.target);
        self.servers.count_failed(place, &failed, outcome, is_failover);
        self.fail(failed, outcome, turn);
    }

    /// A datagram has come.
    pub(super) fn take_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let Some((place, news)) = self.servers.take_datagram(datagram) else { return };
        match news {
            UdpNews::None => {}
            UdpNews::Whole(request) => self.read_datagrams(place, &request, turn),
            UdpNews::TooLong(request) => self.miss(place, &request, Outcome::RemoteError, turn),
        }
    }

    /// Reads a reply as if it had come over a connection with this one request.
    fn read_datagrams(&mut self, place: u32, request: &UdpRequest, turn: &mut Turn<Arc<[u8]>>) {
        let reader = self.servers.reader_for(place, request);
        let mut consumed = 0;
        if let Err(malformed) = self.read_replies(reader, &request.text, &mut consumed, turn) {
            self.servers.note_malformed(reader, &malformed, "the key is a miss");
        }
        // Without an answer the key is lost.
        if self.servers.end_reading(reader) {
            self.miss(place, request, Outcome::RemoteError, turn);
        }
    }

    /// A key is lost: as if there were no item. For statistics it has failed.
    fn miss(&mut self, place: u32, request: &UdpRequest, outcome: Outcome, turn: &mut Turn<Arc<[u8]>>) {
        let is_failover = self.flights.is_failover(request.target);
        self.servers.count_lost(place, request, outcome, is_failover);
        let target = match request.target {
            ReplyTarget::Values(client, slot) => ReplyTarget::Part(client, slot, request.part),
            target => target,
        };
        let reply = FlightReply::without_server(None, Operation::Get, ReplyKind::Values);
        self.deliver_whole(target, Operation::Get, reply, turn);
    }
}
