//! The shared start of the examples: common flags, and serving until the process is ended.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;

use net::{DriverChoice, Handler, Listen, Network, Options};

/// The flags that the examples share: `--port PORT`, `--workers N`, `--driver auto|epoll|uring`.
pub(crate) struct CommandLine {
    pub(crate) listen: Vec<Listen>,
    pub(crate) options: Options,
}

impl CommandLine {
    /// One worker, and room for as many connections as a benchmark makes.
    pub(crate) fn new() -> CommandLine {
        let most = 100_000;
        let options = Options { workers: 1, connections_max: most, dialled_max: most, ..Options::default() };
        CommandLine { listen: Vec::new(), options }
    }

    /// Reads all `words`, of which `own` takes the flags that are not common: it returns whether a flag exists.
    pub(crate) fn parse(
        &mut self,
        mut words: impl Iterator<Item = String>,
        mut own: impl FnMut(&mut CommandLine, &str, &str) -> Result<bool, String>,
    ) -> Result<(), String> {
        while let Some(flag) = words.next() {
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--port" => {
                    let port: u16 = value.parse().map_err(|_| format!("{value} is no port"))?;
                    self.listen.push(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], port))));
                }
                "--workers" => self.options.workers = number::<usize>(&flag, &value)?.max(1),
                "--driver" => self.options.driver = driver(&flag, &value)?,
                _ if own(self, &flag, &value)? => {}
                _ => return Err(format!("no such flag: {flag}")),
            }
        }
        Ok(())
    }

    /// Prints the addresses, and serves with a handler for each worker.
    pub(crate) fn serve<H: Handler + Send + 'static>(
        self,
        mut handler: impl FnMut() -> H,
    ) -> Result<(), String> {
        let workers = self.options.workers;
        let network = Network::bind(&self.listen, self.options).map_err(describe)?;
        for address in network.addresses() {
            println!("{address}");
        }
        let handlers = (0..workers).map(|_| handler()).collect();
        network.start(handlers).and_then(net::Running::join).map(drop).map_err(describe)
    }
}

/// A flag's number.
pub(crate) fn number<N: FromStr>(flag: &str, value: &str) -> Result<N, String> {
    value.parse().map_err(|_| format!("{flag} needs a number, not {value:?}"))
}

fn driver(flag: &str, value: &str) -> Result<DriverChoice, String> {
    match value {
        "auto" => Ok(DriverChoice::Auto),
        "epoll" => Ok(DriverChoice::Epoll),
        "uring" => Ok(DriverChoice::Uring),
        _ => Err(format!("{flag} is auto, epoll or uring, not {value:?}")),
    }
}

/// The exit status of an example; an error goes to standard error behind its name.
pub(crate) fn exit(example: &str, outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{example}: {message}");
            ExitCode::FAILURE
        }
    }
}

/// An error and its cause.
pub(crate) fn describe(error: impl std::error::Error) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}
