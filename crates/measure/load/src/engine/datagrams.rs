//! Many requests in one system call, each a datagram with a head of its own.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use net::segments::{self, MESSAGES_MAX, Message};
use protocol::udp::HEAD_LEN;
use rustix::io::Errno;

/// Datagrams of one send.
pub(crate) const BATCH: usize = 32;

/// How far sending got.
pub(crate) struct Sent {
    /// Datagrams that the kernel took.
    pub(crate) count: usize,
    /// Why it did not take the next one.
    pub(crate) error: Option<Errno>,
}

/// Sends up to [`BATCH`] datagrams, each a head and a payload, to the peer of the socket; the rest is not looked at.
pub(crate) fn send<'b>(
    socket: BorrowedFd<'_>,
    datagrams: impl Iterator<Item = ([u8; HEAD_LEN], &'b [u8])>,
) -> Sent {
    let mut heads = [[0; HEAD_LEN]; BATCH];
    let mut payloads = [&[][..]; BATCH];
    let mut count = 0;
    for (head, payload) in datagrams.take(BATCH) {
        (heads[count], payloads[count]) = (head, payload);
        count += 1;
    }
    let part = |number: usize| match number % 2 {
        0 => IoSlice::new(&heads[number / 2]),
        _ => IoSlice::new(payloads[number / 2]),
    };
    let parts: [IoSlice<'_>; 2 * BATCH] = std::array::from_fn(part);
    let lens: [usize; BATCH] = std::array::from_fn(|number| HEAD_LEN + payloads[number].len());
    let mut sent = 0;
    while sent < count {
        match send_some(socket, &parts[2 * sent..2 * count], &lens[sent..count]) {
            Ok(some) => sent += some,
            Err(error) => return Sent { count: sent, error: Some(error) },
        }
    }
    Sent { count, error: None }
}

/// Sends at least one datagram; each has two parts.
fn send_some(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>], lens: &[usize]) -> Result<usize, Errno> {
    let mut messages = [Message { to: None, parts: &[], segment_len: None }; MESSAGES_MAX];
    let mut ends = [0; MESSAGES_MAX];
    let (mut count, mut next) = (0, 0);
    while count < MESSAGES_MAX && next < lens.len() {
        let alike = segments::count_alike(lens[next..].iter().map(|len| (None, *len)));
        let segment_len = (alike > 1).then(|| lens[next] as u16);
        messages[count] = Message { to: None, parts: &parts[2 * next..2 * (next + alike)], segment_len };
        next += alike;
        ends[count] = next;
        count += 1;
    }
    match segments::send(socket, &messages[..count]) {
        Ok(sent) => Ok(ends[sent - 1]),
        // A route on which the kernel does not cut messages.
        Err(Errno::INVAL | Errno::IO | Errno::MSGSIZE) if messages[0].segment_len.is_some() => {
            segments::send(socket, &[Message { to: None, parts: &parts[..2], segment_len: None }])
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::segments::DatagramBatch;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [a, b] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
        a.connect(b.local_addr().expect("bound")).expect("an address");
        b.connect(a.local_addr().expect("bound")).expect("an address");
        segments::coalesce(b.as_fd()).expect("a kernel that coalesces");
        (a, b)
    }

    /// Sends payloads of these lengths, which arrive in so many messages.
    fn check(lens: &[usize], messages: usize) {
        let (a, b) = pair();
        let payloads: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| vec![n as u8; *len]).collect();
        let datagrams = payloads.iter().map(|payload| ([payload.len() as u8; HEAD_LEN], &payload[..]));
        let sent = send(a.as_fd(), datagrams);
        assert_eq!((sent.count, sent.error), (payloads.len().min(BATCH), None));
        let (mut arrivals, mut seen, mut count) = (DatagramBatch::default(), Vec::new(), 0);
        // Loopback delivers within the send.
        while arrivals.receive(b.as_fd()).is_ok() {
            count += arrivals.count();
            for number in 0..arrivals.count() {
                let (received, bytes) = arrivals.message(number);
                seen.extend(bytes.chunks(received.segment_len).map(<[u8]>::to_vec));
            }
        }
        assert_eq!((seen.len(), count), (payloads.len().min(BATCH), messages));
        for (datagram, payload) in seen.iter().zip(&payloads) {
            assert_eq!(datagram[..HEAD_LEN], [payload.len() as u8; HEAD_LEN]);
            assert_eq!(&datagram[HEAD_LEN..], payload);
        }
    }

    #[test]
    fn what_is_sent_arrives_with_its_head() {
        check(&(0..BATCH + 3).map(|n| n * 20).collect::<Vec<_>>(), BATCH);
        check(&[7], 1);
    }

    #[test]
    fn datagrams_of_one_length_travel_together() {
        check(&[&[100; 20][..], &[40, 100, 100, 7, 0, 0]].concat(), 3);
    }

    #[test]
    fn the_longest_datagram_fits_and_a_longer_one_is_refused() {
        check(&[65_507 - HEAD_LEN], 1);
        let (a, _b) = pair();
        let longer = vec![1; 65_508 - HEAD_LEN];
        let sent = send(a.as_fd(), [([2; HEAD_LEN], &longer[..])].into_iter());
        assert_eq!((sent.count, sent.error), (0, Some(Errno::MSGSIZE)));
    }
}
