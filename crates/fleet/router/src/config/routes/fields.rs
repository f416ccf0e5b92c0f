//! Fields that several routes have.

use super::Definition;
use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, Object};
use crate::message::operation::OperationClass;
use crate::message::outcome::Outcome;
use crate::routes::substitutes::failover::FailoverErrors;

/// mcrouter's names of operations that a client can send here.
const OPERATIONS: [&str; 14] = [
    "get", "gets", "gat", "gats", "set", "add", "replace", "append", "prepend", "cas", "delete", "incr",
    "decr", "touch",
];

/// Its names of operations that only its own clients send.
const OTHER_OPERATIONS: [&str; 3] = ["lease-get", "lease-set", "metaget"];

impl<'a> Definition<'a> {
    pub(super) fn json(self) -> &'a Json {
        match self {
            Definition::Object(json) | Definition::Text(json) | Definition::Nothing(json) => json,
        }
    }

    /// The object, unless it is a short form.
    pub(super) fn object(self) -> Result<Option<Object<'a>>, ConfigError> {
        match self {
            Definition::Object(json) => json.object("a route").map(Some),
            _ => Ok(None),
        }
    }
}

/// The children of a route: its field `children`, or the argument of a short form.
pub(super) fn children(definition: Definition<'_>) -> Result<Option<&Json>, ConfigError> {
    match definition {
        Definition::Object(json) => json.object("a route")?.require("children").map(Some),
        Definition::Text(json) => Ok(Some(json)),
        Definition::Nothing(_) => Ok(None),
    }
}

/// The operation with this name; `None` for one that clients cannot send.
pub(super) fn operation_named(name: &str, json: &Json) -> Result<Option<&'static str>, ConfigError> {
    if OTHER_OPERATIONS.contains(&name) {
        return Ok(None);
    }
    let found = OPERATIONS.into_iter().find(|known| *known == name);
    let names = || format!("expected one of {}, found operation `{name}`", OPERATIONS.join(", "));
    found.map(Some).ok_or_else(|| json.error(names()))
}

/// The class of operations with mcrouter's name of it.
pub(super) fn class_named(name: &str, json: &Json) -> Result<OperationClass, ConfigError> {
    match name {
        "get_like" => Ok(OperationClass::Get),
        "update_like" => Ok(OperationClass::Update),
        "delete_like" => Ok(OperationClass::Delete),
        "arithmetic_like" => Ok(OperationClass::Arithmetic),
        _ => Err(json.error(format!(
            "expected get_like, update_like, delete_like or arithmetic_like, found group `{name}`"
        ))),
    }
}

/// `failover_errors`: a list for all operations, or an object of lists.
pub(super) fn failover_errors(json: Option<&Json>) -> Result<FailoverErrors, ConfigError> {
    let Some(json) = json else { return Ok(FailoverErrors::default()) };
    if let JsonValue::Array(_) = json.value {
        let list = outcomes(json, "`failover_errors`")?;
        let all = || Some(list.clone());
        return Ok(FailoverErrors { gets: all(), updates: all(), deletes: all() });
    }
    let object = json.object("`failover_errors`")?;
    let list = |name| object.get(name).map(|list| outcomes(list, "a list of `failover_errors`")).transpose();
    Ok(FailoverErrors { gets: list("gets")?, updates: list("updates")?, deletes: list("deletes")? })
}

/// A list of errors.
pub(super) fn outcomes(json: &Json, what: &str) -> Result<Box<[Outcome]>, ConfigError> {
    let outcome = |json: &Json| {
        let name = json.string("the name of an error")?;
        Outcome::by_name(name).ok_or_else(|| json.wrong("the name of an outcome, such as timeout or tko"))
    };
    json.array(what)?.iter().map(outcome).collect()
}

/// `weights`
pub(super) fn numbers(json: &Json) -> Result<Vec<f64>, ConfigError> {
    json.array("`weights`")?.iter().map(|weight| weight.number("a weight", 0.0..=f64::INFINITY)).collect()
}

/// `tags`
pub(super) fn texts(json: &Json) -> Result<Vec<&str>, ConfigError> {
    json.array("`tags`")?.iter().map(|tag| tag.string("a tag")).collect()
}
