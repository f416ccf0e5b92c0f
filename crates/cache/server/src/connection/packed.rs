//! The state of a connection between two requests, as bytes for another server.
//!
//! ```text
//! version 1 | what comes next | logins are demanded | dialect | how far it has logged in by SASL | bytes still to be swallowed u64
//! ```

use super::{Connection, State};
use crate::commands::binary::Sasl;
use crate::connection::dialect::Dialect;
use crate::settings::options::Protocol;

const VERSION: u8 = 1;

const START: u8 = 0;
const LOGIN: u8 = 2;
const COMMANDS: u8 = 3;
const PACKETS: u8 = 4;
const SWALLOW: u8 = 5;

impl Connection {
    /// `None` in the middle of a request, and for what has a role of its own: TLS ends with its server. `must_log_in`: this server
    /// demands logins.
    pub(crate) fn pack(&self, must_log_in: bool) -> Option<Vec<u8>> {
        let (state, left) = match self.state {
            State::Start { .. } => (START, 0),
            State::Login => (LOGIN, 0),
            State::Commands => (COMMANDS, 0),
            State::Packets => (PACKETS, 0),
            State::Swallow(left) => (SWALLOW, left as u64),
            State::Leave { .. }
            | State::Keys(_)
            | State::Body(_)
            | State::Join(_)
            | State::Report(_)
            | State::Watch => return None,
        };
        if self.rights.is_some() {
            return None;
        }
        let dialect = match self.dialect {
            Dialect::Text => 0,
            Dialect::Binary => 1,
        };
        let sasl = match self.sasl {
            Sasl::Open => 0,
            Sasl::Locked => 1,
            Sasl::Begun => 2,
            Sasl::Excluded => 3,
        };
        Some([&[VERSION, state, must_log_in.into(), dialect, sasl][..], &left.to_le_bytes()].concat())
    }

    /// Takes the place of a connection of another server. False if it cannot: in particular if this server demands logins, and the other
    /// one did not.
    pub(crate) fn unpack(&mut self, packed: &[u8], must_log_in: bool) -> bool {
        let [VERSION, state, demanded, dialect, sasl, left @ ..] = packed else { return false };
        let Ok(left) = left.try_into().map(u64::from_le_bytes) else { return false };
        let State::Start { protocol, .. } = self.state else { return false };
        let (dialect, sasl) = match (dialect, sasl) {
            (0, 0) => (Dialect::Text, Sasl::Open),
            (1, 0) => (Dialect::Binary, Sasl::Open),
            (1, 1) => (Dialect::Binary, Sasl::Locked),
            (1, 2) => (Dialect::Binary, Sasl::Begun),
            (1, 3) => (Dialect::Binary, Sasl::Excluded),
            _ => return false,
        };
        let state = match *state {
            // Nothing has been said: it is a new client of this server.
            START => return true,
            LOGIN if must_log_in => State::Login,
            LOGIN | COMMANDS => State::Commands,
            PACKETS => State::Packets,
            SWALLOW => State::Swallow(left as usize),
            _ => return false,
        };
        let is_allowed = match dialect {
            Dialect::Text => protocol != Protocol::Binary,
            Dialect::Binary => protocol != Protocol::Ascii,
        };
        (self.state, self.dialect, self.sasl) = (state, dialect, sasl);
        is_allowed && (*demanded == 1 || !must_log_in)
    }
}
