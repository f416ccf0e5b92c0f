//! Metrics of a watch, for node_exporter's textfile collector.

use std::fmt::Write;

use super::{Stance, Watch};
use crate::text::escaped;

/// The text of a `.prom` file. Counters begin with the watch; `unix_s` is the time of the last look.
pub fn prometheus(watch: &Watch, unix_s: u64) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, samples: Vec<(String, u64)>| {
        let _ = writeln!(
            text,
            "# HELP evenkeel_tune_watch_{name} {help}\n# TYPE evenkeel_tune_watch_{name} {kind}"
        );
        for (labels, value) in samples {
            let _ = writeln!(text, "evenkeel_tune_watch_{name}{labels} {value}");
        }
    };
    let one = |value: u64| vec![(String::new(), value)];
    let label = |setting: &dyn std::fmt::Display| format!("setting=\"{}\"", escaped(&setting.to_string()));
    let labelled = |counts: &std::collections::BTreeMap<crate::Setting, u64>| {
        counts.iter().map(|(setting, count)| (format!("{{{}}}", label(setting)), *count)).collect()
    };
    let drifts = watch.counts.drifts.iter().map(|((setting, cause), count)| {
        (format!("{{{},cause=\"{}\"}}", label(setting), cause.word()), *count)
    });
    let of_stance = |wanted: fn(&Stance) -> bool| {
        let kept = watch.kept.iter().filter(|(_, kept)| wanted(&kept.stance));
        kept.map(|(setting, _)| (format!("{{{}}}", label(setting)), 1)).collect()
    };
    let drifted = watch.kept.values().filter(|kept| kept.said.is_some()).count() as u64;
    family("settings", "gauge", "How many settings are watched.", one(watch.kept.len() as u64));
    family("drifted", "gauge", "How many of them are not as they should be.", one(drifted));
    family("drifts_total", "counter", "How often a setting was found changed, by cause.", drifts.collect());
    family("repairs_total", "counter", "How often it was set again.", labelled(&watch.counts.repairs));
    family(
        "repair_failures_total",
        "counter",
        "How often it could not be set again.",
        labelled(&watch.counts.failures),
    );
    family(
        "backed_off",
        "gauge",
        "Settings that are left to the program that keeps changing them.",
        of_stance(|stance| matches!(stance, Stance::BackedOff { .. })),
    );
    family(
        "stepped_aside",
        "gauge",
        "Settings that are left at a value that a user or a program has chosen.",
        of_stance(|stance| *stance == Stance::SteppedAside),
    );
    family("looked_timestamp_seconds", "gauge", "When the last look was.", one(unix_s));
    text
}
