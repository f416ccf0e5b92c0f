//! The pages of advice: files that they show are accepted, and assumptions that they list are those of the model.

use std::path::Path;

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
