//! A thread that brings deletes to one server and reports what has become of them.
//!
//! One thread for each server: one that hangs keeps no other waiting, not even while its name is looked up. A batch of deletes
//! goes out at once, followed by `version`. The reply to that shows that each delete had one reply, no more and no less.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustls::ClientConfig;
use wire::{Deadline, ServerAddress, Wire};

/// A line of a reply; memcached's are shorter.
const REPLY_LINE_MAX: usize = 2048;
const RECEIVE_LEN: usize = 16 * 1024;

/// The first byte of an alert of TLS.
const TLS_ALERT: u8 = 0x15;

/// Enough for a TLS handshake and for the C library's lookup of a name.
const STACK_LEN: usize = 512 * 1024;

/// A delete on its way.
#[derive(Debug)]
pub(super) struct SpooledLine {
    /// The line, to be kept if it does not get there.
    pub(super) line: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// What a courier does next.
pub(super) enum Errand {
    /// Brings these.
    Send(Vec<SpooledLine>),
    /// Asks whether the server answers.
    Ask,
}

/// The outcome of an errand.
#[derive(Debug, Default)]
pub(super) struct CourierReport {
    pub(super) server: Arc<str>,
    /// Deletes that the server has carried out.
    pub(super) done: u64,
    /// The others.
    pub(super) undone: Vec<SpooledLine>,
    /// An error with which the server has answered one of them.
    pub(super) refusal: Option<String>,
    /// Why the server is not to be asked again now.
    pub(super) failure: Option<String>,
}

/// How servers are spoken to.
#[derive(Clone)]
pub(super) struct Dialling {
    pub(super) tls: Option<Arc<ClientConfig>>,
    /// Time for a connection, and again for all replies of a batch.
    pub(super) within: Duration,
}

/// A courier; its thread ends with this value, after its errand.
pub(super) struct Courier(Sender<Errand>);

impl Courier {
    pub(super) fn start(
        server: Arc<str>,
        address: ServerAddress,
        dialling: Dialling,
        reports: Sender<CourierReport>,
    ) -> io::Result<Courier> {
        let (sender, errands) = channel();
        let round = Round { server, address, dialling, link: None };
        let thread = thread::Builder::new().name("courier".to_owned()).stack_size(STACK_LEN);
        thread.spawn(move || round.run(&errands, &reports))?;
        Ok(Courier(sender))
    }

    pub(super) fn send(&self, errand: Errand) {
        // The thread takes errands as long as this value lives.
        let _ = self.0.send(errand);
    }
}

struct Round {
    server: Arc<str>,
    address: ServerAddress,
    dialling: Dialling,
    link: Option<Link>,
}

impl Round {
    fn run(mut self, errands: &Receiver<Errand>, reports: &Sender<CourierReport>) {
        for errand in errands {
            let lines = match errand {
                Errand::Send(lines) => lines,
                Errand::Ask => Vec::new(),
            };
            // Nobody listens any more at the end of the process.
            let _ = reports.send(self.bring(lines));
        }
    }

    fn bring(&mut self, lines: Vec<SpooledLine>) -> CourierReport {
        let mut request = Vec::new();
        for line in &lines {
            request.extend_from_slice(b"delete ");
            request.extend_from_slice(&line.key);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"version\r\n");
        let was_open = self.link.is_some();
        let mut replies = self.exchange(&request, lines.len());
        // The server may have closed an idle connection, which shows when it is used.
        if was_open && replies.failure.is_some() && replies.is_done.is_empty() {
            replies = self.exchange(&request, lines.len());
        }
        let Replies { is_done, refusal, failure } = replies;
        let mut report = CourierReport { refusal, failure, ..CourierReport::default() };
        report.server = Arc::clone(&self.server);
        let mut unanswered = Vec::new();
        for (index, line) in lines.into_iter().enumerate() {
            match is_done.get(index) {
                Some(true) => report.done += 1,
                Some(false) => report.undone.push(line),
                None => unanswered.push(line),
            }
        }
        // If it was the first of them that broke the connection, it comes last the next time, and keeps no other back.
        let by = unanswered.len().min(1);
        unanswered.rotate_left(by);
        report.undone.append(&mut unanswered);
        report
    }

    fn exchange(&mut self, request: &[u8], count: usize) -> Replies {
        let mut replies = Replies::default();
        let exchanged = self.link().and_then(|link| link.exchange(request, count, &mut replies));
        if let Err(error) = exchanged {
            self.link = None;
            replies.failure = Some(error.to_string());
        }
        replies
    }

    fn link(&mut self) -> io::Result<&mut Link> {
        if self.link.is_none() {
            let deadline = Deadline::within(self.dialling.within);
            let wire = Wire::connect(&self.address, self.dialling.tls.as_ref(), &deadline)?;
            self.link = Some(Link { wire, within: self.dialling.within, received: Vec::new() });
        }
        Ok(self.link.as_mut().expect("it has just been made"))
    }
}

/// Replies to a batch, as far as there are any.
#[derive(Default)]
struct Replies {
    /// For each delete that was answered, whether it was carried out.
    is_done: Vec<bool>,
    refusal: Option<String>,
    failure: Option<String>,
}

/// A connection, and what was received but not read yet.
struct Link {
    wire: Wire,
    within: Duration,
    received: Vec<u8>,
}

impl Link {
    fn exchange(&mut self, request: &[u8], count: usize, replies: &mut Replies) -> io::Result<()> {
        let deadline = Deadline::within(self.within);
        self.wire.send(request, &deadline)?;
        for _ in 0..count {
            let line = self.line(&deadline)?;
            let is_done = line == b"DELETED" || line == b"NOT_FOUND";
            if !is_done && !is_error(&line) {
                return Err(unexpected(&line));
            }
            if !is_done {
                replies.refusal = Some(line.escape_ascii().to_string());
            }
            replies.is_done.push(is_done);
        }
        let last = self.line(&deadline)?;
        if !last.starts_with(b"VERSION ") || !self.received.is_empty() {
            // Which reply belongs to which delete is not known, then.
            replies.is_done.clear();
            return Err(unexpected(&last));
        }
        Ok(())
    }

    /// The next line, without its end.
    fn line(&mut self, deadline: &Deadline) -> io::Result<Vec<u8>> {
        loop {
            if let Some(at) = self.received.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.received.drain(..=at).collect();
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(line);
            }
            if self.received.len() >= REPLY_LINE_MAX {
                return Err(unexpected(&self.received));
            }
            let len = self.received.len();
            self.received.resize(len + RECEIVE_LEN, 0);
            let count = self.wire.receive(&mut self.received[len..], deadline);
            self.received.truncate(len + count.as_ref().unwrap_or(&0));
            match count {
                // A server with TLS says something, and closes.
                Err(_) if self.received.first() == Some(&TLS_ALERT) => {
                    return Err(unexpected(&self.received));
                }
                count => _ = count?,
            }
        }
    }
}

fn is_error(line: &[u8]) -> bool {
    line == b"ERROR" || line.starts_with(b"SERVER_ERROR") || line.starts_with(b"CLIENT_ERROR")
}

fn unexpected(line: &[u8]) -> io::Error {
    let hint = if line.first() == Some(&TLS_ALERT) { " (TLS? use --tls)" } else { "" };
    let shown = line[..line.len().min(40)].escape_ascii();
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("expected a reply to `delete`, received `{shown}`{hint}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// What becomes of deletes of `a`, `b` and `c` at a server that answers each connection with this text, and closes. The
    /// keys that are left come in the order in which they are tried again.
    #[track_caller]
    fn check(answers: &'static [&'static str], done: u64, left: &str, failure: Option<&str>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let name: Arc<str> = listener.local_addr().expect("an address").to_string().into();
        let server = thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut request = [0; 10 * 3 + 9];
                stream.read_exact(&mut request).expect("a request");
                assert_eq!(request, *b"delete a\r\ndelete b\r\ndelete c\r\nversion\r\n");
                stream.write_all(answer.as_bytes()).expect("an answer");
            }
        });
        let (sender, reports) = channel();
        let address = ServerAddress::parse(&name).expect("an address");
        let dialling = Dialling { tls: None, within: Duration::from_secs(60) };
        let courier = Courier::start(name, address, dialling, sender).expect("a thread");
        let mut report = CourierReport::default();
        for _ in answers {
            let line = |key: &str| SpooledLine { line: Vec::new(), key: key.as_bytes().to_vec() };
            courier.send(Errand::Send(["a", "b", "c"].map(line).into()));
            report = reports.recv().expect("a report");
        }
        let keys: Vec<u8> = report.undone.iter().flat_map(|line| line.key.clone()).collect();
        assert_eq!((report.done, &*String::from_utf8_lossy(&keys)), (done, left));
        let found = report.failure.as_deref().unwrap_or_default();
        assert!(failure.map_or(found.is_empty(), |failure| found.contains(failure)), "{found}");
        drop(courier);
        server.join().expect("no panic");
    }

    #[test]
    fn each_delete_has_the_reply_of_its_own() {
        check(&["DELETED\r\nNOT_FOUND\r\nDELETED\r\nVERSION 1\r\n"], 3, "", None);
        check(&["DELETED\r\nSERVER_ERROR busy\r\nDELETED\r\nVERSION 1\r\n"], 2, "b", None);
    }

    #[test]
    fn replies_that_do_not_belong_together_are_not_believed() {
        let unexpected = Some("expected a reply to `delete`, received");
        check(&["DELETED\r\nDELETED\r\nDELETED\r\nDELETED\r\nVERSION 1\r\n"], 0, "bca", unexpected);
        check(&["DELETED\r\nDELETED\r\nDELETED\r\nVERSION 1\r\nDELETED\r\n"], 0, "bca", unexpected);
        check(&["DELETED\r\nSTORED\r\nDELETED\r\nVERSION 1\r\n"], 1, "cb", unexpected);
        check(&["DELETED\r\nDELETED\r\nVERSION 1\r\n"], 2, "c", unexpected);
    }

    #[test]
    fn the_delete_that_breaks_a_connection_comes_last_the_next_time() {
        check(&["DELETED\r\n"], 1, "cb", Some("closed"));
        check(&[""], 0, "bca", Some("closed"));
        check(&["\x15\x03\x03\x00\x02\x02\x46"], 0, "bca", Some("(TLS? use --tls)"));
    }

    #[test]
    fn a_connection_that_was_closed_meanwhile_is_made_again() {
        const TWICE: [&str; 2] = [
            "DELETED\r\nDELETED\r\nDELETED\r\nVERSION 1\r\n",
            "NOT_FOUND\r\nNOT_FOUND\r\nNOT_FOUND\r\nVERSION 1\r\n",
        ];
        check(&TWICE, 3, "", None);
    }
}
