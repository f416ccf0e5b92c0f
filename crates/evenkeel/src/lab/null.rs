//! `evenkeel lab null`: a server or proxy without work, to compare real ones with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use clap::builder::PossibleValuesParser;
use net::DriverChoice;
use null::{BoundNull, NullAnswer, NullOptions, RunningNull};
use os::signals::Signals;

use super::ending::USAGE;
use crate::failure::{Failure, say};
use crate::process::resources::raise_open_files_to_hard_limit;
use crate::process::uring;

/// Exit statuses of `null`.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "It was ended by a signal, as requested."),
    USAGE,
    (
        "71",
        "The system refused: an address is taken, a file cannot be read, io_uring was asked for and is not there.",
    ),
    ("1", "Anything else: a certificate cannot be used."),
];

/// A server or proxy without work: the least that a real one costs on the same sockets
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// The port
    #[arg(long, value_name = "NUM", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// The address of the port
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// A socket file besides
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Answer datagrams at the port, too
    #[arg(long, conflicts_with = "to")]
    udp: bool,
    /// Encrypted connections: a PEM file with a certificate and its key
    #[arg(long, value_name = "FILE", conflicts_with = "to")]
    tls: Option<PathBuf>,
    /// Bytes of the value under every key; whatever is stored is skipped
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=VALUE_LEN_MAX))]
    value_size: u32,
    /// Be a proxy of this server, without routing: with several, each client gets one of them in turn
    #[arg(long, value_name = "IP:PORT", conflicts_with = "value_size")]
    to: Vec<SocketAddr>,
    /// Threads that answer
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// How receives and sends reach the kernel: uring (io_uring), epoll, or auto for io_uring where the kernel allows it
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = PossibleValuesParser::new(["auto", "epoll", "uring"]))]
    driver: String,
}

/// memcached's longest value.
const VALUE_LEN_MAX: i64 = 1 << 20;

/// Files of as many connections as a benchmark makes, and some more.
const OPEN_FILES_MAX: u64 = 200_000;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // In all threads: one of them waits for a signal.
    let signals = Signals::block().map_err(|error| Failure::system("block signals", error))?;
    // Whoever may not raise the limit has fewer connections.
    let _ = raise_open_files_to_hard_limit(OPEN_FILES_MAX);
    let acceptor = arguments.tls.as_deref().map(null::acceptor).transpose();
    let driver = match arguments.driver.as_str() {
        "epoll" => DriverChoice::Epoll,
        "uring" => DriverChoice::Uring,
        _ => DriverChoice::Auto,
    };
    let options = NullOptions {
        address: SocketAddr::new(arguments.host, arguments.port),
        with_udp: arguments.udp,
        socket: arguments.socket.clone(),
        acceptor: acceptor.map_err(Failure::other)?,
        workers: arguments.workers.into(),
        driver,
    };
    let answer = match arguments.to.is_empty() {
        true => NullAnswer::Value(arguments.value_size as usize),
        false => NullAnswer::Of(arguments.to.clone()),
    };
    let bound = BoundNull::bind(options, answer)?;
    let stop = bound.stop();
    let ends = move || {
        signals.wait();
        stop.stop();
    };
    let waiting = thread::Builder::new().name("signals".into()).spawn(ends);
    waiting.map_err(|error| Failure::system("start a thread", error))?;
    let running = bound.start()?;
    say(format_args!("evenkeel: lab null: {}", serving(arguments, &running, driver)?));
    running.wait()?;
    Ok(ExitCode::SUCCESS)
}

/// What it does, in a line; an error if io_uring was asked for by name and refused.
fn serving(arguments: &Arguments, running: &RunningNull, asked: DriverChoice) -> Result<String, Failure> {
    let Arguments { host, port, .. } = arguments;
    let view = running.view();
    let driver = match (view.driver(0), asked) {
        (DriverChoice::Uring, _) => "io_uring",
        (_, DriverChoice::Uring) => {
            let why = view.uring_refused(0).map(|error| uring::refused(&error));
            let why = anyhow::anyhow!(why.unwrap_or_else(|| "the kernel refuses it".to_owned()));
            return Err(Failure::system("use io_uring (`--driver auto` does without)", why));
        }
        _ => "epoll",
    };
    let what = match arguments.to.len() {
        0 => format!("values of {} bytes", arguments.value_size),
        1 => "a proxy of 1 server".to_owned(),
        count => format!("a proxy of {count} servers"),
    };
    Ok(format!("{what} at {host}:{port}, {driver}"))
}
