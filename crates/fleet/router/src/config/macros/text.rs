//! The inside of strings: escapes, brackets and the parameters of a call.

/// Copies `text` up to an unescaped `stop`, without its backslashes; returns where it stands.
pub(super) fn unescape_until(text: &str, into: &mut String, stop: char) -> Option<usize> {
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => into.push(characters.next()?.1),
            _ if character == stop => return Some(at),
            _ => into.push(character),
        }
    }
    None
}

/// Where an ASCII character stands without a backslash before it.
pub(super) fn find_unescaped(text: &str, wanted: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == wanted => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// The parameters of `@macro(…)`: split at commas, but not at those inside another call; without space around them.
pub(super) fn parameters(mut text: &str) -> Result<Vec<&str>, String> {
    let mut parameters = Vec::new();
    loop {
        let Some(comma) = find_unescaped(text, b',') else {
            parameters.push(trim(text));
            return Ok(parameters);
        };
        let end = match find_unescaped(&text[..comma], b'(') {
            None => comma,
            Some(opening) => {
                let closing = closing_bracket(text, opening)
                    .ok_or_else(|| format!("expected `)` for each `(`, found `{text:.80}`"))?;
                if closing + 1 == text.len() {
                    parameters.push(trim(text));
                    return Ok(parameters);
                }
                let comma = text[closing..].find(',');
                comma.map(|at| closing + at).ok_or_else(|| {
                    format!(
                        "expected `,` or `)` after `{:.80}`, found `{:.80}`",
                        &text[..=closing],
                        &text[closing + 1..]
                    )
                })?
            }
        };
        parameters.push(trim(&text[..end]));
        text = &text[end + 1..];
    }
}

/// Where the bracket that opens at `opening` is closed.
fn closing_bracket(text: &str, opening: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = opening;
    let mut depth = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at),
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Without white space at both ends, but with an escaped space at the end.
fn trim(text: &str) -> &str {
    let text = text.trim_start_matches([' ', '\t', '\n', '\r']);
    let trimmed = text.trim_end_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    let backslashes = trimmed.bytes().rev().take_while(|&byte| byte == b'\\').count();
    // An odd one escapes the first space that was cut off.
    if backslashes % 2 == 1 && trimmed.len() < text.len() { &text[..=trimmed.len()] } else { trimmed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(parameters(text).expect("are parameters"), expected, "{text}");
    }

    #[test]
    fn parameters_end_at_commas_outside_of_calls() {
        check("", &[""]);
        check(" ", &[""]);
        check("a", &["a"]);
        check(" a , b ", &["a", "b"]);
        check("a,", &["a", ""]);
        check(",", &["", ""]);
        check("a\\,b,c", &["a\\,b", "c"]);
        check("@a(b,c), d", &["@a(b,c)", "d"]);
        check("@a(b,@c(d,e)),@f(g)", &["@a(b,@c(d,e))", "@f(g)"]);
        check("@a(b,c)", &["@a(b,c)"]);
        check("\\(,b", &["\\(", "b"]);
        check("é,ü", &["é", "ü"]);
    }

    #[test]
    fn brackets_must_match() {
        let refused = |text| parameters(text).expect_err("is refused");
        assert_eq!(refused("@a(b,c"), "expected `)` for each `(`, found `@a(b,c`");
        assert_eq!(refused("@a(b,c)d"), "expected `,` or `)` after `@a(b,c)`, found `d`");
    }

    #[test]
    fn an_escaped_space_stays() {
        assert_eq!(trim("  a  "), "a");
        assert_eq!(trim("a\\  "), "a\\ ");
        assert_eq!(trim("a\\\\  "), "a\\\\");
        assert_eq!(trim("\\ "), "\\ ");
        assert_eq!(trim("   "), "");
    }

    #[test]
    fn escapes_are_taken_away_up_to_the_stop() {
        let mut text = String::new();
        assert_eq!(unescape_until("a\\%b\\\\%c", &mut text, '%'), Some(6));
        assert_eq!(text, "a%b\\");
        assert_eq!(unescape_until("c\\", &mut text, '%'), None);
        assert_eq!(text, "a%b\\c");
    }
}
