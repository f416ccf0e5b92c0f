//! The engine against a peer that answers as the test says.

use super::*;
use crate::engine::{GATHER_TIME, WAIT_MAX};
use std::net::UdpSocket;

const PATIENT: Patience = Patience { timeout: Duration::from_secs(600), repeats: 0 };
const WAIT: Wait = Wait { gather: 1, gather_time: GATHER_TIME, at_most: WAIT_MAX };

struct Peer {
    engine: Udp,
    socket: UdpSocket,
    outbox: Outbox,
}

impl Peer {
    /// One socket with lanes 0, 1 and 2.
    fn new(patience: Patience) -> Peer {
        let [near, socket] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a free port"));
        near.connect(socket.local_addr().expect("bound")).expect("an address");
        socket.connect(near.local_addr().expect("bound")).expect("an address");
        let engine = Udp::new(vec![near.into()], 3, patience).expect("epoll");
        Peer { engine, socket, outbox: Outbox::default() }
    }

    /// Sends `request` in `lane`.
    fn ask(&mut self, lane: usize, request: &str) {
        let start = self.outbox.bytes.len();
        self.outbox.bytes.extend_from_slice(request.as_bytes());
        self.outbox.address(lane, start);
    }

    /// One exchange, which sends what was asked.
    fn exchange(&mut self) {
        self.engine.exchange(&self.outbox, WAIT).expect("an exchange");
        self.outbox.clear();
    }

    /// The next request as it arrives: its id and its text.
    fn heard(&self) -> (u16, String) {
        let mut buffer = [0; 2048];
        let len = self.socket.recv(&mut buffer).expect("a request");
        let (frame, payload) = Frame::read(&buffer[..len]).expect("a frame");
        assert_eq!((frame.sequence, frame.total), (0, 1));
        (frame.id, String::from_utf8(payload.to_vec()).expect("text"))
    }

    fn answer(&self, id: u16, sequence: u16, total: u16, text: &str) {
        let mut datagram = Vec::new();
        [id, sequence, total, 0].iter().for_each(|number| datagram.extend(number.to_be_bytes()));
        datagram.extend_from_slice(text.as_bytes());
        self.socket.send(&datagram).expect("room");
    }

    /// What arrives, lane by lane, and what else happens.
    fn arrivals(&mut self) -> (String, Vec<String>) {
        let (mut text, mut events) = (String::new(), Vec::new());
        self.exchange();
        self.engine
            .arrivals(|lane, bytes, _| {
                text += &format!("{lane}:{} ", std::str::from_utf8(bytes).expect("text"));
                Ok(())
            })
            .expect("arrivals");
        self.engine.events(|event| events.push(format!("{event:?}"))).expect("events");
        (text, events)
    }
}

#[test]
fn replies_find_their_requests_in_any_order() {
    let mut peer = Peer::new(PATIENT);
    (0..3).for_each(|lane| peer.ask(lane, &format!("get {lane}")));
    peer.exchange();
    let heard = [(); 3].map(|()| peer.heard());
    assert_eq!(heard.each_ref().map(|(_, text)| text.as_str()), ["get 0", "get 1", "get 2"]);
    let [a, b, c] = heard.map(|(id, _)| id);
    peer.answer(c, 0, 1, "three");
    peer.answer(a, 1, 2, "two");
    peer.answer(b, 0, 1, "END");
    peer.answer(a, 0, 2, "one");
    assert_eq!(peer.arrivals(), (String::from("2:three 1:END 0:one 0:two "), Vec::new()));
}

#[test]
fn what_comes_twice_or_too_late_answers_nothing() {
    let mut peer = Peer::new(PATIENT);
    peer.ask(1, "first");
    peer.exchange();
    let (first, _) = peer.heard();
    peer.answer(first, 0, 1, "END");
    peer.answer(first, 0, 1, "END");
    assert_eq!(peer.arrivals(), (String::from("1:END "), vec![String::from("Stray(1)")]));
    peer.ask(1, "second");
    peer.exchange();
    let (second, _) = peer.heard();
    assert_ne!(first, second);
    peer.answer(first, 0, 1, "END");
    // Of a lane that does not exist, and no frame at all.
    peer.answer(second | 3, 0, 1, "END");
    peer.socket.send(b"END").expect("room");
    peer.answer(second, 0, 1, "found");
    assert_eq!(peer.arrivals(), (String::from("1:found "), vec![String::from("Stray(3)")]));
}

#[test]
fn a_request_without_a_whole_reply_is_lost() {
    let mut peer = Peer::new(Patience { timeout: Duration::from_millis(1), repeats: 0 });
    peer.ask(0, "get a");
    peer.ask(2, "get b");
    peer.exchange();
    let (id, _) = peer.heard();
    peer.answer(id, 1, 2, "the other part");
    let mut lost = Vec::new();
    while lost.len() < 2 {
        let (text, events) = peer.arrivals();
        assert_eq!(text, "");
        lost.extend(events);
    }
    assert_eq!(lost, ["Lost(0)", "Lost(2)"]);
    // It is forgotten.
    peer.answer(id, 0, 2, "one part");
    assert_eq!(peer.arrivals(), (String::new(), vec![String::from("Stray(1)")]));
}

#[test]
fn a_request_that_may_is_sent_again() {
    let mut peer = Peer::new(Patience { timeout: Duration::from_millis(1), repeats: 2 });
    peer.ask(1, "set a");
    let mut events = Vec::new();
    while events.is_empty() {
        events = peer.arrivals().1;
    }
    assert_eq!(events, ["Lost(1)"]);
    let first = peer.heard();
    assert_eq!((first.1.as_str(), peer.heard(), peer.heard()), ("set a", first.clone(), first.clone()));
}
