//! Outcomes of a request, as mcrouter names, ranks and words them.
//!
//! Source: mcrouter/lib/McResUtil.h (severity, classes) and lib/network/AsciiSerialized.cpp (error lines).

/// How a request ended: at a server, or on the way to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// An item was found.
    Found,
    /// No such item.
    NotFound,
    /// Stored.
    Stored,
    /// Not stored, because of the command's condition.
    NotStored,
    /// The item's CAS is another one.
    Exists,
    /// Deleted.
    Deleted,
    /// Touched.
    Touched,
    /// Done: a counter has a new value, or a command without an item.
    Done,
    /// No reply in time.
    Timeout,
    /// No connection in time.
    ConnectTimeout,
    /// No connection.
    ConnectError,
    /// The server refused the request to shed load.
    Busy,
    /// The server asks to try again.
    TryAgain,
    /// The server is shutting down.
    Shutdown,
    /// The server is known to be unavailable, so nothing was sent.
    Unavailable,
    /// The request's deadline has passed.
    DeadlineExceeded,
    /// The key is not valid.
    BadKey,
    /// The value is not valid.
    BadValue,
    /// The router ended while the request was on its way.
    Aborted,
    /// A limit of the router was reached.
    LocalError,
    /// The server answered an error, or its connection ended before the reply.
    RemoteError,
    /// The server says that the request is wrong.
    ClientError,
}

/// All of them with mcrouter's names, as configurations and statistics spell them.
const NAMES: [(Outcome, &str); 22] = [
    (Outcome::Found, "found"),
    (Outcome::NotFound, "notfound"),
    (Outcome::Stored, "stored"),
    (Outcome::NotStored, "notstored"),
    (Outcome::Exists, "exists"),
    (Outcome::Deleted, "deleted"),
    (Outcome::Touched, "touched"),
    (Outcome::Done, "ok"),
    (Outcome::Timeout, "timeout"),
    (Outcome::ConnectTimeout, "connect_timeout"),
    (Outcome::ConnectError, "connect_error"),
    (Outcome::Busy, "busy"),
    (Outcome::TryAgain, "try_again"),
    (Outcome::Shutdown, "shutdown"),
    (Outcome::Unavailable, "tko"),
    (Outcome::DeadlineExceeded, "deadline_exceeded"),
    (Outcome::BadKey, "bad_key"),
    (Outcome::BadValue, "bad_value"),
    (Outcome::Aborted, "aborted"),
    (Outcome::LocalError, "local_error"),
    (Outcome::RemoteError, "remote_error"),
    (Outcome::ClientError, "client_error"),
];

/// All of them.
pub(crate) const OUTCOMES: [Outcome; NAMES.len()] = {
    let mut all = [Outcome::Found; NAMES.len()];
    let mut at = 0;
    while at < NAMES.len() {
        all[at] = NAMES[at].0;
        at += 1;
    }
    all
};

impl Outcome {
    /// How many there are.
    pub(crate) const COUNT: usize = NAMES.len();

    /// All, with their names.
    pub(crate) fn all() -> impl Iterator<Item = (Outcome, &'static str)> {
        NAMES.into_iter()
    }

    /// mcrouter's name, without `mc_res_` before it.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(outcome, _)| *outcome == self).map_or("unknown", |(_, name)| name)
    }

    /// The outcome with this name, with or without `mc_res_` before it.
    pub fn by_name(name: &str) -> Option<Outcome> {
        let name = name.strip_prefix("mc_res_").unwrap_or(name);
        NAMES.iter().find(|(_, other)| *other == name).map(|(outcome, _)| *outcome)
    }

    /// How bad it is: of several replies, the one with the highest number is reported.
    pub fn severity(self) -> u8 {
        use Outcome::*;
        match self {
            Found | Stored | Exists | Deleted | Done => 1,
            NotFound | NotStored => 4,
            Timeout | ConnectTimeout | ConnectError | Busy | Shutdown | TryAgain | Unavailable => 5,
            BadKey | BadValue | Aborted | DeadlineExceeded => 6,
            RemoteError => 7,
            LocalError => 8,
            ClientError => 9,
            Touched => 10,
        }
    }

    /// Whether it is an error.
    #[inline]
    pub fn is_error(self) -> bool {
        use Outcome::*;
        !matches!(self, Found | NotFound | Stored | NotStored | Exists | Deleted | Touched | Done)
    }

    /// Whether another server is tried after it, unless a route has a list of its own.
    #[inline]
    pub fn is_failover_error(self) -> bool {
        use Outcome::*;
        matches!(
            self,
            Busy | Shutdown
                | Unavailable
                | TryAgain
                | LocalError
                | ConnectError
                | ConnectTimeout
                | Timeout
                | RemoteError
                | DeadlineExceeded
        )
    }

    /// Whether it is what the request was for.
    #[inline]
    pub fn is_hit(self) -> bool {
        use Outcome::*;
        matches!(self, Found | Stored | Exists | Deleted | Touched | Done)
    }

    /// The error line without a message of its own.
    pub fn error_line(self) -> &'static [u8] {
        use Outcome::*;
        match self {
            Timeout => b"SERVER_ERROR Reply timeout\r\n",
            ConnectTimeout => b"SERVER_ERROR connection timeout\r\n",
            ConnectError => b"SERVER_ERROR connection error\r\n",
            Busy => b"SERVER_ERROR 307 busy\r\n",
            TryAgain => b"SERVER_ERROR 302 try again\r\n",
            Shutdown => b"SERVER_ERROR 301 shutdown\r\n",
            Unavailable => b"SERVER_ERROR unavailable\r\n",
            DeadlineExceeded => b"SERVER_ERROR request deadline exceeded\r\n",
            BadKey => b"CLIENT_ERROR bad key\r\n",
            BadValue => b"SERVER_ERROR bad value\r\n",
            Aborted => b"SERVER_ERROR aborted\r\n",
            ClientError => b"CLIENT_ERROR\r\n",
            RemoteError => b"SERVER_ERROR remote error\r\n",
            _ => b"SERVER_ERROR local error\r\n",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_name_by_which_it_is_found() {
        for (outcome, name) in NAMES {
            assert_eq!((outcome.name(), NAMES[outcome as usize].0), (name, outcome));
            assert_eq!(Outcome::by_name(name), Some(outcome));
            assert_eq!(Outcome::by_name(&format!("mc_res_{name}")), Some(outcome));
        }
        assert_eq!(Outcome::by_name("nothing"), None);
    }

    #[test]
    fn errors_are_worse_than_misses_and_misses_than_hits() {
        assert!(Outcome::NotFound.severity() > Outcome::Found.severity());
        for (outcome, _) in NAMES.iter().filter(|(outcome, _)| outcome.is_error()) {
            assert!(outcome.severity() > Outcome::NotFound.severity(), "{outcome:?}");
        }
    }
}
