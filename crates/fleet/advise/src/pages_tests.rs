//! The pages of advice: files that they show are accepted, and assumptions that they list are those of the model.

use std::path::Path;

use fleet::advise::running::{GrowthRange, HostUse, ResourceState, UseLimit, UseTrend, UsedResource};

use crate::running::{RunningGroup, running_text};
use crate::testing::moderate;
use crate::{parse_workload, replace_costs, usual_inputs};

fn page(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/advise");
    std::fs::read_to_string(folder.join(name)).expect("the page")
}

/// The blocks of TOML, in their order.
fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```toml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn files_of_the_page_are_accepted() {
    let blocks = blocks(&page("README.md"));
    let [workload, costs] = blocks.as_slice() else { panic!("{} blocks", blocks.len()) };
    let workload = parse_workload(workload).expect("a workload");
    assert_eq!(workload.connections.value, 8_000.0);
    let mut inputs = usual_inputs(workload);
    replace_costs(&mut inputs, costs).expect("costs");
    assert_eq!((inputs.costs.get_us.value, inputs.assumptions.cpu_ceiling.value), (9.8, 0.7));
}

/// A number as a page writes it.
fn written(value: f64) -> String {
    match value >= 1_000.0 {
        true => format!("{},{:03}", value as u64 / 1_000, value as u64 % 1_000),
        false => value.to_string(),
    }
}

#[test]
fn the_page_lists_every_assumption_with_its_range() {
    let page = page("model.md");
    let mut inputs = usual_inputs(moderate());
    let assumed = inputs.costs_and_assumptions();
    let assumed = assumed.iter().filter(|input| input.figure.source.starts_with("assumed: "));
    let mut count = 0;
    for input in assumed {
        count += 1;
        let row =
            page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{}`", input.name)));
        let row = row.unwrap_or_else(|| panic!("model.md does not list {}", input.name));
        let cells: Vec<&str> = row.split(" | ").collect();
        let figure = &*input.figure;
        assert!(cells[1].split(", ").any(|value| value == written(figure.value)), "{}: {row}", input.name);
        let range = format!("{}–{}", written(figure.low), written(figure.high));
        assert!(cells[2].split(", ").any(|found| found == range), "{}: {range}: {row}", input.name);
    }
    assert_eq!(count, 18);
}

/// A host as the page shows it: with a known limit, growth and a level.
fn shown(resource: UsedResource, level: f64, limit: Option<f64>, growth: [f64; 3]) -> ResourceState {
    let [low, middle, high] = growth;
    let per_week = GrowthRange { low, middle, high };
    ResourceState {
        used: Some(level / 2.0),
        limit: limit.map(|value| UseLimit { value, source: "r5.2xlarge in the catalogue".to_owned() }),
        trend: Some(Ok(UseTrend { level, per_week, days: 42, since: None })),
        ..ResourceState::unknown(resource)
    }
}

#[test]
fn the_page_shows_what_is_left_as_it_is_written() {
    let resources = vec![
        shown(UsedResource::Cpu, 3.1, Some(6.4), [0.001, 0.011, 0.02]),
        shown(UsedResource::Packets, 61_200.0, None, [0.04, 0.052, 0.06]),
        shown(UsedResource::Bandwidth, 238e6, Some(312.5e6), [0.035, 0.052, 0.075]),
    ];
    let host = HostUse {
        host: "h17".to_owned(),
        shape: Some("r5.2xlarge".to_owned()),
        servers: vec!["m17".to_owned()],
        instances: Vec::new(),
        resources,
        met: Vec::new(),
    };
    let text = running_text(&[RunningGroup { cluster: Some("web".to_owned()), hosts: vec![host] }]);
    // The notes below the table are told in words there.
    let table: Vec<&str> = text.lines().take(8).collect();
    assert!(page("README.md").contains(&format!("```\n{}\n```", table.join("\n"))), "{text}");
}

#[test]
fn the_page_has_every_word_of_the_outlook() {
    let page = page("README.md");
    let words = [
        "allowance_met",
        "reached",
        "full",
        "binds",
        "not_before",
        "not_for_a_year",
        "no_trend",
        "limit_unknown",
        "use_unknown",
    ];
    for word in words {
        assert!(page.contains(&format!("`{word}`")), "{word}");
    }
}
