use super::*;

/// A tally after so many seconds, of a server that runs since the first, with 10 requests a second.
fn tally(at_s: u64) -> MemberTally {
    MemberTally {
        at_ms: at_s * 1000,
        pid: Some(7),
        uptime_s: Some(at_s),
        requests: Some(10 * at_s),
        hits: Some(9 * at_s),
        misses: Some(at_s),
        cpu_ms: Some(500 * at_s),
        connections: Some(3),
        page: Some(ServerPageTally {
            pid: None,
            at_ms: at_s * 1000,
            uptime_ms: at_s * 1000,
            ready_ms: Some(200 * at_s),
            workers: Some(4),
            wait_p99_us: Some(80),
            service_p99_us: None,
        }),
        ..MemberTally::default()
    }
}

fn heard(boot: u64, at_s: u64) -> HeardTurn {
    HeardTurn { boot, now: Now::at_ms(at_s * 1000) }
}

/// Rates of two tallies of one agent, which are heard when they are read.
fn rates(before: &MemberTally, after: &MemberTally) -> ServerRates {
    let of = |tally: &MemberTally| heard(1, tally.at_ms / 1000);
    server_rates(Some(&Before { heard: of(before), tally: before }), of(after), after)
}

use super::super::ServerPageTally;

#[test]
fn rates_are_what_has_grown_over_what_has_passed() {
    let rates = rates(&tally(100), &tally(115));
    assert_eq!(
        (rates.requests_per_s, rates.hits_per_s, rates.misses_per_s),
        (Some(10.0), Some(9.0), Some(1.0))
    );
    assert_eq!((rates.cpus, rates.scheduling_wait_share), (Some(0.5), Some(0.05)));
    assert_eq!((rates.connections, rates.wait_p99_us), (Some(3.0), Some(80.0)));
    assert_eq!((rates.evictions_per_s, rates.service_p99_us), (None, None), "they were not read");
}

#[test]
fn the_first_tally_has_no_rates() {
    let rates = server_rates(None, heard(1, 100), &tally(100));
    assert_eq!((rates.requests_per_s, rates.cpus, rates.scheduling_wait_share), (None, None, None));
    assert_eq!((rates.connections, rates.wait_p99_us), (Some(3.0), Some(80.0)));
}

#[test]
fn a_process_that_was_started_again_has_no_rates() {
    let other = MemberTally { pid: Some(8), ..tally(115) };
    assert_eq!(rates(&tally(100), &other).requests_per_s, None);
    let younger = MemberTally { uptime_s: Some(5), ..tally(115) };
    assert_eq!(rates(&tally(100), &younger).requests_per_s, None);
    // It was away for an hour, has the same number again, and counts more than before.
    let later =
        MemberTally { at_ms: 3_700_000, uptime_s: Some(300), requests: Some(1_000_000), ..tally(115) };
    assert_eq!(rates(&tally(100), &later).requests_per_s, None);
}

#[test]
fn a_counter_that_goes_back_and_a_rate_that_nothing_has_are_unknown() {
    let mut after = tally(115);
    (after.requests, after.hits) = (Some(999), Some(u64::MAX));
    (after.cpu_ms, after.received_bytes) = (Some(u64::MAX), Some(u64::MAX));
    let page = after.page.as_mut().expect("it has one");
    (page.ready_ms, page.wait_p99_us) = (Some(u64::MAX), Some(u64::MAX));
    let rates = rates(&MemberTally { received_bytes: Some(0), ..tally(100) }, &after);
    assert_eq!((rates.requests_per_s, rates.hits_per_s, rates.misses_per_s), (None, None, Some(1.0)));
    assert_eq!((rates.cpus, rates.scheduling_wait_share, rates.wait_p99_us), (None, None, None));
    let point = super::super::FigurePoint::of_server(1, &rates);
    assert_eq!(point.server().received_bytes_per_s, None, "no card moves 10^18 bytes in a second");
}

#[test]
fn a_page_that_does_not_answer_says_nothing_about_now() {
    let after = MemberTally { page: tally(100).page, ..tally(115) };
    let rates = rates(&tally(100), &after);
    assert_eq!(
        (rates.requests_per_s, rates.wait_p99_us, rates.scheduling_wait_share),
        (Some(10.0), None, None)
    );
}

#[test]
fn a_page_whose_clock_stands_still_has_no_rates() {
    let mut after = tally(115);
    after.page.as_mut().expect("it has one").uptime_ms = 100_000;
    assert_eq!(rates(&tally(100), &after).scheduling_wait_share, None);
}

#[test]
fn an_agent_that_was_started_again_has_another_clock() {
    let before = tally(100);
    let before = Before { heard: heard(1, 100), tally: &before };
    let after = MemberTally { at_ms: 3000, page: None, ..tally(115) };
    assert_eq!(server_rates(Some(&before), heard(2, 115), &after).requests_per_s, Some(10.0));
    assert_eq!(
        server_rates(Some(&before), heard(2, 400), &after).requests_per_s,
        None,
        "its server was, too"
    );
}

#[test]
fn an_agent_whose_clock_leaps_has_no_rates() {
    let before = tally(100);
    let before = Before { heard: heard(1, 100), tally: &before };
    let leapt = MemberTally { uptime_s: None, ..tally(10_000) };
    assert_eq!(server_rates(Some(&before), heard(1, 115), &leapt).requests_per_s, None);
}
