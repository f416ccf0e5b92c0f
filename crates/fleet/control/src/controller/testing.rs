//! Small fleets for tests of single parts: generations of one cluster, and what agents say.

use fleet::{Generation, Inventory, TextDigest};
use serde_json::{Value, json};
use stdx::clock::Now;

use super::observing::agents::Agents;
use super::register_mirror::FleetView;
use super::rollout::published::published;
use crate::service::turn::{MemberReport, RouterReport, TurnReport};

/// A slot with this member, `m1` at `10.0.0.1:1` and so on, and these further fields.
pub(crate) fn slot(number: usize, member: usize, more: Value) -> Value {
    let mut slot =
        json!({"id": format!("s{number}"), "member": format!("m{member}"), "address": address(member)});
    let Value::Object(more) = more else { return slot };
    slot.as_object_mut().expect("it is one").extend(more);
    slot
}

/// A generation behind the one before, of a cluster `web` and a view `main`.
pub(crate) fn generation(number: u64, slots: &[Value], routes: &str) -> Generation {
    let cluster = json!({"name": "web", "pool": {}, "slots": slots});
    let routes = format!("{{\"route\": \"{routes}\"}}");
    let view = json!({"name": "main", "clusters": [], "routes": routes, "pools_at": 1});
    let parent = number.checked_sub(1).filter(|parent| *parent > 0);
    let json =
        json!({"number": number, "parent": parent, "reason": "", "clusters": [cluster], "views": [view]});
    serde_json::from_value(json).expect("a generation")
}

/// What the register has after these generations, the last of which is in force, with four members.
pub(crate) fn view(generations: &[Generation]) -> FleetView {
    let member = |number: usize| {
        let (id, host, address) = (format!("m{number}"), format!("h{number}"), address(number));
        serde_json::from_value(json!({"id": id, "host": host, "zone": "a", "address": address}))
            .expect("a member")
    };
    let inventory = Inventory::new((1..=4).map(member)).expect("an inventory");
    FleetView::of(inventory, generations)
}

/// What the routers of the view `main` read of a generation.
pub(crate) fn digest(generation: &Generation) -> TextDigest {
    let (texts, _) = published(generation.number, &generation.content);
    texts.digests.into_values().next().expect("there is a view")
}

/// Takes a turn of a host whose member was emptied by this order, and whose router has loaded a generation.
pub(crate) fn turn(
    agents: &mut Agents,
    (host, turn): (usize, u64),
    flushes: u64,
    loaded: Option<&Generation>,
) {
    let mut report = report(host, turn);
    report.members[0].flushes = flushes;
    report.routers[0].generation = loaded.map(|generation| generation.number);
    report.routers[0].loaded = loaded.map(digest);
    agents.take(report, true, Now::at_ms(0)).expect("it is a later one");
}

/// A turn of a host with a member and a router.
pub(crate) fn report(host: usize, turn: u64) -> TurnReport {
    let router = json!({
        "router": format!("r{host}"), "view": "main", "generation": null, "loaded": null, "text": "loaded",
    });
    let router: RouterReport = serde_json::from_value(router).expect("a router");
    let member = json!({"member": format!("m{host}"), "process": {"running": {"pid": 1}}, "flushes": 0});
    let member: MemberReport = serde_json::from_value(member).expect("a member");
    let json = json!({"host": format!("h{host}"), "zone": "a", "boot": 1, "turn": turn});
    let mut report: TurnReport = serde_json::from_value(json).expect("a turn");
    (report.routers, report.members) = (vec![router], vec![member]);
    report
}

fn address(member: usize) -> String {
    format!("10.0.0.{member}:1")
}
