//! Servers that close and reset connections, answer nonsense, fall silent and come back: a run measures that, and does
//! not end with it.

use crate::support::{CLOSE, Items, Script, answer, arguments, run, server};
use rustix::net::sockopt;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const ENGINES: [&str; 3] = ["--engine auto", "--engine epoll", "--engine auto --kernel-timestamps"];

/// A server that resets the connection on every hundredth get, of all connections together.
fn resetting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (items, gets) = (Items::default(), Arc::new(AtomicU64::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (items, gets) = (Arc::clone(&items), Arc::clone(&gets));
            thread::spawn(move || -> std::io::Result<()> {
                stream.set_nodelay(true)?;
                let mut reader = BufReader::new(&stream);
                let mut line = String::new();
                while reader.read_line(&mut line)? > 0 {
                    if gets.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
                        // Closing then sends a reset.
                        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
                        return Ok(());
                    }
                    let words: Vec<&str> = line.trim_end().split(' ').collect();
                    let reply = answer(&words, &items, &mut reader)?;
                    (&stream).write_all(&reply)?;
                    line.clear();
                }
                Ok(())
            });
        }
    });
    format!("--server {address}")
}

/// What was answered and what failed are all requests.
fn check_sums(summary: &load::Summary, line: &str) {
    let failures = &summary.failures;
    assert_eq!(
        summary.lost,
        failures.timeouts + failures.closed + failures.reset + failures.malformed + failures.lost_datagrams
    );
    let by_second: u64 =
        summary.series.iter().map(|second| second.failures.timeouts + second.failures.closed).sum();
    let known = summary.series.iter().all(|second| second.availability.is_some());
    assert!(!known || by_second == failures.timeouts + failures.closed, "{line}\n{summary}");
    assert!(!summary.is_clean() && summary.failure.is_none(), "{line}\n{summary}");
}

#[test]
fn a_reset_of_every_hundredth_request_is_counted() {
    for engine in ENGINES {
        for more in ["", "--depth 4", "--rate 2000", "--threads 2 --connections 6"] {
            // The prefill meets resets, too.
            let line = format!(
                "{} {engine} --connections 4 --warm-up 100ms --duration 1s --keys 300 --prefill --verify {more}",
                resetting()
            );
            let summary = run(&line).expect(&line);
            check_sums(&summary, &line);
            let failures = summary.failures;
            let ended = failures.reset + failures.closed;
            // At least one of a hundred, and with a pipeline those behind it.
            assert!(ended * 100 >= summary.requests / 2, "{line}\n{summary}");
            assert_eq!(
                (summary.misses, summary.wrong_values, failures.malformed),
                (0, 0, 0),
                "{line}\n{summary}"
            );
            let availability = summary.availability.expect("requests");
            assert!((0.9..0.995).contains(&availability), "{line}\n{summary}");
            let connects = summary.connects.expect("they came back");
            assert!(
                connects.opened > 0 && connects.broken + connects.closed_by_server > 0,
                "{line}\n{summary}"
            );
            assert!(summary.to_string().contains("  available "), "{summary}");
        }
    }
}

#[test]
fn a_malformed_reply_is_counted_and_its_connection_opened_anew() {
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    let script: Script = |_, reply| match REQUESTS.fetch_add(1, Ordering::Relaxed) % 50 {
        49 => b"VALUE what is this\r\n".to_vec(),
        _ => reply,
    };
    for protocol in ["text", "meta"] {
        for engine in ENGINES {
            let line = format!(
                "{} {engine} --protocol {protocol} --connections 3 --requests 1000 --duration 5m --warm-up 0",
                server(usize::MAX, script)
            );
            // A server whose first reply cannot be understood is refused.
            REQUESTS.store(0, Ordering::Relaxed);
            let summary = run(&line).expect(&line);
            check_sums(&summary, &line);
            let malformed = summary.failures.malformed;
            assert!(summary.requests >= 1000 && (10..=40).contains(&malformed), "{line}\n{summary}");
            let shown = summary.error_lines.iter().any(|error| error.line.contains("VALUE what is this"));
            assert!(shown && summary.errors == 0, "{line}\n{summary}");
        }
    }
}

#[test]
fn a_server_that_stops_answering_costs_the_requests_their_timeout() {
    static REQUESTS: AtomicU64 = AtomicU64::new(0);
    // Every fiftieth is never answered.
    let script: Script = |_, reply| match REQUESTS.fetch_add(1, Ordering::Relaxed) % 50 {
        49 => Vec::new(),
        _ => reply,
    };
    for engine in ENGINES {
        for more in ["", "--rate 500"] {
            let line = format!(
                "{} {engine} --connections 3 --duration 1s --warm-up 0 --timeout 50ms {more}",
                server(usize::MAX, script)
            );
            let summary = run(&line).expect(&line);
            check_sums(&summary, &line);
            assert!(summary.failures.timeouts > 0 && summary.requests > 100, "{line}\n{summary}");
            assert_eq!(summary.failures.closed + summary.failures.reset, 0, "{line}\n{summary}");
            assert!(summary.to_string().contains(" timed out"), "{line}\n{summary}");
        }
    }
    let line = format!(
        "{} --timeout 50ms --fail-fast --duration 5m --connections 1",
        server(usize::MAX, |_, _| Vec::new())
    );
    let error = run(&line).map_or_else(|error| error, |summary| summary.failure.expect(&line));
    assert_eq!(error, "get a reply on connection 0 within 50 ms (--timeout)");
}

#[test]
fn requests_that_find_no_connection_in_time_time_out() {
    // Nothing is ever answered: one request of each connection is sent at a time, and the others wait.
    let line = format!(
        "{} --connections 2 --rate 1000 --arrivals constant --duration 2s --warm-up 0 --timeout 100ms",
        server(usize::MAX, |_, _| Vec::new())
    );
    let summary = run(&line).expect(&line);
    let failures = summary.failures;
    assert_eq!(
        summary.requests + failures.timeouts + failures.unanswered + failures.unsent,
        2000,
        "{summary}"
    );
    assert!(failures.timeouts > 1000 && failures.unsent == 0, "{summary}");
    assert_eq!(summary.availability, Some(0.0), "{summary}");
}

/// The requests that servers of kind [`Mortal`] have answered.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// A server that can be taken away with all of its connections, and put back at the same address.
struct Mortal {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    is_away: Arc<AtomicBool>,
}

impl Mortal {
    fn start() -> Mortal {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mortal = Mortal { address, streams: Arc::default(), is_away: Arc::default() };
        mortal.live(listener);
        mortal
    }

    fn live(&self, listener: TcpListener) {
        let (streams, is_away) = (Arc::clone(&self.streams), Arc::clone(&self.is_away));
        is_away.store(false, Ordering::SeqCst);
        thread::spawn(move || {
            let items = Items::default();
            for stream in listener.incoming().map_while(Result::ok) {
                if is_away.load(Ordering::SeqCst) {
                    return;
                }
                streams.lock().expect("no panic").push(stream.try_clone().expect("a descriptor"));
                let items = Arc::clone(&items);
                thread::spawn(move || crate::support::serve(stream, &items, usize::MAX, Mortal::count));
            }
        });
    }

    fn count(_: &str, reply: Vec<u8>) -> Vec<u8> {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
        reply
    }

    /// Closes everything: who connects is refused from now on.
    fn die(&self) {
        self.is_away.store(true, Ordering::SeqCst);
        // The listener ends with this connection.
        drop(TcpStream::connect(self.address));
        let mut streams = self.streams.lock().expect("no panic");
        streams.drain(..).for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    }

    fn rise(&self) {
        for _ in 0..6000 {
            // The old listener may still be there for a moment.
            if let Ok(listener) = TcpListener::bind(self.address) {
                return self.live(listener);
            }
            thread::park_timeout(Duration::from_millis(10));
        }
        panic!("{} is still in use after a minute", self.address);
    }
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_an_outage_in_the_seconds() {
    for (engine, rate) in [("auto", ""), ("epoll", ""), ("auto", "--rate 1000 --timeout 200ms")] {
        let mortal = Mortal::start();
        let line = format!(
            "--server {} --engine {engine} --connections 4 --duration 8s --warm-up 0 --keys 10 {rate}",
            mortal.address
        );
        let summary = thread::scope(|scope| {
            let before = ANSWERED.load(Ordering::Relaxed);
            let running = scope.spawn(|| run(&line).expect(&line));
            // Seconds pass on a busy machine from the first connection to the first request, where the run's time begins.
            while ANSWERED.load(Ordering::Relaxed) < before + 100 {
                thread::park_timeout(Duration::from_millis(10));
            }
            thread::park_timeout(Duration::from_millis(2500));
            mortal.die();
            thread::park_timeout(Duration::from_millis(3000));
            mortal.rise();
            running.join().expect("no panic")
        });
        check_sums(&summary, &line);
        let connects = summary.connects.expect("they came back");
        assert!(connects.refused >= 4 && connects.opened >= 4, "{line}\n{summary}");
        let shares: Vec<f64> = summary.series.iter().filter_map(|second| second.availability).collect();
        assert_eq!(shares.len(), 8, "{line}\n{summary}");
        // A whole second in the middle of the outage, and those before and after it, in which this machine may be slow.
        let is_out = shares[1..7].iter().any(|share| *share < 0.1);
        assert!(is_out && shares[0] > 0.5 && shares[7] > 0.5, "{line}\n{shares:?}\n{summary}");
        assert!(summary.to_string().contains(" of 8 s"), "{summary}");
    }
}

#[test]
fn a_unix_socket_whose_server_closes_is_connected_to_again() {
    static GETS: AtomicU64 = AtomicU64::new(0);
    let script: Script = |_, reply| match GETS.fetch_add(1, Ordering::Relaxed) % 50 {
        49 => CLOSE.to_vec(),
        _ => reply,
    };
    let path = std::env::temp_dir().join(format!("evenkeel-hostile-{}", std::process::id()));
    let listener = UnixListener::bind(&path).expect("a path");
    thread::spawn(move || {
        let items = Items::default();
        for stream in listener.incoming().map_while(Result::ok) {
            let items = Arc::clone(&items);
            thread::spawn(move || crate::support::serve(stream, &items, usize::MAX, script));
        }
    });
    for engine in ["auto", "epoll"] {
        let line = format!(
            "--socket {} --engine {engine} --connections 3 --requests 1000 --duration 5m --warm-up 0",
            path.display()
        );
        let summary = run(&line).expect(&line);
        check_sums(&summary, &line);
        assert!(summary.requests >= 1000 && summary.failures.closed >= 10, "{line}\n{summary}");
    }
    std::fs::remove_file(path).expect("the socket");
}

/// The JSON of a run, whatever has become of it.
fn json(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("a result");
    std::fs::remove_file(path).expect("a result");
    serde_json::from_str(&text).expect(&text)
}

#[test]
fn a_run_that_fails_leaves_what_it_has_measured() {
    static GETS: AtomicU64 = AtomicU64::new(0);
    let script: Script = |_, reply| match GETS.fetch_add(1, Ordering::Relaxed) {
        // Far enough into the window.
        3000 => CLOSE.to_vec(),
        _ => reply,
    };
    let path = std::env::temp_dir().join(format!("evenkeel-partial-{}.json", std::process::id()));
    let line = format!(
        "{} --fail-fast --rate 2000 --warm-up 0 --connections 4 --json {}",
        server(usize::MAX, script),
        path.display()
    );
    let summary = run(&line).expect(&line);
    assert!(!summary.is_clean() && !summary.verdict.valid && summary.requests > 2000, "{summary}");
    assert!(
        summary
            .to_string()
            .contains("INVALID (failed): the run ended before its time: failed to keep connection ")
    );
    let written = json(&path);
    assert_eq!((&written["schema"], &written["requests"]), (&1.into(), &summary.requests.into()));
    assert!(written["failure"].as_str().is_some_and(|why| why.starts_with("keep connection ")), "{written}");
    // Nor is the file of a run that never began empty.
    let line = format!("--server 127.0.0.1:1 --connections 1 --json {}", path.display());
    load::run(&arguments(&line), &mut std::io::sink()).expect_err("nothing listens there");
    let written = json(&path);
    assert_eq!((&written["requests"], &written["verdict"]["valid"]), (&0.into(), &false.into()));
    assert!(
        written["failure"].as_str().is_some_and(|why| why.starts_with("connect to 127.0.0.1:1")),
        "{written}"
    );
}

#[test]
fn a_log_has_every_request_of_the_window_in_its_second() {
    use base64::Engine;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    // It answers nothing for the last 600 ms of the window and half a second longer.
    static BEGUN: Mutex<Option<std::time::Instant>> = Mutex::new(None);
    #[expect(clippy::disallowed_methods, reason = "another program lives in real time")]
    fn stall(_: &str, reply: Vec<u8>) -> Vec<u8> {
        let begun = *BEGUN.lock().expect("no panic").get_or_insert_with(std::time::Instant::now);
        let since = begun.elapsed();
        let stands = Duration::from_millis(1900)..Duration::from_millis(3000);
        if stands.contains(&since) {
            thread::park_timeout(stands.end - since);
        }
        reply
    }
    let path = std::env::temp_dir().join(format!("evenkeel-hdr-{}.log", std::process::id()));
    let line = format!(
        "{} --rate 600 --arrivals constant --duration 2500ms --warm-up 0 --connections 8 --hdr-log {}",
        server(usize::MAX, stall),
        path.display()
    );
    let summary = run(&line).expect(&line);
    let text = std::fs::read_to_string(&path).expect("a log");
    std::fs::remove_file(&path).expect("a log");
    let mut all = Histogram::<u64>::new_with_max(100_000_000_000, 3).expect("constants that fit");
    let mut counts = Vec::new();
    for line in text.lines().skip(4) {
        let encoded = line.rsplit(',').next().expect("a histogram");
        let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).expect("base64");
        let read: Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
        counts.push(read.len());
        all.add(read).expect("one shape");
    }
    // A time in whole nanoseconds may lie just before its second.
    let is_near = |(count, wanted): (&u64, u64)| count.abs_diff(wanted) <= 2;
    assert!(counts.len() == 3 && counts.iter().zip([600, 600, 300]).all(is_near), "{counts:?}");
    assert_eq!(all.len(), summary.requests, "{summary}");
    let p99_us = all.value_at_quantile(0.99) as f64 / 1e3;
    assert!((p99_us / summary.latency.p99_us - 1.0).abs() < 0.01, "{p99_us} {summary}");
    assert!(p99_us > 500_000.0, "{summary}");
    assert!(summary.series.iter().all(|second| second.latency.is_some()), "{summary}");
}
