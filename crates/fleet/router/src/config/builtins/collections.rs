//! Functions of arrays, objects and strings.

use crate::config::error::ConfigError;
use crate::config::json::{Entries, Json, JsonValue};
use crate::config::macros::{Args, Expander, Outcome, check_string};
use std::rc::Rc;

pub(super) fn keys(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.value(expander, "dictionary")?;
    let entries = dictionary.object("`dictionary` of keys")?.entries();
    expander.budget.pay(entries.len(), args.place)?;
    let keys = entries.iter().map(|(key, json)| Json::new(json.place, JsonValue::String(key.clone())));
    args.result(JsonValue::Array(keys.collect()))
}

pub(super) fn values(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.take(expander, "dictionary")?;
    match dictionary.value {
        JsonValue::Object(entries) => {
            args.result(JsonValue::Array(entries.into_iter().map(|(_, json)| json).collect()))
        }
        _ => Err(dictionary.wrong("an object (`dictionary` of values)")),
    }
}

/// Arrays and strings one after the other; objects into one, where the later entry of one key counts.
pub(super) fn merge(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let params = args.take(expander, "params")?;
    let JsonValue::Array(params) = params.value else {
        return Err(params.wrong("an array (`params` of merge)"));
    };
    let mut params = params.into_iter();
    let Some(first) = params.next() else { return Err(args.error("expected `params` of merge, found none")) };
    let kind = first.kind();
    let wrong = |json: &Json| json.wrong(format_args!("{kind}, as the first of what is merged"));
    let merged = match first.value {
        JsonValue::Array(mut all) => {
            for param in params {
                let JsonValue::Array(items) = param.value else { return Err(wrong(&param)) };
                all.extend(items);
            }
            JsonValue::Array(all)
        }
        JsonValue::Object(entries) => {
            let mut all = Entries::from(entries);
            for param in params {
                let JsonValue::Object(entries) = param.value else { return Err(wrong(&param)) };
                entries.into_iter().for_each(|(key, json)| all.set(key, json));
            }
            JsonValue::Object(all.list)
        }
        JsonValue::String(mut all) => {
            for param in params {
                let JsonValue::String(text) = &param.value else { return Err(wrong(&param)) };
                all.push_str(text);
                check_string(&all, args.place)?;
            }
            JsonValue::String(all)
        }
        _ => return Err(first.wrong("an array, an object or a string to merge")),
    };
    args.result(merged)
}

/// An entry of an object, or an item of an array, from the end if it is negative.
pub(super) fn select(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.value(expander, "dictionary")?;
    let key = args.value(expander, "key")?;
    let found = match &dictionary.value {
        JsonValue::Object(entries) => {
            let key = key.string("`key` of select in an object")?;
            find(expander, args, entries, key)?
        }
        JsonValue::Array(items) => {
            let at = key.integer("`key` of select in an array", i64::MIN..=i64::MAX)?;
            let at = if at < 0 { at + items.len() as i64 } else { at };
            usize::try_from(at).ok().and_then(|at| items.get(at))
        }
        _ => return Err(dictionary.wrong("an object or an array to select from")),
    };
    if let Some(found) = found {
        return expander.copy(found).map(Rc::new);
    }
    match args.optional(expander, "default")? {
        Some(default) => Ok(default),
        None => Err(args.error(format!(
            "expected `default`, or what has {}: {}",
            key.found(),
            dictionary.found()
        ))),
    }
}

/// An object's entry. Looking for it is paid for, because objects may be large.
fn find<'j>(
    expander: &mut Expander<'_>,
    args: &Args<'_>,
    entries: &'j [(String, Json)],
    key: &str,
) -> Result<Option<&'j Json>, ConfigError> {
    expander.budget.pay(entries.len() / 32, args.place)?;
    Ok(entries.iter().find(|(name, _)| name == key).map(|(_, json)| json))
}

/// From one key or index to another, both included.
pub(super) fn slice(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let from = args.value(expander, "from")?;
    let to = args.value(expander, "to")?;
    let dictionary = args.take(expander, "dictionary")?;
    let bounds = |len: usize| -> Result<std::ops::Range<usize>, ConfigError> {
        let bound = |json: &Json, name| json.integer(name, i64::MIN..=i64::MAX);
        let end = bound(&to, "`to` of slice")?.saturating_add(1).clamp(0, len as i64) as usize;
        let start = bound(&from, "`from` of slice")?.clamp(0, end as i64) as usize;
        Ok(start..end)
    };
    match dictionary.value {
        JsonValue::Object(mut entries) => {
            let from = from.string("`from` of slice of an object")?;
            let to = to.string("`to` of slice of an object")?;
            entries.retain(|(key, _)| (from..=to).contains(&key.as_str()));
            args.result(JsonValue::Object(entries))
        }
        JsonValue::Array(mut items) => {
            let bounds = bounds(items.len())?;
            items.truncate(bounds.end);
            items.drain(..bounds.start);
            args.result(JsonValue::Array(items))
        }
        JsonValue::String(text) => match text.get(bounds(text.len())?) {
            Some(part) => args.result(JsonValue::String(part.to_owned())),
            None => Err(args.error("expected whole characters in a slice, found a part of one")),
        },
        _ => Err(dictionary.wrong("an array, an object or a string to slice")),
    }
}

pub(super) fn split(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let text = args.value(expander, "dictionary")?;
    let text = text.string("`dictionary` of split")?;
    let delimiter = args.value(expander, "delim")?;
    let delimiter = delimiter.string("`delim` of split")?;
    // Without a delimiter there is one piece.
    let pieces: Vec<&str> = if delimiter.is_empty() { vec![text] } else { text.split(delimiter).collect() };
    expander.budget.pay(pieces.len(), args.place)?;
    let pieces = pieces.into_iter().map(|piece| Json::new(args.place, JsonValue::String(piece.to_owned())));
    args.result(JsonValue::Array(pieces.collect()))
}

pub(super) fn range(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let [from, to] = args.integers(expander, ["from", "to"])?;
    let len = to.saturating_sub(from).saturating_add(1).max(0);
    expander.budget.pay(len as usize, args.place)?;
    let numbers = (0..len).map(|n| Json::new(args.place, JsonValue::Int(from + n)));
    args.result(JsonValue::Array(numbers.collect()))
}

pub(super) fn contains(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.value(expander, "dictionary")?;
    let key = args.value(expander, "key")?;
    let found = match &dictionary.value {
        JsonValue::Object(entries) => {
            find(expander, args, entries, key.string("`key` of contains in an object")?)?.is_some()
        }
        JsonValue::Array(items) => {
            // As much as a copy: comparing looks at all of it.
            expander.budget.pay_for_copy(&dictionary)?;
            items.contains(&key)
        }
        JsonValue::String(text) => {
            expander.budget.pay_for_bytes(text.len(), args.place)?;
            text.contains(key.string("`key` of contains in a string")?)
        }
        _ => return Err(dictionary.wrong("an object, an array or a string that may contain something")),
    };
    args.result(JsonValue::Bool(found))
}

pub(super) fn empty(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let len = len(expander, args)?;
    args.result(JsonValue::Bool(len == 0))
}

pub(super) fn size(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let len = len(expander, args)?;
    args.result(JsonValue::Int(len as i64))
}

/// Entries, items or bytes.
fn len(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Result<usize, ConfigError> {
    let dictionary = args.value(expander, "dictionary")?;
    match &dictionary.value {
        JsonValue::Object(entries) => Ok(entries.len()),
        JsonValue::Array(items) => Ok(items.len()),
        JsonValue::String(text) => Ok(text.len()),
        _ => Err(dictionary.wrong("an object, an array or a string")),
    }
}

pub(super) fn sort(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let dictionary = args.take(expander, "dictionary")?;
    let JsonValue::Array(mut items) = dictionary.value else {
        return Err(dictionary.wrong("an array to sort"));
    };
    let mut all_have_order = true;
    items.sort_by(|a, b| {
        let order = a.value.order(&b.value);
        all_have_order &= order.is_some();
        order.unwrap_or(std::cmp::Ordering::Equal)
    });
    if !all_have_order {
        return Err(args.error("expected values that have an order, found objects"));
    }
    args.result(JsonValue::Array(items))
}

pub(super) fn set(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let key = args.value(expander, "key")?;
    let value = args.take(expander, "value")?;
    let dictionary = args.take(expander, "dictionary")?;
    match dictionary.value {
        JsonValue::Object(mut entries) => {
            let key = key.string("`key` of set in an object")?;
            expander.budget.pay(entries.len() / 32, args.place)?;
            match entries.iter_mut().find(|(name, _)| name == key) {
                Some((_, old)) => *old = value,
                None => entries.push((key.to_owned(), value)),
            }
            args.result(JsonValue::Object(entries))
        }
        JsonValue::Array(mut items) if items.is_empty() => {
            items.clear();
            Err(key.error("expected an array with items to set one of, found an empty one"))
        }
        JsonValue::Array(mut items) => {
            let at = key.integer("`key` of set in an array", 0..=items.len() as i64 - 1)?;
            items[at as usize] = value;
            args.result(JsonValue::Array(items))
        }
        _ => Err(dictionary.wrong("an object or an array to set something in")),
    }
}
