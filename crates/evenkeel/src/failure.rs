//! Failures of verbs: the message on standard error, and the exit status.

use std::fmt::{self, Display};
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use stdx::escape;
use tls::TlsFileError;
use tuning::Blame;

use crate::terminal::log;

/// The command line is wrong (EX_USAGE).
const USAGE: u8 = 64;
/// The user to become does not exist (EX_NOUSER), as with memcached.
const NO_USER: u8 = 67;
/// The system refused (EX_OSERR).
const SYSTEM: u8 = 71;
/// Anything else.
const OTHER: u8 = 1;

/// The failure of a verb.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    error: anyhow::Error,
    hint: Option<String>,
}

impl From<server::Error> for Failure {
    fn from(error: server::Error) -> Self {
        Self::other(error)
    }
}

impl From<succession::Error> for Failure {
    fn from(error: succession::Error) -> Self {
        let hint = error.hint().map(str::to_owned);
        Self { hint, ..Self::other(error) }
    }
}

impl From<replay::Error> for Failure {
    fn from(error: replay::Error) -> Self {
        Self::other(error)
    }
}

impl From<net::Error> for Failure {
    fn from(error: net::Error) -> Self {
        Self::other(error)
    }
}

impl Failure {
    /// The command line is wrong: `what`, and perhaps how to correct it.
    pub(crate) fn usage(what: impl Display, hint: Option<String>) -> Self {
        Self { status: USAGE, error: anyhow::anyhow!("{what}"), hint }
    }

    /// There is no such user.
    pub(crate) fn no_user(name: &str) -> Self {
        let error = anyhow::anyhow!("become user `{name}` (-u): there is no such user");
        Self { status: NO_USER, error, hint: None }
    }

    /// The system refused to do `what`.
    pub(crate) fn system(what: impl Display, why: impl Into<anyhow::Error>) -> Self {
        Self { status: SYSTEM, error: why.into().context(what.to_string()), hint: None }
    }

    /// A certificate's, a key's or authorities' file cannot be used.
    pub(crate) fn unreadable(error: TlsFileError) -> Self {
        Self::system(format!("read {}", error.path.display()), error.source)
    }

    /// A crate failed, with its own message. If the system refused something among its causes, the status is that of a
    /// refusal.
    pub(crate) fn other(error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        let by_system = error.chain().any(|cause| cause.is::<std::io::Error>());
        Self { status: if by_system { SYSTEM } else { OTHER }, error, hint: None }
    }

    /// With a status of its own.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The same, of one place: a line of a file.
    pub(crate) fn within(self, place: impl Display) -> Self {
        Self { error: self.error.context(place.to_string()), ..self }
    }

    /// With a hint.
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The line that helps.
    #[cfg(test)]
    pub(crate) fn help(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The kind of the system's error, if the system refused.
    pub(crate) fn io_kind(&self) -> Option<ErrorKind> {
        self.error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>()).map(std::io::Error::kind)
    }

    /// With its hint in one line, where it is no reason to end.
    pub(crate) fn in_one_line(&self) -> String {
        self.hint.as_ref().map_or_else(|| self.to_string(), |hint| format!("{self}; {hint}"))
    }

    /// The exit status of the process.
    pub(crate) fn status(&self) -> u8 {
        self.status
    }

    /// The hint at a refusal of the system that means the same for every verb.
    fn usual_hint(&self) -> Option<&'static str> {
        let said = self.to_string();
        if said.contains("CaUsedAsEndEntity") {
            return Some(
                "that certificate is an authority's own (CA:TRUE), which is not accepted of a server or client: make one with \
                 basicConstraints=CA:FALSE, signed by the authority (docs/serve/tls.md, A certificate to begin with)",
            );
        }
        if said.contains("invalid peer certificate: UnknownIssuer") {
            return Some(
                "its authority is not among those that are trusted: --tls-ca names the file with that authority",
            );
        }
        match self.io_kind()? {
            ErrorKind::AddrInUse => Some(
                "another process listens there: `ss -ltnup` names it; end that one, or choose another port or path",
            ),
            ErrorKind::AddrNotAvailable => Some(
                "no interface of this host has that address: `ip -brief address` lists those that there are",
            ),
            _ => None,
        }
    }

    /// Prints it, and returns the exit status.
    pub(crate) fn report(&self, verb: Option<&str>) -> ExitCode {
        let hint = self.hint.as_deref().or(self.usual_hint());
        let prefix = verb.map_or(String::new(), |verb| format!("{verb}: "));
        match (log::is_json(), hint) {
            (true, Some(hint)) => log::error(verb.unwrap_or_default(), format_args!("{self}; hint: {hint}")),
            (true, None) => log::error(verb.unwrap_or_default(), self),
            (false, hint) => {
                say(format_args!("evenkeel: {prefix}{self}"));
                hint.into_iter().for_each(|hint| say(format_args!("  hint: {hint}")));
            }
        }
        ExitCode::from(self.status())
    }
}

impl From<tuning::Error> for Failure {
    fn from(error: tuning::Error) -> Self {
        let status = match (error.signal(), error.blame()) {
            (Some(signal), _) => signal.status(),
            (None, Blame::Request) => USAGE,
            (None, Blame::System) => SYSTEM,
            (None, Blame::Other) => OTHER,
        };
        let hint = error.hint().map(str::to_owned);
        Self { status, error: error.into(), hint }
    }
}

/// Writes a line to standard error, with control characters escaped: names and messages of others may be in it.
/// `eprintln!` would end the process if nothing can be written: if the disk with the log is full, or the reader of the
/// pipe is gone.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr(), "{}", escape::lines(&line.to_string()));
}

/// The whole chain of causes in one line.
impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}
