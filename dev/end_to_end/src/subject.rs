//! The server under test: a command line that accepts memcached's flags.

use anyhow::{Context, Result, ensure};
use checkout::{target_directory, workspace};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use transcript::Version;

/// A server that can be started.
#[derive(Debug, Clone)]
pub struct ServerUnderTest {
    /// Its name in messages.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Arguments before memcached's flags.
    pub arguments: Vec<String>,
    /// Its listener speaks TLS.
    pub tls: bool,
    /// Its clients speak to a router in front of it.
    pub routed: bool,
    /// The version, if it is a memcached: an old one is not compared with transcripts about later ones.
    pub memcached: Option<Version>,
}

/// The server's driver for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketDriver {
    /// Readiness: available everywhere.
    Epoll,
    /// Completion: Linux with io_uring.
    Uring,
}

impl SocketDriver {
    /// Both, for tests that need each.
    pub const ALL: [SocketDriver; 2] = [SocketDriver::Epoll, SocketDriver::Uring];

    fn word(self) -> &'static str {
        match self {
            SocketDriver::Epoll => "epoll",
            SocketDriver::Uring => "uring",
        }
    }
}

impl ServerUnderTest {
    /// Our server, built from this checkout.
    ///
    /// # Panics
    /// If it cannot be built.
    pub fn evenkeel(driver: SocketDriver) -> ServerUnderTest {
        ServerUnderTest {
            name: format!("evenkeel ({})", driver.word()),
            program: evenkeel_binary().to_owned(),
            arguments: vec!["serve".to_owned(), "--driver".to_owned(), driver.word().to_owned()],
            tls: false,
            routed: false,
            memcached: None,
        }
    }

    /// The same with TLS on its listener.
    #[must_use]
    pub fn over_tls(mut self) -> ServerUnderTest {
        let files = format!("ssl_chain_cert={},ssl_key={}", certificate("server"), certificate("server-key"));
        self.name += " over TLS";
        self.arguments.extend(["-Z".to_owned(), "-o".to_owned(), files]);
        self.tls = true;
        self
    }

    /// The same behind a router that has no other server.
    #[must_use]
    pub fn behind_a_router(mut self) -> ServerUnderTest {
        self.name += " behind a router";
        self.routed = true;
        self
    }

    /// The memcached of this machine, or the one that `EVENKEEL_TEST_MEMCACHED` names.
    ///
    /// # Errors
    /// If there is none.
    pub fn memcached() -> Result<ServerUnderTest> {
        let program = std::env::var_os("EVENKEEL_TEST_MEMCACHED").unwrap_or("/usr/bin/memcached".into());
        ServerUnderTest::given(Path::new(&program), &[])
            .context("hint: `apt-get install memcached`, or set EVENKEEL_TEST_MEMCACHED to one")
    }

    /// Any program that accepts memcached's flags after `arguments`; its version tells whether it is a memcached, and
    /// which.
    ///
    /// # Errors
    /// If it does not run.
    pub fn given(program: &Path, arguments: &[String]) -> Result<ServerUnderTest> {
        let shown = program.display();
        let output = Command::new(program).arg("-V").output().with_context(|| format!("run {shown} -V"))?;
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let memcached = answer.trim().strip_prefix("memcached ").and_then(transcript::parse_version);
        ensure!(
            memcached.is_some() || !arguments.is_empty(),
            "{shown} is not a memcached: add the words that make it serve"
        );
        let name = if memcached.is_some() { answer.trim().to_owned() } else { shown.to_string() };
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        Ok(ServerUnderTest { name, program, arguments, tls: false, routed: false, memcached })
    }
}

/// Our binary as a router, before its flags.
pub fn router() -> Command {
    let mut command = Command::new(evenkeel_binary());
    command.arg("route");
    command
}

/// Our binary with the verb `replay`, before its flags.
pub fn replayer() -> Command {
    let mut command = Command::new(evenkeel_binary());
    command.arg("replay");
    command
}

/// Our binary with the verb `up`, before its flags.
pub fn cluster() -> Command {
    let mut command = Command::new(evenkeel_binary());
    command.arg("up");
    command
}

/// A file of the crate `tls`, by its name without the extension.
pub fn certificate(name: &str) -> String {
    format!("{}/{name}.pem", workspace().join("crates/base/tls/tests/certificates").display())
}

/// The optimised binary: the one that `EVENKEEL_BIN` names, or the one that cargo builds now.
fn evenkeel_binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("EVENKEEL_BIN") {
        Some(path) => path.into(),
        None => build().unwrap_or_else(|error| panic!("build evenkeel: {error:#}")),
    })
}

fn build() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "evenkeel"])
        .current_dir(workspace())
        .status()?;
    ensure!(built.success(), "cargo build failed");
    Ok(target_directory().join("release/evenkeel").canonicalize()?)
}
