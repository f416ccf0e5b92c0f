//! irqbalance, which moves interrupts every ten seconds: its list of banned interrupts, read and set over its socket.
//!
//! irqbalance(1), "API": a socket named after its process id, which takes a line from root and answers at once. A
//! list of banned interrupts replaces the one before, so a program that adds to it has to read it first. The list is
//! gone when irqbalance is restarted, and its socket has another name then.

use std::collections::BTreeSet;
use std::io::{self, IoSlice, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use os::socket_file::check_peer;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred, sendmsg};
use rustix::process::{getgid, getpid, getuid};

/// It answers out of its main loop, between two rounds that take milliseconds.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of a command that every version takes: until 1.9.4 it reads 500 of them, and cuts off what is longer in the
/// middle of a number. (1.9.5 reads 255 of the list; that this was cut shows when it is read back.)
const COMMAND_LEN_MAX: usize = 480;

/// Bytes of its answer.
const ANSWER_LEN_MAX: u64 = 1 << 20;

/// Connects to its socket: on disk, else (before 1.8, or without the directory) in the abstract name space.
fn connect(pid: u32) -> io::Result<UnixStream> {
    let name = format!("irqbalance{pid}.sock");
    #[allow(clippy::disallowed_methods, reason = "whoever listens is looked at before a byte is sent")]
    UnixStream::connect(format!("/run/irqbalance/{name}"))
        .or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                UnixStream::connect_addr(&SocketAddr::from_abstract_name(name.as_bytes())?)
            }
            _ => Err(error),
        })
        .map_err(|error| match error.kind() {
            // No listener: that irqbalance has ended, and its list with it.
            io::ErrorKind::ConnectionRefused => Errno::SRCH.into(),
            _ => error,
        })
}

/// Sends a command with the credentials that it requires, and reads until it closes.
fn ask(pid: u32, command: &str) -> io::Result<String> {
    let mut stream = connect(pid)?;
    // Every user could have a socket of that name.
    check_peer(&stream, &[])?;
    stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
    stream.set_write_timeout(Some(ANSWER_TIME_MAX))?;
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let who = UCred { pid: getpid(), uid: getuid(), gid: getgid() };
    assert!(ancillary.push(SendAncillaryMessage::ScmCredentials(who)), "there is room for one");
    let sent = sendmsg(&stream, &[IoSlice::new(command.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    if sent != command.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut answer = String::new();
    match Read::by_ref(&mut stream).take(ANSWER_LEN_MAX).read_to_string(&mut answer) {
        Ok(_) => Ok(answer),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Errno::TIMEDOUT.into()),
        Err(error) => Err(error),
    }
}

/// The interrupts that it leaves alone because of a command. (Those that its policy script or a module's name ban are
/// not among them, and stay banned.)
pub(crate) fn banned(pid: u32) -> io::Result<BTreeSet<u32>> {
    let answer = ask(pid, "setup")?;
    setup(&answer).ok_or_else(|| match answer.is_empty() {
        // It closes connections of users other than root.
        true => Errno::PERM.into(),
        false => io::Error::new(io::ErrorKind::InvalidData, format!("irqbalance answers {answer:?}")),
    })
}

/// Makes it leave alone these and no others. It examines all interrupts anew then.
pub(crate) fn ban(pid: u32, irqs: &BTreeSet<u32>) -> io::Result<()> {
    let command =
        format!("settings ban irqs {}", if irqs.is_empty() { "NONE".to_owned() } else { list(irqs) });
    if command.len() > COMMAND_LEN_MAX {
        return Err(Errno::TOOBIG.into());
    }
    ask(pid, &command).map(drop)
}

/// `38 39`; empty for none.
pub(crate) fn list(irqs: &BTreeSet<u32>) -> String {
    irqs.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// `SLEEP 10 IRQ 38 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000`: 38.
fn setup(answer: &str) -> Option<BTreeSet<u32>> {
    let words: Vec<&str> = answer.split_whitespace().collect();
    if words.first() != Some(&"SLEEP") || !words.contains(&"BANNED") {
        return None;
    }
    let numbers = words.windows(2).filter(|pair| pair[0] == "IRQ").map(|pair| pair[1].parse().ok());
    numbers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_answer_names_the_banned_interrupts() {
        let banned = |answer: &str| setup(answer).map(|irqs| list(&irqs));
        let two = "SLEEP 10 IRQ 39 LOAD 0 DIFF 0 CLASS 0 IRQ 38 LOAD 0 DIFF 0 CLASS 5 BANNED 00000000";
        assert_eq!(banned(two).as_deref(), Some("38 39"));
        assert_eq!(banned("SLEEP 10 BANNED 00000000").as_deref(), Some(""));
        for wrong in ["", "SLEEP 10", "IRQ 38 BANNED 0", "SLEEP 10 IRQ x BANNED 0"] {
            assert_eq!(banned(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_list_that_would_be_cut_is_not_sent() {
        let error = ban(u32::MAX, &(100..300).collect()).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::TOOBIG));
    }

    #[test]
    fn one_that_has_ended_has_no_list() {
        let error = banned(u32::MAX).unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::SRCH), "{error}");
    }
}
