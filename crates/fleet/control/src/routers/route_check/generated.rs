//! Routes that are generated for random policies: a router takes all of them, and keys go where they went before.

use std::fmt::Write;

use fleet::{
    FleetContent, FleetMember, FleetPlanInput, FleetPolicy, Inventory, MemberId, Replacement, SLOTS_MAX,
    SlotRecord, change_slots, plan, texts,
};
use router::Operation;
use stdx::prng::Prng;

use super::CheckedRoutes;

const POLICIES: u64 = 60;
const KEYS: usize = 150;
const OPERATIONS: [Operation; 9] = [
    Operation::Get,
    Operation::Gets,
    Operation::MetaGet,
    Operation::Set,
    Operation::Touch,
    Operation::Increment,
    Operation::Delete,
    Operation::MetaDelete,
    Operation::Append,
];

/// A policy of `web` with one view, `spares` and `copy`; whether a warm-up is in it.
fn policy(prng: &mut Prng) -> (FleetPolicy, bool) {
    let (slots, has_gutter, has_warm_up) = (1 + prng.below(12), prng.below(3) > 0, prng.below(2) > 0);
    let mut text = format!("fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = {slots}\n");
    if has_gutter {
        let exptime_s = 1 + prng.below(3600);
        let _ = writeln!(text, "gutter = {{ cluster = \"spares\", exptime_s = {exptime_s} }}");
    }
    if has_warm_up {
        text += "warm_up = { cluster = \"copy\", exptime_s = 600 }\n";
    }
    if prng.below(3) == 0 {
        let weights: Vec<String> = (0..slots).map(|_| format!("{:.2}", 0.1 + 0.9 * prng.unit())).collect();
        let _ = writeln!(text, "pool.weights = [{}]", weights.join(", "));
    }
    for other in ["spares", "copy"] {
        let _ = writeln!(text, "[[cluster]]\nname = \"{other}\"\nslots = {}", 1 + prng.below(3));
    }
    let has_shadow = prng.below(2) > 0;
    if has_shadow {
        let (end, share) = (0.1 + 0.9 * prng.unit(), 0.1 + 0.9 * prng.unit());
        text += &format!("[[cluster]]\nname = \"new\"\nslots = {}\n", 1 + prng.below(3));
        text += &format!("[[shadow]]\nfrom = \"web\"\nto = \"new\"\nkeys = [0, {end}]\nshare = {share}\n");
    }
    let route = if has_gutter || has_warm_up || has_shadow { "web" } else { "PoolRoute|web" };
    let _ = writeln!(text, "[[view]]\nname = \"main\"\nroutes = '{{\"route\": \"{route}\"}}'");
    (FleetPolicy::parse(&text).expect("a policy"), has_warm_up)
}

fn inventory() -> Inventory {
    let member = |number: usize| FleetMember {
        id: format!("m{number}").parse().expect("a name"),
        host: format!("h{number}").parse().expect("a name"),
        zone: "a".parse().expect("a name"),
        class: None,
        address: format!("m{number}:11211"),
        is_held: false,
    };
    Inventory::new((0..40).map(member)).expect("an inventory")
}

/// The content of a policy in which some slots of `web` were replaced.
fn content(policy: &FleetPolicy, prng: &mut Prng) -> FleetContent {
    let (inventory, excluded) = (inventory(), fleet::Excluded::new());
    let planned = |current: &FleetContent, wishes: &[Replacement]| {
        let input = FleetPlanInput { policy, inventory: &inventory, current, excluded: &excluded };
        match wishes {
            [] => plan(&input).expect("a plan").content,
            _ => change_slots(&input, wishes).plan.content,
        }
    };
    let first = planned(&FleetContent::default(), &[]);
    let lost = first.clusters[0].slots.iter().filter(|_| prng.below(4) == 0);
    let lost: Vec<Replacement> =
        lost.map(|slot| Replacement { member: slot.member.clone(), by: None }).collect();
    planned(&first, &lost)
}

#[track_caller]
fn text(content: &FleetContent) -> String {
    texts(content).into_values().next().expect("a view")
}

#[track_caller]
fn routes(text: &str) -> CheckedRoutes {
    CheckedRoutes::compile("generated", text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The servers of a cluster by name.
fn servers<'c>(content: &'c FleetContent, name: &str) -> Vec<&'c str> {
    let cluster = content.clusters.iter().find(|cluster| cluster.name.as_str() == name).expect("a cluster");
    cluster.slots.iter().map(|slot| &*slot.address).collect()
}

/// What a random policy's routes do with random keys.
fn check(seed: u64) -> usize {
    let mut prng = Prng::new(seed);
    let (policy, has_warm_up) = policy(&mut prng);
    let content = content(&policy, &mut prng);
    let web = content.clusters[0].clone();
    let members: Vec<MemberId> = web.slots.iter().map(|slot| slot.member.clone()).collect();
    let mut bare = content.clone();
    bare.views[0].routes = "{\"route\": \"PoolRoute|web\"}".to_owned();
    let now = routes(&text(&content));
    let warm = routes(&text(&content.clone().without_warm_up(&members)));
    let pool = routes(&text(&bare));
    let source = servers(&content, if has_warm_up { "copy" } else { "spares" });
    let mut seen_cold = 0;
    for _ in 0..KEYS {
        let key = format!("key:{:x}", prng.next_u64()).into_bytes();
        let owner = pool.servers_of(Operation::Get, &key, 0);
        let slot = web.slots.iter().find(|slot| slot.address == owner[0]).expect("a slot");
        for operation in OPERATIONS {
            let found = now.servers_of(operation, &key, 0);
            let before = warm.servers_of(operation, &key, 0);
            assert_eq!(
                before,
                pool.servers_of(operation, &key, 0),
                "seed {seed}: {operation:?} without warm-up"
            );
            assert_eq!(found[0], owner[0], "seed {seed}: {operation:?} of {key:?}");
            let is_delete = matches!(operation, Operation::Delete | Operation::MetaDelete);
            let is_read = matches!(operation, Operation::Get | Operation::Gets | Operation::MetaGet);
            if slot.is_cold && (is_delete || is_read) {
                assert!(source.contains(&&*found[1]), "seed {seed}: {operation:?} goes to {found:?}");
            } else {
                assert_eq!(found, before, "seed {seed}: {operation:?} of {key:?}");
            }
        }
        seen_cold += usize::from(slot.is_cold);
    }
    seen_cold
}

#[test]
fn keys_of_warm_slots_go_where_their_pool_sends_them_and_those_of_cold_ones_are_looked_up_and_deleted_twice()
{
    let cold: usize = (0..POLICIES).map(check).sum();
    assert!(cold > 500, "{cold} keys of cold slots of {}", POLICIES as usize * KEYS);
}

#[test]
fn a_shadow_moves_no_key_of_a_cluster_that_is_resized_or_drained() {
    use fleet::drain::DrainPhase;
    let policy = |slots: usize, shadow: &str| {
        let text = format!(
            "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = {slots}\n[[cluster]]\nname = \"new\"\nslots = 2\n{shadow}\
             [[view]]\nname = \"main\"\nroutes = '{{\"route\": \"web\"}}'\n"
        );
        FleetPolicy::parse(
            &text.replace("\"web\"}", if shadow.is_empty() { "\"PoolRoute|web\"}" } else { "\"web\"}" }),
        )
        .expect("a policy")
    };
    let shadow = "[[shadow]]\nfrom = \"web\"\nto = \"new\"\n";
    let resized = |shadow: &str, (from, to): (usize, usize), phase: DrainPhase| {
        let [old, new] = [from, to].map(|slots| {
            let (inventory, excluded) = (inventory(), fleet::Excluded::new());
            let (policy, current) = (policy(slots, shadow), FleetContent::default());
            let input = FleetPlanInput {
                policy: &policy,
                inventory: &inventory,
                current: &current,
                excluded: &excluded,
            };
            plan(&input).expect("a plan").content
        });
        routes(&text(&old.with_resize(&new.clusters[0], 60).in_resize_phase(phase)))
    };
    for sizes in [(3, 5), (5, 3)] {
        for phase in [DrainPhase::ReadOld, DrainPhase::ReadNew, DrainPhase::NewOnly] {
            let (alone, shadowed) = (resized("", sizes, phase), resized(shadow, sizes, phase));
            for key in 0..300 {
                let key = format!("key:{key}").into_bytes();
                for operation in OPERATIONS {
                    let owners = |routes: &CheckedRoutes| routes.servers_of(operation, &key, 0);
                    assert_eq!(owners(&shadowed), owners(&alone), "{sizes:?} {phase:?} {operation:?}");
                }
            }
        }
    }
}

#[test]
fn equal_content_makes_an_equal_text_and_slots_keep_their_order() {
    for seed in 0..POLICIES {
        let mut prng = Prng::new(seed);
        let (policy, _) = policy(&mut prng);
        let content = content(&policy, &mut prng);
        let json = serde_json::to_string(&content).expect("a content is JSON");
        let again: FleetContent = serde_json::from_str(&json).expect("its own JSON");
        let (first, mut shuffled) = (text(&content), again.clone());
        assert_eq!((again, &text(&content)), (content.clone(), &first));
        shuffled.clusters.rotate_left(1);
        assert_eq!(text(&shuffled), first, "the order of clusters in the policy is no order of a text");
        let list = servers(&content, "web").iter().map(|address| format!("{address:?}")).collect::<Vec<_>>();
        assert!(first.contains(&format!("\"servers\":[{}]", list.join(","))), "{first}");
    }
}

#[test]
fn the_largest_cluster_with_all_slots_cold_is_one_that_a_router_takes() {
    let policy = FleetPolicy::parse(
        "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 1\ngutter = { cluster = \"spares\" }\n\
         [[cluster]]\nname = \"spares\"\nslots = 3\n[[view]]\nname = \"main\"\nroutes = '{\"route\": \"web\"}'\n",
    );
    let mut content = content(&policy.expect("a policy"), &mut Prng::new(1));
    let slot = content.clusters[0].slots[0].clone();
    let slots = (0..SLOTS_MAX).map(|number| SlotRecord {
        id: format!("s{number}").parse().expect("a name"),
        address: format!("many{number}:11211"),
        ..slot.clone()
    });
    content.clusters[0].slots = slots.collect();
    assert_eq!(routes(&text(&content.all_cold())).servers(), SLOTS_MAX + 3);
}
