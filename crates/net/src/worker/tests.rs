//! A worker on one end of socket pairs, and the test on the other, in one thread: what the kernel does between
//! them is done when a call returns, so nothing has to be waited for, and time is what the test says.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use stdx::prng::Prng;

use super::ticks::IDLE_CLOSES_MAX;
use super::*;
use crate::address::{Address, Transport};
use crate::handler::{ConnectionId, Opened, Origin};
use crate::lanes::LANES_MAX;
use crate::options::DriverChoice;
use crate::parrot::{LINES_PER_TURN_MAX, Parrot, Told, body_reply};
use crate::roster::Roster;

struct Rig {
    worker: Worker<Parrot>,
    roster: Arc<Roster>,
    told: Receiver<Told>,
    now: Now,
    connections: u64,
}

/// Runs `test` over both drivers.
fn with_each_driver(test: impl Fn(Rig)) {
    for choice in [DriverChoice::Epoll, DriverChoice::Uring] {
        test(Rig::new(choice));
    }
}

/// What operators have been told, by all tests together.
static NOTICES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn a_worker_whose_ring_breaks_goes_on_with_epoll() {
    let mut rig = Rig::new(DriverChoice::Uring);
    let mut clients: Vec<UnixStream> = (0..5).map(|_| rig.connect()).collect();
    // Where io_uring is forbidden there is nothing to break.
    let Driver::Uring(uring) = &rig.worker.kernel.driver else { return };
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
    assert_eq!(rig.worker.keeper.counters().driver.value(), 1);
    let told = NOTICES.lock().unwrap().iter().filter(|line| line.contains("io_uring has stopped")).count();
    assert_eq!(told, 1, "once, not for each round");
}

#[test]
fn who_looks_on_sees_what_connections_are_in_the_middle_of() {
    with_each_driver(|mut rig| {
        let (mut idle, mut body, mut watcher, mut slow) =
            (rig.connect(), rig.connect(), rig.connect(), rig.connect());
        idle.write_all(b"line\nhalf a l").unwrap();
        body.write_all(b"body 10\n12345").unwrap();
        watcher.write_all(b"watch\n").unwrap();
        slow.write_all(b"hold 4000000\n").unwrap();
        rig.settle();
        let seen = |rig: &Rig| -> Vec<Activity> {
            rig.roster.present_from(0, 10).0.iter().map(|entry| entry.2).collect()
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
        let roster = Arc::new(Roster::new());
        let around = Surroundings {
            mailbox: Arc::new(Mailbox::new().unwrap()),
            limit: Arc::new(Limit::new(100_000).unwrap()),
            keeper: Keeper::new(Arc::clone(&roster)),
            datagram_sockets: Vec::new(),
            dialled_max: 100,
            idle_timeout_s: 10,
            notice: |line| NOTICES.lock().unwrap().push(line.to_owned()),
        };
        let worker = Worker::on_system(Parrot::new(tell), Driver::choose(choice), around).unwrap();
        Rig { worker, roster, told, now: Now::default(), connections: 0 }
    }

    fn connect(&mut self) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        server.set_nonblocking(true).unwrap();
        self.worker.limit.enter();
        self.connections += 1;
        let arrival = Arrival {
            id: ConnectionId(self.connections),
            origin: Origin::Accepted { listener: 0 },
            transport: Transport::Unix,
            peer: Address::Unix(None),
            local: Address::Unix(None),
        };
        self.worker.open(server.into(), arrival, false, self.now);
        let told = Told::Opened(self.connections);
        assert_eq!(self.told.recv(), Ok(told));
        client
    }

    /// One round; `false` if there was nothing to do.
    fn round(&mut self) -> bool {
        let had_queue = !self.worker.queue.is_empty();
        let events = self.worker.kernel.poll.wait(0).unwrap();
        self.worker.round(events, self.now);
        had_queue || events > 0
    }

    /// Rounds until there is nothing to do.
    fn settle(&mut self) {
        while self.round() {}
    }

    /// Output that waits for slow peers.
    fn blocked_len(&self) -> usize {
        let connections = self.worker.slab.indices().map(|index| self.worker.slab.at(index));
        connections.filter_map(|connection| connection.blocked.as_ref()).map(|output| output.len()).sum()
    }

    fn closed(&self) -> Vec<(u64, CloseReason)> {
        let tales = self.told.try_iter().filter_map(|told| match told {
            Told::Closed(id, reason) => Some((id, reason)),
            Told::Opened(_) => None,
        });
        tales.collect()
    }
}

/// All that lies unread, and whether the end came after it.
fn hear(mut client: &UnixStream) -> (String, bool) {
    let mut heard = Vec::new();
    let ended = match client.read_to_end(&mut heard) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("read: {error}"),
    };
    (String::from_utf8(heard).unwrap(), ended)
}

fn say(mut client: &UnixStream, text: &str) {
    client.write_all(text.as_bytes()).unwrap();
}

#[test]
fn more_connections_than_lanes_are_all_answered() {
    with_each_driver(|mut rig| {
        let clients: Vec<_> = (0..LANES_MAX * 3 + 1).map(|_| rig.connect()).collect();
        for repetition in 0..3 {
            for (number, client) in clients.iter().enumerate() {
                say(client, &format!("{number}\n{repetition}\n"));
            }
            rig.settle();
            for (number, client) in clients.iter().enumerate() {
                assert_eq!(hear(client), (format!("{number}\n{repetition}\n"), false));
            }
        }
    });
}

#[test]
fn a_line_in_two_parts_is_put_together() {
    with_each_driver(|mut rig| {
        let clients = [rig.connect(), rig.connect()];
        for part in ["he", "ll", "o\nwor", "ld\n"] {
            clients.iter().for_each(|client| say(client, part));
            rig.settle();
        }
        clients.iter().for_each(|client| assert_eq!(hear(client).0, "hello\nworld\n"));
    });
}

#[test]
fn a_pipeline_longer_than_the_buffer_is_answered() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        let line = "x".repeat(99) + "\n";
        let all = line.repeat(3 * INPUT_MAX / line.len());
        say(&client, &all);
        rig.settle();
        assert_eq!(hear(&client).0, all);
    });
}

#[test]
fn a_slow_reader_costs_no_more_than_a_turn_of_output() {
    const COPIES: usize = 2_000;
    with_each_driver(|mut rig| {
        let (client, other) = (rig.connect(), rig.connect());
        let mut unsaid = "copy 9999\n".repeat(COPIES).into_bytes();
        let mut heard = 0;
        while heard < COPIES * 10_000 {
            while !unsaid.is_empty() {
                match (&client).write(&unsaid) {
                    Ok(written) => drop(unsaid.drain(..written)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("write: {error}"),
                }
            }
            rig.settle();
            assert!(rig.blocked_len() <= LINES_PER_TURN_MAX * 10_000);
            say(&other, "meanwhile\n");
            rig.settle();
            assert_eq!(hear(&other).0, "meanwhile\n");
            heard += hear(&client).0.len();
        }
        assert_eq!((heard, rig.blocked_len()), (COPIES * 10_000, 0));
        say(&client, "after\n");
        rig.settle();
        assert_eq!(hear(&client).0, "after\n");
    });
}

#[test]
fn held_memory_reaches_a_slow_reader_in_order() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        say(&client, "a\nhold 3000000\nb\nhold 1000000\nc\n");
        let mut heard = String::new();
        while heard.len() < 4_000_008 {
            rig.settle();
            heard += &hear(&client).0;
        }
        let (first, second) = ("h".repeat(3_000_000), "h".repeat(1_000_000));
        assert!(heard == format!("a\n{first}\nb\n{second}\nc\n"));
        assert_eq!(rig.blocked_len(), 0);
    });
}

#[test]
fn a_peer_that_has_finished_sending_still_gets_its_replies() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        say(&client, &"line\n".repeat(100));
        client.shutdown(Shutdown::Write).unwrap();
        rig.settle();
        assert_eq!(hear(&client), ("line\n".repeat(100), true));
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);

        let client = rig.connect();
        say(&client, "hold 2000000\nspin 3\n");
        client.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        while !heard.ends_with("3\n2\n1\n") {
            rig.settle();
            heard += &hear(&client).0;
        }
        rig.settle();
        assert_eq!(heard.len(), 2_000_001 + 6);
        assert_eq!(rig.closed(), [(2, CloseReason::Normal)]);
    });
}

#[test]
fn a_peer_that_is_gone_is_closed_even_with_output_for_it() {
    with_each_driver(|mut rig| {
        let (idle, blocked, spinning) = (rig.connect(), rig.connect(), rig.connect());
        say(&blocked, "hold 9000000\n");
        rig.settle();
        assert!(rig.blocked_len() > 0);
        say(&spinning, "spin 1000000\n");
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
        say(&watching, "watch\n");
        for second in 1..=10 {
            rig.now = Now::at_ms(second * 1000);
            say(&busy, "x\n");
            rig.settle();
            assert_eq!(rig.closed(), []);
        }
        rig.now = Now::at_ms(11_000);
        rig.settle();
        assert_eq!(rig.closed(), [(1, CloseReason::IdleTimeout)]);
        assert_eq!(hear(&idle), (String::new(), true));
        assert_eq!(rig.worker.keeper.counters().idle_kicks.value(), 1);
        rig.now = Now::at_ms(30_000);
        rig.settle();
        assert_eq!(rig.closed(), [(2, CloseReason::IdleTimeout)]);
    });
}

#[test]
fn many_idle_connections_are_closed_in_steps_between_which_others_are_served() {
    with_each_driver(|mut rig| {
        let count = IDLE_CLOSES_MAX * 3 + 1;
        let idle: Vec<UnixStream> = (0..count).map(|_| rig.connect()).collect();
        rig.now = Now::at_ms(5000);
        let asking = rig.connect();
        rig.settle();
        rig.now = Now::at_ms(11_000);
        for round in 0..4 {
            say(&asking, "x\n");
            rig.round();
            assert_eq!(hear(&asking), ("x\n".to_owned(), false), "round {round}");
            let closed = rig.closed();
            assert_eq!(closed.len(), if round < 3 { IDLE_CLOSES_MAX } else { 1 }, "round {round}");
            assert!(closed.iter().all(|(_, reason)| *reason == CloseReason::IdleTimeout));
            // The next round comes at once, and behind the last one there is time until the next second.
            assert_eq!(rig.worker.patience_ms(rig.now) == 0, round < 3, "round {round}");
        }
        assert!(idle.iter().all(|client| hear(client) == (String::new(), true)));
        assert_eq!(rig.worker.keeper.counters().idle_kicks.value(), count as u64);
        assert_eq!(rig.worker.limit.current(), 1);
    });
}

#[test]
fn a_body_arrives_in_the_handlers_memory_with_what_follows_it() {
    with_each_driver(|mut rig| {
        let body: String = (0..1_000_000).map(|at| char::from(b'a' + (at % 26) as u8)).collect();
        let reply = body_reply(body.as_bytes());
        let client = rig.connect();
        for part in [&format!("x\nbody {}\nabc", body.len()), &body[3..]] {
            let mut unsaid = part.as_bytes();
            while !unsaid.is_empty() {
                match (&client).write(unsaid) {
                    Ok(written) => unsaid = &unsaid[written..],
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
                rig.settle();
            }
        }
        say(&client, "y\n");
        rig.settle();
        assert_eq!(hear(&client).0, format!("x\n{reply}y\n"));

        // Body and next line in one receive.
        say(&client, "body 10\n");
        rig.settle();
        say(&client, "0123456789next\nbody 4\nabcdlast\n");
        rig.settle();
        let (ten, four) = (body_reply(b"0123456789"), body_reply(b"abcd"));
        assert_eq!(hear(&client).0, format!("{ten}next\n{four}last\n"));
    });
}

#[test]
fn those_who_go_on_share_the_rounds_with_those_who_ask() {
    with_each_driver(|mut rig| {
        let spinners: Vec<_> = (0..LANES_MAX * 3).map(|_| rig.connect()).collect();
        spinners.iter().for_each(|client| say(client, "spin 100000\n"));
        let asker = rig.connect();
        // By now all have been noticed, and had their first turns at different times.
        (0..30).for_each(|_| assert!(rig.round()));
        spinners.iter().for_each(|client| drop(hear(client)));
        (0..30).for_each(|_| assert!(rig.round()));
        say(&asker, "me\n");
        let mut rounds = 0;
        while hear(&asker).0 != "me\n" {
            rig.round();
            rounds += 1;
        }
        assert!(rounds <= 5, "answered after {rounds} rounds");
        let lines: Vec<_> = spinners.iter().map(|client| hear(client).0.lines().count()).collect();
        let (least, most) = (lines.iter().min().unwrap(), lines.iter().max().unwrap());
        assert!(*least >= 8 && most - least <= 1, "between {least} and {most} turns");
    });
}

#[test]
fn those_who_wait_for_a_tick_have_it_every_50_ms_or_with_input() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        say(&client, "watch\n");
        rig.settle();
        assert_eq!(hear(&client).0, "tick\n");
        rig.now = Now::at_ms(49);
        rig.settle();
        assert_eq!(hear(&client).0, "");
        assert_eq!(rig.worker.patience_ms(rig.now), 1);
        for tick in 1..=3 {
            rig.now = Now::at_ms(50 * tick);
            rig.settle();
            assert_eq!(hear(&client).0, "tick\n");
        }
        say(&client, "x");
        rig.settle();
        assert_eq!(hear(&client).0, "tick\n");
        client.shutdown(Shutdown::Write).unwrap();
        rig.settle();
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);
    });
}

#[test]
fn a_full_buffer_of_no_use_closes_the_connection() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        say(&client, &"x".repeat(INPUT_MAX + 1));
        rig.settle();
        assert_eq!(rig.closed(), [(1, CloseReason::InputTooLong)]);
    });
}

#[test]
fn a_stopped_worker_closes_all_connections() {
    with_each_driver(|mut rig| {
        let clients = [rig.connect(), rig.connect()];
        let limit = Arc::clone(&rig.worker.limit);
        rig.worker.mailbox.post(&mut vec![Letter::Stop]);
        let Rig { worker, told, .. } = rig;
        worker.run(crate::clock::Clock::start()).unwrap();
        clients.iter().for_each(|client| assert!(hear(client).1));
        assert_eq!(
            told.iter().filter(|told| matches!(told, Told::Closed(_, CloseReason::Shutdown))).count(),
            2
        );
        assert_eq!(limit.current(), 0);
    });
}

#[test]
fn an_idle_connection_owns_little_and_no_buffer() {
    with_each_driver(|mut rig| {
        let client = rig.connect();
        say(&client, "unfinished");
        rig.settle();
        let index = rig.worker.slab.indices().next().unwrap();
        assert_eq!(rig.worker.slab.at(index).talk.unpack(&mut [0; INPUT_MAX]), "unfinished".len());
        say(&client, "\n");
        rig.settle();
        assert_eq!(rig.worker.slab.at(index).talk.unpack(&mut []), 0);
        assert!(rig.worker.slab.at(index).blocked.is_none());
    });
    let handler_state = size_of::<<Parrot as Handler>::Connection>();
    let own =
        size_of::<Connection<Parrot, System>>() - handler_state + size_of::<Opened>() + size_of::<u32>();
    assert!(own <= 200, "{own} bytes for each connection");
}

/// A random script for a parrot.
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

/// A client that does a little at a time.
struct Dawdler {
    socket: UnixStream,
    script: String,
    said: usize,
    /// Has said all, and shut its sending side.
    finished: bool,
    heard: Vec<u8>,
    ended: bool,
}

impl Dawdler {
    fn speak(&mut self, len: usize) {
        let unsaid = &self.script.as_bytes()[self.said..];
        match (&self.socket).write(&unsaid[..unsaid.len().min(len)]) {
            Ok(written) => self.said += written,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        if self.said == self.script.len() {
            self.finished = true;
            self.socket.shutdown(Shutdown::Write).unwrap();
        }
    }

    fn listen(&mut self, len: usize) {
        let mut heard = vec![0; len];
        match (&self.socket).read(&mut heard) {
            Ok(0) => self.ended = true,
            Ok(read) => self.heard.extend_from_slice(&heard[..read]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
}

/// Steps, several times as many as are needed, after which clients that still wait will do so for ever.
const STEPS_MAX: usize = 1_000_000;

#[track_caller]
fn check_against_the_host(seed: u64) {
    with_each_driver(|mut rig| {
        let mut prng = Prng::new(seed);
        let mut clients: Vec<_> = std::iter::repeat_with(|| Dawdler {
            socket: rig.connect(),
            script: script(&mut prng),
            said: 0,
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
                0 if !client.finished => client.speak(len),
                1 if !client.ended => client.listen(len),
                _ => {}
            }
            rig.round();
        }
        for client in clients {
            let expected = crate::sim::converse(Parrot::alone(), &[client.script.as_bytes()]);
            assert!(client.heard == expected.output, "seed {seed}: {} bytes", client.heard.len());
        }
        assert_eq!((rig.worker.limit.current(), rig.worker.queue.len(), rig.blocked_len()), (0, 0, 0));
    });
}

#[test]
fn any_conversation_is_the_same_over_sockets_and_in_the_simulated_host() {
    (0..10).for_each(check_against_the_host);
}

#[test]
fn a_connection_speaks_to_others_in_the_same_round() {
    with_each_driver(|mut rig| {
        let clients: Vec<_> = (0..5).map(|_| rig.connect()).collect();
        say(&clients[0], "tell 2 first\ntell 3 other\ntell 2 second\ntell 1 myself\ntell 9 x\nown\n");
        say(&clients[1], "mine\n");
        rig.round();
        assert_eq!(hear(&clients[0]).0, "6 unsent\n6 unsent\n13 unsent\n7 unsent\ngone\nown\nmyself\n");
        assert_eq!(hear(&clients[1]).0, "mine\nfirst\nsecond\n");
        assert_eq!(hear(&clients[2]).0, "other\n");
        assert!(!rig.round(), "nothing is left to do");
    });
}

#[test]
fn more_is_said_to_others_than_a_round_has_lanes() {
    with_each_driver(|mut rig| {
        let clients: Vec<_> = (0..LANES_MAX * 2).map(|_| rig.connect()).collect();
        let lines = |from: usize| -> String {
            (0..LINES_PER_TURN_MAX - 1).map(|to| format!("tell {} x\n", from * 7 + to + 1)).collect()
        };
        (0..LANES_MAX * 2 / 7).for_each(|from| say(&clients[from], &lines(from)));
        rig.settle();
        for (number, client) in clients.iter().enumerate().take(LANES_MAX * 2 / 7 * 7) {
            let heard = hear(client).0;
            assert!(heard.contains("x\n"), "{number}: {heard}");
        }
    });
}

#[test]
fn what_is_said_to_a_slow_reader_waits_with_the_rest_in_order() {
    with_each_driver(|mut rig| {
        let (slow, other) = (rig.connect(), rig.connect());
        say(&slow, "hold 4000000\n");
        rig.settle();
        let before = rig.blocked_len();
        assert!(before > 0);
        say(&other, "tell 1 a\ntell 1 b\n");
        rig.settle();
        assert_eq!(hear(&other).0, format!("{} unsent\n{} unsent\n", before + 2, before + 4));
        assert_eq!(rig.blocked_len(), before + 4);
        let mut heard = String::new();
        while !heard.ends_with("b\n") {
            heard += &hear(&slow).0;
            rig.settle();
        }
        assert_eq!(heard, format!("{}\na\nb\n", "h".repeat(4_000_000)));
        say(&other, "tell 1 c\n");
        rig.settle();
        assert_eq!((hear(&other).0, hear(&slow).0), ("2 unsent\n".to_owned(), "c\n".to_owned()));
    });
}

#[test]
fn who_waits_is_not_read_from_until_it_is_woken() {
    with_each_driver(|mut rig| {
        let (waiting, other) = (rig.connect(), rig.connect());
        say(&waiting, "before\npause 0\nafter\n");
        rig.settle();
        say(&waiting, "more\n");
        rig.settle();
        assert_eq!(hear(&waiting), ("before\n".to_owned(), false));
        // Neither time, nor that the peer has finished, changes anything.
        rig.now = Now::at_ms(60_000);
        waiting.shutdown(Shutdown::Write).unwrap();
        rig.settle();
        assert_eq!(rig.closed(), [(2, CloseReason::IdleTimeout)]);
        let other_after = rig.connect();
        say(&other_after, "wake 1\nwake 1\n");
        rig.settle();
        assert_eq!(hear(&waiting), ("after\nmore\n".to_owned(), true));
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);
        drop(other);
    });
}

#[test]
fn a_connection_is_ended_by_another_when_its_output_is_out() {
    with_each_driver(|mut rig| {
        let (slow, idle, other) = (rig.connect(), rig.connect(), rig.connect());
        say(&slow, "hold 4000000\n");
        rig.settle();
        say(&other, "tell 2 last\nend 2\ntell 1 last\nend 1\nend 1\nend 9\n");
        rig.settle();
        assert_eq!(hear(&idle), ("last\n".to_owned(), true));
        assert_eq!(rig.closed(), [(2, CloseReason::Normal)]);
        let (mut heard, mut ended) = (0, false);
        let mut last = String::new();
        while !ended {
            (last, ended) = hear(&slow);
            heard += last.len();
            rig.settle();
        }
        assert_eq!(heard, 4_000_001 + 5, "{}", &last[last.len().saturating_sub(20)..]);
        assert_eq!(rig.closed(), [(1, CloseReason::Normal)]);
        hear(&other);
        say(&other, "tell 1 x\nend 3\n");
        rig.settle();
        assert_eq!(hear(&other), ("gone\n".to_owned(), true));
    });
}

#[test]
fn a_deadline_comes_in_time_and_once() {
    with_each_driver(|mut rig| {
        let (client, gone) = (rig.connect(), rig.connect());
        rig.settle();
        say(&gone, "alarm 2\n");
        say(&client, "alarm 3\nalarm 700\n");
        rig.settle();
        drop(gone);
        rig.settle();
        assert_eq!(rig.worker.patience_ms(rig.now), 2);
        rig.now = Now { us: 1_400 };
        assert_eq!(rig.worker.patience_ms(rig.now), 1, "a whole millisecond that is not too short");
        rig.now = Now { us: 2_999 };
        rig.settle();
        assert_eq!(hear(&client).0, "");
        rig.now = Now::at_ms(3);
        rig.round();
        assert_eq!(hear(&client).0, "alarm\n");
        assert_eq!(rig.worker.patience_ms(rig.now), 697);
        rig.now = Now::at_ms(800);
        rig.round();
        assert_eq!(hear(&client).0, "alarm\n");
        assert_eq!(rig.worker.patience_ms(rig.now), 200, "until the next tick");
    });
}
