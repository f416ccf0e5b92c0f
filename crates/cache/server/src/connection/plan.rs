//! Pipelined requests: which of them are complete, and prefetching for them.

use protocol::{Parsed, Request, parse};
use store::Key;

use crate::commands::request::{body_len, text_key};
use crate::worker::Worker;

/// A request that is complete in the input.
pub(crate) struct Planned<'a> {
    pub(crate) request: Request<'a>,
    /// The key, if there is one and it is text.
    pub(crate) key: Option<Key<'a>>,
    pub(crate) body_len: usize,
    /// Where the next request starts.
    pub(crate) end: usize,
}

/// What follows the complete requests of the input.
pub(crate) enum Tail<'a> {
    /// Nothing, or requests for which the plan has no room.
    Nothing,
    /// An incomplete line.
    Line,
    /// An incomplete body of this request.
    Body { request: Request<'a>, head_len: usize },
}

/// Finds the complete requests at the start of the input, of which the `first` has been parsed, and
/// prefetches memory for them. Returns how many there are.
pub(crate) fn plan<'a>(
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

/// Prefetches the index buckets of all planned keys, then the items that they point to. For a single request
/// `Connection::prefetch` has done it.
fn fetch(worker: &mut Worker, batch: &[Option<Planned<'_>>]) {
    if batch.len() > 1 {
        worker.fetching.clear();
        for key in batch.iter().flatten().filter_map(|planned| planned.key.as_ref()) {
            worker.fetching.push(worker.store.prefetch(key));
        }
        worker.fetch_items();
    }
}
