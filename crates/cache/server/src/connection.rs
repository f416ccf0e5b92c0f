//! Connections: their states, and their reaction to input.

use net::{Activity, Address, CloseReason, ConnectionId, Link, Next, Opened, Progress};
use protocol::binary::{self, BinaryParsed, ReplyStatus, ReplyTo};
use protocol::reply::line;
use protocol::request::{Unfinished, unfinished};
use protocol::{Parsed, Request, parse};
use store::Key;
use tls::Role;

use crate::commands::binary::Sasl;
use crate::commands::join::{self, Joining};
use crate::commands::remaining::Remaining;
use crate::commands::request::{Body, body_len, text_key};
use crate::commands::retrieve::RestOfKeys;
use crate::connection::dialect::Dialect;
use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output, say};
use crate::connection::plan::{Tail, plan};
use crate::connection::upload::Upload;
use crate::reports::Report;
use crate::settings::options::Protocol;
use crate::settings::rights::{Rights, is_silent, needed};
use crate::worker::{BATCH, Worker};

pub(crate) mod datagram;
pub(crate) mod dialect;
mod flash_waits;
pub(crate) mod flow;
pub(crate) mod login;
pub(crate) mod output;
mod packed;
mod packets;
pub(crate) mod plan;
pub(crate) mod upload;

/// The connection of a client.
pub struct Connection {
    id: ConnectionId,
    link: Link,
    fd: i32,
    client: Address,
    dialect: Dialect,
    /// How far it has authenticated itself in the binary protocol.
    sasl: Sasl,
    /// What its client may do: everything, unless `rights` restricts it.
    role: Role,
    /// The client's name and role, if it has come by TLS and has one.
    rights: Option<Box<Rights>>,
    state: State,
}

/// The state of a connection, by what it expects next.
enum State {
    /// The first byte, which distinguishes the binary protocol from text.
    Start { login: bool, protocol: Protocol },
    /// A login: nothing else is accepted before.
    Login,
    /// A command.
    Commands,
    /// A request of the binary protocol.
    Packets,
    /// The remaining bytes of the head of a refused packet; then the error is sent, and the connection closes.
    Leave { left: u32, to: ReplyTo, status: ReplyStatus },
    /// The keys of a `get` that has been served in part.
    Keys(Box<RestOfKeys>),
    /// The body of a storage command.
    Body(Box<Upload>),
    /// No input until a large value is joined.
    Join(Box<Joining>),
    /// The remaining bytes of a refused request.
    Swallow(usize),
    /// No input until a report is complete.
    Report(Box<Report>),
    /// No input: log lines are sent.
    Watch,
}

impl Connection {
    pub(crate) fn new(opened: &Opened, must_log_in: bool, protocol: Protocol) -> Connection {
        let identity = opened.security.as_ref().and_then(|security| security.identity.clone());
        let rights = identity.map(|identity| Box::new(Rights::of(identity)));
        Connection {
            id: opened.id,
            link: opened.link,
            fd: opened.fd,
            client: opened.peer.clone(),
            dialect: Dialect::Text,
            sasl: Sasl::Open,
            role: rights.as_ref().map_or(Role::Admin, |rights| rights.role()),
            rights,
            state: State::Start { login: must_log_in, protocol },
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.0
    }

    pub(crate) fn link(&self) -> Link {
        self.link
    }

    pub(crate) fn fd(&self) -> i32 {
        self.fd
    }

    /// The client's name, if it has one.
    pub(crate) fn identity(&self) -> Option<&str> {
        self.rights.as_ref().map(|rights| rights.name())
    }

    /// Whether a request that needs this role is refused; then it counts.
    #[inline]
    fn refuses(&mut self, worker: &Worker, needed: impl FnOnce() -> Role) -> bool {
        self.role < Role::Admin && self.lacks(worker, needed())
    }

    fn lacks(&mut self, worker: &Worker, needed: Role) -> bool {
        if needed <= self.role {
            return false;
        }
        if let Some(rights) = &mut self.rights {
            rights.count_refusal(&worker.shared.refusals);
        }
        true
    }

    /// Address of the client.
    pub(crate) fn client(&self) -> &Address {
        &self.client
    }

    /// The current activity, for `stats conns` and the idle timeout.
    pub(crate) fn activity(&self) -> Activity {
        match self.state {
            State::Body(_) | State::Join(_) => Activity::Body,
            State::Swallow(_) | State::Leave { .. } => Activity::Swallowing,
            State::Watch => Activity::Watching,
            _ => Activity::Reading,
        }
    }

    pub(crate) fn watches(&self) -> bool {
        matches!(self.state, State::Watch)
    }

    /// Prefetches the index bucket of the first request's key, while input of other connections is examined.
    pub(crate) fn prefetch(&self, worker: &mut Worker, input: &[u8]) {
        let key = match self.state {
            State::Commands | State::Start { login: false, .. } => match parse(input) {
                Parsed::Head { request, .. } => text_key(&request),
                Parsed::Incomplete => None,
            },
            State::Packets => match binary::parse(input) {
                BinaryParsed::Head { request, .. } => request.key(),
                _ => None,
            },
            _ => None,
        };
        if let Some(key) = key {
            worker.fetching.push(worker.store.prefetch(&worker.store.key(key)));
        }
    }

    /// Serves requests until the input is used up, or the connection's turn is over.
    pub(crate) fn serve(&mut self, worker: &mut Worker, input: &[u8], output: &mut Output) -> Progress {
        worker.serving = self.link;
        worker.may_write = self.role >= Role::Write;
        let mut at = 0;
        let mut turns_left = worker.shared.options.requests_per_turn as usize;
        loop {
            let (consumed, flow) = self.step(worker, &input[at..], output, &mut turns_left);
            at += consumed;
            let next = match flow {
                Flow::Wait => Some(Next::Read),
                Flow::Close(reason) => Some(Next::Close(reason)),
                Flow::Yield => Some(Next::Again),
                Flow::Later => Some(Next::Later),
                Flow::Sleep => Some(Next::Wait),
                Flow::Go => None,
                Flow::Swallow(len) => {
                    self.state = State::Swallow(len);
                    None
                }
            };
            if let Some(next) = next {
                return Progress { consumed: at, next };
            }
            if output.len() >= OUTPUT_MAX || turns_left == 0 {
                let idle = at == input.len() && matches!(self.state, State::Commands | State::Packets);
                return Progress { consumed: at, next: if idle { Next::Read } else { Next::Again } };
            }
        }
    }

    /// Makes one step in the current state. Returns how much of `rest` was consumed, and how to continue.
    #[inline]
    fn step(
        &mut self,
        worker: &mut Worker,
        rest: &[u8],
        output: &mut Output,
        turns_left: &mut usize,
    ) -> (usize, Flow) {
        match &mut self.state {
            State::Commands => self.commands(worker, rest, output, turns_left),
            State::Packets => self.packets(worker, rest, output, turns_left),
            &mut State::Start { login, protocol } => (0, self.start((login, protocol), worker, rest)),
            State::Leave { left, to, status } => leave(left, *to, *status, rest, output),
            State::Login => {
                let step = worker.log_in(rest, output);
                self.then_commands(step)
            }
            State::Keys(keys) => {
                let step = keys.serve(worker, rest, self.fd, output);
                self.then_commands(step)
            }
            State::Swallow(left) => {
                let step = swallow(left, rest);
                self.then_commands(step)
            }
            State::Body(upload) => match worker.receive(upload, rest, self.fd, output) {
                (taken, Flow::Go) if self.body_waits(worker) => (taken, Flow::Sleep),
                (taken, Flow::Go) => {
                    let remaining = self.finish(worker, output);
                    (taken, remaining.map_or(Flow::Go, |remaining| self.settle(remaining)))
                }
                waiting => waiting,
            },
            // A client that does not read gets no part of the uploads' share: first its output must be sent.
            State::Join(_) if !output.is_empty() => (0, Flow::Yield),
            State::Join(joining) => {
                let flow = worker.join(joining);
                (0, self.after_join(flow, worker, output))
            }
            State::Report(report) if worker.steps.take(self.link) => {
                let flow = report.serve(worker, self.id.0, output);
                self.then_commands((0, flow))
            }
            State::Report(_) if !output.is_empty() => (0, Flow::Yield),
            State::Report(_) => {
                worker.steps.wait(self.link);
                (0, Flow::Sleep)
            }
            State::Watch => {
                worker.shared.log.take(self.id.0, output.copied());
                // Further input of a watcher is dropped.
                (rest.len(), Flow::Later)
            }
        }
    }

    /// Decides about the protocol with the first input of a connection. No text command starts with the first byte of
    /// the binary protocol.
    fn start(&mut self, (login, protocol): (bool, Protocol), worker: &Worker, input: &[u8]) -> Flow {
        let Some(&first) = input.first() else { return Flow::Wait };
        let is_binary = match protocol {
            Protocol::Auto => first == binary::REQUEST_MAGIC,
            Protocol::Ascii => false,
            Protocol::Binary => true,
        };
        self.state = match (is_binary, login) {
            (false, true) => State::Login,
            (false, false) => State::Commands,
            (true, _) => {
                self.dialect = Dialect::Binary;
                self.sasl = match (login, worker.shared.options.sasl) {
                    (false, _) => Sasl::Open,
                    (true, true) => Sasl::Locked,
                    (true, false) => {
                        worker.note_excluded(&self.client);
                        Sasl::Excluded
                    }
                };
                State::Packets
            }
        };
        Flow::Go
    }

    /// The state between requests.
    fn between(&self) -> State {
        match self.dialect {
            Dialect::Text => State::Commands,
            Dialect::Binary => State::Packets,
        }
    }

    /// Continues after a step of a join.
    fn after_join(&mut self, flow: Flow, worker: &mut Worker, output: &mut Output) -> Flow {
        match flow {
            Flow::Go => {
                let remaining = self.finish_join(worker, output);
                remaining.map_or(Flow::Go, |remaining| self.settle(remaining))
            }
            Flow::Later => {
                // Not `Next::Later`: the client may have finished sending, and no more input is needed.
                worker.sleepers.push(self.link);
                Flow::Sleep
            }
            waiting => waiting,
        }
    }

    /// After the last step of another state, requests come next.
    fn then_commands(&mut self, (consumed, flow): (usize, Flow)) -> (usize, Flow) {
        if matches!(flow, Flow::Go) {
            self.state = self.between();
        }
        (consumed, flow)
    }

    /// Sets the state for the remaining work of a request.
    #[inline]
    fn settle(&mut self, remaining: Remaining) -> Flow {
        self.state = match remaining {
            Remaining::Close(reason) => return Flow::Close(reason),
            Remaining::Refused(len) => State::Swallow(len),
            Remaining::Leave { to, status, rest } => State::Leave { left: rest as u32, to, status },
            Remaining::Keys { rest, .. } => State::Keys(rest),
            Remaining::Join(joining) => State::Join(joining),
            Remaining::Report(report) => State::Report(report),
            Remaining::Watch => State::Watch,
        };
        Flow::Go
    }

    /// Serves whole requests. Returns how much input was consumed, and how to continue.
    fn commands(
        &mut self,
        worker: &mut Worker,
        input: &[u8],
        output: &mut Output,
        turns_left: &mut usize,
    ) -> (usize, Flow) {
        // Fast path: one whole request needs no plan.
        let first = parse(input);
        if let Parsed::Head { request, consumed } = first
            && consumed + body_len(&request) == input.len()
        {
            let key = text_key(&request).map(|key| worker.store.key(key));
            if worker.has_flash() && self.waits(worker, &request, key) {
                return (0, Flow::Sleep);
            }
            *turns_left -= 1;
            return match self.execute(worker, &request, key, input, consumed, output) {
                None => (input.len(), Flow::Wait),
                Some(remaining) => (rest_at(&remaining, input, input.len()), self.settle(remaining)),
            };
        }
        let mut batch = [const { None }; BATCH];
        let room = BATCH.min(*turns_left);
        let (planned, tail) = plan(worker, input, first, &mut batch[..room]);
        let mut at = 0;
        if worker.has_flash() {
            self.read_ahead(worker, &batch[..planned]);
        }
        for request in batch[..planned].iter().flatten() {
            if worker.has_flash() && self.waits(worker, &request.request, request.key) {
                return (at, Flow::Sleep);
            }
            *turns_left -= 1;
            let whole = &input[at..request.end];
            at = request.end;
            let head_len = whole.len() - request.body_len;
            let remaining = self.execute(worker, &request.request, request.key, whole, head_len, output);
            if let Some(remaining) = remaining {
                return (rest_at(&remaining, input, at), self.settle(remaining));
            }
            if output.len() >= OUTPUT_MAX {
                return (at, Flow::Go);
            }
        }
        match tail {
            Tail::Nothing => (at, if at == input.len() { Flow::Wait } else { Flow::Go }),
            Tail::Line => match unfinished(&input[at..]) {
                Unfinished::Wait => (at, Flow::Wait),
                Unfinished::Close => (at, Flow::Close(CloseReason::Error)),
                Unfinished::Keys { .. } if self.refuses(worker, || Role::Read) => {
                    output.copy(line::NOT_PERMITTED);
                    (input.len(), Flow::Close(CloseReason::Error))
                }
                Unfinished::Keys { run, consumed } => {
                    self.state = State::Keys(Box::new(RestOfKeys::new(run)));
                    (at + consumed, Flow::Go)
                }
            },
            Tail::Body { request, head_len } if self.refuses(worker, || needed(&request)) => {
                say(output, is_silent(&request), line::NOT_PERMITTED);
                (at + head_len, Flow::Swallow(body_len(&request)))
            }
            Tail::Body { request, head_len } => {
                let head = &input[at..at + head_len];
                let started = worker.start_upload(&request, head, self.fd, output);
                (at + head_len, self.begin_body(started))
            }
        }
    }

    /// Continues with a body, or drops one that is refused: this many bytes.
    fn begin_body(&mut self, started: Result<Upload, usize>) -> Flow {
        match started {
            Err(dropped) => Flow::Swallow(dropped),
            Ok(upload) => {
                self.state = State::Body(Box::new(upload));
                Flow::Go
            }
        }
    }

    /// The buffer for the body, if one is expected.
    pub(crate) fn body(&mut self, worker: &mut Worker) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Body(upload) => worker.room_for(upload),
            _ => None,
        }
    }

    /// Handles `received` more bytes of the body.
    pub(crate) fn on_body(&mut self, worker: &mut Worker, received: usize, output: &mut Output) -> Next {
        let State::Body(upload) = &mut self.state else {
            unreachable!("only a connection with a body gets one")
        };
        worker.serving = self.link;
        upload.filled(received);
        match worker.receive(upload, &[], self.fd, output).1 {
            Flow::Go if self.body_waits(worker) => Next::Wait,
            Flow::Go => match self.finish(worker, output) {
                None => Next::Read,
                Some(remaining) => match self.settle(remaining) {
                    Flow::Close(reason) => Next::Close(reason),
                    _ => Next::Again,
                },
            },
            Flow::Later => Next::Later,
            Flow::Swallow(len) => {
                self.state = State::Swallow(len);
                Next::Read
            }
            _ => Next::Read,
        }
    }

    /// Executes the request whose body has arrived.
    fn finish(&mut self, worker: &mut Worker, output: &mut Output) -> Option<Remaining> {
        let next = self.between();
        let State::Body(upload) = std::mem::replace(&mut self.state, next) else {
            unreachable!("only a connection with a body finishes one")
        };
        let (head, received) = upload.into_parts();
        if self.dialect == Dialect::Binary {
            return self.finish_packet(worker, &head, received, output);
        }
        let Parsed::Head { request, .. } = parse(&head) else { unreachable!("the head was parsed before") };
        let mut small = Box::default();
        let mut body = received.into_body(&mut small);
        if let Some(condition) = join::condition(&request) {
            match worker.begin_join(&request, condition, &head, body) {
                Ok(joining) => return Some(Remaining::Join(Box::new(joining))),
                Err(at_once) => body = at_once,
            }
        }
        worker.execute(self.id, self.fd, &request, None, body, output)
    }

    /// Executes a complete request, or begins to: a join may take several turns.
    #[inline]
    fn execute(
        &mut self,
        worker: &mut Worker,
        request: &Request<'_>,
        key: Option<Key<'_>>,
        whole: &[u8],
        head_len: usize,
        output: &mut Output,
    ) -> Option<Remaining> {
        if self.refuses(worker, || needed(request)) {
            say(output, is_silent(request), line::NOT_PERMITTED);
            return None;
        }
        let (head, body) = whole.split_at(head_len);
        if let Some(condition) = join::condition(request)
            && let Ok(joining) = worker.begin_join(request, condition, head, Body::Bytes(body))
        {
            return Some(Remaining::Join(Box::new(joining)));
        }
        worker.execute(self.id, self.fd, request, key, Body::Bytes(body), output)
    }

    /// Executes the request whose joined value is complete, or fails for lack of memory.
    fn finish_join(&mut self, worker: &mut Worker, output: &mut Output) -> Option<Remaining> {
        let next = self.between();
        let State::Join(joining) = std::mem::replace(&mut self.state, next) else {
            unreachable!("only a connection that joins ends it")
        };
        let (head, new, join) = joining.into_parts();
        let mut bytes = Box::default();
        let value = new.into_value(&mut bytes);
        worker.store.prepare(join);
        let remaining = match self.dialect {
            Dialect::Text => {
                let Parsed::Head { request, .. } = parse(&head) else {
                    unreachable!("the head was parsed before")
                };
                worker.execute(self.id, self.fd, &request, None, Body::Value(value), output)
            }
            Dialect::Binary => self.execute_kept(worker, &head, value, output),
        };
        worker.store.prepare(None);
        remaining
    }
}

/// Drops the rest of the head of a refused packet, then replies and closes. All input is consumed: with unread input in
/// its socket the kernel would reset the connection, and the reply could be lost.
fn leave(
    left: &mut u32,
    to: ReplyTo,
    status: ReplyStatus,
    input: &[u8],
    output: &mut Output,
) -> (usize, Flow) {
    if input.len() < *left as usize {
        *left -= input.len() as u32;
        return (input.len(), Flow::Wait);
    }
    binary::reply::error(output.copied(), to, status);
    (input.len(), Flow::Close(CloseReason::Error))
}

/// Drops bytes of a refused request.
fn swallow(left: &mut usize, input: &[u8]) -> (usize, Flow) {
    let dropped = input.len().min(*left);
    *left -= dropped;
    (dropped, if *left == 0 { Flow::Go } else { Flow::Wait })
}

/// The position in the input after a request that ends at `end`.
#[inline]
fn rest_at(remaining: &Remaining, input: &[u8], end: usize) -> usize {
    let Remaining::Keys { unread, .. } = remaining else { return end };
    let line_end = if input[..end].ends_with(b"\r\n") { 2 } else { 1 };
    end - unread - line_end
}
