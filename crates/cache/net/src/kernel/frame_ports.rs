//! Datagrams of the network's UDP address that come below its sockets ([`crate::Options::frames`]).
//!
//! Each queue of an interface has a port. A worker has those of its share of the queues while it runs, and gives them back when it ends, so
//! that the network can go on with them. The sockets at the address stay: they get what the ports do not take, and send what these cannot.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;
use xdp::{AttachError, Attachment, Mode, Port, PortCounts, TakenDatagram};

use crate::network::view::FrameCounts;
use crate::sockets::segments::{DatagramBatch, ReceivedMessage};

/// Interfaces whose datagrams are taken below the sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FramesFrom {
    /// Their names.
    pub interfaces: Vec<String>,
    /// How frames come from them.
    pub mode: Mode,
}

/// Counts of a worker's ports, as of its last round with datagrams.
#[derive(Debug, Default)]
struct Totals {
    received: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
    by_socket: AtomicU64,
}

/// The ports of a network.
#[derive(Debug)]
pub(crate) struct FramePorts {
    /// The programs; without them nothing comes.
    attachments: Mutex<Vec<Attachment>>,
    /// Those that no running worker has.
    resting: Vec<Mutex<Vec<Port>>>,
    totals: Vec<Totals>,
    queues: u64,
    copying_nothing: u64,
}

impl FramePorts {
    /// Opens a port for each queue of the interfaces, and deals them out to as many workers. An error names the interface.
    pub(crate) fn open(
        from: &FramesFrom,
        at: SocketAddr,
        workers: usize,
    ) -> Result<FramePorts, (String, AttachError)> {
        let (mut attachments, mut queues, mut copying_nothing) = (Vec::new(), 0, 0);
        let mut resting: Vec<Vec<Port>> = (0..workers).map(|_| Vec::new()).collect();
        for interface in &from.interfaces {
            let failed = |error| (interface.clone(), error);
            let (attachment, ports) = Attachment::new(interface, at, from.mode).map_err(failed)?;
            for port in ports {
                attachment.open(&port).map_err(failed)?;
                queues += 1;
                copying_nothing += u64::from(port.copies_nothing());
                resting[port.queue() as usize % workers].push(port);
            }
            attachments.push(attachment);
        }
        let resting = resting.into_iter().map(Mutex::new).collect();
        let totals = (0..workers).map(|_| Totals::default()).collect();
        let attachments = Mutex::new(attachments);
        Ok(FramePorts { attachments, resting, totals, queues, copying_nothing })
    }

    /// Takes the programs away: from now on the sockets get what comes. What is in the rings is still received, and answered.
    pub(crate) fn close(&self) {
        self.attachments.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Gives a worker its ports.
    pub(crate) fn take(self: &Arc<Self>, worker: usize) -> WorkerPorts {
        let ports = std::mem::take(&mut *self.resting_of(worker));
        let watched = ports.iter().map(|_| -1).collect();
        WorkerPorts { ports, watched, home: Some((Arc::clone(self), worker)), by_socket: 0 }
    }

    fn resting_of(&self, worker: usize) -> std::sync::MutexGuard<'_, Vec<Port>> {
        self.resting[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has happened so far.
    pub(crate) fn counts(&self) -> FrameCounts {
        let sum = |of: fn(&Totals) -> &AtomicU64| {
            self.totals.iter().map(|totals| of(totals).load(Ordering::Relaxed)).sum()
        };
        FrameCounts {
            queues: self.queues,
            copying_nothing: self.copying_nothing,
            received: sum(|totals| &totals.received),
            sent: sum(|totals| &totals.sent),
            refused: sum(|totals| &totals.refused),
            by_socket: sum(|totals| &totals.by_socket),
        }
    }
}

/// The ports of a running worker; most have none.
#[derive(Debug, Default)]
pub(crate) struct WorkerPorts {
    ports: Vec<Port>,
    /// The descriptor that is watched for each port.
    watched: Vec<RawFd>,
    home: Option<(Arc<FramePorts>, usize)>,
    /// Replies that the kernel's socket has sent.
    by_socket: u64,
}

impl WorkerPorts {
    /// A descriptor for each port, to be watched as if it were a socket at the address.
    pub(crate) fn watched(&mut self) -> std::io::Result<Vec<OwnedFd>> {
        let descriptors = self
            .ports
            .iter()
            .map(|port| port.as_fd().try_clone_to_owned())
            .collect::<std::io::Result<Vec<_>>>()?;
        self.watched = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        Ok(descriptors)
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    fn at(&self, socket: &OwnedFd) -> Option<usize> {
        self.watched.iter().position(|watched| *watched == socket.as_raw_fd())
    }

    /// Receives from the port that this descriptor stands for; none if it stands for none.
    pub(crate) fn receive(
        &mut self,
        socket: &OwnedFd,
        arrivals: &mut DatagramBatch,
    ) -> Option<Result<(), Errno>> {
        let at = self.at(socket)?;
        let port = &mut self.ports[at];
        let received = arrivals.fill(|buffer| {
            let TakenDatagram { from, len } = port.receive(buffer)?;
            Ok(ReceivedMessage { len, from, segment_len: len })
        });
        // After a whole batch it has not looked for more.
        port.give_frames();
        self.note();
        Some(received)
    }

    /// Datagrams for which a port's rings had no room; none if the descriptor stands for none.
    pub(crate) fn overflowed(&self, socket: &OwnedFd) -> Option<u32> {
        // A count that only grows; what is compared is its difference, which may wrap.
        self.at(socket).map(|at| self.ports[at].overflowed().unwrap_or(0) as u32)
    }

    /// Sends what has a way back by a port; returns the positions of the others.
    pub(crate) fn send(&mut self, to: &[Option<SocketAddr>], datagrams: &[IoSlice<'_>]) -> Vec<usize> {
        let mut others = Vec::new();
        for (at, (to, datagram)) in to.iter().zip(datagrams).enumerate() {
            let is_sent = to.is_some_and(|to| self.ports.iter_mut().any(|port| port.send(to, datagram)));
            if !is_sent {
                others.push(at);
            }
        }
        self.ports.iter_mut().for_each(Port::flush);
        self.by_socket += others.len() as u64;
        self.note();
        others
    }

    /// Lets others see the counts.
    fn note(&self) {
        let Some((home, worker)) = &self.home else { return };
        let totals = &home.totals[*worker];
        let sum = |of: fn(PortCounts) -> u64| self.ports.iter().map(|port| of(port.counts())).sum();
        totals.received.store(sum(|counts| counts.received), Ordering::Relaxed);
        totals.sent.store(sum(|counts| counts.sent), Ordering::Relaxed);
        totals.refused.store(sum(|counts| counts.refused), Ordering::Relaxed);
        totals.by_socket.store(self.by_socket, Ordering::Relaxed);
    }
}

impl Drop for WorkerPorts {
    fn drop(&mut self) {
        if let Some((home, worker)) = self.home.take() {
            *home.resting_of(worker) = std::mem::take(&mut self.ports);
        }
    }
}
