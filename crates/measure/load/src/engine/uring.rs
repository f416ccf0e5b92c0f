//! The fast engine: one `io_uring_enter` per turn submits every send and collects every reply.
//!
//! Receives are multishot, one per connection, into a ring of buffers that the kernel picks from. Sends never wait:
//! with `MSG_DONTWAIT` the kernel either completes them inside the call or fails them, so the outbox is free when the
//! call returns; with `MSG_WAITALL` a partial send counts as failed and returns how far it came. Only failed sends
//! report back. The rest of a failed send is kept and goes out when the socket has room.
//!
//! A connection that is opened anew takes the place of the old one among the registered files. What completes later about
//! the old one is recognised by its generation.
//!
//! With `unsafe`: the memory that is shared with the kernel.
#![expect(unsafe_code, reason = "submissions point to memory, and buffers are the kernel's for a while")]

mod buffers;
mod stamps;

use super::reopening::Reopening;
use super::{ConnectionEvent, Engine, Wait, failed};
use crate::engine::outbox::Outbox;
use crate::engine::target::Target;
use crate::types::error::Error;
use buffers::Buffers;
use io_uring::types::{Fd, Fixed, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use stamps::Stamps;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Connections behind one ring.
pub(crate) struct UringEngine {
    ring: IoUring,
    buffers: Buffers,
    /// If replies are to bring the time at which they came.
    stamps: Option<Stamps>,
    /// Registered with the ring under their index.
    sockets: Vec<OwnedFd>,
    /// What each socket did not take yet. Not empty only from a failed send until its rest has been sent.
    backlogs: Vec<Vec<u8>>,
    /// Connections whose receive has to be armed (again).
    unarmed: Vec<usize>,
    /// Connections with a backlog whose socket has room again.
    writable: Vec<usize>,
    /// Receives that `arrivals` passes on.
    received: Vec<Completion>,
    /// By connection: how often it was closed, in 24 bits.
    generations: Vec<u32>,
    reopening: Reopening,
    can_gather: bool,
}

#[derive(Clone, Copy)]
struct Completion {
    about: About,
    /// The connection; for `About::Parcel` the number of the parcel.
    number: usize,
    /// Of the connection.
    generation: u32,
    result: i32,
    flags: u32,
}

/// What a completion is about: the uppermost byte of `user_data`. The generation is below it, the number in the lower half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum About {
    /// A multishot receive.
    Receive,
    /// A send from the outbox, which failed.
    Parcel,
    /// A send from a backlog.
    Backlog,
    /// A socket with a backlog has room again.
    Room,
    /// The attempt to open a connection anew has ended.
    Connect,
}

const GENERATION_MAX: u32 = (1 << 24) - 1;

impl UringEngine {
    /// Fails where the kernel refuses io_uring or is too old for what is used here. Connections are opened anew to
    /// `target`.
    pub(crate) fn new(
        sockets: Vec<OwnedFd>,
        target: Option<Target>,
        stamped: bool,
    ) -> Result<UringEngine, (Vec<OwnedFd>, io::Error)> {
        let stamps = if stamped { Stamps::new(&sockets).map(Some) } else { Ok(None) };
        match stamps.and_then(|stamps| Ok((stamps, UringEngine::start(&sockets)?))) {
            Ok((stamps, (ring, buffers))) => Ok(UringEngine {
                stamps,
                can_gather: ring.params().is_feature_min_timeout(),
                backlogs: vec![Vec::new(); sockets.len()],
                unarmed: (0..sockets.len()).collect(),
                writable: Vec::new(),
                received: Vec::new(),
                generations: vec![0; sockets.len()],
                reopening: Reopening::new(target, sockets.len()),
                sockets,
                ring,
                buffers,
            }),
            Err(error) => Err((sockets, error)),
        }
    }

    fn start(sockets: &[OwnedFd]) -> io::Result<(IoUring, Buffers)> {
        // A turn submits at most a send and a receive for each connection; more than fit take another call.
        let entries = (sockets.len() * 2).next_power_of_two().clamp(64, 16 * 1024) as u32;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(entries * 4)
            .build(entries)?;
        if !(ring.params().is_feature_ext_arg() && ring.params().is_feature_skip_cqe_on_success()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let handles: Vec<_> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter().register_files(&handles)?;
        let buffers = Buffers::new(&ring.submitter(), sockets.len())?;
        Ok((ring, buffers))
    }

    /// Queues everything that this turn submits.
    fn queue(&mut self, outbox: &Outbox) -> Result<(), Error> {
        for connection in std::mem::take(&mut self.unarmed) {
            let receive = match &self.stamps {
                Some(stamps) => stamps.receive(connection),
                None => opcode::RecvMulti::new(Fixed(connection as u32), GROUP).build(),
            };
            self.push(About::Receive, connection, receive)?;
        }
        for (number, (connection, bytes)) in outbox.parcels().enumerate() {
            if self.backlogs[connection].is_empty() {
                // Only failures are reported: a send without a report has sent everything.
                let entry = send(connection, bytes).flags(squeue::Flags::SKIP_SUCCESS);
                self.push(About::Parcel, number, entry)?;
            } else {
                self.backlogs[connection].extend_from_slice(bytes);
            }
        }
        // After the outbox: from here to the submission no backlog grows, so none moves.
        for connection in std::mem::take(&mut self.writable) {
            let entry = send(connection, &self.backlogs[connection]);
            self.push(About::Backlog, connection, entry)?;
        }
        Ok(())
    }

    fn push(&mut self, about: About, number: usize, entry: squeue::Entry) -> Result<(), Error> {
        // The number of a parcel is no connection's, and its completion comes before any is closed.
        let generation = if about == About::Parcel { 0 } else { self.generations[number] };
        let entry = entry.user_data((about as u64) << 56 | u64::from(generation) << 32 | number as u64);
        loop {
            // SAFETY: receives point at nothing (they take ring buffers) or at the description in `stamps`, which the kernel
            // copies when it takes the entry, and polls point at nothing: a socket that is closed meanwhile ends them. Sends point at the outbox
            // or a backlog; neither changes before `enter` returns (`queue` and `exchange` see to it), and by then
            // the kernel has read them: a send with MSG_DONTWAIT is over when its submission is.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit().map_err(Error::Exchange)?;
        }
    }

    /// Submits what is queued and waits.
    fn enter(&mut self, wait: Wait) -> Result<(), Error> {
        let timeout = Timespec::new().nsec(wait.at_most.subsec_nanos());
        let gather = self.can_gather && wait.gather > 1 && !wait.at_most.is_zero();
        let argument = EnterArgument {
            sigmask: 0,
            sigmask_len: 0,
            min_wait_usec: if gather { wait.gather_time.min(wait.at_most).as_micros() as u32 } else { 0 },
            timeout: (&raw const timeout) as u64,
        };
        let want = match gather {
            true => wait.gather as u32,
            false => u32::from(!wait.at_most.is_zero()),
        };
        loop {
            let queued = self.ring.submission().len() as u32;
            let flags = ENTER_GETEVENTS | ENTER_EXT_ARG;
            // SAFETY: the argument has the layout that the kernel expects with EXT_ARG, and it and the time that it
            // points to outlive the call.
            let entered = unsafe { self.ring.submitter().enter(queued, want, flags, Some(&argument)) };
            if let Err(error) = entered
                && !matches!(
                    error.raw_os_error(),
                    Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY)
                )
            {
                return Err(Error::Exchange(error));
            }
            // The kernel stops at an entry that it cannot take now and leaves the rest to the next call.
            if self.ring.submission().is_empty() {
                return Ok(());
            }
        }
    }

    /// Takes all completions: receives are kept for `arrivals`, the rest is dealt with while the outbox exists.
    fn reap(&mut self, outbox: &Outbox) -> Result<(), Error> {
        loop {
            let mut others = Vec::new();
            for entry in self.ring.completion() {
                let completion = Completion::of(&entry);
                match completion.about {
                    About::Receive => self.received.push(completion),
                    _ => others.push(completion),
                }
            }
            for completion in others {
                self.settle(completion, outbox)?;
            }
            if !self.ring.submission().cq_overflow() {
                return Ok(());
            }
            // The kernel holds completions back that found no room; a call that asks for events brings them.
            self.ring.submit().map_err(Error::Exchange)?;
        }
    }

    #[cold]
    fn settle(&mut self, completion: Completion, outbox: &Outbox) -> Result<(), Error> {
        let Completion { about, number, result, .. } = completion;
        if about != About::Parcel && completion.generation != self.generations[number] {
            return Ok(());
        }
        let sent = match result {
            _ if about == About::Connect => return self.connected(number),
            _ if about == About::Room => {
                self.writable.push(number);
                return Ok(());
            }
            sent @ 0.. => sent as usize,
            // In progress: a fast open whose cookie is gone connects first.
            error if error == -libc::EAGAIN || error == -libc::EINPROGRESS => 0,
            error => {
                let connection = if about == About::Parcel { outbox.parcel(number).0 } else { number };
                let error = io::Error::from_raw_os_error(-error);
                self.reopening.ended(connection, failed(connection, Some(error)));
                return Ok(());
            }
        };
        let connection = if about == About::Parcel {
            let (connection, bytes) = outbox.parcel(number);
            self.backlogs[connection].extend_from_slice(&bytes[sent..]);
            connection
        } else {
            self.backlogs[number].drain(..sent);
            number
        };
        if self.backlogs[connection].is_empty() {
            return Ok(());
        }
        let poll = opcode::PollAdd::new(Fixed(connection as u32), libc::POLLOUT as u32).build();
        self.push(About::Room, connection, poll)
    }

    /// The attempt to open a connection anew has ended.
    fn connected(&mut self, connection: usize) -> Result<(), Error> {
        let (now_ns, socket) = (self.now_ns(), &self.sockets[connection]);
        if !self.reopening.settle(connection, socket, now_ns) {
            return Ok(());
        }
        rustix::io::ioctl_fionbio(socket, false).map_err(|error| Error::Exchange(error.into()))?;
        if self.stamps.is_some() {
            stamps::ask(socket).map_err(Error::Exchange)?;
        }
        let handles = [socket.as_raw_fd()];
        self.ring.submitter().register_files_update(connection as u32, &handles).map_err(Error::Exchange)?;
        self.unarmed.push(connection);
        Ok(())
    }
}

impl Engine for UringEngine {
    const NAME: &'static str = "io_uring";

    fn exchange(&mut self, outbox: &Outbox, wait: Wait) -> Result<(), Error> {
        self.queue(outbox)?;
        self.enter(wait)?;
        self.stamps.iter_mut().for_each(Stamps::look);
        self.reap(outbox)
    }

    fn arrivals(
        &mut self,
        mut each: impl FnMut(usize, &[u8], Option<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let UringEngine { received, buffers, unarmed, stamps, generations, reopening, .. } = self;
        for &Completion { number, generation, result, flags, .. } in &*received {
            let is_present = generation == generations[number];
            if result > 0
                && let Some(buffer) = cqueue::buffer_select(flags)
            {
                // SAFETY: the completion says that the kernel put `result` bytes into this buffer, and the buffer
                // is given back only afterwards.
                let bytes = unsafe { buffers.bytes(buffer, result as usize) };
                let (bytes, at_ns) = match stamps {
                    Some(stamps) => stamps.split(bytes),
                    None => (bytes, None),
                };
                let outcome = match bytes.is_empty() {
                    _ if !is_present => Ok(()),
                    false => each(number, bytes, at_ns),
                    true => {
                        reopening.ended(number, failed(number, None));
                        Ok(())
                    }
                };
                buffers.give_back(buffer);
                outcome?;
            } else if result != -libc::ENOBUFS && is_present {
                let error = (result < 0).then(|| io::Error::from_raw_os_error(-result));
                reopening.ended(number, failed(number, error));
                continue;
            }
            if !cqueue::more(flags) && is_present {
                unarmed.push(number);
            }
        }
        received.clear();
        buffers.publish();
        Ok(())
    }

    fn reopen(&mut self, connection: usize) -> Result<(), Error> {
        self.close(connection);
        let now_ns = self.now_ns();
        let Some(socket) = self.reopening.begin(connection, now_ns) else { return Ok(()) };
        let poll = opcode::PollAdd::new(Fd(socket.as_raw_fd()), libc::POLLOUT as u32).build();
        self.sockets[connection] = socket;
        self.push(About::Connect, connection, poll)
    }

    fn close(&mut self, connection: usize) {
        self.reopening.give_up(connection);
        self.generations[connection] = (self.generations[connection] + 1) & GENERATION_MAX;
        self.backlogs[connection].clear();
        self.unarmed.retain(|other| *other != connection);
        self.writable.retain(|other| *other != connection);
        // It may be gone already. Otherwise this ends what is pending on it.
        let _ = rustix::net::shutdown(&self.sockets[connection], rustix::net::Shutdown::Both);
    }

    fn events(&mut self, each: impl FnMut(ConnectionEvent)) -> Result<(), Error> {
        self.reopening.news.drain(..).for_each(each);
        Ok(())
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        // The kernel releases registered sockets some time after the ring is closed: the server must learn it now.
        for socket in &self.sockets {
            // It may be closed by the server already.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
        // Once unregistered the kernel picks no buffer any more. If it refuses, the memory is left to it.
        if self.ring.submitter().unregister_buf_ring(GROUP).is_ok() {
            self.buffers.unmap();
        }
    }
}

impl Completion {
    #[inline]
    fn of(entry: &cqueue::Entry) -> Completion {
        let about = match entry.user_data() >> 56 {
            0 => About::Receive,
            1 => About::Parcel,
            2 => About::Backlog,
            3 => About::Room,
            _ => About::Connect,
        };
        let number = entry.user_data() as u32 as usize;
        let generation = (entry.user_data() >> 32) as u32 & GENERATION_MAX;
        Completion { about, number, generation, result: entry.result(), flags: entry.flags() }
    }
}

/// A send that ends within its submission: wholly, partly or with EAGAIN.
fn send(connection: usize, bytes: &[u8]) -> squeue::Entry {
    opcode::Send::new(Fixed(connection as u32), bytes.as_ptr(), bytes.len() as u32)
        .flags(libc::MSG_DONTWAIT | libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
        .build()
}

const GROUP: u16 = 0;
const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 8;

/// `struct io_uring_getevents_arg` of linux/io_uring.h, with the minimum wait of Linux 6.12.
#[repr(C)]
struct EnterArgument {
    sigmask: u64,
    sigmask_len: u32,
    min_wait_usec: u32,
    timeout: u64,
}
