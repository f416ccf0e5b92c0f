//! Values of an adopted configuration: which of them a generation can hold, and refusals with their place.

use serde_json::Value;

/// Longest part of a path or text in a message, in characters: a file of 4 MB can be one key.
const SHOWN_CHARS_MAX: usize = 80;

/// Why a value is refused.
pub(super) struct Refusal {
    pub(super) path: Vec<String>,
    pub(super) message: String,
}

pub(super) fn refusal(path: &[&str], message: impl Into<String>) -> Refusal {
    Refusal { path: path.iter().map(|step| (*step).to_owned()).collect(), message: message.into() }
}

/// Refuses what a router would read from elsewhere: a generation has to be complete.
pub(super) fn refuse_imports(path: &mut Vec<String>, value: &Value) -> Result<(), Refusal> {
    let is_import = match value {
        Value::String(text) => text.contains("@import("),
        Value::Object(object) => object.get("type").and_then(Value::as_str) == Some("import"),
        _ => false,
    };
    if is_import {
        let message =
            "expected a file that is complete, found @import\n  hint: put the imported text in its place";
        return Err(Refusal { path: path.clone(), message: message.to_owned() });
    }
    each(path, value, refuse_imports)
}

/// Refuses macros: what a pool is must not depend on the view that it is in.
pub(super) fn refuse_macros(path: &mut Vec<String>, value: &Value) -> Result<(), Refusal> {
    let is_macro = match value {
        Value::String(text) => text.starts_with('@') || text.contains('%'),
        Value::Object(object) => object
            .keys()
            .any(|key| matches!(&**key, "type" | "vars") || key.starts_with('@') || key.contains('%')),
        _ => false,
    };
    if is_macro {
        let message = "expected a pool without macros, found one\n  hint: write what the macro stands for";
        return Err(Refusal { path: path.clone(), message: message.to_owned() });
    }
    each(path, value, refuse_macros)
}

/// Looks at all values that a value has.
fn each(
    path: &mut Vec<String>,
    value: &Value,
    look: fn(&mut Vec<String>, &Value) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let parts: Vec<(String, &Value)> = match value {
        Value::Array(items) => items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect(),
        Value::Object(object) => object.iter().map(|(key, value)| (key.clone(), value)).collect(),
        _ => return Ok(()),
    };
    for (step, part) in parts {
        path.push(step);
        look(path, part)?;
        path.pop();
    }
    Ok(())
}

/// An attribute of a pool as a policy has it.
pub(super) fn toml_value(path: &mut Vec<String>, value: &Value) -> Result<toml::Value, Refusal> {
    let refused =
        |path: &[String], message: &str| Refusal { path: path.to_vec(), message: message.to_owned() };
    Ok(match value {
        Value::Null => {
            return Err(refused(path, "expected a value, found null\n  hint: leave the attribute out"));
        }
        Value::Bool(value) => toml::Value::Boolean(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64().filter(|_| number.is_f64())) {
            (Some(integer), _) => toml::Value::Integer(integer),
            (None, Some(double)) => toml::Value::Float(double),
            (None, None) => {
                return Err(refused(path, "expected an integer of 64 bits with a sign, found a larger one"));
            }
        },
        Value::String(text) => toml::Value::String(text.clone()),
        Value::Array(items) => {
            let mut list = Vec::with_capacity(items.len());
            for (number, item) in items.iter().enumerate() {
                path.push(number.to_string());
                list.push(toml_value(path, item)?);
                path.pop();
            }
            toml::Value::Array(list)
        }
        Value::Object(object) => {
            let mut table = toml::Table::new();
            for (key, value) in object {
                path.push(key.clone());
                table.insert(key.clone(), toml_value(path, value)?);
                path.pop();
            }
            toml::Value::Table(table)
        }
    })
}

pub(super) fn expected(what: &str, found: &Value) -> String {
    let found = match found {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the string {:?}", shown(text)),
        Value::Array(items) => format!("an array of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    };
    format!("expected {what}, found {found}")
}

/// The beginning of a text.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

/// A step of a JSON pointer, safe for a terminal.
pub(super) fn pointer_step(step: &str) -> String {
    shown(step).replace('~', "~0").replace('/', "~1").escape_debug().to_string()
}
