//! `transform`, `process` and `foreach`: expansion of a part of the text once per item.

use crate::config::error::{ConfigError, Location};
use crate::config::json::{Entries, Json, JsonValue};
use crate::config::macros::{Expander, Loop, Outcome, Run, Scope, Variable};
use std::rc::Rc;

/// The loop of a `type`.
pub(in crate::config) fn loops(kind: &str) -> Option<Run> {
    match kind {
        "transform" => Some(transform),
        "process" => Some(process),
        "foreach" => Some(foreach),
        _ => None,
    }
}

/// What is looped over: values with their keys or indices.
struct Items {
    is_object: bool,
    list: Vec<(JsonValue, Json)>,
}

impl Loop<'_> {
    fn get(&self, name: &str) -> Option<&Json> {
        self.entries.iter().find(|(key, _)| key == name).map(|(_, json)| json)
    }

    fn require(&self, name: &str) -> Result<&Json, ConfigError> {
        self.get(name)
            .ok_or_else(|| ConfigError::new(self.place, format!("expected `{name}` of a loop, found none")))
    }

    /// The name of a variable: written in the loop, or `default`.
    fn name(&self, option: &str, default: &'static str) -> Result<String, ConfigError> {
        let given =
            self.get(option).map(|json| json.string(format_args!("`{option}` of a loop"))).transpose()?;
        Ok(given.unwrap_or(default).to_owned())
    }

    fn items(&self, expander: &mut Expander<'_>, name: &str) -> Result<Items, ConfigError> {
        let collection = expander.expand(self.require(name)?, self.scope)?;
        match collection.value {
            JsonValue::Object(entries) => {
                let list = entries.into_iter().map(|(key, json)| (JsonValue::String(key), json)).collect();
                Ok(Items { is_object: true, list })
            }
            JsonValue::Array(items) => {
                let numbered = items.into_iter().enumerate();
                let list = numbered.map(|(n, json)| (JsonValue::Int(n as i64), json)).collect();
                Ok(Items { is_object: false, list })
            }
            _ => Err(collection.wrong(format_args!("an object or an array (`{name}` of a loop)"))),
        }
    }
}

/// The variables of a loop, which have a value in each round.
struct Round<'s> {
    scope: Scope<'s>,
    names: Vec<String>,
}

impl<'s> Round<'s> {
    fn new(outer: &'s Scope<'s>, names: Vec<String>, place: Location) -> Result<Round<'s>, ConfigError> {
        let scope = Scope::inside(outer);
        let null = Rc::new(Json::new(place, JsonValue::Null));
        for name in &names {
            scope.add(name, Variable::Ready(Rc::clone(&null)), place)?;
        }
        Ok(Round { scope, names })
    }

    fn begin(&self, values: impl IntoIterator<Item = Rc<Json>>) {
        for (name, value) in self.names.iter().zip(values) {
            self.scope.set(name, Variable::Ready(value));
        }
    }
}

/// Changes every item, and keys, too, if it is an object: one may become several, or none.
fn transform(expander: &mut Expander<'_>, call: &Loop<'_>) -> Outcome {
    let items = call.items(expander, "dictionary")?;
    let names = vec![call.name("keyName", "key")?, call.name("itemName", "item")?];
    let round = Round::new(call.scope, names, call.place)?;
    let item_transform = call.get("itemTransform");
    if !items.is_object && !items.list.is_empty() {
        call.require("itemTransform")?;
    }
    let mut entries = Entries::default();
    let mut list = Vec::new();
    for (key, item) in items.list {
        let (key, item) = (Rc::new(Json::new(item.place, key)), Rc::new(item));
        round.begin([Rc::clone(&key), Rc::clone(&item)]);
        let keys = match call.get("keyTransform") {
            Some(transform) if items.is_object => expander.value(transform, &round.scope)?,
            _ => key,
        };
        if matches!(&keys.value, JsonValue::Array(keys) if keys.is_empty()) {
            continue;
        }
        let item = match item_transform {
            Some(transform) => expander.value(transform, &round.scope)?,
            None => item,
        };
        if !items.is_object {
            list.push(expander.take(item)?);
            continue;
        }
        match &keys.value {
            JsonValue::String(key) => entries.set(key.clone(), expander.take(item)?),
            JsonValue::Array(keys) => {
                for key in keys {
                    let key = key.string("a transformed key")?.to_owned();
                    entries.set(key, expander.copy(&item)?);
                }
            }
            _ => return Err(keys.wrong("a string or an array of strings (`keyTransform`)")),
        }
    }
    let value = if items.is_object { JsonValue::Object(entries.list) } else { JsonValue::Array(list) };
    Ok(Rc::new(Json::new(call.place, value)))
}

/// Changes one value by every item.
fn process(expander: &mut Expander<'_>, call: &Loop<'_>) -> Outcome {
    let items = call.items(expander, "dictionary")?;
    let mut value = expander.value(call.require("initialValue")?, call.scope)?;
    let transform = call.require("transform")?;
    let names =
        vec![call.name("keyName", "key")?, call.name("itemName", "item")?, call.name("valueName", "value")?];
    let round = Round::new(call.scope, names, call.place)?;
    for (key, item) in items.list {
        let key = Json::new(item.place, key);
        round.begin([Rc::new(key), Rc::new(item), value]);
        value = expander.value(transform, &round.scope)?;
    }
    Ok(value)
}

/// The first items that satisfy a condition, each as itself or as what `use` makes of it, merged.
fn foreach(expander: &mut Expander<'_>, call: &Loop<'_>) -> Outcome {
    let items = call.items(expander, "from")?;
    let names = vec![call.name("key", "key")?, call.name("item", "item")?];
    let mut left = match call.get("top") {
        Some(top) => expander.value(top, call.scope)?.integer("`top` of foreach", 0..=i64::MAX)? as usize,
        None => usize::MAX,
    };
    let round = Round::new(call.scope, names, call.place)?;
    let mut gathered: Option<Gathered> = None;
    for (key, item) in items.list {
        if left == 0 {
            break;
        }
        let (key, item) = (Rc::new(Json::new(item.place, key)), Rc::new(item));
        round.begin([Rc::clone(&key), Rc::clone(&item)]);
        if let Some(condition) = call.get("where")
            && !expander.value(condition, &round.scope)?.bool("`where` of foreach")?
        {
            continue;
        }
        left -= 1;
        let piece = match (call.get("use"), &key.value) {
            (Some(template), _) => expander.expand(template, &round.scope)?,
            (None, JsonValue::String(key)) => {
                let entry = (key.clone(), expander.copy(&item)?);
                Json::new(item.place, JsonValue::Object(vec![entry]))
            }
            (None, _) => Json::new(item.place, JsonValue::Array(vec![expander.copy(&item)?])),
        };
        gathered = Some(Gathered::append(gathered, piece)?);
    }
    let value = match (gathered, call.get("noMatchResult")) {
        (Some(Gathered::Object(entries)), _) => JsonValue::Object(entries.list),
        (Some(Gathered::Array(list)), _) => JsonValue::Array(list),
        (None, Some(none)) => return expander.value(none, call.scope),
        (None, None) if items.is_object => JsonValue::Object(Vec::new()),
        (None, None) => JsonValue::Array(Vec::new()),
    };
    Ok(Rc::new(Json::new(call.place, value)))
}

/// What `foreach` has put together.
enum Gathered {
    Object(Entries),
    Array(Vec<Json>),
}

impl Gathered {
    /// The first piece decides between an object and an array.
    fn append(gathered: Option<Gathered>, piece: Json) -> Result<Gathered, ConfigError> {
        match (gathered, piece.value) {
            (None, JsonValue::Object(entries)) => Ok(Gathered::Object(Entries::from(entries))),
            (None, JsonValue::Array(items)) => Ok(Gathered::Array(items)),
            (Some(Gathered::Object(mut all)), JsonValue::Object(entries)) => {
                entries.into_iter().for_each(|(key, json)| all.set(key, json));
                Ok(Gathered::Object(all))
            }
            (Some(Gathered::Array(mut all)), JsonValue::Array(items)) => {
                all.extend(items);
                Ok(Gathered::Array(all))
            }
            (gathered, value) => {
                let expected = match gathered {
                    None => "an object or an array (`use` of foreach)",
                    Some(Gathered::Object(_)) => "an object (`use` of foreach), as before",
                    Some(Gathered::Array(_)) => "an array (`use` of foreach), as before",
                };
                Err(Json::new(piece.place, value).wrong(expected))
            }
        }
    }
}
