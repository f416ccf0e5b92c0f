//! Documents about generations: history, differences, and where a key belongs.

use std::collections::BTreeMap;
use std::fmt::Write;

use admin::api::ApiReply;
use fleet::{
    ClusterName, FleetContent, Generation, GenerationNumber, SlotRecord, ViewName, shadow_step, texts,
};
use router::Operation;
use serde_json::json;
use stdx::words::counted;

use super::replies::{document, moment_words, refusal};
use crate::controller::register_mirror::FleetView;
use crate::controller::slots::drains::phase_words as drain_words;
use crate::controller::slots::resizes::{phase_words, what};
use crate::routers::route_check::{CheckedRoutes, KEYS_SAMPLED};

/// The generations that are kept, the newest first.
pub(crate) fn history(view: &FleetView) -> ApiReply {
    let mut text = String::new();
    let mut json = Vec::new();
    let before = |one: &Generation| one.parent.and_then(|number| view.generations().get(&number));
    for one in view.generations().values().rev() {
        let steps = before(one).map_or(Vec::new(), |before| differences(&before.content, &one.content));
        let _ = writeln!(text, "generation {}: {}", one.number, one.reason);
        let origin = one.origin.as_ref();
        let at = origin.and_then(|origin| moment_words(origin.unix_s));
        let at_words = at.as_deref().unwrap_or("at an unknown time");
        let _ = match origin {
            Some(origin) => writeln!(text, "  made {at_words} by {}", origin.who),
            None => writeln!(text, "  made {at_words}, by an older version, which did not write that down"),
        };
        for step in &steps {
            let _ = writeln!(text, "  {step}");
        }
        json.push(json!({
            "generation": one.number, "parent": one.parent, "reason": one.reason, "steps": steps,
            "unix_s": at.as_ref().and(origin).map(|origin| origin.unix_s), "at": at, "who": origin.map(|origin| &origin.who),
        }));
    }
    if text.is_empty() {
        text = "no generation yet\n".to_owned();
    }
    document(text, json!({"generations": json}))
}

/// How two generations differ, with what that means for keys.
pub(crate) fn difference(
    view: &FleetView,
    from: GenerationNumber,
    to: Option<GenerationNumber>,
    unix_s: i64,
) -> ApiReply {
    let Some(to) = to.or(view.target()) else { return refusal(404, "there is no generation yet") };
    let find = |number| view.generations().get(&number);
    let (Some(old), Some(new)) = (find(from), find(to)) else {
        let missing = if find(from).is_none() { from } else { to };
        return refusal(
            404,
            &format!("generation {missing} is not kept\n  hint: `control history` lists those that are"),
        );
    };
    let steps = differences(&old.content, &new.content);
    let mut text = if steps.is_empty() { format!("{from} and {to} are the same\n") } else { String::new() };
    for step in &steps {
        let _ = writeln!(text, "{step}");
    }
    let (before, after) = (&old.content, &new.content);
    let (old_texts, new_texts) = (texts(before), texts(after));
    let mut keys = BTreeMap::new();
    for (name, new) in &new_texts {
        let both = old_texts.get(name).filter(|old| *old != new).and_then(|old| {
            let checked = |what, text, content: &FleetContent| {
                CheckedRoutes::compile_for(what, text, content.route_prefix(name)).ok()
            };
            Some((checked("from", old, before)?, checked("to", new, after)?))
        });
        if let Some((old, new)) = both {
            let sentence = old.difference(&new, KEYS_SAMPLED, 1, unix_s).sentence();
            let _ = writeln!(text, "view {name}: {sentence}");
            keys.insert(name.clone(), sentence);
        }
    }
    document(text, json!({"from": from, "to": to, "steps": steps, "keys": keys}))
}

/// Which servers routers ask for a key, and by which generation. `name` is the view that it is about, if it is one.
pub(crate) fn why(view: &FleetView, key: &[u8], name: Option<&ViewName>, unix_s: i64) -> ApiReply {
    let Some(current) = view.current() else {
        return refusal(404, "there is no generation yet");
    };
    let texts = texts(&current.content);
    if let Some(name) = name.filter(|name| !texts.contains_key(*name)) {
        let known: Vec<&str> = texts.keys().map(ViewName::as_str).collect();
        return refusal(404, &format!("there is no view {name}; there are {}", known.join(", ")));
    }
    let mut text = String::new();
    let mut json = BTreeMap::new();
    for (name, routes) in texts.iter().filter(|(one, _)| name.is_none_or(|name| name == *one)) {
        let prefix = current.content.route_prefix(name);
        let routes = match CheckedRoutes::compile_for("routes", routes, prefix) {
            Ok(routes) => routes,
            Err(error) => return refusal(500, &error),
        };
        let _ = writeln!(text, "view {name}:");
        let mut of_view = BTreeMap::new();
        for (operation, word) in
            [(Operation::Get, "get"), (Operation::Set, "set"), (Operation::Delete, "delete")]
        {
            let servers = routes.servers_of(operation, key, unix_s);
            let places: Vec<String> = servers.iter().map(|address| place(view, current, address)).collect();
            let _ = writeln!(text, "  {word:<7} {}", places.join(", then "));
            of_view.insert(word, servers);
        }
        json.insert(name.clone(), of_view);
    }
    let _ = writeln!(text, "by generation {}: {}", current.number, current.reason);
    document(text, json!({"generation": current.number, "servers": json}))
}

/// Whose an address is, and since when.
fn place(view: &FleetView, current: &Generation, address: &str) -> String {
    // Routers write an address without the parts that have defaults.
    let found = current.content.slot_at(address).or_else(|| {
        let slots = current
            .content
            .clusters
            .iter()
            .flat_map(|cluster| cluster.slots.iter().map(move |slot| (cluster, slot)));
        slots.into_iter().find(|(_, slot)| address.starts_with(&slot.address))
    });
    let Some((cluster, slot)) = found else { return address.to_owned() };
    let had = |one: &&Generation| {
        let slots = one.content.cluster(&cluster.name).map(|cluster| &cluster.slots);
        slots.is_some_and(|slots| slots.iter().any(|old| old.id == slot.id && old.member == slot.member))
    };
    let since = view.generations().values().rev().take_while(had).last();
    let since = since.map_or(current.number, |since| since.number);
    let (cluster, id, member) = (&cluster.name, &slot.id, &slot.member);
    format!("{member} at {address} ({cluster}/{id}, since generation {since})")
}

/// How two contents differ, a line each.
pub(crate) fn differences(old: &FleetContent, new: &FleetContent) -> Vec<String> {
    let mut steps = Vec::new();
    for cluster in &new.clusters {
        let name = &cluster.name;
        let Some(before) = old.cluster(name) else {
            steps.push(format!("cluster {name}: begins, with {}", counted(cluster.slots.len(), "slot")));
            continue;
        };
        if before.pool != cluster.pool {
            steps.push(format!("cluster {name}: other attributes of the pool"));
        }
        if (&before.gutter, &before.warm_up) != (&cluster.gutter, &cluster.warm_up) {
            steps.push(format!("cluster {name}: another gutter or warm-up"));
        }
        let shadow = shadow_step(before.shadow.as_ref(), cluster.shadow.as_ref());
        steps.extend(shadow.map(|step| format!("cluster {name}: {step}")));
        for (before, after) in before.slots.iter().zip(&cluster.slots) {
            steps.extend(drain_step(name, before, after));
            if before.member != after.member {
                let (id, member, left) = (&after.id, &after.member, &before.member);
                steps.push(format!("cluster {name}: {member} takes slot {id} in place of {left}"));
            } else if before.address != after.address {
                steps.push(format!("cluster {name}: {} is at {}", after.member, after.address));
            } else if before.is_cold != after.is_cold && after.drain.is_none() {
                let word = if after.is_cold { "begins" } else { "ends" };
                steps.push(format!("cluster {name}: the warm-up of {} {word}", after.member));
            }
        }
        if let Some(resize) = cluster.resize.as_ref().filter(|resize| before.resize.as_ref() != Some(*resize))
        {
            steps.push(format!("cluster {name}: {}: {}", what(name, resize), phase_words(resize.phase)));
        }
        for slot in cluster.slots.iter().skip(before.slots.len()) {
            steps.push(format!("cluster {name}: slot {} is added, {} takes it", slot.id, slot.member));
        }
        for slot in before.slots.iter().skip(cluster.slots.len()) {
            steps.push(format!("cluster {name}: slot {} goes, {} leaves it", slot.id, slot.member));
        }
    }
    for gone in old.clusters.iter().filter(|cluster| new.cluster(&cluster.name).is_none()) {
        steps.push(format!("cluster {}: goes", gone.name));
    }
    for view in &new.views {
        match old.views.iter().find(|before| before.name == view.name) {
            None => steps.push(format!("view {}: begins", view.name)),
            Some(before) if before != view => {
                steps.push(format!("view {}: other routes or pools", view.name))
            }
            Some(_) => {}
        }
    }
    for gone in old.views.iter().filter(|before| new.views.iter().all(|view| view.name != before.name)) {
        steps.push(format!("view {}: goes", gone.name));
    }
    steps
}

/// What becomes of a slot's drain.
fn drain_step(cluster: &ClusterName, before: &SlotRecord, after: &SlotRecord) -> Option<String> {
    if before.drain == after.drain {
        return None;
    }
    let words = match (&after.drain, after.drained()) {
        (Some(drain), Some((old, new))) => drain_words(drain.phase, old, new),
        _ => format!("{} alone has it", after.member),
    };
    Some(format!("cluster {cluster}: the drain of slot {}: {words}", after.id))
}

#[cfg(test)]
mod tests {
    use fleet::GenerationOrigin;
    use serde_json::Value;

    use super::*;
    use crate::controller::testing::{generation, view};

    #[test]
    fn a_generation_that_does_not_say_when_it_was_made_has_no_time() {
        let slot = json!({"id": "s0", "member": "m1", "address": "10.0.0.1:1"});
        let one = |number, origin: Option<(i64, &str)>| Generation {
            origin: origin.map(|(unix_s, who)| GenerationOrigin { unix_s, who: who.to_owned() }),
            ..generation(number, std::slice::from_ref(&slot), "PoolRoute|web")
        };
        // An older version's; one of a controller whose clock did not know the time; and another one.
        let view = view(&[one(1, None), one(2, Some((0, "ann"))), one(3, Some((1_800_000_000, "ann")))]);
        let history: Value = serde_json::from_str(&history(&view).json).expect("JSON");
        let rows = history["generations"].as_array().expect("generations").iter();
        let known: Vec<[&Value; 3]> =
            rows.map(|row| ["unix_s", "at", "who"].map(|name| &row[name])).collect();
        let expected = [
            [json!(1_800_000_000), json!("2027-01-15T08:00:00Z"), json!("ann")],
            [Value::Null, Value::Null, json!("ann")],
            [Value::Null, Value::Null, Value::Null],
        ];
        assert_eq!(known, expected.each_ref().map(|row| row.each_ref()), "{history}");
        let text = history["text"].as_str().expect("a text");
        assert!(!text.contains("1970") && text.contains("  made at an unknown time by ann\n"), "{text}");
        assert!(
            text.ends_with("  made at an unknown time, by an older version, which did not write that down\n"),
            "{text}"
        );
    }
}
