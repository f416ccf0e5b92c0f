//! A connection: what it is in the middle of, and how it goes on when bytes arrive.

use net::{Activity, Address, CloseReason, ConnectionId, Link, Next, Opened, Progress};
use protocol::request::{Unfinished, unfinished};
use protocol::{Parsed, Request, binary, parse};
use store::Key;

use crate::execute::{Body, Flow};
use crate::join::{self, Joining};
use crate::reports::Report;
use crate::retrieve::RestOfKeys;
use crate::upload::{LINE_END_LEN, Upload};
use crate::worker::{Output, Worker};

/// A connection whose waiting output has reached this many bytes is served again only after it was sent: so a
/// client that asks for much and reads little holds this much, and at most one reply more.
pub(crate) const OUTPUT_MAX: usize = 64 * 1024;

/// So many pipelined requests are looked at before the first is executed, so that the memory they need is on
/// its way while the earlier ones are served. 16 hide the latency; 32 measured the same.
pub(crate) const BATCH: usize = 16;

/// One client.
pub struct Connection {
    id: ConnectionId,
    link: Link,
    fd: i32,
    client: Address,
    state: State,
}

/// What comes next on a connection.
pub(crate) enum State {
    /// The first byte, which tells the binary protocol from text.
    Start { login: bool },
    /// So many bytes of a request of the binary protocol, which has been refused; then the end.
    Refused(usize),
    /// A login: nothing else is understood before.
    Login,
    /// A command.
    Commands,
    /// The keys of a `get` that has been served in part.
    Keys(Box<RestOfKeys>),
    /// The body of a storage command.
    Body(Box<Upload>),
    /// Nothing until a large value has been joined.
    Join(Box<Joining>),
    /// So many bytes that belong to a refused request.
    Swallow(usize),
    /// Nothing until a report has been made.
    Report(Box<Report>),
    /// Nothing: log lines are sent.
    Watch,
}

/// A request whose head and body lie in the input.
struct Planned<'a> {
    request: Request<'a>,
    /// The key, if there is one and it is text.
    key: Option<Key<'a>>,
    body_len: usize,
    /// Where the next request starts.
    end: usize,
}

impl Connection {
    pub(crate) fn new(opened: &Opened, must_log_in: bool) -> Connection {
        let state = State::Start { login: must_log_in };
        Connection { id: opened.id, link: opened.link, fd: opened.fd, client: opened.peer.clone(), state }
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

    /// The client's end.
    pub(crate) fn client(&self) -> &Address {
        &self.client
    }

    /// What it is in the middle of.
    pub(crate) fn activity(&self) -> Activity {
        match self.state {
            State::Body(_) | State::Join(_) => Activity::Body,
            State::Swallow(_) | State::Refused(_) => Activity::Swallowing,
            State::Watch => Activity::Watching,
            _ => Activity::Reading,
        }
    }

    pub(crate) fn watches(&self) -> bool {
        matches!(self.state, State::Watch)
    }

    /// Has the index bucket of the first request's key fetched, while other connections are looked at.
    pub(crate) fn prefetch(&self, worker: &mut Worker, input: &[u8]) {
        if let (State::Commands | State::Start { login: false }, Parsed::Head { request, .. }) =
            (&self.state, parse(input))
            && let Some(key) = text_key(&request)
        {
            worker.fetching.push(worker.store.prefetch(&worker.store.key(key)));
        }
    }

    /// Serves requests until the input is used up, or this connection has had its turn.
    pub(crate) fn serve(&mut self, worker: &mut Worker, input: &[u8], output: &mut Output) -> Progress {
        let mut at = 0;
        let mut turns_left = worker.shared.options.requests_per_turn as usize;
        loop {
            let rest = &input[at..];
            let (consumed, flow) = match &mut self.state {
                State::Commands => self.commands(worker, rest, output, &mut turns_left),
                State::Start { login } => start(*login, worker, rest, &self.client, output),
                State::Refused(left) => leave(left, rest),
                State::Login => worker.log_in(rest, output),
                State::Keys(keys) => keys.serve(worker, rest, self.fd, output),
                State::Swallow(left) => swallow(left, rest),
                State::Body(upload) => match worker.receive(upload, rest, self.fd, output) {
                    (taken, Flow::Go) => (taken, self.finish(worker, output)),
                    waiting => waiting,
                },
                // A client that does not read gets nothing of what all uploads share: first its output has to go.
                State::Join(_) if !output.is_empty() => (0, Flow::Yield),
                State::Join(joining) => match worker.join(joining) {
                    Flow::Go => (0, self.finish_join(worker, output)),
                    Flow::Later => {
                        // Not `Next::Later`: nothing more is needed of a client that has finished sending.
                        worker.sleepers.push(self.link);
                        return Progress { consumed: at, next: Next::Wait };
                    }
                    waiting => (0, waiting),
                },
                State::Report(report) if worker.steps.take(self.link) => {
                    (0, report.serve(worker, self.id.0, output))
                }
                State::Report(_) if !output.is_empty() => (0, Flow::Yield),
                State::Report(_) => {
                    worker.steps.wait(self.link);
                    return Progress { consumed: at, next: Next::Wait };
                }
                State::Watch => {
                    worker.shared.log.take(self.id.0, output.copied());
                    // A watcher has nothing more to say; what it sends is dropped.
                    return Progress { consumed: input.len(), next: Next::Later };
                }
            };
            at += consumed;
            let next = match flow {
                Flow::Wait => Some(Next::Read),
                Flow::Close(reason) => Some(Next::Close(reason)),
                Flow::Yield => Some(Next::Again),
                Flow::Later => Some(Next::Later),
                Flow::Go => None,
                Flow::Become(state) => {
                    self.state = state;
                    None
                }
                Flow::Suspend { .. } => unreachable!("`settle` has made a state of it"),
            };
            if let Some(next) = next {
                return Progress { consumed: at, next };
            }
            if output.len() >= OUTPUT_MAX || turns_left == 0 {
                let idle = at == input.len() && matches!(self.state, State::Commands);
                return Progress { consumed: at, next: if idle { Next::Read } else { Next::Again } };
            }
        }
    }

    /// Serves whole requests, and says how to go on behind them.
    fn commands(
        &mut self,
        worker: &mut Worker,
        input: &[u8],
        output: &mut Output,
        turns_left: &mut usize,
    ) -> (usize, Flow) {
        // The usual input is one whole request, which needs no plan.
        let first = parse(input);
        if let Parsed::Head { request, consumed } = first
            && consumed + body_len(&request) == input.len()
        {
            *turns_left -= 1;
            let key = text_key(&request).map(|key| worker.store.key(key));
            let flow = self.execute(worker, &request, key, input, consumed, output);
            return match flow {
                Flow::Go => (input.len(), Flow::Wait),
                flow => settle(flow, input, input.len()),
            };
        }
        let mut batch = [const { None }; BATCH];
        let room = BATCH.min(*turns_left);
        let (planned, tail) = plan(worker, input, first, &mut batch[..room]);
        let mut at = 0;
        for request in batch[..planned].iter().flatten() {
            *turns_left -= 1;
            let whole = &input[at..request.end];
            at = request.end;
            let head_len = whole.len() - request.body_len;
            let flow = self.execute(worker, &request.request, request.key, whole, head_len, output);
            if !matches!(flow, Flow::Go) || output.len() >= OUTPUT_MAX {
                return settle(flow, input, at);
            }
        }
        match tail {
            Tail::Nothing => (at, if at == input.len() { Flow::Wait } else { Flow::Go }),
            Tail::Line => match unfinished(&input[at..]) {
                Unfinished::Wait => (at, Flow::Wait),
                Unfinished::Close => (at, Flow::Close(CloseReason::Error)),
                Unfinished::Keys { run, consumed } => {
                    (at + consumed, Flow::Become(State::Keys(Box::new(RestOfKeys::new(run)))))
                }
            },
            Tail::Body { request, head_len } => {
                let head = &input[at..at + head_len];
                (at + head_len, worker.start_upload(&request, head, self.fd, output))
            }
        }
    }

    /// Where to receive the body, if one is awaited.
    pub(crate) fn body(&mut self, worker: &mut Worker) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Body(upload) => worker.room_for(upload),
            _ => None,
        }
    }

    /// `received` more bytes of the body are there.
    pub(crate) fn on_body(&mut self, worker: &mut Worker, received: usize, output: &mut Output) -> Next {
        let State::Body(upload) = &mut self.state else {
            unreachable!("only a connection with a body gets one")
        };
        upload.filled(received);
        match worker.receive(upload, &[], self.fd, output).1 {
            Flow::Go => match self.finish(worker, output) {
                Flow::Close(reason) => Next::Close(reason),
                Flow::Become(state) => {
                    self.state = state;
                    Next::Again
                }
                _ => Next::Read,
            },
            Flow::Later => Next::Later,
            Flow::Become(state) => {
                self.state = state;
                Next::Read
            }
            _ => Next::Read,
        }
    }

    /// Executes the request whose body has arrived.
    fn finish(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        let State::Body(upload) = std::mem::replace(&mut self.state, State::Commands) else {
            unreachable!("only a connection with a body finishes one")
        };
        let (head, received) = upload.into_parts();
        let Parsed::Head { request, .. } = parse(&head) else { unreachable!("the head was parsed before") };
        let mut small = Box::default();
        let mut body = received.into_body(&mut small);
        if let Some(condition) = join::condition(&request) {
            match worker.begin_join(&request, condition, &head, body) {
                Ok(joining) => return Flow::Become(State::Join(Box::new(joining))),
                Err(at_once) => body = at_once,
            }
        }
        worker.execute(self, &request, None, body, output)
    }

    /// Executes a request that is whole, or begins to: a join may take several turns.
    #[inline]
    fn execute(
        &self,
        worker: &mut Worker,
        request: &Request<'_>,
        key: Option<Key<'_>>,
        whole: &[u8],
        head_len: usize,
        output: &mut Output,
    ) -> Flow {
        let (head, body) = whole.split_at(head_len);
        if let Some(condition) = join::condition(request)
            && let Ok(joining) = worker.begin_join(request, condition, head, Body::Bytes(body))
        {
            return Flow::Become(State::Join(Box::new(joining)));
        }
        worker.execute(self, request, key, Body::Bytes(body), output)
    }

    /// Executes the request whose joined value is whole, or cannot be had.
    fn finish_join(&mut self, worker: &mut Worker, output: &mut Output) -> Flow {
        let State::Join(joining) = std::mem::replace(&mut self.state, State::Commands) else {
            unreachable!("only a connection that joins ends it")
        };
        let (head, new, join) = joining.into_parts();
        let Parsed::Head { request, .. } = parse(&head) else { unreachable!("the head was parsed before") };
        let mut bytes = Box::default();
        worker.store.prepare(join);
        let flow = worker.execute(self, &request, None, new.into_body(&mut bytes), output);
        worker.store.prepare(None);
        flow
    }
}

/// Where the input goes on after a request that ends at `end`, and how.
#[inline]
fn settle(flow: Flow, input: &[u8], end: usize) -> (usize, Flow) {
    let Flow::Suspend { rest, unread } = flow else { return (end, flow) };
    let line_end = if input[..end].ends_with(b"\r\n") { 2 } else { 1 };
    (end - unread - line_end, Flow::Become(State::Keys(Box::new(rest))))
}

/// Where the whole requests of the input end.
enum Tail<'a> {
    /// With the input, or with the room for the plan.
    Nothing,
    /// In a line that has not ended.
    Line,
    /// In the body of this request.
    Body { request: Request<'a>, head_len: usize },
}

/// Finds the whole requests at the start of the input, of which the `first` has been parsed, and has the memory
/// fetched that they will need. Returns how many there are.
fn plan<'a>(
    worker: &mut Worker,
    input: &'a [u8],
    first: Parsed<'a>,
    batch: &mut [Option<Planned<'a>>],
) -> (usize, Tail<'a>) {
    let (mut at, mut planned, mut parsed) = (0, 0, first);
    let tail = loop {
        let Parsed::Head { request, consumed } = parsed else { break Tail::Line };
        let body = at + consumed;
        let end = body + body_len(&request);
        if end > input.len() {
            break Tail::Body { request, head_len: consumed };
        }
        let key = text_key(&request).map(|key| worker.store.key(key));
        batch[planned] = Some(Planned { request, key, body_len: end - body, end });
        (at, planned) = (end, planned + 1);
        if at == input.len() || planned == batch.len() {
            break Tail::Nothing;
        }
        parsed = parse(&input[at..]);
    };
    fetch(worker, &batch[..planned]);
    (planned, tail)
}

/// Has the index buckets of all planned keys fetched, then the items that they point to. A single request has
/// had its own fetched by [`Connection::prefetch`].
fn fetch(worker: &mut Worker, batch: &[Option<Planned<'_>>]) {
    if batch.len() > 1 {
        worker.fetching.clear();
        for key in batch.iter().flatten().filter_map(|planned| planned.key.as_ref()) {
            worker.fetching.push(worker.store.prefetch(key));
        }
        worker.fetch_items();
    }
}

/// Length of the body behind this head, its line end included.
fn body_len(request: &Request<'_>) -> usize {
    match request {
        Request::Store(store) => store.len + LINE_END_LEN,
        Request::MetaSet { len, .. } => len + LINE_END_LEN,
        _ => 0,
    }
}

/// The one key of a request, if it stands there as it is.
fn text_key<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    match request {
        Request::Get(get) => get.keys.only()?.ok().map(|key| key.as_bytes()),
        Request::Store(store) => Some(store.key.as_bytes()),
        Request::MetaGet { key, .. }
        | Request::MetaSet { key, .. }
        | Request::MetaDelete { key, .. }
        | Request::MetaArithmetic { key, .. } => (!key.is_binary()).then(|| key.as_written()),
        Request::Delete { key, .. } | Request::Arithmetic { key, .. } | Request::Touch { key, .. } => {
            Some(key.as_bytes())
        }
        _ => None,
    }
}

/// The first input of a connection. No text command begins with the binary protocol's first byte.
fn start(login: bool, worker: &Worker, input: &[u8], client: &Address, output: &mut Output) -> (usize, Flow) {
    match input.first() {
        None => (0, Flow::Wait),
        Some(&binary::REQUEST_MAGIC) => match binary::refuse(input) {
            None => (0, Flow::Wait),
            Some(refusal) => {
                worker.note_binary(client);
                output.copy(&refusal.reply);
                (binary::HEADER_LEN, Flow::Become(State::Refused(refusal.body_len)))
            }
        },
        Some(_) => (0, Flow::Become(if login { State::Login } else { State::Commands })),
    }
}

/// Drops what is left of a refused request, then closes: input that is left unread in a socket would make the kernel
/// reset the connection, and the reply could get lost.
fn leave(left: &mut usize, input: &[u8]) -> (usize, Flow) {
    if input.len() < *left {
        *left -= input.len();
        return (input.len(), Flow::Wait);
    }
    (input.len(), Flow::Close(CloseReason::Error))
}

/// Drops what belongs to a refused request.
fn swallow(left: &mut usize, input: &[u8]) -> (usize, Flow) {
    let dropped = input.len().min(*left);
    *left -= dropped;
    (dropped, if *left == 0 { Flow::Become(State::Commands) } else { Flow::Wait })
}
