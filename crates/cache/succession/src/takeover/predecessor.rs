//! The side of the server that is taken over: it listens for a successor, offers what it has, and stops when that one is ready.
//!
//! Until the successor is told that all is its own (`Yours`), this server can go on as if nothing had been, and does so if the successor
//! refuses, ends or is silent. Afterwards it never serves again, unless the successor has ended before it served.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use os::DirectoryEntry;
use os::socket_file::{check_peer, listen_privately};
use server::options::FlashOptions;
use server::{FlashSizes, HandOver, HandedConnection, LAYOUT_VERSION, Notice, Stopped, TlsFiles};

use super::flash::FlashOffer;
use super::state::{
    FORMAT, ServerOffer, SuccessorHello, TicketOffer, other_layout, write_connection, write_manifest,
};
use super::wire::{DESCRIPTORS_MAX, TakeoverStep, TakeoverWire};
use super::{ANSWER, OtherProcess, parse, seal};
use crate::Error;

/// Time for the successor to read its certificates and to get ready.
pub(crate) const READY: Duration = Duration::from_secs(60);
/// Time for the requests that have begun: an upload that takes longer is lost with its connection.
const REST: Duration = Duration::from_secs(1);

/// Time for a device of flash to take what waits for it, while clients are served: one that takes longer hangs, or could not keep up for
/// long before.
const FLASH_READY: Duration = Duration::from_secs(10);
/// Time for the rest, while nobody is served. It is at most eight write buffers, as many as the device has just taken.
const FLASH_REST: Duration = Duration::from_secs(5);

/// Time between two attempts to accept a successor when the system refuses it.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// What a server has for its successor, beside its memory.
pub struct OfferedServer {
    /// The time of day when its clock showed 0, in milliseconds since 1970.
    pub zero_unix_ms: u64,
    /// The predecessor's clock less the monotonic one, as of [`net::clock::Clock::origin_us`].
    pub clock_us: u64,
    /// Where it listens, by the number that connections have.
    pub addresses: Vec<String>,
    /// The sockets there.
    pub listeners: Vec<Arc<OwnedFd>>,
    /// The sockets of its endpoint of metrics.
    pub metrics: Vec<OwnedFd>,
    /// The sizes of its flash tier, and the options with the names of its devices.
    pub flash: Option<(FlashSizes, FlashOptions)>,
    /// These devices.
    pub flash_files: Vec<File>,
    /// The predecessor's TLS, for the secrets of tickets that it has made up.
    pub tls: Option<Arc<TlsFiles>>,
}

/// The socket for a successor.
pub struct TakeoverSocket {
    pub(crate) listener: UnixListener,
    path: PathBuf,
}

/// What has become of it.
pub enum TakeoverOutcome {
    /// The successor serves.
    Taken,
    /// It does not.
    GoOn(Box<Stopped>),
}

/// For the main thread: a successor that is ready, when the network has stopped for it.
pub struct Successors {
    ready: Receiver<TakeoverWire>,
    over: SyncSender<()>,
    notice: Notice,
}

impl TakeoverSocket {
    /// Listens at the path, in place of an earlier server.
    pub fn listen(path: &Path) -> Result<TakeoverSocket, Error> {
        let bind = || -> io::Result<UnixListener> {
            let mut new = path.as_os_str().to_owned();
            new.push(format!(".{}", std::process::id()));
            let new = PathBuf::from(new);
            let listener = listen_privately(&new)?;
            let new = DirectoryEntry::of(&new)?;
            let made = DirectoryEntry::of(path).and_then(|entry| new.rename_to(&entry));
            if made.is_err() {
                // If it fails, too, the file is in nobody's way.
                let _ = new.remove();
            }
            made.map(|()| listener)
        };
        let listener = bind();
        listener
            .map(|listener| TakeoverSocket { listener, path: path.to_owned() })
            .map_err(|error| Error::system(format!("listen at {} (--takeover)", path.display()), error))
    }

    /// Listens at its path again, where a successor that is gone may have taken its place.
    pub(crate) fn listen_again(&mut self) -> Result<(), Error> {
        *self = TakeoverSocket::listen(&self.path)?;
        Ok(())
    }

    /// Offers everything, with `memory`, to each process that comes, one after the other, and stops the server for one that is ready.
    /// `notice` receives lines for the operator.
    pub fn start(
        self,
        offered_server: OfferedServer,
        memory: &File,
        server: HandOver,
        notice: Notice,
    ) -> io::Result<Successors> {
        let memory = OwnedFd::from(memory.try_clone()?);
        // The store has made all of its mappings.
        seal(&memory)?;
        let (ready, taken) = sync_channel(0);
        let (over, ended) = sync_channel(1);
        let work = move || {
            for stream in self.listener.incoming() {
                let offered = stream
                    .map_err(|error| {
                        // Without free descriptors, each attempt fails at once.
                        std::thread::park_timeout(RETRY);
                        error.to_string()
                    })
                    .and_then(|stream| TakeoverWire::new(stream).map_err(|error| error.to_string()))
                    .and_then(|wire| offer(wire, &offered_server, &memory))
                    .and_then(|wire| wait_for_flash(wire, &server));
                match offered {
                    Ok(wire) => {
                        server.begin(REST);
                        // Both fail only when the process ends.
                        if ready.send(wire).is_err() || ended.recv().is_err() {
                            return;
                        }
                    }
                    Err(why) => say(notice, &why),
                }
            }
        };
        std::thread::Builder::new().name("takeover".to_owned()).spawn(work)?;
        Ok(Successors { ready: taken, over, notice })
    }
}

pub(crate) fn say(notice: Notice, why: &str) {
    notice(&format!("not taken over: {why}"));
}

/// Offers everything to a successor, and returns when it is ready.
fn offer(
    mut wire: TakeoverWire,
    offered_server: &OfferedServer,
    memory: &OwnedFd,
) -> Result<TakeoverWire, String> {
    check_peer(wire.stream(), &[]).map_err(|error| format!("the process that asks is refused: {error}"))?;
    let hello = wire.expect_or_refuse(TakeoverStep::Hello, ANSWER)?;
    let hello: SuccessorHello = parse(&hello.bytes)?;
    if hello.format != FORMAT {
        let why =
            format!("version {} takes over otherwise than {}", hello.version, env!("CARGO_PKG_VERSION"));
        refuse(&mut wire, &why);
        return Err(why);
    }
    if hello.layout != LAYOUT_VERSION {
        let why = other_layout(&hello.version, hello.layout);
        refuse(&mut wire, &why);
        return Err(why);
    }
    let OfferedServer { zero_unix_ms, clock_us, addresses, listeners, metrics, flash, flash_files, tls } =
        offered_server;
    let offer = ServerOffer {
        format: FORMAT,
        layout: LAYOUT_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        zero_unix_ms: *zero_unix_ms,
        clock_us: *clock_us,
        addresses: addresses.clone(),
        listeners: listeners.len(),
        metrics: metrics.len(),
        flash: flash.as_ref().map(|(sizes, options)| FlashOffer::of(sizes.clone(), options)),
        tickets: tls.as_ref().and_then(|tls| tls.tickets()).map(|tickets| TicketOffer::of(&tickets)),
    };
    let all: Vec<BorrowedFd<'_>> = listeners
        .iter()
        .map(|socket| socket.as_fd())
        .chain(metrics.iter().map(AsFd::as_fd))
        .chain([memory.as_fd()])
        .chain(flash_files.iter().map(AsFd::as_fd))
        .collect();
    let bytes = serde_json::to_vec(&offer).map_err(|error| error.to_string())?;
    wire.send(TakeoverStep::Offer, &bytes, &all).map_err(|error| format!("offer everything: {error}"))?;
    wire.expect(TakeoverStep::Ready, READY)?;
    Ok(wire)
}

/// Tells a successor why it comes to nothing.
pub(crate) fn refuse(wire: &mut TakeoverWire, why: &str) {
    // It may be gone.
    let _ = wire.send(TakeoverStep::Refused, why.as_bytes(), &[]);
}

/// Nothing has been stopped yet: a device that hangs costs no client anything.
fn wait_for_flash(mut wire: TakeoverWire, server: &HandOver) -> Result<TakeoverWire, String> {
    if server.wait_for_flash(FLASH_READY) {
        return Ok(wire);
    }
    let why = format!("its flash has not taken within {} s what waits to be written", FLASH_READY.as_secs());
    refuse(&mut wire, &why);
    Err(why)
}

impl Successors {
    /// Gives a server that has stopped for its successor to that one.
    pub fn hand_over(&self, mut stopped: Stopped) -> TakeoverOutcome {
        let Ok(mut wire) = self.ready.recv() else { return TakeoverOutcome::GoOn(Box::new(stopped)) };
        let given = give(&mut wire, &mut stopped);
        let outcome = match given {
            Ok(()) => TakeoverOutcome::Taken,
            Err(why) => {
                // Before anything changes: it must not take the memory for what it was, should this process end soon.
                refuse(&mut wire, &why);
                say(self.notice, &format!("{why}: this server goes on"));
                TakeoverOutcome::GoOn(Box::new(stopped))
            }
        };
        // Only then may the thread offer everything to another one. If it has been taken, there is nothing to offer, although this
        // process may live for a moment: two successors with the same sockets would both serve.
        if let TakeoverOutcome::GoOn(_) = outcome {
            let _ = self.over.send(());
        }
        outcome
    }
}

fn give(wire: &mut TakeoverWire, stopped: &mut Stopped) -> Result<(), String> {
    let successor = OtherProcess::of(wire.stream())?;
    if !stopped.finish_flash(FLASH_REST) {
        return Err(format!("its flash has not taken the rest within {} s", FLASH_REST.as_secs()));
    }
    let manifest = stopped.leave().ok_or("its items are not in a file")?;
    let connections = stopped.connections();
    let mut send = |kind, bytes: &[u8], descriptors: &[BorrowedFd<'_>]| {
        wire.send(kind, bytes, descriptors).map_err(|error| format!("give everything: {error}"))
    };
    send(TakeoverStep::State, &write_manifest(&manifest), &[])?;
    for some in connections.chunks(DESCRIPTORS_MAX) {
        let mut bytes = Vec::new();
        some.iter().for_each(|connection: &HandedConnection| write_connection(&mut bytes, connection));
        let sockets: Vec<_> = some.iter().map(|connection| connection.socket.as_fd()).collect();
        send(TakeoverStep::Connections, &bytes, &sockets)?;
    }
    // An empty one is the last.
    send(TakeoverStep::Connections, b"", &[])?;
    wire.expect(TakeoverStep::Have, ANSWER)?;
    wire.send(TakeoverStep::Yours, b"", &[]).map_err(|error| format!("give everything: {error}"))?;
    match wire.expect(TakeoverStep::Taken, ANSWER) {
        Ok(_) => Ok(()),
        // It serves, however slowly it says so: two servers must not use the same memory.
        Err(_) if successor.is_alive(wire) => Ok(()),
        Err(why) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use os::socket_file::connect_to;

    use super::*;

    #[test]
    fn a_socket_whose_place_another_one_has_taken_listens_there_again() {
        let path = std::env::temp_dir().join(format!("succession-again-{}", std::process::id()));
        let mut own = TakeoverSocket::listen(&path).expect("a socket");
        drop(TakeoverSocket::listen(&path).expect("that of a successor, which ends"));
        let refused = connect_to(&path, &[]).expect_err("nobody listens there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        own.listen_again().expect("a socket");
        let _successor = connect_to(&path, &[]).expect("it listens");
        own.listener.accept().expect("the one that has connected");
        std::fs::remove_file(&path).expect("it is ours");
    }
}
