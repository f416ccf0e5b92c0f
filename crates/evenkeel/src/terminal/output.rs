//! Standard output: writing to it, also without a reader; escaping of others' text for terminals; its width.

use std::io::{self, Write};

use stdx::escape;

use crate::failure::{Failure, say};

/// The width that clap assumes without a terminal.
pub(crate) const COLUMNS_DEFAULT: usize = 100;

/// Writes to standard output. Names and messages of others in it (agents, processes, logs) give no orders to a terminal.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    passed_on(write(harmless(&String::from_utf8_lossy(text)).as_bytes()))
}

/// With colours, but without any other order to a terminal.
fn harmless(text: &str) -> String {
    let mut parts = text.split(ORDER);
    let mut out = escape::lines(parts.next().unwrap_or_default()).into_owned();
    for part in parts {
        let is_colour = |code: &str| matches!(code.parse(), Ok(0..=2_u8 | 30..=37));
        match part.split_once('m').filter(|(code, _)| is_colour(code)) {
            Some((code, rest)) => out.extend([ORDER, code, "m", &escape::lines(rest)]),
            None => out.extend([&*escape::line(ORDER), &escape::lines(part)]),
        }
    }
    out
}

/// How an order to a terminal begins; with a number and `m` behind it, it is a colour, or text that cannot be seen.
const ORDER: &str = "\x1b[";

/// Writes to standard output and flushes it, so that no byte is lost when the process ends.
fn write(text: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text)?;
    output.flush()
}

/// A closed pipe (`| head`) is not a failure: the verb ends with the same status. SIGPIPE stays ignored: it would end
/// verbs that have a host to restore, and the server, at any point.
pub(crate) fn passed_on(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// Writes what was done to standard output. It stays done even if it cannot be written, so a failure to write is
/// reported, but does not change the exit status.
pub(crate) fn tell(text: &[u8]) {
    if let Err(failure) = print(text) {
        say(format_args!("evenkeel: {failure}; the work itself has been done"));
    }
}

/// The width of the terminal that help is printed to.
pub(crate) fn columns() -> usize {
    let terminal = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let typed = || std::env::var("COLUMNS").ok()?.parse().ok();
    let seen = terminal.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
    seen.or_else(typed).unwrap_or(COLUMNS_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_colours_reach_a_terminal() {
        let check = |text: &str, expected: &str| assert_eq!(harmless(text), expected);
        check("a\tb\nc µs\n", "a\tb\nc µs\n");
        check("\x1b[31mCRITICAL\x1b[0m x\n", "\x1b[31mCRITICAL\x1b[0m x\n");
        check("\x1b[2J\x1b[1mx\x1b]0;title\x07", "\\u001b[2J\x1b[1mx\\u001b]0;title\\u0007");
        check("\x1b[31;8m\x1b[8m\x1b[", "\\u001b[31;8m\\u001b[8m\\u001b[");
        check("\u{9b}2J\r\x1bc", "\\u009b2J\\u000d\\u001bc");
    }
}
