//! A running server: its process, and the port on which it listens.

use crate::clock;
use crate::process;
use crate::subject::{self, ServerUnderTest};
use anyhow::{Context, Result, bail};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt};
use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A server, ended with this value; its output is shown if the test fails.
#[derive(Debug)]
pub struct Server {
    command: Command,
    child: Child,
    address: SocketAddr,
    _port: OwnedFd,
    said: PathBuf,
}

impl Server {
    /// Starts `subject` with more of memcached's flags on a free port of the loopback, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start<S: AsRef<str>>(subject: &ServerUnderTest, flags: &[S]) -> Result<Server> {
        Server::start_on(Ipv4Addr::LOCALHOST, subject, flags)
    }

    /// The same on another address of this host.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_on<S: AsRef<str>>(ip: Ipv4Addr, subject: &ServerUnderTest, flags: &[S]) -> Result<Server> {
        let port = reserve_port_on(ip).context("reserve a port")?;
        Server::start_at(port, subject, flags).with_context(|| format!("start {}", subject.name))
    }

    /// The same at a fixed address, in a network of the test's own.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_exactly_at<S: AsRef<str>>(
        address: SocketAddr,
        subject: &ServerUnderTest,
        flags: &[S],
    ) -> Result<Server> {
        let reserved = reserve(address).with_context(|| format!("reserve {address}"))?;
        Server::start_at(reserved, subject, flags).with_context(|| format!("start {}", subject.name))
    }

    /// The same, with UDP at the same port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_with_udp(subject: &ServerUnderTest) -> Result<Server> {
        let port = reserve_port().context("reserve a port")?;
        let flags = ["-U".to_owned(), port.1.port().to_string()];
        Server::start_at(port, subject, &flags).with_context(|| format!("start {}", subject.name))
    }

    fn start_at<S: AsRef<str>>(
        (reserved, address): (OwnedFd, SocketAddr),
        subject: &ServerUnderTest,
        flags: &[S],
    ) -> Result<Server> {
        let mut command = Command::new(&subject.program);
        // Where another listener is the one with TLS, this one is plain.
        let is_plain = flags.iter().any(|flag| flag.as_ref().starts_with("btls:"));
        let host = if is_plain { format!("notls:{}", address.ip()) } else { address.ip().to_string() };
        command.args(&subject.arguments).args(["-l", &host, "-p", &address.port().to_string()]);
        if rustix::process::getuid().is_root() {
            command.args(["-u", "root"]); // memcached refuses to run as root without it
        }
        command.args(flags.iter().map(AsRef::as_ref));
        Server::launch(command, address, reserved)
    }

    /// Starts the binary as a router on a free port of the loopback, with more of its flags, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_router<S: AsRef<str>>(flags: &[S]) -> Result<Server> {
        Server::start_router_at("-p", flags)
    }

    /// The same, with the flag that names the port.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_router_at<S: AsRef<str>>(port: &str, flags: &[S]) -> Result<Server> {
        Server::start_router_on(Ipv4Addr::LOCALHOST, port, flags)
    }

    /// The same on another address of this host.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_router_on<S: AsRef<str>>(ip: Ipv4Addr, port: &str, flags: &[S]) -> Result<Server> {
        Server::launch_router(reserve_port_on(ip).context("reserve a port")?, port, flags)
    }

    /// A router at a fixed address, in a network of the test's own.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_router_exactly_at<S: AsRef<str>>(address: SocketAddr, flags: &[S]) -> Result<Server> {
        let reserved = reserve(address).with_context(|| format!("reserve {address}"))?;
        Server::launch_router(reserved, "-p", flags)
    }

    fn launch_router<S: AsRef<str>>(
        (reserved, address): (OwnedFd, SocketAddr),
        port: &str,
        flags: &[S],
    ) -> Result<Server> {
        let mut command = subject::router();
        command.args([port, &address.port().to_string(), "--listen-addresses", &address.ip().to_string()]);
        command.args(flags.iter().map(AsRef::as_ref));
        Server::launch(command, address, reserved).context("start a router")
    }

    /// Starts a program that listens at `address`, and waits until it answers.
    fn launch(mut command: Command, address: SocketAddr, reserved: OwnedFd) -> Result<Server> {
        let said = notebook();
        let file = File::create(&said).with_context(|| format!("create {}", said.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn()?;
        let mut server = Server { command, child, address, _port: reserved, said };
        server.wait_until_it_serves()?;
        Ok(server)
    }

    fn wait_until_it_serves(&mut self) -> Result<()> {
        let up = clock::wait_for(|| match self.child.try_wait() {
            Ok(None) => {
                let probe = TcpStream::connect(self.address).ok()?;
                served_and_gone(probe).ok().map(Ok)
            }
            ended => Some(Err(ended)),
        });
        match up {
            Some(Ok(())) => Ok(()),
            Some(Err(ended)) => bail!("it ended with {ended:?} and said {:?}", self.said()),
            None => bail!("it does not listen and said {:?}", self.said()),
        }
    }

    /// Kills it without a word to anybody.
    ///
    /// # Errors
    /// If it has ended already.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("kill")?;
        self.child.wait().context("wait for its end").map(|_| ())
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Errors
    /// If it does not end, or not with success.
    pub fn stop(&mut self) -> Result<()> {
        let pid = rustix::process::Pid::from_raw(self.pid().cast_signed()).context("a process")?;
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let status = self.wait()?;
        anyhow::ensure!(status == 0, "it ended with {status}");
        Ok(())
    }

    /// Starts it again, on the same port and with more flags.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again_with(&mut self, flags: &[&str]) -> Result<()> {
        self.command.args(flags);
        self.start_again()
    }

    /// Starts it again, on the same port and with nothing in it, and waits until it answers.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start_again(&mut self) -> Result<()> {
        self.child = self.command.spawn()?;
        self.wait_until_it_serves()
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap_or_default()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    ///
    /// # Errors
    /// If the server does not accept it.
    pub fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address).context("connect")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(clock::PATIENCE))?;
        stream.set_write_timeout(Some(clock::PATIENCE))?;
        Ok(stream)
    }

    /// Waits for its end, and returns the exit status.
    ///
    /// # Errors
    /// If it does not end, or a signal ended it.
    pub fn wait(&mut self) -> Result<i32> {
        let ended = clock::wait_for(|| self.child.try_wait().transpose()).context("it does not end")??;
        ended.code().with_context(|| format!("it ended with {ended}"))
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Bytes of its memory that are resident.
    ///
    /// # Errors
    /// If it is gone.
    pub fn resident(&self) -> Result<u64> {
        process::resident(self.pid())
    }

    /// Whether the process is still running.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the server said: {}", self.said());
        }
        // If it fails, the file does no harm.
        let _ = std::fs::remove_file(&self.said);
    }
}

/// Keeps an address from other programs; port 0 is any free one.
fn reserve(address: SocketAddr) -> Result<(OwnedFd, SocketAddr)> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &address)?;
    let address = SocketAddr::try_from(getsockname(&socket)?)?;
    Ok((socket, address))
}

/// A port of the loopback that the kernel gives to no other program while the socket exists, neither to listen on nor
/// as a client's port: so the server that was started with it is the one that answers. The socket does not listen, and
/// both it and the server set SO_REUSEADDR to share the port.
///
/// # Errors
/// If the kernel has none.
pub fn reserve_port() -> Result<(OwnedFd, SocketAddr)> {
    reserve_port_on(Ipv4Addr::LOCALHOST)
}

/// The same of another address of this host.
///
/// # Errors
/// If the kernel has none.
pub fn reserve_port_on(ip: Ipv4Addr) -> Result<(OwnedFd, SocketAddr)> {
    reserve(SocketAddr::from((ip, 0)))
}

/// A new file for a server's output.
fn notebook() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("evenkeel-test-{}-{number}", std::process::id()))
}

/// Waits until the server has handled the connection and its end: what a test observes later must not contain it.
fn served_and_gone(mut probe: TcpStream) -> std::io::Result<()> {
    probe.set_read_timeout(Some(clock::PATIENCE))?;
    probe.shutdown(Shutdown::Write)?;
    probe.read_to_end(&mut Vec::new()).map(|_| ())
}
