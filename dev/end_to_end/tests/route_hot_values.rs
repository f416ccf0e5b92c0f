//! Hot values of a router in front of real servers: what they keep away from a server, by its own statistics, and what clients
//! read when items change.

use end_to_end::bystander::Client;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{ServerUnderTest, SocketDriver};

/// memcached and ours.
fn servers() -> [Server; 2] {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    let ours = ServerUnderTest::evenkeel(SocketDriver::Epoll);
    [&memcached, &ours].map(|subject| Server::start::<&str>(subject, &[]).expect("a server"))
}

/// A router before this server, with these settings of hot values.
fn router(server: &Server, hot_cache: &str) -> Server {
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": ["{}"], "hot_cache": {hot_cache}}}}}, "route": "PoolRoute|A"}}"#,
        server.address()
    );
    Server::start_router(&["--config-str", &configuration]).expect("a router")
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

#[track_caller]
fn stat(server: &Server, name: &str) -> u64 {
    client(server).statistic(name).expect("a statistic")
}

/// The value of a key; `None` for a miss.
fn get(client: &mut Client, key: &str) -> Option<String> {
    let head = client.ask(format!("get {key}\r\n").as_bytes()).expect("an answer");
    if head == "END" {
        return None;
    }
    assert!(head.starts_with(&format!("VALUE {key} 7 ")), "{head}");
    let value = client.line().expect("a value");
    assert_eq!(client.line().expect("the end"), "END");
    Some(value)
}

fn set(client: &mut Client, key: &str, value: &str) {
    let request = format!("set {key} 7 0 {}\r\n{value}\r\n", value.len());
    assert_eq!(client.ask(request.as_bytes()).expect("an answer"), "STORED");
}

#[test]
fn gets_of_a_hot_key_do_not_reach_its_server() {
    for server in servers() {
        let router = router(&server, r#"{"ttl_ms": 10000}"#);
        let mut asked = client(&router);
        set(&mut asked, "hot", "x");
        let (before, begun) = (stat(&server, "cmd_get"), clock::now());
        for number in 0..1000 {
            assert_eq!(get(&mut asked, "hot").as_deref(), Some("x"));
            // And others, which are not hot.
            if number % 10 == 0 {
                assert_eq!(get(&mut asked, &format!("cold{number}")), None);
            }
        }
        let reached = stat(&server, "cmd_get") - before;
        // 32 make the key hot; one is sent each time that the value is too old.
        let most = 100 + 32 + 1 + begun.elapsed().as_secs() / 10;
        assert!((132..=most).contains(&reached), "{reached} of 1100 gets, expected 132 to {most}");
        let hits = stat(&router, "hot_cache_hits_count");
        assert_eq!(hits + reached, 1100);
        assert!(stat(&router, "hot_cache_bytes") > 0);
    }
}

#[test]
fn clients_read_what_they_have_written_and_what_others_have_after_the_time() {
    for server in servers() {
        let router = router(&server, r#"{"ttl_ms": 300}"#);
        let (mut writer, mut reader, mut direct) = (client(&router), client(&router), client(&server));
        for number in 0..300 {
            if number % 10 == 0 {
                set(&mut writer, "hot", &number.to_string());
            }
            let expected = (number / 10 * 10).to_string();
            assert_eq!(get(&mut reader, "hot"), Some(expected.clone()));
            assert_eq!(get(&mut writer, "hot"), Some(expected));
        }
        assert_eq!(writer.ask(b"delete hot\r\n").expect("an answer"), "DELETED");
        assert_eq!(get(&mut reader, "hot"), None);
        assert!(stat(&router, "hot_cache_hits_count") > 0);

        set(&mut writer, "hot", "ours");
        assert_eq!(get(&mut reader, "hot").as_deref(), Some("ours"));
        set(&mut direct, "hot", "theirs");
        let changed = clock::now();
        loop {
            let (asked, found) = (changed.elapsed(), get(&mut reader, "hot"));
            if found.as_deref() == Some("theirs") {
                break;
            }
            assert_eq!(found.as_deref(), Some("ours"));
            // A thread that waits for its CPU takes the time before it waits.
            assert!(asked.as_millis() < 300 + 1000, "read {} ms after the change", asked.as_millis());
        }
        assert_eq!(get(&mut reader, "hot").as_deref(), Some("theirs"), "nobody goes back");
    }
}
