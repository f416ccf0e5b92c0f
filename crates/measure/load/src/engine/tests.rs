//! Promises of both engines, on socket pairs.

use super::connecting::TcpServer;
use super::epoll::Epoll;
use super::target::Target;
use super::uring::UringEngine;
use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::thread;

const WAIT: Wait = Wait { gather: 1, gather_time: GATHER_TIME, at_most: WAIT_MAX };

trait Stream: Read + Write + Into<OwnedFd> + Send + 'static {}
impl<S: Read + Write + Into<OwnedFd> + Send + 'static> Stream for S {}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
    (near, listener.accept().expect("it connected").0)
}

fn unix_pair() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("a pair")
}

/// `None` where io_uring is refused.
fn uring(sockets: Vec<OwnedFd>) -> Option<UringEngine> {
    UringEngine::new(sockets, None, false).ok()
}

fn epoll(sockets: Vec<OwnedFd>) -> Option<Epoll> {
    Some(Epoll::new(sockets, None).expect("epoll"))
}

/// Bytes that show when one is missing or comes twice.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| stdx::prng::mix(at) as u8).collect()
}

/// A peer that echoes, but only when it is released: until then sockets fill up.
fn check<E: Engine, S: Stream>(make: impl FnOnce(Vec<OwnedFd>) -> Option<E>, pair: (S, S)) {
    let (near, mut far) = pair;
    let Some(mut engine) = make(vec![near.into()]) else { return };
    let (go, told) = channel();
    let peer = thread::spawn(move || {
        told.recv().expect("a word");
        let mut seen = Vec::new();
        let mut buffer = [0; 8192];
        while seen.len() < 3 * LEN {
            let len = far.read(&mut buffer).expect("bytes");
            seen.extend_from_slice(&buffer[..len]);
        }
        far.write_all(&seen).expect("room");
        far
    });
    let sent = pattern(3 * LEN);
    let mut outbox = Outbox::default();
    for part in sent.chunks(LEN) {
        outbox.bytes.extend_from_slice(part);
        outbox.address(0, 0);
        engine.exchange(&outbox, WAIT).expect("a full socket is no error");
        outbox.clear();
        // The engine has what it could not send: changing the outbox changes nothing.
        outbox.bytes.resize(LEN, b'!');
        outbox.clear();
        engine.arrivals(|_, _, _| panic!("nothing was sent back yet")).expect("nothing arrived");
    }
    go.send(()).expect("a peer that listens");
    let mut echoed = Vec::new();
    while echoed.len() < sent.len() {
        engine.exchange(&outbox, WAIT).expect("an exchange");
        engine
            .arrivals(|connection, bytes, _| {
                assert_eq!(connection, 0);
                echoed.extend_from_slice(bytes);
                Ok(())
            })
            .expect("arrivals");
    }
    assert!(echoed == sent, "every byte comes once and in order");
    drop(peer.join().expect("no panic"));
    assert!(matches!(ended(&mut engine), Error::Closed { connection: 0 }));
}

/// Waits until the engine reports the end of its connection.
fn ended(engine: &mut impl Engine) -> Error {
    loop {
        engine.exchange(&Outbox::default(), WAIT).expect("an exchange");
        engine.arrivals(|_, _, _| Ok(())).expect("nothing but the end");
        let mut end = None;
        engine.events(|event| end = Some(event)).expect("events");
        match end {
            Some(ConnectionEvent::Ended { connection: 0, error }) => return error,
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
}

/// What is opened anew takes the place of the old one, whatever is still said about that.
fn check_reopened<E: Engine>(make: impl FnOnce(Vec<OwnedFd>, Option<Target>) -> Option<E>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let near = TcpStream::connect(address).expect("it listens");
    let mut far = listener.accept().expect("it connected").0;
    let target = Target::Tcp(TcpServer { address, fast_open: false });
    let Some(mut engine) = make(vec![near.into()], Some(target)) else { return };
    let nothing = Outbox::default();
    for round in 0..5 {
        // What the old connection says after it was closed here is nobody's.
        far.write_all(b"late").expect("room");
        engine.reopen(0).expect("a socket");
        far = listener.accept().expect("it connects anew").0;
        far.write_all(format!("new {round}").as_bytes()).expect("room");
        let (mut heard, mut opened) = (Vec::new(), 0);
        while heard.len() < 5 || opened == 0 {
            engine.exchange(&nothing, WAIT).expect("an exchange");
            let arrived = engine.arrivals(|_, bytes, _| {
                heard.extend_from_slice(bytes);
                Ok(())
            });
            arrived.expect("arrivals");
            let count = |event| match event {
                ConnectionEvent::Opened { connection: 0, .. } => opened += 1,
                other => panic!("{other:?}"),
            };
            engine.events(count).expect("events");
        }
        assert_eq!((String::from_utf8(heard), opened), (Ok(format!("new {round}")), 1));
    }
    drop((far, listener));
    assert!(matches!(ended(&mut engine), Error::Closed { .. } | Error::Broken { .. }));
    engine.close(0);
    engine.reopen(0).expect("an attempt");
    assert!(matches!(ended(&mut engine), Error::Broken { .. }), "refused");
}

#[test]
fn a_connection_that_is_opened_anew_has_nothing_of_the_old_one() {
    check_reopened(|sockets, target| Some(Epoll::new(sockets, target).expect("epoll")));
    check_reopened(|sockets, target| UringEngine::new(sockets, target, false).ok());
    check_reopened(|sockets, target| UringEngine::new(sockets, target, true).ok());
}

/// More than any socket takes unread.
const LEN: usize = 12 << 20;

#[test]
fn what_a_full_socket_does_not_take_is_sent_later() {
    check(uring, tcp_pair());
    check(|sockets| UringEngine::new(sockets, None, true).ok(), tcp_pair());
    check(uring, unix_pair());
    check(epoll, tcp_pair());
    check(epoll, unix_pair());
}

/// What comes while something else is read does not come before that.
#[test]
fn what_is_read_later_comes_later() {
    let pairs = [unix_pair(), unix_pair(), unix_pair()];
    let (near, mut far): (Vec<OwnedFd>, Vec<UnixStream>) =
        pairs.into_iter().map(|(near, far)| (near.into(), far)).unzip();
    let mut engine = epoll(near).expect("epoll");
    far.iter_mut().for_each(|far| far.write_all(b"END").expect("room"));
    let mut times = Vec::new();
    engine.exchange(&Outbox::default(), WAIT).expect("an exchange");
    let done_ns = engine.now_ns();
    let arrived = engine.arrivals(|_, _, at_ns| {
        times.push(at_ns);
        Ok(())
    });
    arrived.expect("arrivals");
    assert!(times.len() == 3 && times[0].is_none(), "{times:?}");
    assert!(
        times[1..].iter().all(|at_ns| at_ns.is_some_and(|at_ns| at_ns >= done_ns)),
        "{times:?} {done_ns}"
    );
    assert!(times.is_sorted(), "{times:?}");
}

/// A wait that is no whole number of milliseconds ends before the next one is full, where nothing keeps this thread from
/// running.
#[test]
fn waits_end_within_their_millisecond() {
    fn check<E: Engine>(engine: Option<E>) {
        let Some(mut engine) = engine else { return };
        // That there is room to send is told once.
        engine.exchange(&Outbox::default(), WAIT).expect("nothing to send");
        let wait = Wait { gather: 1, gather_time: GATHER_TIME, at_most: Duration::from_micros(2_200) };
        let took_us = |engine: &mut E| {
            let begun_ns = engine.now_ns();
            engine.exchange(&Outbox::default(), wait).expect("nothing to send");
            (engine.now_ns() - begun_ns) / 1000
        };
        // Other threads may want this CPU: one wait that was not disturbed is proof.
        let quick = (0..MANY_CHANCES).map(|_| took_us(&mut engine)).find(|us| *us < 2_900);
        assert!(quick.is_some_and(|us| us >= 2_200), "{}: {quick:?} µs", E::NAME);
    }
    // The far ends stay open.
    let (tcp, unix) = (tcp_pair(), unix_pair());
    check(uring(vec![tcp.0.into()]));
    check(epoll(vec![unix.0.into()]));
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    datagrams.connect(("127.0.0.1", 9)).expect("an address");
    let patience = udp::Patience { timeout: Duration::from_secs(60), repeats: 0 };
    check(udp::Udp::new(vec![datagrams.into()], 1, patience).ok());
    drop((tcp.1, unix.1));
}

/// What is in the kernel for a while before it is read came when it came.
#[test]
fn stamps_say_when_the_kernel_had_it() {
    let (near, mut far) = tcp_pair();
    let Ok(mut engine) = UringEngine::new(vec![near.into()], None, true) else { return };
    let nothing = Outbox::default();
    // The first request for timestamps has to wait for them (`net_enable_timestamp` of net/core/dev.c).
    let stamp = (0..CHANCES).find_map(|_| {
        let before_ns = engine.now_ns();
        far.write_all(b"VALUE").expect("room");
        let sent_ns = engine.now_ns();
        thread::park_timeout(UNREAD);
        engine.exchange(&nothing, WAIT).expect("an exchange");
        let mut stamp = None;
        let arrived = engine.arrivals(|_, bytes, at_ns| {
            assert_eq!(bytes, b"VALUE");
            stamp = at_ns.map(|at_ns| (before_ns, at_ns, sent_ns));
            Ok(())
        });
        arrived.expect("arrivals");
        stamp
    });
    let (before_ns, at_ns, sent_ns) = stamp.expect("the kernel says it");
    // Two clocks, each read at its own moment, agree only so far.
    let tolerance_ns = UNREAD.as_nanos() as u64 / 2;
    assert!(
        at_ns > before_ns - tolerance_ns && at_ns < sent_ns + tolerance_ns,
        "{before_ns} {at_ns} {sent_ns}"
    );
    drop(far);
    assert!(matches!(ended(&mut engine), Error::Closed { connection: 0 }));
}

const CHANCES: usize = 20;
const MANY_CHANCES: usize = 2_000;
/// Longer than a busy machine needs for a turn.
const UNREAD: Duration = Duration::from_millis(200);
