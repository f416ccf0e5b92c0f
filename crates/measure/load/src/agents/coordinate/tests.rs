use super::*;
use crate::types::arrivals::pace::{OpenLoopPace, Timing};
use clap::Parser;

#[derive(Parser)]
struct Load {
    #[command(flatten)]
    arguments: Arguments,
}

/// What coordinators of agents a and b say to these flags.
#[track_caller]
fn check(flags: &str, wanted: Result<(usize, usize), &str>) {
    let words = ["load", "--agents=a,b"].into_iter().chain(flags.split_ascii_whitespace());
    let arguments = Load::parse_from(words).arguments;
    let found = Coordinator::new(&arguments).map_err(|error| error.to_string());
    let parts = found.map(|coordinator| {
        let of = |index| RunPlan::new(&coordinator.run, Part { index, of: 2 }).expect("a plan").connections;
        (of(0), of(1))
    });
    match (parts, wanted) {
        (Ok(parts), Ok(wanted)) => assert_eq!(parts, wanted),
        (Err(error), Err(wanted)) => assert!(error.contains(wanted), "{error}"),
        (found, wanted) => panic!("{found:?} instead of {wanted:?}"),
    }
}

#[test]
fn what_no_agent_could_do_is_refused_before_any_is_started() {
    check("--connections 5 --spin --probes 2 --probe-rate 10", Ok((3, 2)));
    check("--connections 1", Err("2 threads of all agents need as many connections"));
    check("--requests 1", Err("--requests must be at least 1 for each agent"));
    check("--spin", Err("--arrivals, --spin and --slot are for an open loop"));
    check("--spin --search p99<1ms", Ok((32, 32)));
    check("--requests 5 --search p99<1ms", Err("a search takes --duration"));
    let long = format!("--ttl {}1", "1,".repeat(20_000));
    check(&long, Err("the description for agents has at most 32768 bytes of JSON, this one has 4"));
}

#[test]
fn a_part_is_of_the_numbers_that_all_have_together() {
    let line =
        "--connections 5 --rate 30 --requests 7 --reconnect-after 9 --churn 30 --storm 1@3s --duration 9";
    let run = Description::of(line.split(' ')).expect(line);
    let plan = |index| RunPlan::new(&run, Part { index, of: 2 }).expect(line);
    let (first, second) = (plan(0), plan(1));
    assert_eq!((first.connections, second.connections), (3, 2));
    assert_eq!((first.requests, second.requests), (Some(4), Some(3)));
    let storms = [first.churn, second.churn].map(|churn| churn.and_then(|churn| churn.storm));
    assert_eq!(storms.map(|storm| storm.map(|storm| storm.connections)), [Some(1), Some(0)]);
    // Schedules are parts of one: each has the rate of all, and the numbers of its threads.
    assert!(matches!(second.pace, Some(OpenLoopPace { timing: Timing::Law(30.0, _), .. })), "{second:?}");
    assert!(second.churn.is_some_and(|churn| churn.rate == Some(30.0)));
    assert_eq!((second.thread(0).index, second.thread(0).threads), (1, 2));
}

#[test]
fn the_quickest_answer_says_most_about_a_clock() {
    let clock =
        Clock::of(&[(1000, 5_000_900, 9000), (10_000, 5_008_050, 10_100), (20_000, 5_019_000, 24_000)]);
    let Clock { ahead_ns, error_ns } = clock.expect("readings");
    assert_eq!((ahead_ns, error_ns), (4_998_000, 50));
    // Clocks count from when a machine was started: another one's may be far behind.
    let behind = Clock::of(&[(9_000_000, 1000, 9_000_200)]).expect("a reading");
    assert_eq!(behind.ahead_ns, 1000 - 9_000_100);
}

#[test]
fn parts_make_the_whole() {
    for (of, total) in [(1, 10), (3, 10), (7, 5)] {
        let parts = (0..of).map(|index| Part { index, of });
        assert_eq!(parts.clone().map(|part| part.share(total)).sum::<u64>(), total);
        let items: Vec<u64> = parts.flat_map(|part| part.items(total)).collect();
        assert_eq!(items, (0..total).collect::<Vec<_>>());
    }
}
