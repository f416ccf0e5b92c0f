use super::*;
use clap::Parser;

const MS: u64 = 1_000_000;

/// Stalls in milliseconds, with the time to catch up, one each second.
fn stalls(stalls_ms: &[(u64, Option<u64>)]) -> Vec<Stall> {
    let stall = |(second, &(still, catch_up)): (usize, &(u64, Option<u64>))| Stall {
        begun_ns: second as u64 * EVERY_NS,
        still_ns: still * MS,
        caught_up_ns: catch_up.map(|catch_up| catch_up * MS),
    };
    stalls_ms.iter().enumerate().map(stall).collect()
}

#[test]
fn theory_is_the_rest_of_the_stall() {
    #[track_caller]
    fn check(stalls_ms: &[(u64, Option<u64>)], share: f64, wanted_ms: f64) {
        let window_ns = 0..stalls_ms.len().max(1) as u64 * EVERY_NS;
        let found_ms = theory_ns(&stalls(stalls_ms), &window_ns, share) / MS as f64;
        assert!((found_ms - wanted_ms).abs() < 0.001, "{stalls_ms:?} {share}: {found_ms}");
    }
    check(&[(100, Some(0)); 5], 0.05, 50.0);
    check(&[(100, Some(0)); 5], 0.01, 90.0);
    check(&[(100, Some(0)); 5], 0.001, 99.0);
    // Of 2 s, 20 ms are slower than this: all in the stall that was longer.
    check(&[(100, None), (200, None)], 0.01, 180.0);
    check(&[(100, None)], 0.2, 0.0);
    check(&[], 0.01, 0.0);
    // What came in 125 ms was answered in 25 ms; the last one had caught nothing up when the test ended.
    check(&[(100, Some(25)), (100, Some(25)), (100, None)], 0.05, 60.0);
}

#[test]
fn a_window_may_begin_and_end_within_a_stall() {
    #[track_caller]
    fn check(window_ms: Range<u64>, share: f64, wanted_ms: f64) {
        let window_ns = window_ms.start * MS..window_ms.end * MS;
        let found_ms = theory_ns(&stalls(&[(100, Some(0)); 3]), &window_ns, share) / MS as f64;
        assert!((found_ms - wanted_ms).abs() < 0.001, "{window_ms:?} {share}: {found_ms}");
    }
    // Two stalls and a half second without: of 25 requests in 1000, those of 12.5 ms in each.
    check(500..3000, 0.01, 87.5);
    check(0..1500, 0.01, 92.5);
    // The last 40 ms of a stall, and the first 60.
    check(60..1000, 0.01, 30.6);
    check(100..1060, 0.01, 90.4);
    check(100..1060, 0.05, 52.0);
}

#[test]
fn a_server_has_caught_up_when_it_has_answered_all_that_came() {
    let check = |answered, now_ms: u64, wanted_ms: Option<u64>| {
        let mut stall = stalls(&[(100, None)])[0];
        stall.catch_up(answered, now_ms * MS);
        assert_eq!(stall.caught_up_ns, wanted_ms.map(|ms| ms * MS), "{answered} after {now_ms} ms");
    };
    check(0, 101, None);
    check(900, 101, None);
    check(960, 101, Some(1));
    check(1_000, 110, None);
    check(1_050, 110, Some(10));
}

fn quantile(measured_ms: f64) -> Quantile {
    Quantile { percent: 99.0, theory_ms: 90.0, measured_ms, from_sent_ms: 0.2 }
}

/// A run that is cheap, for its summary.
fn summary(rate: f64, valid: bool) -> Summary {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let ended = AtomicBool::new(false);
    let mut summary = thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &ended));
        let line = format!("load --server {address} --requests 1 --warm-up 0");
        let summary = crate::run(&arguments(&line), &mut io::sink());
        ended.store(true, Ordering::Relaxed);
        summary.expect("a server that answers")
    });
    assert!(summary.misses > 0 && summary.errors == 0, "{summary}");
    (summary.requests, summary.seconds) = (rate as u64, 1.0);
    let late = crate::InvalidReason { what: String::from("late"), why: String::new() };
    summary.verdict.reasons = if valid { Vec::new() } else { vec![late] };
    summary
}

fn arguments(line: &str) -> Arguments {
    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        arguments: Arguments,
    }
    Command::parse_from(line.split(' ')).arguments
}

#[test]
fn five_percent_off_is_a_lie() {
    let check = |measured_ms, rate, valid, passes: bool| {
        let test = SelfTest::judge(vec![quantile(90.0), quantile(measured_ms)], 5, &summary(rate, valid));
        assert_eq!(test.passed, passes, "{test}");
    };
    check(90.0, 10_000.0, true, true);
    check(94.0, 9_950.0, true, true);
    check(86.0, 10_050.0, true, true);
    check(95.0, 10_000.0, true, false);
    check(85.0, 10_000.0, true, false);
    check(90.0, 9_880.0, true, false);
    check(90.0, 10_000.0, false, false);
    check(f64::NAN, 10_000.0, true, false);
}

/// What a machine that is busy with other things measures is not asserted: that theory meets a whole loop is, in
/// simulated time (run/worker/tests.rs).
#[test]
fn a_test_tells_what_theory_says() {
    let test = self_test(&arguments("load --self-test --duration 2"), &mut io::sink()).expect("loopback");
    let shown = test.to_string();
    assert!(test.stalls >= 1 && test.quantiles.len() == 3, "{shown}");
    assert!(shown.contains("p99.9") && shown.contains("VALID"), "{shown}");
    // The server is never quicker than it says.
    assert!(test.quantiles.iter().all(|quantile| quantile.theory_ms > 0.0), "{shown}");
}
