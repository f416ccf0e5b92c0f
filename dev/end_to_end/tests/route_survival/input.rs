//! Input that is wrong: of clients, and in configurations.

use super::*;
use std::process::Output;

/// What is sent, and what comes back before the connection ends with the client's.
#[track_caller]
fn check(router: &Server, sent: &str, expected: &str) {
    let mut stream = router.connect().expect("a connection");
    // The router may close in the middle of it.
    let _ = stream.write_all(sent.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    let shown = sent.get(..60).unwrap_or(sent).escape_default();
    assert_eq!(received.escape_ascii().to_string(), expected.escape_default().to_string(), "{shown}");
}

#[test]
fn keys_of_all_lengths_with_prefixes_and_bodies_that_lie_are_answered() {
    let servers = [evenkeel(), evenkeel()];
    let configuration = format!(
        r#"{{"pools": {{"A": {{"servers": {}}}}},
            "routes": [{{"aliases": ["/a/a/"], "route": "PoolRoute|A"}}, {{"aliases": ["/b/b/"], "route": "PoolRoute|A"}}]}}"#,
        list(&servers)
    );
    let router = router(&configuration, &["--route-prefix=/a/a/"]);
    let bystander = Bystander::start(&router).expect("a bystander");
    let key = |len: usize| "k".repeat(len);
    let (longest, prefixed) = (key(250), format!("/b/b/{}", key(245)));
    let bad = "CLIENT_ERROR bad command line format\r\n";
    check(&router, &format!("set {longest} 0 0 1\r\nx\r\n"), "STORED\r\n");
    check(&router, &format!("get {longest}\r\n"), &format!("VALUE {longest} 0 1\r\nx\r\nEND\r\n"));
    check(&router, &format!("set {prefixed} 0 0 1\r\ny\r\n"), "STORED\r\n");
    check(&router, &format!("get {prefixed}\r\n"), &format!("VALUE {prefixed} 0 1\r\ny\r\nEND\r\n"));
    check(&router, &format!("mg {longest} v k\r\n"), &format!("VA 1 k{longest}\r\nx\r\n"));
    check(&router, &format!("get {}\r\nmn\r\n", key(251)), &format!("{bad}MN\r\n"));
    check(&router, &format!("get /b/b/{}\r\nmn\r\n", key(246)), &format!("{bad}MN\r\n"));
    check(&router, &format!("get a {}\r\nmn\r\n", key(251)), &format!("{bad}MN\r\n"));
    check(&router, &format!("delete {}\r\nmn\r\n", key(251)), &format!("{bad}MN\r\n"));
    check(&router, &format!("mg {} v\r\nmn\r\n", key(251)), &format!("{bad}MN\r\n"));
    check(&router, &format!("set {} 0 0 5\r\nhello\r\nmn\r\n", key(251)), &format!("{bad}MN\r\n"));
    check(&router, "get \r\nget\r\nmn\r\n", &format!("{bad}{bad}MN\r\n"));
    check(
        &router,
        "get /a/a/\r\nget /b/b/\r\nmn\r\n",
        "CLIENT_ERROR bad key\r\nCLIENT_ERROR bad key\r\nMN\r\n",
    );
    check(&router, "set /b/b/ 0 0 9\r\nflush_all\r\nmn\r\n", "CLIENT_ERROR bad key\r\nMN\r\n");
    check(&router, "get /c/c/k\r\nmn\r\n", "SERVER_ERROR RootRoute: No rh found\r\nMN\r\n");
    // Bodies that are longer or shorter than they say.
    check(&router, "set k 0 0 1\r\nlong\r\nget k\r\n", "CLIENT_ERROR bad data chunk\r\n");
    check(&router, "set k 0 0 9\r\nshort\r\n", "");
    check(&router, "set k 0 0 -1\r\nmn\r\n", &format!("{bad}MN\r\n"));
    check(&router, "set k 0 0 99999999999999999999\r\nmn\r\n", &format!("{bad}MN\r\n"));
    check(&router, "set k 0 0 200000000\r\nxx\r\n", "SERVER_ERROR object too large for cache\r\n");
    check(&router, "ms k 5\r\nhi\r\n", "");
    check(&router, "ms k S5\r\nmn\r\n", &format!("{bad}MN\r\n"));
    // Lines without an end.
    for start in ["", "get ", "set k 0 0 ", "mg k ", "ms k 1 ", "delete "] {
        let endless = start.to_owned() + &"x".repeat(4 << 20) + "\r\n";
        let mut stream = router.connect().expect("a connection");
        // The router closes it in the middle, or answers with an error at its end.
        let _ = stream.write_all(endless.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut received = Vec::new();
        if let Err(error) = stream.read_to_end(&mut received) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{start}: {error}");
        }
        assert!(received.len() < 100, "{start}: {}", received.escape_ascii());
    }
    bystander.stop().expect("correct answers");
    assert!(router.resident().expect("memory") < 64 << 20, "{:?}", router.resident());
}

fn validate(configuration: &str) -> Output {
    let mut command = subject::router();
    command.args(["--validate-config", "--config", configuration]).output().expect("run a router")
}

/// A configuration in a file is refused with this.
#[track_caller]
fn refuses(folder: &Folder, text: &str, expected: &str) {
    let path = folder.write("route.json", text);
    let output = validate(&format!("file:{}", path.display()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(expected), "expected {expected:?} in {said}");
    assert!(matches!(output.status.code(), Some(2 | 3)), "{output:?}");
}

#[test]
fn configurations_that_are_endless_or_enormous_are_refused_with_a_reason() {
    let folder = Folder::new();
    let route = r#""route": "PoolRoute|A""#;
    refuses(&folder, &format!("{{{}", " ".repeat(100 << 20)), "expected at most 67108864 bytes");
    refuses(&folder, &format!("{{{}", " ".repeat(50 << 20)), "expected at most 16777216 bytes");
    refuses(&folder, &"[".repeat(1 << 20), "expected at most 101 values in each other");
    let many = format!(r#"{{"x": [{}0], {route}}}"#, "0,".repeat(5 << 20));
    refuses(&folder, &many, "expected at most 2097152 values, found more");
    let macros = |name: &str, result: &str| {
        format!(r#""{name}": {{"type": "macroDef", "params": ["a"], "result": {result}}}"#)
    };
    let itself = "does a macro call itself?";
    for (macros, call, expected) in [
        (macros("m", r#""@m(%a%)""#), "@m(x)", itself),
        (macros("m", r#"["@m(%a%)", "@m(%a%)"]"#), "@m(x)", itself),
        (macros("m", r#""@n(%a%)""#) + ", " + &macros("n", r#""@m(%a%)""#), "@m(x)", itself),
        (r#""c": {"type": "constDef", "result": "%c%"}"#.to_owned(), "%c%", "constant `c` refers to itself"),
    ] {
        let text = format!(r#"{{"macros": {{{macros}}}, "route": "{call}"}}"#);
        refuses(&folder, &text, expected);
    }
    folder.write("other.json", r#""@import(route.json)""#);
    refuses(&folder, r#"{"route": "@import(other.json)"}"#, "import `other.json` imports itself");
    folder.write("self.json", r#"{"a": "@import(self.json)"}"#);
    refuses(&folder, r#"{"route": "@import(self.json)"}"#, "import `self.json` imports itself");
}

/// A router needs two descriptors for each server in each thread, and 20,000 are what many systems allow at most.
const SERVERS: usize = 9_800;

/// mcrouter's words.
const EMPTY: &str = "SERVER_ERROR HashRoute with empty children, name: A\r\n";

#[test]
fn pools_without_servers_and_of_nearly_ten_thousand() {
    let server = evenkeel();
    let empty = format!(
        r#"{{"pools": {{"A": {{"servers": []}}, "B": {{"servers": {}}}}},
            "route": {{"type": "PrefixSelectorRoute", "policies": {{"none": "PoolRoute|A"}}, "wildcard": "PoolRoute|B"}}}}"#,
        list([&server])
    );
    let few = router(&empty, &[]);
    check(
        &few,
        "get none\r\nset none 0 0 1\r\nx\r\nset k 0 0 1\r\nx\r\n",
        &format!("{EMPTY}{EMPTY}STORED\r\n"),
    );
    // Addresses of this host where nobody listens.
    let addresses = (0..SERVERS).map(|number| format!("\"127.8.{}.{}:1\"", number / 250, number % 250 + 1));
    let addresses = addresses.collect::<Vec<_>>().join(", ");
    let large = empty.replace(r#""servers": []"#, &format!(r#""servers": [{addresses}]"#));
    let folder = Folder::new();
    let path = folder.write("route.json", &large);
    let many = router(&format!("file:{}", path.display()), &[]);
    says(&many, &format!("{} servers, 1 thread", SERVERS + 1));
    let bystander = Bystander::start(&many).expect("a bystander");
    let mut all = many.connect().expect("a connection");
    let gets: String = (0..20_000).map(|number| format!("get none{number}\r\n")).collect();
    let mut writer = all.try_clone().expect("share");
    let writing = std::thread::spawn(move || writer.write_all(gets.as_bytes()).expect("send"));
    let mut client = Client::new(all.try_clone().expect("share"));
    for _ in 0..20_000 {
        let answer = client.line().expect("an answer");
        assert!(answer.starts_with("SERVER_ERROR "), "{answer}");
    }
    writing.join().expect("all sent");
    all.write_all(b"mn\r\n").expect("send");
    assert_eq!(client.line().expect("an answer"), "MN");
    let experience = bystander.stop().expect("correct answers");
    let resident_mb = many.resident().expect("memory") >> 20;
    println!(
        "{resident_mb} MB resident with {SERVERS} servers; others waited at most {:?}",
        experience.longest
    );
    assert!(resident_mb < 200, "{resident_mb} MB");
}
