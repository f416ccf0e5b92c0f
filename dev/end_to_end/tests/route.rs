//! The router, with real servers behind it and real clients before it.

use end_to_end::bystander::Client;
use end_to_end::clients;
use end_to_end::clock;
use end_to_end::server::Server;
use end_to_end::subject::{self, ServerUnderTest, SocketDriver};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A configuration in a file, for as long as this value exists.
struct Configuration(PathBuf);

impl Configuration {
    fn new(text: &str) -> Configuration {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-route-{}-{number}.json", std::process::id());
        let configuration = Configuration(std::env::temp_dir().join(name));
        configuration.write(text);
        configuration
    }

    /// In one step, as programs that write configurations do.
    fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).expect("write a configuration");
        std::fs::rename(&new, &self.0).expect("rename a configuration");
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }

    fn flag(&self) -> String {
        format!("--config=file:{}", self.path())
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        // If it fails, the file does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A list of servers, as a configuration has it.
fn list<'s>(servers: impl IntoIterator<Item = &'s Server>) -> String {
    let servers: Vec<_> = servers.into_iter().map(|server| format!("\"{}\"", server.address())).collect();
    format!("[{}]", servers.join(", "))
}

/// One pool of these servers.
fn pool(servers: &[Server]) -> String {
    format!(r#"{{"pools": {{"A": {{"servers": {}}}}}, "route": "PoolRoute|A"}}"#, list(servers))
}

/// Room for values of 5 MB.
const ROOM: [&str; 4] = ["-m", "256", "-I", "8m"];

fn evenkeel() -> Server {
    Server::start(&ServerUnderTest::evenkeel(SocketDriver::Epoll), &ROOM).expect("a server")
}

/// Debian's memcached and two of ours.
fn three() -> [Server; 3] {
    let memcached = ServerUnderTest::memcached().expect("a memcached");
    [Server::start(&memcached, &ROOM).expect("a memcached"), evenkeel(), evenkeel()]
}

fn router(configuration: &Configuration, flags: &[&str]) -> Server {
    let configured = configuration.flag();
    let flags: Vec<&str> = [&[&*configured][..], flags].concat();
    Server::start_router(&flags).expect("a router")
}

fn client(server: &Server) -> Client {
    Client::new(server.connect().expect("a connection"))
}

/// Sends, and expects exactly these bytes.
#[track_caller]
fn exchange(stream: &mut TcpStream, sent: &[u8], expected: &[u8]) {
    stream.write_all(sent).expect("send");
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).expect("an answer");
    if received != expected {
        let shown = |bytes: &[u8]| bytes[..bytes.len().min(200)].escape_ascii().to_string();
        panic!("{}: received {}, expected {}", shown(sent), shown(&received), shown(expected));
    }
}

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(server.pid() as i32).expect("an id"), signal).expect("send a signal");
}

/// Waits for a line of the router.
#[track_caller]
fn says(router: &Server, line: &str) {
    let said = clock::wait_for(|| router.said().contains(line).then_some(()));
    assert!(said.is_some(), "expected {line:?} in {}", router.said());
}

#[test]
fn keys_are_spread_over_servers_and_come_back() {
    let servers = three();
    let configuration = Configuration::new(&pool(&servers));
    let router = router(&configuration, &["--num-proxies=2"]);
    says(&router, "3 servers, 2 threads");
    let mut stream = router.connect().expect("a connection");
    let keys: Vec<String> = (0..60).map(|number| format!("key{number}")).collect();
    for key in &keys {
        exchange(&mut stream, format!("set {key} 7 0 {}\r\n{key}\r\n", key.len()).as_bytes(), b"STORED\r\n");
    }
    let values: String = keys.iter().map(|key| format!("VALUE {key} 7 {}\r\n{key}\r\n", key.len())).collect();
    let all = format!("get {} none\r\n", keys.join(" "));
    exchange(&mut stream, all.as_bytes(), format!("{values}END\r\n").as_bytes());

    let held = servers.each_ref().map(|server| {
        let mut direct = client(server);
        keys.iter()
            .filter(|key| {
                direct.ask(format!("touch {key} 0\r\n").as_bytes()).expect("an answer") == "TOUCHED"
            })
            .count()
    });
    assert!(held.iter().all(|count| *count > 5), "each server has some: {held:?}");
    assert_eq!(held.iter().sum::<usize>(), keys.len(), "each key is on one server: {held:?}");

    for key in &keys {
        exchange(&mut stream, format!("delete {key}\r\n").as_bytes(), b"DELETED\r\n");
    }
    exchange(&mut stream, all.as_bytes(), b"END\r\n");
}

#[test]
fn commands_of_both_protocols_pass() {
    let servers = three();
    let configuration = Configuration::new(&pool(&servers));
    let router = router(&configuration, &[]);
    let mut stream = router.connect().expect("a connection");
    // Different keys, so that each server sees some.
    for name in ["a", "bb", "ccc", "dddd", "eeeee", "ffffff"] {
        let mut check = |sent: &str, expected: &str| {
            let name = |text: &str| text.replace("{k}", name).replace('|', "\r\n");
            exchange(&mut stream, name(sent).as_bytes(), name(expected).as_bytes());
        };
        check("set {k} 0 0 1|5|incr {k} 3|decr {k} 1|", "STORED|8|7|");
        check("add {k} 0 0 1|x|replace {k} 3 0 1|y|get {k}|", "NOT_STORED|STORED|VALUE {k} 3 1|y|END|");
        check("append {k} 0 0 1|z|prepend {k} 0 0 1|x|get {k}|", "STORED|STORED|VALUE {k} 3 3|xyz|END|");
        check("touch {k} 100|gat 100 {k}|", "TOUCHED|VALUE {k} 3 3|xyz|END|");
        check("set {k} 0 0 1 noreply|q|get {k}|", "VALUE {k} 0 1|q|END|");
        check("delete {k} noreply|get {k}|delete {k}|", "END|NOT_FOUND|");
        check("ms {k} 2 F9 T0|hi|mg {k} v f k|", "HD|VA 2 f9 k{k}|hi|");
        check("mg {k} v q O1|mg none{k} v q|mn|", "VA 2 O1|hi|MN|");
        check("ma none{k} N0 J5 v|md none{k}|md {k} q|mg {k} v|", "VA 1|5|HD|EN|");
    }
}

#[test]
fn values_of_all_sizes_come_back_as_they_went() {
    let servers = [evenkeel(), evenkeel()];
    let configuration = Configuration::new(&pool(&servers));
    let router = router(&configuration, &[]);
    let mut stream = router.connect().expect("a connection");
    for len in [1, 20_000, 1_000_000, 5_000_000] {
        let value: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
        for name in ["one", "two", "three"] {
            let set = [format!("set {name} 0 0 {len}\r\n").as_bytes(), &value, b"\r\n"].concat();
            exchange(&mut stream, &set, b"STORED\r\n");
        }
        let item = |name: &str| [format!("VALUE {name} 0 {len}\r\n").as_bytes(), &value, b"\r\n"].concat();
        let all = [item("one"), item("two"), item("three"), b"END\r\n".to_vec()].concat();
        exchange(&mut stream, b"get one two three\r\n", &all);
    }
}

#[test]
fn pymemcache_works_through_a_router() {
    let servers = three();
    let configuration = Configuration::new(&pool(&servers));
    let router = router(&configuration, &["--num-proxies=2"]);
    match clients::passes(clients::python("pymemcache_route.py"), &router) {
        Ok(report) => println!("{report}"),
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn a_delete_that_fails_is_in_a_file_before_it_is_answered() {
    let server = evenkeel();
    let configuration = Configuration::new(&pool(std::slice::from_ref(&server)));
    let folder = std::env::temp_dir().join(format!("evenkeel-async-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("make a folder");
    let place = folder.to_str().expect("text").to_owned();
    let router = router(&configuration, &["--async-dir", &place, "--router-name=r", "-t", "500"]);
    let mut client = client(&router);
    let address = server.address();
    drop(server);
    assert_eq!(client.ask(b"delete k\r\n").expect("an answer"), "NOT_FOUND");
    let files = |folder: &PathBuf| -> Vec<PathBuf> {
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
    };
    let hours = files(&folder);
    let logs: Vec<PathBuf> = hours.iter().flat_map(files).collect();
    let text = std::fs::read_to_string(&logs[0]).expect("a file");
    let expected = format!(r#","C",["127.0.0.1",{},"delete k\r\n"]]"#, address.port());
    assert!(text.starts_with(r#"["AS1.0","#) && text.trim_end().ends_with(&expected), "{text}");
    // The folder vanishes: the next file cannot be made. The present one goes on.
    assert_eq!(client.ask(b"delete k\r\n").expect("an answer"), "NOT_FOUND");
    std::fs::remove_dir_all(&folder).expect("remove a folder");
}

#[test]
fn a_delete_that_cannot_be_written_is_answered_with_its_error() {
    let server = evenkeel();
    let configuration = Configuration::new(&pool(std::slice::from_ref(&server)));
    let router = router(&configuration, &["--async-dir", "/proc/nowhere", "-t", "500"]);
    says(&router, "deletes that fail are answered with their error: /proc/nowhere (--async-dir)");
    let mut client = client(&router);
    drop(server);
    let answer = client.ask(b"delete k\r\n").expect("an answer");
    assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
    says(&router, "deletes cannot be written to /proc/nowhere, and are answered with their error: ");
}

#[test]
fn failover_answers_after_a_server_was_killed() {
    let (first, second) = (evenkeel(), evenkeel());
    let configuration = Configuration::new(&format!(
        r#"{{
            // Two pools of one server each.
            "pools": {{"A": {{"servers": {}}}, "B": {{"servers": {}}}}},
            "route": {{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}},
        }}"#,
        list([&first]),
        list([&second])
    ));
    let router = router(&configuration, &["-r", "60000"]);
    let mut asked = client(&router);
    assert_eq!(asked.ask(b"set k 0 0 1\r\n1\r\n").expect("an answer"), "STORED");
    assert_eq!(client(&first).ask(b"touch k 0\r\n").expect("an answer"), "TOUCHED");
    assert_eq!(client(&second).ask(b"touch k 0\r\n").expect("an answer"), "NOT_FOUND");
    drop(first);
    // The connection may have ended before this request, or by it.
    let stored = clock::wait_for(|| {
        (asked.ask(b"set k 0 0 1\r\n2\r\n").expect("an answer") == "STORED").then_some(())
    });
    stored.expect("the second pool answers");
    assert_eq!(client(&second).ask(b"touch k 0\r\n").expect("an answer"), "TOUCHED");
    for _ in 0..100 {
        assert_eq!(asked.ask(b"set k 0 0 1\r\n3\r\n").expect("an answer"), "STORED");
    }
}

#[test]
fn requests_for_a_killed_server_fail_at_once() {
    let mut server = evenkeel();
    let configuration = Configuration::new(&pool(std::slice::from_ref(&server)));
    let router = router(&configuration, &["-r", "60000"]);
    let mut asked = client(&router);
    assert_eq!(asked.ask(b"mg k\r\n").expect("an answer"), "EN");
    signal(&server, Signal::KILL);
    assert!(server.wait().is_err(), "a signal ends it");
    let unavailable = "SERVER_ERROR Server unavailable. Reason: connect_error";
    let told = clock::wait_for(|| {
        let told = asked.ask(b"delete k\r\n").expect("an answer");
        assert!(told.starts_with("SERVER_ERROR "), "{told}");
        told.starts_with("SERVER_ERROR Server unavailable. Reason: ").then_some(told)
    });
    assert_eq!(told.as_deref(), Some(unavailable), "{}", router.said());
}

#[test]
fn a_server_that_stands_still_is_unavailable_until_it_answers_a_probe() {
    let server = evenkeel();
    let configuration = Configuration::new(&pool(std::slice::from_ref(&server)));
    let router = router(&configuration, &["-r", "100", "-t", "200", "--timeouts-until-tko=2"]);
    let mut asked = client(&router);
    assert_eq!(asked.ask(b"ms k 1\r\nx\r\n").expect("an answer"), "HD");
    signal(&server, Signal::STOP);
    let mut told = Vec::new();
    let unavailable = clock::wait_for(|| {
        told.push(asked.ask(b"mg k\r\n").expect("an answer"));
        told.last().filter(|told| told.contains("unavailable")).cloned()
    });
    assert_eq!(unavailable.as_deref(), Some("SERVER_ERROR Server unavailable. Reason: timeout"), "{told:?}");
    assert!(told.iter().filter(|told| *told == "SERVER_ERROR Reply timeout").count() >= 2, "{told:?}");
    signal(&server, Signal::CONT);
    let back = clock::wait_for(|| (asked.ask(b"mg k\r\n").expect("an answer") == "HD").then_some(()));
    back.expect("a probe was answered");
}

#[test]
fn a_delete_for_a_cluster_of_all_regions_is_done_in_all_of_them() {
    let servers = [evenkeel(), evenkeel(), evenkeel()];
    let [own, other, third] = servers.each_ref().map(|server| list([server]));
    let configuration = Configuration::new(&format!(
        r#"{{"pools": {{"E": {{"servers": {own}}}, "C": {{"servers": {other}}}, "T": {{"servers": {third}}}}},
            "routes": [{{"aliases": ["/eqiad/mw/", "/eqiad/mw-wan/"], "route": "PoolRoute|E"}},
                       {{"aliases": ["/codfw/mw-wan/"], "route": "PoolRoute|C"}},
                       {{"aliases": ["/codfw/other/"], "route": "PoolRoute|T"}}]}}"#
    ));
    const ERROR: &str = "SERVER_ERROR RootRoute: No rh found";
    let own = &["-R", "/eqiad/mw"][..];
    let with_default = &["-R", "/eqiad/mw", "--send-invalid-route-to-default"][..];
    for (flags, prefix, expected, reached) in [
        (own, "/*/mw-wan/", "DELETED", [true, true, false]),
        (with_default, "/*/mw-wan/", "DELETED", [true, true, false]),
        (own, "/*d*/*w-w*n/", "DELETED", [true, true, false]),
        (with_default, "/cod*/*/", "DELETED", [false, true, true]),
        (own, "/*/none/", ERROR, [false; 3]),
        (with_default, "/*/none/", "DELETED", [true, false, false]),
    ] {
        let router = router(&configuration, flags);
        for server in &servers {
            assert_eq!(client(server).ask(b"set k 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
        }
        let reply = client(&router).ask(format!("delete {prefix}k\r\n").as_bytes()).expect("an answer");
        assert_eq!(reply, expected, "{prefix}");
        for (server, is_reached) in servers.iter().zip(reached) {
            let is_gone = || client(server).ask(b"get k\r\n").expect("an answer") == "END";
            match is_reached {
                // The others are not waited for.
                true => assert!(clock::wait_for(|| is_gone().then_some(())).is_some(), "{prefix}"),
                false => assert!(!is_gone(), "{prefix}"),
            }
        }
    }
}

#[test]
fn a_new_configuration_is_used_while_clients_send() {
    let (old, new) = (evenkeel(), evenkeel());
    for (server, value) in [(&old, "old"), (&new, "new")] {
        let set = format!("ms k 3\r\n{value}\r\n");
        assert_eq!(client(server).ask(set.as_bytes()).expect("an answer"), "HD");
    }
    let configuration = Configuration::new(&pool(std::slice::from_ref(&old)));
    let router = router(&configuration, &["--num-proxies=2", "--reconfiguration-delay-ms=0"]);
    let mut asked = client(&router);
    let mut value = || {
        assert_eq!(asked.ask(b"mg k v\r\n").expect("an answer"), "VA 3");
        asked.line().expect("a value")
    };
    assert_eq!(value(), "old");

    configuration.write("{\n\"pools\": {},\n\"route\": \"PoolRoute|A\"\n}");
    says(&router, "the configuration stays as it was: ");
    assert!(router.said().contains(&format!("{}:3: ", configuration.path())), "{}", router.said());
    assert_eq!(value(), "old");

    configuration.write(&pool(std::slice::from_ref(&new)));
    let changed = clock::wait_for(|| match &*value() {
        "old" => None,
        other => Some(other.to_owned()),
    });
    assert_eq!(changed.as_deref(), Some("new"), "{}", router.said());
    says(&router, "a new configuration is in force: 1 server");
    drop(old);
    (0..100).for_each(|_| assert_eq!(value(), "new"));
}

#[test]
fn an_imported_file_is_watched_and_sighup_reads_at_once() {
    let (old, new) = (evenkeel(), evenkeel());
    assert_eq!(client(&new).ask(b"ms k 1\r\nx\r\n").expect("an answer"), "HD");
    let imported = Configuration::new(&list([&old]));
    let name = imported.0.file_name().and_then(|name| name.to_str()).expect("a name");
    let configuration = Configuration::new(&format!(
        r#"{{"pools": {{"A": {{"servers": "@import({name})"}}}}, "route": "PoolRoute|A"}}"#
    ));
    let router = router(&configuration, &["--disable-reload-configs"]);
    imported.write(&list([&new]));
    signal(&router, Signal::HUP);
    says(&router, "a new configuration is in force");
    let mut asked = client(&router);
    assert_eq!(asked.ask(b"mg k\r\n").expect("an answer"), "HD");
}

/// Runs the router to its end: status, output, lines for the operator.
fn run(flags: &[&str]) -> (Option<i32>, String, String) {
    let output = subject::router().args(flags).output().expect("run a router");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn validate_config_prints_connections_or_the_place_of_the_error() {
    let good = Configuration::new(
        r#"{"pools": {"A": {"servers": ["127.0.0.1:1", "127.0.0.1:2"]}}, "route": "PoolRoute|A"}"#,
    );
    let (status, printed, said) = run(&["--validate-config", "--num-proxies=4", &good.flag()]);
    let expected =
        "the configuration is valid\n2 servers, 4 threads: at most 4 connections to each server, 8 in all\n";
    assert_eq!((status, &*printed, &*said), (Some(0), expected, ""));

    let bad = Configuration::new("{\n  \"pools\": {},\n  \"route\": \"PoolRoute|B\"\n}\n");
    let (status, printed, said) = run(&["--validate-config", &bad.flag()]);
    assert_eq!((status, &*printed), (Some(3), ""));
    assert!(said.starts_with(&format!("evenkeel: route: {}:3: ", bad.path())), "{said}");

    let tls = Configuration::new(
        r#"{"pools": {"A": {"servers": ["127.0.0.1:1"], "security_mech": "tls"}}, "route": "PoolRoute|A"}"#,
    );
    let (status, _, said) = run(&["--validate-config", &tls.flag()]);
    assert_eq!(status, Some(3));
    assert!(said.contains("expected plain, ssl, tls_to_plain, fizz, ktls12, found `tls`"), "{said}");

    let (status, _, said) = run(&["--validate-config", "-f", "/nowhere/route.json"]);
    assert_eq!(status, Some(2), "a missing file may be there later");
    assert!(said.starts_with("evenkeel: route: read /nowhere/route.json: "), "{said}");
}

#[test]
fn validate_config_names_unknown_fields_and_servers_without_an_address() {
    let doubtful = Configuration::new(
        "{\"pools\": {\"A\": {\"servers\": [\"127.0.0.1:1\", \"nowhere.invalid:1\"]}},\n\
         \"route\": {\"type\": \"WarmUpRoute\", \"cold\": \"PoolRoute|A\", \"warm\": \"NullRoute\", \"exptme\": 5}}",
    );
    let (status, printed, said) = run(&["--validate-config", &doubtful.flag()]);
    assert_eq!(status, Some(0), "{said}");
    assert!(printed.starts_with("the configuration is valid\n2 servers, "), "{printed}");
    let unknown = "line 2: `exptme` is not known in WarmUpRoute, `exptime` is: it has no effect";
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert_eq!(lines[0], format!("evenkeel: route: {unknown}"), "a person reads it: no time, no level");
    assert!(lines[1].starts_with("evenkeel: route: server nowhere.invalid has no address now: "), "{said}");
}

#[test]
fn the_process_id_is_in_its_file_while_the_router_runs() {
    let configuration = Configuration::new(r#"{"route": "NullRoute"}"#);
    let file = configuration.0.with_extension("pid");
    let mut router = router(&configuration, &["-P", file.to_str().expect("a path of text")]);
    client(&router);
    assert_eq!(std::fs::read_to_string(&file).expect("a pid file"), format!("{}\n", router.pid()));
    signal(&router, Signal::TERM);
    assert_eq!(router.wait().expect("a status"), 0);
    assert!(!file.exists());
}

#[test]
fn the_examples_of_the_guide_are_valid() {
    let guide = checkout::workspace().join("docs/route/guide.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let examples: Vec<&str> =
        guide.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(examples.len() >= 2, "{examples:?}");
    for example in examples {
        let (status, printed, said) = run(&["--validate-config", "--config", example]);
        assert_eq!((status, &*said), (Some(0), ""), "{example}");
        assert!(printed.contains("3 servers"), "{example}: {printed}");
    }
}

#[test]
fn unknown_options_are_lines_and_wrong_ones_end_with_3() {
    let empty = Configuration::new(r#"{"route": "NullRoute"}"#);
    let (status, _, said) =
        run(&["--validate-config", "--frobnicate", "--proxy-cpu-interval-s=1", &empty.flag()]);
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.starts_with("evenkeel: route: unknown option `--frobnicate`: ignored, as mcrouter does"),
        "{said}"
    );
    assert!(said.contains("--proxy-cpu-interval-s has no effect here: there is no such statistic"), "{said}");
    let (status, _, said) = run(&[&empty.flag(), "-p", "x"]);
    assert_eq!(
        (status, said.lines().next()),
        (Some(3), Some("evenkeel: route: -p: expected ports from 0 to 65535, found `x`"))
    );
}

#[test]
fn a_signal_ends_the_router() {
    let configuration = Configuration::new(r#"{"route": "NullRoute"}"#);
    let mut router = router(&configuration, &[]);
    assert_eq!(client(&router).ask(b"delete k\r\n").expect("an answer"), "NOT_FOUND");
    signal(&router, Signal::TERM);
    assert_eq!(router.wait().expect("a status"), 0);
}

#[test]
fn a_shadow_gets_copies_as_a_variable_says_and_its_replies_are_compared() {
    let (normal, shadow) = (evenkeel(), evenkeel());
    let variables = Configuration::new(r#"{"key_fraction_range_new": [0, 0]}"#);
    let report = Configuration::new("");
    let configuration = Configuration::new(&format!(
        r#"{{"pools": {{"A": {{"servers": {}}}, "B": {{"servers": {}}}}}, "route": {{"type": "PoolRoute", "pool": "A",
            "shadows": [{{"target": "PoolRoute|B", "index_range": [0, 1], "key_fraction_range_rv": "key_fraction_range_new",
                "compare_fraction": 1}}, {{"target": "PoolRoute|C"}}]}}}}"#,
        list([&normal]),
        list([&shadow])
    ));
    let flags = ["--runtime-vars-file", variables.path(), "--shadow-report", report.path()];
    let router = router(&configuration, &flags);
    says(&router, "a shadow is left out: line 3: expected the name of a pool");
    let mut stream = router.connect().expect("a connection");
    exchange(&mut stream, b"set a 0 0 1\r\nx\r\n", b"STORED\r\n");
    let mut direct = client(&shadow);
    let mut has =
        |key: &str| direct.ask(format!("touch {key} 0\r\n").as_bytes()).expect("an answer") == "TOUCHED";
    assert!(!has("a"), "the range is empty");

    variables.write(r#"{"key_fraction_range_new": [0, 1]}"#);
    let copied = clock::wait_for(|| {
        exchange(&mut stream, b"set b 0 0 1\r\nx\r\n", b"STORED\r\n");
        has("b").then_some(())
    });
    assert!(copied.is_some(), "the new range is used: {}", router.said());
    variables.write("{");
    says(&router, "runtime variables stay as they were");

    // A shadow that stands still keeps nobody waiting.
    signal(&shadow, Signal::STOP);
    for _ in 0..100 {
        exchange(&mut stream, b"get b a\r\n", b"VALUE b 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    }
    signal(&shadow, Signal::CONT);
    let compared = clock::wait_for(|| {
        let text = std::fs::read_to_string(report.path()).unwrap_or_default();
        text.contains(r#"{"normal":"stored","shadow":"stored","#).then_some(())
    });
    assert!(compared.is_some(), "the report has the copies that were compared");
}

/// A pool of one server by this name, and one of another server for deletes.
fn named(host: &str, port: u16, other: &Server) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["{host}:{port}"]}}, "B": {{"servers": ["{}"]}}}},
            "route": {{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A",
                "operation_policies": {{"delete": "PoolRoute|B"}}}}}}"#,
        other.address()
    )
}

#[test]
fn servers_have_names() {
    // Where `localhost` is `::1`, too, nobody listens there.
    let (server, other) = (evenkeel(), evenkeel());
    let configuration = Configuration::new(&named("localhost", server.address().port(), &other));
    let router = router(&configuration, &["--num-proxies=2", "--dns-refresh-interval=1"]);
    for _ in 0..4 {
        assert_eq!(client(&router).ask(b"set k 0 0 1\r\nx\r\n").expect("an answer"), "STORED");
    }
    assert!(!router.said().contains("unavailable"), "{}", router.said());
}

#[test]
fn a_name_that_nobody_knows_is_an_unavailable_server() {
    let other = evenkeel();
    // Reserved: no such name will ever be (RFC 6761).
    let configuration = Configuration::new(&named("nowhere.invalid", 11211, &other));
    let router = router(&configuration, &["-t", "5000"]);
    says(&router, "cannot resolve nowhere.invalid: ");
    let mut client = client(&router);
    let answer = client.ask(b"get k\r\n").expect("an answer");
    assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
    assert_eq!(client.ask(b"delete k\r\n").expect("an answer"), "NOT_FOUND");
    says(&router, "server nowhere.invalid:11211 is unavailable (connect_");
    assert_eq!(router.said().matches("cannot resolve").count(), 1, "{}", router.said());
}
