//! Errors that stop a run.

use std::io;
use std::path::PathBuf;

/// Errors that end a run early. Each reads as the continuation of "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The arguments contradict each other.
    #[error("use these arguments: {0}")]
    Arguments(String),
    /// The name of the server has no address.
    #[error("find the address of {server}")]
    Resolve {
        /// The name as given.
        server: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A connection could not be opened.
    #[error("connect to {server} (connection {number} of {count}){}", advice(source))]
    Connect {
        /// The server's address.
        server: String,
        /// Which connection, from 1.
        number: usize,
        /// Of how many.
        count: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses TCP Fast Open to clients.
    #[error(
        "use TCP Fast Open: net.ipv4.tcp_fastopen must allow it to clients (`sysctl -w net.ipv4.tcp_fastopen=3`: to \
         clients and servers)"
    )]
    FastOpen(#[source] io::Error),
    /// The process may not have as many files open as there are connections.
    #[error(
        "open {connections} connections: {needed} files are needed, the hard limit is {found}; raise `ulimit -Hn`"
    )]
    Files {
        /// Connections asked for.
        connections: usize,
        /// Files that they need, with those of the process itself.
        needed: u64,
        /// The hard limit.
        found: u64,
        /// Why it was not raised.
        #[source]
        source: io::Error,
    },
    /// The certificates to trust cannot be read.
    #[error("read the certificates in {path}")]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server's certificate is not trusted, or it speaks no TLS.
    #[error("encrypt connection {connection}")]
    Handshake {
        /// The connection's number within its thread.
        connection: usize,
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The server does not answer a handshake.
    #[error("encrypt connections: the server has sent nothing for 10 s")]
    HandshakeSilence,
    /// The kernel refused io_uring or epoll.
    #[error("start the {engine} engine")]
    Engine {
        /// Which one.
        engine: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A worker could not be bound to its CPU.
    #[error("run on CPU {cpu}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Waiting for the kernel failed.
    #[error("exchange bytes with the server")]
    Exchange(#[source] io::Error),
    /// The server closed a connection during the run.
    #[error("keep connection {connection}: closed by the server")]
    Closed {
        /// The connection's number within its thread.
        connection: usize,
    },
    /// A connection broke during the run.
    #[error("keep connection {connection}")]
    Broken {
        /// The connection's number within its thread.
        connection: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A request was not answered in time.
    #[error("get a reply on connection {connection} within {ms} ms (--timeout)")]
    Timeout {
        /// The connection's number within its thread.
        connection: usize,
        /// The time it had.
        ms: u64,
    },
    /// A connection was not open in time.
    #[error("open connection {connection} anew within {ms} ms")]
    OpenTimeout {
        /// The connection's number within its thread.
        connection: usize,
        /// The time it had.
        ms: u64,
    },
    /// The server sent a line that is no reply to the request.
    #[error("understand the reply {line:?}: expected {expected}")]
    Reply {
        /// The line as received, made printable.
        line: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The server does not answer any more, and nothing else would have ended the run.
    #[error(
        "get replies: requests are pending, and the server has answered none for {seconds} s (--duration ends a run in \
         any case)"
    )]
    Silence {
        /// How long.
        seconds: u64,
    },
    /// Not every key could be stored before the run.
    #[error("store all keys first: {refused} of {keys} refused, for example {example:?}")]
    Prefill {
        /// How many stores failed.
        refused: u64,
        /// How many there are.
        keys: u64,
        /// One of the replies.
        example: String,
    },
    /// A trace cannot be opened or read.
    #[error("read {path}")]
    TraceFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line of a trace is not of the form.
    #[error("read {path}, line {line}: expected {expected}, found {found:?}")]
    Trace {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: u64,
        /// The expected form.
        expected: &'static str,
        /// The line.
        found: String,
    },
    /// The server's CPU time cannot be read.
    #[error("read the CPU time in {path}")]
    CpuTime {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file of results cannot be written.
    #[error("write {path}")]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Progress could not be written, or a thread could not be started.
    #[error("report progress or start a thread")]
    Io(#[from] io::Error),
    /// The terminal cannot be used.
    #[error("use the terminal")]
    Terminal(#[source] io::Error),
    /// The follower has ended the run before anything was measured.
    #[error("measure anything: the run was ended before its window was opened")]
    Left,
    /// An agent on another machine failed.
    #[error("use the agent {name}: it {why}")]
    Agent {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// The coordinator's own probes failed.
    #[error("probe the server from this machine")]
    Probe(#[source] Box<Error>),
    /// The coordinator sent a message that an agent cannot parse.
    #[error("understand the coordinator: {0}")]
    Talk(String),
    /// The time to begin had passed when an agent got the order.
    #[error("begin in time: the start was {ms} ms ago")]
    Late {
        /// How long ago.
        ms: u64,
    },
    /// The server of the self-test could not be started.
    #[error("run the server of the self-test")]
    SelfTest(#[source] io::Error),
    /// A worker ended without a result.
    #[error("finish: a worker thread panicked")]
    Panic,
}

/// The remedy, where the system's own message does not give it.
fn advice(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrNotAvailable => {
            ": out of local ports for this server; widen net.ipv4.ip_local_port_range or use more addresses"
        }
        _ => "",
    }
}

/// An error with its causes, in a line.
pub(crate) fn told(error: &Error) -> String {
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        told += &format!(": {source}");
        cause = source.source();
    }
    told
}

impl From<os::cpu_time::Error> for Error {
    fn from(error: os::cpu_time::Error) -> Error {
        Error::CpuTime { path: error.path, source: error.source }
    }
}
