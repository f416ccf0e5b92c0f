//! Decisions, comparisons, and questions for what is outside.

use crate::config::error::ConfigError;
use crate::config::json::JsonValue;
use crate::config::macros::{Args, Expander, Outcome};
use std::cmp::Ordering;
use std::net::IpAddr;

/// Characters of a message of `fail`: it goes to a terminal or a log.
const MESSAGE_LEN_MAX: usize = 2000;

/// A boolean argument.
fn condition(expander: &mut Expander<'_>, args: &mut Args<'_>, name: &str) -> Result<bool, ConfigError> {
    let value = args.value(expander, name)?;
    match value.value {
        JsonValue::Bool(value) => Ok(value),
        _ => Err(args.error(format!("expected true or false (`{name}`), found {}", value.found()))),
    }
}

pub(super) fn and(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let both = condition(expander, args, "A")? && condition(expander, args, "B")?;
    args.result(JsonValue::Bool(both))
}

pub(super) fn or(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let any = condition(expander, args, "A")? || condition(expander, args, "B")?;
    args.result(JsonValue::Bool(any))
}

pub(super) fn not(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let opposite = !condition(expander, args, "A")?;
    args.result(JsonValue::Bool(opposite))
}

pub(super) fn if_else(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let branch = if condition(expander, args, "condition")? { "is_true" } else { "is_false" };
    args.value(expander, branch)
}

pub(super) fn equals(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let (a, b) = (args.value(expander, "A")?, args.value(expander, "B")?);
    expander.budget.pay_for_copy(&a)?;
    args.result(JsonValue::Bool(a == b))
}

pub(super) fn less(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let (a, b) = (args.value(expander, "A")?, args.value(expander, "B")?);
    expander.budget.pay_for_copy(&a)?;
    let has_object = [&a, &b].iter().any(|json| matches!(json.value, JsonValue::Object(_)));
    match a.value.order(&b.value) {
        Some(order) if !has_object => args.result(JsonValue::Bool(order == Ordering::Less)),
        _ => Err(args.error("expected values that have an order, found objects")),
    }
}

pub(super) fn define(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    args.value(expander, "result")
}

pub(super) fn defined(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let name = args.value(expander, "name")?;
    let is_defined = expander.is_defined(name.string("`name` of defined")?, args.caller);
    args.result(JsonValue::Bool(is_defined))
}

pub(super) fn fail(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let message = args.value(expander, "msg")?;
    let text = match &message.value {
        JsonValue::String(text) => text.clone(),
        _ => message.to_pretty_json(),
    };
    Err(args.error(format!("{text:.MESSAGE_LEN_MAX$}")))
}

/// What is no address is not local.
pub(super) fn is_local_ip(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    let address = args.value(expander, "ip")?;
    let address: Option<IpAddr> = address.string("`ip` of isLocalIp")?.parse().ok();
    let is_local = address.is_some_and(|address| (expander.environment.is_local)(address));
    args.result(JsonValue::Bool(is_local))
}
