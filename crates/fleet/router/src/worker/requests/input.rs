//! Input of clients: requests, one after the other, and bodies that did not arrive with them.

use std::sync::Arc;

use net::{Next, Progress, Turn};
use protocol::request::{Unfinished, unfinished};
use protocol::{Parsed, parse};

use crate::client::state::{ClientState, HELD_MIN, RequestProgress};
use crate::message::request::RequestBody;
use crate::worker::RouteWorker;

/// Requests of a client served in one turn, so that one with a deep pipeline does not delay the others for long.
const REQUESTS_PER_TURN_MAX: usize = 256;

/// The first byte of a request of the binary protocol, and of no line: what follows is not read as lines, because keys and
/// values in it may look like commands.
const BINARY_MAGIC: u8 = 0x80;

impl RouteWorker {
    /// Serves what a client sent.
    pub(crate) fn serve(
        &mut self,
        state: &mut ClientState,
        input: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Progress {
        let mut at = 0;
        self.flights.client = Some(state.id);
        for _ in 0..REQUESTS_PER_TURN_MAX {
            let dropped = state.swallow.min(input.len() - at);
            state.swallow -= dropped;
            at += dropped;
            if let Some(upload) = &mut state.upload {
                let taken = upload.body.fill(&input[at..]);
                at += taken;
                self.clients.note_held(taken);
                if !upload.body.is_whole() {
                    self.clients.note_arriving(state.id, upload.body.held());
                    return Progress { consumed: at, next: Next::Read };
                }
                if let Some(next) = self.finish_upload(state, turn) {
                    return Progress { consumed: at, next };
                }
            }
            if at == input.len() {
                return Progress { consumed: at, next: Next::Read };
            }
            if let Some(next) = self.clients.held_up(state.id, state.run.is_some()) {
                return Progress { consumed: at, next };
            }
            match self.request(state, &input[at..], turn) {
                RequestProgress::Go(consumed) => at += consumed,
                RequestProgress::More => return Progress { consumed: at, next: Next::Read },
                RequestProgress::Close => {
                    return Progress { consumed: at, next: self.clients.close_later(state.id, turn) };
                }
            }
        }
        Progress { consumed: at, next: Next::Again }
    }

    /// Serves the request at the start of `input`.
    fn request(
        &mut self,
        state: &mut ClientState,
        input: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) -> RequestProgress {
        if state.run.is_some() {
            return self.continue_long_get(state, input, turn);
        }
        if input[0] == BINARY_MAGIC {
            return RequestProgress::Close;
        }
        match parse(input) {
            Parsed::Head { request, consumed } => self.route(state, &request, input, consumed, turn),
            Parsed::Incomplete => match unfinished(input) {
                Unfinished::Wait => RequestProgress::More,
                Unfinished::Keys { run, consumed } => {
                    self.begin_long_get(state, run);
                    RequestProgress::Go(consumed)
                }
                Unfinished::Close => RequestProgress::Close,
            },
        }
    }

    /// Bytes of a body were received into its memory.
    pub(crate) fn on_upload(
        &mut self,
        state: &mut ClientState,
        received: usize,
        turn: &mut Turn<Arc<[u8]>>,
    ) -> Next {
        let upload = state.upload.as_mut().expect("memory was offered");
        upload.body.filled(received);
        self.clients.note_held(received);
        if !upload.body.is_whole() {
            self.clients.note_arriving(state.id, upload.body.held());
            return Next::Read;
        }
        self.finish_upload(state, turn).unwrap_or(Next::Read)
    }

    /// The body is whole. Returns what follows, unless it is further requests.
    fn finish_upload(&mut self, state: &mut ClientState, turn: &mut Turn<Arc<[u8]>>) -> Option<Next> {
        self.flights.client = Some(state.id);
        let upload = state.upload.take().expect("an upload that is whole");
        self.clients.note_uploaded(state.id, upload.body.len());
        let progress = {
            let Parsed::Head { request, .. } = parse(&upload.head) else {
                unreachable!("the line was parsed before")
            };
            if upload.body.len() < HELD_MIN {
                let body = RequestBody::Bytes(upload.body.bytes());
                let progress = self.route_stored(state, &request, &upload.head, body, turn);
                self.clients.keep_body(upload);
                progress
            } else {
                let body: Arc<[u8]> = Arc::from(upload.body.into_bytes());
                self.route_stored(state, &request, &upload.head, RequestBody::Held(&body), turn)
            }
        };
        match progress {
            RequestProgress::Close => Some(self.clients.close_later(state.id, turn)),
            _ => None,
        }
    }
}
