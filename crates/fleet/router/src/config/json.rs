//! JSON values that know their file and line, and how to refuse what a value must not be.

mod access;
mod parse;
mod print;
#[cfg(test)]
mod tests;

pub use crate::config::error::{ConfigError, Location, Sources};
pub use access::Object;
pub(crate) use parse::Entries;
pub use parse::{DEPTH_MAX, NODE_COUNT_MAX, TEXT_LEN_MAX, parse};
pub use print::double_text;

use std::cmp::Ordering;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub struct Json {
    /// Where its first character stands.
    pub place: Location,
    /// What it is.
    pub value: JsonValue,
}

/// A JSON value.
#[derive(Clone, Debug)]
pub enum JsonValue {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number without point and exponent.
    Int(i64),
    /// Any other number.
    Double(f64),
    /// Text; UTF-8, because JSON is.
    String(String),
    /// `[…]`
    Array(Vec<Json>),
    /// `{…}`, in the order of the text, without two entries of one key.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// A value at a place.
    pub fn new(place: Location, value: JsonValue) -> Json {
        Json { place, value }
    }
}

/// Equal in content, wherever it stands: the order of an object's entries does not count, and 1 equals 1.0, as in mcrouter.
impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.value == other.value
    }
}

impl PartialEq for JsonValue {
    fn eq(&self, other: &JsonValue) -> bool {
        match (self, other) {
            (JsonValue::Null, JsonValue::Null) => true,
            (JsonValue::Bool(a), JsonValue::Bool(b)) => a == b,
            (JsonValue::Int(a), JsonValue::Int(b)) => a == b,
            (JsonValue::Int(a), JsonValue::Double(b)) | (JsonValue::Double(b), JsonValue::Int(a)) => {
                *a as f64 == *b
            }
            (JsonValue::Double(a), JsonValue::Double(b)) => a == b,
            (JsonValue::String(a), JsonValue::String(b)) => a == b,
            (JsonValue::Array(a), JsonValue::Array(b)) => a == b,
            (JsonValue::Object(a), JsonValue::Object(b)) => a.len() == b.len() && sorted(a) == sorted(b),
            _ => false,
        }
    }
}

/// An object's entries by key.
fn sorted(entries: &[(String, Json)]) -> Vec<&(String, Json)> {
    let mut entries: Vec<_> = entries.iter().collect();
    entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    entries
}

impl JsonValue {
    /// Order of sorting, as mcrouter's: by kind first, numbers among each other by value. Two objects have none.
    /// Otherwise it is total, as sorting requires: integers and doubles are compared without rounding.
    pub fn order(&self, other: &JsonValue) -> Option<Ordering> {
        Some(match (self, other) {
            (JsonValue::Object(_), JsonValue::Object(_)) => return None,
            (JsonValue::Bool(a), JsonValue::Bool(b)) => a.cmp(b),
            (JsonValue::Int(a), JsonValue::Int(b)) => a.cmp(b),
            (JsonValue::Int(a), JsonValue::Double(b)) => order_of_mixed(*a, *b),
            (JsonValue::Double(a), JsonValue::Int(b)) => order_of_mixed(*b, *a).reverse(),
            // Adding 0.0 makes -0.0 equal to 0.0, as both are equal to the integer.
            (JsonValue::Double(a), JsonValue::Double(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (JsonValue::String(a), JsonValue::String(b)) => a.cmp(b),
            (JsonValue::Array(a), JsonValue::Array(b)) => return order_of_arrays(a, b),
            _ => self.rank().cmp(&other.rank()),
        })
    }

    /// The order of kinds.
    fn rank(&self) -> u8 {
        match self {
            JsonValue::Null => 0,
            JsonValue::Array(_) => 1,
            JsonValue::Bool(_) => 2,
            JsonValue::Double(_) => 3,
            JsonValue::Int(_) => 4,
            JsonValue::Object(_) => 5,
            JsonValue::String(_) => 6,
        }
    }
}

/// An integer and a double. The conversion of a double without a fraction to `i128` is exact up to 2^127.
fn order_of_mixed(integer: i64, double: f64) -> Ordering {
    if double.is_nan() {
        return if double.is_sign_negative() { Ordering::Greater } else { Ordering::Less };
    }
    let whole = i128::from(integer).cmp(&(double.floor() as i128));
    if whole == Ordering::Equal && double.fract() != 0.0 { Ordering::Less } else { whole }
}

/// Item by item, then by length.
fn order_of_arrays(a: &[Json], b: &[Json]) -> Option<Ordering> {
    for (a, b) in a.iter().zip(b) {
        match a.value.order(&b.value)? {
            Ordering::Equal => {}
            unequal => return Some(unequal),
        }
    }
    Some(a.len().cmp(&b.len()))
}
