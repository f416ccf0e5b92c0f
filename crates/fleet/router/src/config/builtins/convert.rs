//! Conversions between kinds of values, and questions for the kind.

use crate::config::json::{Json, JsonValue, double_text};
use crate::config::macros::{Args, Expander, Outcome};
use std::rc::Rc;

/// Applies a conversion; `None` is an error that says what was wanted.
fn convert(
    expander: &mut Expander<'_>,
    args: &mut Args<'_>,
    wanted: &str,
    convert: impl Fn(&JsonValue) -> Option<JsonValue>,
) -> Outcome {
    let value = args.value(expander, "value")?;
    match convert(&value.value) {
        Some(converted) => args.result(converted),
        None => Err(args.error(format!("expected what can be {wanted}, found {}", value.found()))),
    }
}

pub(super) fn int(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    convert(expander, args, "an integer", |value| match value {
        JsonValue::Int(number) => Some(JsonValue::Int(*number)),
        JsonValue::Double(number) if (*number as i64) as f64 == *number => {
            Some(JsonValue::Int(*number as i64))
        }
        JsonValue::Bool(value) => Some(JsonValue::Int(i64::from(*value))),
        JsonValue::String(text) => text.trim().parse().ok().map(JsonValue::Int),
        _ => None,
    })
}

pub(super) fn double(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    convert(expander, args, "a number", |value| match value {
        JsonValue::Int(number) if (*number as f64) as i64 == *number => {
            Some(JsonValue::Double(*number as f64))
        }
        JsonValue::Double(number) => Some(JsonValue::Double(*number)),
        JsonValue::Bool(value) => Some(JsonValue::Double(f64::from(u8::from(*value)))),
        JsonValue::String(text) => text.trim().parse().ok().map(JsonValue::Double),
        _ => None,
    })
}

pub(super) fn str(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    convert(expander, args, "a string", |value| match value {
        JsonValue::Int(number) => Some(JsonValue::String(number.to_string())),
        JsonValue::Double(number) => Some(JsonValue::String(double_text(*number))),
        JsonValue::Bool(value) => Some(JsonValue::String(u8::from(*value).to_string())),
        JsonValue::String(text) => Some(JsonValue::String(text.clone())),
        _ => None,
    })
}

pub(super) fn bool(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    convert(expander, args, "a boolean", |value| match value {
        JsonValue::Int(number) => Some(JsonValue::Bool(*number != 0)),
        JsonValue::Double(number) => Some(JsonValue::Bool(*number != 0.0)),
        JsonValue::Bool(value) => Some(JsonValue::Bool(*value)),
        JsonValue::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "1" | "y" | "yes" | "t" | "true" | "on" => Some(JsonValue::Bool(true)),
            "0" | "n" | "no" | "f" | "false" | "off" => Some(JsonValue::Bool(false)),
            _ => None,
        },
        _ => None,
    })
}

fn is(expander: &mut Expander<'_>, args: &mut Args<'_>, question: impl Fn(&JsonValue) -> bool) -> Outcome {
    let value: Rc<Json> = args.value(expander, "value")?;
    args.result(JsonValue::Bool(question(&value.value)))
}

pub(super) fn is_array(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    is(expander, args, |value| matches!(value, JsonValue::Array(_)))
}

pub(super) fn is_bool(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    is(expander, args, |value| matches!(value, JsonValue::Bool(_)))
}

pub(super) fn is_int(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    is(expander, args, |value| matches!(value, JsonValue::Int(_)))
}

pub(super) fn is_double(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    is(expander, args, |value| matches!(value, JsonValue::Double(_)))
}

pub(super) fn is_object(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    is(expander, args, |value| matches!(value, JsonValue::Object(_)))
}

pub(super) fn is_string(expander: &mut Expander<'_>, args: &mut Args<'_>) -> Outcome {
    is(expander, args, |value| matches!(value, JsonValue::String(_)))
}
