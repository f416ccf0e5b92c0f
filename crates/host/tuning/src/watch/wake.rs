//! Event sources of a watch, which end its sleep: kernel events, SIGHUP, or the time.

use std::process;

use os::signals::{Signal, Signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, bind, recvfrom, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use tuner::watch::KernelEvent;

use super::complaint::Complaint;
use crate::error::Error;

/// `RTMGRP_LINK` of rtnetlink.h: changes of links.
const LINKS: u32 = 1;
/// The kernel's own uevents; group 2 has those of udev.
const UEVENTS: u32 = 1;
/// The longest datagram that the kernel sends through netlink.
const DATAGRAM_LEN_MAX: usize = 32 * 1024;

/// The parser of a datagram.
type Understood = fn(&[u8]) -> Vec<KernelEvent>;

/// The event sources.
pub(super) struct Wake {
    news: Vec<(OwnedFd, Understood)>,
    /// A byte for each SIGHUP.
    asked: OwnedFd,
}

impl Wake {
    /// Opens the sockets, if this host is watched, and handles the signals from now on.
    pub(super) fn open(signals: Signals, is_live: bool, complain: fn(&Complaint)) -> Result<Wake, Error> {
        let (asked, ask) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| failed("make a pipe", errno))?;
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                while signals.wait() == Signal::Reload {
                    // If the pipe is full, a check is due already.
                    let _ = rustix::io::write(&ask, &[0]);
                }
                // At once, independent of the other thread: the journal is consistent at every moment, and nothing is
                // to be undone.
                process::exit(0);
            })
            .map_err(|error| Error::system("start the thread that waits for signals", error))?;
        let mut news: Vec<(OwnedFd, Understood)> = Vec::new();
        if is_live {
            let uevent: Understood = |bytes| KernelEvent::of_uevent(bytes).into_iter().collect();
            // The protocol for routes and links is number 0.
            for (protocol, groups, understood) in
                [(None, LINKS, KernelEvent::of_route as Understood), (Some(KOBJECT_UEVENT), UEVENTS, uevent)]
            {
                match listen(protocol, groups) {
                    Ok(socket) => news.push((socket, understood)),
                    // Some containers have no netlink. The next check finds what it would report.
                    Err(errno) => complain(&Complaint::KernelNotHeard(errno.to_string())),
                }
            }
        }
        Ok(Wake { news, asked })
    }

    /// Sleeps until an event arrives or the time is over, and returns the events.
    pub(super) fn wait(&self, at_most_ms: u64) -> Result<Vec<KernelEvent>, Error> {
        let sources = self.news.iter().map(|(socket, _)| socket).chain([&self.asked]);
        let mut polled: Vec<PollFd> = sources.map(|source| PollFd::new(source, PollFlags::IN)).collect();
        let timeout =
            Timespec { tv_sec: (at_most_ms / 1000) as i64, tv_nsec: (at_most_ms % 1000 * 1_000_000) as _ };
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(errno) => return Err(failed("wait for events", errno)),
        }
        let mut events = Vec::new();
        for (socket, understood) in &self.news {
            hear(socket, *understood, &mut events).map_err(|errno| failed("receive kernel events", errno))?;
        }
        let mut bytes = [0; 64];
        if rustix::io::read(&self.asked, &mut bytes).is_ok_and(|len| len > 0) {
            events.push(KernelEvent::Asked);
        }
        Ok(events)
    }
}

fn listen(protocol: Option<Protocol>, groups: u32) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Reads all pending datagrams.
fn hear(socket: &OwnedFd, understood: Understood, events: &mut Vec<KernelEvent>) -> rustix::io::Result<()> {
    let mut datagram = vec![0; DATAGRAM_LEN_MAX];
    loop {
        match recvfrom(socket, &mut datagram[..], RecvFlags::empty()) {
            // Any process may send to this socket; the kernel's address is 0.
            Ok((len, _, Some(from))) => {
                if SocketAddrNetlink::try_from(from).is_ok_and(|from| from.pid() == 0) {
                    events.extend(understood(&datagram[..len]));
                }
            }
            Ok((_, _, None)) => {}
            Err(Errno::NOBUFS) => events.push(KernelEvent::Lost),
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

fn failed(what: &str, errno: Errno) -> Error {
    Error::system(what, errno)
}
