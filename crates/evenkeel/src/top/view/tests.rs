//! Pictures on terminals of all sizes, and from servers that answer anything.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::page::{RATES_MAX, bar, cut};
use super::*;
use crate::top::figures::ServerFigures;
use crate::top::picture::tests::report;
use crate::top::reading::ServerReading;
use crate::top::watcher::{Seen, ServerState};

fn server(name: &str) -> ServerView {
    let figures =
        ServerFigures::between(&report(100, 10_000), &report(102, 2_010_000)).expect("time has passed");
    let mut server =
        ServerView::new(ServerState { name: name.into(), seen: Seen::Nothing, is_router: false });
    for round in 1..50 {
        let seen = Seen::Figures(Box::new(figures.clone()));
        server.pass(ServerState { name: name.into(), seen, is_router: false }, round);
    }
    server
}

fn absent(name: &str, seen: Seen) -> ServerView {
    ServerView::new(ServerState { name: name.into(), seen, is_router: false })
}

fn router(name: &str) -> ServerView {
    use crate::top::router::RouterFigures;
    use crate::top::router::tests::router_report;
    let figures = RouterFigures::between(&router_report(100, 10_000), &router_report(102, 2_010_000));
    let seen = Seen::Router(Box::new(figures.expect("time has passed")));
    let mut router = absent(name, Seen::Nothing);
    for round in 1..50 {
        router.pass(ServerState { name: name.into(), seen: seen.clone(), is_router: true }, round);
    }
    router
}

const HOST: &str = "        softirq        NET_RX\nCPU   0 ####   80 %   #####     5,000 /s\n";

/// The rows of a terminal of that size, without the spaces at their ends.
fn shown(servers: &[ServerView], columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    terminal.draw(|frame| draw(frame, servers, HOST, Paint::Colours)).expect("a picture");
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..columns).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..rows).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

#[test]
fn one_server_is_shown_in_full() {
    let expected = "\
evenkeel top  127.0.0.1:9150  0.1.0  up 1 min                             q ends

              per second    p50 <    p99 <    max < µs  requests
get              950,000       16      256      256     ████████████████████████
waited                          4     1024     1024     ████████████████████████

hits        ████████████     75.00 % of gets, 250,000 misses/s
memory      ███████████████  60 of 64 MiB, 1,234,567 items
evictions   100,000/s; 10,000/s were stored again soon (ghost hits)
clients     12 of 1,024 connections, 1 new/s, 0 refused/s
network     50.0 MB/s received, 1000.0 MB/s sent
workers     █▌     0: 25 % +1 wait    ███    1: 50 % +0 wait
            ██████ 2: 100 % +0 wait

        softirq        NET_RX
CPU   0 ####   80 %   #####     5,000 /s

hot by requests           hot by bytes              hot by misses
 7.42 %  user:4711        50.00 %  page%0A
 0.20 %  xxxxxxxxxxxxxx…

";
    let shown = shown(&[server("127.0.0.1:9150")], 80, 21);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn several_servers_have_a_line_each_and_an_unreachable_one_says_why() {
    let refused = Seen::Unreachable("connection refused".into());
    let servers = [server("cache-1:9150"), absent("cache-2:9150", refused), server("[::1]:9150")];
    let expected = "\
evenkeel top  3 servers, 1 unreachable                                    q ends

server           gets/s     hits p99 < µs busiest    sets/s memory clients
cache-1:9150    950,000  75.00 %      256   100 %         0   94 %      12
cache-2:9150 unreachable: connection refused
[::1]:9150      950,000  75.00 %      256   100 %         0   94 %      12

        softirq        NET_RX
CPU   0 ####   80 %   #####     5,000 /s

hot by requests, of those of its server
 7.42 %  cache-1:9150  user:4711
 7.42 %  [::1]:9150    user:4711
";
    let shown = shown(&servers, 80, 16);
    assert!(shown.starts_with(expected), "\n{shown}");
}

#[test]
fn one_router_is_shown_in_full() {
    let expected = "\
evenkeel top  router 127.0.0.1:9442  0.1.0  up 1 min                      q ends

              per second    p50 <    p99 <    max < µs  requests
get            1,000,000                                ████████████████████████
set              100,000                                ████████████████████████
replies                       128     1024     1024     ████████████████████████

hits        ██████████████▍  90.00 % of gets, 100,000 misses/s
hot values  50,000/s of these hits without a server
failures    1,000 errors/s, 10,000 failovers/s, 0 failed failovers/s
servers     1 of 3 unavailable (TKO), 4 connections up, 2 down
clients     12 connections, 1 new/s
network     1000.0 MB/s received, 1050.0 MB/s sent
CPU         35 % of one, 2 threads
config      loaded 6 min ago, 0 later ones refused

        softirq        NET_RX
CPU   0 ####   80 %   #####     5,000 /s

hot by requests
 7.42 %  user:4711

";
    let shown = shown(&[router("127.0.0.1:9442")], 80, 22);
    assert_eq!(shown, expected, "\n{shown}");
}

#[test]
fn routers_and_servers_have_a_section_each() {
    let mut gone = absent("router-2:9442", Seen::Unreachable("connection refused".into()));
    gone.state.is_router = true;
    let all = [server("cache-1:9150"), router("router-1:9442"), gone, server("cache-2:9150")];
    let expected = "\
evenkeel top  2 servers, 2 routers, 1 unreachable                         q ends

router            reqs/s     hits p99 < µs     TKO  errors/s    CPU clients
router-1:9442  1,100,000  90.00 %     1024  1 of 3     1,000   35 %      12
router-2:9442 unreachable: connection refused

server           gets/s     hits p99 < µs busiest    sets/s memory clients
cache-1:9150    950,000  75.00 %      256   100 %         0   94 %      12
cache-2:9150    950,000  75.00 %      256   100 %         0   94 %      12

        softirq        NET_RX
CPU   0 ####   80 %   #####     5,000 /s

hot by requests, of those of its server
 7.42 %  cache-1:9150  user:4711
";
    let picture = shown(&all, 80, 18);
    assert!(picture.starts_with(expected), "\n{picture}");
    // Routers alone have their keys.
    let routers = shown(&[router("a:1"), router("b:2")], 80, 18);
    assert!(routers.contains("2 routers ") && !routers.contains("server   "), "{routers}");
    assert!(routers.contains(" 7.42 %  b:2  user:4711"), "{routers}");
}

#[test]
fn many_routers_leave_room_for_servers() {
    let mut all: Vec<ServerView> = (0..40).map(|number| router(&format!("router-{number}:9442"))).collect();
    all.extend((0..40).map(|number| server(&format!("cache-{number}:9150"))));
    let picture = shown(&all, 80, 24);
    assert!(picture.contains("router-0:9442") && picture.contains("cache-0:9150"), "{picture}");
}

#[test]
fn a_small_terminal_shows_what_matters_most() {
    let one = shown(&[server("127.0.0.1:9150")], 40, 10);
    assert!(
        one.contains("get") && one.contains("950,000") && one.contains("256") && one.contains("hits"),
        "{one}"
    );
    let crowd: Vec<ServerView> = (0..100).map(|number| server(&format!("cache-{number}:9150"))).collect();
    let many = shown(&crowd, 40, 10);
    assert!(many.contains("cache-0:9150") && many.contains("950,000") && many.contains("more"), "{many}");
}

#[test]
fn no_terminal_is_too_small() {
    let crowd: Vec<ServerView> = (0..20).map(|number| server(&format!("cache-{number}:9150"))).collect();
    let away = [absent("a", Seen::Unreachable("no".into())), absent("b", Seen::Once)];
    let mixed = [router("r:1"), server("s:1"), router("r:2")];
    for columns in (0..30).chain([79, 80, 120, 300]) {
        for rows in (0..12).chain([24, 40, 200]) {
            for servers in [&crowd[..], &crowd[..1], &away[..], &away[..1], &mixed[..], &mixed[..1], &[]] {
                shown(servers, columns, rows);
            }
        }
    }
}

#[test]
fn a_server_that_answers_anything_gives_no_order_to_the_terminal_and_ends_no_picture() {
    let order = "\u{1b}[2J\u{202e}\u{9b}x".repeat(100_000);
    let huge = u64::MAX;
    let text = |us: u64| {
        serde_json::json!({
            "version": order, "uptime_us": us,
            "stats": { "cmd_get": huge, "get_hits": 0, "curr_connections": huge, "max_connections": 0, "bytes_read": huge },
            "memory": { "charged_bytes": huge, "limit_bytes": 0 },
            "service": { "get": { "buckets": [[1, huge], [huge, huge], [3, huge]] } },
            "threads": (0..5000).map(|number| (format!("worker-{number}"), serde_json::json!({ "run_ns": us * huge / 2, "wait_ns": huge }))).collect::<serde_json::Map<_, _>>(),
            "hot": { "requests": [{ "key": order, "share": 1e300 }, { "key": "", "share": -1e300 }] },
        })
        .to_string()
    };
    let reading = |us| ServerReading::parse(&text(us)).expect("a report");
    let empty = ServerReading::parse("{\"uptime_us\": 0}").expect("a report");
    for (before, after) in [(&empty, &reading(1)), (&reading(0), &reading(1))] {
        let figures = ServerFigures::between(before, after).expect("time has passed");
        let seen = Seen::Figures(Box::new(figures));
        let mut server = absent(&order, Seen::Nothing);
        server.pass(ServerState { name: order.clone(), seen, is_router: false }, 1);
        for servers in [vec![&server], vec![&server, &server]] {
            let servers: Vec<ServerView> = servers
                .into_iter()
                .map(|server| {
                    let mut copy = absent(&order, Seen::Nothing);
                    copy.pass(server.state.clone(), 1);
                    copy
                })
                .collect();
            let shown = shown(&servers, 80, 24);
            assert!(!shown.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{shown}");
            assert!(shown.contains("evenkeel top"), "{shown}");
        }
    }
}

#[test]
fn a_server_that_was_away_leaves_a_gap_in_its_rates() {
    let mut server = server("a");
    let before = server.rates.len();
    server.pass(ServerState { name: "a".into(), seen: Seen::Unreachable("no".into()), is_router: false }, 99);
    assert_eq!((server.rates.len(), server.rates.back()), (before + 1, Some(&0)));
    for round in 100..5000 {
        server.pass(ServerState { name: "a".into(), seen: Seen::Once, is_router: false }, round);
    }
    assert_eq!(server.rates.len(), RATES_MAX);
}

#[test]
fn bars_have_the_length_of_their_share() {
    assert_eq!(
        [0.0, 0.5, 1.0, 9.0, -1.0].map(|share| bar(share, 4)),
        ["    ", "██  ", "████", "████", "    "]
    );
    assert_eq!([bar(0.1, 4), bar(f64::NAN, 2), bar(f64::INFINITY, 2)], ["▍   ", "  ", "  "]);
    assert_eq!(cut("a\u{1b}b", 20), "a\\u001bb");
    assert_eq!(
        (cut("abcdef", 4).as_str(), cut("abcd", 4).as_str(), cut("ab", 0).as_str()),
        ("abc…", "abcd", "")
    );
}

#[test]
fn without_colours_no_cell_has_one() {
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a terminal");
    let servers = [server("a")];
    terminal.draw(|frame| draw(frame, &servers, HOST, Paint::Plain)).expect("a picture");
    let plain = |cell: &ratatui::buffer::Cell| cell.fg == Color::Reset && cell.bg == Color::Reset;
    assert!(terminal.backend().buffer().content.iter().all(plain));
}
