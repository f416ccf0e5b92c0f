//! `flush_all`: to all servers of the configuration at once.

use std::sync::Arc;

use net::Turn;

use super::RouteWorker;
use crate::client::state::ClientState;
use crate::message::key::RoutedKey;
use crate::message::operation::Operation;
use crate::message::request::{RequestBody, RoutedRequest};
use crate::servers::destination::ReplyKind;

/// mcrouter's words.
const DISABLED: &[u8] = b"SERVER_ERROR Command disabled\r\n";

impl RouteWorker {
    /// `flush_all`, with its error if its argument is none. The worst reply of all servers is the answer.
    pub(super) fn route_flush(
        &mut self,
        state: &ClientState,
        delay: Result<i32, &'static [u8]>,
        noreply: bool,
        line: &[u8],
        turn: &mut Turn<Arc<[u8]>>,
    ) {
        let everywhere = self.plan.everywhere.filter(|_| self.shared.settings.flush_enabled);
        let (line, refused) = match (everywhere, delay) {
            (None, _) => (line, Some(DISABLED)),
            (_, Err(error)) => (line, Some(error)),
            _ => (without_noreply(line, noreply), None),
        };
        if let Some(refused) = refused {
            if !noreply {
                self.answer_now(state.id, refused, turn);
            }
            return;
        }
        let Some(everywhere) = everywhere else { return };
        let target = self.slot_for(state.id, noreply);
        let message = RoutedRequest {
            operation: Operation::FlushAll,
            expected: ReplyKind::Line,
            before: line,
            key: RoutedKey::new(b""),
            shown: &[],
            after: b"\r\n",
            opaque: &[],
            body: RequestBody::None,
        };
        self.cells.request(message.operation);
        self.fly(everywhere, None, &message, target, turn);
    }
}

/// The command and its argument. The router needs the reply.
fn without_noreply(line: &[u8], noreply: bool) -> &[u8] {
    let text = line.trim_ascii_end();
    match noreply {
        true => text[..text.len() - b"noreply".len()].trim_ascii_end(),
        false => text,
    }
}
