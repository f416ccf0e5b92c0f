//! Reading a value as what it must be, with an error that says what was found.

use super::{ConfigError, Json, JsonValue, Location};
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Characters of a string that an error shows.
const SHOWN_CHARS_MAX: usize = 40;

impl Json {
    /// `expected EXPECTED, found …` at this place. `expected` has its article: "a string".
    pub fn wrong(&self, expected: impl Display) -> ConfigError {
        ConfigError::expected(self.place, expected, self.found())
    }

    /// An error at this place.
    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::new(self.place, message)
    }

    /// What it is, for an error: `the string "abc"`, `an array of 3`.
    pub fn found(&self) -> String {
        match &self.value {
            JsonValue::Null => "null".to_owned(),
            JsonValue::Bool(value) => value.to_string(),
            JsonValue::Int(number) => format!("the number {number}"),
            JsonValue::Double(number) => format!("the number {}", super::double_text(*number)),
            JsonValue::String(text) => format!("the string {}", quoted(text)),
            JsonValue::Array(items) => format!("an array of {}", items.len()),
            JsonValue::Object(entries) if entries.is_empty() => "an empty object".to_owned(),
            JsonValue::Object(entries) => format!("an object with {}", quoted(&entries[0].0)),
        }
    }

    /// The kind of value: "a string", "an array".
    pub fn kind(&self) -> &'static str {
        match self.value {
            JsonValue::Null => "null",
            JsonValue::Bool(_) => "a boolean",
            JsonValue::Int(_) => "an integer",
            JsonValue::Double(_) => "a number with a fraction",
            JsonValue::String(_) => "a string",
            JsonValue::Array(_) => "an array",
            JsonValue::Object(_) => "an object",
        }
    }

    /// Its entries, if it is an object. `what` is "a pool", and appears in errors.
    pub fn object(&self, what: &'static str) -> Result<Object<'_>, ConfigError> {
        match &self.value {
            JsonValue::Object(entries) => Ok(Object { place: self.place, what, entries }),
            _ => Err(self.wrong(format_args!("an object ({what})"))),
        }
    }

    /// Its items, if it is an array.
    pub fn array(&self, what: impl Display) -> Result<&[Json], ConfigError> {
        match &self.value {
            JsonValue::Array(items) => Ok(items),
            _ => Err(self.wrong(format_args!("an array ({what})"))),
        }
    }

    /// Its text, if it is a string.
    pub fn string(&self, what: impl Display) -> Result<&str, ConfigError> {
        match &self.value {
            JsonValue::String(text) => Ok(text),
            _ => Err(self.wrong(format_args!("a string ({what})"))),
        }
    }

    /// Whether, if it is a boolean.
    pub fn bool(&self, what: impl Display) -> Result<bool, ConfigError> {
        match self.value {
            JsonValue::Bool(value) => Ok(value),
            _ => Err(self.wrong(format_args!("true or false ({what})"))),
        }
    }

    /// Its value, if it is an integer in the range.
    pub fn integer(&self, what: impl Display, range: RangeInclusive<i64>) -> Result<i64, ConfigError> {
        match self.value {
            JsonValue::Int(number) if range.contains(&number) => Ok(number),
            _ if range == (i64::MIN..=i64::MAX) => Err(self.wrong(format_args!("an integer ({what})"))),
            _ if *range.end() == i64::MAX => {
                Err(self.wrong(format_args!("an integer of at least {} ({what})", range.start())))
            }
            _ => {
                Err(self.wrong(format_args!("an integer from {} to {} ({what})", range.start(), range.end())))
            }
        }
    }

    /// Its value, if it is a number in the range, with or without a fraction.
    pub fn number(&self, what: impl Display, range: RangeInclusive<f64>) -> Result<f64, ConfigError> {
        let number = match self.value {
            JsonValue::Int(number) => number as f64,
            JsonValue::Double(number) => number,
            _ => f64::NAN,
        };
        if range.contains(&number) {
            return Ok(number);
        }
        if *range.start() == f64::MIN {
            return Err(self.wrong(format_args!("a number ({what})")));
        }
        if range.end().is_infinite() {
            return Err(self.wrong(format_args!("a number of at least {} ({what})", range.start())));
        }
        Err(self.wrong(format_args!("a number from {} to {} ({what})", range.start(), range.end())))
    }

    /// Its text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            JsonValue::String(text) => Some(text),
            _ => None,
        }
    }
}

/// An object's entries, with what the object is, for errors.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    place: Location,
    what: &'static str,
    entries: &'a [(String, Json)],
}

impl<'a> Object<'a> {
    /// Where the object begins.
    pub fn place(&self) -> Location {
        self.place
    }

    /// All entries, in the order of the text.
    pub fn entries(&self) -> &'a [(String, Json)] {
        self.entries
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a Json> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The value of a key that must be there.
    pub fn require(&self, key: &str) -> Result<&'a Json, ConfigError> {
        self.get(key).ok_or_else(|| {
            ConfigError::new(self.place, format!("expected `{key}` in {}, found none", self.what))
        })
    }

    /// A string, if the key is there.
    pub fn string(&self, key: &str) -> Result<Option<&'a str>, ConfigError> {
        self.get(key).map(|node| node.string(key_of(self.what, key))).transpose()
    }

    /// A boolean, if the key is there.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        self.get(key).map(|node| node.bool(key_of(self.what, key))).transpose()
    }

    /// An integer in the range, if the key is there.
    pub fn integer(&self, key: &str, range: RangeInclusive<i64>) -> Result<Option<i64>, ConfigError> {
        self.get(key).map(|node| node.integer(key_of(self.what, key), range)).transpose()
    }

    /// A number in the range, if the key is there.
    pub fn number(&self, key: &str, range: RangeInclusive<f64>) -> Result<Option<f64>, ConfigError> {
        self.get(key).map(|node| node.number(key_of(self.what, key), range)).transpose()
    }

    /// The items of an array, if the key is there.
    pub fn array(&self, key: &str) -> Result<Option<&'a [Json]>, ConfigError> {
        self.get(key).map(|node| node.array(key_of(self.what, key))).transpose()
    }
}

/// "`timeout` of a pool".
fn key_of(what: &str, key: &str) -> String {
    format!("`{key}` of {what}")
}

/// A string in quotes, with its end cut off if it is long, on one line.
fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{:?}…", &text[..at]),
        None => format!("{text:?}"),
    }
}
