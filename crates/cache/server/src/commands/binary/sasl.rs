//! Authentication by SASL (`-S`): the mechanism PLAIN, with the users of `-Y`.

use protocol::binary::sasl::{MECHANISM_LEN_MAX, PLAIN, plain};
use protocol::binary::{BinaryCommand, BinaryRequest, ReplyStatus, ReplyTo, reply};

use crate::connection::output::Output;
use crate::worker::Worker;

/// The longest credentials; users and passwords are much shorter.
pub(super) const CREDENTIALS_LEN_MAX: usize = 4096;

/// How far a connection has authenticated itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sasl {
    /// Every request is served: no authentication is needed, or it has succeeded.
    Open,
    /// Only an authentication, and `version`.
    Locked,
    /// The same; the first step has been made without credentials.
    Begun,
    /// Nothing: with `-Y` alone, clients log in by the text protocol.
    Excluded,
}

impl Sasl {
    /// The request, or the refusal of one that must not come before the authentication.
    #[inline]
    pub(crate) fn admit(self, request: BinaryRequest<'_>) -> BinaryRequest<'_> {
        if self == Sasl::Open { request } else { self.admit_locked(request) }
    }

    #[cold]
    fn admit_locked(self, request: BinaryRequest<'_>) -> BinaryRequest<'_> {
        let status = ReplyStatus::AuthError;
        let refused = |rest| BinaryRequest { command: BinaryCommand::Refused { status, rest }, ..request };
        match request.command {
            BinaryCommand::Refused { status: ReplyStatus::UnknownCommand, .. } => request,
            _ if self != Sasl::Excluded && request.comes_before_authentication() => request,
            BinaryCommand::Refused { rest, .. } => refused(rest),
            _ => refused(0),
        }
    }
}

impl Worker {
    /// `sasl_list_mechs`, with `-S`.
    pub(super) fn list_mechanisms(&self, to: ReplyTo, output: &mut Output) {
        reply::text(output.copied(), to, PLAIN);
    }

    /// One step of an authentication, with `-S`. Returns how far it has got.
    pub(super) fn authenticate(
        &mut self,
        sasl: Sasl,
        (to, is_first): (ReplyTo, bool),
        mechanism: &[u8],
        credentials: &[u8],
        output: &mut Output,
    ) -> Sasl {
        let out = output.copied();
        if mechanism.len() > MECHANISM_LEN_MAX {
            reply::error(out, to, ReplyStatus::InvalidArguments);
            return sasl;
        }
        if credentials.len() > CREDENTIALS_LEN_MAX {
            reply::error(out, to, ReplyStatus::TooLarge);
            return sasl;
        }
        let is_plain = mechanism.eq_ignore_ascii_case(PLAIN.as_bytes());
        if is_first && is_plain && credentials.is_empty() {
            reply::auth_continue(out, to);
            return Sasl::Begun;
        }
        self.counters.auth_cmds.add(1);
        let may_prove = if is_first { is_plain } else { sasl == Sasl::Begun };
        let known = plain(credentials).is_some_and(|(user, password)| self.is_known(user, password));
        if may_prove && known {
            reply::text(out, to, "Authenticated");
            return Sasl::Open;
        }
        self.counters.auth_errors.add(1);
        reply::error(out, to, ReplyStatus::AuthError);
        Sasl::Locked
    }
}
