use super::*;
use clap::FromArgMatches;

fn matches(line: &str) -> ArgMatches {
    let command = <Arguments as clap::Args>::augment_args(clap::Command::new("load").no_binary_name(true));
    command.try_get_matches_from(line.split(' ')).expect("a good line")
}

#[test]
fn agents_get_the_same_words_and_their_part_of_the_numbers() {
    let matches =
        matches("--agents a,b,c --rate 100 --connections=64 --verify --value-size 1k --json x --seed 7");
    let mut words = words(&matches, &OURS);
    words.sort();
    assert_eq!(words, ["--connections=64", "--rate=100", "--seed=7", "--value-size=1k", "--verify"]);
    let arguments = Arguments::from_arg_matches(&matches).expect("a good line");
    let plan = Plan::new(&arguments).expect("a good plan");
    let share = |index| with_share(&[], &plan, Part { index, of: 3 });
    assert_eq!(share(0)[0], "--connections=22");
    assert_eq!(share(2)[0], "--connections=21");
    assert!(share(1)[1].starts_with("--rate=33.333"), "{:?}", share(1));
}

#[test]
fn what_comes_and_goes_is_shared_too() {
    let line = "--agents a,b --connections=4 --reconnect-after 9 --churn 30 --storm 1@3s --search p99<1ms";
    let matches = matches(&format!("{line} --server-pid 1"));
    let arguments = Arguments::from_arg_matches(&matches).expect("a good line");
    let plan = Plan::new(&arguments).expect("a good plan");
    let share = |index| with_share(&words(&matches, &OURS), &plan, Part { index, of: 2 });
    let first = ["--connections=4", "--reconnect-after=9", "--churn=30", "--connections=2", "--churn=15"];
    assert_eq!(share(0)[..5], first);
    assert_eq!(share(0)[5..], ["--storm=1@3s"]);
    assert_eq!(share(1), first, "there is no storm of none");
}

#[test]
fn what_this_machine_does_is_not_asked_of_agents() {
    let line = "--agents a,b --connections=4 --probes 2 --probe-rate 10 --spin=50us --hdr-log x";
    let check = |more: &str, first: &[&str]| {
        let matches = matches(&format!("{line}{more}"));
        let arguments = Arguments::from_arg_matches(&matches).expect("a good line");
        let plan = Plan::new(&arguments).expect("a good plan");
        let words = with_share(&words(&matches, &OURS), &plan, Part { index: 0, of: 2 });
        assert_eq!(words, first, "{more}");
    };
    // Who sends at no times has none to be awake at.
    check("", &["--connections=4", "--connections=2"]);
    check(" --rate 8", &["--rate=8", "--spin=50us", "--connections=4", "--connections=2", "--rate=4"]);
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
