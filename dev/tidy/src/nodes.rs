//! Decisions by the kind of a router's node: every one names all kinds.
//!
//! A wildcard arm, or a chain of `if let`, gives a new kind of route the answer of its neighbours, and the compiler is
//! silent. Functions that match the kinds, without either, do not compile until the new one has an answer of its own.

use super::code::{group_len, is_name, tokens, without_tests};
use super::exceptions::{Exception, NODES, compare};
use super::modules::{Modules, module_path, packages_of};

/// The crate that has them.
const PACKAGE: &str = "crates/fleet/router";

/// The enums of nodes.
const KINDS: [&str; 2] = ["Node", "CompoundKind"];

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let packages = packages_of(files);
    let router = packages.get(PACKAGE).map(Vec::as_slice).unwrap_or_default();
    check_files(router, &NODES)
}

fn check_files(files: &[(&str, &str)], exceptions: &[Exception]) -> Vec<String> {
    let modules = Modules::new(files.iter().copied());
    let files = files.iter().filter(|(path, _)| modules.contains(&module_path(path)));
    let (mut found, mut defined) = (Vec::new(), Vec::new());
    for (path, text) in files {
        let tokens = without_tests(&tokens(text));
        found.push((format!("{PACKAGE}/src/{path}"), silent_decisions(&tokens)));
        let enums = tokens.windows(2).filter(|window| window[0] == "enum").map(|window| window[1]);
        defined.extend(enums.filter(|name| KINDS.contains(name)));
    }
    let thing = "decisions by the kind of a node that a new kind would not be missed in";
    let violations = compare(found, thing, 0, "name every kind", exceptions);
    let missing = KINDS.iter().filter(|kind| !defined.contains(kind));
    let missing = missing.map(|kind| format!("{PACKAGE} has no `{kind}`: correct dev/tidy/src/nodes.rs"));
    violations.into_iter().chain(missing).collect()
}

/// Matches with a wildcard beside a kind, and chains of `if let`.
fn silent_decisions(tokens: &[&str]) -> usize {
    let matches = (0..tokens.len()).filter(|at| tokens[*at] == "match" && has_wildcard(&tokens[*at..]));
    let chains = (0..tokens.len()).filter(|at| {
        let follows_else = *at > 0 && tokens[at - 1] == "else";
        !follows_else && chain_len(&tokens[*at..]) > 1
    });
    matches.count() + chains.count()
}

/// Whether some arms of this `match` name a kind, and another one names nothing.
fn has_wildcard(tokens: &[&str]) -> bool {
    let Some(open) = body_at(tokens) else { return false };
    let body = &tokens[open + 1..open + group_len(&tokens[open..]) - 1];
    let patterns = patterns(body);
    let names_all = |pattern: &&[&str]| match pattern {
        [name] | [name, "if", ..] => is_name(name) && !name.starts_with(char::is_uppercase),
        _ => false,
    };
    patterns.iter().any(|pattern| names_kind(pattern)) && patterns.iter().any(names_all)
}

/// The patterns of a match's arms, with their guards.
fn patterns<'c, 't>(mut body: &'c [&'t str]) -> Vec<&'c [&'t str]> {
    let mut patterns = Vec::new();
    while let Some(arrow) = position(body, |code| code.starts_with(&["=", ">"])) {
        patterns.push(&body[..arrow]);
        let result = &body[arrow + 2..];
        let end = match result.first() {
            Some(&"{") => group_len(result) - 1,
            _ => position(result, |code| code[0] == ",").unwrap_or(result.len()),
        };
        body = result.get(end + 1..).unwrap_or_default();
        body = body.strip_prefix(&[","]).unwrap_or(body);
    }
    patterns
}

/// How many conditions of `if let … else if let …` name a kind.
fn chain_len(tokens: &[&str]) -> usize {
    let ["if", rest @ ..] = tokens else { return 0 };
    let Some(open) = body_at(rest) else { return 0 };
    let named = usize::from(rest[0] == "let" && names_kind(&rest[..open]));
    match &rest[open + group_len(&rest[open..])..] {
        ["else", next @ ..] => named + chain_len(next),
        _ => named,
    }
}

/// Whether a pattern has `Node::…` in it.
fn names_kind(pattern: &[&str]) -> bool {
    pattern.windows(2).any(|window| KINDS.contains(&window[0]) && window[1] == "::")
}

/// Where the braces begin behind a condition or what is matched.
fn body_at(tokens: &[&str]) -> Option<usize> {
    position(tokens, |code| code[0] == "{")
}

/// The first place outside of brackets of which this is true.
fn position(tokens: &[&str], is_it: impl Fn(&[&str]) -> bool) -> Option<usize> {
    let mut at = 0;
    while at < tokens.len() {
        if is_it(&tokens[at..]) {
            return Some(at);
        }
        at += if ["(", "[", "{"].contains(&tokens[at]) { group_len(&tokens[at..]) } else { 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: usize) {
        assert_eq!(silent_decisions(&tokens(text)), expected, "{text}");
    }

    #[test]
    fn wildcards_beside_a_kind_are_found() {
        check("match node { Node::A(a) => f(a, b), Node::B { .. } => {} }", 0);
        check("match node { Node::A(a) => f(a, b), _ => {} }", 1);
        check("match self.node(at) { Some(Node::A) if x => { match y { 1 => 2, _ => 3 } } other => {} }", 1);
        check("match x { 1 => Node::A, _ => Node::B }", 0);
        check("match kind { CompoundKind::A | CompoundKind::B => 1, _ if x => 2, CompoundKind::C => 3 }", 1);
        check("match (a, node) { (Some(_), Node::A) => 1, (None, Node::A) => 2 }", 0);
    }

    #[test]
    fn chains_of_conditions_are_found() {
        check("if let Node::A(a) = node { 1 } else { 2 }", 0);
        check("if let Node::A(a) = node { 1 } else if let Node::B = node { 2 } else { 3 }", 1);
        check("if let Some(a) = b { 1 } else if let Node::B = node { 2 }", 0);
        check("if x { 1 } else if let Node::A = f(|| {}) { 2 } else if let Node::B = node { 3 }", 1);
    }

    #[test]
    fn files_have_as_many_as_the_table_says() {
        let kinds = "pub enum Node {} enum CompoundKind {} mod a;";
        let wildcard = "fn f() { match node { Node::A(a) => 1, _ => 2 } }";
        let files = [("lib.rs", kinds), ("a.rs", wildcard)];
        let row = Exception { place: "crates/fleet/router/src/a.rs", count: 1, reason: "a reason" };
        assert_eq!(check_files(&files, &[row]), Vec::<String>::new());
        assert_eq!(check_files(&files, &[]).len(), 1);
        assert_eq!(check_files(&[("lib.rs", "")], &[]).len(), 2);
    }
}
