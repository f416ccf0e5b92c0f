//! The outcome of a warm upgrade as text and as JSON.

use kube::{PodEnding, PodOutcome, UpgradeOutcome, UpgradeResult};
use serde_json::{Value, json};

/// One line for what has happened, and for a halt its reason and the way on. What was done to each pod was said when it was done.
pub(super) fn text(outcome: &UpgradeOutcome) -> String {
    let UpgradeOutcome { image, pods, pods_in_all, result } = outcome;
    let done = format!("{} of {pods_in_all} servers", pods.len());
    match result {
        UpgradeResult::Done if pods.is_empty() => "there are no servers\n".to_owned(),
        UpgradeResult::Done => {
            let restarted = pods.iter().filter(|pod| pod.ending != PodEnding::AsWanted).count();
            format!(
                "all {} servers have {image} and its flags; {restarted} of them were restarted\n",
                pods.len()
            )
        }
        UpgradeResult::Shown => "nothing was changed\n".to_owned(),
        UpgradeResult::Halted(at, halt) => {
            format!("halted at {at}, with {done} done: {}\n  way on: {}\n", halt.why, halt.way_on)
        }
        UpgradeResult::Overtaken => {
            format!(
                "ended with {done} done: the StatefulSet wants another image or other flags by now; run this again\n"
            )
        }
        UpgradeResult::Interrupted => {
            format!("ended by a signal, with {done} done; run again, it goes on from there\n")
        }
    }
}

/// The same as one object.
pub(super) fn json(outcome: &UpgradeOutcome) -> String {
    let UpgradeOutcome { image, pods, pods_in_all, result } = outcome;
    let (word, halt) = match result {
        UpgradeResult::Done => ("done", Value::Null),
        UpgradeResult::Shown => ("shown", Value::Null),
        UpgradeResult::Halted(at, halt) => {
            ("halted", json!({ "pod": at, "why": halt.why, "way_on": halt.way_on }))
        }
        UpgradeResult::Overtaken => ("overtaken", Value::Null),
        UpgradeResult::Interrupted => ("interrupted", Value::Null),
    };
    let pods: Vec<Value> = pods.iter().map(pod).collect();
    format!(
        "{}\n",
        json!({ "result": word, "image": image, "servers": pods_in_all, "pods": pods, "halt": halt })
    )
}

fn pod(outcome: &PodOutcome) -> Value {
    let (word, before, restored) = match &outcome.ending {
        PodEnding::AsWanted => ("as_wanted", None, None),
        PodEnding::FlagsUnknown => ("flags_unknown", None, None),
        PodEnding::Upgraded { before, restored } => ("restarted", *before, *restored),
        PodEnding::Would(_) => ("shown", None, None),
    };
    json!({
        "pod": outcome.pod,
        "ending": word,
        "items_before": before,
        "items_restored": restored,
        "seconds": outcome.took.as_secs_f64(),
        "outdated": outcome.outdated,
        "text": outcome.ending.text(),
    })
}
