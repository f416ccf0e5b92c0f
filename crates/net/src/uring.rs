//! A batch of receives, or of sends, in one system call: io_uring.
//!
//! The kernel is given addresses of buffers, and uses them until it reports completion. The proof that they
//! stay where they are is the same for every call in here: [`Uring::complete`] does not return before the kernel
//! has reported as many completions as there were submissions, and until it returns, the buffers are borrowed.
//! If that cannot be had, the process ends: unwinding would free memory that the kernel still writes to.

#![expect(unsafe_code, reason = "io_uring takes addresses; the module documentation says why they are valid")]

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use stdx::gather::Gather;

use crate::driver::{SEND_FLAGS, blocked_or, receive_each, send_each, send_output};
use crate::lanes::{LANES_MAX, Lanes};

/// Receives or sends below which a system call each is cheaper than one for all.
const BATCH_MIN: usize = 2;

/// Pieces of one gathered send: head, value and end of five large values. What is left goes out by itself.
///
/// Gathered sends in the batch buy a tenth (get of 64 KiB values, depth 1, 64 connections, requests per CPU-second).
const PIECES_MAX: usize = 16;

/// A ring that is empty between two calls.
pub(crate) struct Uring {
    ring: IoUring,
    /// A gathered send for each lane, touched only when there is one.
    messages: Box<[Message]>,
}

/// Where the pieces of a gathered send lie, as the kernel wants to be told.
#[derive(Clone, Copy)]
struct Message {
    header: libc::msghdr,
    pieces: [libc::iovec; PIECES_MAX],
    /// Bytes of the pieces.
    offered: usize,
}

impl Message {
    const NONE: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

    fn empty() -> Message {
        // SAFETY: a header without names, pieces and control data is all zeros.
        let header = unsafe { std::mem::zeroed() };
        Message { header, pieces: [Message::NONE; PIECES_MAX], offered: 0 }
    }

    /// Names the unsent pieces of `output`, and returns how to hand them to the kernel. `self` and what the pieces
    /// lie in must stay where they are until the kernel is done.
    fn gather<Held: AsRef<[u8]>>(&mut self, output: &Gather<Held>) -> *const libc::msghdr {
        let mut slices = [IoSlice::new(&[]); PIECES_MAX];
        let count = output.slices(&mut slices);
        for (piece, slice) in self.pieces.iter_mut().zip(&slices[..count]) {
            *piece = libc::iovec { iov_base: slice.as_ptr().cast_mut().cast(), iov_len: slice.len() };
        }
        self.offered = slices[..count].iter().map(|slice| slice.len()).sum();
        self.header.msg_iov = self.pieces.as_mut_ptr();
        self.header.msg_iovlen = count;
        &self.header
    }

    /// Bytes of the pieces that were named last; 0 the next time.
    fn take_offered(&mut self) -> usize {
        std::mem::take(&mut self.offered)
    }
}

impl Uring {
    /// Sets up a ring for the thread that calls, which must be the one that uses it.
    pub(crate) fn new() -> io::Result<Uring> {
        let entries = LANES_MAX as u32;
        // Completions are worked off in the enter that waits for them (Linux 6.1), or at least not by
        // interrupting the thread (5.19). Without either, io_uring is slower than epoll alone.
        let deferred =
            IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = deferred.or_else(|_| IoUring::builder().dontfork().setup_coop_taskrun().build(entries))?;
        Ok(Uring { ring, messages: vec![Message::empty(); LANES_MAX].into_boxed_slice() })
    }

    /// Does the receives of all lanes that want one.
    pub(crate) fn receive<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) {
        if lanes.list.iter().filter(|lane| lane.receive).count() < BATCH_MIN {
            return receive_each(lanes, fd);
        }
        let mut submitted = 0;
        for position in 0..lanes.list.len() {
            let (lane, buffer, _) = lanes.parts(position);
            if !lane.receive {
                continue;
            }
            let room = &mut buffer[lane.filled..];
            let target = Fd(fd(lane.index).as_raw_fd());
            let entry = opcode::Recv::new(target, room.as_mut_ptr(), room.len() as u32)
                .flags(RecvFlags::DONTWAIT.bits() as i32)
                .build();
            // SAFETY: `room` lies in `lanes`, which is borrowed until `complete` has seen this entry's
            // completion, and every lane has a buffer of its own.
            unsafe { self.push(entry, position) };
            submitted += 1;
        }
        self.complete(submitted, |position, outcome| lanes.list[position].received = outcome);
    }

    /// Sends what lies in the outputs of all lanes.
    pub(crate) fn send<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) {
        if lanes.outputs[..lanes.list.len()].iter().filter(|output| !output.is_empty()).count() < BATCH_MIN {
            return send_each(lanes, fd);
        }
        let (mut submitted, mut gathered) = (0, false);
        for position in 0..lanes.list.len() {
            let (lane, _, output) = lanes.parts(position);
            if output.is_empty() {
                continue;
            }
            let target = Fd(fd(lane.index).as_raw_fd());
            let entry = match output.single() {
                Some(bytes) => {
                    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                    opcode::Send::new(target, bytes.as_ptr(), len).flags(SEND_FLAGS.bits() as i32).build()
                }
                None => {
                    gathered = true;
                    let message = self.messages[position].gather(output);
                    opcode::SendMsg::new(target, message).flags(SEND_FLAGS.bits()).build()
                }
            };
            // SAFETY: the bytes lie in `lanes`, which is borrowed, or in memory that `output` holds, and `output` is
            // not changed; the message is this lane's alone. All of it until `complete` has seen this completion.
            unsafe { self.push(entry, position) };
            submitted += 1;
        }
        self.complete(submitted, |position, outcome| {
            let (lane, _, output) = lanes.parts(position);
            lane.sent = outcome.or_else(blocked_or);
            output.advance(lane.sent.unwrap_or(0));
        });
        // Small replies never come here: it would cost them the cache.
        if gathered {
            self.send_rest(lanes, fd);
        }
    }

    /// Sends what did not fit into one message, as far as the sockets take it.
    fn send_rest<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) {
        for position in 0..lanes.list.len() {
            let offered = self.messages[position].take_offered();
            let (lane, _, output) = lanes.parts(position);
            if offered > 0 && lane.sent == Ok(offered) && !output.is_empty() {
                lane.sent = send_output(fd(lane.index), output).map(|more| offered + more);
            }
        }
    }

    /// # Safety
    ///
    /// The memory that `entry` names must stay valid, and must not be used otherwise, until `complete` returns.
    unsafe fn push(&mut self, entry: squeue::Entry, position: usize) {
        let entry = entry.user_data(position as u64);
        // SAFETY: by this function's own condition.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("an entry for each lane");
    }

    /// Submits what has been pushed and returns when the kernel is done with all of it.
    fn complete(&mut self, submitted: usize, mut report: impl FnMut(usize, Result<usize, Errno>)) {
        let mut missing = submitted;
        while missing > 0 {
            match self
                .ring
                .submit_and_wait(missing)
                .map_err(|error| error.raw_os_error().map(Errno::from_raw_os_error))
            {
                Ok(_) | Err(Some(Errno::INTR | Errno::AGAIN | Errno::BUSY)) => {}
                // Entries may be under way, and nothing will tell when they are done.
                Err(_) => std::process::abort(),
            }
            for completion in self.ring.completion() {
                let outcome = usize::try_from(completion.result());
                let outcome = outcome.map_err(|_| Errno::from_raw_os_error(-completion.result()));
                report(completion.user_data() as usize, outcome);
                missing -= 1;
            }
        }
    }
}
