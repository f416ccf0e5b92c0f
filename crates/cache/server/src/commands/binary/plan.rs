//! Pipelined requests: which of them are complete, and prefetching for them.

use protocol::binary::{BinaryParsed, BinaryRequest, parse};
use store::Key;

use crate::commands::binary::sasl::Sasl;
use crate::worker::Worker;

/// A request that is complete in the input.
pub(crate) struct PlannedPacket<'a> {
    pub(crate) request: BinaryRequest<'a>,
    pub(crate) key: Option<Key<'a>>,
    pub(crate) head_len: usize,
    /// Where the next request starts.
    pub(crate) end: usize,
}

/// What follows the complete requests of the input.
pub(crate) enum BinaryTail<'a> {
    /// Nothing, or requests for which the plan has no room.
    Nothing,
    /// An incomplete head.
    Head,
    /// An incomplete value of this request.
    Value { request: BinaryRequest<'a>, head_len: usize },
    /// Something else than a request.
    NoRequest,
}

/// Finds the complete requests at the start of the input, and prefetches memory for them. Returns how many there are.
pub(crate) fn plan<'a>(
    worker: &mut Worker,
    sasl: Sasl,
    input: &'a [u8],
    batch: &mut [Option<PlannedPacket<'a>>],
) -> (usize, BinaryTail<'a>) {
    let (mut at, mut planned) = (0, 0);
    let tail = loop {
        let (request, head_len) = match parse(&input[at..]) {
            BinaryParsed::Incomplete => break BinaryTail::Head,
            BinaryParsed::NoRequest => break BinaryTail::NoRequest,
            BinaryParsed::Head { request, consumed } => (sasl.admit(request), consumed),
        };
        let end = at + head_len + request.value_len();
        if end > input.len() {
            break BinaryTail::Value { request, head_len };
        }
        let key = request.key().map(|key| worker.store.key(key));
        batch[planned] = Some(PlannedPacket { request, key, head_len, end });
        (at, planned) = (end, planned + 1);
        if at == input.len() || planned == batch.len() {
            break BinaryTail::Nothing;
        }
    };
    // For the first request `Connection::prefetch` has done it.
    if planned > 1 {
        worker.fetching.clear();
        for key in batch[..planned].iter().flatten().filter_map(|planned| planned.key.as_ref()) {
            worker.fetching.push(worker.store.prefetch(key));
        }
        worker.fetch_items();
    }
    (planned, tail)
}
