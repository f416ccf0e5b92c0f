//! Planted effects of factors, and of factors together.

use lab::analyze::compare::compare;
use lab::analyze::efficiency::efficiencies;
use lab::analyze::verdict::Verdict;
use lab::experiment::design::Cell;
use lab::report;
use lab::run::results::Results;

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

/// Four rates at which this many threads load MariaDB.
fn rates() -> String {
    let four = "{ name = \"24\", set = { threads = \"24\" } }, { name = \"32\", set = { threads = \"32\" } }, \
                { name = \"40\", set = { threads = \"40\" } }]";
    LADDER.replace("{ name = \"32\", set = { threads = \"32\" } }]", four)
}

/// Trials at these rates of a machine of which 20 % are busy when it is idle, and a point more for each `per_point`
/// requests a second. `noise` is the standard deviation of what is busy, in points.
fn offered(per_point: fn(&Cell) -> f64, noise: f64, seed: u64) -> Results {
    let rate = |cell: &Cell| 1_500.0 * cell.levels["threads"].parse::<f64>().expect("a number");
    let host = Host { noise: 0.0, drift: 0.0, effect: |_| 1.0, rate, seconds: 1 };
    let mut results = synthetic::run(&rates(), &host, seed);
    let cells = lab::experiment::design::Design::of(&results.experiment).cells;
    let mut prng = stdx::prng::Prng::new(seed);
    for record in &mut results.records {
        let cell = cells.iter().find(|cell| cell.holds(record)).expect("a cell");
        let points =
            record.metrics["requests_per_second"] / per_point(cell) + noise * synthetic::normal(&mut prng);
        record.samples.iter_mut().flat_map(|it| &mut it.cpus).for_each(|cpu| cpu.idle = 0.8 - points / 100.0);
    }
    results
}

#[test]
fn requests_per_point_of_cpu_are_the_slope() {
    let found = efficiencies(&offered(|_| 2_000.0, 0.0, 1));
    assert_eq!(found.len(), 8);
    for efficiency in &found {
        let slope = efficiency.slope.expect("a slope");
        assert!((slope.middle - 2_000.0).abs() < 1.0 && slope.is_bounded(), "{efficiency:?}");
        assert!((efficiency.busy_percent.0 - 32.0).abs() < 0.1, "{efficiency:?}");
        assert_eq!((efficiency.rates, efficiency.up_to, efficiency.trials), ((4, 4), 60_000.0, 48));
    }
    assert_eq!(efficiencies(&ladder()), [], "two rates are no slope");
}

#[test]
fn noise_in_what_is_busy_does_not_flatten_the_slope() {
    // By the least squares of the rate on busy, as it was before.
    let other_way_round = |results: &Results, treatment: &str| {
        let cells = lab::experiment::design::Design::of(&results.experiment).cells;
        let own = |record: &&lab::record::TrialRecord| {
            cells.iter().any(|cell| cell.treatment == treatment && cell.holds(record))
        };
        let point = |record: &lab::record::TrialRecord| {
            let busy = 100.0 * (1.0 - record.samples[0].cpus[0].idle);
            (busy, record.metrics["requests_per_second"])
        };
        let points: Vec<(f64, f64)> = results.records.iter().filter(own).map(point).collect();
        let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / points.len() as f64;
        let (x, y) = (mean(|it| it.0), mean(|it| it.1));
        let common: f64 = points.iter().map(|it| (it.0 - x) * (it.1 - y)).sum();
        common / points.iter().map(|it| (it.0 - x).powi(2)).sum::<f64>()
    };
    let (mut ours, mut before, mut held) = (Vec::new(), Vec::new(), 0);
    for seed in 0..8 {
        let results = offered(|_| 2_000.0, 2.5, seed);
        for efficiency in efficiencies(&results) {
            let slope = efficiency.slope.expect("a slope");
            held += usize::from(slope.low <= 2_000.0 && 2_000.0 <= slope.high);
            ours.push(slope.middle);
            before.push(other_way_round(&results, &efficiency.treatment));
        }
    }
    let [ours, before] = [ours, before].map(|slopes| stdx::statistics::median(&slopes) / 2_000.0);
    assert!((0.98..=1.02).contains(&ours), "{ours} of the true slope");
    assert!((0.78..=0.93).contains(&before), "{before} of the true slope, the other way round");
    // 95 % of 64 are 61, and three standard deviations 5.
    assert!(held >= 56, "{held} of 64 intervals hold it");
}

#[test]
fn rates_that_raise_latency_are_left_out() {
    let mut results = offered(|_| 2_000.0, 0.0, 1);
    for record in results.records.iter_mut().filter(|record| record.levels["threads"] == "40") {
        // Beyond the knee the machine is busy with something else than requests.
        record.metrics.insert("p99_us".into(), 5_000.0);
        record.samples.iter_mut().flat_map(|it| &mut it.cpus).for_each(|cpu| cpu.idle = 0.05);
    }
    for efficiency in efficiencies(&results) {
        assert!((efficiency.slope.expect("a slope").middle - 2_000.0).abs() < 1.0, "{efficiency:?}");
        assert_eq!((efficiency.rates, efficiency.up_to), ((3, 4), 48_000.0));
    }
    // A treatment whose knee leaves two rates has no result, and the others are not compared with it.
    for record in
        results.records.iter_mut().filter(|it| it.levels["threads"] == "32" && it.levels["kernel"] == "tuned")
    {
        record.metrics.insert("p99_us".into(), 5_000.0);
    }
    let found = efficiencies(&results);
    let without: Vec<&str> = found.iter().filter(|it| it.slope.is_none()).map(|it| &*it.treatment).collect();
    assert!(without.len() == 4 && without.iter().all(|it| it.starts_with("kernel=tuned")), "{without:?}");
    assert!(found[1..].iter().all(|it| it.slope.is_some() == it.ratio.is_some()), "{found:?}");
    let text = report::text(&compare(&results));
    assert!(text.contains("2 of 4") && text.contains("none"), "{text}");
}

#[test]
fn two_slopes_are_compared_with_an_interval() {
    let tuned = |cell: &Cell| if cell.levels["kernel"] == "tuned" { 2_400.0 } else { 2_000.0 };
    let found = efficiencies(&offered(tuned, 0.5, 3));
    assert_eq!(found[0].verdict, Verdict::Baseline);
    for efficiency in &found[1..] {
        let (ratio, is_tuned) =
            (efficiency.ratio.expect("a ratio"), efficiency.treatment.contains("kernel=tuned"));
        let wanted = if is_tuned { 1.2 } else { 1.0 };
        assert!(ratio.low < wanted && wanted < ratio.high && ratio.high < wanted * 1.1, "{efficiency:?}");
        assert_eq!(efficiency.verdict == Verdict::Better, is_tuned, "{efficiency:?}");
    }
}

#[test]
fn where_nothing_but_the_rate_varies_there_is_a_slope_too() {
    let only = rates();
    let from = only.find("[[factor]]\nname = \"kernel\"").expect("a factor");
    let to = only.find("[[factor]]\nname = \"threads\"").expect("the last factor");
    let only = only.replacen("mariadbd {configuration}", "mariadbd", 1).replace(&only[from..to], "");
    let rate = |cell: &Cell| 1_500.0 * cell.levels["threads"].parse::<f64>().expect("a number");
    let mut results =
        synthetic::run(&only, &Host { noise: 0.0, drift: 0.0, effect: |_| 1.0, rate, seconds: 1 }, 1);
    for record in &mut results.records {
        let busy = 0.2 + record.metrics["requests_per_second"] / 200_000.0;
        record.samples.iter_mut().flat_map(|it| &mut it.cpus).for_each(|cpu| cpu.idle = 1.0 - busy);
    }
    let found = efficiencies(&results);
    assert_eq!(found.iter().map(|it| &*it.treatment).collect::<Vec<_>>(), ["mariadb"]);
    assert!((found[0].slope.expect("a slope").middle - 2_000.0).abs() < 1.0, "{found:?}");
}
