//! The plain engine: edge-triggered epoll, one system call for each send and each receive.

use super::reopening::Reopening;
use super::{ConnectionEvent, Engine, RECEIVE_LEN, Wait, failed, precise};
use crate::engine::outbox::Outbox;
use crate::engine::target::Target;
use crate::types::error::Error;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use std::os::fd::OwnedFd;

/// Connections behind one epoll instance.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    sockets: Vec<OwnedFd>,
    /// The bytes that each socket did not take yet.
    backlogs: Vec<Vec<u8>>,
    events: Vec<Event>,
    buffer: Vec<u8>,
    reopening: Reopening,
}

impl Epoll {
    /// Connections are opened anew to `target`.
    pub(crate) fn new(sockets: Vec<OwnedFd>, target: Option<Target>) -> Result<Epoll, Error> {
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
        let reopening = Reopening::new(target, sockets.len());
        Ok(Epoll { epoll, sockets, backlogs, events, buffer: vec![0; RECEIVE_LEN], reopening })
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
                    self.reopening.ended(connection, error);
                    continue;
                }
            };
            self.backlogs[connection].extend_from_slice(&bytes[sent..]);
        }
        precise::wait(&self.epoll, &mut self.events, wait.at_most)
    }

    fn arrivals(
        &mut self,
        mut each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut is_later = false;
        for at in 0..self.events.len() {
            let Event { flags, data } = self.events[at];
            let connection = data.u64() as usize;
            if self.reopening.is_on_its_way(connection) {
                let now_ns = self.now_ns();
                if !self.reopening.settle(connection, &self.sockets[connection], now_ns) {
                    continue;
                }
                // A server that speaks first, or closes at once, is in the same edge.
            }
            if flags.contains(EventFlags::OUT)
                && !self.backlogs[connection].is_empty()
                && let Err(error) = self.flush(connection)
            {
                self.reopening.ended(connection, error);
                continue;
            }
            let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            while flags.intersects(readable) {
                match recv(&self.sockets[connection], &mut self.buffer[..], RecvFlags::empty()) {
                    Ok((0, _)) => {
                        self.reopening.ended(connection, failed(connection, None));
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
                        self.reopening.ended(connection, failed(connection, Some(error.into())));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn reopen(&mut self, connection: usize) -> Result<(), Error> {
        self.close(connection);
        let now_ns = self.now_ns();
        let Some(socket) = self.reopening.begin(connection, now_ns) else { return Ok(()) };
        epoll::add(&self.epoll, &socket, EventData::new_u64(connection as u64), INTEREST)
            .map_err(|error| Error::Exchange(error.into()))?;
        self.sockets[connection] = socket;
        Ok(())
    }

    fn close(&mut self, connection: usize) {
        self.reopening.give_up(connection);
        self.backlogs[connection].clear();
        // It may be gone already.
        let _ = epoll::delete(&self.epoll, &self.sockets[connection]);
        let _ = shutdown(&self.sockets[connection], Shutdown::Both);
    }

    fn events(&mut self, each: impl FnMut(ConnectionEvent)) -> Result<(), Error> {
        self.reopening.news.drain(..).for_each(each);
        Ok(())
    }
}

/// The events to wait for on a connection.
const INTEREST: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);
