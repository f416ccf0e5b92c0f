//! Variables of the environment in an agent's file: `${NAME}` in a text, so that many hosts have the same file.
//!
//! Reads no environment itself.

use std::env::VarError;

/// Puts values in the place of `${NAME}`. Nothing else that begins with `$` has a meaning.
///
/// A value stands in a text between quotes, so it has no character that could end the text or mean another one there. Lines
/// that are comments stay as they are.
pub(super) fn expanded(
    text: &str,
    value_of: impl Fn(&str) -> Result<String, VarError>,
) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        match line.trim_start().starts_with('#') {
            true => whole.push_str(line),
            false => whole.push_str(&line_expanded(line, 1 + number, &value_of)?),
        }
    }
    Ok(whole)
}

fn line_expanded(
    text: &str,
    line: usize,
    value_of: impl Fn(&str) -> Result<String, VarError>,
) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, begun)) = rest.split_once("${") {
        whole.push_str(before);
        let (name, after) = begun.split_once('}').filter(|(name, _)| is_name(name)).ok_or_else(|| {
            format!("line {line}: expected ${{NAME}}, with a name of letters, digits and _")
        })?;
        let value = value_of(name).map_err(|error| match error {
            VarError::NotPresent => format!("line {line}: the environment has no variable {name}"),
            VarError::NotUnicode(_) => format!("line {line}: the variable {name} is not text in UTF-8"),
        })?;
        if let Some(found) =
            value.chars().find(|found| found.is_control() || matches!(found, '"' | '\'' | '\\'))
        {
            let found = found.escape_default();
            return Err(format!(
                "line {line}: the variable {name} has the character {found}, which is not accepted"
            ));
        }
        whole.push_str(&value);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Result<String, VarError> {
        if name == "BYTES" {
            return Err(VarError::NotUnicode("x".into()));
        }
        let values = [("POD", "cache-0"), ("EMPTY", ""), ("BAD", "a\"\nzone = \"b"), ("NESTED", "${POD}")];
        let found = values.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.to_owned()).ok_or(VarError::NotPresent)
    }

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let found = expanded(text, value);
        match expected {
            Ok(expected) => assert_eq!(found.as_deref(), Ok(expected)),
            Err(expected) => {
                let found = found.expect_err("refused");
                assert!(found.contains(expected), "{found}");
            }
        }
    }

    #[test]
    fn variables_have_their_values() {
        check("host = \"${POD}\"", Ok("host = \"cache-0\""));
        check("\"${POD}.${POD}:1\"", Ok("\"cache-0.cache-0:1\""));
        check("a${EMPTY}b", Ok("ab"));
        check("$POD $ {POD} $", Ok("$POD $ {POD} $"));
        check("${NESTED}", Ok("${POD}"));
        check("a\n  # host = \"${NODE}\"\n\"${POD}\"", Ok("a\n  # host = \"${NODE}\"\n\"cache-0\""));
        check("", Ok(""));
    }

    #[test]
    fn what_is_no_variable_is_refused_with_its_line() {
        check("a\nhost = \"${NODE}\"", Err("line 2: the environment has no variable NODE"));
        check("${POD", Err("line 1: expected ${NAME}"));
        check("${}", Err("line 1: expected ${NAME}"));
        check("a\n\n${P-D}", Err("line 3: expected ${NAME}"));
        check("a\n${BYTES}", Err("line 2: the variable BYTES is not text in UTF-8"));
        check("${BAD}", Err("the variable BAD has the character \\\""));
    }
}
