//! Limits of an expansion, so that a small text cannot ask for endless work or memory.

use crate::config::error::{ConfigError, Location};
use crate::config::json::{Json, JsonValue};

/// Expansions of a value, copies of a value, and pieces of 64 bytes of text. A server in a pool made by macros takes 3
/// (`large_but_honest_configurations_are_expanded`), so this is enough for 600,000. Macros that double themselves reach
/// it after 0.3 s, with 100 MB.
pub const STEP_COUNT_MAX: usize = 1 << 21;

/// Values and macros in each other that are expanded at a time: mcrouter's limit.
pub const NESTING_MAX: usize = 249;

/// Bytes of a string that macros have put together. The strings of a text may be longer.
pub const STRING_LEN_MAX: usize = 1 << 20;

/// Bytes of all imports.
pub const IMPORTED_LEN_MAX: usize = 64 << 20;

/// Depth of values that macros have put together. A text has at most 101, and what is written in it may add to that.
const DEPTH_MAX: usize = 2 * NESTING_MAX;

/// What has been used.
#[derive(Default)]
pub(in crate::config) struct Budget {
    steps: usize,
    nesting: usize,
}

impl Budget {
    /// Pays for an expansion that begins. [`Budget::leave`] ends it.
    pub(super) fn enter(&mut self, place: Location) -> Result<(), ConfigError> {
        if self.nesting >= NESTING_MAX {
            let found = "more: does a macro call itself?";
            return Err(ConfigError::expected(
                place,
                format_args!("at most {NESTING_MAX} macros and values in each other"),
                found,
            ));
        }
        self.pay(1, place)?;
        self.nesting += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.nesting -= 1;
    }

    /// Pays for `steps`; once there are too many, nothing can be paid any more.
    pub(in crate::config) fn pay(&mut self, steps: usize, place: Location) -> Result<(), ConfigError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > STEP_COUNT_MAX {
            let expected = format_args!("at most {STEP_COUNT_MAX} steps of expansion");
            return Err(ConfigError::expected(place, expected, "more: do macros multiply themselves?"));
        }
        Ok(())
    }

    /// Pays for text that is read or made.
    pub(in crate::config) fn pay_for_bytes(
        &mut self,
        len: usize,
        place: Location,
    ) -> Result<(), ConfigError> {
        self.pay(len / 64, place)
    }

    /// Pays for all values in a value.
    pub(in crate::config) fn pay_for_copy(&mut self, json: &Json) -> Result<(), ConfigError> {
        self.pay_at_depth(json, json.place, 0)
    }

    fn pay_at_depth(&mut self, json: &Json, place: Location, depth: usize) -> Result<(), ConfigError> {
        if depth > DEPTH_MAX {
            return Err(ConfigError::expected(
                place,
                format_args!("at most {DEPTH_MAX} values in each other"),
                "more",
            ));
        }
        self.pay(1, place)?;
        match &json.value {
            JsonValue::String(text) => self.pay_for_bytes(text.len(), place),
            JsonValue::Array(items) => {
                items.iter().try_for_each(|item| self.pay_at_depth(item, place, depth + 1))
            }
            JsonValue::Object(entries) => entries.iter().try_for_each(|(key, json)| {
                self.pay_for_bytes(key.len(), place)?;
                self.pay_at_depth(json, place, depth + 1)
            }),
            JsonValue::Null | JsonValue::Bool(_) | JsonValue::Int(_) | JsonValue::Double(_) => Ok(()),
        }
    }
}

/// A string that was put together is not too long.
pub(in crate::config) fn check_string(text: &str, place: Location) -> Result<(), ConfigError> {
    if text.len() <= STRING_LEN_MAX {
        return Ok(());
    }
    let expected = format_args!("at most {STRING_LEN_MAX} bytes of a string");
    Err(ConfigError::expected(place, expected, format_args!("{} bytes", text.len())))
}
