//! Refusals of join tokens: reasons for the log, and the one answer that a peer gets.

use super::{TOKEN_LIFETIME_S, TOKENS_MAX};
use crate::identity::{CLOCK_SKEW_S, FleetRole, IdentityName};

/// The answer to a peer that has not proved to know a token. It is the same for every reason: whoever guesses tokens does not
/// learn which of them exist, and an operator finds the reason in the controller's log.
pub const PEER_ANSWER: &str = "the join token is not accepted; the controller's log has the reason";

/// The reason why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinRefusal {
    /// The text is no token.
    #[error("read the join token: {problem}")]
    NoToken {
        /// Why.
        problem: &'static str,
    },
    /// Nobody has issued it, or it expired some time ago.
    #[error("accept the join token: it was not issued for this fleet, or it expired and was forgotten")]
    Unknown,
    /// The secret is not that of the token with this ID, or what is kept of it was changed.
    #[error("accept the join token: its secret is another one")]
    WrongSecret,
    /// It was used.
    #[error("accept the join token: {by} has used it; if that was not you, replace that host's certificate")]
    Used {
        /// The name in the certificate.
        by: IdentityName,
    },
    /// It is too old.
    #[error(
        "accept the join token: it is {age_s} s old by this controller's clock, and {TOKEN_LIFETIME_S} s is the most; make another one, and \
         compare the clocks of the controllers if it was made just now"
    )]
    Expired {
        /// Its age.
        age_s: u64,
    },
    /// It was issued in the future.
    #[error(
        "accept the join token: it was issued {ahead_s} s in the future of this controller's clock, and clocks may differ by \
         {CLOCK_SKEW_S} s; set the controllers' clocks"
    )]
    NotYet {
        /// How far.
        ahead_s: u64,
    },
    /// It is for another role, zone or name.
    #[error("accept the join token for the {what} {claimed}: it is for {expected}")]
    Other {
        /// Role, zone or name.
        what: &'static str,
        /// What the newcomer claims.
        claimed: String,
        /// What the token is for.
        expected: String,
    },
}

impl JoinRefusal {
    /// What the peer is told. Whoever has shown the secret learns why the token is refused all the same.
    pub fn peer_answer(&self) -> String {
        match self {
            JoinRefusal::NoToken { .. } | JoinRefusal::Unknown | JoinRefusal::WrongSecret => {
                PEER_ANSWER.to_owned()
            }
            JoinRefusal::Used { .. }
            | JoinRefusal::Expired { .. }
            | JoinRefusal::NotYet { .. }
            | JoinRefusal::Other { .. } => self.to_string(),
        }
    }
}

/// The reason why no token is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinTokenError {
    /// There are none for this role.
    #[error(
        "make a join token for the role {role}: expected agent, router or server; the others' certificates are made at the authority"
    )]
    Role {
        /// The role.
        role: FleetRole,
    },
    /// There are too many.
    #[error(
        "make a join token: there are {TOKENS_MAX} of the last {TOKEN_LIFETIME_S} s; try again when some have expired"
    )]
    TooMany,
    /// The random bytes were used before.
    #[error("make a join token: there is one with the same random bytes")]
    SameBytes,
}
