//! Fields of objects.
//!
//! An object is a struct that decides something: one of its methods takes `&mut self` and is not only a setter of what
//! it was built with. Structs without such methods are data, whatever their size: options, facts of a host, reports.
//! What a program reads or writes as it stands (a struct that derives serde's or clap's traits) is data, too: its
//! fields are words of a format or of a command line.

use super::functions::{Implementation, implementations};
use crate::code::{angles_len, group_len, is_name, tokens, without_tests};
use crate::exceptions::{Exception, FIELDS, compare};
use crate::modules::{ModulePath, Modules, module_path, packages_of};
use std::collections::BTreeSet;

/// At most this many fields can be kept in mind while reading a method.
const FIELDS_MAX: usize = 20;

/// Traits whose derivation makes a struct a format: its fields are what somebody else reads or writes.
const OF_FORMATS: [&str; 4] = ["Serialize", "Deserialize", "Parser", "Args"];

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_packages(files, &FIELDS)
}

fn check_packages(files: &[(String, String)], exceptions: &[Exception]) -> Vec<String> {
    let mut found = Vec::new();
    for (package, files) in packages_of(files) {
        let objects = objects(&files).into_iter();
        found.extend(objects.map(|(name, fields)| (format!("{package}, `{name}`"), fields)));
    }
    compare(found, "fields", FIELDS_MAX, "let parts own some of them", exceptions)
}

/// The objects of a package and how many fields each has.
fn objects(files: &[(&str, &str)]) -> Vec<(String, usize)> {
    let modules = Modules::new(files.iter().copied());
    let (mut structs, mut deciding) = (Vec::new(), BTreeSet::new());
    for (path, text) in files {
        let module = module_path(path);
        if !modules.contains(&module) {
            continue;
        }
        let tokens = without_tests(&tokens(text));
        structs.extend(structs_of(&tokens).map(|(name, fields)| (module.clone(), name.to_owned(), fields)));
        for implementation in implementations(&tokens).iter().filter(|found| decides(found)) {
            let home = modules.definition(&module, &implementation.of);
            let name = implementation.of.last().copied().unwrap_or_default();
            deciding.extend(home.map(|home: ModulePath| (home, name.to_owned())));
        }
    }
    let objects = structs.into_iter().filter_map(|(module, name, fields)| {
        let of = (module, name);
        deciding.contains(&of).then_some((of.1, fields))
    });
    objects.collect()
}

/// Whether one of the methods changes its object.
fn decides(implementation: &Implementation) -> bool {
    implementation.functions.iter().any(|function| {
        let takes_self = function.signature.windows(3).any(|window| window == ["&", "mut", "self"]);
        takes_self && !is_setter(function.body)
    })
}

/// `{ self.field = value; self }` or `{ self.field.push(value); }`: one statement, and nothing depends on anything.
fn is_setter(body: &[&str]) -> bool {
    let assigns = match body {
        ["{", "self", ".", _, rest @ ..] => rest[0] == "=" || rest.starts_with(&[".", "push"]),
        _ => false,
    };
    let decides = body.iter().any(|token| ["if", "match", "for", "while", "loop", "?"].contains(token));
    assigns && !decides && body.iter().filter(|token| **token == ";").count() <= 1
}

/// Structs with named fields that are no formats, each with the number of its fields.
fn structs_of<'c, 't>(tokens: &'c [&'t str]) -> impl Iterator<Item = (&'t str, usize)> + use<'c, 't> {
    (0..tokens.len()).filter_map(|at| {
        let ["struct", name, rest @ ..] = &tokens[at..] else { return None };
        let generics = if rest.first() == Some(&"<") { angles_len(rest) } else { 0 };
        let open = generics + rest[generics..].iter().position(|token| ["{", ";", "("].contains(token))?;
        let is_format = derives(&tokens[..at]).any(|of| OF_FORMATS.contains(&of));
        (rest[open] == "{" && is_name(name) && !is_format)
            .then(|| (*name, fields_of(&rest[open..open + group_len(&rest[open..])])))
    })
}

/// Names in the attributes that stand before an item.
fn derives<'c, 't>(before: &'c [&'t str]) -> impl Iterator<Item = &'t str> + use<'c, 't> {
    let start = before.iter().rposition(|token| ["}", ";", "{"].contains(token)).map_or(0, |at| at + 1);
    before[start..].iter().copied()
}

/// Fields of a struct's body: names with a single colon behind them, outside of all brackets.
fn fields_of(body: &[&str]) -> usize {
    let (mut at, mut fields) = (1, 0);
    while at < body.len() {
        at += match body[at] {
            "(" | "[" | "{" => group_len(&body[at..]),
            "<" => angles_len(&body[at..]),
            ":" => {
                fields += 1;
                1
            }
            _ => 1,
        };
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, usize)]) {
        let expected: Vec<_> = expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(objects(&[("lib.rs", "mod a;"), ("a.rs", text)]), expected);
    }

    #[test]
    fn fields_of_objects_are_counted() {
        let method = "impl A { fn a(&mut self) { self.b.clear() } }";
        check(&format!("struct A {{ b: u8, c: Vec<(a::B, C)>, #[cfg(test)] d: D }} {method}"), &[("A", 2)]);
        check("struct A<F: Fn() -> u8> where F: B { f: F } impl<F> A<F> { fn a(&mut self) {} }", &[("A", 1)]);
        check(&format!("struct A(u8); struct B {{ b: u8 }} {method}"), &[]);
        let trait_method = "impl Iterator for A { fn next(&mut self) -> u8 { self.b += 1; 1 } }";
        check(&format!("pub struct A {{ b: fn(x: u8) -> B<C> }} {trait_method}"), &[("A", 1)]);
    }

    #[test]
    fn data_is_no_object() {
        check("struct A { b: u8 } impl A { fn b(&self) -> u8 { self.b } fn c(self) -> u8 { self.b } }", &[]);
        check("struct A { b: u8 } impl A { fn b(&mut self, b: u8) -> &mut A { self.b = b; self } }", &[]);
        check("struct A { b: Vec<u8> } impl A { fn b(&mut self, b: u8) { self.b.push(b); } }", &[]);
        let method = "impl A { fn a(&mut self) { self.b.clear() } }";
        check(
            &format!("#[derive(Debug, Deserialize)] #[serde(x)] pub(crate) struct A {{ b: u8 }} {method}"),
            &[],
        );
        check(&format!("#[derive(Debug)] struct A {{ b: u8 }} {method}"), &[("A", 1)]);
    }

    #[test]
    fn objects_above_the_table_are_refused() {
        let fields: String = (0..21).map(|at| format!("f{at}: u8, ")).collect();
        let text = format!("struct A {{ {fields} }} impl A {{ fn a(&mut self) {{}} }}");
        let files = [("crates/x/src/lib.rs".to_owned(), text)];
        let row = Exception { place: "crates/x, `A`", count: 21, reason: "one state" };
        let refused = "crates/x, `A`: 21 fields, more than 20; let parts own some of them";
        assert_eq!(check_packages(&files, &[]), [refused]);
        assert_eq!(check_packages(&files, &[row]), Vec::<String>::new());
    }
}
