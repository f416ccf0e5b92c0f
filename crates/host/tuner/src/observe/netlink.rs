//! Netlink: requests to the kernel, and its answers, however long or short they are.

use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `NLMSG_ERROR` and `NLMSG_DONE` of netlink.h.
const MESSAGE_ERROR: u16 = 2;
const MESSAGE_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`, and `NLM_F_REQUEST | NLM_F_ACK`.
pub(crate) const FLAGS_DUMP: u16 = 0x1 | 0x300;
pub(crate) const FLAGS_ACK: u16 = 0x1 | 0x4;
/// `NLM_F_REQUEST`.
pub(crate) const FLAGS_ONE: u16 = 0x1;
/// `struct nlmsghdr`.
pub(crate) const HEADER_LEN: usize = 16;
/// The most that the kernel writes per message of a dump (`NLMSG_GOODSIZE` grows up to 32 KiB).
const BUFFER_LEN: usize = 64 << 10;
/// The kernel answers at once, unless the network's lock is held by a driver that resets its device.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(5);
/// The largest number of an error (`MAX_ERRNO`).
const ERRNO_MAX: u32 = 4095;

/// A socket of one request after the other.
pub(crate) fn open(protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_TIME_MAX))?;
    Ok(socket)
}

/// A message: its header, and `body`.
pub(crate) fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_LEN + body.len());
    message.extend(((HEADER_LEN + body.len()) as u32).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    // Sequence number and port: the socket has one request at a time.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Sends a request and passes the body of every answer to `each`, until the last one: of a dump that which says so (families of
/// generic netlink do not mark the others), of other requests the first.
pub(crate) fn ask(socket: &OwnedFd, request: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), Errno> {
    let is_dump = request.get(6..8).is_some_and(|flags| flags == FLAGS_DUMP.to_ne_bytes());
    send(socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER_LEN];
    loop {
        let (len, _) = recv(socket, &mut buffer[..], RecvFlags::empty())?;
        if answers(&buffer[..len], is_dump, &mut each)? {
            return Ok(());
        }
    }
}

/// The messages of a datagram; whether the last one is among them. A message that is cut off is no answer.
fn answers(mut rest: &[u8], is_dump: bool, each: &mut impl FnMut(&[u8])) -> Result<bool, Errno> {
    if rest.is_empty() {
        return Err(Errno::BADMSG);
    }
    while !rest.is_empty() {
        let (kind, body, next) = message(rest).ok_or(Errno::BADMSG)?;
        match kind {
            MESSAGE_DONE => return Ok(true),
            MESSAGE_ERROR => return error(body).map(|()| true),
            _ => each(body),
        }
        if !is_dump {
            return Ok(true);
        }
        rest = next;
    }
    Ok(false)
}

/// 0 is the confirmation of a request that asks for one.
fn error(body: &[u8]) -> Result<(), Errno> {
    let code = body.get(..4).ok_or(Errno::BADMSG)?;
    match u32_at(code, 0).wrapping_neg() {
        0 => Ok(()),
        number @ 1..=ERRNO_MAX => Err(Errno::from_raw_os_error(number as i32)),
        _ => Err(Errno::BADMSG),
    }
}

/// The first message's kind and body, and what follows it.
fn message(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let header = bytes.get(..HEADER_LEN)?;
    let len = u32_at(header, 0) as usize;
    let body = bytes.get(HEADER_LEN..len)?;
    let kind = u16::from_ne_bytes([header[4], header[5]]);
    Some((kind, body, bytes.get(len.next_multiple_of(4)..).unwrap_or(&[])))
}

/// The value of the attribute of this kind.
pub(crate) fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let [len_low, len_high, kind_low, kind_high, ..] = *attributes {
        let len = usize::from(u16::from_ne_bytes([len_low, len_high]));
        if u16::from_ne_bytes([kind_low, kind_high]) == wanted {
            return attributes.get(4..len);
        }
        attributes = attributes.get(len.next_multiple_of(4).max(4)..)?;
    }
    None
}

/// The number in an attribute, of 2, 4 or 8 bytes.
pub(crate) fn number(attributes: &[u8], wanted: u16) -> Option<u64> {
    match *attribute(attributes, wanted)? {
        [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
        [a, b, c, d] => Some(u32::from_ne_bytes([a, b, c, d]).into()),
        [a, b, c, d, e, f, g, h] => Some(u64::from_ne_bytes([a, b, c, d, e, f, g, h])),
        _ => None,
    }
}

/// Adds an attribute.
pub(crate) fn push(attributes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    attributes.extend(((4 + value.len()) as u16).to_ne_bytes());
    attributes.extend(kind.to_ne_bytes());
    attributes.extend(value);
    attributes.resize(attributes.len().next_multiple_of(4), 0);
}

/// A number in native order; 0 beyond the end.
pub(crate) fn u32_at(bytes: &[u8], place: usize) -> u32 {
    let bytes = bytes.get(place..place + 4).and_then(|four| four.try_into().ok());
    bytes.map_or(0, u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bodies of a dump, and whether the last answer was among them.
    fn read(datagram: &[u8]) -> (Vec<Vec<u8>>, Result<bool, Errno>) {
        let mut bodies = Vec::new();
        let ended = answers(datagram, true, &mut |body: &[u8]| bodies.push(body.to_vec()));
        (bodies, ended)
    }

    #[test]
    fn answers_end_with_the_last_one() {
        let mut datagram = request(20, 0, b"abcd");
        datagram.extend(request(20, 0, b"efgh"));
        assert_eq!(read(&datagram), (vec![b"abcd".to_vec(), b"efgh".to_vec()], Ok(false)));
        datagram.extend(request(MESSAGE_DONE, 0, &[0; 4]));
        assert_eq!(read(&datagram).1, Ok(true));
        assert_eq!(answers(&request(20, 0, b"abcd"), false, &mut |_| {}), Ok(true), "the only one");
    }

    #[test]
    fn errors_have_their_number_and_0_is_none() {
        let error = |code: i32| read(&request(MESSAGE_ERROR, 0, &code.to_ne_bytes())).1;
        assert_eq!((error(0), error(-95)), (Ok(true), Err(Errno::OPNOTSUPP)));
        for strange in [i32::MIN, 1, -5000, i32::MAX] {
            assert_eq!(error(strange), Err(Errno::BADMSG), "{strange}");
        }
        assert_eq!(read(&request(MESSAGE_ERROR, 0, &[1])).1, Err(Errno::BADMSG));
    }

    #[test]
    fn short_and_broken_answers_are_errors_and_never_more_than_there_is() {
        let mut body = vec![0; 4];
        push(&mut body, 2, &7_u32.to_ne_bytes());
        let mut datagram = request(20, 0, &body);
        datagram.extend(request(MESSAGE_DONE, 0, &[0; 4]));
        for len in 0..datagram.len() {
            assert!(read(&datagram[..len]).1 != Ok(true), "{len}");
        }
        let mut prng = stdx::prng::Prng::new(5);
        for _ in 0..20_000 {
            let mut broken = datagram.clone();
            for _ in 0..=prng.below(3) {
                let place = prng.below(broken.len() as u64) as usize;
                broken[place] = prng.below(256) as u8;
            }
            for body in read(&broken).0 {
                let _ = (number(body.get(4..).unwrap_or(&[]), 2), attribute(&body, 9));
            }
        }
    }

    #[test]
    fn attributes_are_found_behind_others() {
        let mut attributes = Vec::new();
        push(&mut attributes, 1, b"x");
        push(&mut attributes, 2, &9_u64.to_ne_bytes());
        push(&mut attributes, 3, &[]);
        assert_eq!((attribute(&attributes, 1), number(&attributes, 2)), (Some(&b"x"[..]), Some(9)));
        assert_eq!(
            (number(&attributes, 1), number(&attributes, 3), number(&attributes, 4)),
            (None, None, None)
        );
    }
}
