//! Clients and servers that do not read, with values of 1 MB.

use super::*;

const VALUE: usize = 1_000_000;

/// The bytes of a value, of which each number has its own.
fn value(number: usize) -> Vec<u8> {
    (0..VALUE).map(|at| b'a' + ((at + number) % 23) as u8).collect()
}

fn set(key: &str, number: usize) -> Vec<u8> {
    [format!("set {key} 0 0 {VALUE}\r\n").as_bytes(), &value(number), b"\r\n"].concat()
}

fn found(key: &str, number: usize) -> Vec<u8> {
    [format!("VALUE {key} 0 {VALUE}\r\n").as_bytes(), &value(number), b"\r\nEND\r\n"].concat()
}

/// Waits until others were served for a while.
#[track_caller]
fn others_are_served(router: &Server) {
    let mut client = client(router);
    for number in 0..200 {
        let stored = client.ask(format!("set other{number} 0 0 1\r\nx\r\n").as_bytes());
        assert_eq!(stored.expect("an answer"), "STORED");
    }
}

#[track_caller]
fn resident_mb(router: &Server) -> u64 {
    router.resident().expect("a living router") >> 20
}

#[test]
fn values_in_both_directions_all_arrive_although_nobody_reads_at_first() {
    const COUNT: usize = 40;
    let servers = [evenkeel(), evenkeel()];
    let router = router(&pool(&servers), &[]);
    let bystander = Bystander::start(&router).expect("a bystander");
    let clients: Vec<_> = (0..4)
        .map(|client| {
            let stream = router.connect().expect("a connection");
            let mut writer = stream.try_clone().expect("share");
            let writing = std::thread::spawn(move || {
                for number in 0..COUNT {
                    let key = format!("client{client}key{number}");
                    writer.write_all(&set(&key, number)).expect("send");
                    writer.write_all(format!("get {key}\r\n").as_bytes()).expect("send");
                }
            });
            (client, stream, writing)
        })
        .collect();
    others_are_served(&router);
    let full = resident_mb(&router);
    // A client is not read from before its values are stored.
    assert!(full < 150, "{full} MB resident");
    let reading: Vec<_> = clients
        .into_iter()
        .map(|(client, mut stream, writing)| {
            std::thread::spawn(move || {
                for number in 0..COUNT {
                    let key = format!("client{client}key{number}");
                    let expected = [b"STORED\r\n".to_vec(), found(&key, number)].concat();
                    let mut received = vec![0; expected.len()];
                    stream.read_exact(&mut received).expect("an answer");
                    assert!(received == expected, "{key}: {}", received[..80].escape_ascii());
                }
                writing.join().expect("all sent");
            })
        })
        .collect();
    reading.into_iter().for_each(|client| client.join().expect("all answers"));
    let experience = bystander.stop().expect("correct answers");
    println!("{full} MB resident with full sockets; others waited at most {:?}", experience.longest);
}

#[test]
fn clients_that_ask_for_values_and_take_none_are_closed_at_the_limit_of_memory() {
    const CLIENTS: usize = 30;
    const LIMIT_MB: u64 = 128;
    // What the process and values on their way take besides, and what arrives between two looks.
    const MEMORY_MAX_MB: u64 = LIMIT_MB + 150;
    let servers = [evenkeel(), evenkeel()];
    let router = router(&pool(&servers), &["--buffer-memory-mb", &LIMIT_MB.to_string()]);
    assert_eq!(client(&router).ask(&set("big", 0)).expect("an answer"), "STORED");
    let bystander = Bystander::start(&router).expect("a bystander");
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| router.connect().expect("a connection")).collect();
    for mut stream in &streams {
        stream.write_all(&b"get big\r\n".repeat(400)).expect("send");
    }
    let (mut peak, mut left) = (0, u64::MAX);
    let mut admin = client(&router);
    let closed = clock::wait_for(|| {
        peak = peak.max(resident_mb(&router));
        left = admin.statistic_of("all", "num_clients").expect("stats");
        // This client, the bystander, and those whose values fit: 16 each were asked for at once, and the system's buffers hold some.
        (left <= 13).then_some(())
    });
    assert!(closed.is_some(), "{left} are still there, and {peak} MB resident");
    assert!(peak <= MEMORY_MAX_MB, "{peak} MB resident");
    others_are_served(&router);
    let experience = bystander.stop().expect("correct answers");
    println!("{peak} MB resident; others waited at most {:?}", experience.longest);
}

#[test]
fn a_server_that_does_not_read_takes_no_memory_and_delays_nobody_else() {
    const COUNT: usize = 30;
    let (server, stuck) = (evenkeel(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": {}}}, "B": {{"servers": ["{}"], "server_timeout": 3000}}}},
            "route": {{"type": "PrefixSelectorRoute", "policies": {{"stuck": "PoolRoute|B"}}, "wildcard": "PoolRoute|A"}}}}"#,
        list([&server]),
        stuck.local_addr().expect("an address")
    );
    let router = router(&configuration, &[]);
    let bystander = Bystander::start(&router).expect("a bystander");
    let before = resident_mb(&router);
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let mut writer = router.connect().expect("a connection");
            let reader = writer.try_clone().expect("share");
            let writing = std::thread::spawn(move || {
                (0..COUNT).for_each(|number| writer.write_all(&set("stuck", number)).expect("send"));
            });
            (writing, Client::new(reader))
        })
        .collect();
    others_are_served(&router);
    let mut peak = resident_mb(&router);
    for (writing, mut client) in clients {
        for _ in 0..COUNT {
            let answer = client.line().expect("an answer");
            assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
        }
        writing.join().expect("all sent");
        peak = peak.max(resident_mb(&router));
    }
    assert_eq!(client(&router).ask(b"get other0\r\n").expect("an answer"), "VALUE other0 0 1");
    let experience = bystander.stop().expect("correct answers");
    // A few megabytes wait for the server, and what each client has begun to send.
    assert!(peak < before + 64, "{before} MB resident before, {peak} MB then");
    println!("{before} MB resident before, {peak} MB; others waited at most {:?}", experience.longest);
}

#[test]
fn memory_of_values_that_were_not_taken_goes_back_to_the_system() {
    const MB: u64 = 1 << 20;
    let server = evenkeel();
    let router = router(&pool([&server]), &[]);
    let mut small = client(&router);
    let mut store = |key: &str, len: usize| {
        let request = format!("set {key} 0 0 {len}\r\n{}\r\n", "x".repeat(len));
        assert_eq!(small.ask(request.as_bytes()).expect("an answer"), "STORED");
    };
    store("large", 1_000_000);
    let resident = || router.resident().expect("it is there");
    let before = resident();
    let idle: Vec<TcpStream> = (0..12)
        .map(|number| {
            let mut stream = router.connect().expect("a connection");
            stream.write_all("get large\r\n".repeat(16).as_bytes()).expect("send");
            // What is smaller lies between the large values.
            store(&format!("small{number}"), 20_000);
            stream
        })
        .collect();
    assert!(clock::wait_for(|| (resident() > before + 100 * MB).then_some(())).is_some(), "{}", resident());
    drop(idle);
    assert!(clock::wait_for(|| (resident() < before + 40 * MB).then_some(())).is_some(), "{}", resident());
}
