//! Logging in over the text protocol (`-Y`): a `set` whose value is `user password`, before anything else.
//!
//! Key, flags and exptime are ignored. Until the login succeeds, a connection accepts nothing else.

use memchr::memchr;

use crate::limits::{LINE_LEN_MAX, LOGIN_LEN_MAX, LOGIN_LINE_LEN_MIN};
use crate::number;
use crate::reply::line;
use crate::words::Sentence;

/// The start of the input of a connection that has not logged in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Login<'a> {
    /// Wait for more.
    Incomplete,
    /// Cannot become a login: close the connection.
    Close,
    /// Not a login: the error to answer.
    Refused {
        /// The reply.
        reply: &'static [u8],
        /// Length of the refused input.
        consumed: usize,
    },
    /// An attempt to log in.
    Attempt {
        /// Up to the first space.
        user: &'a [u8],
        /// Everything after that space.
        password: &'a [u8],
        /// Length of the login in the input.
        consumed: usize,
    },
}

impl std::fmt::Debug for Login<'_> {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Login::Incomplete => write!(f, "Incomplete"),
            Login::Close => write!(f, "Close"),
            Login::Refused { reply, .. } => write!(f, "{}", reply.trim_ascii_end().escape_ascii()),
            Login::Attempt { user, .. } => write!(f, "{} logs in", user.escape_ascii()),
        }
    }
}

/// Parses the login at the start of `input`, value included: at most [`LOGIN_LEN_MAX`] bytes after a line.
pub fn parse(input: &[u8]) -> Login<'_> {
    let Some(newline) = memchr(b'\n', input) else {
        return if input.len() > LINE_LEN_MAX { Login::Close } else { Login::Incomplete };
    };
    if newline < LOGIN_LINE_LEN_MIN {
        return Login::Close;
    }
    let head = newline + 1;
    // memcached drops the byte before the line feed without a check: a login needs its carriage return.
    let sentence = Sentence::of_line(&input[..newline - 1]);
    let len = sentence.word(4).and_then(number::u32_word).filter(|_| input.starts_with(b"set"));
    let Some(len) = len.and_then(|len| usize::try_from(len).ok()) else {
        return Login::Refused { reply: line::UNAUTHENTICATED, consumed: head };
    };
    if len > LOGIN_LEN_MAX {
        return Login::Refused { reply: line::AUTH_TOO_LONG, consumed: head };
    }
    let consumed = head + len + b"\r\n".len();
    let Some(body) = input.get(head..consumed) else {
        return Login::Incomplete;
    };
    let Some(login) = body.strip_suffix(b"\r\n") else {
        return Login::Refused { reply: line::BAD_TERMINATION, consumed };
    };
    match memchr(b' ', login) {
        Some(space) => Login::Attempt { user: &login[..space], password: &login[space + 1..], consumed },
        None => Login::Refused { reply: line::AUTH_BAD_FORMAT, consumed },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expected: &str) {
        assert_eq!(format!("{:?}", parse(input.as_bytes())), expected, "of {input:?}");
    }

    #[test]
    fn a_login_is_a_set() {
        check("set any 0 0 8\r\nme paßt\r\n", "me logs in");
        check("set any 0 0 3\r\na b", "Incomplete");
        check("set any 0 0 3\r", "Incomplete");
        let Login::Attempt { user, password, consumed } = parse(b"set x 0 0 5\r\na b c\r\nget a\r\n") else {
            panic!("a login");
        };
        assert_eq!((user, password, consumed), (b"a".as_slice(), b"b c".as_slice(), 20));
    }

    #[test]
    fn anything_else_is_refused() {
        check("get any\r\n", "CLIENT_ERROR unauthenticated");
        check("set any 0 0 x\r\n", "CLIENT_ERROR unauthenticated");
        check("set any 0 0 3\na b\r\n", "CLIENT_ERROR unauthenticated");
        check("set any 0 0 16385\r\n", "CLIENT_ERROR auth token too long");
        check("set any 0 0 3\r\na bcd", "CLIENT_ERROR bad command line termination");
        check("set any 0 0 3\r\nabc\r\n", "CLIENT_ERROR bad authentication token format");
    }

    #[test]
    fn input_that_cannot_be_a_login_closes_the_connection() {
        check("mn\r\n", "Close");
        check(&"x".repeat(2048), "Incomplete");
        check(&"x".repeat(2049), "Close");
    }
}
