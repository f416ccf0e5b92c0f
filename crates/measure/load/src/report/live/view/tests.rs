//! Views, drawn to a terminal in memory.

use super::*;
use crate::measure::failures::Failures;
use crate::measure::seconds::SecondCounts;
use crate::report::summary::CpuCost;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

fn view(line: &str) -> View {
    View::new(&Description::of(line.split_ascii_whitespace()).expect(line))
}

fn latency(p99_us: f64) -> Latency {
    Latency { p50_us: 20.0, p90_us: 50.0, p99_us, p999_us: 2000.0, max_us: 3000.0, mean_us: 30.0 }
}

fn second(requests_per_second: f64, server: Option<CpuCost>) -> Second {
    let client = CpuCost::default();
    Second {
        seconds: 1.0,
        requests_per_second,
        client,
        server,
        busiest_thread: 0.9,
        cpu_wait: 0.0,
        latency: None,
        failures: Failures::default(),
        availability: None,
        probes: None,
    }
}

/// A second whose latencies are known: of 100 requests, one took as long as the p99.
fn whole(p99_us: f64, errors: u64) -> Whole {
    let (latency, slip) = (Some(latency(p99_us)), Some(latency(p99_us / 2.0)));
    let failures = Failures { error_replies: errors, ..Failures::default() };
    let interval = SecondStats { second: 0, latency, slip, answered: 100, failures };
    let mut latency_ns = crate::measure::histogram::histogram();
    latency_ns.record_n(20_000, 99).expect("in range");
    latency_ns.record((p99_us * 1e3) as u64).expect("in range");
    Whole { interval, counts: SecondCounts { latency_ns: Some(latency_ns), slip_ns: None, failures } }
}

#[track_caller]
fn check(view: &View, (columns, rows): (u16, u16), expected: &[&str]) {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("memory");
    terminal.draw(|frame| view.draw(frame)).expect("memory");
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    };
    let shown: Vec<String> = cells.chunks(usize::from(columns)).map(line).collect();
    assert_eq!(shown[..expected.len()], *expected, "\n{}", shown.join("\n"));
}

#[test]
fn a_run_is_shown_as_figures_bars_and_a_picture() {
    let mut view = view("--rate 20000 --connections 8 --duration 60s --socket /run/cache");
    let server = CpuCost { cpu_seconds: 0.5, ..CpuCost::default() };
    for (rate, p99_us, errors) in [(10_000.0, 100.0, 0), (20_000.0, 200.0, 0), (5_000.0, 800.0, 3)] {
        view.pass(&second(rate, Some(server)), &[whole(p99_us, errors)]);
    }
    let expected = [
        "evenkeel load: 20,000 requests/s, 8 connections of depth 1, /run/cache",
        "3 of 60 s                                                           q ends",
        "",
        "rate      5,000 requests/s",
        "latency   p50 20 | p99 800 | p99.9 2,000 | max 3,000 µs",
        "slip      p50 20 | p99 400 | p99.9 2,000 | max 3,000 µs",
        "errors    3",
        "CPU       busiest client thread 90 % of a CPU, server 50 %",
        "",
        "rate, a column a second, the highest 20,000 requests/s",
        " █",
        "▄█",
        "██▆",
        "latency in µs by second: █ 10 % of its requests, ▓ 1 %, ▒ 0.1 %, ░ fewer",
        "",
        "     512    ▓",
        "     256",
        "     128   ▓",
        "      64  ▓",
        "      32",
        "      16  ███",
    ];
    check(&view, (74, 21), &expected);
}

#[test]
fn a_silent_agent_is_shown() {
    let mut view = view("--rate 300");
    let agent = |name: &str, state| AgentNow { name: String::from(name), state };
    let loads = AgentState::Loads { requests_per_second: 1234.0 };
    view.agents = vec![agent("a", loads), agent("b", loads), agent("c", AgentState::Ended)];
    view.pass(&second(3000.0, None), &[whole(100.0, 0)]);
    let head = ["evenkeel load: 300 requests/s, 64 connections of depth 1, 127.0.0.1:11211"];
    let rows = |seconds: u64, ago: &str, agents: &str, silent: &str| {
        let latency = format!("latency   p50 20 | p99 100 | p99.9 2,000 | max 3,000 µs{ago}");
        let cpu = "CPU       busiest client thread 90 %";
        let rows = [
            latency.as_str(),
            "slip      p50 20 | p99 50 | p99.9 2,000 | max 3,000 µs",
            "errors    0",
            cpu,
            agents,
            silent,
        ];
        let stage = format!("{:<68}q ends", format!("{seconds} of 10 s"));
        let rows = [&head[..], &[&stage, "", "rate      3,000 requests/s"], &rows[..], &[""]].concat();
        rows.into_iter().map(String::from).collect::<Vec<_>>()
    };
    let check = |view: &View, rows: Vec<String>| {
        check(view, (74, 16), &rows.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check(&view, rows(1, "", "agents    a 1,234 | b 1,234 | c has ended", ""));
    // What it does not report is unknown of the whole.
    (0..3).for_each(|_| view.pass(&second(3000.0, None), &[]));
    view.agents[0].state = AgentState::Silent { seconds: 4 };
    check(&view, rows(4, ", 3 s ago", "agents    b 1,234 | c has ended", "silent    a for 4 s"));
    view.agents[0].state = AgentState::Lost;
    check(&view, rows(4, ", 3 s ago", "agents    b 1,234 | c has ended", "silent    a, which is lost"));
}

#[test]
fn before_the_window_it_says_where_the_run_is() {
    let mut view = view("--requests 10");
    view.stage = Stage::Prefill { items: 1000, of: 100_000 };
    let title = "evenkeel load: closed loop, 64 connections of depth 1, 127.0.0.1:11211";
    let head = |stage: &str| format!("{stage:<68}q ends");
    check(&view, (74, 12), &[title, &head("prefill: 1,000 of 100,000 keys")]);
    view.stage = Stage::WarmUp;
    check(&view, (74, 12), &[title, &head("warm-up: nothing is counted yet")]);
    view.pass(&second(1.0, None), &[]);
    check(&view, (74, 12), &[title, &head("1 s")]);
}

#[test]
fn a_terminal_that_is_too_small_is_no_reason_to_fail() {
    let mut view = view("");
    view.pass(&second(1.0, None), &[whole(50.0, 0)]);
    for size in [(1, 1), (3, 12), (80, 3)] {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).expect("memory");
        terminal.draw(|frame| view.draw(frame)).expect("memory");
    }
}

#[test]
fn a_long_run_takes_no_more_memory() {
    let mut view = view("");
    (0..SECONDS_MAX + 10).for_each(|n| view.pass(&second(n as f64, None), &[whole(50.0, 0)]));
    assert_eq!((view.rates.len(), view.rates[0]), (SECONDS_MAX, 10));
}
