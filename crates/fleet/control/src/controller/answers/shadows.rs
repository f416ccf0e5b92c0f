//! The document of shadows: what all routers together have found about each, and what a gate says.

use std::fmt::Write;

use admin::api::ApiReply;
use fleet::figures::shadow::{GateState, ReplyTimes, ShadowGate, ShadowSums, ShadowWindow};
use fleet::{ClusterName, FleetContent, ShadowPolicy};
use serde::Serialize;
use serde_json::json;
use stdx::words::counted;

use super::figures::FiguresSource;
use super::replies::{document, refusal};
use crate::service::questions::ShadowsQuestion;

/// Percentiles that are told, by the names that pictures have for them.
const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

#[derive(Serialize)]
struct ShadowRow<'c> {
    shadow: String,
    #[serde(flatten)]
    policy: &'c ShadowPolicy,
    more_requests: Option<f64>,
    /// Routers whose routes have it, and those of them that tell what they compare.
    routers_reading: usize,
    routers_telling: usize,
    /// What was compared; none if no router has told of it.
    found: Option<ShadowFound>,
}

#[derive(Serialize)]
struct ShadowFound {
    counted_s: u64,
    compared: u64,
    differed: u64,
    differed_share: Option<f64>,
    other_outcomes: u64,
    other_values: u64,
    other_sizes: u64,
    normal_hits: u64,
    shadow_hits: u64,
    normal_us: serde_json::Value,
    shadow_us: serde_json::Value,
}

/// The answer to a question.
pub(crate) fn shadows(source: &FiguresSource<'_>, question: &ShadowsQuestion) -> ApiReply {
    let content = source.view.content();
    if let Some(cluster) = question.cluster.as_ref().filter(|cluster| content.cluster(cluster).is_none()) {
        return refusal(
            404,
            &format!("there is no cluster {cluster}\n  hint: `control policy show` lists them"),
        );
    }
    let is_asked = |shadow: &&ShadowPolicy| {
        question.cluster.as_ref().is_none_or(|asked| shadow.from == *asked || shadow.to == *asked)
    };
    let all = content.clusters.iter().filter_map(|cluster| cluster.shadow.as_ref()).filter(is_asked);
    let rows: Vec<ShadowRow<'_>> =
        all.map(|shadow| source.shadow(&content, shadow, question.within_s)).collect();
    let mut text = String::new();
    write_rows(&mut text, &rows, question).expect("writing to memory does not fail");
    let gate = question.gate.as_ref().map(|gate| {
        let state = source.gate_state(gate);
        writeln!(text, "gate {gate}\n  {}: {}", state.word(), state.text())
            .expect("writing to memory does not fail");
        json!({"gate": gate.to_string(), "state": state.word(), "why": state.text()})
    });
    let json = json!({"unix_s": source.unix_s, "within_s": question.within_s, "shadows": rows, "gate": gate});
    document(text, json)
}

impl FiguresSource<'_> {
    /// What a gate says at this moment: a change of hosts asks it before it begins a wave.
    pub(crate) fn gate_state(&self, gate: &ShadowGate) -> GateState {
        let current = self.view.current();
        let cluster = current.and_then(|current| current.content.cluster(&gate.from));
        let present = cluster.and_then(|cluster| cluster.shadow.as_ref());
        let window = present.and_then(|shadow| self.window(shadow, gate.within_s));
        gate.judge(present, window.as_ref())
    }

    fn window(&self, shadow: &ShadowPolicy, within_s: u64) -> Option<ShadowWindow> {
        self.agents.figures().book().compared().window(shadow, within_s, self.now)
    }

    fn shadow<'c>(&self, content: &FleetContent, shadow: &'c ShadowPolicy, within_s: u64) -> ShadowRow<'c> {
        let name = shadow.name();
        let views: Vec<&fleet::ViewName> = content.views_of_shadow(shadow).map(|view| &view.name).collect();
        let routers = self.agents.iter().flat_map(|(_, record)| &record.report().routers);
        ShadowRow {
            policy: shadow,
            more_requests: shadow.more_requests(),
            routers_reading: routers.filter(|router| views.contains(&&router.view)).count(),
            routers_telling: self.agents.figures().book().compared().telling(&name, self.now),
            found: self.window(shadow, within_s).map(|window| ShadowFound::of(&window)),
            shadow: name,
        }
    }
}

impl ShadowFound {
    fn of(window: &ShadowWindow) -> ShadowFound {
        let sums: &ShadowSums = &window.sums;
        let times = |times: &ReplyTimes| {
            let known =
                PERCENTILES.iter().map(|(name, part)| ((*name).to_owned(), json!(times.below_us(*part))));
            serde_json::Value::Object(known.collect())
        };
        ShadowFound {
            counted_s: window.counted_s,
            compared: sums.compared,
            differed: sums.differed(),
            differed_share: sums.share_differed(),
            other_outcomes: sums.other_outcomes,
            other_values: sums.other_values,
            other_sizes: sums.other_sizes,
            normal_hits: sums.hits[0],
            shadow_hits: sums.hits[1],
            normal_us: times(&sums.normal),
            shadow_us: times(&sums.shadow),
        }
    }
}

fn write_rows(text: &mut String, rows: &[ShadowRow<'_>], question: &ShadowsQuestion) -> std::fmt::Result {
    if rows.is_empty() {
        let of = question.cluster.as_ref().map_or(String::new(), |name: &ClusterName| format!(" of {name}"));
        return writeln!(text, "the policy in force has no shadow{of}");
    }
    for row in rows {
        let (telling, reading) = (row.routers_telling, counted(row.routers_reading, "router"));
        writeln!(text, "{}: {}", row.shadow, row.policy.sentence())?;
        writeln!(text, "  {telling} of {reading} tell what they compare")?;
        match &row.found {
            None => writeln!(
                text,
                "  nothing is known: routers need --compare-shadows, and `metrics` in their agent's file"
            )?,
            Some(found) => write_found(text, row.policy, found)?,
        }
    }
    Ok(())
}

fn write_found(text: &mut String, policy: &ShadowPolicy, found: &ShadowFound) -> std::fmt::Result {
    let ShadowFound { compared, differed, counted_s, .. } = found;
    let share = found.differed_share.map_or(String::new(), |share| format!(" ({:.3} %)", share * 100.0));
    writeln!(text, "  {compared} replies compared in the last {counted_s} s, {differed} differ{share}")?;
    let (outcomes, values, sizes) = (found.other_outcomes, found.other_values, found.other_sizes);
    writeln!(text, "  by outcome {outcomes}, by value {values}, by size {sizes}")?;
    writeln!(
        text,
        "  hits: {} of {}, {} of {}",
        found.normal_hits, policy.from, found.shadow_hits, policy.to
    )?;
    writeln!(text, "  {:<16} {}", "TIME", PERCENTILES.map(|(name, _)| format!("{name:>9}")).concat())?;
    for (name, times) in [(&policy.from, &found.normal_us), (&policy.to, &found.shadow_us)] {
        let cells = PERCENTILES.map(|(name, _)| match times[name].as_f64() {
            Some(us) => format!("{:>9}", format!("{us:.0} µs")),
            None => format!("{:>9}", "–"),
        });
        writeln!(text, "  {:<16} {}", name.as_str(), cells.concat())?;
    }
    Ok(())
}
