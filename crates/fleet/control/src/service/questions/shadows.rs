//! The question for what routers have found about shadows.

use fleet::ClusterName;
use fleet::figures::shadow::{ShadowGate, WINDOW_MAX_S};

use super::Query;
use super::fault::{QuestionFault, bad};

/// The last time that is looked at unless the question says another, in seconds.
const WITHIN_S: u64 = 3_600;

/// Which shadows, over which time, and perhaps whether a gate is open.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowsQuestion {
    /// Those from or to this cluster; all if none.
    pub cluster: Option<ClusterName>,
    /// The last time, in seconds.
    pub within_s: u64,
    /// A gate, which is judged over its own time.
    pub gate: Option<ShadowGate>,
}

pub(super) fn shadows(query: &Query) -> Result<ShadowsQuestion, QuestionFault> {
    let cluster = query.text("cluster")?.map(|name| name.parse().map_err(|error| bad(format!("{error}"))));
    let within_s = query.text("within")?.map(|text| {
        let expected = || bad(format!("within: expected 60 to {WINDOW_MAX_S} seconds, found {text:?}"));
        text.parse().ok().filter(|within| (60..=WINDOW_MAX_S).contains(within)).ok_or_else(expected)
    });
    let gate = query.text("gate")?.map(|text| text.parse::<ShadowGate>().map_err(bad));
    Ok(ShadowsQuestion {
        cluster: cluster.transpose()?,
        within_s: within_s.transpose()?.unwrap_or(WITHIN_S),
        gate: gate.transpose()?,
    })
}
