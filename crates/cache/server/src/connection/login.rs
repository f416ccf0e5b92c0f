//! Login (`-Y`): required before any other command.
//!
//! A connection that has logged in stays logged in when the users change: they are checked once per
//! connection.

use net::CloseReason;
use protocol::auth::{Login, parse};
use protocol::reply::line;

use crate::connection::flow::Flow;
use crate::connection::output::{OUTPUT_MAX, Output};
use crate::worker::Worker;

impl Worker {
    /// Serves a connection until its client has named a user and that user's password. Returns how much of
    /// `input` was consumed, and how to continue.
    pub(crate) fn log_in(&mut self, input: &[u8], output: &mut Output) -> (usize, Flow) {
        let mut at = 0;
        while output.len() < OUTPUT_MAX {
            match parse(&input[at..]) {
                Login::Incomplete => return (at, Flow::Wait),
                Login::Close => return (at, Flow::Close(CloseReason::Error)),
                Login::Refused { reply, consumed } => {
                    output.copy(reply);
                    at += consumed;
                }
                Login::Attempt { user, password, consumed } => {
                    at += consumed;
                    self.counters.auth_cmds.add(1);
                    if self.is_known(user, password) {
                        output.copy(line::STORED);
                        return (at, Flow::Go);
                    }
                    self.counters.auth_errors.add(1);
                    output.copy(line::AUTH_FAILURE);
                }
            }
        }
        (at, Flow::Yield)
    }

    /// Compares with every user, so that the response time does not reveal which users exist.
    pub(crate) fn is_known(&self, user: &[u8], password: &[u8]) -> bool {
        let users = self.shared.users.read().expect("no panic while users are replaced");
        let matches = |(name, secret): &(String, String)| {
            same(user, name.as_bytes()) & same(password, secret.as_bytes())
        };
        users.iter().fold(false, |known, entry| known | matches(entry))
    }
}

/// Compares in a time that does not depend on the position of the first difference.
fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_the_same_only_if_every_byte_is() {
        assert!(same(b"", b""));
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd"));
        assert!(!same(b"abc", b"ab"));
        assert!(!same(b"\x01", b"\x02"));
    }
}
