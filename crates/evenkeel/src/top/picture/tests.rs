//! Pictures of reports, word for word.

use super::*;
use crate::top::figures::ServerFigures;
use crate::top::reading::ServerReading;

/// The report of a server after so many seconds and gets.
pub(in crate::top) fn report(seconds: u64, gets: u64) -> ServerReading {
    let text = serde_json::json!({
        "version": "0.1.0",
        "uptime_us": seconds * 1_000_000,
        "stats": {
            "cmd_get": gets, "get_hits": gets * 3 / 4, "get_misses": gets / 4, "curr_connections": 12,
            "max_connections": 1024, "total_connections": 40 + seconds, "rejected_connections": 0,
            "curr_items": 1_234_567, "evictions": gets / 10, "bytes_read": gets * 50, "bytes_written": gets * 1000,
        },
        "memory": { "charged_bytes": 60 << 20, "limit_bytes": 64 << 20 },
        "ghost_hits": gets / 100,
        "service": {
            "get": { "buckets": [[8, 100], [16, gets * 9 / 10], [256, gets / 20]] },
            "set": { "buckets": [[32, 5]] },
        },
        "wait": { "count": gets / 256, "buckets": [[4, gets / 512], [1024, gets / 512]] },
        "threads": {
            "worker-0": { "run_ns": seconds * 250_000_000, "wait_ns": seconds * 10_000_000 },
            "worker-1": { "run_ns": seconds * 500_000_000, "wait_ns": 0 },
            "worker-10": { "run_ns": seconds * 1_000_000_000, "wait_ns": 0 },
            "admin": { "run_ns": 5, "wait_ns": 0 },
        },
        "hot": {
            "requests": [{ "key": "user:4711", "share": 0.0742 }, { "key": "x".repeat(250), "share": 0.002 }],
            "bytes": [{ "key": "page%0A", "share": 0.5 }],
            "misses": [],
        },
    });
    ServerReading::parse(&text.to_string()).expect("a report")
}

fn state(name: &str) -> ServerState {
    let figures =
        ServerFigures::between(&report(100, 10_000), &report(102, 2_010_000)).expect("time has passed");
    ServerState { name: name.into(), seen: Seen::Figures(Box::new(figures)), is_router: false }
}

fn unreachable(name: &str, why: &str) -> ServerState {
    ServerState { name: name.into(), seen: Seen::Unreachable(why.into()), is_router: false }
}

#[test]
fn one_server_is_shown_in_full() {
    let expected = "\
evenkeel top: 127.0.0.1:9150, 0.1.0, up 1 min (q ends)

              per second      p50 <    p99 <    max < µs
get              950,000         16      256      256
waited                            4     1024     1024

hits        75.00 % of gets, 250,000 misses/s
memory      60 of 64 MiB, 1,234,567 items
evictions   100,000/s; 10,000/s were stored again soon (ghost hits)
clients     12 of 1,024 connections, 1 new/s, 0 refused/s
network     50.0 MB/s received, 1000.0 MB/s sent
workers     busy 25 50 100 %, without a CPU 1 0 0 %

hot by requests           hot by bytes              hot by misses
 7.42 %  user:4711        50.00 %  page%0A
 0.20 %  xxxxxxxxxxxxxx…
";
    assert_eq!(picture(&[state("127.0.0.1:9150")], 80, 40), expected);
}

#[test]
fn several_servers_have_a_line_each_and_an_unreachable_one_says_why() {
    let servers =
        [state("cache-1:9150"), unreachable("cache-2:9150", "connection refused"), state("[::1]:9150")];
    let expected = "\
evenkeel top: 3 servers, 1 unreachable (q ends)

server            gets/s     sets/s     hits p99 < µs  clients  memory   evict/s busiest
cache-1:9150     950,000          0  75.00 %      256       12    94 %   100,000   100 %
cache-2:9150 unreachable: connection refused
[::1]:9150       950,000          0  75.00 %      256       12    94 %   100,000   100 %

hot by requests, of those of its server
 7.42 %  cache-1:9150  user:4711
 7.42 %  [::1]:9150    user:4711
";
    let shown = picture(&servers, 100, 40);
    assert!(shown.starts_with(expected), "{shown}");
}

#[test]
fn what_a_servers_report_lacks_is_no_zero() {
    let bare = |us: u64| ServerReading::parse(&format!("{{\"uptime_us\": {us}}}")).expect("a report");
    let figures = ServerFigures::between(&bare(1), &bare(2)).expect("time has passed");
    let server =
        |name: &str| ServerState { seen: Seen::Figures(Box::new(figures.clone())), ..unreachable(name, "") };
    let expected = "\
evenkeel top: a:1, ?, up 0 s (q ends)

              per second      p50 <    p99 <    max < µs
– requests

hits        – of gets, – misses/s
memory      – of – MiB, – items
evictions   –/s; –/s were stored again soon (ghost hits)
clients     – of – connections, – new/s, – refused/s
network     – MB/s received, – MB/s sent
workers     busy – %, without a CPU – %

the server lists no keys (-X)
";
    assert_eq!(picture(&[server("a:1")], 80, 40), expected);
    let shown = picture(&[server("cache-1:9150"), server("cache-2:9150")], 100, 40);
    let row = "cache-1:9150           –          –        –        –        –       –         –       –\n";
    assert!(shown.contains(row), "{shown}");
    let json = crate::top::json::report(&[server("a:1")]);
    assert!(json.contains("\"items\": null") && json.contains("\"service\": null"), "{json}");
}

fn router(name: &str) -> ServerState {
    use crate::top::router::RouterFigures;
    use crate::top::router::tests::router_report;
    let figures = RouterFigures::between(&router_report(100, 10_000), &router_report(102, 2_010_000));
    let seen = Seen::Router(Box::new(figures.expect("time has passed")));
    ServerState { name: name.into(), seen, is_router: true }
}

#[test]
fn one_router_is_shown_in_full() {
    let expected = "\
evenkeel top: router 127.0.0.1:9442, 0.1.0, up 1 min (q ends)

              per second      p50 <    p99 <    max < µs
get            1,000,000
set              100,000
replies                         128     1024     1024

hits        90.00 % of gets, 100,000 misses/s
hot values  50,000/s of these hits without a server
failures    1,000 errors/s, 10,000 failovers/s, 0 failed failovers/s
servers     1 of 3 unavailable (TKO), 4 connections up, 2 down
clients     12 connections, 1 new/s
network     1000.0 MB/s received, 1050.0 MB/s sent
CPU         35 % of one, 2 threads
config      loaded 6 min ago, 0 later ones refused

hot by requests
 7.42 %  user:4711
";
    assert_eq!(picture(&[router("127.0.0.1:9442")], 100, 40), expected);
}

#[test]
fn routers_and_servers_have_a_section_each() {
    let all = [state("cache-1:9150"), router("[::1]:9442")];
    let expected = "\
evenkeel top: 1 server, 1 router (q ends)

router            reqs/s   errors/s     hits p99 < µs  clients     TKO failovers/s     CPU
[::1]:9442     1,100,000      1,000  90.00 %     1024       12  1 of 3      10,000    35 %

server            gets/s     sets/s     hits p99 < µs  clients  memory   evict/s busiest
cache-1:9150     950,000          0  75.00 %      256       12    94 %   100,000   100 %

hot by requests, of those of its server
 7.42 %  cache-1:9150  user:4711
";
    let shown = picture(&all, 100, 40);
    assert!(shown.starts_with(expected), "{shown}");
}

#[test]
fn times_beyond_the_last_bucket_have_no_end() {
    assert_eq!([128, i64::MAX as u64].map(micros), ["128", "∞"]);
}

#[test]
fn no_picture_is_larger_than_the_terminal() {
    let crowd: Vec<ServerState> = (0..100).map(|number| state(&format!("cache-{number}:9150"))).collect();
    for servers in [&crowd[..], &crowd[..1]] {
        for (columns, rows) in [(80, 24), (20, 5), (1, 1), (200, 200)] {
            let shown = picture(servers, columns, rows);
            assert!(shown.lines().count() < rows.max(2), "{columns} {rows}:\n{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= columns), "{columns} {rows}:\n{shown}");
        }
    }
}

#[test]
fn servers_without_figures_say_so() {
    let shown = |seen| picture(&[ServerState { name: "a:1".into(), seen, is_router: false }], 80, 24);
    assert!(
        shown(Seen::Unreachable("no answer within 2 s".into())).contains("unreachable: no answer within 2 s")
    );
    assert!(shown(Seen::Once).contains("reading"));
}

#[test]
fn numbers_and_times_are_short() {
    assert_eq!([0.0, 999.6, 1234567.0, f64::NAN].map(grouped), ["0", "1,000", "1,234,567", "0"]);
    assert_eq!([59, 61, 7300, 864_000].map(duration), ["59 s", "1 min", "2 h 1 min", "10 days"]);
}
