//! A scripted etcd: members on ports of their own that answer one expected request after the other.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use control::register::{EtcdLimits, EtcdRegister, EtcdSettings, EtcdUser};

use crate::register::PATIENCE;

/// What a member does with a request.
#[derive(Clone)]
pub(crate) enum Act {
    /// HTTP 200 with this body.
    Say(String),
    /// This status with this body.
    Fail(u16, String),
    /// Nothing, and the connection stays open.
    Hang,
    /// Messages; then the connection is closed without a last chunk.
    StreamCut(Vec<String>),
    /// Messages; then the stream stays open and silent.
    StreamOpen(Vec<String>),
}

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Came {
    pub(crate) member: usize,
    pub(crate) token: Option<String>,
    pub(crate) body: serde_json::Value,
}

#[derive(Default)]
struct State {
    expected: VecDeque<(String, Act)>,
    came: Vec<Came>,
    /// Requests that the script did not expect.
    wrong: Vec<String>,
    /// Connections that are kept open.
    open: Vec<TcpStream>,
}

/// The members and their script.
pub(crate) struct ScriptedEtcd {
    addresses: Vec<SocketAddr>,
    state: Arc<Mutex<State>>,
}

impl ScriptedEtcd {
    /// Members that expect these requests, by the end of their path, in this order, whichever of them gets them.
    pub(crate) fn start(members: usize, script: Vec<(&str, Act)>) -> ScriptedEtcd {
        let expected = script.into_iter().map(|(path, act)| (path.to_owned(), act)).collect();
        let state = Arc::new(Mutex::new(State { expected, ..State::default() }));
        let addresses = (0..members).map(|member| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = listener.local_addr().expect("its address");
            let state = Arc::clone(&state);
            // It ends with the test's process.
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let state = Arc::clone(&state);
                    thread::spawn(move || serve(member, stream, &state));
                }
            });
            address
        });
        ScriptedEtcd { addresses: addresses.collect(), state }
    }

    /// A client whose attempts last until a test fails, so that no delay of this machine is taken for a silent member.
    pub(crate) fn patient(&self) -> EtcdRegister {
        self.register(EtcdLimits {
            attempt: PATIENCE,
            operation: PATIENCE,
            range: PATIENCE,
            ..EtcdLimits::default()
        })
    }

    /// A client that gives up a silent member after a second, and a call after a minute.
    pub(crate) fn impatient(&self) -> EtcdRegister {
        let attempt = Duration::from_secs(1);
        self.register(EtcdLimits { attempt, operation: PATIENCE, ..EtcdLimits::default() })
    }

    pub(crate) fn register(&self, limits: EtcdLimits) -> EtcdRegister {
        EtcdRegister::new(&EtcdSettings { limits, ..self.settings() }).expect("a client")
    }

    pub(crate) fn register_as(&self, user: EtcdUser) -> EtcdRegister {
        let limits = EtcdLimits { attempt: PATIENCE, ..EtcdLimits::default() };
        EtcdRegister::new(&EtcdSettings { user: Some(user), limits, ..self.settings() }).expect("a client")
    }

    fn settings(&self) -> EtcdSettings {
        let members = self.addresses.iter().map(|address| format!("http://{address}")).collect();
        EtcdSettings { members, ..EtcdSettings::default() }
    }

    /// The requests, when the script is over.
    #[track_caller]
    pub(crate) fn finish(self) -> Vec<Came> {
        let state = self.state.lock().expect("no panic");
        assert_eq!(state.wrong, Vec::<String>::new());
        let left: Vec<&String> = state.expected.iter().map(|(path, _)| path).collect();
        assert!(left.is_empty(), "not asked: {left:?}");
        state.came.clone()
    }
}

fn serve(member: usize, mut stream: TcpStream, state: &Mutex<State>) {
    let Some((path, came)) = request(member, &stream) else { return };
    let act = {
        let mut state = state.lock().expect("no panic");
        state.came.push(came);
        match state.expected.pop_front() {
            Some((expected, act)) if path.ends_with(&expected) => act,
            other => {
                let expected = other.map(|(expected, _)| expected);
                state.wrong.push(format!("{path} came, expected was {expected:?}"));
                Act::Fail(400, "{}".to_owned())
            }
        }
    };
    // A client that has gone has its answer, or its test tells.
    let _ = match &act {
        Act::Say(body) => whole(&mut stream, 200, body),
        Act::Fail(status, body) => whole(&mut stream, *status, body),
        Act::Hang => Ok(()),
        Act::StreamCut(messages) | Act::StreamOpen(messages) => pieces(&mut stream, messages),
    };
    if matches!(act, Act::Hang | Act::StreamOpen(_)) {
        state.lock().expect("no panic").open.push(stream);
    }
}

fn request(member: usize, stream: &TcpStream) -> Option<(String, Came)> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let (mut len, mut token) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else { break };
        match &*name.to_ascii_lowercase() {
            "content-length" => len = value.parse().ok()?,
            "authorization" => token = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    let path = first.split_whitespace().nth(1)?.to_owned();
    Some((path, Came { member, token, body: serde_json::from_slice(&body).ok()? }))
}

fn whole(stream: &mut TcpStream, status: u16, body: &str) -> std::io::Result<()> {
    let len = body.len();
    write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}")
}

fn pieces(stream: &mut TcpStream, messages: &[String]) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    for message in messages {
        write!(stream, "{:x}\r\n{message}\n\r\n", message.len() + 1)?;
    }
    stream.flush()
}
