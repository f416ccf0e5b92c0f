//! Definitions in `macros`: macros, constants, and what calls pass to them.

use super::Expander;
use super::args::{Arg, Args, Function};
use super::scope::Scope;
use crate::config::error::{ConfigError, Location};
use crate::config::json::{Json, JsonValue, Object};
use std::borrow::Cow;
use std::rc::Rc;

/// A macro, or a function that is built in.
pub(in crate::config) struct Macro {
    pub(in crate::config) name: String,
    pub(in crate::config) params: Vec<Param>,
    /// Parameters are expanded before the call. Otherwise the function does it, or does not.
    pub(in crate::config) is_eager: bool,
    pub(in crate::config) body: Body,
}

/// What a macro does.
pub(in crate::config) enum Body {
    /// Is expanded with the parameters.
    Result(Json),
    BuiltIn(Function),
}

/// A parameter.
pub(in crate::config) struct Param {
    pub(in crate::config) name: String,
    pub(in crate::config) is_required: bool,
    pub(in crate::config) default: Option<Rc<Json>>,
}

/// A constant: expanded when it is first used, because it may use others that follow.
pub(super) enum Constant {
    Raw(Json),
    Expanding,
    Ready(Rc<Json>),
}

impl Macro {
    /// What `@macro(a,b)` passes.
    pub(super) fn arguments_of_string<'s>(
        &self,
        expander: &mut Expander<'_>,
        place: Location,
        given: &[&str],
        caller: &'s Scope<'s>,
    ) -> Result<Args<'s>, ConfigError> {
        let least = self.params.iter().filter(|param| param.is_required).count();
        if !(least..=self.params.len()).contains(&given.len()) {
            let most = self.params.len();
            let accepted = if least == most { least.to_string() } else { format!("{least} to {most}") };
            let message =
                format!("expected {accepted} parameters of `{:.80}`, found {}", self.name, given.len());
            return Err(ConfigError::new(place, message));
        }
        let mut args = Args::new(place, caller);
        for (n, param) in self.params.iter().enumerate() {
            let json = given.get(n).map(|text| Json::new(place, JsonValue::String((*text).to_owned())));
            self.pass(expander, &mut args, param, json.map(Cow::Owned))?;
        }
        Ok(args)
    }

    /// What `{"type": "macro", "a": …}` passes.
    pub(super) fn arguments_of_object<'s>(
        &self,
        expander: &mut Expander<'_>,
        place: Location,
        entries: &[&'s (String, Json)],
        caller: &'s Scope<'s>,
    ) -> Result<Args<'s>, ConfigError> {
        let mut args = Args::new(place, caller);
        for param in &self.params {
            // Both may be many.
            expander.budget.pay(entries.len() / 32, place)?;
            let given = entries.iter().find(|(key, _)| *key == param.name);
            if given.is_none() && param.is_required {
                let message =
                    format!("expected parameter `{:.80}` of `{:.80}`, found none", param.name, self.name);
                return Err(ConfigError::new(place, message));
            }
            self.pass(expander, &mut args, param, given.map(|(_, json)| Cow::Borrowed(json)))?;
        }
        Ok(args)
    }

    fn pass<'s>(
        &self,
        expander: &mut Expander<'_>,
        args: &mut Args<'s>,
        param: &Param,
        given: Option<Cow<'s, Json>>,
    ) -> Result<(), ConfigError> {
        let arg = match (given, &param.default) {
            (Some(json), _) if self.is_eager => Arg::Ready(expander.value(&json, args.caller)?),
            (Some(json), _) => Arg::Raw(json),
            (None, Some(default)) => Arg::Ready(Rc::clone(default)),
            (None, None) => return Ok(()),
        };
        args.push(&param.name, arg);
        Ok(())
    }
}

impl Expander<'_> {
    /// Reads `macros`: an object of definitions, or a list of such, which may be made by macros before them.
    pub(super) fn define(&mut self, json: &Json) -> Result<(), ConfigError> {
        self.budget.enter(json.place)?;
        let expanded = self.value(json, &Scope::root())?;
        match &expanded.value {
            JsonValue::Object(entries) => {
                entries.iter().try_for_each(|(name, definition)| self.define_one(name, definition))?;
            }
            // Each is expanded again, as mcrouter does it: it may use what those before it define.
            JsonValue::Array(lists) => lists.iter().try_for_each(|list| self.define(list))?,
            _ => return Err(expanded.wrong("an object or a list of `macros`")),
        }
        self.budget.leave();
        Ok(())
    }

    fn define_one(&mut self, name: &str, json: &Json) -> Result<(), ConfigError> {
        let definition = json.object("the definition of a macro or constant")?;
        let result = |definition: Object<'_>| definition.require("result").cloned();
        match definition.require("type")?.string("`type` of a definition")? {
            "constDef" => {
                self.constants.insert(name.to_owned(), Constant::Raw(result(definition)?));
            }
            "macroDef" => {
                let params = definition.array("params")?.unwrap_or_default();
                let params: Result<Vec<_>, _> = params.iter().map(param).collect();
                let (name, params, body) = (name.to_owned(), params?, Body::Result(result(definition)?));
                check_order(&name, &params, json)?;
                self.built_in
                    .macros
                    .insert(name.clone(), Rc::new(Macro { name, params, is_eager: true, body }));
            }
            _ => {
                let kind = definition.require("type")?;
                return Err(kind.wrong("`macroDef` or `constDef`"));
            }
        }
        Ok(())
    }

    /// The value of a constant, expanded now if it was not yet.
    pub(super) fn constant(&mut self, name: &str, place: Location) -> Result<Option<Rc<Json>>, ConfigError> {
        let Some(constant) = self.constants.get_mut(name) else { return Ok(None) };
        let json = match std::mem::replace(constant, Constant::Expanding) {
            Constant::Ready(value) => {
                *constant = Constant::Ready(Rc::clone(&value));
                return Ok(Some(value));
            }
            Constant::Expanding => {
                return Err(ConfigError::new(place, format!("constant `{name:.80}` refers to itself")));
            }
            Constant::Raw(json) => json,
        };
        match self.value(&json, &Scope::root()) {
            Ok(value) => {
                self.constants.insert(name.to_owned(), Constant::Ready(Rc::clone(&value)));
                Ok(Some(value))
            }
            Err(error) => {
                let error = error.inside(format!("constant `{name:.80}`"), json.place);
                // The default of an import may catch the error; who asks again gets the same.
                self.constants.insert(name.to_owned(), Constant::Raw(json));
                Err(error)
            }
        }
    }
}

/// A parameter: its name, or an object with `name`, `default`, `optional`.
fn param(json: &Json) -> Result<Param, ConfigError> {
    if let Some(name) = json.as_str() {
        return Ok(Param { name: name.to_owned(), is_required: true, default: None });
    }
    let object = json.object("a parameter of a macro")?;
    let name = object.require("name")?.string("`name` of a parameter")?.to_owned();
    let optional = object.bool("optional")?;
    let default = object.get("default");
    if default.is_some() && optional == Some(false) {
        return Err(
            json.error(format!("expected no `default` of `{name:.80}`, which is not optional, found one"))
        );
    }
    let is_required = default.is_none() && optional != Some(true);
    let default = default.filter(|default| !matches!(default.value, JsonValue::Null));
    Ok(Param { name, is_required, default: default.cloned().map(Rc::new) })
}

/// Optional parameters stand behind the required ones.
fn check_order(name: &str, params: &[Param], json: &Json) -> Result<(), ConfigError> {
    match params.iter().skip_while(|param| param.is_required).find(|param| param.is_required) {
        Some(late) => {
            let param = &late.name;
            let message =
                format!("expected required parameters of `{name:.80}` first, found `{param:.80}` later");
            Err(json.error(message))
        }
        None => Ok(()),
    }
}
