//! The plain engine: edge-triggered epoll, one system call for each send and each receive.

use super::reopening::Reopening;
use super::{ConnectionEvent, Engine, RECEIVE_LEN, Wait, failed, precise};
use crate::engine::connecting::TcpServer;
use crate::engine::outbox::Outbox;
use crate::types::clock;
use crate::types::error::Error;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown, sockopt};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Connections behind one epoll instance.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    sockets: Vec<OwnedFd>,
    /// The bytes that each socket did not take yet.
    backlogs: Vec<Vec<u8>>,
    events: Vec<Event>,
    buffer: Vec<u8>,
    /// If connections come and go.
    reopening: Option<Reopening>,
}

impl Epoll {
    pub(crate) fn new(sockets: Vec<OwnedFd>) -> Result<Epoll, Error> {
        let start = || -> rustix::io::Result<OwnedFd> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            for (connection, socket) in sockets.iter().enumerate() {
                rustix::io::ioctl_fionbio(socket, true)?;
                epoll::add(&epoll, socket, EventData::new_u64(connection as u64), INTEREST)?;
            }
            Ok(epoll)
        };
        let epoll = start().map_err(|error| Error::Engine { engine: Epoll::NAME, source: error.into() })?;
        let backlogs = vec![Vec::new(); sockets.len()];
        let events = Vec::with_capacity(sockets.len());
        Ok(Epoll { epoll, sockets, backlogs, events, buffer: vec![0; RECEIVE_LEN], reopening: None })
    }

    /// Connections that end are opened anew, to the same server.
    pub(crate) fn reopening(self, server: TcpServer) -> Epoll {
        let reopening = Some(Reopening::new(server, self.sockets.len()));
        Epoll { reopening, ..self }
    }

    /// Closes a connection and begins to open it again.
    fn renew(&mut self, connection: usize) -> Result<(), Error> {
        self.leave(connection);
        let now_ns = self.now_ns();
        let Some(reopening) = &mut self.reopening else { return Ok(()) };
        let Some(socket) = reopening.begin(connection, now_ns) else { return Ok(()) };
        epoll::add(&self.epoll, &socket, EventData::new_u64(connection as u64), INTEREST)
            .map_err(|error| Error::Exchange(error.into()))?;
        self.sockets[connection] = socket;
        Ok(())
    }

    /// Closes a connection, of which nothing is sent or reported any more. It may be gone already.
    fn leave(&mut self, connection: usize) {
        self.backlogs[connection].clear();
        let _ = epoll::delete(&self.epoll, &self.sockets[connection]);
        let _ = shutdown(&self.sockets[connection], Shutdown::Both);
    }

    /// A connection has ended, which ends the run unless connections come and go.
    #[cold]
    fn ended(&mut self, connection: usize, error: Error) -> Result<(), Error> {
        let now_ns = self.now_ns();
        let Some(reopening) = &mut self.reopening else { return Err(error) };
        reopening.news.push(ConnectionEvent::Closed(connection));
        if matches!(&error, Error::Broken { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
        {
            // Of a fast open: the request went with a SYN that was refused.
            reopening.refused(connection, now_ns);
            self.leave(connection);
            return Ok(());
        }
        self.renew(connection)
    }

    /// Whether the event is about a connection that is being opened, and nothing else has happened on it.
    fn settle(&mut self, connection: usize) -> bool {
        let Some(reopening) = &mut self.reopening else { return false };
        if !reopening.is_on_its_way(connection) {
            return false;
        }
        let now_ns = clock::now_ns();
        let is_open = matches!(sockopt::socket_error(&self.sockets[connection]), Ok(Ok(())));
        reopening.ended(connection, is_open, now_ns);
        true
    }

    /// Sends the backlog, or as much of it as the socket takes.
    fn flush(&mut self, connection: usize) -> Result<(), Error> {
        let backlog = std::mem::take(&mut self.backlogs[connection]);
        let sent = self.send(connection, &backlog)?;
        self.backlogs[connection] = backlog;
        self.backlogs[connection].drain(..sent);
        Ok(())
    }

    fn send(&self, connection: usize, mut bytes: &[u8]) -> Result<usize, Error> {
        let whole = bytes.len();
        while !bytes.is_empty() {
            match send(&self.sockets[connection], bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = &bytes[sent..],
                // In progress: a fast open whose cookie is gone connects first. Room is then an edge, as after AGAIN.
                Err(Errno::AGAIN | Errno::INPROGRESS) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(connection, Some(error.into()))),
            }
        }
        Ok(whole - bytes.len())
    }
}

impl Engine for Epoll {
    const NAME: &'static str = "epoll";

    fn exchange(&mut self, outbox: &Outbox, wait: Wait) -> Result<(), Error> {
        for (connection, bytes) in outbox.parcels() {
            // An edge for OUT follows once a socket that was full has room: only then is the backlog tried again.
            let sent =
                if self.backlogs[connection].is_empty() { self.send(connection, bytes) } else { Ok(0) };
            let sent = match sent {
                Ok(sent) => sent,
                Err(error) => {
                    self.ended(connection, error)?;
                    continue;
                }
            };
            self.backlogs[connection].extend_from_slice(&bytes[sent..]);
        }
        let mut at_most = wait.at_most;
        if let Some(at_ns) = self.reopening.as_ref().and_then(Reopening::next_at_ns) {
            at_most = at_most.min(Duration::from_nanos(at_ns.saturating_sub(self.now_ns())));
        }
        precise::wait(&self.epoll, &mut self.events, at_most)
    }

    fn arrivals(
        &mut self,
        mut each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut is_later = false;
        for at in 0..self.events.len() {
            let Event { flags, data } = self.events[at];
            let connection = data.u64() as usize;
            if self.settle(connection) {
                continue;
            }
            if flags.contains(EventFlags::OUT)
                && !self.backlogs[connection].is_empty()
                && let Err(error) = self.flush(connection)
            {
                self.ended(connection, error)?;
                continue;
            }
            let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            while flags.intersects(readable) {
                match recv(&self.sockets[connection], &mut self.buffer[..], RecvFlags::empty()) {
                    Ok((0, _)) => {
                        self.ended(connection, failed(connection, None))?;
                        break;
                    }
                    Ok((len, _)) => {
                        let at_ns = is_later.then(|| self.now_ns());
                        is_later = true;
                        each(connection, &self.buffer[..len], at_ns)?;
                        // A short receive emptied the socket; what comes later makes a new edge.
                        if len < self.buffer.len() && !flags.contains(EventFlags::RDHUP) {
                            break;
                        }
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => {
                        self.ended(connection, failed(connection, Some(error.into())))?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn reopen(&mut self, connection: usize) -> Result<(), Error> {
        self.renew(connection)
    }

    fn events(&mut self, each: impl FnMut(ConnectionEvent)) -> Result<(), Error> {
        if self.reopening.is_none() {
            return Ok(());
        }
        let now_ns = self.now_ns();
        while let Some(connection) =
            self.reopening.as_mut().and_then(|reopening| reopening.next_retry(now_ns))
        {
            self.renew(connection)?;
        }
        self.reopening.iter_mut().flat_map(|reopening| reopening.news.drain(..)).for_each(each);
        Ok(())
    }
}

/// The events to wait for on a connection.
const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
