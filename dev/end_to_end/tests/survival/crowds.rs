//! Many clients: idle ones, short-lived ones, more than the limit.

use super::*;

/// Server memory of an idle connection; memcached needs about as much.
const IDLE_BYTES_MAX: u64 = 600;

#[track_caller]
fn idle_connections_are_cheap(driver: SocketDriver) {
    const COUNT: u64 = 10_000;
    const AT_ONCE: usize = 500;
    let attacked = AttackedServer::open(driver, 64, &["-c", "11000"]);
    let mut monitor = attacked.client();
    // Memory that the server allocates once, for the first clients, does not count as that of an idle one.
    let warm: Vec<TcpStream> = (0..100).map(|_| attacked.connect()).collect();
    warm.iter().for_each(|stream| request(stream));
    drop(warm);
    attacked.connections_become(2, &mut monitor);
    let before = attacked.server.resident().expect("memory");
    let mut streams: Vec<TcpStream> = Vec::new();
    while (streams.len() as u64) < COUNT {
        streams.extend((0..AT_ONCE).map(|_| attacked.connect()));
        // Wait until each has reached its worker: until then it takes more memory.
        let served = streams.len() as u64 + 2;
        let open =
            clock::wait_for(|| (monitor.statistic("connection_structures").ok()? >= served).then_some(()));
        assert!(open.is_some(), "not every connection was taken");
    }
    let connected = attacked.server.resident().expect("memory").saturating_sub(before) / COUNT;
    streams.iter().for_each(|stream| request(stream));
    let used = attacked.server.resident().expect("memory").saturating_sub(before) / COUNT;
    println!("{driver:?}: {connected} B per idle connection, {used} B once it was used");
    assert!(
        connected <= IDLE_BYTES_MAX && used <= IDLE_BYTES_MAX,
        "{connected} B, then {used} B per idle connection"
    );
    drop(streams);
    attacked.connections_become(2, &mut monitor);
    attacked.close("ten thousand idle connections");
}

/// One request and its answer.
#[track_caller]
fn request(mut stream: &TcpStream) {
    send(stream, b"mn\r\n");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"MN\r\n");
}

#[test]
fn ten_thousand_idle_connections_are_cheap_with_epoll() {
    idle_connections_are_cheap(SocketDriver::Epoll);
}

#[test]
fn ten_thousand_idle_connections_are_cheap_with_io_uring() {
    idle_connections_are_cheap(SocketDriver::Uring);
}

/// `stats conns`, requested by many clients that do not read, must not be held complete for each of them.
#[track_caller]
fn a_list_of_all_connections_is_not_held_for_each_client(driver: SocketDriver) {
    const COUNT: usize = 4_000;
    const ASKING: usize = 100;
    let attacked = AttackedServer::open(driver, 8, &["-c", "11000"]);
    let streams: Vec<TcpStream> = (0..COUNT).map(|_| attacked.connect()).collect();
    streams.iter().for_each(|stream| request(stream));
    let mut silent: Vec<TcpStream> = (0..ASKING).map(|_| attacked.connect()).collect();
    for stream in &mut silent {
        rustix::net::sockopt::set_socket_recv_buffer_size(&*stream, 4096).expect("a short buffer");
        stream.write_all(&b"stats conns\r\n".repeat(20)).expect("send");
    }
    // They read only the first byte of the answer.
    silent.iter_mut().for_each(|stream| stream.read_exact(&mut [0]).expect("an answer"));
    attacked.memory_is_bounded();
    let mut monitor = attacked.client();
    let mut line = monitor.ask(b"stats conns\r\n").expect("an answer");
    let mut clients = Vec::new();
    while line != "END" {
        if let Some((_, address)) = line.split_once(":addr tcp:") {
            clients.push(address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port"));
        }
        line = monitor.line().expect("more");
    }
    clients.sort_unstable();
    assert!(clients.windows(2).all(|pair: &[u16]| pair[0] < pair[1]), "a connection is listed twice");
    let listed =
        |stream: &TcpStream| clients.binary_search(&stream.local_addr().expect("a port").port()).is_ok();
    assert!(streams.iter().chain(&silent).all(listed), "{} are listed", clients.len());
    drop((streams, silent));
    attacked.all_have_left_but(1);
    attacked.close("a hundred clients that list all connections and do not read");
}

#[test]
fn a_list_of_all_connections_is_not_held_for_each_client_with_either_driver() {
    SocketDriver::ALL.into_iter().for_each(a_list_of_all_connections_is_not_held_for_each_client);
}

#[track_caller]
fn many_reports_at_once_are_all_made(driver: SocketDriver) {
    const ASKING: usize = 60;
    const REPORTS: [&str; 9] = [
        "stats",
        "stats items",
        "stats slabs",
        "stats settings",
        "stats sizes",
        "stats conns",
        "stats cachedump 1 0",
        "stats detail dump",
        "lru_crawler crawl all",
    ];
    let attacked = AttackedServer::open(driver, 64, &["-o", "track_sizes", "-D:"]);
    let mut monitor = attacked.client();
    assert_eq!(monitor.ask(b"set prefix:key 0 0 1\r\nx\r\n").expect("service"), "STORED");
    // A third of them close while they wait for their turn.
    let streams: Vec<TcpStream> = (0..ASKING).map(|_| attacked.connect()).collect();
    for (number, stream) in streams.iter().enumerate() {
        (0..REPORTS.len()).for_each(|at| {
            let report = REPORTS[(number + at) % REPORTS.len()];
            send(stream, format!("{report}\r\nget prefix:key\r\n").repeat(5).as_bytes());
        });
        if number % 3 == 0 {
            reset(stream.try_clone().expect("the same stream"));
        }
    }
    for (number, stream) in streams.into_iter().enumerate().filter(|(number, _)| number % 3 != 0) {
        let heard = String::from_utf8(drain(stream)).expect("text");
        // The crawl's reply is OK, that of the others END, and so is each get's.
        let ends = heard.lines().filter(|line| *line == "END").count();
        assert_eq!(ends, 5 * (2 * REPORTS.len() - 1), "{driver:?}, client {number}");
        assert_eq!(heard.matches("VALUE prefix:key 0 1\r\nx\r\nEND\r\n").count(), 5 * REPORTS.len());
    }
    attacked.all_have_left_but(1);
    attacked.close("reports for sixty at once");
}

#[test]
fn many_reports_at_once_are_all_made_with_either_driver() {
    SocketDriver::ALL.into_iter().for_each(many_reports_at_once_are_all_made);
}

#[test]
fn a_storm_of_connections_is_survived() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-c", "11000"]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..1000 {
                        let stream = attacked.connect();
                        match number % 4 {
                            0 => drop(stream),
                            1 => reset(stream),
                            2 => request(&stream),
                            _ => {
                                send(&stream, b"get a\r\nset b 0 0 10\r\n12");
                                reset(stream);
                            }
                        }
                    }
                });
            }
        });
        attacked.all_have_left_but(0);
        attacked.close("a storm of connections");
    }
}

#[test]
fn connections_beyond_the_limit_get_an_error() {
    const LIMIT: usize = 100;
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-c", &LIMIT.to_string()]);
        let (mut served, mut refused) = (Vec::new(), 0);
        for _ in 0..3 * LIMIT {
            let stream = attacked.connect();
            send(&stream, b"mn\r\n");
            let mut client = Client::new(stream);
            match client.line() {
                Ok(line) if line == "MN" => served.push(client),
                // If the server closes with an unread request, the reset may overtake its answer.
                Ok(line) => {
                    assert_eq!(line, "ERROR Too many open connections");
                    refused += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(
            !served.is_empty() && served.len() <= LIMIT && refused >= 2 * LIMIT,
            "{} served",
            served.len()
        );
        for client in &mut served {
            assert_eq!(client.ask(b"mn\r\n").expect("open connections are still served"), "MN");
        }
        drop(served);
        let back = clock::wait_for(|| {
            attacked
                .server
                .connect()
                .ok()
                .and_then(|stream| (Client::new(stream).ask(b"mn\r\n").ok()? == "MN").then_some(()))
        });
        assert!(back.is_some(), "no connection is accepted after the others were closed");
        attacked.close("three times as many connections as allowed");
    }
}

#[test]
fn a_refused_connection_that_sends_nothing_reads_the_reason() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-c", "100"]);
        let streams: Vec<TcpStream> = (0..300).map(|_| attacked.connect()).collect();
        let mut last = streams.last().expect("some");
        let mut reason = Vec::new();
        last.read_to_end(&mut reason).expect("an answer and a close");
        assert_eq!(reason, b"ERROR Too many open connections\r\n");
        drop(streams);
        attacked.close("silent connections beyond the limit");
    }
}

#[test]
fn a_short_listen_queue_delays_but_serves() {
    for driver in SocketDriver::ALL {
        let attacked = AttackedServer::open(driver, 64, &["-b", "1"]);
        std::thread::scope(|scope| {
            for _ in 0..50 {
                scope.spawn(|| {
                    let mut patience = Duration::from_millis(500);
                    // A segment that the kernel drops at a full queue is sent again by the client.
                    let served = clock::wait_for(|| {
                        patience *= 2;
                        served_within(patience, &attacked)
                    });
                    assert!(served.is_some(), "never served");
                });
            }
        });
        attacked.close("fifty connections at once and a queue for one");
    }
}

/// One attempt, given up early enough to make another.
fn served_within(patience: Duration, attacked: &AttackedServer) -> Option<()> {
    let mut stream = attacked.server.connect().ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(b"mn\r\n").ok()?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).ok()?;
    (&answer == b"MN\r\n").then_some(())
}
