//! Reports of findings, for people and for programs.
//!
//! Values in, text out: nothing is printed here, and the caller decides about colours.

mod bars;
mod counters;
mod heat;
mod paint;
mod prometheus;
mod summary;
mod table;
mod tournament;
mod verification;
mod waits;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::observe::cpu_load::{Load, loads};
use crate::observe::cpu_model::Measured;
use crate::plan::{Plan, PlanRequest, plan};
use crate::text::wrap;
use crate::{Facts, Finding, Series};

pub use crate::text::folded::folded;
pub use bars::bars;
pub use counters::counters;
pub use heat::heat;
pub use paint::{Paint, TextStyle, Tint};
pub use prometheus::prometheus;
pub use summary::HostSummary;
pub use table::{explanation, findings, list};
pub use tournament::standings;
pub use verification::verification;
pub use waits::waits;

/// A whole diagnosis as JSON, with what `tune plan` would change because of its findings.
pub fn json(facts: &Facts, series: &Series, findings: &[Finding]) -> String {
    #[derive(Serialize)]
    struct Diagnosis<'a> {
        kernel: &'a str,
        cpus: usize,
        host: HostSummary,
        window_s: f64,
        loads: BTreeMap<u32, Load>,
        findings: &'a [Finding],
        plan: Plan,
        gaps: &'a [String],
    }
    let asked = PlanRequest { findings, measured: Measured::of(series), ..PlanRequest::default() };
    let diagnosis = Diagnosis {
        kernel: &facts.kernel.release,
        cpus: facts.online().len(),
        host: HostSummary::of(facts),
        window_s: series.window_s(),
        loads: loads(series),
        findings,
        plan: plan(facts, &asked),
        gaps: &facts.gaps,
    };
    let text = serde_json::to_string_pretty(&diagnosis).expect("numbers and texts can be written as JSON");
    text + "\n"
}

/// Host, CPUs and findings, for people.
pub fn diagnosis(facts: &Facts, series: &Series, found: &[Finding], look: TextStyle) -> String {
    let mut text = format!("{}\n", host(facts, series));
    let loads = loads(series);
    if !loads.is_empty() {
        text += &format!("\n{}", bars(&loads, look));
    }
    text += &format!("\n{}", findings(found, look));
    for gap in folded(&facts.gaps) {
        text += &wrap::hanging("not seen: ", &gap, look.columns);
    }
    text
}

/// `Linux 6.1.0 on kvm, 8 CPUs, 64 GiB; 30 s`
fn host(facts: &Facts, series: &Series) -> String {
    let platform = match (&facts.guest.hypervisor, &facts.guest.product) {
        (_, Some(product)) => format!(" on {product}"),
        (Some(hypervisor), None) => format!(" on {hypervisor}"),
        (None, None) => String::new(),
    };
    let cpus = match facts.online().len() {
        1 => "1 CPU".to_owned(),
        cpus => format!("{cpus} CPUs"),
    };
    let memory = crate::diagnose::rules::bytes(facts.memory_bytes);
    format!("Linux {}{platform}, {cpus}, {memory}; over {:.0} s", facts.kernel.release, series.window_s())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Reading, Severity};

    fn sample() -> (Facts, Series, Vec<Finding>) {
        let series = Series::new(vec![Reading::default(), Reading { at_ms: 30_000, ..Reading::default() }]);
        let finding = Finding::about(Severity::Critical, "CPU 0")
            .cause("CPU 0 handles 99 % of all received packets")
            .effect("its programs get their CPU back")
            .saw(Evidence::measured("irq + softirq, CPU 0", "80 %", 30.0).threshold("60 %"));
        (Facts::default(), series.unwrap(), vec![Finding { rule: "softirq-one-core".into(), ..finding }])
    }

    #[test]
    fn programs_read_the_same_as_people() {
        let (facts, series, findings) = sample();
        let read: serde_json::Value = serde_json::from_str(&json(&facts, &series, &findings)).unwrap();
        assert_eq!(read["window_s"], 30.0);
        assert_eq!(read["findings"][0]["rule"], "softirq-one-core");
        assert_eq!(read["findings"][0]["severity"], "critical");
        assert_eq!(read["findings"][0]["verdict"], "fixable");
        assert_eq!(read["findings"][0]["evidence"][0]["threshold"], "60 %");
        assert_eq!(read["host"]["nodes"], 0);
        assert!(read["plan"]["changes"].is_array(), "{read}");
    }

    #[test]
    fn what_could_not_be_seen_is_said() {
        let (mut facts, series, findings) = sample();
        facts.gaps.push("ring sizes of eth0: not permitted".into());
        let look = TextStyle { columns: 80, paint: Paint::Plain };
        assert!(
            diagnosis(&facts, &series, &findings, look)
                .ends_with("not seen: ring sizes of eth0: not permitted\n")
        );
    }
}
