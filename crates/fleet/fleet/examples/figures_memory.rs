//! The memory of the figures of 25,000 members: 5,000 servers and 20,000 routers with two pools each, half an hour of turns.
//!
//!     cargo run --release -p fleet --example figures_memory

use fleet::figures::{
    FigureBook, HeardTurn, MemberTally, PoolTally, RouterPageTally, RouterTally, ServerPageTally,
};
use stdx::clock::Now;

const SERVERS: u64 = 5_000;
const ROUTERS: u64 = 20_000;
/// Turns of half an hour.
const TURNS: u64 = 120;

fn main() {
    let before = anonymous_mb();
    let mut book = FigureBook::default();
    let (view, cluster) = ("main".parse().expect("a name"), "web".parse().expect("a name"));
    let clock = os::clock::Stopwatch::start();
    for turn in 1..=TURNS {
        let at_s = 15 * turn;
        let heard = HeardTurn { boot: 1, now: Now::at_ms(at_s * 1000) };
        for number in 0..SERVERS {
            let member = format!("server-{number}").parse().expect("a name");
            book.hear_server(&member, Some(&cluster), server(at_s), heard);
        }
        for number in 0..ROUTERS {
            let router = format!("router-{number}").parse().expect("a name");
            book.hear_router(&router, &view, router_tally(at_s), heard);
        }
        if turn == 1 {
            println!("after one turn of each: {:.1} MB", anonymous_mb() - before);
        }
    }
    let us = clock.passed().as_micros() as f64 / (TURNS * (SERVERS + ROUTERS)) as f64;
    println!("after {TURNS} turns of each: {:.1} MB, {us:.2} µs a turn", anonymous_mb() - before);
    assert_eq!(book.known(), (SERVERS as usize, ROUTERS as usize));
}

fn server(at_s: u64) -> MemberTally {
    let page = ServerPageTally { at_ms: at_s * 1000, uptime_ms: at_s * 1000, ..ServerPageTally::default() };
    MemberTally {
        at_ms: at_s * 1000,
        requests: Some(36_000 * at_s),
        page: Some(page),
        ..MemberTally::default()
    }
}

fn router_tally(at_s: u64) -> RouterTally {
    let pool = |name: &str| (name.to_owned(), PoolTally::from([4_500 * at_s, at_s, 0]));
    let pools = [pool("web"), pool("gutter")].into();
    let page =
        RouterPageTally { at_ms: at_s * 1000, uptime_ms: at_s * 1000, pools, ..RouterPageTally::default() };
    RouterTally {
        at_ms: at_s * 1000,
        pid: Some(1),
        requests: Some(9_000 * at_s),
        errors: Some(at_s),
        page: Some(page),
    }
}

/// Anonymous memory of this process.
fn anonymous_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").expect("proc(5)");
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("proc(5)");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
    kilobytes * 1024.0 / 1e6
}
