//! A batch of receives, or of sends, in one system call: io_uring.
//!
//! The kernel gets addresses of buffers, and uses them until it reports completion. The proof that the buffers stay
//! valid is the same for every call in this module: [`Uring::complete`] does not return before the kernel has reported
//! as many completions as there were submissions, and until it returns, the buffers are borrowed. If the kernel stops
//! answering, the ring is given up ([`BrokenRing`]). Submissions that the kernel never took are replaced by plain
//! calls; the buffers of those that it took and did not report are leaked, because the kernel may still use them, and
//! their connections end.

#![expect(unsafe_code, reason = "io_uring takes addresses; the module documentation says why they are valid")]

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use stdx::gather::Gather;

use crate::event_loop::lanes::{LANES_MAX, Lane, Lanes};
use crate::kernel::driver::{SEND_FLAGS, blocked_or, receive_each, send_each, send_output};

/// Receives or sends below which a system call each is cheaper than one for all.
const BATCH_MIN: usize = 2;

/// Pieces of one gathered send: head, value and end of five large values. The rest is sent with a call of its own.
///
/// Gathered sends in the batch buy a tenth (get of 64 KiB values, depth 1, 64 connections, requests per CPU-second).
const PIECES_MAX: usize = 16;

/// Refusals in a row for lack of kernel resources before the ring is given up.
const REFUSALS_MAX: u32 = 1000;

/// A ring that no longer works. All lanes have an outcome; the ring must not be used again.
#[derive(Debug)]
pub(crate) struct BrokenRing {
    /// The error of `io_uring_enter`.
    pub(crate) error: Errno,
    /// Submissions that the kernel took and did not report.
    in_flight: usize,
}

/// The lanes with a reported outcome, a bit each.
#[derive(Clone, Copy, Default)]
struct Reported(u64);

const _: () = assert!(LANES_MAX <= u64::BITS as usize, "a bit for each lane");

impl Reported {
    fn add(&mut self, position: usize) {
        self.0 |= 1 << position;
    }

    fn contains(self, position: usize) -> bool {
        self.0 >> position & 1 == 1
    }
}

/// A ring that is empty between two calls.
pub(crate) struct Uring {
    ring: IoUring,
    /// A gathered send for each lane, touched only when there is one.
    messages: Box<[Message]>,
}

/// The addresses of a gathered send's pieces, in the kernel's form.
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

    /// Names the unsent pieces of `output`, and returns the header for the kernel. `self` and the memory of the pieces
    /// must stay where they are until the kernel has finished.
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
    /// Sets up a ring for the calling thread, which must be the one that uses it.
    pub(crate) fn new() -> io::Result<Uring> {
        let entries = LANES_MAX as u32;
        // Completions are handled in the enter that waits for them (Linux 6.1), or at least without interrupting the
        // thread (5.19). Without either, io_uring is slower than epoll alone.
        let deferred =
            IoUring::builder().dontfork().setup_single_issuer().setup_defer_taskrun().build(entries);
        let ring = deferred.or_else(|_| IoUring::builder().dontfork().setup_coop_taskrun().build(entries))?;
        Ok(Uring { ring, messages: vec![Message::empty(); LANES_MAX].into_boxed_slice() })
    }

    /// Carries out the receives of all lanes that want one.
    pub(crate) fn receive<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) -> Result<(), BrokenRing> {
        if lanes.list.iter().filter(|lane| lane.receive).count() < BATCH_MIN {
            receive_each(lanes, |lane| lane.receive, fd);
            return Ok(());
        }
        let mut submitted = 0;
        for position in 0..lanes.list.len() {
            let (lane, room) = lanes.target(position);
            if !lane.receive {
                continue;
            }
            let target = Fd(fd(lane.index).as_raw_fd());
            let entry = opcode::Recv::new(target, room.as_mut_ptr(), room.len() as u32)
                .flags(RecvFlags::DONTWAIT.bits() as i32)
                .build();
            // SAFETY: `room` lies in `lanes`, which is borrowed until `complete` has seen this entry's
            // completion, and every lane has a buffer of its own.
            unsafe { self.push(entry, position) };
            submitted += 1;
        }
        let mut reported = Reported::default();
        let completed = self.complete(submitted, |position, outcome| {
            reported.add(position);
            lanes.list[position].received = outcome;
        });
        completed.inspect_err(|broken| give_up_receives(lanes, broken, reported, fd))
    }

    /// Sends the outputs of all lanes.
    pub(crate) fn send<'a, Held: AsRef<[u8]>>(
        &mut self,
        lanes: &mut Lanes<Held>,
        fd: impl Fn(u32) -> BorrowedFd<'a>,
    ) -> Result<(), BrokenRing> {
        if lanes.outputs[..lanes.list.len()].iter().filter(|output| !output.is_empty()).count() < BATCH_MIN {
            send_each(lanes, |_| true, fd);
            return Ok(());
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
        let mut reported = Reported::default();
        let completed = self.complete(submitted, |position, outcome| {
            reported.add(position);
            let (lane, _, output) = lanes.parts(position);
            lane.sent = outcome.or_else(blocked_or);
            output.advance(lane.sent.unwrap_or(0));
        });
        if let Err(broken) = completed {
            if broken.in_flight > 0 {
                // The headers of gathered sends.
                std::mem::forget(std::mem::take(&mut self.messages));
            }
            give_up_sends(lanes, &broken, reported, fd);
            return Err(broken);
        }
        // Small replies never reach this line: it would cost them cache misses.
        if gathered {
            self.send_rest(lanes, fd);
        }
        Ok(())
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

    /// Submits what has been pushed and returns when the kernel has finished all of it, or fails.
    fn complete(
        &mut self,
        submitted: usize,
        mut report: impl FnMut(usize, Result<usize, Errno>),
    ) -> Result<(), BrokenRing> {
        let (mut missing, mut refusals) = (submitted, 0);
        while missing > 0 {
            let entered = self.ring.submit_and_wait(missing);
            let before = missing;
            for completion in self.ring.completion() {
                let outcome = usize::try_from(completion.result());
                let outcome = outcome.map_err(|_| Errno::from_raw_os_error(-completion.result()));
                report(completion.user_data() as usize, outcome);
                missing -= 1;
            }
            let Err(error) = entered else { continue };
            match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
                Errno::INTR => {}
                Errno::AGAIN | Errno::BUSY if missing < before => refusals = 0,
                Errno::AGAIN | Errno::BUSY if refusals < REFUSALS_MAX => refusals += 1,
                error if missing > 0 => {
                    // Submissions that the kernel has not taken are still in the ring; the others are in flight.
                    let in_flight = missing.saturating_sub(self.ring.submission().len());
                    return Err(BrokenRing { error, in_flight });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Completes the receives without a report: with plain calls, if the kernel took none of them. If it took some, it is
/// unknown which: their connections end, and the buffers are left to the kernel.
fn give_up_receives<'a, Held: AsRef<[u8]>>(
    lanes: &mut Lanes<Held>,
    broken: &BrokenRing,
    reported: Reported,
    fd: impl Fn(u32) -> BorrowedFd<'a>,
) {
    let mut position = 0..;
    let mut is_left = |lane: &Lane| !reported.contains(position.next().unwrap_or(0)) && lane.receive;
    if broken.in_flight == 0 {
        return receive_each(lanes, is_left, fd);
    }
    let left = lanes.list.iter_mut().filter(|lane| is_left(lane));
    left.for_each(|lane| lane.received = Err(broken.error));
    lanes.leave_inputs();
}

/// As [`give_up_receives`], with outputs.
fn give_up_sends<'a, Held: AsRef<[u8]>>(
    lanes: &mut Lanes<Held>,
    broken: &BrokenRing,
    reported: Reported,
    fd: impl Fn(u32) -> BorrowedFd<'a>,
) {
    if broken.in_flight == 0 {
        return send_each(lanes, |position| !reported.contains(position), fd);
    }
    for position in (0..lanes.list.len()).filter(|position| !reported.contains(*position)) {
        let (lane, _, output) = lanes.parts(position);
        if !output.is_empty() {
            lane.sent = Err(broken.error);
            std::mem::forget(std::mem::take(output));
        }
    }
}

#[cfg(test)]
impl Uring {
    /// From now on every `io_uring_enter` fails.
    pub(crate) fn break_ring(&self) {
        let null = std::fs::File::open("/dev/null").expect("open /dev/null");
        // SAFETY: two open descriptors; nothing is in flight on the ring that this closes.
        let replaced = unsafe { libc::dup2(null.as_raw_fd(), self.ring.as_raw_fd()) };
        assert!(replaced >= 0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    type Rig = (Uring, Lanes<Vec<u8>>, Vec<UnixStream>, Vec<UnixStream>);

    /// A ring, lanes with a connection each, and the peers of these connections.
    fn rig(count: u32) -> Option<Rig> {
        let uring = Uring::new().ok()?;
        let pairs = (0..count).map(|_| UnixStream::pair().expect("a pair"));
        let (ours, theirs) = pairs.unzip();
        let mut lanes = Lanes::new();
        (0..count).for_each(|index| {
            lanes.push(index, true, true);
        });
        Some((uring, lanes, ours, theirs))
    }

    #[test]
    fn a_ring_that_fails_loses_no_input_and_no_output() {
        use std::io::{Read, Write};
        // Where io_uring is forbidden, there is nothing to test.
        let Some((mut uring, mut lanes, ours, mut theirs)) = rig(3) else { return };
        uring.break_ring();
        theirs.iter_mut().for_each(|end| end.write_all(b"hello").expect("room for five bytes"));
        let broken =
            uring.receive(&mut lanes, |index| ours[index as usize].as_fd()).expect_err("a broken ring");
        assert_eq!(broken.in_flight, 0);
        for position in 0..3 {
            let (lane, input, output) = lanes.parts(position);
            assert_eq!((lane.received, &input[..5]), (Ok(5), &b"hello"[..]));
            output.copy(b"a reply");
        }
        uring.send(&mut lanes, |index| ours[index as usize].as_fd()).expect_err("a broken ring");
        for end in &mut theirs {
            let mut reply = [0; 7];
            end.read_exact(&mut reply).expect("a reply");
            assert_eq!(&reply, b"a reply");
        }
        assert!(lanes.list.iter().all(|lane| lane.sent == Ok(7)));
    }

    #[test]
    fn buffers_in_flight_are_leaked_and_their_connections_end() {
        let Some((_, mut lanes, ours, _theirs)) = rig(3) else { return };
        let fd = |index: u32| ours[index as usize].as_fd();
        let mut reported = Reported::default();
        reported.add(1);
        let (lane, input, _) = lanes.parts(1);
        (lane.filled, lane.received) = (2, Ok(3));
        input[..5].copy_from_slice(b"hello");
        let before: Vec<*const u8> = (0..3).map(|position| lanes.parts(position).1.as_ptr()).collect();
        let broken = BrokenRing { error: Errno::PERM, in_flight: 1 };
        give_up_receives(&mut lanes, &broken, reported, fd);
        let outcomes: Vec<_> = lanes.list.iter().map(|lane| lane.received).collect();
        assert_eq!(outcomes, [Err(Errno::PERM), Ok(3), Err(Errno::PERM)]);
        assert_eq!(&lanes.parts(1).1[..5], b"hello");
        assert!((0..3).all(|position| lanes.parts(position).1.as_ptr() != before[position]));

        (0..2).for_each(|position| lanes.outputs[position].copy(b"a reply"));
        give_up_sends(&mut lanes, &broken, reported, fd);
        let outcomes: Vec<_> = lanes.list.iter().map(|lane| lane.sent).collect();
        assert_eq!(outcomes, [Err(Errno::PERM), Ok(0), Ok(0)]);
        assert!(lanes.outputs[0].is_empty() && !lanes.outputs[1].is_empty());
    }
}
