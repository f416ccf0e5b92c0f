//! Metrics of a watch, for node_exporter's textfile collector.

use std::collections::BTreeMap;

use stdx::exposition::{Exposition, FamilyKind};

use super::{Stance, Watch};
use crate::Setting;

use FamilyKind::{Counter, Gauge};

/// The text of a `.prom` file. Counters begin with the watch; `unix_s` is the time of the last look.
pub fn prometheus(watch: &Watch, unix_s: u64) -> String {
    let mut text = Exposition::default();
    let drifted = watch.kept.values().filter(|kept| kept.said.is_some()).count();
    text.single("evenkeel_tune_watch_settings", Gauge, "How many settings are watched.", watch.kept.len());
    let help = "How many of them are not as they should be.";
    text.single("evenkeel_tune_watch_drifted", Gauge, help, drifted);
    let help = "How often a setting was found changed, by cause.";
    let mut family = text.family("evenkeel_tune_watch_drifts_total", Counter, help);
    for ((setting, cause), count) in &watch.counts.drifts {
        family.sample(&[("setting", &setting.to_string()), ("cause", cause.word())], count);
    }
    let help = "How often it was set again.";
    by_setting(&mut text, "evenkeel_tune_watch_repairs_total", help, &watch.counts.repairs);
    let help = "How often it could not be set again.";
    by_setting(&mut text, "evenkeel_tune_watch_repair_failures_total", help, &watch.counts.failures);
    let help = "Settings that are left to the program that keeps changing them.";
    let backed_off = |stance: &Stance| matches!(stance, Stance::BackedOff { .. });
    of_stance(&mut text, "evenkeel_tune_watch_backed_off", help, watch, backed_off);
    let help = "Settings that are left at a value that a user or a program has chosen.";
    let stepped_aside = |stance: &Stance| *stance == Stance::SteppedAside;
    of_stance(&mut text, "evenkeel_tune_watch_stepped_aside", help, watch, stepped_aside);
    text.single("evenkeel_tune_watch_looked_timestamp_seconds", Gauge, "When the last look was.", unix_s);
    text.finish()
}

fn by_setting(text: &mut Exposition, name: &str, help: &str, counts: &BTreeMap<Setting, u64>) {
    let mut family = text.family(name, Counter, help);
    for (setting, count) in counts {
        family.sample(&[("setting", &setting.to_string())], count);
    }
}

fn of_stance(
    text: &mut Exposition,
    name: &str,
    help: &str,
    watch: &Watch,
    is_wanted: impl Fn(&Stance) -> bool,
) {
    let mut family = text.family(name, Gauge, help);
    for (setting, _) in watch.kept.iter().filter(|(_, kept)| is_wanted(&kept.stance)) {
        family.sample(&[("setting", &setting.to_string())], 1);
    }
}
