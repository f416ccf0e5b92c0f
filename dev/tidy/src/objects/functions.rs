//! Functions of a file, each with the type that it is a method of.

use crate::code::{angles_len, group_len, is_name};

/// A function with a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function<'c, 't> {
    pub(crate) name: &'t str,
    /// From its name to its body.
    pub(crate) signature: &'c [&'t str],
    pub(crate) body: &'c [&'t str],
}

/// The functions of one `impl`, or of none.
#[derive(Debug)]
pub(crate) struct Implementation<'c, 't> {
    /// The path of the type, as the file writes it; empty for functions that are no methods.
    pub(crate) of: Vec<&'t str>,
    pub(crate) functions: Vec<Function<'c, 't>>,
}

/// All functions of a file's tokens but those of traits.
pub(crate) fn implementations<'c, 't>(tokens: &'c [&'t str]) -> Vec<Implementation<'c, 't>> {
    let mut found = vec![Implementation { of: Vec::new(), functions: Vec::new() }];
    let mut at = 0;
    while at < tokens.len() {
        let begins_item = at == 0 || ["}", ";", "{", "]", "unsafe"].contains(&tokens[at - 1]);
        match tokens[at] {
            "impl" if begins_item => {
                let header = header_len(&tokens[at..]);
                let len = group_len(&tokens[at + header..]);
                let of = implemented(&tokens[at + 1..at + header]);
                let functions = functions_of(&tokens[at + header + 1..at + header + len]);
                found.push(Implementation { of, functions });
                at += header + len;
            }
            "trait" if tokens.get(at + 1).is_some_and(|name| is_name(name)) => {
                at += header_len(&tokens[at..]);
                at += group_len(&tokens[at..]);
            }
            "fn" => {
                let (function, len) = function(&tokens[at..]);
                found[0].functions.extend(function);
                at += len;
            }
            _ => at += 1,
        }
    }
    found
}

/// The functions of an implementation's body.
fn functions_of<'c, 't>(tokens: &'c [&'t str]) -> Vec<Function<'c, 't>> {
    let mut functions = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        at += match tokens[at] {
            "fn" => {
                let (function, len) = function(&tokens[at..]);
                functions.extend(function);
                len
            }
            "{" | "[" | "(" => group_len(&tokens[at..]),
            _ => 1,
        };
    }
    functions
}

/// The function that stands here, if it has a body and a name, and how many tokens it takes.
fn function<'c, 't>(tokens: &'c [&'t str]) -> (Option<Function<'c, 't>>, usize) {
    // `fn(u8)` is a type.
    let Some(name) = tokens.get(1).copied().filter(|name| is_name(name)) else { return (None, 1) };
    let header = header_len(tokens);
    if tokens.get(header) != Some(&"{") {
        return (None, header);
    }
    let len = group_len(&tokens[header..]);
    let function = Function { name, signature: &tokens[1..header], body: &tokens[header..header + len] };
    (Some(function), header + len)
}

/// How many tokens stand before an item's body, or the `;` in its place.
fn header_len(tokens: &[&str]) -> usize {
    let mut at = 0;
    while at < tokens.len() && !["{", ";"].contains(&tokens[at]) {
        at += if ["(", "["].contains(&tokens[at]) { group_len(&tokens[at..]) } else { 1 };
    }
    at
}

/// The path of the type in `impl<…> Trait for Type<…> where …`.
fn implemented<'t>(header: &[&'t str]) -> Vec<&'t str> {
    let mut path = Vec::new();
    let mut at = 0;
    while at < header.len() && header[at] != "where" {
        match header[at] {
            "<" => {
                at += angles_len(&header[at..]);
                continue;
            }
            "for" => path.clear(),
            "'" => at += 1,
            name if is_name(name) && !["mut", "dyn", "const"].contains(&name) => {
                path.push(name);
            }
            _ => {}
        }
        at += 1;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::tokens;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let tokens = tokens(text);
        let found = implementations(&tokens).into_iter().filter(|found| !found.functions.is_empty());
        let lines: Vec<String> = found
            .map(|found| {
                let names: Vec<&str> = found.functions.iter().map(|function| function.name).collect();
                format!("{}: {}", found.of.join("::"), names.join(" "))
            })
            .collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn functions_stand_with_their_types() {
        check("fn a() {} mod b { fn c() { fn inner() {} } }", &[": a c"]);
        check("impl A { fn b(&self) -> impl Iterator<Item = u8> { c() } fn d() {} }", &["A: b d"]);
        check("impl<'a, F: Fn(u8) -> u8> super::A<'a, F> where F: Send { fn b() {} }", &["super::A: b"]);
        check("impl<T> From<T> for &mut A<T> { const B: u8 = { 1 }; fn from() {} }", &["A: from"]);
        check("trait A { fn b(); fn c() {} } unsafe impl A for B { fn b() {} }", &["B: b"]);
        check("struct A { f: fn(u8) -> u8 } impl A { fn b() {} }", &["A: b"]);
        check("fn a(f: fn(u8) -> u8, x: impl Fn()) -> [u8; 2] { [0; 2] }", &[": a"]);
    }
}
