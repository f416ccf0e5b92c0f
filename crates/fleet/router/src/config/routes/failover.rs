//! FailoverRoute: its limit, its policy, its errors.

use super::fields::{failover_errors, numbers, outcomes, texts};
use super::{Compiler, Definition, vocabulary};
use crate::config::error::ConfigError;
use crate::config::json::{Json, Object};
use crate::hash::{HashDescription, Selector};
use crate::message::outcome::Outcome;
use crate::plan::NodeId;
use crate::routes::substitutes::failover::{
    DeterministicOrder, Failover, FailoverErrors, FailoverOrder, FailoverSettings,
};
use crate::shared::route_state::{FailoverLimit, StateSpec};

/// Failovers that the rate does not limit, unless the configuration says how many: mcrouter's number.
const BURST: f64 = 1000.0;

const POLICIES: [&str; 4] =
    ["FailoverInOrderPolicy", "LeastFailuresPolicy", "DeterministicOrderPolicy", "RendezvousPolicy"];

impl Compiler<'_, '_> {
    pub(super) fn failover_route(&mut self, definition: Definition<'_>) -> Result<Vec<NodeId>, ConfigError> {
        let children = self.children(definition)?;
        self.failover_over(children, definition)
    }

    /// A FailoverRoute over these children, with the parameters of an object.
    pub(super) fn failover_over(
        &mut self,
        children: Vec<NodeId>,
        definition: Definition<'_>,
    ) -> Result<Vec<NodeId>, ConfigError> {
        if children.len() < 2 {
            return self.few(children, definition.json());
        }
        let settings = match definition.object()? {
            Some(object) => self.failover_settings(&object, children.len())?,
            None => FailoverSettings::in_order(FailoverErrors::default()),
        };
        Ok(vec![self.with_children(Failover(Box::new(settings)), children, definition.json())?])
    }

    pub(super) fn failover_settings(
        &mut self,
        object: &Object<'_>,
        children: usize,
    ) -> Result<FailoverSettings, ConfigError> {
        if let Some(json) = object.get("enable_lease_pairing")
            && json.bool("`enable_lease_pairing`")?
        {
            return Err(
                json.error("`enable_lease_pairing` is not supported: clients cannot send lease commands")
            );
        }
        for (name, fields) in
            [("failover_limit", vocabulary::FAILOVER_LIMIT), ("failover_errors", vocabulary::FAILOVER_ERRORS)]
        {
            if let Some(part) = object.get(name).and_then(|json| json.object("a part of a failover").ok()) {
                self.note_unknown(&part, fields);
            }
        }
        let mut settings = FailoverSettings {
            has_tag: object.bool("failover_tag")?.unwrap_or(false),
            ..FailoverSettings::in_order(failover_errors(object.get("failover_errors"))?)
        };
        if let Some(policy) = object.get("failover_policy") {
            self.policy(&mut settings, object, policy, children)?;
        }
        let limit = object.get("failover_limit").map(failover_limit).transpose()?;
        let counts = matches!(settings.order, FailoverOrder::LeastFailures(_));
        if limit.is_some() || counts {
            let counted = if counts { children } else { 0 };
            settings.state = Some(self.add_state(StateSpec::Failover { limit, counted }));
        }
        Ok(settings)
    }

    fn policy(
        &mut self,
        settings: &mut FailoverSettings,
        route: &Object<'_>,
        json: &Json,
        children: usize,
    ) -> Result<(), ConfigError> {
        let policy = json.object("`failover_policy`")?;
        self.note_unknown(&policy, vocabulary::FAILOVER_POLICY);
        let kind = policy.require("type")?;
        settings.order = match kind.string("`type` of a failover_policy")? {
            "FailoverInOrderPolicy" => {
                settings.tries_max = self.tries(&policy, "max_tries", children)?.unwrap_or(usize::MAX) as u32;
                settings.excluded = excluded(&policy)?;
                FailoverOrder::InOrder
            }
            "LeastFailuresPolicy" => {
                policy.require("max_tries")?;
                FailoverOrder::LeastFailures(self.tries(&policy, "max_tries", children)?.unwrap_or(children))
            }
            "DeterministicOrderPolicy" => {
                policy.require("max_tries")?;
                policy.require("max_error_tries")?;
                let asked_max = self.tries(&policy, "max_tries", children)?.unwrap_or(children);
                let tries = self.tries(&policy, "max_error_tries", asked_max)?.unwrap_or(asked_max);
                settings.tries_max = tries as u32;
                settings.excluded = excluded(&policy)?;
                FailoverOrder::Deterministic(Box::new(DeterministicOrder {
                    hash: deterministic_hash(route, &policy, json, children)?,
                    asked_max,
                    has_domains: policy.bool("enable_failure_domains")?.unwrap_or(false),
                    ignores_normal: policy.bool("ignore_normal_reply_index")?.unwrap_or(false),
                }))
            }
            "RendezvousPolicy" => {
                FailoverOrder::Rendezvous(Box::new(rendezvous(route, &policy, json, children)?))
            }
            found => {
                let message = format!("expected one of {}, found policy `{found}`", POLICIES.join(", "));
                return Err(kind.error(message));
            }
        };
        Ok(())
    }

    /// A number of tries, at most `max`: a larger one is lowered, with a line, as in mcrouter.
    fn tries(&mut self, policy: &Object<'_>, name: &str, max: usize) -> Result<Option<usize>, ConfigError> {
        let Some(tries) = policy.integer(name, 1..=i64::from(u32::MAX))? else { return Ok(None) };
        let tries = tries as usize;
        if tries > max {
            self.note(format!(
                "`{name}` of a failover_policy is {tries}: taken as {max}, of which there are no more"
            ));
        }
        Ok(Some(tries.min(max)))
    }
}

fn excluded(policy: &Object<'_>) -> Result<Box<[Outcome]>, ConfigError> {
    Ok(policy
        .get("exclude_errors")
        .map(|json| outcomes(json, "`exclude_errors`"))
        .transpose()?
        .unwrap_or_default())
}

/// `failover_limit`. Numbers out of their range are moved into it, as in mcrouter.
fn failover_limit(json: &Json) -> Result<FailoverLimit, ConfigError> {
    const ANY: std::ops::RangeInclusive<f64> = f64::MIN..=f64::INFINITY;
    let object = json.object("`failover_limit`")?;
    let rate = object.require("rate")?.number("`rate` of a failover_limit", ANY)?.clamp(0.0, 1.0);
    let burst =
        object.get("burst").map(|burst| burst.number("`burst` of a failover_limit", ANY)).transpose()?;
    Ok(FailoverLimit { rate, burst: burst.unwrap_or(BURST).max(1.0) })
}

/// The hash of a DeterministicOrderPolicy: `hash` of the route, else of the policy, else Ch3.
fn deterministic_hash(
    route: &Object<'_>,
    policy: &Object<'_>,
    json: &Json,
    children: usize,
) -> Result<Selector, ConfigError> {
    let place = route.get("hash").or_else(|| policy.get("hash"));
    let hash = place.map(|hash| hash.object("`hash` of a DeterministicOrderPolicy")).transpose()?;
    let function = match hash.and_then(|hash| hash.get("hash_func")) {
        None => "Ch3",
        Some(json) => match json.string("`hash_func`")? {
            known @ ("Ch3" | "WeightedCh3") => known,
            found => return Err(json.error(format!("expected Ch3 or WeightedCh3, found `{found}`"))),
        },
    };
    let weights = hash.unwrap_or(*policy).get("weights").map(numbers).transpose()?;
    let description =
        HashDescription { function, salt: "", count: children, weights: weights.as_deref(), tags: None };
    Selector::new(&description).map_err(|error| place.unwrap_or(json).error(error.to_string()))
}

/// The hash of a RendezvousPolicy, over all children but the first.
fn rendezvous(
    route: &Object<'_>,
    policy: &Object<'_>,
    json: &Json,
    children: usize,
) -> Result<Selector, ConfigError> {
    let function = match route.get("hash").and_then(Json::as_str) {
        Some("WeightedRendezvous") => "WeightedRendezvous",
        _ => "Rendezvous",
    };
    let tags = route.get("tags").or_else(|| policy.get("tags")).map(texts).transpose()?;
    let weights = policy.get("weights").map(numbers).transpose()?;
    let description = HashDescription {
        function,
        salt: "",
        count: children - 1,
        weights: weights.as_deref(),
        tags: tags.as_deref(),
    };
    Selector::new(&description).map_err(|error| json.error(error.to_string()))
}
