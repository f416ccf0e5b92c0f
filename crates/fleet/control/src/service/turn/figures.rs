//! Figures in a turn: understood as far as they are known, bounded, and taken out of it, so that they are kept once.

use fleet::figures::shadow::limit_shadows;
use fleet::figures::{MemberTally, POOL_NAME_LEN_MAX, POOLS_PER_TALLY_MAX, RouterTally};
use fleet::{MemberId, RouterId};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::TurnReport;

/// The figures of one turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TurnFigures {
    /// Of servers.
    pub(crate) members: Vec<(MemberId, MemberTally)>,
    /// Of routers.
    pub(crate) routers: Vec<(RouterId, RouterTally)>,
}

impl TurnReport {
    /// Takes the figures out.
    pub(crate) fn take_figures(&mut self) -> TurnFigures {
        let members = self.members.iter_mut();
        let routers = self.routers.iter_mut();
        TurnFigures {
            members: members.filter_map(|one| Some((one.member.clone(), *one.figures.take()?))).collect(),
            routers: routers.filter_map(|one| Some((one.router.clone(), *one.figures.take()?))).collect(),
        }
    }

    /// The same agent with nothing on its host: what is known of a turn while it waits.
    pub(crate) fn without_members(&self) -> TurnReport {
        let TurnReport { boot, turn, seen, wait_ms, stays, .. } = *self;
        let (host, zone, texts) = (self.host.clone(), self.zone.clone(), self.texts.clone());
        let (agent, tune, changes, standard, members, routers) = Default::default();
        TurnReport {
            host,
            zone,
            boot,
            turn,
            seen,
            wait_ms,
            stays,
            agent,
            tune,
            changes,
            standard,
            texts,
            members,
            routers,
        }
    }

    /// Puts them in again.
    pub(crate) fn with_figures(mut self, figures: &TurnFigures) -> TurnReport {
        for (member, tally) in &figures.members {
            if let Some(report) = self.members.iter_mut().find(|report| report.member == *member) {
                report.figures = Some(Box::new(tally.clone()));
            }
        }
        for (router, tally) in &figures.routers {
            if let Some(report) = self.routers.iter_mut().find(|report| report.router == *router) {
                report.figures = Some(Box::new(tally.clone()));
            }
        }
        self
    }
}

/// Leaves out pools that no agent of ours tells.
pub(super) fn limit(tally: &mut RouterTally) {
    let Some(page) = &mut tally.page else { return };
    limit_shadows(&mut page.compared);
    page.pools.retain(|name, _| name.len() <= POOL_NAME_LEN_MAX && !name.contains(char::is_control));
    while page.pools.len() > POOLS_PER_TALLY_MAX {
        page.pools.pop_last();
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Understood<T> {
    Yes(T),
    No(IgnoredAny),
}

/// Figures of another version, whose fields have other types, are unknown. The turn itself counts.
pub(super) fn as_far_as_known<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    Ok(match Option::<Understood<T>>::deserialize(deserializer)? {
        Some(Understood::Yes(tally)) => Some(tally),
        Some(Understood::No(IgnoredAny)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(figures: &serde_json::Value) -> TurnReport {
        let member = json!({"member": "m1", "process": "down", "figures": figures});
        let router = json!({"router": "r1", "view": "main", "text": "loaded", "figures": figures});
        let json = json!({"host": "h1", "zone": "a", "boot": 1, "turn": 1, "members": [member], "routers": [router]});
        serde_json::from_str(&json.to_string()).expect("a turn")
    }

    #[test]
    fn figures_that_are_not_understood_are_unknown_and_the_turn_counts() {
        for wrong in [
            json!(null),
            json!(7),
            json!(["x"]),
            json!({"at": -1}),
            json!({"at": 1, "page": {"up": "x"}}),
            json!({"req": 1e30}),
        ] {
            assert_eq!(report(&wrong).take_figures(), TurnFigures::default(), "{wrong}");
        }
        let figures = report(&json!({"at": 5, "req": 7, "later": true})).take_figures();
        assert_eq!((figures.members[0].1.requests, figures.routers[0].1.requests), (Some(7), Some(7)));
    }

    #[test]
    fn figures_are_taken_out_and_put_in_again() {
        let whole = report(&json!({"at": 5, "req": 7}));
        let mut bare = whole.clone();
        let figures = bare.take_figures();
        assert!(bare.members[0].figures.is_none() && bare.routers[0].figures.is_none());
        assert_eq!(bare.with_figures(&figures), whole);
    }

    #[test]
    fn pools_that_no_agent_tells_are_left_out() {
        let pools: serde_json::Map<_, _> =
            (0..1000).map(|number| (format!("p{number}"), json!([1, 0, 0]))).collect();
        let mut json = json!({"at": 5, "page": {"pools": pools}});
        json["page"]["pools"]["x".repeat(POOL_NAME_LEN_MAX + 1)] = json!([1, 0, 0]);
        json["page"]["pools"]["\u{1b}[2J"] = json!([1, 0, 0]);
        let checked = report(&json).checked().expect("a turn").take_figures();
        let pools = &checked.routers[0].1.page.as_ref().expect("a page").pools;
        assert_eq!(pools.len(), POOLS_PER_TALLY_MAX);
        assert!(pools.keys().all(|name| name.starts_with('p')));
    }
}
