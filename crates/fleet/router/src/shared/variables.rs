//! Runtime variables: values that change while the configuration stays. Weights of a hash, fractions of keys for shadows.
//!
//! A JSON object has them. Whoever depends on one keeps its present value in atomics, which all workers read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::config::json::{Json, JsonValue};
use crate::plan::hash::RuntimeWeights;

/// What depends on a variable.
#[derive(Clone, Debug)]
pub enum RuntimeVariable {
    /// Weights of a hash.
    Weights {
        /// In the object `hash_route_weights`.
        name: String,
        /// Their present values.
        weights: Arc<RuntimeWeights>,
    },
    /// A range of keys.
    KeyRange(Arc<KeyRange>),
}

impl RuntimeVariable {
    /// Takes the value that `variables` has.
    ///
    /// # Errors
    /// What is wrong with it, or that there is none. The value that it had stays.
    pub fn update(&self, variables: &Json) -> Result<(), String> {
        match self {
            RuntimeVariable::Weights { name, weights } => update_weights(name, weights, variables),
            RuntimeVariable::KeyRange(range) => range.update(variables),
        }
    }
}

fn update_weights(name: &str, weights: &RuntimeWeights, variables: &Json) -> Result<(), String> {
    let given = member(variables, "hash_route_weights").and_then(|all| member(all, name));
    let Some(Json { value: JsonValue::Array(given), .. }) = given else {
        let found = given.map_or_else(|| "none".to_owned(), Json::found);
        return Err(format!("expected an array `{name}` in the object `hash_route_weights`, found {found}"));
    };
    let wrong = |error: String| format!("`{name}` of `hash_route_weights`: {error}");
    let given = given.iter().map(number).collect::<Result<Vec<f64>, String>>().map_err(wrong)?;
    weights.set(&given).map_err(|error| wrong(error.to_string()))
}

/// Keys by their hash: those of a range.
#[derive(Debug, Default)]
pub struct KeyRange {
    /// The variable that changes it.
    name: Option<String>,
    /// First and last hash.
    ends: AtomicU64,
}

impl KeyRange {
    /// From one fraction of all keys to another, unless a variable says otherwise.
    ///
    /// # Errors
    /// Fractions that are not from 0 to 1, or in the wrong order.
    pub fn new(start: f64, end: f64, name: Option<String>) -> Result<KeyRange, String> {
        let range = KeyRange { name, ends: AtomicU64::new(0) };
        range.set(start, end).map(|()| range)
    }

    /// Whether a hash is in it.
    #[inline]
    pub fn contains(&self, hash: u32) -> bool {
        let ends = self.ends.load(Relaxed);
        (ends >> 32) as u32 <= hash && hash <= ends as u32
    }

    fn set(&self, start: f64, end: f64) -> Result<(), String> {
        if !(0.0 <= start && start <= end && end <= 1.0) {
            return Err(format!(
                "expected two numbers from 0 to 1, the smaller one first, found [{start}, {end}]"
            ));
        }
        let hash = |fraction: f64| (fraction * f64::from(u32::MAX)) as u64;
        self.ends.store(hash(start) << 32 | hash(end), Relaxed);
        Ok(())
    }

    /// mcrouter's rules: the end of the range from the object `key_fractions` if there is one, by the name without
    /// `key_fraction_range_`; else the range from the variable. Without either, the range stays.
    fn update(&self, variables: &Json) -> Result<(), String> {
        let Some(name) = &self.name else { return Ok(()) };
        let wrong = |error: String| format!("`{name}`: {error}");
        if let Some(fractions @ Json { value: JsonValue::Object(_), .. }) = member(variables, "key_fractions")
        {
            let name = name.strip_prefix("key_fraction_range_").unwrap_or(name);
            let Some(end) = member(fractions, name) else { return Ok(()) };
            return self.set(0.0, number(end).map_err(wrong)?).map_err(wrong);
        }
        let Some(json) = member(variables, name) else { return Ok(()) };
        match &json.value {
            JsonValue::Array(ends) if ends.len() == 2 => {
                let (start, end) = (number(&ends[0]).map_err(wrong)?, number(&ends[1]).map_err(wrong)?);
                self.set(start, end).map_err(wrong)
            }
            _ => Err(wrong(format!("expected an array of two numbers, found {}", json.found()))),
        }
    }
}

fn member<'j>(json: &'j Json, name: &str) -> Option<&'j Json> {
    json.object("variables").ok()?.get(name).filter(|json| json.value != JsonValue::Null)
}

fn number(json: &Json) -> Result<f64, String> {
    json.number("a part of 1", f64::MIN..=f64::INFINITY).map_err(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::json::parse;

    fn json(text: &str) -> Json {
        parse(0, text.as_bytes()).expect("JSON")
    }

    #[track_caller]
    fn weights(text: &str, expected: Result<[f64; 3], &str>) {
        let weights = Arc::new(RuntimeWeights::new(3));
        let variable = RuntimeVariable::Weights { name: "w".to_owned(), weights: Arc::clone(&weights) };
        variable.update(&json(r#"{"hash_route_weights": {"w": [0.25, 0.75, 1]}}"#)).expect("weights");
        let result = variable.update(&json(text));
        assert_eq!(result.is_err(), expected.is_err(), "{text}: {result:?}");
        if let (Err(found), Err(message)) = (result, expected) {
            assert!(found.contains(message), "{text}: {found}");
        }
        let other = RuntimeWeights::new(3);
        other.set(&expected.unwrap_or([0.25, 0.75, 1.0])).expect("weights");
        assert_eq!(format!("{weights:?}"), format!("{other:?}"), "{text}");
    }

    #[test]
    fn weights_are_taken_all_or_none() {
        weights(r#"{"hash_route_weights": {"w": [1, 0, 0.5]}}"#, Ok([1.0, 0.0, 0.5]));
        weights(r#"{"hash_route_weights": {"w": [1]}}"#, Ok([1.0, 0.5, 0.5]));
        weights(r#"{"hash_route_weights": {"w": [1, 1, 1, 1, 7]}}"#, Ok([1.0, 1.0, 1.0]));
        weights(r#"{"hash_route_weights": {"w": []}}"#, Ok([0.5, 0.5, 0.5]));
        weights(
            r#"{"hash_route_weights": {"w": [1, -0.1, 1]}}"#,
            Err("expected a weight from 0 to 1, found -0.1"),
        );
        weights(r#"{"hash_route_weights": {"w": [1, 1, 1e300]}}"#, Err("from 0 to 1"));
        weights(r#"{"hash_route_weights": {"w": [1, 1, "NaN"]}}"#, Err("found the string \"NaN\""));
        weights(r#"{"hash_route_weights": {"w": 5}}"#, Err("found the number 5"));
        weights(r#"{"hash_route_weights": {}}"#, Err("found none"));
        weights(r#"{"hash_route_weights": []}"#, Err("found none"));
        weights("{}", Err("found none"));
        weights("[]", Err("found none"));
    }

    #[track_caller]
    fn range(text: &str, expected: Result<[f64; 2], &str>) {
        let range = KeyRange::new(0.25, 0.5, Some("key_fraction_range_a".to_owned())).expect("a range");
        let result = range.update(&json(text));
        let [start, end] = expected.unwrap_or([0.25, 0.5]);
        let other = KeyRange::new(start, end, None).expect("a range");
        assert_eq!(range.ends.load(Relaxed), other.ends.load(Relaxed), "{text}");
        assert_eq!(result.is_err(), expected.is_err(), "{text}: {result:?}");
        if let (Err(found), Err(message)) = (result, expected) {
            assert!(found.contains(message), "{found}");
        }
    }

    #[test]
    fn a_range_is_that_of_its_variable_or_of_key_fractions() {
        range(r#"{"key_fraction_range_a": [0.5, 1]}"#, Ok([0.5, 1.0]));
        range(r#"{"key_fraction_range_a": [0, 0]}"#, Ok([0.0, 0.0]));
        range(r#"{"key_fractions": {"a": 0.75}, "key_fraction_range_a": [0.5, 1]}"#, Ok([0.0, 0.75]));
        range(r#"{"key_fractions": {"b": 0.75}, "key_fraction_range_a": [0.5, 1]}"#, Ok([0.25, 0.5]));
        range("{}", Ok([0.25, 0.5]));
        range(r#"{"key_fraction_range_a": [0.5, 0.4]}"#, Err("the smaller one first"));
        range(
            r#"{"key_fraction_range_a": [0.5]}"#,
            Err("expected an array of two numbers, found an array of 1"),
        );
        range(r#"{"key_fraction_range_a": [0.5, null]}"#, Err("expected a number"));
        range(r#"{"key_fractions": {"a": 1.5}}"#, Err("from 0 to 1"));
    }

    #[test]
    fn the_ends_of_a_range_belong_to_it() {
        let whole = KeyRange::new(0.0, 1.0, None).expect("a range");
        assert!(whole.contains(0) && whole.contains(u32::MAX));
        let none = KeyRange::default();
        assert!(none.contains(0) && !none.contains(1), "mcrouter's range of nothing has one hash");
        assert!(KeyRange::new(f64::NAN, 1.0, None).is_err() && KeyRange::new(-0.1, 1.0, None).is_err());
    }
}
