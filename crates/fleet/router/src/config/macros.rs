//! The preprocessor: macros, constants, variables and imports of a configuration, expanded.
//!
//! ```text
//!  Expander::config ─► define: `macros` ─► Expander::value, from the root down
//!                                            string   text.rs: `%name%`, `@macro(a,b)`, `\`
//!                                            object   `vars` (scope.rs), `type`: a macro or a loop
//!                                            call     define.rs: parameters ─► a body, or a function of builtins.rs
//! ```
//!
//! It does what mcrouter's ConfigPreprocessor does, with these differences. Objects keep the order of the text, where
//! mcrouter's have none. What refers to itself is an error, not null. Sums beyond 64 bits and shifts beyond 63 bits are
//! errors. And the work is bounded ([`STEP_COUNT_MAX`]): macros that double themselves end in an error.
//!
//! No file is read here and no clock: imports, addresses and the seed of `shuffle` come from the caller.

mod args;
mod budget;
mod define;
mod import;
mod scope;
mod text;

pub(super) use args::{Args, Function, Loop, Outcome, Run};
pub(super) use budget::check_string;
pub use budget::{IMPORTED_LEN_MAX, NESTING_MAX, STEP_COUNT_MAX, STRING_LEN_MAX};
pub(super) use define::{Body, Macro, Param};
pub(super) use scope::{Scope, Variable};

use super::error::{ConfigError, Location, Sources};
use super::json::{Entries, Json, JsonValue};
use budget::Budget;
use define::Constant;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use stdx::prng::Prng;

/// What a configuration may ask of its surroundings.
pub struct Environment<'e> {
    /// Constants that are there before the configuration's own; [`super::globals`] makes mcrouter's.
    pub globals: Vec<(String, JsonValue)>,
    /// The text behind `@import(path)`, or why there is none.
    pub importer: &'e mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
    /// Whether an address is one of this host, for `@isLocalIp`.
    pub is_local: &'e dyn Fn(IpAddr) -> bool,
    /// Decides what `@shuffle` without a seed does.
    pub seed: u64,
}

/// What is built in: `builtins.rs` has it.
pub(super) struct BuiltIn {
    pub(super) macros: HashMap<String, Rc<Macro>>,
    /// The loop of a `type`.
    pub(super) loops: fn(&str) -> Option<Run>,
}

/// What was imported.
#[derive(Default)]
struct Imports {
    done: HashMap<String, Rc<Json>>,
    /// Those that are being expanded, one in the other.
    open: Vec<String>,
    len: usize,
}

/// The state of an expansion.
pub(super) struct Expander<'e> {
    pub(super) environment: Environment<'e>,
    pub(super) random: Prng,
    pub(super) budget: Budget,
    pub(super) sources: Sources,
    built_in: BuiltIn,
    constants: HashMap<String, Constant>,
    imports: Imports,
}

impl<'e> Expander<'e> {
    pub(super) fn new(mut environment: Environment<'e>, built_in: BuiltIn) -> Expander<'e> {
        let globals = std::mem::take(&mut environment.globals);
        let mut expander = Expander {
            random: Prng::new(environment.seed),
            environment,
            budget: Budget::default(),
            sources: Sources::default(),
            built_in,
            constants: HashMap::new(),
            imports: Imports::default(),
        };
        let source = expander.sources.add("parameters");
        for (name, value) in globals {
            // The first of equal names counts, as in mcrouter.
            let json = Json::new(Location { source, line: 0 }, value);
            expander.constants.entry(name).or_insert(Constant::Raw(json));
        }
        expander
    }

    /// Expands a whole configuration.
    pub(super) fn config(&mut self, json: &Json) -> Result<Json, ConfigError> {
        let config = json.object("a configuration")?;
        if let Some(macros) = config.get("macros") {
            self.define(macros)?;
        }
        let rest: Vec<&(String, Json)> = config.entries().iter().filter(|(key, _)| key != "macros").collect();
        let expanded = self.object(json.place, &rest, &Scope::root())?;
        self.take(expanded)
    }

    /// Expands a value. What is the whole of a parameter or a constant is shared with it, not copied.
    pub(super) fn value(&mut self, json: &Json, scope: &Scope<'_>) -> Result<Rc<Json>, ConfigError> {
        self.budget.enter(json.place)?;
        let outcome = match &json.value {
            JsonValue::String(text) => self.string(text, json.place, scope),
            JsonValue::Object(entries) => self.object(json.place, &entries.iter().collect::<Vec<_>>(), scope),
            JsonValue::Array(items) => self.array(json.place, items, scope).map(Rc::new),
            JsonValue::Null | JsonValue::Bool(_) | JsonValue::Int(_) | JsonValue::Double(_) => {
                Ok(Rc::new(json.clone()))
            }
        };
        self.budget.leave();
        outcome
    }

    /// Expands a value, and copies it if it is shared.
    pub(super) fn expand(&mut self, json: &Json, scope: &Scope<'_>) -> Result<Json, ConfigError> {
        let value = self.value(json, scope)?;
        self.take(value)
    }

    /// The value itself, or a copy if others have it, too.
    pub(super) fn take(&mut self, value: Rc<Json>) -> Result<Json, ConfigError> {
        Rc::try_unwrap(value).or_else(|shared| self.copy(&shared))
    }

    /// A copy, which is paid for.
    pub(super) fn copy(&mut self, json: &Json) -> Result<Json, ConfigError> {
        self.budget.pay_for_copy(json)?;
        Ok(json.clone())
    }

    fn array(&mut self, place: Location, items: &[Json], scope: &Scope<'_>) -> Result<Json, ConfigError> {
        let items: Result<_, _> = items.iter().map(|item| self.expand(item, scope)).collect();
        Ok(Json::new(place, JsonValue::Array(items?)))
    }

    fn object(
        &mut self,
        place: Location,
        entries: &[&(String, Json)],
        scope: &Scope<'_>,
    ) -> Result<Rc<Json>, ConfigError> {
        let Some((_, vars)) = entries.iter().find(|(key, _)| key == "vars") else {
            return self.object_in(place, entries, scope);
        };
        let inner = Scope::inside(scope);
        let vars = vars.object("`vars`")?;
        for (name, json) in vars.entries() {
            self.budget.pay_for_copy(json)?;
            inner.add(name, Variable::Lazy(json.clone()), json.place)?;
        }
        for (name, _) in vars.entries() {
            self.find(&inner, name)?;
        }
        let rest: Vec<_> = entries.iter().copied().filter(|(key, _)| key != "vars").collect();
        self.object_in(place, &rest, &inner)
    }

    /// An object without `vars`: a loop, a call, or entries to expand.
    fn object_in(
        &mut self,
        place: Location,
        entries: &[&(String, Json)],
        scope: &Scope<'_>,
    ) -> Result<Rc<Json>, ConfigError> {
        if let Some((_, kind)) = entries.iter().find(|(key, _)| key == "type") {
            let kind = self.value(kind, scope)?;
            if let Some(kind) = kind.as_str()
                && let Some(outcome) = self.call_of_object(kind, place, entries, scope)
            {
                return outcome.map_err(|error| error.inside(format!("`{kind:.80}`"), place));
            }
        }
        let mut expanded = Entries::default();
        for (key, json) in entries {
            let name = self.key(key, json.place, scope)?;
            expanded.set(name, self.expand(json, scope)?);
        }
        Ok(Rc::new(Json::new(place, JsonValue::Object(expanded.list))))
    }

    /// What a `type` does, if it does anything here: most are types of routes.
    fn call_of_object(
        &mut self,
        kind: &str,
        place: Location,
        entries: &[&(String, Json)],
        scope: &Scope<'_>,
    ) -> Option<Result<Rc<Json>, ConfigError>> {
        if matches!(kind, "macroDef" | "constDef") {
            // Not expanded before it is used: `define` reads it.
            let entries = entries.iter().map(|&entry| entry.clone()).collect();
            let definition = Json::new(place, JsonValue::Object(entries));
            return Some(self.budget.pay_for_copy(&definition).map(|()| Rc::new(definition)));
        }
        if let Some(run) = (self.built_in.loops)(kind) {
            return Some(run(self, &Loop { place, entries, scope }));
        }
        let called = Rc::clone(self.built_in.macros.get(kind)?);
        Some(
            called.arguments_of_object(self, place, entries, scope).and_then(|args| self.call(&called, args)),
        )
    }

    fn key(&mut self, key: &str, place: Location, scope: &Scope<'_>) -> Result<String, ConfigError> {
        let expanded = self.string(key, place, scope)?;
        Ok(expanded.string("an expanded key")?.to_owned())
    }

    /// Carries out a macro or a function.
    fn call(&mut self, called: &Macro, mut args: Args<'_>) -> Result<Rc<Json>, ConfigError> {
        match &called.body {
            Body::BuiltIn(function) => function(self, &mut args),
            Body::Result(body) => {
                let scope = Scope::root();
                let place = args.place;
                for (name, value) in args.into_ready() {
                    scope.add(&name, Variable::Ready(value), place)?;
                }
                self.value(body, &scope)
            }
        }
    }

    /// A string: text with `%name%`, or a call if it begins with `@`.
    fn string(&mut self, text: &str, place: Location, scope: &Scope<'_>) -> Result<Rc<Json>, ConfigError> {
        self.budget.enter(place)?;
        self.budget.pay_for_bytes(text.len(), place)?;
        let outcome = match text.strip_prefix('@') {
            Some(call) => self.call_of_string(call, place, scope),
            None => self.substitute(text, place, scope),
        };
        self.budget.leave();
        outcome
    }

    /// `name` or `name(a,b)`.
    fn call_of_string(
        &mut self,
        call: &str,
        place: Location,
        scope: &Scope<'_>,
    ) -> Result<Rc<Json>, ConfigError> {
        let wrong = |message: String| ConfigError::new(place, message);
        let (name, params) = match text::find_unescaped(call, b'(') {
            None => (call, Vec::new()),
            Some(at) => {
                let inner = call[at + 1..].strip_suffix(')');
                let inner =
                    inner.ok_or_else(|| wrong(format!("expected `)` at the end of `@{call:.80}`")))?;
                (&call[..at], text::parameters(inner).map_err(wrong)?)
            }
        };
        let name = self.substitute(name, place, scope)?;
        let name = name.string("the name of a macro")?;
        let Some(called) = self.built_in.macros.get(name).map(Rc::clone) else {
            return Err(wrong(format!("expected a macro, found `@{name:.80}`, which is not defined")));
        };
        let args = called.arguments_of_string(self, place, &params, scope);
        args.and_then(|args| self.call(&called, args))
            .map_err(|error| error.inside(format!("macro `{name:.80}`"), place))
    }

    /// Replaces every `%name%`. A string that is nothing else becomes the value, of any kind.
    fn substitute(
        &mut self,
        text: &str,
        place: Location,
        scope: &Scope<'_>,
    ) -> Result<Rc<Json>, ConfigError> {
        let mut result = String::new();
        let mut rest = text;
        while let Some(at) = text::unescape_until(rest, &mut result, '%') {
            rest = &rest[at + 1..];
            let mut name = String::new();
            let Some(end) = text::unescape_until(rest, &mut name, '%') else {
                return Err(ConfigError::new(place, format!("expected `%` after `%{name:.80}`, found none")));
            };
            rest = &rest[end + 1..];
            let value = self.named(&name, place, scope)?;
            if result.is_empty() && rest.is_empty() {
                return Ok(value);
            }
            let Some(part) = value.as_str() else {
                let found = format!("{} in `%{name:.80}%`", value.found());
                return Err(ConfigError::expected(place, "a string inside a string", found));
            };
            self.budget.pay_for_bytes(part.len(), place)?;
            result.push_str(part);
            check_string(&result, place)?;
        }
        Ok(Rc::new(Json::new(place, JsonValue::String(result))))
    }

    /// The value of a parameter, a variable or a constant.
    fn named(&mut self, name: &str, place: Location, scope: &Scope<'_>) -> Result<Rc<Json>, ConfigError> {
        if let Some(value) = self.find(scope, name)? {
            return Ok(value);
        }
        let missing = || {
            ConfigError::new(
                place,
                format!("expected a parameter, variable or constant, found `%{name:.80}%`"),
            )
        };
        self.constant(name, place)?.ok_or_else(missing)
    }

    /// The value of a parameter or variable, expanded now if it was not yet.
    fn find(&mut self, scope: &Scope<'_>, name: &str) -> Result<Option<Rc<Json>>, ConfigError> {
        let Some((owner, variable)) = scope.start(name) else { return Ok(None) };
        let json = match variable {
            Variable::Ready(value) => return Ok(Some(value)),
            Variable::Lazy(json) => json,
            Variable::Expanding(place) => {
                return Err(ConfigError::new(place, format!("variable `{name:.80}` refers to itself")));
            }
        };
        match self.value(&json, owner) {
            Ok(value) => {
                owner.set(name, Variable::Ready(Rc::clone(&value)));
                Ok(Some(value))
            }
            Err(error) => {
                let error = error.inside(format!("variable `{name:.80}`"), json.place);
                // The default of an import may catch the error; who asks again gets the same.
                owner.set(name, Variable::Lazy(json));
                Err(error)
            }
        }
    }

    /// Whether `%name%` means something.
    pub(super) fn is_defined(&self, name: &str, scope: &Scope<'_>) -> bool {
        scope.contains(name) || self.constants.contains_key(name)
    }
}
