//! Text of others for people: control characters as escapes, so that no name or message can give orders to a terminal.
//!
//! The escape of a character is `\u` and four hexadecimal digits: a string of JSON or TOML with it means the same as before.

use std::borrow::Cow;

/// The text in one line: nothing of it ends a line, moves the cursor or turns the direction of writing.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_order)
}

/// Several lines: their ends and tabs stay as they are.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_order(c) && !matches!(c, '\n' | '\t'))
}

/// Characters that a terminal does not show but obeys. All of them have four digits.
fn is_order(c: char) -> bool {
    c.is_control()
        // Line and paragraph separators; marks, embeddings, overrides and isolates of the direction of writing.
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let check = |text: &str, expected: &str| assert_eq!(line(text), expected, "{text:?}");
        check("memcached", "memcached");
        check("Größe 5 µs — 漢字", "Größe 5 µs — 漢字");
        check("\x1b[2J\x07", "\\u001b[2J\\u0007");
        check("a\nVALID\r\tb", "a\\u000aVALID\\u000d\\u0009b");
        check("\u{9b}2J\x7f\0", "\\u009b2J\\u007f\\u0000");
        check("\u{202e}gpj.exe", "\\u202egpj.exe");
        check("\u{2066}x\u{2069}\u{2028}", "\\u2066x\\u2069\\u2028");
        // What is escaped already is not escaped again.
        check("\\u001b", "\\u001b");
    }

    #[test]
    fn lines_stay_lines() {
        assert_eq!(lines("a\tb\nc\x1b]0;x\x07\n"), "a\tb\nc\\u001b]0;x\\u0007\n");
        assert!(matches!(lines("a\tb\n"), Cow::Borrowed(_)));
    }
}
