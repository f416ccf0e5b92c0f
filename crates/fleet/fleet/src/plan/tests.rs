//! Plans of small fleets, and of random ones.

use stdx::prng::Prng;

use super::*;

/// Members by name, host and zone: `m1@h1/a`.
fn inventory(words: &str) -> Inventory {
    let member = |word: &str| {
        let (id, rest) = word.split_once('@').expect("a host");
        let (host, zone) = rest.split_once('/').expect("a zone");
        FleetMember {
            id: id.parse().expect("a name"),
            host: host.parse().expect("a name"),
            zone: zone.parse().expect("a name"),
            class: None,
            address: format!("{id}:11211"),
            is_held: false,
        }
    };
    Inventory::new(words.split_whitespace().map(member)).expect("an inventory")
}

fn policy(clusters: &str) -> FleetPolicy {
    let mut text = "fleet = \"f\"\n".to_owned();
    for word in clusters.split_whitespace() {
        let (name, slots) = word.split_once('=').expect("slots");
        text += &format!("[[cluster]]\nname = \"{name}\"\nslots = {slots}\n");
    }
    text += "[[view]]\nname = \"main\"\nroutes = '{\"route\":\"NullRoute\"}'\n";
    FleetPolicy::parse(&text).expect("a policy")
}

fn try_plan(
    policy: &FleetPolicy,
    inventory: &Inventory,
    current: &FleetContent,
    wishes: &str,
) -> Result<FleetPlan, PlanError> {
    let wish = |word: &str| {
        let (member, by) = word.split_once("->").unwrap_or((word, ""));
        let by = (!by.is_empty()).then(|| by.parse().expect("a name"));
        Replacement { member: member.parse().expect("a name"), by }
    };
    let wishes: Vec<Replacement> = wishes.split_whitespace().map(wish).collect();
    let input = FleetPlanInput { policy, inventory, current, excluded: &Excluded::new() };
    if wishes.is_empty() {
        return plan(&input);
    }
    let SlotChanges { plan, unmet } = change_slots(&input, &wishes);
    unmet.into_iter().next().map_or(Ok(plan), Err)
}

/// `web: m1 m2`.
fn shown(content: &FleetContent) -> String {
    let clusters = content.clusters.iter().map(|cluster| {
        let members: Vec<&str> = cluster.slots.iter().map(|slot| slot.member.as_str()).collect();
        format!("{}: {}", cluster.name, members.join(" "))
    });
    clusters.collect::<Vec<_>>().join("; ")
}

/// The state after plans, one after the other, each of a policy and wishes.
#[track_caller]
fn check(members: &str, plans: &[(&str, &str)], expected: &str) {
    let (inventory, mut content) = (inventory(members), FleetContent::default());
    for (clusters, wishes) in plans {
        content = try_plan(&policy(clusters), &inventory, &content, wishes).expect("a plan").content;
    }
    assert_eq!(shown(&content), expected);
}

#[track_caller]
fn refused(members: &str, before: &str, clusters: &str, wishes: &str, expected: &str) {
    let inventory = inventory(members);
    let content =
        try_plan(&policy(before), &inventory, &FleetContent::default(), "").expect("a plan").content;
    let error = try_plan(&policy(clusters), &inventory, &content, wishes).expect_err("it is refused");
    assert!(error.to_string().contains(expected), "{error}");
}

/// A policy of `web` with three slots and these lines, and of the clusters that may answer for it.
fn with_substitutes(lines: &str) -> FleetPolicy {
    let text = format!(
        "fleet = \"f\"\n[[cluster]]\nname = \"web\"\nslots = 3\n{lines}\n[[cluster]]\nname = \"spares\"\nslots = 1\n"
    );
    FleetPolicy::parse(&text).expect("a policy")
}

/// Slots of `web` that are cold.
fn cold(content: &FleetContent) -> Vec<&str> {
    let slots = content.clusters[0].slots.iter().filter(|slot| slot.is_cold);
    slots.map(|slot| slot.id.as_str()).collect()
}

#[test]
fn a_replacement_is_cold_where_something_can_warm_it() {
    let inventory = inventory("m1@h1/a m2@h2/a m3@h3/a m4@h4/a m5@h5/a m6@h6/a");
    let gutter = "gutter = { cluster = \"spares\" }";
    for (lines, expected) in
        [("", &[][..]), (gutter, &["s1"]), ("warm_up = { cluster = \"spares\", exptime_s = 9 }", &["s1"])]
    {
        let policy = with_substitutes(lines);
        let first = try_plan(&policy, &inventory, &FleetContent::default(), "").expect("a plan").content;
        assert_eq!(cold(&first), [""; 0], "nothing was lost, so nothing can be warmed");
        let second = try_plan(&policy, &inventory, &first, "m2").expect("a plan").content;
        assert_eq!(cold(&second), expected);
        // What is cold stays so by other plans, and as long as something warms it.
        let third = try_plan(&policy, &inventory, &second, "m1").expect("a plan").content;
        assert_eq!(cold(&third).len(), if expected.is_empty() { 0 } else { 2 });
        let none = try_plan(&with_substitutes(""), &inventory, &third, "").expect("a plan");
        assert_eq!(cold(&none.content), [""; 0]);
        assert_eq!(none.steps.len(), usize::from(!lines.is_empty()), "{:?}", none.steps);
        let ended = second.clone().without_warm_up(&[second.clusters[0].slots[1].member.clone()]);
        assert_eq!(cold(&ended), [""; 0]);
    }
}

const FIVE: &str = "m1@h1/a m2@h2/b m3@h3/a m4@h4/b m5@h5/c";

#[test]
fn a_new_cluster_takes_members_of_all_zones_in_turn() {
    check(FIVE, &[("web=5", "")], "web: m1 m2 m5 m3 m4");
    check(FIVE, &[("web=2 ads=2", "")], "web: m1 m2; ads: m3 m4");
}

#[test]
fn a_replacement_takes_the_slot_of_the_member_that_it_replaces() {
    check(FIVE, &[("web=2", ""), ("web=2", "m1")], "web: m3 m2");
    check(FIVE, &[("web=2", ""), ("web=2", "m2")], "web: m1 m4");
    check(FIVE, &[("web=2", ""), ("web=2", "m2->m5")], "web: m1 m5");
    check(FIVE, &[("web=2", ""), ("web=2", "m1 m2")], "web: m3 m4");
}

#[test]
fn a_cluster_grows_and_shrinks_at_its_end() {
    check(FIVE, &[("web=3", ""), ("web=4", "")], "web: m1 m2 m5 m3");
    check(FIVE, &[("web=3", ""), ("web=1", "")], "web: m1");
    check(FIVE, &[("web=3", ""), ("web=2", ""), ("web=3", "")], "web: m1 m2 m5");
}

#[test]
fn nothing_changes_without_a_reason() {
    let (policy, inventory) = (policy("web=3"), inventory(FIVE));
    let first = try_plan(&policy, &inventory, &FleetContent::default(), "").expect("a plan");
    assert_eq!(first.steps, ["cluster web: begins, with 3 slots", "view main: begins"]);
    let second = try_plan(&policy, &inventory, &first.content, "").expect("a plan");
    assert_eq!((second.steps, second.content), (Vec::new(), first.content));
}

#[test]
fn a_member_that_the_inventory_misses_keeps_its_slot() {
    let content =
        try_plan(&policy("web=3"), &inventory(FIVE), &FleetContent::default(), "").expect("a plan").content;
    let partial = inventory("m4@h4/b");
    let second = try_plan(&policy("web=3"), &partial, &content, "").expect("a plan");
    assert_eq!((second.steps, second.content), (Vec::new(), content));
}

#[test]
fn a_member_with_another_address_keeps_its_slot() {
    let content =
        try_plan(&policy("web=1"), &inventory(FIVE), &FleetContent::default(), "").expect("a plan").content;
    let mut moved = inventory(FIVE).get(&"m1".parse().expect("a name")).expect("a member").clone();
    moved.address = "new:1".to_owned();
    let moved = Inventory::new([moved]).expect("an inventory");
    let second = try_plan(&policy("web=1"), &moved, &content, "").expect("a plan");
    assert_eq!(second.steps, ["cluster web: m1 is at new:1, no more at m1:11211"]);
    assert_eq!(second.content.clusters[0].slots[0].address, "new:1");
}

#[test]
fn two_slots_of_a_cluster_are_on_two_hosts() {
    let members = "m1@h1/a m2@h1/a m3@h2/a";
    check(members, &[("web=2", "")], "web: m1 m3");
    refused(
        members,
        "web=2",
        "web=3",
        "",
        "of 3 members: 2 × it has a slot, or leaves one by this plan; m2: its host has another slot of this cluster",
    );
    // It may take the slot of its own host's other member.
    check(members, &[("web=2", ""), ("web=2", "m1->m2")], "web: m2 m3");
}

#[test]
fn a_slot_without_a_member_is_an_error_and_nothing_is_done_by_halves() {
    refused("", "", "web=1", "", "the inventory has no members");
    refused(FIVE, "web=5", "web=5", "m1", "5 × it has a slot");
    refused(FIVE, "web=2", "web=2", "m3", "replace m3: it has no slot in any cluster");
    refused(FIVE, "web=2", "web=2", "m1 m1", "replace m1: it is asked for twice");
    refused(FIVE, "web=2", "web=2", "m1->m2", "to m2: it has a slot");
    refused(FIVE, "web=2", "web=2", "m1->m9", "to m9: the inventory does not have it");
}

#[test]
fn members_that_are_held_back_or_excluded_take_no_slot() {
    let mut members: Vec<FleetMember> = inventory(FIVE).members().cloned().collect();
    members[0].is_held = true;
    let inventory = Inventory::new(members).expect("an inventory");
    let excluded = [("m2".parse().expect("a name"), UnfitMember::NoAnswer)].into();
    let (policy, current) = (policy("web=3"), FleetContent::default());
    let input =
        FleetPlanInput { policy: &policy, inventory: &inventory, current: &current, excluded: &excluded };
    assert_eq!(shown(&plan(&input).expect("a plan").content), "web: m3 m4 m5");
}

/// Any history of sizes, replacements and additions: who has a slot keeps it unless the plan says otherwise.
#[test]
fn in_any_history_slots_keep_their_order_and_members_have_one_slot() {
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let count = 6 + prng.below(30);
        let members: Vec<String> = (0..count)
            .map(|number| {
                format!("m{number}@h{}/{}", prng.below(count), ["a", "b", "c"][prng.below(3) as usize])
            })
            .collect();
        let inventory = inventory(&members.join(" "));
        let mut content = FleetContent::default();
        for _ in 0..20 {
            let policy = policy(&format!("web={} ads={}", 1 + prng.below(8), 1 + prng.below(4)));
            let replaced: Vec<String> =
                members_of(&content).into_iter().filter(|_| prng.below(5) == 0).collect();
            let Ok(next) = try_plan(&policy, &inventory, &content, &replaced.join(" ")) else { continue };
            check_step(&content, &next, &replaced, seed);
            content = next.content;
        }
    }
}

fn members_of(content: &FleetContent) -> Vec<String> {
    members(content).map(ToString::to_string).collect()
}

#[track_caller]
fn check_step(before: &FleetContent, next: &FleetPlan, replaced: &[String], seed: u64) {
    let mut all = members_of(&next.content);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), members_of(&next.content).len(), "seed {seed}: a member has two slots");
    for cluster in &next.content.clusters {
        let Some(old) = before.cluster(&cluster.name) else { continue };
        for (old, new) in old.slots.iter().zip(&cluster.slots) {
            assert_eq!(old.id, new.id, "seed {seed}");
            let is_asked = replaced.iter().any(|member| *member == old.member.as_str());
            assert_eq!(old.member != new.member, is_asked, "seed {seed}: {old:?} {new:?}");
        }
    }
    let mut differs = before.clusters != next.content.clusters;
    differs |= before.views != next.content.views;
    assert_eq!(differs, !next.steps.is_empty(), "seed {seed}: {:?}", next.steps);
}

/// Members of three slots are replaced where there are two spares: what is in the slots then, and how many wishes were refused.
#[track_caller]
fn check_most(wishes: &str, expected: &str, refused: usize) {
    let (policy, inventory) = (policy("web=3"), inventory(FIVE));
    let current = try_plan(&policy, &inventory, &FleetContent::default(), "").expect("a plan").content;
    let wish = |word: &str| Replacement { member: word.parse().expect("a name"), by: None };
    let wishes: Vec<Replacement> = wishes.split_whitespace().map(wish).collect();
    let input = FleetPlanInput {
        policy: &policy,
        inventory: &inventory,
        current: &current,
        excluded: &Excluded::new(),
    };
    let SlotChanges { plan, unmet } = change_slots(&input, &wishes);
    assert_eq!((shown(&plan.content).as_str(), unmet.len()), (expected, refused), "{unmet:?}");
}

#[test]
fn with_too_few_spares_the_first_ones_are_replaced() {
    check_most("m1 m2", "web: m3 m4 m5", 0);
    check_most("m1 m2 m5", "web: m3 m4 m5", 1);
    check_most("m9 m5 m5 m2", "web: m1 m4 m3", 2);
    check_most("", "web: m1 m2 m5", 0);
}

/// Members of three slots are lost, and the hosts of some spares do not meet their standard: what is in the slots then, what is said of them, and
/// how many wishes were refused.
#[track_caller]
fn check_mended(wishes: &str, untuned: &str, expected: &str, said: &[&str], refused: usize) {
    let words = "its host does not meet its standard of tuning";
    check_mended_by((UnfitMember::Untuned, words), wishes, untuned, expected, (said, refused));
    let words = "it is not known whether its host meets its standard of tuning";
    check_mended_by((UnfitMember::StandardUnheard, words), wishes, untuned, expected, (said, refused));
}

#[track_caller]
fn check_mended_by(
    (unfit, words): (UnfitMember, &str),
    wishes: &str,
    untuned: &str,
    expected: &str,
    (said, refused): (&[&str], usize),
) {
    let (policy, inventory) = (policy("web=3"), inventory(FIVE));
    let current = try_plan(&policy, &inventory, &FleetContent::default(), "").expect("a plan").content;
    let wish = |word: &str| Replacement { member: word.parse().expect("a name"), by: None };
    let wishes: Vec<Replacement> = wishes.split_whitespace().map(wish).collect();
    let untuned = untuned.split_whitespace().map(|name| (name.parse().expect("a name"), unfit));
    let excluded: Excluded = untuned.collect();
    let input =
        FleetPlanInput { policy: &policy, inventory: &inventory, current: &current, excluded: &excluded };
    let SlotChanges { plan, unmet } = mend_slots(&input, &wishes);
    assert_eq!((shown(&plan.content).as_str(), unmet.len()), (expected, refused), "{unmet:?}");
    let notes: Vec<&String> = plan.steps.iter().filter(|step| step.ends_with(TAKES_UNTUNED)).collect();
    let said: Vec<String> = said.iter().map(|member| format!("{member}: {words}{TAKES_UNTUNED}")).collect();
    assert_eq!(notes, said.iter().collect::<Vec<_>>(), "{:?}", plan.steps);
    // A wish of a person for a member that lives is not fulfilled by a host without its standard.
    let strict = change_slots(&input, &wishes);
    let taken = members(&strict.plan.content).find(|member| excluded.contains_key(*member));
    assert_eq!(taken, None);
}

#[test]
fn a_slot_of_a_lost_member_gets_an_untuned_one_only_if_nobody_else_can_take_it() {
    check_mended("m1", "", "web: m3 m2 m5", &[], 0);
    check_mended("m1", "m3", "web: m4 m2 m5", &[], 0);
    check_mended("m1 m2", "m3", "web: m4 m3 m5", &["m3"], 0);
    check_mended("m1 m2", "m3 m4", "web: m3 m4 m5", &["m3", "m4"], 0);
    check_mended("m1 m2 m5", "m3 m4", "web: m3 m4 m5", &["m3", "m4"], 1);
    check_mended("m9 m5 m5 m2", "m3 m4", "web: m1 m4 m3", &["m4", "m3"], 2);
}

#[test]
fn a_new_slot_waits_for_the_standard_of_a_host() {
    let (policy, inventory) = (policy("web=3"), inventory("m1@h1/a m2@h2/a m3@h3/a"));
    let excluded: Excluded = [("m3".parse().expect("a name"), UnfitMember::Untuned)].into();
    let current = FleetContent::default();
    let input =
        FleetPlanInput { policy: &policy, inventory: &inventory, current: &current, excluded: &excluded };
    let error = plan(&input).expect_err("m3 is not tuned").to_string();
    assert!(error.contains("m3: its host does not meet its standard of tuning"), "{error}");
}

#[test]
fn a_slot_changes_its_member_and_nothing_else_whatever_the_policy_wants() {
    let inventory = inventory(FIVE);
    let present = policy("web=2");
    let current = try_plan(&present, &inventory, &FleetContent::default(), "").expect("a plan").content;
    // What it wants was gone back from, and there is nobody for its last slots.
    let mut wanted = policy("web=9");
    wanted.views[0].routes = "{\"route\": \"ErrorRoute\"}".to_owned();
    let changed = try_plan(&wanted, &inventory, &current, "m1").expect("a plan").content;
    assert_eq!((shown(&changed).as_str(), &changed.views), ("web: m3 m2", &current.views));
    let error = try_plan(&policy("ads=1"), &inventory, &current, "m1").expect_err("nobody may take it");
    assert_eq!(error.to_string(), "replace m1: the policy has no cluster web any more");
}
