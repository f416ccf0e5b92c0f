//! Tests of dials over real sockets on loopback. The test sets the time, and waits only for the kernel.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, getsockname, listen, socket};

use crate::event_loop::dial::{Dial, Place, Unreachable};
use crate::event_loop::dialling::BEGUN_PER_MS_MAX;
use crate::event_loop::dials::OUTCOMES_MAX;
use crate::event_loop::*;
use crate::handler::Origin;
use crate::kernel::frame_ports::WorkerPorts;
use crate::network::connection_table::ConnectionTable;
use crate::options::DriverChoice;
use crate::testing::scripted::{ScriptedHandler, Seen, TestOrder};

pub(super) const DIALLED_MAX: usize = 12_000;

/// Longer than a busy machine delays a test: only a failure reaches it.
pub(super) const TIMEOUT_MS: u64 = 60_000;

pub(super) struct Rig {
    pub(super) worker: EventLoop<ScriptedHandler>,
    table: Arc<ConnectionTable>,
    /// Its datagram listener, with the index 9.
    pub(super) datagram_address: SocketAddr,
    pub(super) now: Now,
}

/// Runs `test` over both drivers.
pub(super) fn with_each_driver(test: impl Fn(Rig)) {
    for choice in [DriverChoice::Epoll, DriverChoice::Uring] {
        let table = Arc::new(ConnectionTable::new());
        let (datagram_address, mut sockets, _) = crate::sockets::listener::bind_udp(LOOPBACK, 1).unwrap();
        let setup = WorkerSetup {
            number: 0,
            departure: Arc::new(Departure::new(1)),
            messages: Arc::new(MessageQueue::new().unwrap()),
            limit: Arc::new(ConnectionLimit::new(1).unwrap()),
            table: TableWriter::new(Arc::clone(&table)),
            datagram_sockets: sockets.drain(..).map(|socket| (9, socket)).collect(),
            ports: WorkerPorts::default(),
            dialled_max: DIALLED_MAX,
            reads_max: 8,
            handshakes: None,
            idle_timeout_s: 10,
            busy_poll_us: 0,
            notice: |_| {},
        };
        let worker =
            EventLoop::on_system(ScriptedHandler::default(), IoDriver::choose(choice), setup, Clock::start())
                .unwrap();
        test(Rig { worker, table, datagram_address, now: Now::at_ms(1000) });
    }
}

impl Rig {
    pub(super) fn handler(&mut self) -> &mut ScriptedHandler {
        &mut self.worker.handler
    }

    pub(super) fn round(&mut self, wait_ms: u64) {
        let events = self.worker.kernel.poll.wait(wait_ms).unwrap();
        self.worker.round(events, self.now);
    }

    /// Rounds until `ready`, for which the kernel may need some time.
    #[track_caller]
    pub(super) fn until(&mut self, ready: impl Fn(&ScriptedHandler) -> bool) {
        self.round(0);
        while !ready(&self.worker.handler) {
            let wait_ms = if self.worker.wait_ms(self.now) == 0 { 0 } else { TIMEOUT_MS };
            let events = self.worker.kernel.poll.wait(wait_ms).unwrap();
            assert!(events > 0 || wait_ms == 0, "nothing happens any more");
            self.worker.round(events, self.now);
        }
    }

    /// Dials, and returns the outcome.
    #[track_caller]
    pub(super) fn outcome(&mut self, place: &Place) -> Seen {
        self.handler().dial(place, 5000, 7);
        self.until(|handler| !handler.seen.is_empty());
        let [seen] = self.handler().take_seen().try_into().expect("one outcome");
        seen
    }

    /// A connection that the handler has dialled with this tag, and its other end.
    #[track_caller]
    pub(super) fn pair(&mut self, listener: &UnixListener, tag: u64) -> UnixStream {
        let place = place_of(listener);
        self.handler().dial(&place, 5000, tag);
        self.until(|handler| !handler.seen.is_empty());
        assert_eq!(self.handler().take_seen(), [Seen::Opened(tag)]);
        let (other, _) = listener.accept().unwrap();
        other.set_nonblocking(true).unwrap();
        other
    }
}

/// A path of this test's own, where no file is.
fn path(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("net-{}-dial-{test}", std::process::id()));
    // A killed run may have left files, and this process may have its number.
    let _missing = std::fs::remove_file(&path);
    path
}

/// Listens at a path, which is removed with it.
pub(super) struct Listening(UnixListener);

impl std::ops::Deref for Listening {
    type Target = UnixListener;

    fn deref(&self) -> &UnixListener {
        &self.0
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Place::Unix(path) = place_of(self) else { return };
        let _gone_already = std::fs::remove_file(path);
    }
}

pub(super) fn unix_listener(test: &str) -> Listening {
    Listening(UnixListener::bind(path(test)).unwrap())
}

fn place_of(listener: &UnixListener) -> Place {
    Place::Unix(Arc::from(listener.local_addr().unwrap().as_pathname().unwrap()))
}

fn tcp(address: SocketAddr) -> Place {
    Place::Tcp(address)
}

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An address without a listener, as long as the socket exists.
fn deaf() -> (OwnedFd, Place) {
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&fd, &LOOPBACK).unwrap();
    let address = SocketAddr::try_from(getsockname(&fd).unwrap()).unwrap();
    (fd, tcp(address))
}

/// An address whose listener has a full queue: a dial to it gets no answer. With it the sockets that fill it.
fn full() -> (Vec<OwnedFd>, Place) {
    let (listener, place) = deaf();
    listen(&listener, 0).unwrap();
    let Place::Tcp(address) = place else { panic!("tcp") };
    let mut sockets = vec![listener];
    // One or two get in; the others' packets are dropped.
    for _ in 0..4 {
        let client = crate::sockets::listener::stream_socket(AddressFamily::INET).unwrap();
        assert_eq!(connect(&client, &address), Err(Errno::INPROGRESS));
        sockets.push(client);
    }
    (sockets, place)
}

#[test]
fn a_dial_opens_a_connection_or_reports_the_reason() {
    with_each_driver(|mut rig| {
        let listener = TcpListener::bind(LOOPBACK).unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(rig.outcome(&tcp(address)), Seen::Opened(7));
        let (mut other, peer) = listener.accept().unwrap();
        let (present, _) = rig.table.connections_from(0, 10);
        let opened = &present[0].0;
        assert_eq!((opened.id.0, opened.origin), (1, Origin::Dialled { tag: 7 }));
        assert_eq!(opened.peer.to_string(), address.to_string());
        assert_eq!(opened.local.to_string(), peer.to_string());

        let (_socket, place) = deaf();
        assert_eq!(rig.outcome(&place), Seen::Unreachable(7, Unreachable::Refused));
        let nothing = Place::Unix(Arc::from(path("nothing")));
        assert_eq!(rig.outcome(&nothing), Seen::Unreachable(7, Unreachable::Refused));
        let too_long = Place::Unix(Arc::from(Path::new(&"x".repeat(200))));
        let why = Unreachable::Failed(Errno::NAMETOOLONG.raw_os_error());
        assert_eq!(rig.outcome(&too_long), Seen::Unreachable(7, why));
        let unix = unix_listener("outcome");
        assert_eq!(rig.outcome(&place_of(&unix)), Seen::Opened(7));

        // The first one is still there, and is counted for itself.
        other.write_all(b"hello").unwrap();
        rig.until(|handler| !handler.received.is_empty());
        assert_eq!(rig.handler().received(7), "hello");
        let counters = rig.worker.table.counters();
        assert_eq!((counters.dialled.value(), counters.unreachable.value()), (2, 3));
        let accepted = rig.worker.limit.accepted.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!((rig.worker.limit.current(), accepted), (0, 0));
    });
}

#[test]
fn a_dial_times_out_to_the_millisecond() {
    with_each_driver(|mut rig| {
        let (_sockets, place) = full();
        for (timeout_ms, tag) in [(30, 30), (7, 7), (0, 0), (7, 8)] {
            rig.handler().dial(&place, timeout_ms, tag);
        }
        rig.round(0);
        assert_eq!(rig.worker.wait_ms(rig.now), 0, "they are to be begun");
        rig.round(0);
        assert_eq!(rig.handler().take_seen(), [Seen::Unreachable(0, Unreachable::TimedOut)]);
        assert_eq!(rig.worker.wait_ms(rig.now), 7);
        rig.now.us += 6_999;
        rig.round(0);
        assert_eq!(rig.handler().take_seen(), []);
        assert_eq!(rig.worker.wait_ms(rig.now), 1);
        rig.now.us += 1;
        rig.round(0);
        let timed_out = |tag| Seen::Unreachable(tag, Unreachable::TimedOut);
        assert_eq!(rig.handler().take_seen(), [timed_out(7), timed_out(8)]);
        assert_eq!(rig.worker.wait_ms(rig.now), 23);
        rig.now.us += 23_000;
        rig.round(0);
        assert_eq!(rig.handler().take_seen(), [timed_out(30)]);
        assert!(rig.worker.dials.is_empty() && rig.worker.dials.next().is_none());
    });
}

#[test]
fn a_full_unix_socket_is_retried_until_the_timeout() {
    with_each_driver(|mut rig| {
        let path = path("queue");
        let listener = crate::sockets::listener::stream_socket(AddressFamily::UNIX).unwrap();
        bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&listener, 0).unwrap();
        let (listener, place) = (Listening(UnixListener::from(listener)), Place::Unix(Arc::from(&*path)));
        let _first = UnixStream::connect(&path).unwrap();
        rig.handler().dial(&place, 100, 1);
        rig.handler().dial(&place, 40, 2);
        (0..10).for_each(|_| rig.round(0));
        assert_eq!(rig.handler().take_seen(), []);
        assert!(rig.worker.wait_ms(rig.now) >= 1, "no busy loop");
        rig.now.us += 40_000;
        rig.round(0);
        assert_eq!(rig.handler().take_seen(), [Seen::Unreachable(2, Unreachable::TimedOut)]);
        let _accepted = listener.accept().unwrap();
        rig.now.us += 5_000;
        rig.round(0);
        assert_eq!(rig.handler().take_seen(), [Seen::Opened(1)]);
    });
}

#[test]
fn a_dialled_connection_is_read_while_its_peer_does_not_read() {
    with_each_driver(|mut rig| {
        let listener = unix_listener("read");
        let mut other = rig.pair(&listener, 1);
        let said = "s".repeat(4_000_000);
        rig.handler().write(1, said.clone());
        (0..5).for_each(|_| rig.round(0));
        let blocked = |rig: &Rig| {
            let index = rig.worker.slab.indices().next().unwrap();
            rig.worker.slab.at(index).blocked.as_ref().map_or(0, |output| output.len())
        };
        assert!(blocked(&rig) > 1_000_000);
        // More than fits into the socket at a time.
        let (mut told, text) = (0, "t".repeat(3_000_000));
        while told < text.len() {
            match other.write(&text.as_bytes()[told..]) {
                Ok(written) => told += written,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            rig.round(0);
        }
        rig.until(|handler| handler.received[&1].len() == 3_000_000);
        assert!(blocked(&rig) > 1_000_000);
        // With nothing to read and no room to write it waits.
        (0..5).for_each(|_| rig.round(0));
        assert!(rig.worker.wait_ms(rig.now) > 0);
        assert_eq!(rig.worker.kernel.poll.wait(0), Ok(0));
        let mut received = vec![0; said.len()];
        let mut len = 0;
        while len < said.len() {
            match other.read(&mut received[len..]) {
                Ok(0) => panic!("closed"),
                Ok(read) => len += read,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            rig.round(0);
        }
        assert!(received == said.as_bytes());
        assert_eq!(blocked(&rig), 0);
        rig.until(|handler| !handler.seen.is_empty());
        assert_eq!(rig.handler().take_seen(), [Seen::Drained(1)]);
    });
}

#[test]
fn input_beyond_what_the_handler_takes_is_not_read() {
    with_each_driver(|mut rig| {
        let listener = unix_listener("garbage");
        let mut other = rig.pair(&listener, 1);
        // Blocked as well: neither event may cause a busy loop.
        rig.handler().write(1, vec![b's'; 4_000_000]);
        rig.handler().accepts_max = Some(1000);
        let mut sent = 0;
        for _ in 0..1000 {
            match other.write(&[b'g'; 100_000]) {
                Ok(written) => sent += written,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            rig.round(0);
        }
        assert!(sent < 2_000_000, "{sent} bytes found room");
        assert_eq!(rig.handler().received[&1].len(), 1000);
        let index = rig.worker.slab.indices().next().unwrap();
        let kept = rig.worker.slab.at(index).dialogue.unpack(&mut [0; INPUT_MAX]);
        assert!(kept <= INPUT_MAX, "{kept}");
        (0..5).for_each(|_| rig.round(0));
        assert!(rig.worker.wait_ms(rig.now) > 0);
        assert_eq!(rig.worker.kernel.poll.wait(0), Ok(0), "it rests");
        // And it continues when it is woken.
        rig.handler().accepts_max = None;
        rig.handler().orders.push(TestOrder::Wake(1));
        rig.until(|handler| handler.received[&1].len() == sent);
    });
}

#[test]
fn a_dialled_connection_ends_with_its_peers_output_despite_blocked_output() {
    with_each_driver(|mut rig| {
        let listener = unix_listener("ended");
        let mut other = rig.pair(&listener, 1);
        rig.handler().write(1, vec![b's'; 4_000_000]);
        (0..5).for_each(|_| rig.round(0));
        other.write_all(b"bye").unwrap();
        other.shutdown(Shutdown::Write).unwrap();
        rig.until(|handler| !handler.seen.is_empty());
        assert_eq!(rig.handler().take_seen(), [Seen::Closed(1, CloseReason::Normal)]);
        assert_eq!(rig.handler().received(1), "bye");
        assert_eq!(rig.worker.table.counters().dialled.value(), 0);
    });
}

#[test]
fn abort_closes_a_dialled_connection_whose_peer_never_reads() {
    with_each_driver(|mut rig| {
        let listener = unix_listener("abort");
        let _others = [rig.pair(&listener, 1), rig.pair(&listener, 2)];
        rig.handler().write(1, vec![b's'; 4_000_000]);
        rig.handler().orders.push(TestOrder::Close(1));
        for _ in 0..20 {
            rig.now.us += 5_000_000;
            rig.round(0);
        }
        assert_eq!(rig.handler().take_seen(), [], "dialled connections have no idle timeout");
        rig.handler().orders.push(TestOrder::Abort(1));
        rig.round(0);
        assert_eq!(rig.handler().take_seen(), [Seen::Closed(1, CloseReason::Normal)]);
        // Further orders have no effect.
        for order in
            [TestOrder::Abort(1), TestOrder::Close(1), TestOrder::Wake(1), TestOrder::Write(1, b"x".to_vec())]
        {
            rig.handler().orders.push(order);
        }
        (0..5).for_each(|_| rig.round(0));
        assert_eq!(rig.handler().take_seen(), []);
        let link = rig.handler().links[&1];
        assert!(rig.worker.turn.output(link).is_none() && rig.worker.turn.unsent(link) == 0);
    });
}

#[test]
fn dials_beyond_the_limit_are_refused_until_others_end() {
    with_each_driver(|mut rig| {
        let (_sockets, place) = full();
        for tag in 0..DIALLED_MAX as u64 + 2 {
            rig.handler().dial(&place, 1000, tag);
        }
        rig.round(0);
        let not_taken =
            [0, 1].map(|more| Seen::NotTaken((DIALLED_MAX + more) as u64, Unreachable::LimitReached));
        assert_eq!(rig.handler().take_seen(), not_taken);
        let listener = unix_listener("limit");
        rig.now.us += 1_000_000;
        // The first one that times out makes room for one. 12,000 others have expired behind it.
        rig.round(0);
        assert_eq!(rig.handler().take_seen().len(), OUTCOMES_MAX);
        rig.handler().dial(&place_of(&listener), 1000, 1 << 20);
        rig.until(|handler| handler.seen.len() == DIALLED_MAX - OUTCOMES_MAX + 1);
        assert!(rig.handler().links.contains_key(&(1 << 20)));
        assert_eq!(rig.worker.table.counters().unreachable.value(), DIALLED_MAX as u64);
    });
}

#[test]
fn each_of_ten_thousand_dials_has_an_outcome_and_others_are_served_meanwhile() {
    const DIALS: u64 = 10_000;
    with_each_driver(|mut rig| {
        let (_deaf, refused) = deaf();
        let listener = unix_listener("many");
        let mut client = rig.pair(&listener, 1 << 20);
        rig.handler().echoes = true;
        for tag in 0..DIALS {
            rig.handler().dial(&refused, 60_000, tag);
        }
        let (mut rounds, mut outcomes) = (0, Vec::new());
        while outcomes.len() < DIALS as usize {
            client.write_all(b"x").unwrap();
            rig.round(0);
            let seen = rig.handler().take_seen();
            assert!(seen.len() <= BEGUN_PER_MS_MAX + lanes::LANES_MAX, "{} in a round", seen.len());
            outcomes.extend(seen);
            assert_eq!(client.read(&mut [0; 10]).unwrap(), 1, "served in each round");
            rig.now.us += 1000;
            rounds += 1;
        }
        assert!(rounds <= 2 * DIALS as usize / BEGUN_PER_MS_MAX, "{rounds} rounds");
        for (tag, outcome) in (0..DIALS).zip(outcomes) {
            assert_eq!(outcome, Seen::Unreachable(tag, Unreachable::Refused));
        }
    });
}

#[test]
fn endless_dials_take_a_bounded_share_of_the_worker() {
    with_each_driver(|mut rig| {
        let (_deaf, refused) = deaf();
        rig.handler().again = Some(Dial { place: refused.clone(), timeout_ms: 1000, tls: None });
        (0..100).for_each(|tag| rig.handler().dial(&refused, 1000, tag));
        let mut rounds = 0;
        for _ in 0..100 {
            // All that may be done within this millisecond.
            loop {
                rig.round(0);
                rounds += 1;
                if rig.worker.wait_ms(rig.now) > 0 {
                    break;
                }
            }
            rig.now.us += 1000;
        }
        let dials = rig.worker.table.counters().unreachable.value();
        assert!(dials <= 100 * BEGUN_PER_MS_MAX as u64, "{dials} dials in 100 ms");
        assert!(dials >= 90 * BEGUN_PER_MS_MAX as u64, "{dials} dials in 100 ms");
        assert!(rounds < 100 * 2 * BEGUN_PER_MS_MAX, "{rounds} rounds in 100 ms");
    });
}

#[test]
fn a_worker_that_ends_cancels_its_dials() {
    with_each_driver(|mut rig| {
        let (_sockets, place) = full();
        let listener = unix_listener("stop");
        let other = rig.pair(&listener, 1);
        (10..12).for_each(|tag| rig.handler().dial(&place, 1000, tag));
        (0..2).for_each(|_| rig.round(0));
        // One that has not been begun, and one that is still an order.
        rig.handler().dial(&place, 1000, 12);
        rig.round(0);
        rig.worker.turn.dial(Dial { place: place.clone(), timeout_ms: 1000, tls: None }, 13).unwrap();
        rig.handler().again = Some(Dial { place, timeout_ms: 1000, tls: None });
        let mut handler = rig.worker.end();
        let mut expected: Vec<Seen> = (10..14)
            .flat_map(|tag| {
                [Seen::Unreachable(tag, Unreachable::Stopping), Seen::NotTaken(tag, Unreachable::Stopping)]
            })
            .collect();
        expected.push(Seen::Closed(1, CloseReason::Shutdown));
        assert_eq!(handler.take_seen(), expected);
        assert_eq!((&other).read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn a_socket_connected_to_itself_is_refused() {
    with_each_driver(|mut rig| {
        let (fd, place) = deaf();
        let Place::Tcp(address) = place else { panic!("tcp") };
        connect(&fd, &address).unwrap();
        assert_eq!(rig.worker.kernel.connected(&fd, &place), Err(Unreachable::Refused));
    });
}
