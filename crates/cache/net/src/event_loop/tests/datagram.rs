//! Tests of datagram sockets, listening and dialled ones, on loopback.

use std::io::{Read, Write};
use std::net::UdpSocket;

use super::dial::{DIALLED_MAX, Rig, TIMEOUT_MS, unix_listener, with_each_driver};
use crate::event_loop::dial::{Place, Unreachable};
use crate::sockets::datagram::DatagramPeer;
use crate::sockets::datagram_sockets::RECEIVED_MAX;
use crate::testing::scripted::{Seen, TestOrder};

const LOOPBACK: &str = "127.0.0.1:0";

/// A peer that sends datagrams to the worker.
fn client(rig: &Rig) -> UdpSocket {
    let socket = UdpSocket::bind(LOOPBACK).unwrap();
    socket.connect(rig.datagram_address).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// All datagrams that have arrived.
fn received(socket: &UdpSocket) -> Vec<String> {
    let mut buffer = [0; 100];
    let one =
        || socket.recv(&mut buffer).ok().map(|len| String::from_utf8_lossy(&buffer[..len]).into_owned());
    std::iter::from_fn(one).collect()
}

#[test]
fn datagrams_are_answered_in_their_round_and_each_peers_in_order() {
    with_each_driver(|mut rig| {
        let peers: Vec<UdpSocket> = (0..20).map(|_| client(&rig)).collect();
        for text in ["2", "0", "3"] {
            peers.iter().for_each(|peer| assert_eq!(peer.send(text.as_bytes()).unwrap(), 1));
        }
        // One that is gone before the reply.
        client(&rig).send(b"5").unwrap();
        rig.round(TIMEOUT_MS);
        for peer in &peers {
            assert_eq!(received(peer), ["reply 0", "reply 1", "reply 0", "reply 1", "reply 2"]);
        }
        let from = rig.handler().datagrams[0].0;
        assert_eq!(from, DatagramPeer::Client { listener: 9, address: peers[0].local_addr().unwrap() });
        // And in another round.
        rig.handler().orders.push(TestOrder::Send(from, b"by the way".to_vec()));
        rig.round(0);
        assert_eq!(received(&peers[0]), ["by the way"]);
        assert_eq!(rig.worker.table.counters().datagrams.value(), 61);
    });
}

#[test]
fn connections_are_served_during_a_flood_of_datagrams() {
    with_each_driver(|mut rig| {
        let listener = unix_listener("flood");
        let mut stream = rig.pair(&listener, 1);
        rig.handler().echoes = true;
        let peers: Vec<UdpSocket> = (0..10).map(|_| client(&rig)).collect();
        (0..20).for_each(|_| peers.iter().for_each(|peer| assert_eq!(peer.send(b"0").unwrap(), 1)));
        let mut rounds = 0;
        while rig.handler().datagrams.len() < 200 {
            stream.write_all(b"x").unwrap();
            rig.round(0);
            rounds += 1;
            assert!(rig.handler().datagrams.len() <= rounds * RECEIVED_MAX);
            assert_eq!(stream.read(&mut [0; 10]).unwrap(), 1, "served in each round");
        }
        assert_eq!(rounds, 4);
    });
}

#[test]
fn datagrams_without_room_are_dropped_and_counted() {
    with_each_driver(|mut rig| {
        let peer = client(&rig);
        peer.send(b"400000").unwrap();
        rig.round(TIMEOUT_MS);
        let dropped = |rig: &Rig| rig.worker.table.counters().datagrams_dropped.value();
        // Of 400,000 replies of some 12 bytes not all fit into a round.
        let before = dropped(&rig);
        assert!(before > 100_000, "{before}");
        assert!(rig.worker.turn.is_idle() && !received(&peer).is_empty());
        let from = rig.handler().datagrams[0].0;
        for (to, len, is_dropped) in [
            (from, 65_508, true),
            (DatagramPeer::Client { listener: 3, address: peer.local_addr().unwrap() }, 1, true),
            (from, 1, false),
            (from, 0, false),
        ] {
            let before = dropped(&rig);
            rig.handler().orders.push(TestOrder::Send(to, vec![b'x'; len]));
            rig.round(0);
            assert_eq!(dropped(&rig) - before, u64::from(is_dropped), "{len} bytes");
        }
        assert_eq!(received(&peer), ["x", ""]);
    });
}

/// A server for datagrams that the handler has dialled with the tag 7.
fn dialled(rig: &mut Rig) -> UdpSocket {
    let server = UdpSocket::bind(LOOPBACK).unwrap();
    server.set_nonblocking(true).unwrap();
    assert_eq!(rig.outcome(&Place::Udp(server.local_addr().unwrap())), Seen::Socket(7));
    server
}

fn send_dialled(rig: &mut Rig, text: &str) {
    rig.handler().orders.push(TestOrder::SendDialled(7, text.into()));
    rig.round(0);
}

#[test]
fn a_dialled_socket_takes_datagrams_of_its_peer_only() {
    with_each_driver(|mut rig| {
        let server = dialled(&mut rig);
        send_dialled(&mut rig, "ping");
        let mut buffer = [0; 10];
        let (len, at) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"ping");
        let stranger = UdpSocket::bind(LOOPBACK).unwrap();
        stranger.send_to(b"from elsewhere", at).unwrap();
        server.send_to(b"2", at).unwrap();
        rig.until(|handler| !handler.datagrams.is_empty());
        let socket = rig.handler().sockets[&7];
        assert_eq!(rig.handler().datagrams, [(DatagramPeer::Dialled(socket), b"2".to_vec())]);
        assert_eq!(received(&server), ["reply 0", "reply 1"]);
        assert_eq!(rig.worker.table.counters().dialled.value(), 1);
        // Once closed its name means nothing, and there is room for another one.
        rig.handler().orders.push(TestOrder::CloseSocket(7));
        rig.round(0);
        assert_eq!(rig.worker.table.counters().dialled.value(), 0);
        send_dialled(&mut rig, "without effect");
        rig.handler().orders.push(TestOrder::CloseSocket(7));
        rig.round(0);
        server.send_to(b"2", at).ok();
        rig.round(0);
        assert_eq!((received(&server).len(), rig.worker.table.counters().datagrams_dropped.value()), (0, 1));
        assert_eq!(rig.handler().datagrams.len(), 1);
        dialled(&mut rig);
        assert_ne!(rig.handler().sockets[&7], socket);
    });
}

#[test]
fn icmp_errors_cost_no_later_datagram() {
    with_each_driver(|mut rig| {
        let server = dialled(&mut rig);
        let at = server.local_addr().unwrap();
        drop(server);
        // Each is answered by ICMP, which the kernel reports with the next call.
        (0..3).for_each(|_| send_dialled(&mut rig, "lost"));
        rig.round(0);
        let server = UdpSocket::bind(at).unwrap();
        server.set_nonblocking(true).unwrap();
        send_dialled(&mut rig, "first");
        let mut buffer = [0; 10];
        let (len, client) = server.recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"first");
        // Its reply arrives behind an error that has not been read yet.
        server.send_to(b"0", client).unwrap();
        drop(server);
        send_dialled(&mut rig, "lost");
        rig.until(|handler| !handler.datagrams.is_empty());
        assert_eq!(rig.handler().datagrams.len(), 1);
        assert_eq!(rig.handler().take_seen(), []);
    });
}

#[test]
fn dialled_datagram_sockets_count_as_dialled_and_end_with_the_worker() {
    with_each_driver(|mut rig| {
        let server = UdpSocket::bind(LOOPBACK).unwrap();
        let place = Place::Udp(server.local_addr().unwrap());
        let count = 100;
        (0..count).for_each(|tag| rig.handler().dial(&place, 5000, tag));
        while rig.handler().seen.len() < count as usize {
            rig.now.us += 1000;
            rig.round(0);
        }
        assert!(rig.handler().take_seen().iter().all(|seen| matches!(seen, Seen::Socket(_))));
        // The remaining number may be dialled.
        (0..DIALLED_MAX as u64).for_each(|tag| rig.handler().dial(&place, 0, count + tag));
        rig.round(0);
        let refused = rig.handler().take_seen();
        let not_taken = |seen: &&Seen| matches!(seen, Seen::NotTaken(_, Unreachable::LimitReached));
        assert_eq!(refused.iter().filter(not_taken).count() as u64, count);
        // The end closes the sockets: their addresses refuse datagrams.
        rig.handler().orders.push(TestOrder::SendDialled(7, b"where from".to_vec()));
        rig.round(0);
        let (_, dialled) = server.recv_from(&mut [0; 10]).unwrap();
        drop(rig.worker.end());
        server.connect(dialled).unwrap();
        server.send(b"x").unwrap();
        assert_eq!(server.recv(&mut [0; 10]).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    });
}
