//! Values as JSON text: with sorted keys, so that equal values have equal text.

use super::{Json, JsonValue, sorted};
use std::fmt::{self, Write};

impl Json {
    /// On one line, without spaces.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        write_value(&mut text, &self.value, None).expect("a string takes all");
        text
    }

    /// With line breaks, and two spaces per level.
    pub fn to_pretty_json(&self) -> String {
        let mut text = String::new();
        write_value(&mut text, &self.value, Some(0)).expect("a string takes all");
        text
    }
}

/// A number as mcrouter writes it: the shortest digits, an exponent only if very small or large, no `.0`.
pub fn double_text(number: f64) -> String {
    let size = number.abs();
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned()
    } else if size == 0.0 || (1e-6..1e21).contains(&size) {
        number.to_string()
    } else {
        format!("{number:E}")
    }
}

/// `indent` is the depth, if lines are to be broken.
fn write_value(text: &mut String, value: &JsonValue, indent: Option<usize>) -> fmt::Result {
    let inner = indent.map(|depth| depth + 1);
    match value {
        JsonValue::Null => text.write_str("null"),
        JsonValue::Bool(value) => write!(text, "{value}"),
        JsonValue::Int(number) => write!(text, "{number}"),
        JsonValue::Double(number) => text.write_str(&double_text(*number)),
        JsonValue::String(string) => write_string(text, string),
        JsonValue::Array(items) if items.is_empty() => text.write_str("[]"),
        JsonValue::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                text.push(if n == 0 { '[' } else { ',' });
                break_line(text, inner);
                write_value(text, &item.value, inner)?;
            }
            break_line(text, indent);
            text.write_char(']')
        }
        JsonValue::Object(entries) if entries.is_empty() => text.write_str("{}"),
        JsonValue::Object(entries) => {
            for (n, (key, node)) in sorted(entries).into_iter().enumerate() {
                text.push(if n == 0 { '{' } else { ',' });
                break_line(text, inner);
                write_string(text, key)?;
                text.write_str(if indent.is_some() { ": " } else { ":" })?;
                write_value(text, &node.value, inner)?;
            }
            break_line(text, indent);
            text.write_char('}')
        }
    }
}

fn break_line(text: &mut String, indent: Option<usize>) {
    if let Some(depth) = indent {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    }
}

fn write_string(text: &mut String, string: &str) -> fmt::Result {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            control if control < ' ' => write!(text, "\\u{:04x}", u32::from(control))?,
            other => text.push(other),
        }
    }
    text.write_char('"')
}
