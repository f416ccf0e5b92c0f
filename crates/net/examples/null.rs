//! A server without work: the lower bound for the cost of a real one on the same sockets.
//!
//! It counts newlines and answers each with the same reply, or skips sets of one fixed size.
//!
//! ```text
//! null [--port PORT] [--unix PATH] [--workers N] [--driver auto|epoll|uring]
//!      [--body BYTES | --reply-file FILE] [--set-body BYTES]
//! ```

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use net::{DriverChoice, Handler, Listen, Network, Next, Opened, Options, Progress, Turn};
use stdx::gather::Gather;

/// Every line is a get, and every get has this reply. With a set body, every line is a set's head, whose body
/// and line end follow, and the reply is `STORED`.
struct Null {
    reply: Arc<[u8]>,
    set_body: Option<usize>,
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
                let lines = input.iter().filter(|&&byte| byte == b'\n').count();
                (0..lines).for_each(|_| output.copy(&self.reply));
                Progress { consumed: input.len(), next: Next::Read }
            }
            Some(body) => Progress { consumed: swallow(left, input, body, output), next: Next::Read },
        }
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

struct Arguments {
    places: Vec<Listen>,
    options: Options,
    reply: Arc<[u8]>,
    set_body: Option<usize>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let options = Options { workers: 1, connections_max: 100_000, ..Options::default() };
    let mut arguments = Arguments { places: Vec::new(), options, reply: reply(100), set_body: None };
    while let Some(flag) = words.next() {
        let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|_| format!("{flag} needs a number, not {value:?}"));
        match flag.as_str() {
            "--port" => {
                let port = u16::try_from(number()?).map_err(|_| format!("{value} is no port"))?;
                arguments.places.push(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
            }
            "--unix" => arguments.places.push(Listen::Unix { path: value.into(), mode: 0o700 }),
            "--workers" => arguments.options.workers = number()?.max(1),
            "--driver" => {
                arguments.options.driver = match value.as_str() {
                    "auto" => DriverChoice::Auto,
                    "epoll" => DriverChoice::Epoll,
                    "uring" => DriverChoice::Uring,
                    _ => return Err(format!("{flag} is auto, epoll or uring, not {value:?}")),
                }
            }
            "--body" => arguments.reply = reply(number()?),
            "--reply-file" => {
                let bytes = std::fs::read(&value).map_err(|error| format!("read {value}: {error}"))?;
                arguments.reply = bytes.into();
            }
            "--set-body" => arguments.set_body = Some(number()?),
            _ => return Err(format!("no such flag: {flag}")),
        }
    }
    if arguments.places.is_empty() {
        return Err("nowhere to listen: give --port or --unix".to_owned());
    }
    Ok(arguments)
}

/// The reply to a get that hits a value of `body` bytes.
fn reply(body: usize) -> Arc<[u8]> {
    let mut bytes = format!("VALUE k 0 {body}\r\n").into_bytes();
    bytes.resize(bytes.len() + body, b'x');
    bytes.extend_from_slice(b"\r\nEND\r\n");
    bytes.into()
}

fn main() -> ExitCode {
    let outcome = parse(std::env::args().skip(1)).and_then(|arguments| {
        let Arguments { places, options, reply, set_body } = arguments;
        let workers = options.workers;
        let network = Network::bind(&places, options).map_err(describe)?;
        for address in network.addresses() {
            println!("{address}");
        }
        let handlers = (0..workers).map(|_| Null { reply: Arc::clone(&reply), set_body }).collect();
        network.start(handlers).and_then(net::Running::join).map_err(describe)
    });
    match outcome {
        Ok(_) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("null: {message}");
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes.
fn describe(error: net::Error) -> String {
    use std::error::Error;
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}
