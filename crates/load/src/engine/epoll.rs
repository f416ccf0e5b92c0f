//! The plain engine: edge-triggered epoll, one system call for each send and each receive.

use super::{Engine, RECEIVE_LEN, Wait, failed};
use crate::error::Error;
use crate::outbox::Outbox;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::os::fd::OwnedFd;

/// Connections behind one epoll instance.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    sockets: Vec<OwnedFd>,
    /// What each socket did not take yet.
    backlogs: Vec<Vec<u8>>,
    events: Vec<Event>,
    buffer: Vec<u8>,
}

impl Epoll {
    pub(crate) fn new(sockets: Vec<OwnedFd>) -> Result<Epoll, Error> {
        let start = || -> rustix::io::Result<OwnedFd> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            for (connection, socket) in sockets.iter().enumerate() {
                rustix::io::ioctl_fionbio(socket, true)?;
                epoll::add(&epoll, socket, EventData::new_u64(connection as u64), flags)?;
            }
            Ok(epoll)
        };
        let epoll = start().map_err(|error| Error::Engine { engine: Epoll::NAME, source: error.into() })?;
        let backlogs = vec![Vec::new(); sockets.len()];
        let events = Vec::with_capacity(sockets.len());
        Ok(Epoll { epoll, sockets, backlogs, events, buffer: vec![0; RECEIVE_LEN] })
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
                Err(Errno::AGAIN) => break,
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
            let sent = if self.backlogs[connection].is_empty() { self.send(connection, bytes)? } else { 0 };
            self.backlogs[connection].extend_from_slice(&bytes[sent..]);
        }
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.at_most.subsec_nanos().into() };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::Exchange(error.into())),
        }
    }

    fn arrivals(&mut self, mut each: impl FnMut(usize, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        for at in 0..self.events.len() {
            let Event { flags, data } = self.events[at];
            let connection = data.u64() as usize;
            if flags.contains(EventFlags::OUT) && !self.backlogs[connection].is_empty() {
                self.flush(connection)?;
            }
            let readable = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
            while flags.intersects(readable) {
                match recv(&self.sockets[connection], &mut self.buffer[..], RecvFlags::empty()) {
                    Ok((0, _)) => return Err(failed(connection, None)),
                    Ok((len, _)) => {
                        each(connection, &self.buffer[..len])?;
                        // A short receive emptied the socket; what comes later makes a new edge.
                        if len < self.buffer.len() && !flags.contains(EventFlags::RDHUP) {
                            break;
                        }
                    }
                    Err(Errno::AGAIN) => break,
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(failed(connection, Some(error.into()))),
                }
            }
        }
        Ok(())
    }
}
