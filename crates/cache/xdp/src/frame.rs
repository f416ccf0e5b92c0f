//! Ethernet frames with a datagram: what they say, and how a reply looks. IPv4 (RFC 791) and IPv6 (RFC 8200), UDP (RFC 768), at most one
//! VLAN tag (IEEE 802.1Q).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;

const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// Bytes before the payload, at most.
pub const HEAD_MAX: usize = ETHERNET + TAG + IPV6 + UDP;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TYPE_TAG: u16 = 0x8100;
const PROTOCOL_UDP: u8 = 17;
/// Of replies, as the kernel sends them by default.
const HOPS: u8 = 64;
/// "Don't fragment": a reply that does not fit is not sent as a frame at all.
const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments", and the offset of a fragment.
const IS_FRAGMENT: u16 = 0x3fff;

/// The way that a datagram has come, and that its reply takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLink {
    /// The neighbour that has sent it: the client, or a router before it.
    pub peer: [u8; 6],
    /// The address of this host that it was sent to.
    pub own: [u8; 6],
    /// The VLAN tag, if there was one: priority and number.
    pub tag: Option<u16>,
}

/// A datagram in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameArrival {
    /// Its way.
    pub link: FrameLink,
    /// The sender.
    pub from: SocketAddr,
    /// Where it was sent to.
    pub to: SocketAddr,
    /// Where its payload is in the frame.
    pub payload: Range<usize>,
}

/// Why a frame is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedFrame {
    /// It ends before its headers, or before the length that they state.
    Short,
    /// It carries something else than a whole UDP datagram without options.
    NotOurs,
    /// A length that contradicts another one.
    Length,
    /// A checksum is wrong.
    Sum,
    /// Nobody is at the sender's address: a reply would go astray. The kernel drops such packets as well ("martians").
    Sender,
}

/// Reads a frame.
///
/// # Errors
/// Why it is not served.
pub fn read(frame: &[u8]) -> Result<FrameArrival, RefusedFrame> {
    let (peer, own) = (bytes(frame, 6)?, bytes(frame, 0)?);
    let (kind, tag, at) = match number(frame, 12)? {
        TYPE_TAG => (number(frame, 16)?, Some(number(frame, 14)?), ETHERNET + TAG),
        kind => (kind, None, ETHERNET),
    };
    let (from, to, udp, end) = match kind {
        TYPE_IPV4 => ipv4(frame, at)?,
        TYPE_IPV6 => ipv6(frame, at)?,
        _ => return Err(RefusedFrame::NotOurs),
    };
    let datagram = frame.get(udp..end).ok_or(RefusedFrame::Short)?;
    let len = usize::from(number(datagram, 4)?);
    if len != datagram.len() || len < UDP {
        return Err(RefusedFrame::Length);
    }
    check(from, to, datagram)?;
    let (from, to) = (SocketAddr::new(from, number(datagram, 0)?), SocketAddr::new(to, number(datagram, 2)?));
    let is_nobody =
        from.port() == 0 || from.ip().is_unspecified() || from.ip().is_multicast() || from.ip().is_loopback();
    if is_nobody || from.ip() == IpAddr::V4(Ipv4Addr::BROADCAST) {
        return Err(RefusedFrame::Sender);
    }
    Ok(FrameArrival { link: FrameLink { peer, own, tag }, from, to, payload: udp + UDP..end })
}

/// Addresses, and where the datagram begins and ends.
type Packet = (IpAddr, IpAddr, usize, usize);

fn ipv4(frame: &[u8], at: usize) -> Result<Packet, RefusedFrame> {
    let header = frame.get(at..at + IPV4).ok_or(RefusedFrame::Short)?;
    let is_whole = number(header, 6)? & IS_FRAGMENT == 0;
    if header[0] != 0x45 || header[9] != PROTOCOL_UDP || !is_whole {
        return Err(RefusedFrame::NotOurs);
    }
    // With its checksum, the sum of a header is that of nothing.
    if folded(sum(header, 0)) != u16::MAX {
        return Err(RefusedFrame::Sum);
    }
    let len = usize::from(number(header, 2)?);
    if len < IPV4 + UDP {
        return Err(RefusedFrame::Length);
    }
    let address = |at| bytes::<4>(header, at).map(|octets| IpAddr::V4(Ipv4Addr::from(octets)));
    Ok((address(12)?, address(16)?, at + IPV4, at + len))
}

fn ipv6(frame: &[u8], at: usize) -> Result<Packet, RefusedFrame> {
    let header = frame.get(at..at + IPV6).ok_or(RefusedFrame::Short)?;
    if header[0] >> 4 != 6 || header[6] != PROTOCOL_UDP {
        return Err(RefusedFrame::NotOurs);
    }
    let len = usize::from(number(header, 4)?);
    if len < UDP {
        return Err(RefusedFrame::Length);
    }
    let address = |at| bytes::<16>(header, at).map(|octets| IpAddr::V6(Ipv6Addr::from(octets)));
    Ok((address(8)?, address(24)?, at + IPV6, at + IPV6 + len))
}

/// Checks the checksum of a datagram. It may be absent in IPv4 alone. A sender on this host leaves it to an interface that does not
/// compute it either, because the frame never leaves the host: then it is the sum of the pseudo header alone.
fn check(from: IpAddr, to: IpAddr, datagram: &[u8]) -> Result<(), RefusedFrame> {
    let stated = number(datagram, 6)?;
    if stated == 0 {
        return if from.is_ipv4() { Ok(()) } else { Err(RefusedFrame::Sum) };
    }
    let pseudo = pseudo_header(from, to, datagram.len());
    let is_right = folded(sum(datagram, pseudo)) == u16::MAX;
    if is_right || stated == folded(pseudo) { Ok(()) } else { Err(RefusedFrame::Sum) }
}

/// Writes the frame of a datagram to the beginning of `frame`; returns its length, or none if it does not fit.
pub fn write(
    frame: &mut [u8],
    link: &FrameLink,
    from: SocketAddr,
    to: SocketAddr,
    payload: &[u8],
) -> Option<usize> {
    let at = if link.tag.is_some() { ETHERNET + TAG } else { ETHERNET };
    let (kind, header) = match (from, to) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) => (TYPE_IPV4, IPV4),
        (SocketAddr::V6(_), SocketAddr::V6(_)) => (TYPE_IPV6, IPV6),
        _ => return None,
    };
    let udp = at + header;
    let end = udp + UDP + payload.len();
    let frame = frame.get_mut(..end)?;
    let len = u16::try_from(UDP + payload.len()).ok()?;
    frame[..6].copy_from_slice(&link.peer);
    frame[6..12].copy_from_slice(&link.own);
    if let Some(tag) = link.tag {
        put(frame, 12, TYPE_TAG);
        put(frame, 14, tag);
    }
    put(frame, at - 2, kind);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let total = u16::try_from(IPV4).ok()?.checked_add(len)?;
            let ip = &mut frame[at..udp];
            ip.fill(0);
            ip[0] = 0x45;
            put(ip, 2, total);
            put(ip, 6, DONT_FRAGMENT);
            (ip[8], ip[9]) = (HOPS, PROTOCOL_UDP);
            ip[12..16].copy_from_slice(&from.octets());
            ip[16..20].copy_from_slice(&to.octets());
            let checksum = !folded(sum(ip, 0));
            put(ip, 10, checksum);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let ip = &mut frame[at..udp];
            ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, PROTOCOL_UDP, HOPS]);
            put(ip, 4, len);
            ip[8..24].copy_from_slice(&from.octets());
            ip[24..40].copy_from_slice(&to.octets());
        }
        _ => return None,
    }
    let datagram = &mut frame[udp..];
    put(datagram, 0, from.port());
    put(datagram, 2, to.port());
    put(datagram, 4, len);
    put(datagram, 6, 0);
    datagram[UDP..].copy_from_slice(payload);
    let checksum = !folded(sum(datagram, pseudo_header(from.ip(), to.ip(), datagram.len())));
    // A sum of zero is written as its other form: zero says that there is none.
    put(datagram, 6, if checksum == 0 { u16::MAX } else { checksum });
    Some(end)
}

/// Adds up what a datagram's checksum covers besides the datagram.
fn pseudo_header(from: IpAddr, to: IpAddr, len: usize) -> u64 {
    let start = u64::from(PROTOCOL_UDP) + len as u64;
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => sum(&to.octets(), sum(&from.octets(), start)),
        (IpAddr::V6(from), IpAddr::V6(to)) => sum(&to.octets(), sum(&from.octets(), start)),
        // Headers have addresses of one kind.
        _ => start,
    }
}

/// Adds up 16-bit numbers in network order (RFC 1071), four bytes at a time: the carries are folded back in the end.
fn sum(bytes: &[u8], start: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let sum = words.iter().fold(start, |sum, word| sum + u64::from(u32::from_be_bytes(*word)));
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

/// Folds a sum to 16 bits.
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn number(bytes: &[u8], at: usize) -> Result<u16, RefusedFrame> {
    self::bytes(bytes, at).map(u16::from_be_bytes)
}

fn bytes<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], RefusedFrame> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().ok_or(RefusedFrame::Short)
}

fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests;
