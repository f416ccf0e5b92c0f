//! Tests with an event loop on one end of socket pairs and the test on the other, in one thread: each system call is
//! complete when it returns, so nothing has to be waited for, and the test sets the time.

mod datagram;
mod dial;
mod read;
mod secure;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use stdx::prng::Prng;

use super::ticks::IDLE_CLOSES_MAX;
use super::*;
use crate::event_loop::lanes::LANES_MAX;
use crate::handler::{Arrival, ConnectionId, Opened, Origin};
use crate::kernel::frame_ports::WorkerPorts;
use crate::network::connection_table::ConnectionTable;
use crate::options::DriverChoice;
use crate::secure::session::Session;
use crate::sockets::address::{Address, Transport};
use crate::testing::echo::{EchoEvent, EchoHandler, LINES_PER_TURN_MAX, body_reply};

pub(super) struct Rig {
    pub(super) worker: EventLoop<EchoHandler>,
    table: Arc<ConnectionTable>,
    pub(super) told: Receiver<EchoEvent>,
    now: Now,
    connections: u64,
}

/// Runs `test` over both drivers.
pub(super) fn with_each_driver(test: impl Fn(Rig)) {
    for choice in [DriverChoice::Epoll, DriverChoice::Uring] {
        test(Rig::new(choice));
    }
}

/// The notices of all tests together.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_worker_whose_ring_fails_continues_with_epoll() {
    let mut rig = Rig::new(DriverChoice::Uring);
    let mut clients: Vec<UnixStream> = (0..5).map(|_| rig.connect()).collect();
    // Where io_uring is forbidden, there is nothing to test.
    let IoDriver::Uring(uring) = &rig.worker.kernel.driver else { return };
    uring.break_ring();
    for round in 0..3 {
        clients.iter_mut().for_each(|client| client.write_all(format!("line {round}\n").as_bytes()).unwrap());
        rig.settle();
        for client in &mut clients {
            let mut reply = [0; 7];
            client.read_exact(&mut reply).unwrap();
            assert_eq!(reply, format!("line {round}\n").as_bytes());
        }
    }
    assert_eq!(rig.worker.kernel.driver.code(), 1);
    assert_eq!(rig.worker.table.counters().driver.value(), 1);
    let told = NOTICES.lock().unwrap().iter().filter(|line| line.contains("io_uring has stopped")).count();
    assert_eq!(told, 1, "once, not for each round");
}

#[test]
fn the_view_shows_the_activity_of_connections() {
    with_each_driver(|mut rig| {
        let (mut idle, mut body, mut watcher, mut slow) =
            (rig.connect(), rig.connect(), rig.connect(), rig.connect());
        idle.write_all(b"line\nhalf a l").unwrap();
        body.write_all(b"body 10\n12345").unwrap();
        watcher.write_all(b"watch\n").unwrap();
        slow.write_all(b"hold 4000000\n").unwrap();
        rig.settle();
        let seen = |rig: &Rig| -> Vec<Activity> {
            rig.table.connections_from(0, 10).0.iter().map(|entry| entry.2).collect()
        };
        let expected = [Activity::Reading, Activity::Body, Activity::Watching, Activity::Sending];
        assert_eq!(seen(&rig), expected);
        body.write_all(b"67890").unwrap();
        let mut left = 4_000_001;
        let mut buffer = vec![0; 1 << 16];
        while left > 0 {
            left -= slow.read(&mut buffer).unwrap_or(0);
            rig.settle();
        }
        assert_eq!(seen(&rig), [Activity::Reading, Activity::Reading, Activity::Watching, Activity::Reading]);
    });
}

impl Rig {
    fn new(choice: DriverChoice) -> Rig {
        let (tell, told) = channel();
        let table = Arc::new(ConnectionTable::new());
        let setup = WorkerSetup {
            number: 0,
            departure: Arc::new(Departure::new(1)),
            messages: Arc::new(MessageQueue::new().unwrap()),
            limit: Arc::new(ConnectionLimit::new(100_000).unwrap()),
            table: TableWriter::new(Arc::clone(&table)),
            datagram_sockets: Vec::new(),
            ports: WorkerPorts::default(),
            dialled_max: 100,
            reads_max: 8,
            handshakes: None,
            idle_timeout_s: 10,
            busy_poll_us: 0,
            notice: |line| NOTICES.lock().unwrap().push(line.to_owned()),
        };
        let worker =
            EventLoop::on_system(EchoHandler::new(tell), IoDriver::choose(choice), setup, Clock::start())
                .unwrap();
        Rig { worker, table, told, now: Now::default(), connections: 0 }
    }

    fn connect(&mut self) -> UnixStream {
        self.connect_with(None)
    }

    pub(super) fn connect_with(&mut self, session: Option<Box<Session>>) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        self.worker.limit.connection_opened();
        self.connections += 1;
        let arrival = Arrival {
            id: ConnectionId(self.connections),
            origin: Origin::Accepted { listener: 0 },
            transport: Transport::Unix,
            peer: Address::Unix(None),
            local: Address::Unix(None),
            security: None,
        };
        self.worker.open(server.into(), arrival, session, false, self.now);
        let told = EchoEvent::Opened(self.connections);
        assert_eq!(self.told.recv(), Ok(told));
        client
    }

    /// One round; `false` if there was nothing to do.
    pub(super) fn round(&mut self) -> bool {
        let had_queue = !self.worker.visits.is_empty();
        let events = self.worker.kernel.poll.wait(0).unwrap();
        self.worker.round(events, self.now);
        had_queue || events > 0
    }

    /// Rounds until there is nothing to do.
    pub(super) fn settle(&mut self) {
        while self.round() {}
    }

    /// Output that waits for slow peers.
    fn blocked_len(&self) -> usize {
        let connections = self.worker.slab.indices().map(|index| self.worker.slab.at(index));
        connections.filter_map(|connection| connection.blocked.as_ref()).map(|output| output.len()).sum()
    }

    fn closed(&self) -> Vec<(u64, CloseReason)> {
        let tales = self.told.try_iter().filter_map(|told| match told {
            EchoEvent::Closed(id, reason) => Some((id, reason)),
            EchoEvent::Opened(_) => None,
        });
        tales.collect()
    }
}

/// All unread bytes, and whether the end of the stream follows them.
fn receive_all(mut client: &UnixStream) -> (String, bool) {
    let mut heard = Vec::new();
    let ended = match client.read_to_end(&mut heard) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("read: {error}"),
    };
    (String::from_utf8(heard).unwrap(), ended)
}

fn send(mut client: &UnixStream, text: &str) {
    client.write_all(text.as_bytes()).unwrap();
}

#[test]
fn more_connections_than_lanes_are_all_answered() {
    with_each_driver(|mut rig| {
        let clients: Vec<_> = (0..LANES_MAX * 3 + 1).map(|_| rig.connect()).collect();
        for repetition in 0..3 {
            for (number, client) in clients.iter().enumerate() {
                send(client, &format!("{number}\n{repetition}\n"));
            }
            rig.settle();
            for (number, client) in clients.iter().enumerate() {
                assert_eq!(receive_all(client), (format!("{number}\n{repetition}\n"), false));
            }
        }
    });
}

#[test]
fn a_line_in_two_parts_is_joined() {
    with_each_driver(|mut rig| {
        let clients = [rig.connect(), rig.connect()];
        for part in ["he", "ll", "o\nwor", "ld\n"] {
            clients.iter().for_each(|client| send(client, part));
            rig.settle();
        }
        clients.iter().for_each(|client| assert_eq!(receive_all(client).0, "hello\nworld\n"));
    });
}

#[test]
fn a_pipeline_longer_than_the_buffer_is_answered() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        let line = "x".repeat(99) + "\n";
        let all = line.repeat(3 * INPUT_MAX / line.len());
        send(&client, &all);
        rig.settle();
        assert_eq!(receive_all(&client).0, all);
    });
}

#[test]
fn output_for_a_slow_reader_is_at_most_one_turn() {
    const COPIES: usize = 2_000;
    with_each_driver(|mut rig| {
        let (client, other) = (rig.connect(), rig.connect());
        let mut unsent = "copy 9999\n".repeat(COPIES).into_bytes();
        let mut heard = 0;
        while heard < COPIES * 10_000 {
            while !unsent.is_empty() {
                match (&client).write(&unsent) {
                    Ok(written) => drop(unsent.drain(..written)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("write: {error}"),
                }
            }
            rig.settle();
            assert!(rig.blocked_len() <= LINES_PER_TURN_MAX * 10_000);
            send(&other, "meanwhile\n");
            rig.settle();
            assert_eq!(receive_all(&other).0, "meanwhile\n");
            heard += receive_all(&client).0.len();
        }
        assert_eq!((heard, rig.blocked_len()), (COPIES * 10_000, 0));
        send(&client, "after\n");
        rig.settle();
        assert_eq!(receive_all(&client).0, "after\n");
    });
}

#[test]
fn held_memory_reaches_a_slow_reader_in_order() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        send(&client, "a\nhold 3000000\nb\nhold 1000000\nc\n");
        let mut heard = String::new();
        while heard.len() < 4_000_008 {
            rig.settle();
            heard += &receive_all(&client).0;
        }
        let (first, second) = ("h".repeat(3_000_000), "h".repeat(1_000_000));
        assert!(heard == format!("a\n{first}\nb\n{second}\nc\n"));
        assert_eq!(rig.blocked_len(), 0);
    });
}

#[test]
fn a_peer_that_shut_its_sending_side_gets_its_replies() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        send(&client, &"line\n".repeat(100));
        client.shutdown(Shutdown::Write).unwrap();
        rig.settle();
        assert_eq!(receive_all(&client), ("line\n".repeat(100), true));
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);

        let client = rig.connect();
        send(&client, "hold 2000000\nspin 3\n");
        client.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        while !heard.ends_with("3\n2\n1\n") {
            rig.settle();
            heard += &receive_all(&client).0;
        }
        rig.settle();
        assert_eq!(heard.len(), 2_000_001 + 6);
        assert_eq!(rig.closed(), [(2, CloseReason::Normal)]);
    });
}

#[test]
fn a_peer_that_is_gone_is_closed_despite_blocked_output() {
    with_each_driver(|mut rig| {
        let (idle, blocked, spinning) = (rig.connect(), rig.connect(), rig.connect());
        send(&blocked, "hold 9000000\n");
        rig.settle();
        assert!(rig.blocked_len() > 0);
        send(&spinning, "spin 1000000\n");
        rig.round();
        drop((idle, blocked, spinning));
        rig.settle();
        let mut closed = rig.closed();
        closed.sort_by_key(|(id, _)| *id);
        assert_eq!(closed, [(1, CloseReason::Normal), (2, CloseReason::Error), (3, CloseReason::Error)]);
        assert_eq!(rig.worker.limit.current(), 0);
    });
}

#[test]
fn connections_without_activity_are_closed_after_the_timeout() {
    with_each_driver(|mut rig| {
        let (idle, busy, watching) = (rig.connect(), rig.connect(), rig.connect());
        send(&watching, "watch\n");
        for second in 1..=10 {
            rig.now = Now::at_ms(second * 1000);
            send(&busy, "x\n");
            rig.settle();
            assert_eq!(rig.closed(), []);
        }
        rig.now = Now::at_ms(11_000);
        rig.settle();
        assert_eq!(rig.closed(), [(1, CloseReason::IdleTimeout)]);
        assert_eq!(receive_all(&idle), (String::new(), true));
        assert_eq!(rig.worker.table.counters().idle_kicks.value(), 1);
        rig.now = Now::at_ms(30_000);
        rig.settle();
        assert_eq!(rig.closed(), [(2, CloseReason::IdleTimeout)]);
    });
}

#[test]
fn idle_connections_are_closed_in_steps_and_others_are_served_between() {
    with_each_driver(|mut rig| {
        let count = IDLE_CLOSES_MAX * 3 + 1;
        let idle: Vec<UnixStream> = (0..count).map(|_| rig.connect()).collect();
        rig.now = Now::at_ms(5000);
        let asking = rig.connect();
        rig.settle();
        rig.now = Now::at_ms(11_000);
        for round in 0..4 {
            send(&asking, "x\n");
            rig.round();
            assert_eq!(receive_all(&asking), ("x\n".to_owned(), false), "round {round}");
            let closed = rig.closed();
            assert_eq!(closed.len(), if round < 3 { IDLE_CLOSES_MAX } else { 1 }, "round {round}");
            assert!(closed.iter().all(|(_, reason)| *reason == CloseReason::IdleTimeout));
            // The next round comes at once, and after the last one there is time until the next second.
            assert_eq!(rig.worker.wait_ms(rig.now) == 0, round < 3, "round {round}");
        }
        assert!(idle.iter().all(|client| receive_all(client) == (String::new(), true)));
        assert_eq!(rig.worker.table.counters().idle_kicks.value(), count as u64);
        assert_eq!(rig.worker.limit.current(), 1);
    });
}

#[test]
fn a_body_is_received_into_the_handlers_memory_and_later_bytes_into_the_buffer() {
    with_each_driver(|mut rig| {
        let body: String = (0..1_000_000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
        let reply = body_reply(body.as_bytes());
        let client = rig.connect();
        for part in [&format!("x\nbody {}\nabc", body.len()), &body[3..]] {
            let mut unsent = part.as_bytes();
            while !unsent.is_empty() {
                match (&client).write(unsent) {
                    Ok(written) => unsent = &unsent[written..],
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                rig.settle();
            }
        }
        send(&client, "y\n");
        rig.settle();
        assert_eq!(receive_all(&client).0, format!("x\n{reply}y\n"));

        // Body and next line in one receive.
        send(&client, "body 10\n");
        rig.settle();
        send(&client, "0123456789next\nbody 4\nabcdlast\n");
        rig.settle();
        let (ten, four) = (body_reply(b"0123456789"), body_reply(b"abcd"));
        assert_eq!(receive_all(&client).0, format!("{ten}next\n{four}last\n"));
    });
}

#[test]
fn connections_without_input_share_the_rounds_with_those_that_have_some() {
    with_each_driver(|mut rig| {
        let spinners: Vec<_> = (0..LANES_MAX * 3).map(|_| rig.connect()).collect();
        spinners.iter().for_each(|client| send(client, "spin 100000\n"));
        let asker = rig.connect();
        // By now all have been queued, and had their first turns at different times.
        (0..30).for_each(|_| assert!(rig.round()));
        spinners.iter().for_each(|client| drop(receive_all(client)));
        (0..30).for_each(|_| assert!(rig.round()));
        send(&asker, "me\n");
        let mut rounds = 0;
        while receive_all(&asker).0 != "me\n" {
            rig.round();
            rounds += 1;
        }
        assert!(rounds <= 5, "answered after {rounds} rounds");
        let lines: Vec<_> = spinners.iter().map(|client| receive_all(client).0.lines().count()).collect();
        let (least, most) = (lines.iter().min().unwrap(), lines.iter().max().unwrap());
        assert!(*least >= 8 && most - least <= 1, "between {least} and {most} turns");
    });
}

#[test]
fn connections_with_next_later_are_called_every_50_ms_or_with_input() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        send(&client, "watch\n");
        rig.settle();
        assert_eq!(receive_all(&client).0, "tick\n");
        rig.now = Now::at_ms(49);
        rig.settle();
        assert_eq!(receive_all(&client).0, "");
        assert_eq!(rig.worker.wait_ms(rig.now), 1);
        for tick in 1..=3 {
            rig.now = Now::at_ms(50 * tick);
            rig.settle();
            assert_eq!(receive_all(&client).0, "tick\n");
        }
        send(&client, "x");
        rig.settle();
        assert_eq!(receive_all(&client).0, "tick\n");
        client.shutdown(Shutdown::Write).unwrap();
        rig.settle();
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);
    });
}

#[test]
fn a_full_buffer_without_progress_closes_the_connection() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        send(&client, &"x".repeat(INPUT_MAX + 1));
        rig.settle();
        assert_eq!(rig.closed(), [(1, CloseReason::InputTooLong)]);
    });
}

#[test]
fn a_stopped_worker_closes_all_connections() {
    with_each_driver(|mut rig| {
        let clients = [rig.connect(), rig.connect()];
        let limit = Arc::clone(&rig.worker.limit);
        rig.worker.messages.post(&mut vec![WorkerMessage::Stop]);
        let Rig { worker, told, .. } = rig;
        worker.run().unwrap();
        clients.iter().for_each(|client| assert!(receive_all(client).1));
        assert_eq!(
            told.iter().filter(|told| matches!(told, EchoEvent::Closed(_, CloseReason::Shutdown))).count(),
            2
        );
        assert_eq!(limit.current(), 0);
    });
}

#[test]
fn an_idle_connection_has_no_buffer() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        send(&client, "unfinished");
        rig.settle();
        let index = rig.worker.slab.indices().next().unwrap();
        assert_eq!(rig.worker.slab.at(index).dialogue.unpack(&mut [0; INPUT_MAX]), "unfinished".len());
        send(&client, "\n");
        rig.settle();
        assert_eq!(rig.worker.slab.at(index).dialogue.unpack(&mut []), 0);
        assert!(rig.worker.slab.at(index).blocked.is_none());
    });
    let handler_state = size_of::<<EchoHandler as Handler>::Connection>();
    let own =
        size_of::<Connection<EchoHandler, System>>() - handler_state + size_of::<Opened>() + size_of::<u32>();
    assert!(own <= 200, "{own} bytes for each connection");
}

/// A random script for the echo handler.
fn script(prng: &mut Prng) -> String {
    let mut script = String::new();
    for line in 0..prng.below(40) {
        match prng.below(12) {
            0 => script += &format!("hold {}\n", prng.below(400_000)),
            1 => script += &format!("copy {}\n", prng.below(100_000)),
            2 => script += &format!("spin {}\n", prng.below(6) + 1),
            3 => {
                let len = prng.below(300_000) + 1;
                script += &format!("body {len}\n{}", "b".repeat(len as usize));
            }
            4 => script += &format!("{}\n", "l".repeat(prng.below(16_000) as usize)),
            _ => script += &format!("line {line}\n"),
        }
    }
    script
}

/// A client that sends and receives a little at a time.
struct SlowClient {
    socket: UnixStream,
    script: String,
    sent: usize,
    /// It has sent all, and shut its sending side.
    finished: bool,
    heard: Vec<u8>,
    ended: bool,
}

impl SlowClient {
    fn send_some(&mut self, len: usize) {
        let unsent = &self.script.as_bytes()[self.sent..];
        match (&self.socket).write(&unsent[..unsent.len().min(len)]) {
            Ok(written) => self.sent += written,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if self.sent == self.script.len() {
            self.finished = true;
            self.socket.shutdown(Shutdown::Write).unwrap();
        }
    }

    fn receive_some(&mut self, len: usize) {
        let mut heard = vec![0; len];
        match (&self.socket).read(&mut heard) {
            Ok(0) => self.ended = true,
            Ok(read) => self.heard.extend_from_slice(&heard[..read]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
}

/// Several times as many steps as are needed: a client that still waits then will wait for ever.
const STEPS_MAX: usize = 1_000_000;

#[track_caller]
fn check_against_the_sim_host(seed: u64) {
    with_each_driver(|mut rig| {
        let mut prng = Prng::new(seed);
        let mut clients: Vec<_> = std::iter::repeat_with(|| SlowClient {
            socket: rig.connect(),
            script: script(&mut prng),
            sent: 0,
            finished: false,
            heard: Vec::new(),
            ended: false,
        })
        .take(12)
        .collect();
        let mut prng = Prng::new(seed + 1);
        for step in 0.. {
            if clients.iter().all(|client| client.ended) {
                break;
            }
            assert!(step < STEPS_MAX, "seed {seed}: a conversation hangs");
            let number = prng.below(clients.len() as u64) as usize;
            let client = &mut clients[number];
            // Small and large alike.
            let len = 1 << prng.below(19);
            match prng.below(3) {
                0 if !client.finished => client.send_some(len),
                1 if !client.ended => client.receive_some(len),
                _ => {}
            }
            rig.round();
        }
        for client in clients {
            let expected = crate::sim::converse(EchoHandler::alone(), &[client.script.as_bytes()]);
            assert!(client.heard == expected.output, "seed {seed}: {} bytes", client.heard.len());
        }
        assert_eq!((rig.worker.limit.current(), rig.worker.visits.len(), rig.blocked_len()), (0, 0, 0));
    });
}

#[test]
fn sockets_and_the_simulated_host_give_the_same_output() {
    (0..10).for_each(check_against_the_sim_host);
}

#[test]
fn output_for_other_connections_is_sent_in_the_same_round() {
    with_each_driver(|mut rig| {
        let clients: Vec<_> = (0..5).map(|_| rig.connect()).collect();
        send(&clients[0], "tell 2 first\ntell 3 other\ntell 2 second\ntell 1 myself\ntell 9 x\nown\n");
        send(&clients[1], "mine\n");
        rig.round();
        assert_eq!(
            receive_all(&clients[0]).0,
            "6 unsent\n6 unsent\n13 unsent\n7 unsent\ngone\nown\nmyself\n"
        );
        assert_eq!(receive_all(&clients[1]).0, "mine\nfirst\nsecond\n");
        assert_eq!(receive_all(&clients[2]).0, "other\n");
        assert!(!rig.round(), "nothing is left to do");
    });
}

#[test]
fn output_for_more_connections_than_lanes_is_sent() {
    with_each_driver(|mut rig| {
        let clients: Vec<_> = (0..LANES_MAX * 2).map(|_| rig.connect()).collect();
        let lines = |from: usize| -> String {
            (0..LINES_PER_TURN_MAX - 1).map(|to| format!("tell {} x\n", from * 7 + to + 1)).collect()
        };
        (0..LANES_MAX * 2 / 7).for_each(|from| send(&clients[from], &lines(from)));
        rig.settle();
        for (number, client) in clients.iter().enumerate().take(LANES_MAX * 2 / 7 * 7) {
            let heard = receive_all(client).0;
            assert!(heard.contains("x\n"), "{number}: {heard}");
        }
    });
}

#[test]
fn output_for_a_slow_reader_keeps_its_order() {
    with_each_driver(|mut rig| {
        let (slow, other) = (rig.connect(), rig.connect());
        send(&slow, "hold 4000000\n");
        rig.settle();
        let before = rig.blocked_len();
        assert!(before > 0);
        send(&other, "tell 1 a\ntell 1 b\n");
        rig.settle();
        assert_eq!(receive_all(&other).0, format!("{} unsent\n{} unsent\n", before + 2, before + 4));
        assert_eq!(rig.blocked_len(), before + 4);
        let mut heard = String::new();
        while !heard.ends_with("b\n") {
            heard += &receive_all(&slow).0;
            rig.settle();
        }
        assert_eq!(heard, format!("{}\na\nb\n", "h".repeat(4_000_000)));
        send(&other, "tell 1 c\n");
        rig.settle();
        assert_eq!(
            (receive_all(&other).0, receive_all(&slow).0),
            ("2 unsent\n".to_owned(), "c\n".to_owned())
        );
    });
}

#[test]
fn a_waiting_connection_is_not_read_until_it_is_woken() {
    with_each_driver(|mut rig| {
        let (waiting, other) = (rig.connect(), rig.connect());
        send(&waiting, "before\npause 0\nafter\n");
        rig.settle();
        send(&waiting, "more\n");
        rig.settle();
        assert_eq!(receive_all(&waiting), ("before\n".to_owned(), false));
        // Neither time nor the end of the peer's input changes anything.
        rig.now = Now::at_ms(60_000);
        waiting.shutdown(Shutdown::Write).unwrap();
        rig.settle();
        assert_eq!(rig.closed(), [(2, CloseReason::IdleTimeout)]);
        let other_after = rig.connect();
        send(&other_after, "wake 1\nwake 1\n");
        rig.settle();
        assert_eq!(receive_all(&waiting), ("after\nmore\n".to_owned(), true));
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);
        drop(other);
    });
}

#[test]
fn close_by_another_connection_waits_for_the_output() {
    with_each_driver(|mut rig| {
        let (slow, idle, other) = (rig.connect(), rig.connect(), rig.connect());
        send(&slow, "hold 4000000\n");
        rig.settle();
        send(&other, "tell 2 last\nend 2\ntell 1 last\nend 1\nend 1\nend 9\n");
        rig.settle();
        assert_eq!(receive_all(&idle), ("last\n".to_owned(), true));
        assert_eq!(rig.closed(), [(2, CloseReason::Normal)]);
        let (mut heard, mut ended) = (0, false);
        let mut last = String::new();
        while !ended {
            (last, ended) = receive_all(&slow);
            heard += last.len();
            rig.settle();
        }
        assert_eq!(heard, 4_000_001 + 5, "{}", &last[last.len().saturating_sub(20)..]);
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);
        receive_all(&other);
        send(&other, "tell 1 x\nend 3\n");
        rig.settle();
        assert_eq!(receive_all(&other), ("gone\n".to_owned(), true));
    });
}

#[test]
fn a_deadline_is_reported_in_time_and_once() {
    with_each_driver(|mut rig| {
        let (client, gone) = (rig.connect(), rig.connect());
        rig.settle();
        send(&gone, "alarm 2\n");
        send(&client, "alarm 3\nalarm 700\n");
        rig.settle();
        drop(gone);
        rig.settle();
        assert_eq!(rig.worker.wait_ms(rig.now), 2);
        rig.now = Now { us: 1_400 };
        assert_eq!(rig.worker.wait_ms(rig.now), 1, "a whole millisecond that is not too short");
        rig.now = Now { us: 2_999 };
        rig.settle();
        assert_eq!(receive_all(&client).0, "");
        rig.now = Now::at_ms(3);
        rig.round();
        assert_eq!(receive_all(&client).0, "alarm\n");
        assert_eq!(rig.worker.wait_ms(rig.now), 697);
        rig.now = Now::at_ms(800);
        rig.round();
        assert_eq!(receive_all(&client).0, "alarm\n");
        assert_eq!(rig.worker.wait_ms(rig.now), 200, "until the next tick");
    });
}
