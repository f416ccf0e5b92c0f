//! Planted effects of factors, and of factors together.

use lab::compare::{Verdict, compare};
use lab::design::Cell;
use lab::efficiency::efficiencies;
use lab::report;
use lab::results::Results;

use crate::synthetic::{self, Host};

const LADDER: &str = r#"
question = "What do kernel, configuration and allocator give?"
[[subject]]
name = "mariadb"
start = "mariadbd {configuration}"
[[factor]]
name = "kernel"
level = [{ name = "stock" }, { name = "tuned", sysctl = { "vm.swappiness" = "1" } }]
[[factor]]
name = "mysql"
level = [{ name = "stock", set = { configuration = "" } }, { name = "ours", set = { configuration = "--big" } }]
[[factor]]
name = "allocator"
level = [{ name = "glibc" }, { name = "jemalloc", env = { LD_PRELOAD = "libjemalloc.so.2" } }]
[[factor]]
name = "threads"
level = [{ name = "16", set = { threads = "16" } }, { name = "32", set = { threads = "32" } }]
[workload]
run = "sysbench --threads={threads}"
parser = "sysbench"
seconds = 30
[measure]
primary = "requests_per_cpu_second"
better = "higher"
[repeat]
rounds = 12
"#;

/// The kernel gives 20 %, the allocator 10 %, and both together 15 % more; the configuration gives nothing.
fn effect(cell: &Cell) -> f64 {
    let has = |factor: &str, level: &str| cell.levels[factor] == level;
    let kernel = if has("kernel", "tuned") { 1.2 } else { 1.0 };
    let allocator = if has("allocator", "jemalloc") { 1.1 } else { 1.0 };
    let both = if has("kernel", "tuned") && has("allocator", "jemalloc") { 1.15 } else { 1.0 };
    kernel * allocator * both
}

fn ladder() -> Results {
    let host = Host { noise: 0.02, drift: 0.01, effect, rate: |_| 100_000.0, seconds: 0 };
    synthetic::run(LADDER, &host, 7)
}

#[test]
fn planted_effects_and_interactions_are_found_and_sized() {
    let comparison = compare(&ladder());
    let effects = &comparison.metrics[0].effects;
    assert_eq!(effects.iter().filter(|effect| effect.is_interaction).count(), 6);
    let of = |name: &str| effects.iter().find(|effect| effect.name == name).expect(name);
    // An effect is the mean over the levels of the others: half of the cells have both.
    let kernel = of("kernel=tuned");
    assert_eq!((kernel.verdict, kernel.rounds), (Verdict::Better, 12));
    let wanted = 1.2 * 1.15f64.sqrt();
    assert!(kernel.ratio.low < wanted && wanted < kernel.ratio.high, "{kernel:?}");
    assert!(kernel.ratio.high - kernel.ratio.low < 0.1, "{kernel:?}");
    let both = of("kernel=tuned × allocator=jemalloc");
    assert!(both.verdict == Verdict::Better && both.ratio.low < 1.15 && 1.15 < both.ratio.high, "{both:?}");
    for name in ["mysql=ours", "threads=32", "kernel=tuned × mysql=ours", "kernel=tuned × threads=32"] {
        let verdict = of(name).verdict;
        assert!(matches!(verdict, Verdict::NoDifferenceShown | Verdict::Equivalent), "{name}: {verdict:?}");
    }
    let text = report::text(&comparison);
    assert!(text.contains("Of the factors, requests/CPU-s: kernel=tuned +2"), "{text}");
}

#[test]
fn a_zero_is_not_left_out_of_an_effect() {
    let mut results = ladder();
    *results.records[5].metrics.get_mut("requests_per_cpu_second").expect("a metric") = 0.0;
    assert_eq!(compare(&results).metrics[0].effects, []);
}

#[test]
fn few_rounds_show_no_effect_and_say_so() {
    let mut results = ladder();
    results.records.retain(|record| record.round < 5);
    let comparison = compare(&results);
    let effects = &comparison.metrics[0].effects;
    assert!(!effects.is_empty());
    assert!(effects.iter().all(|it| it.verdict == Verdict::TooFewPairs), "{effects:?}");
}

#[test]
fn many_equal_cells_are_counted_not_listed() {
    let host = Host { noise: 0.0, drift: 0.0, effect: |_| 1.0, rate: |_| 100_000.0, seconds: 0 };
    let text = report::text(&compare(&synthetic::run(LADDER, &host, 7)));
    assert!(text.contains("No difference that matters: 14 cells, see the table."), "{text}");
}

#[test]
fn a_round_counts_with_what_it_has_of_the_combinations() {
    let check = |doubtful: usize, rounds: std::ops::RangeInclusive<usize>| {
        let mut results = ladder();
        let of_the_first_round = results.records.iter_mut().filter(|record| record.round == 0);
        of_the_first_round.take(doubtful).for_each(|record| record.doubts.push("steal".into()));
        let comparison = compare(&results);
        let effects = &comparison.metrics[0].effects;
        assert!(effects.iter().all(|effect| rounds.contains(&effect.rounds)), "{doubtful}: {effects:?}");
        let kernel = effects.iter().find(|effect| effect.name == "kernel=tuned").expect("an effect");
        let wanted = 1.2 * 1.15f64.sqrt();
        assert!(kernel.ratio.low < wanted && wanted < kernel.ratio.high, "{kernel:?}");
    };
    check(1, 12..=12);
    check(2, 12..=12);
    // Three cells of sixteen are not half of the pairs of anything.
    check(13, 11..=11);
    check(16, 11..=11);
}

#[test]
fn requests_per_point_of_cpu_are_the_slope() {
    let rates = LADDER.replace(
        "{ name = \"32\", set = { threads = \"32\" } }]",
        "{ name = \"24\", set = { threads = \"24\" } }, { name = \"32\", set = { threads = \"32\" } }]",
    );
    let rate = |cell: &Cell| 6_000.0 * cell.levels["threads"].parse::<f64>().expect("a number");
    let mut results =
        synthetic::run(&rates, &Host { noise: 0.0, drift: 0.0, effect: |_| 1.0, rate, seconds: 1 }, 1);
    // 20 % of the machine when idle, and a point for each 2,000 requests a second.
    for record in &mut results.records {
        let busy = 0.2 + record.metrics["requests_per_second"] / 200_000.0;
        record.samples.iter_mut().flat_map(|sample| &mut sample.cpus).for_each(|cpu| cpu.idle = 1.0 - busy);
    }
    let found = efficiencies(&results);
    assert_eq!(found.len(), 8);
    for efficiency in &found {
        assert!((efficiency.slope.middle - 2_000.0).abs() < 1.0, "{efficiency:?}");
        assert!((efficiency.busy_percent.0 - 68.0).abs() < 0.1, "{efficiency:?}");
    }
    assert_eq!(efficiencies(&ladder()), [], "two rates are no slope");
}
