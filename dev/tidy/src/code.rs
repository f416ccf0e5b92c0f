//! Tokens of Rust code, as far as names, paths and braces go: no comments, no text, no tests.

/// Words that begin an item; anything else behind an attribute is a field, an argument or a statement.
const ITEMS: [&str; 15] = [
    "pub", "use", "mod", "fn", "struct", "enum", "union", "trait", "impl", "type", "const", "static",
    "unsafe", "async", "extern",
];

/// Names, `::` and single signs. A text or a letter in quotes is the sign `"`.
pub(super) fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if first.is_whitespace() {
            first.len_utf8()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = quoted(rest) {
            tokens.push("\"");
            len
        } else {
            let len = match first {
                _ if is_of_name(first) => rest.find(|c| !is_of_name(c)).unwrap_or(rest.len()),
                _ if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            tokens.push(&rest[..len]);
            len
        };
        rest = &rest[len..];
    }
    tokens
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How long the text or letter in quotes is that stands here; none for a lifetime.
fn quoted(code: &str) -> Option<usize> {
    let prefix = code.find(|c| !matches!(c, 'b' | 'c' | 'r')).filter(|len| *len <= 2)?;
    let is_raw = code[..prefix].ends_with('r');
    let hashes = code[prefix..].find(|c| c != '#').filter(|hashes| is_raw || *hashes == 0)?;
    let start = prefix + hashes;
    let inside = &code[start..];
    if is_raw && inside.starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(inside[1..].find(&end).map_or(code.len(), |at| start + 1 + at + end.len()));
    }
    let end_of = |quote: char| {
        let mut is_escaped = false;
        let end = inside.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == quote && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        end.map_or(code.len(), |(at, _)| start + at + 1)
    };
    match inside.chars().next()? {
        '"' => Some(end_of('"')),
        // `'a'` and `'\n'`, but not `'a` in `&'a str`.
        '\'' if inside[1..].starts_with('\\') || inside[1..].chars().nth(1) == Some('\'') => {
            Some(end_of('\''))
        }
        _ => None,
    }
}

/// Code without what is compiled for tests only.
pub(super) fn without_tests<'t>(tokens: &[&'t str]) -> Vec<&'t str> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let code = &tokens[at..];
        if code.starts_with(&["#", "[", "cfg", "(", "test"])
            || code.starts_with(&["#", "[", "cfg", "(", "all", "(", "test"])
        {
            at += attributes_len(code);
            at += item_len(&tokens[at..]);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// How many tokens the attributes take that stand here.
fn attributes_len(tokens: &[&str]) -> usize {
    let mut len = 0;
    while tokens[len..].starts_with(&["#", "["]) {
        len += 1 + group_len(&tokens[len + 1..]);
    }
    len
}

/// How many tokens a group in brackets takes, with its brackets.
pub(super) fn group_len(tokens: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// How many tokens a list in angle brackets takes, with its brackets.
pub(super) fn angles_len(tokens: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            "<" => depth += 1,
            // Not the end of an arrow.
            ">" if !matches!(tokens[at - 1], "-" | "=") => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Whether a token is a name or a keyword.
pub(super) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// How many tokens an item takes, or a field, an argument or a statement.
fn item_len(tokens: &[&str]) -> usize {
    let is_item = tokens.first().is_some_and(|token| ITEMS.contains(token));
    let is_use = tokens.iter().take_while(|token| !matches!(**token, ";" | "{")).any(|token| *token == "use");
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at] {
            ";" => return at + 1,
            "," if !is_item => return at + 1,
            ")" | "]" | "}" => return at,
            "{" if is_item && !is_use => return at + group_len(&tokens[at..]),
            "(" | "[" | "{" => at += group_len(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(without_tests(&tokens(text)).join(" "), expected);
    }

    #[test]
    fn texts_and_comments_hold_no_names() {
        check(
            "a::b(\"c::d \\\" e\", 'f', '\\'', b\"g\", r#\"h \" i\"#) // j\n/* k */ l",
            "a :: b ( \" , \" , \" , \" , \" ) l",
        );
        check(
            "fn f<'a>(x: &'a str) { rate(break_at) }",
            "fn f < ' a > ( x : & ' a str ) { rate ( break_at ) }",
        );
    }

    #[test]
    fn what_is_compiled_for_tests_is_left_out() {
        check("#[cfg(test)]\nmod tests { use super::*; fn a() {} }\nfn b() {}", "fn b ( ) { }");
        check("#[cfg(test)]\nmod tests;\nmod b;", "mod b ;");
        check("#[cfg(test)]\n#[allow(x)]\npub use a::{b, c};\nuse d;", "use d ;");
        check("#[cfg(all(test, unix))] fn a(x: [u8; 3]) -> u8 { 1 } fn b() {}", "fn b ( ) { }");
        check("struct A { #[cfg(test)] b: B, c: C }", "struct A { c : C }");
        check("fn a() { #[cfg(test)] assert!(b::c(), \"d\"); e() }", "fn a ( ) { e ( ) }");
        check("#[cfg(not(test))] fn a() {}", "# [ cfg ( not ( test ) ) ] fn a ( ) { }");
    }
}
