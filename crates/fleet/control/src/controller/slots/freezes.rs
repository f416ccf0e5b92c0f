//! Freezes: what may not change until a person has thawed it.

use admin::api::ApiReply;
use fleet::{FleetContent, MemberId, ZoneName};

use crate::controller::answers::replies::refusal;
use crate::controller::register_mirror::FleetView;
use crate::service::questions::FreezeScope;

/// The refusal of a change of what is frozen.
pub(crate) fn frozen_by(view: &FleetView, new: &FleetContent) -> Option<ApiReply> {
    let (scope, why) = frozen_scope_of(view, new)?;
    let hint = format!("hint: `control thaw {scope} --why …` when that is over");
    Some(refusal(409, &format!("{scope} is frozen: {why}\n  {hint}")))
}

/// The first scope that a content would change although it is frozen, and why it is.
pub(crate) fn frozen_scope_of<'v>(view: &'v FleetView, new: &FleetContent) -> Option<&'v (String, String)> {
    let old = view.content();
    view.frozen().iter().find(|(scope, _)| match scope.parse() {
        Ok(FreezeScope::Fleet) => true,
        Ok(FreezeScope::Cluster(name)) => old.cluster(&name) != new.cluster(&name),
        Ok(FreezeScope::Zone(zone)) => is_zone_touched(view, &old, new, &zone),
        // It is not among the frozen scopes: those who choose members know it.
        Ok(FreezeScope::Quarantine(_)) | Err(_) => false,
    })
}

/// The refusal to take a member's slot from it, if it is frozen: whatever else is in the way.
pub(crate) fn frozen_slot_of(view: &FleetView, member: &MemberId) -> Option<ApiReply> {
    let (cluster, _) = view.slot_of(member)?;
    let zone = view.inventory().get(member).map(|member| &member.zone);
    let frozen = view.frozen().iter().find(|(scope, _)| match scope.parse() {
        Ok(FreezeScope::Fleet) => true,
        Ok(FreezeScope::Cluster(name)) => name == cluster.name,
        Ok(FreezeScope::Zone(name)) => zone == Some(&name),
        Ok(FreezeScope::Quarantine(_)) | Err(_) => false,
    });
    let (scope, why) = frozen?;
    let error = format!("{member} keeps its slot: {scope} is frozen: {why}");
    Some(refusal(409, &format!("{error}\n  hint: `control thaw {scope} --why …` when that is over")))
}

/// Whether a slot changes its member from or to one of a zone.
fn is_zone_touched(view: &FleetView, old: &FleetContent, new: &FleetContent, zone: &ZoneName) -> bool {
    let of_zone = |content: &FleetContent| -> Vec<String> {
        let slots =
            content.clusters.iter().flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)));
        let members = slots.flat_map(|(cluster, slot)| {
            let other = slot.drain.as_ref().map(|drain| &drain.other);
            [Some(&slot.member), other].into_iter().flatten().map(move |member| (cluster, slot, member))
        });
        let in_zone = members
            .filter(|(_, _, member)| view.inventory().get(member).is_some_and(|member| member.zone == *zone));
        in_zone.map(|(cluster, slot, member)| format!("{}/{}/{member}", cluster.name, slot.id)).collect()
    };
    of_zone(old) != of_zone(new)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::controller::testing::{generation, slot, view};

    #[test]
    fn what_is_frozen_keeps_its_slots_and_the_rest_may_change() {
        let now = generation(1, &[slot(0, 1, Value::Null), slot(1, 2, Value::Null)], "PoolRoute|web");
        let other = generation(2, &[slot(0, 3, Value::Null), slot(1, 2, Value::Null)], "PoolRoute|web");
        let member: MemberId = "m1".parse().expect("a name");
        for (scope, is_frozen) in [
            ("fleet", true),
            ("cluster/web", true),
            ("cluster/ads", false),
            ("zone/a", true),
            ("zone/b", false),
        ] {
            let mut view = view(std::slice::from_ref(&now));
            assert!(frozen_by(&view, &other.content).is_none() && frozen_slot_of(&view, &member).is_none());
            view.note_frozen(scope, "we look");
            assert_eq!(frozen_scope_of(&view, &other.content).is_some(), is_frozen, "{scope}");
            assert_eq!(frozen_slot_of(&view, &member).is_some(), is_frozen, "{scope}");
        }
    }
}
