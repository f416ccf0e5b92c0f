//! The history of one key: requests of clients, and their answers.

use std::fmt;

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// Each set of a key has a higher version than the one before.
    Set(u64),
    Delete,
    Get,
}

/// What it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Stored,
    Deleted,
    NotFound,
    Value(u64),
    Miss,
    /// An error, or nothing: it may have happened, or happen yet.
    Failed,
    /// Something else.
    Nonsense,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The router, and its client.
    pub(super) router: usize,
    pub(super) wish: Wish,
    pub(super) from_us: u64,
    /// Not answered yet: [`Reply::Failed`], and the end of time.
    pub(super) until_us: u64,
    pub(super) reply: Reply,
}

impl Request {
    pub(super) fn new(router: usize, wish: Wish, from_us: u64) -> Request {
        Request { router, wish, from_us, until_us: u64::MAX, reply: Reply::Failed }
    }

    /// Whether it was a set or a delete, and the client knows that it was carried out.
    pub(super) fn is_acknowledged(&self) -> bool {
        matches!(self.reply, Reply::Stored | Reply::Deleted | Reply::NotFound)
    }
}

/// All requests for a key, in the order in which they began. Only one client writes it, one request after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyHistory {
    pub(super) requests: Vec<Request>,
    pub(super) version: u64,
}

impl KeyHistory {
    /// The set of a version, and its place.
    pub(super) fn set_of(&self, version: u64) -> Option<usize> {
        self.requests.iter().position(|request| request.wish == Wish::Set(version))
    }

    /// Sets and deletes behind a place.
    pub(super) fn writes_after(&self, place: usize) -> impl Iterator<Item = &Request> {
        self.requests[place + 1..].iter().filter(|request| request.wish != Wish::Get)
    }

    /// The last set or delete, and its place.
    pub(super) fn last_write(&self) -> Option<usize> {
        self.requests.iter().rposition(|request| request.wish != Wish::Get)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let (from_ms, router) = (self.from_us as f64 / 1000.0, self.router);
        write!(formatter, "{from_ms:>10.3} ms  r{router}  {:?}: {:?}", self.wish, self.reply)?;
        match self.until_us {
            u64::MAX => formatter.write_str(", no answer yet"),
            until_us => write!(formatter, " after {:.3} ms", (until_us - self.from_us) as f64 / 1000.0),
        }
    }
}
