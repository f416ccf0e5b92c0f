use super::*;
use stdx::prng::Prng;

const LINK: FrameLink = FrameLink { peer: [2, 0, 0, 0, 0, 1], own: [2, 0, 0, 0, 0, 2], tag: None };
const TAGGED: FrameLink = FrameLink { tag: Some(0x2007), ..LINK };

fn v4(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], port))
}

fn v6(last: u16, port: u16) -> SocketAddr {
    SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, last], port))
}

fn made(link: &FrameLink, from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xaa; HEAD_MAX + payload.len()];
    let len = write(&mut frame, link, from, to, payload).expect("it fits");
    frame.truncate(len);
    frame
}

/// The checksum by the words of RFC 1071, two bytes at a time.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Where IP begins in an untagged frame.
const IP: usize = ETHERNET;

#[test]
fn what_is_written_is_read_back() {
    let mut prng = Prng::new(1);
    for len in (0..300).chain([1471, 1472]) {
        let payload: Vec<u8> = (0..len).map(|_| prng.next_u64() as u8).collect();
        for (link, (from, to)) in [LINK, TAGGED].iter().flat_map(|link| {
            [(v4(1, 40000), v4(2, 11211)), (v6(1, 40000), v6(2, 11211))].map(|ends| (link, ends))
        }) {
            let frame = made(link, from, to, &payload);
            let arrival = read(&frame).expect("it is sound");
            assert_eq!((arrival.from, arrival.to), (from, to));
            assert_eq!(arrival.link, FrameLink { peer: link.own, own: link.peer, tag: link.tag });
            assert_eq!(frame[arrival.payload], payload[..]);
        }
    }
}

#[test]
fn checksums_are_those_of_the_standard() {
    let frame = made(&LINK, v4(1, 40000), v4(2, 11211), b"get key\r\n");
    assert_eq!(checksum(&frame[IP..IP + 20]), 0);
    let udp = &frame[IP + 20..];
    let pseudo = [&frame[IP + 12..IP + 20], &[0, 17], &(udp.len() as u16).to_be_bytes(), udp].concat();
    assert_eq!(checksum(&pseudo), 0);
    let frame = made(&LINK, v6(1, 40000), v6(2, 11211), b"get key\r\n");
    let udp = &frame[IP + 40..];
    let pseudo = [&frame[IP + 8..IP + 40], &(udp.len() as u32).to_be_bytes(), &[0, 0, 0, 17], udp].concat();
    assert_eq!(checksum(&pseudo), 0);
}

#[test]
fn a_sum_of_zero_is_written_as_its_other_form() {
    // Some payload of two bytes makes the sum zero.
    let zero = (0..=u16::MAX).map(|number| made(&LINK, v4(1, 40000), v4(2, 11211), &number.to_be_bytes()));
    let fields: Vec<u16> = zero.map(|frame| number(&frame, IP + 26).expect("it is there")).collect();
    assert!(!fields.contains(&0), "zero says that there is no checksum");
    assert!(fields.contains(&u16::MAX));
}

/// A frame after a change of its bytes.
#[track_caller]
fn refused(why: RefusedFrame, frame: &[u8], change: impl Fn(&mut Vec<u8>)) {
    let mut changed = frame.to_owned();
    change(&mut changed);
    assert_eq!(read(&changed).map(|arrival| arrival.from), Err(why));
}

/// The same, with the header's checksum made right again.
#[track_caller]
fn refused_v4(why: RefusedFrame, change: impl Fn(&mut [u8])) {
    refused(why, &made(&LINK, v4(1, 40000), v4(2, 11211), b"0123456789"), |frame| {
        change(&mut frame[IP..]);
        put(frame, IP + 10, 0);
        let sum = checksum(&frame[IP..IP + 20]);
        put(frame, IP + 10, sum);
    });
}

#[test]
fn what_is_not_a_whole_datagram_is_refused() {
    let frame = made(&LINK, v4(1, 40000), v4(2, 11211), b"0123456789");
    for len in 0..frame.len() {
        assert_eq!(read(&frame[..len]), Err(RefusedFrame::Short), "{len} bytes");
    }
    // A short frame is filled up to the least length of Ethernet.
    assert!(read(&[&frame[..], &[0; 18]].concat()).is_ok());
    refused(RefusedFrame::NotOurs, &frame, |frame| put(frame, 12, 0x0806));
    refused(RefusedFrame::Sum, &frame, |frame| frame[IP + 8] ^= 1);
    refused(RefusedFrame::Sum, &frame, |frame| *frame.last_mut().expect("it has bytes") ^= 1);
    refused_v4(RefusedFrame::NotOurs, |ip| ip[0] = 0x46);
    refused_v4(RefusedFrame::NotOurs, |ip| ip[9] = 6);
    refused_v4(RefusedFrame::NotOurs, |ip| put(ip, 6, 0x2000));
    refused_v4(RefusedFrame::NotOurs, |ip| put(ip, 6, 1));
    refused_v4(RefusedFrame::Length, |ip| put(ip, 2, 27));
    refused_v4(RefusedFrame::Length, |ip| put(ip, 2, 37));
    refused_v4(RefusedFrame::Short, |ip| put(ip, 2, 39));
    refused_v4(RefusedFrame::Length, |ip| put(ip, 24, 7));
    let frame = made(&LINK, v6(1, 40000), v6(2, 11211), b"0123456789");
    refused(RefusedFrame::NotOurs, &frame, |frame| frame[IP + 6] = 44);
    refused(RefusedFrame::Length, &frame, |frame| put(frame, IP + 4, 7));
    refused(RefusedFrame::Sum, &frame, |frame| put(frame, IP + 46, 0));
}

#[test]
fn nobody_is_answered_who_is_nowhere() {
    for from in ["0.0.0.0:1", "127.0.0.1:1", "224.0.0.1:1", "255.255.255.255:1", "192.0.2.1:0"] {
        let from: SocketAddr = from.parse().expect("an address");
        assert_eq!(read(&made(&LINK, from, v4(2, 11211), b"")), Err(RefusedFrame::Sender), "{from}");
    }
    for from in ["[::]:1", "[::1]:1", "[ff02::1]:1"] {
        let from: SocketAddr = from.parse().expect("an address");
        assert_eq!(read(&made(&LINK, from, v6(2, 11211), b"")), Err(RefusedFrame::Sender), "{from}");
    }
}

#[test]
fn a_checksum_may_be_absent_or_left_to_the_interface() {
    let mut frame = made(&LINK, v4(1, 40000), v4(2, 11211), b"0123456789");
    put(&mut frame, IP + 26, 0);
    assert!(read(&frame).is_ok());
    for (from, to) in [(v4(1, 40000), v4(2, 11211)), (v6(1, 40000), v6(2, 11211))] {
        let mut frame = made(&LINK, from, to, b"0123456789");
        let udp = frame.len() - 18;
        put(&mut frame, udp + 6, folded(pseudo_header(from.ip(), to.ip(), 18)));
        assert!(read(&frame).is_ok(), "a sender on this host");
    }
}

#[test]
fn any_bytes_are_read_or_refused() {
    let mut prng = Prng::new(2);
    let seeds = [LINK, TAGGED].map(|link| {
        [
            made(&link, v4(1, 40000), v4(2, 11211), b"get k\r\n"),
            made(&link, v6(1, 40000), v6(2, 11211), b"get k\r\n"),
        ]
    });
    let seeds = seeds.as_flattened();
    let mut sound = 0;
    for round in 0..200_000 {
        let mut frame = seeds[round % seeds.len()].clone();
        for _ in 0..prng.below(4) {
            let at = prng.below(frame.len() as u64) as usize;
            frame[at] = prng.next_u64() as u8;
        }
        frame.truncate(prng.below(frame.len() as u64 + 1) as usize);
        if let Ok(arrival) = read(&frame) {
            sound += 1;
            assert!(arrival.payload.end <= frame.len());
            let payload = frame[arrival.payload.clone()].to_owned();
            let back = FrameLink { peer: arrival.link.own, own: arrival.link.peer, ..arrival.link };
            let again = read(&made(&back, arrival.from, arrival.to, &payload)).expect("it is sound");
            assert_eq!((again.from, again.to, again.link), (arrival.from, arrival.to, arrival.link));
        }
    }
    assert!(sound > 1000, "{sound} sound ones");
}

#[test]
fn what_does_not_fit_is_not_written() {
    let (from, to) = (v4(1, 1), v4(2, 2));
    assert_eq!(write(&mut [0; 51], &LINK, from, to, &[0; 10]), None);
    assert_eq!(write(&mut [0; 52], &LINK, from, to, &[0; 10]), Some(52));
    assert_eq!(write(&mut [0; 100_000], &LINK, from, to, &[0; 65_536]), None);
    assert_eq!(write(&mut [0; 100], &LINK, from, v6(1, 1), &[]), None, "one end of each kind");
}
