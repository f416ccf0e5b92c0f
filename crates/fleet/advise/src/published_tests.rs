//! The four kinds of workloads of Pinterest's report of 2022, for which it names r5, c5, r5d, and i3 or i3en.

use fleet::advise::{Advice, AdviceInputs, HostResource, HostShape, InputEffect, InputFigure, advise};

use crate::catalogue::Catalogue;
use crate::{parse_workload, usual_inputs};

/// What the report chooses among.
const FAMILIES: [&str; 5] = ["r5", "c5", "r5d", "i3", "i3en"];

fn answered(workload: &str, change: impl FnOnce(&mut AdviceInputs)) -> Advice {
    let catalogue = Catalogue::built_in();
    let shapes: Vec<HostShape> = catalogue
        .shapes()
        .map(|entry| entry.shape.clone())
        .filter(|shape| FAMILIES.contains(&shape.family.as_str()))
        .collect();
    assert!(shapes.len() >= 35, "{} shapes", shapes.len());
    let mut inputs = usual_inputs(parse_workload(workload).expect("a workload"));
    change(&mut inputs);
    advise(&inputs, &shapes, "us-east-1").expect("a workload")
}

/// For a failure.
fn shown(advice: &Advice) -> String {
    let row = |found: &fleet::advise::ShapeAdvice| {
        let binds = found.fit.uses.first().map_or("nothing", |used| used.resource.as_str());
        format!("{} {} {:.2} USD/h, {binds}", found.fit.hosts, found.shape.name, found.usd_per_hour)
    };
    advice.best.iter().map(row).collect::<Vec<_>>().join("; ")
}

/// Checks the cheapest families and what binds the first.
#[track_caller]
fn check(text: &str, families: [&str; 3], binds: HostResource) {
    let advice = answered(text, |_| ());
    let found: Vec<&str> = advice.best.iter().map(|found| found.shape.family.as_str()).collect();
    assert_eq!(
        (found, advice.best[0].fit.uses[0].resource),
        (families.to_vec(), binds),
        "{}",
        shown(&advice)
    );
}

/// The family that is cheapest with some figures changed.
fn family(text: &str, change: impl FnOnce(&mut AdviceInputs)) -> String {
    answered(text, change).best[0].shape.family.clone()
}

const MODERATE: &str = include_str!("../workloads/moderate.toml");
const THROUGHPUT: &str = include_str!("../workloads/throughput.toml");
const HIGH_DATA: &str = include_str!("../workloads/high-data.toml");
const MASSIVE_DATA: &str = include_str!("../workloads/massive-data.toml");

/// As in the report.
#[test]
fn moderate_workloads_take_r5() {
    check(MODERATE, ["r5", "r5d", "i3"], HostResource::Memory);
}

/// As in the report: i3 or i3en.
#[test]
fn massive_data_takes_large_disks() {
    check(MASSIVE_DATA, ["i3", "i3en", "r5d"], HostResource::Memory);
}

/// The report names c5, which costs twice as much here: requests take so little of a CPU that 310 GB of memory decide. With twice the CPU
/// time for each request c5 is the cheapest. By the table that was committed before the workloads, whose requests took half as long again, it
/// was 2 % behind r5.
#[test]
fn throughput_with_little_data_takes_r5_unless_requests_take_twice_as_long() {
    check(THROUGHPUT, ["r5", "r5d", "i3en"], HostResource::Cpu);
    let slower = |inputs: &mut AdviceInputs| {
        let costs = inputs.costs_and_assumptions().into_iter();
        costs.filter(|input| input.name.ends_with("_us")).for_each(|input| input.figure.value *= 2.0);
    };
    assert_eq!(family(THROUGHPUT, slower), "c5");
    assert_eq!(family(THROUGHPUT, |inputs| inputs.workload.items.value *= 1.2), "r5");
}

/// The report names r5d, whose disks are too small here: i3 costs a quarter less. At the high end of `hot_items` memory binds, which is
/// cheaper with r5d. A strict target rules flash out.
#[test]
fn high_data_is_between_i3_and_r5d_by_how_much_is_hot() {
    check(HIGH_DATA, ["i3", "i3en", "r5d"], HostResource::Memory);
    let advice = answered(HIGH_DATA, |_| ());
    assert_eq!(advice.best[2].fit.uses[0].resource, HostResource::DiskSpace);
    let hot = |share: f64| {
        family(HIGH_DATA, |inputs| {
            inputs.workload.hot_items.as_mut().expect("the workload has it").value = share;
        })
    };
    assert_eq!([hot(0.05), hot(0.22)], ["i3", "r5d"]);
    assert_eq!(family(HIGH_DATA, |inputs| inputs.workload.p99_ms = InputFigure::chosen(0.8)), "r5");
}

/// Whatever decides is said: the family's figures come first.
#[test]
fn what_decides_comes_first() {
    let advice = answered(THROUGHPUT, |_| ());
    let changes = |effect: &InputEffect| (effect.changes_family, effect.cost_change);
    assert!(changes(&advice.effects[0]).1 > 0.1, "{}", shown(&advice));
    assert!(
        advice.effects.windows(2).all(|pair| changes(&pair[0]) >= changes(&pair[1])),
        "{}",
        shown(&advice)
    );
    for text in [MODERATE, THROUGHPUT, HIGH_DATA, MASSIVE_DATA] {
        let advice = answered(text, |_| ());
        for found in &advice.best {
            let (low, high) = found.hosts_range;
            assert!((low..=high).contains(&found.fit.hosts), "{}", shown(&advice));
            assert!(found.fit.unknown.iter().any(|unknown| unknown.what == "packets per second"));
        }
    }
}
