//! A report over HTTP, from a server that may be slow, or something else: within two seconds and four megabytes.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use os::clock::Stopwatch;

/// Time for one report: connecting, and everything until its end.
const TIME_MAX: Duration = Duration::from_secs(2);
/// A report has some 20 KB, with 60 of the longest keys 80.
const LEN_MAX: usize = 4 << 20;
/// The port of `--metrics-listen` without one.
const PORT_DEFAULT: u16 = 9150;

/// An address to fetch from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    host: String,
    port: u16,
}

impl Place {
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Parses `[http://]host[:port][/]`, an IPv6 address in brackets if a port follows.
    pub(super) fn parse(text: &str) -> Result<Place, String> {
        let bare = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (host, port) = match bare.strip_prefix('[').map(|rest| rest.split_once(']')) {
            Some(Some((host, rest))) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
            Some(None) => return Err("expected `]` after the IPv6 address".into()),
            // More than one colon: an IPv6 address without a port.
            None => match bare.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                _ => (bare, Some("")),
            },
        };
        let port = match port.ok_or("expected `:port` after the IPv6 address")? {
            "" => PORT_DEFAULT,
            digits => {
                digits.parse().map_err(|_| format!("expected a port from 1 to 65535, found `{digits}`"))?
            }
        };
        match host {
            "" => Err("expected a host, found nothing".into()),
            host if host.contains(['/', ' ', '@']) => Err("expected HOST or HOST:PORT".into()),
            host => Ok(Place { host: host.to_owned(), port }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The body of the report `stats`. The error is a clause for people.
pub(super) fn fetch(place: &Place) -> Result<String, String> {
    let watch = Stopwatch::start();
    let reply = exchange(place, &watch).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("no answer within {} s", TIME_MAX.as_secs()),
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    })?;
    let reply = String::from_utf8(reply).map_err(|_| "the answer is no text".to_owned())?;
    let not_ours = "the answer is not that of `--metrics-listen`";
    let (head, body) = reply.split_once("\r\n\r\n").ok_or(not_ours)?;
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).ok_or(not_ours)?;
    match status {
        "200" => Ok(body.to_owned()),
        status => Err(format!("{not_ours} (status {status})")),
    }
}

/// Everything that the server sends until it closes.
fn exchange(place: &Place, watch: &Stopwatch) -> io::Result<Vec<u8>> {
    let mut stream = connect(place, watch)?;
    stream.set_write_timeout(Some(left(watch)?))?;
    let request = format!("GET /api/v1/stats HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut reply, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        stream.set_read_timeout(Some(left(watch)?))?;
        match stream.read(&mut piece)? {
            0 => return Ok(reply),
            len => reply.extend_from_slice(&piece[..len]),
        }
        if reply.len() > LEN_MAX {
            return Err(io::Error::other("the answer is too long"));
        }
    }
}

fn connect(place: &Place, watch: &Stopwatch) -> io::Result<TcpStream> {
    let mut problem = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (&*place.host, place.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(watch)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

/// The time that is left, which is never zero.
fn left(watch: &Stopwatch) -> io::Result<Duration> {
    TIME_MAX.checked_sub(watch.passed()).filter(|left| !left.is_zero()).ok_or(ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[track_caller]
    fn check_place(text: &str, shown: &str) {
        assert_eq!(Place::parse(text).map(|place| place.to_string()), Ok(shown.to_owned()), "{text}");
    }

    #[test]
    fn places_are_hosts_with_or_without_a_port() {
        check_place("cache-1", "cache-1:9150");
        check_place("http://cache-1:80/", "cache-1:80");
        check_place("::1", "[::1]:9150");
        check_place("[::1]:7", "[::1]:7");
        check_place("[::1]", "[::1]:9150");
        for refused in ["", "a:b", "a:70000", "[::1", "[::1]x", "a/metrics", ":1"] {
            assert!(Place::parse(refused).is_err(), "{refused}");
        }
    }

    /// What `fetch` makes of a server that answers so to the first request, and then closes.
    fn answered(answer: &'static [u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = Place { host: "127.0.0.1".into(), port: listener.local_addr().expect("bound").port() };
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        });
        fetch(&place)
    }

    #[test]
    fn answers_that_are_no_reports_are_named() {
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}"), Ok("{}".into()));
        let not_ours = "the answer is not that of `--metrics-listen`";
        assert_eq!(answered(b"HTTP/1.1 404 Not Found\r\n\r\n"), Err(format!("{not_ours} (status 404)")));
        for other in [&b"ERROR\r\n"[..], b"", b"HTTP/1.1 \r\n\r\n", b"HTTP/1.1 2"] {
            assert_eq!(answered(other), Err(not_ours.into()));
        }
        assert_eq!(answered(b"\xff\xfe\r\n\r\n"), Err("the answer is no text".into()));
    }

    #[test]
    fn an_answer_of_many_megabytes_is_given_up_before_it_is_kept() {
        let mut answer = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        answer.resize(10 << 20, b'[');
        let too_long = answered(answer.leak());
        // On a busy machine the time may be over first.
        let expected = ["the answer is too long", "no answer within 2 s"].map(|why| Err(why.to_owned()));
        assert!(expected.contains(&too_long), "{:?}", too_long.map(|body| body.len()));
        // As deep as it is long.
        let nested = "[".repeat(1 << 20);
        assert!(crate::top::reading::ServerReading::parse(&nested).is_err());
    }

    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        // It listens, and nobody accepts.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let place = Place { host: "127.0.0.1".into(), port };
        assert_eq!(fetch(&place), Err("no answer within 2 s".into()));
        drop(listener);
        assert_eq!(fetch(&place), Err("connection refused".into()));
    }
}
