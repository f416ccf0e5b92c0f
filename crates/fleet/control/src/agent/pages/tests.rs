//! Pages that answer, lie, hang and come back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use fleet::figures::{PoolTally, RouterPageTally, ServerPageTally};

use super::*;

/// A server's page after so many seconds, with 100 gets in each.
fn server_page(seconds: u64) -> String {
    let gets = 100 * seconds;
    serde_json::json!({
        "version": "9", "uptime_us": seconds * 1_000_000, "stats": {"cmd_get": gets, "pid": 4711},
        "threads": {"worker-0": {"run_ns": 5, "wait_ns": seconds * 250_000_000}, "worker-1": {"run_ns": 5, "wait_ns": 0},
            "admin": {"run_ns": 7, "wait_ns": 99_000_000_000_u64}},
        "service": {"get": {"count": gets, "buckets": [[8, gets - seconds], [64, seconds]]}, "set": {"buckets": []}},
        "wait": {"count": gets, "buckets": [[16, gets]]}, "hot": null,
    })
    .to_string()
}

#[test]
fn a_servers_page_has_percentiles_since_the_one_before() {
    let [first, second] = [10, 15].map(|s| ServerPage::parse(server_page(s).as_bytes()).expect("a page"));
    let tally = second.tally(Some(&first), 7);
    let expected = ServerPageTally {
        pid: Some(4711),
        at_ms: 7,
        uptime_ms: 15_000,
        ready_ms: Some(3750),
        workers: Some(2),
        wait_p99_us: Some(16),
        service_p99_us: Some(8),
    };
    assert_eq!(tally, expected);
    assert_eq!(first.tally(None, 1).service_p99_us, None, "nothing is known of now");
}

#[test]
fn a_routers_page_has_its_pools() {
    let page = serde_json::json!({"uptime_us": 5_000_000, "cmd_get_count": 1, "route": {
        "timeouts": 3, "get_hits": 5, "cpu_us": 7000, "latency": {"buckets": [[64, 5]]},
        "pools": {"web": {"requests": 10, "errors": 4, "timeouts": 3}, "\u{1b}[0m": {"requests": 1, "errors": 0, "timeouts": 0}},
        "shadows": {"compared": 2, "differed": 1},
    }});
    let page = RouterPage::parse(page.to_string().as_bytes()).expect("a page");
    let expected = RouterPageTally {
        at_ms: 1,
        uptime_ms: 5000,
        timeouts: Some(3),
        hits: Some(5),
        cpu_ms: Some(7),
        shadows: Some((2, 1)),
        pools: [("web".to_owned(), PoolTally { requests: 10, errors: 4, timeouts: 3 })].into(),
        ..RouterPageTally::default()
    };
    assert_eq!(page.tally(None, 1), expected);
    // A router of an older version says less.
    let older = RouterPage::parse(br#"{"uptime_us": 1, "route": {"get_hits": 1}}"#).expect("a page");
    assert_eq!((older.tally(None, 1).timeouts, older.tally(None, 1).shadows), (None, None));
}

#[test]
fn a_routers_page_has_its_shadows() {
    let page = |loads: serde_json::Value| {
        let new = serde_json::json!({"compared": 10, "other_outcomes": 1, "other_values": 2, "other_sizes": 3,
            "normal_hits": 9, "shadow_hits": 8, "normal_us": [[104, 6], [112, 3], [1024, 1]], "shadow_us": [[208, 10]]});
        let page = serde_json::json!({"uptime_us": 5, "route": {"shadows":
            {"compared": 10, "differed": 6, "loads": loads, "by_name": {"web->new": new}}}});
        RouterPage::parse(page.to_string().as_bytes()).expect("a page").tally(None, 1).compared
    };
    let found = &page(serde_json::json!(4))["web->new"];
    assert_eq!((found.loads, found.compared, found.other_outcomes), (4, 10, 1));
    assert_eq!((found.other_values, found.other_sizes, found.hits), (2, 3, [9, 8]));
    let bucket = fleet::figures::shadow::time_bucket;
    assert_eq!(found.times, [(bucket(100), 9, 0), (bucket(200), 0, 10), (bucket(1000), 1, 0)]);
    assert!(page(serde_json::Value::Null).is_empty(), "a router that does not say when its counts began");
}

#[test]
fn what_is_no_page_is_refused() {
    let nested = "[".repeat(100_000);
    for other in
        ["", "{}", "[]", "nonsense", &nested, "{\"uptime_us\": -1}", "{\"uptime_us\": 1e300, \"route\": {}}"]
    {
        assert!(ServerPage::parse(other.as_bytes()).is_err());
        assert!(RouterPage::parse(other.as_bytes()).is_err());
    }
    assert!(RouterPage::parse(server_page(1).as_bytes()).is_err(), "it is a server's");
}

#[test]
fn a_place_is_a_host_and_a_port() {
    for good in ["127.0.0.1:9150", "cache-1.example:9150", "[::1]:9150"] {
        assert!(good.parse::<MetricsPlace>().is_ok(), "{good}");
    }
    for wrong in ["", "9150", "host", ":1", "host:0", "host:70000", "::1:9150", "[host]:1", "a/b:1", "u@h:1"]
    {
        assert_eq!(wrong.parse::<MetricsPlace>(), Err(format!("expected HOST:PORT, found {wrong:?}")));
    }
}

/// A host with one page, which answers what it is told to.
struct Stage {
    page: PageTally<ServerPageTally>,
    figures: Arc<AgentFigures>,
    said: std::sync::mpsc::Receiver<String>,
    answer: Arc<Mutex<Answer>>,
}

#[derive(Clone)]
enum Answer {
    Page(Vec<u8>),
    /// It takes the request, and says nothing.
    Hang,
}

fn reply(mut stream: TcpStream, answer: &Answer) -> Option<TcpStream> {
    let _ = stream.read(&mut [0; 4096]);
    match answer {
        Answer::Page(page) => {
            let _ = stream.write_all(page);
            None
        }
        Answer::Hang => Some(stream),
    }
}

fn http(body: &str) -> Answer {
    let len = body.len();
    Answer::Page(
        format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n{body}").into_bytes(),
    )
}

fn begin(answer: Answer) -> Stage {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let place = listener.local_addr().expect("bound").to_string().parse().expect("a place");
    let answer = Arc::new(Mutex::new(answer));
    let given = Arc::clone(&answer);
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming().flatten() {
            let answer = given.lock().expect("no panic").clone();
            held.extend(reply(stream, &answer));
        }
    });
    let (sender, said) = std::sync::mpsc::channel();
    let say: SayLine = Arc::new(move |_, line: &str| drop(sender.send(line.to_owned())));
    let figures = Arc::new(AgentFigures::new());
    let (tls, _) = tls::ClientTls::load(tls::ClientSettings::default()).expect("settings");
    let mut pages = Pages::new(tls.current(), Stopwatch::start(), Arc::clone(&figures), say);
    let page = pages.watch::<ServerPage>("m1", &place);
    pages.start().expect("a thread");
    Stage { page, figures, said, answer }
}

impl Stage {
    /// Waits until it is so, for a minute at most.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Stage) -> bool) {
        let begun = Stopwatch::start();
        while !is_so(self) {
            assert!(begun.passed() < Duration::from_secs(60), "{what}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }

    /// The next line for people.
    fn line(&self) -> String {
        self.said.recv_timeout(Duration::from_secs(60)).expect("a line")
    }
}

#[test]
fn a_page_that_hangs_is_said_once_and_read_again_when_it_answers() {
    let stage = begin(Answer::Hang);
    let line = stage.line();
    assert!(
        line.starts_with("m1: no figures from http://127.0.0.1:")
            && line.ends_with("no whole page within 2 s"),
        "{line}"
    );
    assert_eq!(stage.page.last(), None);
    *stage.answer.lock().expect("no panic") = http(&server_page(10));
    stage.wait("it answers", |stage| stage.page.last().is_some());
    assert_eq!(stage.line(), "m1: its page answers again");
    assert_eq!(stage.figures.pages().0, 1);
}

#[test]
fn a_page_that_lies_has_no_figures() {
    let endless = {
        let mut page = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec();
        page.resize(PAGE_LEN_MAX + 100, b' ');
        Answer::Page(page)
    };
    let status = Answer::Page(b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n".to_vec());
    let lies = [
        (http("no JSON"), "expected the page of a server: expected"),
        (http("{\"uptime_us\": 1, \"threads\": 7}"), "expected the page of a server: invalid type"),
        (status, "expected status 200, found 503"),
        (Answer::Page(b"ERROR\r\n".to_vec()), "send a request"),
        (endless, "expected 4194304 bytes at most, found more"),
    ];
    for (answer, expected) in lies {
        let stage = begin(answer);
        let line = stage.line();
        // On a busy machine the time of a long page may be over first.
        assert!(line.contains(expected) || line.contains("no whole page"), "{expected}: {line}");
        assert_eq!(stage.page.last(), None);
        assert!(stage.figures.pages().1 >= 1);
    }
}
