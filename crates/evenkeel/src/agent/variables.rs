//! Variables of the environment in an agent's file: `${NAME}` in a text, so that many hosts have the same file.
//!
//! Reads no environment itself.

/// Puts values in the place of `${NAME}`. Nothing else that begins with `$` has a meaning.
///
/// A value stands in a text between quotes, so it has no character that could end the text or mean another one there.
pub(super) fn expanded(text: &str, value_of: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, begun)) = rest.split_once("${") {
        whole.push_str(before);
        let line = 1 + whole.matches('\n').count();
        let (name, after) = begun.split_once('}').filter(|(name, _)| is_name(name)).ok_or_else(|| {
            format!("line {line}: expected ${{NAME}}, with a name of letters, digits and _")
        })?;
        let value =
            value_of(name).ok_or_else(|| format!("line {line}: the environment has no variable {name}"))?;
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

    fn value(name: &str) -> Option<String> {
        let values = [("POD", "cache-0"), ("EMPTY", ""), ("BAD", "a\"\nzone = \"b"), ("NESTED", "${POD}")];
        values.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_owned())
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
        check("", Ok(""));
    }

    #[test]
    fn what_is_no_variable_is_refused_with_its_line() {
        check("a\nhost = \"${NODE}\"", Err("line 2: the environment has no variable NODE"));
        check("${POD", Err("line 1: expected ${NAME}"));
        check("${}", Err("line 1: expected ${NAME}"));
        check("a\n\n${P-D}", Err("line 3: expected ${NAME}"));
        check("${BAD}", Err("the variable BAD has the character \\\""));
    }
}
