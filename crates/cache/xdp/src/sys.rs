//! The system call bpf(2), for the few things that a program at an interface needs.
//!
//! With `unsafe`: the kernel reads a table of numbers, some of which are addresses.
#![expect(unsafe_code, reason = "a system call that takes addresses in a table")]

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

// Commands, and kinds of maps, programs and links (`linux/bpf.h`).
const MAP_CREATE: i64 = 0;
const MAP_UPDATE: i64 = 2;
const PROGRAM_LOAD: i64 = 5;
const LINK_CREATE: i64 = 28;
const MAP_OF_SOCKETS: u32 = 17;
const PROGRAM_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;

/// The kernel's table of arguments, as eight-byte numbers; commands differ in what they mean.
type Arguments = [u64; 18];

/// Two numbers of four bytes, one after the other.
fn pair(first: u32, second: u32) -> u64 {
    let [a, b, c, d] = first.to_ne_bytes();
    let [e, f, g, h] = second.to_ne_bytes();
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

/// # Safety
/// The addresses in `arguments` must be as the command wants them, and valid during the call.
unsafe fn bpf(command: i64, arguments: &mut Arguments) -> Result<i32, Errno> {
    // SAFETY: the table has the length that is given, and the kernel may write its answer to it; the rest is the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, arguments.as_mut_ptr(), size_of::<Arguments>()) };
    i32::try_from(result)
        .ok()
        .filter(|result| *result >= 0)
        .ok_or_else(|| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// # Safety
/// As for [`bpf`]; the command returns a descriptor.
unsafe fn made(command: i64, arguments: &mut Arguments) -> Result<OwnedFd, Errno> {
    // SAFETY: as promised; the descriptor is new, and nobody else's.
    unsafe { bpf(command, arguments).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// A map from queues to sockets with rings.
pub(crate) fn socket_map(queues: u32) -> Result<OwnedFd, Errno> {
    let mut arguments: Arguments = [0; 18];
    arguments[0] = pair(MAP_OF_SOCKETS, 4);
    arguments[1] = pair(4, queues);
    // SAFETY: there are no addresses in it.
    unsafe { made(MAP_CREATE, &mut arguments) }
}

/// Enters a socket into the map.
pub(crate) fn enter(map: impl AsFd, queue: u32, socket: impl AsFd) -> Result<(), Errno> {
    let value = socket.as_fd().as_raw_fd();
    let mut arguments: Arguments = [0; 18];
    arguments[0] = pair(map.as_fd().as_raw_fd() as u32, 0);
    arguments[1] = (&raw const queue) as u64;
    arguments[2] = (&raw const value) as u64;
    // SAFETY: both are numbers of four bytes, as the map has been made for, and live longer than the call.
    unsafe { bpf(MAP_UPDATE, &mut arguments).map(drop) }
}

/// Loads a program for interfaces. The kernel proves that it ends and reads nothing beyond a frame.
pub(crate) fn load(instructions: &[u64]) -> Result<OwnedFd, Errno> {
    let license = c"Apache-2.0";
    let mut arguments: Arguments = [0; 18];
    arguments[0] = pair(PROGRAM_XDP, instructions.len() as u32);
    arguments[1] = instructions.as_ptr() as u64;
    arguments[2] = license.as_ptr() as u64;
    // A log is not asked for; `bpftool prog show` shows the name.
    arguments[6] = u64::from_ne_bytes(*b"evenkeel");
    arguments[7] = u64::from_ne_bytes(*b"_udp\0\0\0\0");
    // The kind of place that it is for.
    arguments[8] = pair(0, ATTACH_XDP);
    // SAFETY: the instructions, of eight bytes each, and the text live longer than the call.
    unsafe { made(PROGRAM_LOAD, &mut arguments) }
}

/// Attaches a program to an interface, for as long as the descriptor is open.
pub(crate) fn attach(program: impl AsFd, interface: u32, flags: u32) -> Result<OwnedFd, Errno> {
    let mut arguments: Arguments = [0; 18];
    arguments[0] = pair(program.as_fd().as_raw_fd() as u32, interface);
    arguments[1] = pair(ATTACH_XDP, flags);
    // SAFETY: there are no addresses in it.
    unsafe { made(LINK_CREATE, &mut arguments) }
}

/// Runs a program on a frame; returns its verdict.
#[cfg(test)]
pub(crate) fn run(program: impl AsFd, frame: &[u8]) -> Result<u32, Errno> {
    const PROGRAM_TEST_RUN: i64 = 10;
    let mut arguments: Arguments = [0; 18];
    arguments[0] = pair(program.as_fd().as_raw_fd() as u32, 0);
    arguments[1] = pair(frame.len() as u32, 0);
    arguments[2] = frame.as_ptr() as u64;
    // SAFETY: the frame lives longer than the call.
    unsafe { bpf(PROGRAM_TEST_RUN, &mut arguments)? };
    let [_, _, _, _, verdict @ ..] = arguments[0].to_ne_bytes();
    Ok(u32::from_ne_bytes(verdict))
}
