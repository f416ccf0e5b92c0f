//! `evenkeel ready`: asks a process of ours whether it serves, for probes of containers, units and scripts.
//!
//! A container without a shell has no other program for that.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::value_parser;
use wire::{Deadline, ServerAddress, Wire};

use crate::failure::Failure;
use crate::terminal::output::print;

/// It answers, and is not ready.
const STATUS_NOT_READY: u8 = 1;
/// It does not answer (EX_UNAVAILABLE).
const STATUS_NO_ANSWER: u8 = 69;

/// Longest answer that is read: a status line, some headers, and why it is not ready.
const ANSWER_LEN_MAX: usize = 16 * 1024;

/// Exit statuses, for the man page.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "It is ready."),
    ("1", "It answers, and is not ready; the message says why."),
    ("69", "It does not answer within the time."),
    ("64", "The command line is wrong."),
];

/// Whom to ask, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    /// A port or socket of clients, which answers `version`.
    Cache(ServerAddress),
    /// `--metrics-listen`, which has the page /readyz.
    Page(ServerAddress),
}

/// Ask whether a server, a router, a controller or an agent is ready
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// HOST:PORT or unix:PATH of a server or router, which is asked for its version; http://HOST:PORT of `--metrics-listen`, whose
    /// /readyz knows more
    #[arg(value_name = "ADDR", default_value = "127.0.0.1:11211", value_parser = Asked::parse)]
    asked: Asked,
    /// Time for connecting and the answer, in ms
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = value_parser!(u32).range(1..=60_000))]
    timeout: u32,
}

impl Asked {
    fn parse(text: &str) -> Result<Asked, String> {
        let (bare, is_page) = match text.strip_prefix("http://") {
            Some(rest) => (rest.trim_end_matches('/').trim_end_matches("/readyz"), true),
            None => (text, false),
        };
        let place = ServerAddress::parse(bare).ok_or("expected HOST:PORT, unix:PATH or http://HOST:PORT")?;
        Ok(if is_page { Asked::Page(place) } else { Asked::Cache(place) })
    }
}

/// Asks once.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let deadline = Deadline::within(Duration::from_millis(arguments.timeout.into()));
    let answer = exchange(&arguments.asked, &deadline)
        .map_err(|error| Failure::other(error).with_status(STATUS_NO_ANSWER))?;
    let judged = match arguments.asked {
        Asked::Cache(_) => of_cache(&answer),
        Asked::Page(_) => of_page(&answer),
    };
    match judged {
        Ok(()) => print(b"ready\n").map(|()| ExitCode::SUCCESS),
        Err(why) => Err(Failure::other(anyhow::anyhow!("{why}")).with_status(STATUS_NOT_READY)),
    }
}

/// What is answered, until it is whole: a line of a cache, all that comes of a page.
fn exchange(asked: &Asked, deadline: &Deadline) -> io::Result<Vec<u8>> {
    let (place, request): (_, &[u8]) = match asked {
        Asked::Cache(place) => (place, b"version\r\n"),
        Asked::Page(place) => {
            (place, b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        }
    };
    let mut wire = Wire::connect(place, None, deadline)?;
    wire.send(request, deadline)?;
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    let is_whole = |answer: &[u8]| matches!(asked, Asked::Cache(_)) && answer.ends_with(b"\n");
    while !is_whole(&answer) && answer.len() < ANSWER_LEN_MAX {
        match wire.receive(&mut piece, deadline) {
            Ok(len) => answer.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// A server that wants a login answers nothing else before it, and serves.
fn of_cache(answer: &[u8]) -> Result<(), String> {
    let answer = String::from_utf8_lossy(answer);
    if answer.starts_with("VERSION ") || answer.starts_with("CLIENT_ERROR unauthenticated") {
        return Ok(());
    }
    if answer.starts_with('\u{15}') {
        return Err(
            "expected `VERSION …`, found TLS: ask http://HOST:PORT of --metrics-listen instead".to_owned()
        );
    }
    let found = answer.lines().next().unwrap_or_default();
    let hint = if found.starts_with("HTTP/") {
        ": that is a page of --metrics-listen; ask it as http://HOST:PORT"
    } else {
        ""
    };
    Err(format!("expected `VERSION …`, found `{found}`{hint}"))
}

fn of_page(answer: &[u8]) -> Result<(), String> {
    let answer = String::from_utf8_lossy(answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    match head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)) {
        Some("200") => Ok(()),
        // `not ready: …`
        Some("503") if !body.is_empty() => Err(body.trim_end().to_owned()),
        Some(status) => Err(format!(
            "expected the page /readyz, found status {status}: is that the address of --metrics-listen?"
        )),
        None => {
            Err("expected the page /readyz, found no HTTP: is that the address of --metrics-listen?"
                .to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// The exit status and the message for a server that answers so.
    #[track_caller]
    fn check(scheme: &str, answer: &'static [u8], expected: Result<(), (u8, &str)>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 256]);
            let _ = stream.write_all(answer);
        });
        let asked = Asked::parse(&format!("{scheme}{address}")).expect("an address");
        let found = run(&Arguments { asked, timeout: 10_000 });
        server.join().expect("it ends");
        let found = found.map(drop).map_err(|failure| (failure.status(), failure.to_string()));
        assert_eq!(found, expected.map_err(|(status, why)| (status, why.to_owned())));
    }

    #[test]
    fn a_cache_is_ready_if_it_has_a_version_or_wants_a_login() {
        check("", b"VERSION 1.6.45\r\n", Ok(()));
        check("", b"CLIENT_ERROR unauthenticated\r\n", Ok(()));
        check(
            "",
            b"ERROR Too many open connections\r\n",
            Err((1, "expected `VERSION …`, found `ERROR Too many open connections`")),
        );
        check("", b"", Err((69, "the connection was closed")));
        // An alert: `unexpected_message`.
        check(
            "",
            b"\x15\x03\x03\x00\x02\x02\x0a",
            Err((1, "expected `VERSION …`, found TLS: ask http://HOST:PORT of --metrics-listen instead")),
        );
    }

    #[test]
    fn a_page_says_why_it_is_not_ready() {
        check("http://", b"HTTP/1.1 200 OK\r\n\r\nready\n", Ok(()));
        check(
            "http://",
            b"HTTP/1.1 503 Service Unavailable\r\n\r\nnot ready: 1 of 4 threads have started\n",
            Err((1, "not ready: 1 of 4 threads have started")),
        );
        let other = "expected the page /readyz, found status 404: is that the address of --metrics-listen?";
        check("http://", b"HTTP/1.1 404 Not Found\r\n\r\n", Err((1, other)));
        let other = "expected the page /readyz, found no HTTP: is that the address of --metrics-listen?";
        check("http://", b"ERROR\r\n", Err((1, other)));
    }

    #[test]
    fn who_does_not_answer_has_a_status_of_its_own() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let asked = Asked::parse(&listener.local_addr().expect("bound").to_string()).expect("an address");
        let failure = run(&Arguments { asked: asked.clone(), timeout: 20 }).expect_err("silent");
        assert_eq!((failure.status(), failure.to_string()), (69, "no answer within 20 ms".to_owned()));
        drop(listener);
        assert_eq!(run(&Arguments { asked, timeout: 10_000 }).expect_err("gone").status(), 69);
    }

    #[test]
    fn addresses_say_what_is_asked() {
        let page = |text: &str| Asked::parse(text).map(|asked| matches!(asked, Asked::Page(_)));
        for text in ["http://h:1", "http://h:1/", "http://h:1/readyz", "http://[::1]:1"] {
            assert_eq!(page(text), Ok(true), "{text}");
        }
        for text in ["h:1", "unix:/run/evenkeel/cache"] {
            assert_eq!(page(text), Ok(false), "{text}");
        }
        for text in ["h", "https://h:1", "http://h", ""] {
            assert!(page(text).is_err(), "{text}");
        }
    }
}
