//! JSON of `evenkeel tune status`, for programs: what the text says, in fields.

use serde_json::{Value, json};
use tuner::persist::store::{self, FileState};
use tuning::status::{Overdue, PlanPhase, PlanStatus, SettingState, SettingStatus, TuneStatus};

/// The whole status.
pub(super) fn status(status: &TuneStatus) -> Value {
    let persists = match &status.persists {
        Ok(status) => persists(status),
        Err(error) => json!({"unknown": error.with_causes()}),
    };
    json!({
        "plans": status.plans.iter().map(plan).collect::<Vec<_>>(),
        "overdue": status.overdue.iter().map(overdue).collect::<Vec<_>>(),
        "unread": status.doubts.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "persists": persists,
        "is_whole": status.is_whole(),
    })
}

fn plan(plan: &PlanStatus) -> Value {
    let (phase, left_s) = match &plan.phase {
        PlanPhase::AtWork(_) => ("at_work", None),
        PlanPhase::Interrupted => ("interrupted", None),
        PlanPhase::Waiting { left_s } => ("waiting", Some(*left_s)),
        PlanPhase::InForce => ("in_force", None),
        PlanPhase::Undone => ("undone", None),
    };
    json!({
        "journal": plan.journal, "label": plan.label, "phase": phase, "left_s": left_s, "is_as_before": plan.is_as_before(),
        "settings": plan.settings.iter().map(setting).collect::<Vec<_>>(),
    })
}

fn setting(one: &SettingStatus) -> Value {
    let (state, reads) = match &one.found {
        SettingState::Holds { .. } => ("holds", None),
        SettingState::Drifted { reads, .. } => ("drifted", Some(reads.clone())),
        SettingState::Unreadable(error) => ("unreadable", Some(error.to_string())),
    };
    json!({"setting": one.setting.to_string(), "wanted": one.wanted, "state": state, "reads": reads})
}

fn overdue(plan: &Overdue) -> Value {
    json!({"journal": plan.journal, "network": plan.network})
}

fn persists(status: &store::Status) -> Value {
    let file = |(file, state): &(tuner::persist::PersistentFile, FileState)| {
        let state = match state {
            FileState::AsWritten => "as_written",
            FileState::Edited => "edited",
            FileState::Missing => "missing",
        };
        json!({"path": file.path, "state": state})
    };
    json!({"interrupted": status.interrupted, "files": status.files.iter().map(file).collect::<Vec<_>>()})
}
