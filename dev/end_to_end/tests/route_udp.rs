//! Gets over UDP from a router to real servers, and to one that is none.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};
use std::net::UdpSocket;

fn router(port: u16, flags: &[&str]) -> Server {
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["127.0.0.1:{port}"], "transport": "udp", "server_timeout": 500}}}},
            "route": "PoolRoute|A"}}"#
    );
    Server::start_router(&[&["--config-str", &configuration][..], flags].concat()).expect("a router")
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

/// The lines of the answer to a get, without its end.
fn lines(client: &mut Client, request: &str) -> Vec<String> {
    let mut lines = vec![client.ask(request.as_bytes()).expect("an answer")];
    while lines.last().expect("one at least") != "END" {
        lines.push(client.line().expect("a line"));
    }
    lines.pop();
    lines
}

#[test]
fn real_servers_answer_gets_over_udp() {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let [epoll, uring] = SocketDriver::ALL.map(ServerUnderTest::evenkeel);
    for subject in [epoll, uring, memcached] {
        let server = Server::start_with_udp(&subject).expect("a server");
        for driver in ["--driver=epoll", "--driver=auto"] {
            let router = router(server.address().port(), &[driver]);
            let mut client = client(&router);
            let mut expected = Vec::new();
            for number in 0..40 {
                // Some of them take several datagrams.
                let value = format!("{number}").repeat(1 + number * 50);
                let set = format!("set k{number} 0 0 {}\r\n{value}\r\n", value.len());
                assert_eq!(client.ask(set.as_bytes()).expect("an answer"), "STORED");
                expected.push([format!("VALUE k{number} 0 {}", value.len()), value]);
            }
            let keys: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
            for _ in 0..50 {
                // What is lost on a busy machine is a miss, and never another value.
                for (key, value) in keys.iter().zip(&expected).step_by(7) {
                    let found = lines(&mut client, &format!("get {key}\r\n"));
                    assert!(found.is_empty() || found == value, "{}: {key}: {found:?}", subject.name);
                }
            }
            let all = clock::wait_for(|| {
                let found = lines(&mut client, &format!("get {}\r\n", keys.join(" ")));
                (found == expected.concat()).then_some(())
            });
            assert!(all.is_some(), "{}: {}", subject.name, router.said());
        }
    }
}

#[test]
fn a_server_without_udp_is_asked_over_tcp() {
    let server =
        Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &["-m", "64"]).expect("a server");
    let router = router(server.address().port(), &[]);
    let mut client = client(&router);
    assert_eq!(client.ask(b"set k 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
    let line = "does not answer over UDP: gets go over TCP for 10 s";
    let found = clock::wait_for(|| {
        let found = lines(&mut client, "get k\r\n");
        (router.said().contains(line) && found == ["VALUE k 0 1", "x"]).then_some(())
    });
    assert!(found.is_some(), "{}", router.said());
}

#[test]
fn datagrams_from_another_address_are_not_answers() {
    let server =
        Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &["-m", "64"]).expect("a server");
    // This test is the server for datagrams.
    let socket = UdpSocket::bind(("127.0.0.1", server.address().port())).expect("a socket");
    socket.set_read_timeout(Some(clock::PATIENCE)).expect("a time limit");
    let stranger = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let router = router(server.address().port(), &["-t", "60000"]);
    let mut client = client(&router);
    // Over TCP, while the router makes a socket.
    let mut head = [0; 8];
    let answering = std::thread::spawn(move || {
        let mut datagram = [0; 1500];
        let (len, from) = socket.recv_from(&mut datagram).expect("a datagram");
        assert_eq!(&datagram[8..len], b"get k\r\n");
        head.copy_from_slice(&datagram[..8]);
        let reply = |text: &str| [&head[..], text.as_bytes()].concat();
        stranger.send_to(&reply("VALUE k 0 6\r\nforged\r\nEND\r\n"), from).expect("send");
        let mut wrong = reply("VALUE k 0 6\r\nforged\r\nEND\r\n");
        wrong[0] ^= 1;
        socket.send_to(&wrong, from).expect("send");
        socket.send_to(b"short", from).expect("send");
        socket.send_to(&reply("VALUE k 0 4\r\nreal\r\nEND\r\n"), from).expect("send");
    });
    let found = clock::wait_for(|| {
        let found = lines(&mut client, "get k\r\n");
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(found.expect("a value"), ["VALUE k 0 4", "real"]);
    answering.join().expect("it has answered");
}
