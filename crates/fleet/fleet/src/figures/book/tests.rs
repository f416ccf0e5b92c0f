use super::*;
use crate::figures::{POOLS_PER_TALLY_MAX, RouterPageTally};

fn member() -> MemberId {
    "m1".parse().expect("a name")
}

fn router() -> RouterId {
    "r1".parse().expect("a name")
}

fn view() -> ViewName {
    "main".parse().expect("a name")
}

fn web() -> ClusterName {
    "web".parse().expect("a name")
}

fn heard(at_s: u64) -> HeardTurn {
    HeardTurn { boot: 1, now: Now::at_ms(at_s * 1000) }
}

/// After so many seconds with 10 requests in each.
fn server(at_s: u64) -> MemberTally {
    let (requests, hits, misses) = (Some(10 * at_s), Some(8 * at_s), Some(at_s));
    MemberTally { at_ms: at_s * 1000, pid: Some(7), requests, hits, misses, ..MemberTally::default() }
}

/// After so many seconds with 10 requests in each to a pool, of which one fails.
fn routed(at_s: u64, pools: &[&str]) -> RouterTally {
    let pool = |name: &&str| ((*name).to_owned(), PoolTally::from([10 * at_s, at_s, 0]));
    let page = RouterPageTally {
        at_ms: at_s * 1000,
        uptime_ms: at_s * 1000,
        failovers: Some(at_s),
        shadows: Some((2 * at_s, at_s)),
        pools: pools.iter().map(pool).collect(),
        ..RouterPageTally::default()
    };
    let (requests, errors) = (Some(10 * at_s), Some(0));
    RouterTally { at_ms: at_s * 1000, pid: Some(7), requests, errors, page: Some(page) }
}

#[test]
fn points_are_those_of_turns_that_say_something_new() {
    let mut book = FigureBook::default();
    let mut hear = |tally_s, at_s| book.hear_server(&member(), Some(&web()), server(tally_s), heard(at_s));
    assert!(hear(100, 100) && hear(115, 115));
    assert!(!hear(115, 116), "the same, passed on by another controller");
    assert!(!hear(100, 117), "one that was overtaken");
    assert!(!hear(118, 118), "too soon");
    assert!(hear(130, 130));
    let points = book.server(&member()).expect("it has some");
    let requests: Vec<Option<f64>> = points.iter().map(|point| point.server().requests_per_s).collect();
    assert_eq!(requests, [None, Some(10.0), Some(10.0)]);
    assert_eq!(points.latest().at_s(), 130);
    // Nothing counts twice, and nothing is lost.
    assert_eq!(book.clusters()[&web()], ClusterCounts { requests: 300, hits: 240, misses: 30 });
}

#[test]
fn turns_that_are_lost_lose_no_count() {
    let mut book = FigureBook::default();
    for at_s in [100, 115, 700] {
        book.hear_server(&member(), Some(&web()), server(at_s), heard(at_s));
        book.hear_router(&router(), &view(), routed(at_s, &["web"]), heard(at_s));
    }
    assert_eq!(book.clusters()[&web()].requests, 6000);
    let rows: Vec<_> =
        book.levels(Now::at_ms(700_000)).map(|row| (row.pool, row.requests, row.errors)).collect();
    assert_eq!(rows, [(None, 6000, 0), (Some("web"), 6000, 600)]);
    assert_eq!(book.shadows()[&view()], ShadowCompared { compared: 1200, differed: 600 });
}

/// Failovers of the view in the last day, over its requests.
fn failovers(book: &FigureBook, now_s: u64) -> Option<f64> {
    book.levels(Now::at_ms(now_s * 1000)).find(|row| row.pool.is_none()).expect("a row").failovers_24h
}

#[test]
fn failovers_of_a_view_lose_no_count_and_are_never_of_a_pool() {
    let mut book = FigureBook::default();
    for (at_s, read_s) in [(100, 100), (115, 115), (130, 115), (145, 145), (700, 700)] {
        let mut tally = routed(at_s, &["web"]);
        // The page is read at times of its own, and hangs now and then.
        let page = tally.page.as_mut().expect("it has one");
        (page.at_ms, page.uptime_ms, page.failovers) = (read_s * 1000, read_s * 1000, Some(read_s));
        book.hear_router(&router(), &view(), tally, heard(at_s));
    }
    let share = failovers(&book, 700).expect("it is known");
    assert!((share - 0.1).abs() < 1e-6, "600 of 6,000 requests: {share}");
    assert!(book.levels(Now::at_ms(700_000)).any(|row| row.pool.is_some() && row.failovers_24h.is_none()));
}

#[test]
fn a_router_without_a_page_hides_no_failovers_of_others() {
    let mut book = FigureBook::default();
    let silent = "r2".parse().expect("a name");
    for at_s in [100, 115, 130] {
        let bare = RouterTally { page: None, ..routed(at_s, &[]) };
        book.hear_router(&silent, &view(), bare, heard(at_s));
    }
    assert_eq!(failovers(&book, 130), None, "what nobody tells is unknown");
    for at_s in [100, 115, 130] {
        book.hear_router(&router(), &view(), routed(at_s, &[]), heard(at_s));
    }
    let share = failovers(&book, 130).expect("it is known");
    assert!((share - 0.1).abs() < 1e-6, "of the requests of the one that tells: {share}");
}

#[test]
fn the_last_half_hour_is_kept() {
    let mut book = FigureBook::default();
    for turn in 0..300 {
        assert!(book.hear_server(&member(), None, server(15 * turn), heard(15 * turn)));
    }
    let at: Vec<u32> = book.server(&member()).expect("it has some").iter().map(FigurePoint::at_s).collect();
    assert_eq!(at.len(), POINTS_KEPT);
    assert_eq!((at[0], at[POINTS_KEPT - 1]), (15 * 180, 15 * 299));
    assert!(at.is_sorted());
}

#[test]
fn a_clock_that_has_gone_back_is_believed_after_a_minute() {
    let mut book = FigureBook::default();
    let mut hear = |tally_s, at_s| book.hear_server(&member(), None, server(tally_s), heard(at_s));
    assert!(hear(1_000_000, 100) && !hear(115, 115) && !hear(145, 145));
    assert!(hear(160, 160) && hear(175, 175));
}

#[test]
fn an_agent_that_is_started_again_and_again_makes_no_crowd() {
    let mut book = FigureBook::default();
    let taken = (0..100).filter(|turn| {
        let heard = HeardTurn { boot: *turn, now: Now::at_ms(turn * 1000) };
        book.hear_server(&member(), None, server(1), heard)
    });
    assert_eq!(taken.count(), 13);
}

#[test]
fn pools_that_come_in_turn_count_whole() {
    let mut book = FigureBook::default();
    for turn in 0..10 {
        let at_s = 100 + 15 * turn;
        let pools = if turn % 2 == 0 { ["a"] } else { ["b"] };
        book.hear_router(&router(), &view(), routed(at_s, &pools), heard(at_s));
    }
    let rows: Vec<_> = book.levels(Now::at_ms(235_000)).map(|row| (row.pool, row.requests)).collect();
    assert_eq!(rows, [(None, 1350), (Some("a"), 1200), (Some("b"), 1200)]);
}

#[test]
fn a_router_that_was_started_again_begins_anew() {
    let mut book = FigureBook::default();
    let mut hear = |at_s, tally| book.hear_router(&router(), &view(), tally, heard(at_s));
    hear(100, routed(100, &["web"]));
    let mut again = routed(115, &["web"]);
    again.pid = Some(8);
    again.page.as_mut().expect("it has one").uptime_ms = 5000;
    hear(115, again.clone());
    again.at_ms = 130_000;
    let page = again.page.as_mut().expect("it has one");
    (page.at_ms, page.uptime_ms) = (130_000, 20_000);
    page.pools = [("web".to_owned(), PoolTally::from([1160, 115, 0]))].into();
    hear(130, again);
    let rows: Vec<_> =
        book.levels(Now::at_ms(130_000)).map(|row| (row.pool, row.requests, row.errors)).collect();
    assert_eq!(rows, [(None, 0, 0), (Some("web"), 10, 0)]);
}

#[test]
fn a_pool_that_lies_is_not_counted() {
    let mut book = FigureBook::default();
    let pools = |at_s: u64, counts: [u64; 3]| {
        let mut tally = routed(at_s, &[]);
        tally.page.as_mut().expect("it has one").pools = [("web".to_owned(), counts.into())].into();
        tally
    };
    let lies = [[0, 0, 0], [u64::MAX, 0, 0], [10, 20, 0], [20, 10, 20], [5, 5, 5], [6, 5, 5]];
    for (at_s, counts) in (0..).map(|turn| 100 + 15 * turn).zip(lies) {
        book.hear_router(&router(), &view(), pools(at_s, counts), heard(at_s));
    }
    let row = book.levels(Now::at_ms(200_000)).find(|row| row.pool.is_some()).expect("a row");
    assert_eq!((row.requests, row.errors, row.timeouts), (1, 0, 0));
}

#[test]
fn what_has_left_is_forgotten() {
    let mut book = FigureBook::default();
    book.hear_server(&member(), Some(&web()), server(100), heard(100));
    book.hear_router(&router(), &view(), routed(100, &[]), heard(100));
    assert_eq!(book.known(), (1, 1));
    book.keep_servers(|_| false);
    book.keep_sums(|_| false, |_| true);
    book.forget_old(Now::at_ms(100_000 + ROUTER_FORGOTTEN_MS - 1));
    assert_eq!(book.known(), (0, 1));
    book.forget_old(Now::at_ms(100_000 + ROUTER_FORGOTTEN_MS));
    assert_eq!(book.known(), (0, 0));
    assert!(book.clusters().is_empty());
}

#[test]
fn names_that_an_agent_makes_up_are_bounded() {
    let mut book = FigureBook::default();
    for turn in 0..100_u64 {
        let names: Vec<String> = (0..POOLS_PER_TALLY_MAX).map(|number| format!("p{turn}-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        book.hear_router(&router(), &view(), routed(100 + 15 * turn, &names), heard(100 + 15 * turn));
    }
    let now = Now::at_ms(1_600_000);
    assert_eq!(book.levels(now).count(), crate::figures::LEVELS_MAX);
    assert!(book.levels_left_out() > 0);
    assert!(book.routers[&router()].pools.len() <= POOLS_PER_ROUTER_MAX);
}
