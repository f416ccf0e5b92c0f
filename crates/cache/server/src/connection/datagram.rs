//! Requests in datagrams (UDP): each datagram is served at once and as a whole, and answered in datagrams.
//!
//! A sender's address can be forged, so a reply may reach somebody who has asked for nothing. Three rules follow:
//! only senders in [`crate::settings::options::UdpLimits::allow`] are served; the bytes of replies to a network are bounded
//! ([`reply_limit::ReplyLimit`]); and a line that is no command is not answered, so that two servers whose replies reach
//! each other never go on (no reply begins with a command, and one in packets has a first byte that no request has).

use std::net::IpAddr;

use net::{ConnectionId, Datagram, DatagramPeer, Turn};
use protocol::binary::{self, BinaryParsed, REPLY_MAGIC, REQUEST_MAGIC};
use protocol::reply::line;
use protocol::request::Refused;
use protocol::udp::{self, Frame};
use protocol::{Parsed, Request, parse};

use crate::commands::join;
use crate::commands::remaining::Remaining;
use crate::commands::request::{Body, body_len, text_key};
use crate::connection::output::{Held, Output};
use crate::reports::Report;
use crate::settings::options::Protocol;
use crate::worker::Worker;

mod packets;
pub(crate) mod reply_limit;

/// Bytes of a reply datagram after its frame, as in memcached: with headers it fits into an Ethernet frame.
const PAYLOAD_MAX: usize = 1400 - udp::HEAD_LEN;

/// Bytes of a reply, which must be smaller than what a worker sends in a round: a value of 1 MiB and its head.
const REPLY_MAX: usize = (1 << 20) + 1024;

/// The output of a datagram keeps at most this much memory for the next one.
const CAPACITY_KEPT_MAX: usize = 64 * 1024;

/// The reply instead of a longer one.
const TOO_LONG: &[u8] = b"SERVER_ERROR reply is too long for UDP\r\n";
/// The reply to a join that would copy a large value at once.
const JOIN_TOO_LARGE: &[u8] = b"SERVER_ERROR value is too large to be joined over UDP\r\n";
/// The reply to commands that need a connection.
const NEEDS_CONNECTION: &[u8] = b"SERVER_ERROR not available over UDP\r\n";

/// The way to go on after a request.
enum Flow {
    /// The next request of the datagram starts here.
    Go(usize),
    /// The rest of the datagram is ignored.
    End,
}

impl Worker {
    /// Serves the requests of a datagram, and replies if they ask for replies.
    pub(crate) fn serve_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Held>) {
        let DatagramPeer::Client { listener, address } = datagram.from else { return };
        if !self.shared.options.udp.allows(address.ip()) {
            self.counters.udp_refused.add(1);
            return;
        }
        let protocol = self.shared.protocol_at(listener);
        let served = whole_request(datagram.bytes).filter(|(_, requests)| speaks(protocol, requests));
        let Some((id, requests)) = served else {
            self.counters.udp_malformed.add(1);
            return;
        };
        self.counters.udp_requests.add(1);
        // The first one of those that arrived together prefetches the items for the keys of all.
        self.fetch_items();
        let fd = self.shared.listeners.get(usize::from(listener)).map_or(-1, |(fd, _)| *fd);
        let mut output = std::mem::take(&mut self.datagram_output);
        match is_packet(requests) {
            true => self.serve_packets(requests, fd, &mut output),
            false => self.serve_requests(requests, fd, &mut output),
        }
        if !output.is_empty() {
            self.reply(datagram.from, address.ip(), id, &output, turn);
        }
        if output.capacity() <= CAPACITY_KEPT_MAX {
            output.clear();
            self.datagram_output = output;
        }
    }

    /// Sends a reply, unless there is a limit for its network.
    fn reply(&mut self, to: DatagramPeer, address: IpAddr, id: u16, output: &Output, turn: &mut Turn<Held>) {
        let bytes = output.len() + output.len().div_ceil(PAYLOAD_MAX) * udp::HEAD_LEN;
        if !self.shared.reply_limit.take(address, self.now.second(), bytes as u64) {
            self.counters.udp_limited.add(1);
            return;
        }
        match output.single() {
            Some(reply) => send(to, id, reply, turn),
            // A large value is copied only if it is sent.
            None if bytes > turn.datagram_room() => self.counters.udp_dropped.add(1),
            None => send(to, id, &output.to_vec(), turn),
        }
    }

    /// Prefetches the index bucket of the first request's key, while other datagrams are examined.
    pub(crate) fn prefetch_request(&mut self, datagram: &Datagram<'_>) {
        if let Some((_, requests)) = whole_request(datagram.bytes)
            && let Some(key) = first_key(requests)
        {
            self.fetching.push(self.store.prefetch(&self.store.key(key)));
        }
    }

    fn serve_requests(&mut self, datagram: &[u8], fd: i32, output: &mut Output) {
        let mut at = 0;
        while at < datagram.len() {
            let flow = self.serve_request(&datagram[at..], fd, output);
            if output.len() > REPLY_MAX {
                *output = Output::default();
                return output.copy(TOO_LONG);
            }
            match flow {
                Flow::Go(consumed) => at = at.saturating_add(consumed),
                Flow::End => return,
            }
        }
    }

    /// Serves the request that `input` starts with.
    fn serve_request(&mut self, input: &[u8], fd: i32, output: &mut Output) -> Flow {
        let Parsed::Head { request, consumed } = parse(input) else { return Flow::End };
        let end = consumed + body_len(&request);
        let Some(body) = input.get(consumed..end) else {
            output.copy(line::BAD_DATA_CHUNK);
            return Flow::End;
        };
        match &request {
            Request::Refused(Refused { reply, .. }) if *reply == line::ERROR => return Flow::End,
            // A short question with a long answer; clients with auto-discovery use TCP.
            Request::Discover => return Flow::End,
            Request::Watch { .. } => {
                output.copy(NEEDS_CONNECTION);
                return Flow::End;
            }
            _ => {}
        }
        if let Some(condition) = join::condition(&request)
            && self.begin_join(&request, condition, &input[..consumed], Body::Bytes(body)).is_ok()
        {
            // Each attempt costs as much as many requests: one in a datagram.
            output.copy(JOIN_TOO_LARGE);
            return Flow::End;
        }
        let key = text_key(&request).map(|key| self.store.key(key));
        let before = output.copied().len();
        match self.execute(ConnectionId::NONE, fd, &request, key, Body::Bytes(body), output) {
            None => Flow::Go(end),
            Some(Remaining::Refused(swallowed)) => Flow::Go(end.saturating_add(swallowed)),
            Some(Remaining::Keys { mut rest, unread }) => {
                let line_end = if input[..end].ends_with(b"\r\n") { 2 } else { 1 };
                let mut keys = &input[end - unread - line_end..end];
                while !keys.is_empty() && output.len() <= REPLY_MAX {
                    let mut more = Output::default();
                    let (served, _) = rest.serve(self, keys, fd, &mut more);
                    keys = &keys[served..];
                    output.append(more);
                }
                Flow::Go(end)
            }
            Some(Remaining::Report(report)) => {
                if matches!(*report, Report::Statistics(..)) {
                    return if self.serve_report(*report, output) { Flow::Go(end) } else { Flow::End };
                }
                // The first line of a dump was written already.
                output.copied().truncate(before);
                output.copy(NEEDS_CONNECTION);
                Flow::Go(end)
            }
            Some(Remaining::Close(_) | Remaining::Leave { .. } | Remaining::Join(_) | Remaining::Watch) => {
                Flow::End
            }
        }
    }

    /// Replies with statistics that take one step. False if another report has been served in this turn: then the
    /// request counts as lost, and the client asks again.
    fn serve_report(&mut self, mut report: Report, output: &mut Output) -> bool {
        let is_free = self.steps.take_if_free();
        if is_free {
            let _done = report.serve(self, ConnectionId::NONE.0, output);
        }
        is_free
    }
}

/// Whether the requests of a datagram are those of the binary protocol: its first byte decides, as in memcached.
#[inline]
fn is_packet(requests: &[u8]) -> bool {
    requests.first() == Some(&REQUEST_MAGIC)
}

/// Whether requests are of the protocol that is spoken.
#[inline]
fn speaks(protocol: Protocol, requests: &[u8]) -> bool {
    match protocol {
        Protocol::Auto => true,
        Protocol::Ascii => !is_packet(requests),
        Protocol::Binary => is_packet(requests),
    }
}

/// The key of the first request of a datagram.
#[inline]
fn first_key(requests: &[u8]) -> Option<&[u8]> {
    if is_packet(requests) {
        let BinaryParsed::Head { request, .. } = binary::parse(requests) else { return None };
        return request.key();
    }
    let Parsed::Head { request, .. } = parse(requests) else { return None };
    text_key(&request)
}

/// The number of a request and its content. `None` if it is not one, or only a part of one, which memcached drops, too; or
/// if it is a reply in packets, of whose bytes a line feed could make lines.
fn whole_request(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (frame, content) = Frame::read(datagram)?;
    let is_request = content.first().is_some_and(|&first| first != REPLY_MAGIC);
    ((frame.sequence, frame.total) == (0, 1) && is_request).then_some((frame.id, content))
}

/// Sends a reply in as many datagrams as it needs, all or none of them.
fn send(to: DatagramPeer, id: u16, reply: &[u8], turn: &mut Turn<Held>) {
    let total = reply.len().div_ceil(PAYLOAD_MAX) as u16;
    let frame = |sequence| Frame { id, sequence, total }.to_bytes();
    turn.send_datagrams(to, reply, PAYLOAD_MAX, |number| frame(number as u16));
}
