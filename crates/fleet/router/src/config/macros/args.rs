//! Arguments of a call, and the parts of a loop.

use super::{Expander, Scope};
use crate::config::error::{ConfigError, Location};
use crate::config::json::{Json, JsonValue};
use std::borrow::Cow;
use std::rc::Rc;

/// A function that is built in.
pub(in crate::config) type Function = fn(&mut Expander<'_>, &mut Args<'_>) -> Outcome;

/// A loop that is built in.
pub(in crate::config) type Run = fn(&mut Expander<'_>, &Loop<'_>) -> Outcome;

/// What a call yields.
pub(in crate::config) type Outcome = Result<Rc<Json>, ConfigError>;

/// The object that describes a loop.
pub(in crate::config) struct Loop<'l> {
    pub(in crate::config) place: Location,
    pub(in crate::config) entries: &'l [&'l (String, Json)],
    pub(in crate::config) scope: &'l Scope<'l>,
}

/// An argument.
pub(in crate::config) enum Arg<'s> {
    Raw(Cow<'s, Json>),
    Ready(Rc<Json>),
}

/// The arguments of a call, and where it stands.
pub(in crate::config) struct Args<'s> {
    pub(in crate::config) place: Location,
    pub(in crate::config) caller: &'s Scope<'s>,
    given: Vec<(String, Arg<'s>)>,
}

impl<'s> Args<'s> {
    pub(in crate::config) fn new(place: Location, caller: &'s Scope<'s>) -> Args<'s> {
        Args { place, caller, given: Vec::new() }
    }

    pub(in crate::config) fn push(&mut self, name: &str, arg: Arg<'s>) {
        self.given.push((name.to_owned(), arg));
    }

    /// The parameters of a macro, which are expanded.
    pub(in crate::config) fn into_ready(self) -> impl Iterator<Item = (String, Rc<Json>)> {
        self.given.into_iter().filter_map(|(name, arg)| match arg {
            Arg::Ready(value) => Some((name, value)),
            Arg::Raw(_) => None,
        })
    }

    /// An argument, expanded now if it was not yet.
    pub(in crate::config) fn optional(
        &mut self,
        expander: &mut Expander<'_>,
        name: &str,
    ) -> Result<Option<Rc<Json>>, ConfigError> {
        let Some(at) = self.given.iter().position(|(given, _)| given == name) else { return Ok(None) };
        // Taken out: nobody asks twice, and what only the call has need not be copied.
        match self.given.swap_remove(at).1 {
            Arg::Ready(value) => Ok(Some(value)),
            Arg::Raw(json) => expander.value(&json, self.caller).map(Some),
        }
    }

    /// An argument that must be there.
    pub(in crate::config) fn value(&mut self, expander: &mut Expander<'_>, name: &str) -> Outcome {
        let value = self.optional(expander, name)?;
        value.ok_or_else(|| self.error(format!("expected parameter `{name}`, found none")))
    }

    /// An argument to keep.
    pub(in crate::config) fn take(
        &mut self,
        expander: &mut Expander<'_>,
        name: &str,
    ) -> Result<Json, ConfigError> {
        let value = self.value(expander, name)?;
        expander.take(value)
    }

    /// Two numbers.
    pub(in crate::config) fn integers(
        &mut self,
        expander: &mut Expander<'_>,
        names: [&str; 2],
    ) -> Result<[i64; 2], ConfigError> {
        let mut numbers = [0; 2];
        for (number, name) in numbers.iter_mut().zip(names) {
            *number = self.value(expander, name)?.integer(name, i64::MIN..=i64::MAX)?;
        }
        Ok(numbers)
    }

    /// A result that stands where the call does.
    pub(in crate::config) fn result(&self, value: JsonValue) -> Outcome {
        Ok(Rc::new(Json::new(self.place, value)))
    }

    pub(in crate::config) fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::new(self.place, message)
    }
}
