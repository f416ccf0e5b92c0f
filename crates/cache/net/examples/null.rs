//! A server without work: the lower bound for the cost of a real one on the same sockets.
//!
//! It answers each line with the same value under the key of the line, or skips sets of one fixed size.
//!
//! ```text
//! null [--port PORT] [--udp PORT] [--unix PATH] [--tls PORT:FILE] [--workers N] [--driver auto|epoll|uring]
//!      [--body BYTES | --reply-file FILE] [--set-body BYTES]
//! ```

mod support;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use net::{Datagram, Handler, Listen, Next, Opened, Progress, Turn};
use stdx::gather::Gather;
use support::{CommandLine, number};
use tls::{Acceptor, CertificateFiles, ListenerTls, PeerCheck, TlsSettings};

/// Every line is a get, and every get has this reply. With a set body, every line is a set's head, whose body
/// and line end follow, and the reply is `STORED`.
struct Null {
    reply: Reply,
    set_body: Option<usize>,
    /// A datagram with a reply.
    datagram: Vec<u8>,
}

/// The frame before a request or a reply in a datagram (protocol.txt, "UDP protocol").
const FRAME_LEN: usize = 8;

/// The reply to a line.
#[derive(Clone)]
enum Reply {
    /// `VALUE`, the line's key, and this.
    Value(Arc<[u8]>),
    /// The same for all lines.
    Fixed(Arc<[u8]>),
}

impl Reply {
    #[inline]
    fn write(&self, line: &[u8], output: &mut Vec<u8>) {
        match self {
            Reply::Value(rest) => {
                let key = line.strip_prefix(b"get ").unwrap_or(line).trim_ascii_end();
                output.extend_from_slice(b"VALUE ");
                output.extend_from_slice(key);
                output.extend_from_slice(rest);
            }
            Reply::Fixed(reply) => output.extend_from_slice(reply),
        }
    }
}

/// Bytes of a set's body, with its line end, that are still to arrive.
type BodyLeft = usize;

impl Handler for Null {
    type Connection = BodyLeft;
    type Held = Arc<[u8]>;

    fn on_open(&mut self, _opened: &Opened, _turn: &mut Turn<Arc<[u8]>>) -> BodyLeft {
        0
    }

    #[inline]
    fn on_bytes(
        &mut self,
        left: &mut BodyLeft,
        input: &[u8],
        output: &mut Gather<Arc<[u8]>>,
        _turn: &mut Turn<Arc<[u8]>>,
    ) -> Progress {
        match self.set_body {
            None => {
                let lines = input.split_inclusive(|&byte| byte == b'\n').filter(|line| line.ends_with(b"\n"));
                let answer = |consumed, line: &[u8]| {
                    self.reply.write(line, output.copied());
                    consumed + line.len()
                };
                Progress { consumed: lines.fold(0, answer), next: Next::Read }
            }
            Some(body) => Progress { consumed: swallow(left, input, body, output), next: Next::Read },
        }
    }

    fn on_datagram(&mut self, datagram: &Datagram<'_>, turn: &mut Turn<Arc<[u8]>>) {
        let Some((frame, line)) = datagram.bytes.split_first_chunk::<FRAME_LEN>() else { return };
        self.datagram.clear();
        self.datagram.extend_from_slice(frame);
        self.reply.write(line, &mut self.datagram);
        turn.send_datagram(datagram.from, &self.datagram);
    }
}

/// Skips sets, and returns how much of `input` they were.
fn swallow(left: &mut BodyLeft, input: &[u8], body: usize, output: &mut Gather<Arc<[u8]>>) -> usize {
    let mut at = 0;
    loop {
        if *left > 0 {
            let taken = (*left).min(input.len() - at);
            at += taken;
            *left -= taken;
            if *left > 0 {
                return at;
            }
            output.copy(b"STORED\r\n");
        }
        let Some(line) = input[at..].iter().position(|&byte| byte == b'\n') else { return at };
        at += line + 1;
        *left = body + 2;
    }
}

fn serve() -> Result<(), String> {
    let mut command_line = CommandLine::new();
    let (mut reply, mut set_body) = (reply_of(100), None);
    command_line.parse(std::env::args().skip(1), |command_line, flag, value| {
        match flag {
            "--udp" => {
                let address = SocketAddr::from(([127, 0, 0, 1], number(flag, value)?));
                command_line.listen.push(Listen::Udp(address));
            }
            "--unix" => command_line.listen.push(Listen::Unix { path: value.into(), mode: 0o700 }),
            "--body" => reply = reply_of(number(flag, value)?),
            "--reply-file" => {
                let bytes = std::fs::read(value).map_err(|error| format!("read {value}: {error}"))?;
                reply = Reply::Fixed(bytes.into());
            }
            // A port for TLS, and a file with a certificate and its key.
            "--tls" => {
                let (port, path) = value.split_once(':').ok_or("--tls takes PORT:FILE")?;
                let address = SocketAddr::from(([127, 0, 0, 1], number(flag, port)?));
                command_line.options.acceptors.resize(command_line.listen.len(), None);
                command_line.options.acceptors.push(Some(acceptor(path.as_ref())?));
                command_line.listen.push(Listen::Tcp(address));
            }
            "--set-body" => set_body = Some(number(flag, value)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if command_line.listen.is_empty() {
        return Err("nowhere to listen: give --port or --unix".to_owned());
    }
    command_line.serve(|| Null { reply: reply.clone(), set_body, datagram: Vec::new() })
}

/// What accepts sessions with the certificate and the key in a file.
fn acceptor(path: &Path) -> Result<Arc<Acceptor>, String> {
    let certificates = vec![CertificateFiles { chain: path.to_owned(), key: None }];
    let (listener, _) = ListenerTls::load(TlsSettings::new(certificates)).map_err(support::describe)?;
    listener.acceptor(PeerCheck::Never).map(Arc::new).map_err(support::describe)
}

/// The reply to a get that hits a value of `body` bytes.
fn reply_of(body: usize) -> Reply {
    let mut bytes = format!(" 0 {body}\r\n").into_bytes();
    bytes.resize(bytes.len() + body, b'x');
    bytes.extend_from_slice(b"\r\nEND\r\n");
    Reply::Value(bytes.into())
}

fn main() -> ExitCode {
    support::exit("null", serve())
}
