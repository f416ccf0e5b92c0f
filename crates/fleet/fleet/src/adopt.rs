//! Adoption of an existing configuration: mcrouter's file becomes a policy, an inventory and a first generation.
//!
//! Pools become clusters, their servers become members with a slot each, in the order of the file. All the rest of the file
//! stays in the view's routes as it is, comments included. The first generation's text has the same value as the file, so
//! every key has the server that it had. What a generation cannot hold is refused, with its place.

mod bare_text;
mod ids;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use stdx::words::counted;

use crate::generation::{ClusterRecord, FleetContent, Generation, SlotRecord, ViewRecord};
use crate::inventory::{FleetMember, Inventory, InventoryError};
use crate::policy::{
    CLUSTERS_MAX, ClusterPolicy, FleetPolicy, POLICY_LEN_MAX, RESIZE_WARM_UP_S, SLOTS_MAX, ViewPolicy,
};
use crate::waves::WaveSettings;
use crate::{ClusterName, GenerationNumber, MemberId, ViewName, ZoneName};
pub(crate) use bare_text::BareText;
use ids::MemberIds;
use values::{Refusal, expected, pointer_step, refusal, refuse_imports, refuse_macros, shown, toml_value};

/// Attributes of a pool that have a value for each of its servers.
const LISTS_BY_SLOT: [&str; 4] = ["failure_domains", "hostnames", "tags", "weights"];
/// Servers that are named because they have a slot and a place inside routes as well: more of them say nothing new.
const SHARED_SHOWN: usize = 3;
/// What an address may end with and mean the same, the longest first.
const DEFAULT_ENDINGS: [&str; 3] = [":ascii:plain:notcompressed", ":ascii:plain", ":ascii"];

/// Names that a configuration does not have.
#[derive(Clone, Debug)]
pub struct AdoptionNames {
    /// The fleet's.
    pub fleet: ClusterName,
    /// That of the routers that read the file.
    pub view: ViewName,
    /// That of the zone that all members are put in.
    pub zone: ZoneName,
}

/// An adopted configuration.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// The policy.
    pub policy: FleetPolicy,
    /// The policy as TOML, for people and for the register.
    pub policy_text: String,
    /// All servers of the file's pools.
    pub inventory: Inventory,
    /// The first generation. It has to be published as it is: a plan without it would choose members anew.
    pub generation: Generation,
    /// What people should know, a line each.
    pub notes: Vec<String>,
}

/// Why a configuration cannot be adopted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("adopt line {line}{}: {message}", path_words(path))]
pub struct AdoptionError {
    /// The line, from 1.
    pub line: usize,
    /// The place as a JSON pointer; empty for the whole file.
    pub path: String,
    /// What was found, what is accepted, and a hint.
    pub message: String,
}

fn path_words(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" ({path})") }
}

/// Adopts a configuration.
///
/// # Errors
/// The place of what no policy or generation can hold: imports, pools that inherit, macros in pools, a server of two pools.
pub fn adopt(text: &str, names: &AdoptionNames) -> Result<Adoption, AdoptionError> {
    let whole = |line, message| AdoptionError { line, path: String::new(), message };
    if text.len() > POLICY_LEN_MAX {
        let found = text.len();
        return Err(whole(1, format!("expected at most {POLICY_LEN_MAX} bytes, found {found}")));
    }
    let bare = BareText::new(text);
    let root = bare
        .value()
        .map_err(|error| whole(error.line(), format!("expected JSON with comments, found that {error}")))?;
    adopt_value(text, &bare, &root, names).map_err(|refusal| AdoptionError {
        line: bare.line(bare.find(&refusal.path)),
        path: refusal.path.iter().map(|step| format!("/{}", pointer_step(step))).collect(),
        message: refusal.message,
    })
}

fn adopt_value(
    text: &str,
    bare: &BareText,
    root: &Value,
    names: &AdoptionNames,
) -> Result<Adoption, Refusal> {
    let object = root.as_object().ok_or_else(|| refusal(&[], expected("an object", root)))?;
    refuse_imports(&mut Vec::new(), root)?;
    let pools = object.get("pools").ok_or_else(|| {
        let hint =
            "hint: name the pools of PoolRoutes that have their servers inside, and list them in `pools`";
        refusal(&[], format!("expected `pools`, found none\n  {hint}"))
    })?;
    let pools = pools.as_object().ok_or_else(|| refusal(&["pools"], expected("an object", pools)))?;
    if !(1..=CLUSTERS_MAX).contains(&pools.len()) {
        let found = format!("expected 1 to {CLUSTERS_MAX} pools, found {}", pools.len());
        return Err(refusal(&["pools"], found));
    }
    let mut draft = Draft::new(&names.zone);
    // Sorted, so that members get the same names whatever order a map has.
    for (name, pool) in pools.iter().collect::<BTreeMap<_, _>>() {
        draft.pool(name, pool)?;
    }
    draft.note_lists_of_routes(object);
    let routes = routes_without_pools(text, bare, &mut draft.notes)?;
    draft.finish(routes, names)
}

/// The file without its pools.
fn routes_without_pools(text: &str, bare: &BareText, notes: &mut Vec<String>) -> Result<String, Refusal> {
    let mut pools = bare.entries(0).into_iter().filter(|entry| entry.step == "pools");
    let entry = pools.next().expect("the value has it");
    if pools.next().is_some() {
        return Err(refusal(&["pools"], "expected `pools` once, found it twice"));
    }
    if BareText::new(&text[entry.range.clone()]).differs_from(&text[entry.range.clone()]) {
        notes.push("comments between pools are not kept".to_owned());
    }
    let cut = bare.cut(text, &entry.range);
    Ok(format!("{}{}", &text[..cut.start], &text[cut.end..]))
}

/// What has been adopted so far.
struct Draft<'n> {
    zone: &'n ZoneName,
    ids: MemberIds,
    policies: Vec<ClusterPolicy>,
    clusters: Vec<ClusterRecord>,
    members: Vec<FleetMember>,
    /// The pool and the number of each server.
    places: BTreeMap<MemberId, (String, usize)>,
    notes: Vec<String>,
}

impl<'n> Draft<'n> {
    fn new(zone: &'n ZoneName) -> Draft<'n> {
        Draft {
            zone,
            ids: MemberIds::default(),
            policies: Vec::new(),
            clusters: Vec::new(),
            members: Vec::new(),
            places: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    fn pool(&mut self, name: &str, pool: &Value) -> Result<(), Refusal> {
        let path = &["pools", name];
        let cluster: ClusterName = name
            .parse()
            .map_err(|error| refusal(path, format!("expected a cluster's name, found that {error}")))?;
        let object = pool.as_object().ok_or_else(|| refusal(path, expected("an object", pool)))?;
        if object.contains_key("inherit") {
            let hint = "hint: write what it inherits into the pool";
            return Err(refusal(
                &["pools", name, "inherit"],
                format!("expected a pool that is complete, found that it inherits\n  {hint}"),
            ));
        }
        refuse_macros(&mut vec!["pools".to_owned(), name.to_owned()], pool)?;
        let slots = self.slots(name, object)?;
        let shares_hosts = self.share_hosts(slots.len());
        self.note_pool(name, object, slots.len(), shares_hosts);
        let attributes = object.iter().filter(|(key, _)| *key != "servers");
        let mut record = ClusterRecord {
            name: cluster.clone(),
            pool: BTreeMap::new(),
            gutter: None,
            warm_up: None,
            shadow: None,
            resize: None,
            slots,
        };
        let mut policy = ClusterPolicy {
            name: cluster,
            slots: record.slots.len(),
            class: None,
            zones: Vec::new(),
            shares_hosts,
            gutter: None,
            warm_up: None,
            resize_warm_up_s: RESIZE_WARM_UP_S,
            pool: BTreeMap::new(),
        };
        for (key, value) in attributes {
            let mut path = vec!["pools".to_owned(), name.to_owned(), key.clone()];
            policy.pool.insert(key.clone(), toml_value(&mut path, value)?);
            record.pool.insert(key.clone(), value.clone());
        }
        self.policies.push(policy);
        self.clusters.push(record);
        Ok(())
    }

    fn slots(&mut self, name: &str, pool: &Map<String, Value>) -> Result<Vec<SlotRecord>, Refusal> {
        let path = &["pools", name, "servers"];
        let servers =
            pool.get("servers").ok_or_else(|| refusal(&path[..2], "expected `servers`, found none"))?;
        let servers = servers.as_array().ok_or_else(|| refusal(path, expected("an array", servers)))?;
        if !(1..=SLOTS_MAX).contains(&servers.len()) {
            let found = format!("expected 1 to {SLOTS_MAX} servers, found {}", servers.len());
            return Err(refusal(path, found));
        }
        let mut slots = Vec::with_capacity(servers.len());
        for (number, server) in servers.iter().enumerate() {
            let address = server.as_str().ok_or_else(|| {
                refusal(
                    &["pools", name, "servers", &number.to_string()],
                    expected("an address as a string", server),
                )
            })?;
            let address = without_defaults(address, pool);
            let (member, host) = self.ids.of(address);
            self.places.insert(member.clone(), (name.to_owned(), number));
            self.members.push(FleetMember {
                id: member.clone(),
                host,
                zone: self.zone.clone(),
                class: None,
                address: address.to_owned(),
                is_held: false,
            });
            let id = format!("s{number}").parse().expect("a letter and a number are a name");
            slots.push(SlotRecord { id, member, address: address.to_owned(), is_cold: false, drain: None });
        }
        Ok(slots)
    }

    /// Whether two of the last `count` members are on one host.
    fn share_hosts(&self, count: usize) -> bool {
        let mut hosts: Vec<_> =
            self.members[self.members.len() - count..].iter().map(|member| &member.host).collect();
        hosts.sort_unstable();
        hosts.windows(2).any(|pair| pair[0] == pair[1])
    }

    fn note_pool(&mut self, name: &str, pool: &Map<String, Value>, slots: usize, shares_hosts: bool) {
        if shares_hosts {
            self.notes.push(format!("cluster {name}: several slots are on one host (`shares_hosts`)"));
        }
        let has_list =
            |list: &&&str| pool.get(**list).and_then(Value::as_array).is_some_and(|l| l.len() == slots);
        for list in LISTS_BY_SLOT.iter().filter(has_list) {
            let words = "has a value for each slot: change it together with `slots`";
            self.notes.push(format!("cluster {name}: `{list}` {words}"));
        }
    }

    fn note_lists_of_routes(&mut self, root: &Map<String, Value>) {
        let mut lists = Vec::new();
        root.iter().filter(|(key, _)| *key != "pools").for_each(|(_, value)| server_lists(value, &mut lists));
        if lists.is_empty() {
            return;
        }
        let own = "of their own, which have no slots and are never replaced";
        self.notes.push(format!("{} inside routes with servers {own}", counted(lists.len(), "pool")));
        let inside: BTreeSet<&str> = lists.iter().flatten().copied().collect();
        let slots = self.clusters.iter().flat_map(|cluster| &cluster.slots);
        let in_both = slots.filter(|slot| inside.contains(&*slot.address));
        for slot in in_both.take(SHARED_SHOWN) {
            let what = "a pool inside the routes loses its items when that slot goes to another member";
            self.notes.push(format!("{} has a slot as well: {what}", slot.address));
        }
    }

    fn finish(mut self, routes: String, names: &AdoptionNames) -> Result<Adoption, Refusal> {
        let name = names.view.clone();
        let view = ViewPolicy { name, clusters: Vec::new(), route_prefix: None, routes };
        let pools_at = view.object_start().expect("the file is an object");
        let record = ViewRecord {
            name: view.name.clone(),
            clusters: Vec::new(),
            route_prefix: None,
            routes: view.routes.clone(),
            pools_at,
        };
        let (fleet, clusters, shadows) = (names.fleet.clone(), self.policies, Vec::new());
        let (waves, tunings) = (WaveSettings::default(), Vec::new());
        let policy = FleetPolicy { fleet, clusters, shadows, views: vec![view], waves, tunings };
        let policy_text = toml::to_string_pretty(&policy)
            .map_err(|error| refusal(&[], format!("expected what TOML can hold, found that {error}")))?;
        // Read back: what is returned is what the register's readers get.
        let policy = FleetPolicy::parse(&policy_text)
            .map_err(|error| refusal(&[], format!("expected what a policy can hold, found that {error}")))?;
        let inventory = Inventory::new(self.members)
            .map_err(|error| refuse_member(&self.places, &self.clusters, error))?;
        let words = "give members their own zones before the next replacement";
        self.notes.push(format!("all {} members are in zone {}: {words}", self.places.len(), names.zone));
        let generation = Generation {
            number: GenerationNumber(1),
            parent: None,
            reason: "adopted".to_owned(),
            lower: None,
            origin: None,
            content: FleetContent { clusters: self.clusters, views: vec![record] },
        };
        Ok(Adoption { policy, policy_text, inventory, generation, notes: self.notes })
    }
}

/// An address without protocol and security where these are what they are without it: `10.0.0.1:11211:ascii:plain`.
fn without_defaults<'a>(address: &'a str, pool: &Map<String, Value>) -> &'a str {
    if ["protocol", "security_mech"].iter().any(|attribute| pool.contains_key(*attribute)) {
        return address;
    }
    let bare = DEFAULT_ENDINGS.iter().find_map(|ending| address.strip_suffix(ending));
    bare.filter(|bare| bare.contains(':')).unwrap_or(address)
}

/// The inventory's refusal, with the place of the member.
fn refuse_member(
    places: &BTreeMap<MemberId, (String, usize)>,
    clusters: &[ClusterRecord],
    error: InventoryError,
) -> Refusal {
    let at = |member: &MemberId, message: String| {
        let (pool, number) = &places[member];
        refusal(&["pools", pool, "servers", &number.to_string()], message)
    };
    match &error {
        InventoryError::SameAddress(first, second, address) => {
            let ((one, first), (other, number)) = (&places[first], &places[second]);
            let found = match one == other {
                true => format!("found {address} twice in the pool {one}, as servers {first} and {number}"),
                false => format!(
                    "found {address} in the pools {one} (server {first}) and {other} (server {number})"
                ),
            };
            let hint = two_slots_hint(clusters, one, other);
            at(second, format!("expected each server once in all pools, {found}\n  hint: {hint}"))
        }
        InventoryError::Address(member, found) => {
            let hint = "hint: protocol and security are attributes of the pool (`protocol`, `security_mech`)";
            let accepted = "HOST:PORT, [ADDRESS]:PORT or unix:PATH";
            at(member, format!("expected {accepted}, found {:?}\n  {hint}", shown(found)))
        }
        InventoryError::TooMany(_) | InventoryError::Twice(_) => refusal(&["pools"], error.to_string()),
    }
}

/// What to do about a server that would have two slots: it has one (decision 71).
fn two_slots_hint(clusters: &[ClusterRecord], one: &str, other: &str) -> String {
    let cluster = |name: &str| clusters.iter().find(|cluster| cluster.name.as_str() == name);
    let (Some(first), Some(second)) = (cluster(one), cluster(other)) else { return String::new() };
    let addresses = |cluster: &ClusterRecord| -> Vec<String> {
        cluster.slots.iter().map(|slot| slot.address.clone()).collect()
    };
    if one == other {
        let weight = "a server that shall have more keys than others has a weight (`WeightedCh3`)";
        return format!("take one of them out; {weight}");
    }
    let (servers, others) = (addresses(first), addresses(second));
    if servers == others {
        let names = first.pool.keys().chain(second.pool.keys()).collect::<BTreeSet<_>>();
        let differing = names.into_iter().filter(|name| first.pool.get(*name) != second.pool.get(*name));
        let differing: Vec<String> = differing.map(|name| format!("`{name}`")).collect();
        let loss = match &*differing {
            [] => String::new(),
            names => format!(". They differ in {}, of which {one} keeps its own", names.join(", ")),
        };
        return format!(
            "both pools have the same {} in the same order: write `PoolRoute|{one}` where the routes have `PoolRoute|{other}`, and take the \
             pool {other} out{loss}",
            counted(servers.len(), "server")
        );
    }
    let others: BTreeSet<String> = others.into_iter().collect();
    let shared = match servers.iter().filter(|address| others.contains(*address)).count() {
        1 => "1 server is".to_owned(),
        shared => format!("{shared} servers are"),
    };
    format!(
        "a server has one slot, and is emptied when it leaves it; {shared} in both pools. Give {other} servers of its own (a memcached on \
         another port of the same host is one), or write {other} as an object into its PoolRoute, where no server is ever replaced"
    )
}

/// The servers of pools that stand inside routes.
fn server_lists<'v>(value: &'v Value, lists: &mut Vec<Vec<&'v str>>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| server_lists(item, lists)),
        Value::Object(object) => {
            if let Some(Value::Array(servers)) = object.get("servers") {
                lists.push(servers.iter().filter_map(Value::as_str).collect());
            }
            object.values().for_each(|value| server_lists(value, lists));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
