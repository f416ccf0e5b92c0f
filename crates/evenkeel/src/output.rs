//! Standard output: what it is when nobody reads it, and how wide it is.

use std::io::{self, Write};

use crate::failure::{Failure, say};

/// What clap takes when there is no terminal.
pub(crate) const COLUMNS_DEFAULT: usize = 100;

/// Writes to standard output.
pub(crate) fn print(text: &[u8]) -> Result<(), Failure> {
    passed_on(write(text))
}

/// Writes to standard output at once, so that no byte is left to be lost when the process ends.
fn write(text: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text)?;
    output.flush()
}

/// A reader that went away (`| head`) has seen enough, and the verb ends as it would have. SIGPIPE stays ignored: it
/// would end the verbs that have a host to restore, and the server, wherever they are.
pub(crate) fn passed_on(written: io::Result<()>) -> Result<(), Failure> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// Writes what was done to standard output. Whether anybody can read it changes nothing about that, so that it cannot be
/// written is said and does not decide how the verb ends.
pub(crate) fn tell(text: &[u8]) {
    if let Err(failure) = print(text) {
        say(format_args!("evenkeel: {failure}; what is told there has been done all the same"));
    }
}

/// The width of the terminal that help goes to.
pub(crate) fn columns() -> usize {
    let terminal = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok();
    let typed = || std::env::var("COLUMNS").ok()?.parse().ok();
    let seen = terminal.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0);
    seen.or_else(typed).unwrap_or(COLUMNS_DEFAULT)
}
