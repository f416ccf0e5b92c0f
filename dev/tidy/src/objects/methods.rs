//! Circles of files through the methods of one type.
//!
//! A file with methods of a type depends on another one whose methods it calls: by `self.method()`, by
//! `Self::method(…)`, or through an argument or a variable of that type. A function that takes the type as an argument
//! is no better than a method, and counts like one. Fields that have methods of their own are not followed: a part that
//! owns its state is what the rule asks for.

use super::functions::{Function, Implementation, implementations};
use crate::circles::{CIRCLE_MAX, circles};
use crate::code::{is_name, tokens, without_tests};
use crate::exceptions::{CIRCLES, Exception, compare};
use crate::modules::{ModulePath, Modules, module_path, packages_of};
use std::collections::{BTreeMap, BTreeSet};

/// A type by the module that defines it, and its name.
type Type<'t> = (ModulePath, &'t str);

/// What the files of one package say of one type.
#[derive(Default)]
struct Methods<'t> {
    /// Where a method stands. A trait's method of the same name may stand elsewhere, too.
    homes: BTreeMap<&'t str, BTreeSet<ModulePath>>,
    /// Functions that take the type.
    functions: BTreeMap<&'t str, BTreeSet<ModulePath>>,
    /// Methods that a file calls.
    calls: BTreeMap<ModulePath, BTreeSet<&'t str>>,
    /// Functions that a file calls, each with the file that defines it.
    called: BTreeMap<ModulePath, BTreeSet<(&'t str, ModulePath)>>,
}

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_packages(files, &CIRCLES)
}

fn check_packages(files: &[(String, String)], exceptions: &[Exception]) -> Vec<String> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut members: BTreeMap<String, String> = BTreeMap::new();
    for (package, files) in packages_of(files) {
        for (name, circle) in circles_of(&files) {
            let place = format!("{package}, methods of `{name}`");
            let largest = found.entry(place.clone()).or_default();
            *largest = circle.len().max(*largest);
            let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
            members.entry(place).or_insert(names.join(", "));
        }
    }
    let remedy = "let a part own its state";
    let mut violations =
        compare(found, "files that call each other in a circle", CIRCLE_MAX, remedy, exceptions);
    for violation in &mut violations {
        let place = members.keys().find(|place| violation.starts_with(&format!("{place}:")));
        if let Some(place) = place {
            *violation = format!("{violation}: {}", members[place]);
        }
    }
    violations
}

/// Circles of more than one file in a package, given by paths below `src` and texts; the largest of a type first.
fn circles_of(files: &[(&str, &str)]) -> Vec<(String, BTreeSet<ModulePath>)> {
    let modules = Modules::new(files.iter().copied());
    let read: Vec<(ModulePath, Vec<&str>)> = files
        .iter()
        .map(|(path, text)| (module_path(path), without_tests(&tokens(text))))
        .filter(|(module, _)| modules.contains(module))
        .collect();
    let parsed: Vec<(&ModulePath, Vec<Implementation>)> =
        read.iter().map(|(module, tokens)| (module, implementations(tokens))).collect();
    let mut types: BTreeMap<Type, Methods> = BTreeMap::new();
    for (module, found) in &parsed {
        for implementation in found {
            let Some(of) = type_of(&modules, module, &implementation.of) else { continue };
            let methods = types.entry(of).or_default();
            for function in &implementation.functions {
                methods.homes.entry(function.name).or_default().insert((*module).clone());
            }
        }
    }
    for (module, found) in &parsed {
        for implementation in found {
            let of = type_of(&modules, module, &implementation.of);
            for function in &implementation.functions {
                note_function(&modules, module, of.as_ref(), function, &mut types);
            }
        }
    }
    let all = types.into_iter().flat_map(|((_, name), methods)| {
        let edges = methods.edges();
        let edges = edges.iter().map(|(from, to)| (from, to.clone())).collect();
        circles(&edges).into_iter().map(move |circle| (name.to_owned(), circle))
    });
    all.collect()
}

/// The type of this package that a path means.
fn type_of<'t>(modules: &Modules, module: &ModulePath, path: &[&'t str]) -> Option<Type<'t>> {
    let name = path.last()?;
    modules.definition(module, path).map(|home| (home, *name))
}

/// Adds what a function calls, by the types that it has at hand.
fn note_function<'t>(
    modules: &Modules,
    module: &ModulePath,
    of: Option<&Type<'t>>,
    function: &Function<'_, 't>,
    types: &mut BTreeMap<Type<'t>, Methods<'t>>,
) {
    let mut variables: Vec<(&str, Type<'t>)> = Vec::new();
    if let Some(of) = of {
        variables.extend([("self", of.clone()), ("Self", of.clone())]);
        variables.extend(names_of_self(function.body).map(|name| (name, of.clone())));
    }
    for part in [function.signature, function.body] {
        for (name, path) in typed_names(part) {
            let known = type_of(modules, module, &path).filter(|of| types.contains_key(of));
            variables.extend(known.map(|of| (name, of)));
        }
    }
    let arguments = typed_names(function.signature);
    for (_, path) in arguments.filter(|_| of.is_none()) {
        let known = type_of(modules, module, &path);
        if let Some(methods) = known.and_then(|of| types.get_mut(&of)) {
            methods.functions.entry(function.name).or_default().insert(module.clone());
        }
    }
    let functions: Vec<(&str, ModulePath)> = called_functions(function.body)
        .filter_map(|path| Some((*path.last()?, modules.definition(module, &path)?)))
        .collect();
    let at_hand: BTreeSet<&Type> = variables.iter().map(|(_, of)| of).collect();
    for of in at_hand {
        let Some(methods) = types.get_mut(of) else { continue };
        let names = variables.iter().filter(|(_, with)| with == of).map(|(name, _)| *name);
        let names: BTreeSet<&str> = names.chain([of.1]).collect();
        methods.calls.entry(module.clone()).or_default().extend(calls(function.body, &names));
        methods.called.entry(module.clone()).or_default().extend(functions.iter().cloned());
    }
}

impl Methods<'_> {
    /// For each file those that its methods call.
    fn edges(&self) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
        let mut edges: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for home in self.homes.values().chain(self.functions.values()).flatten() {
            edges.entry(home.clone()).or_default();
        }
        for (from, names) in &self.calls {
            let homes = names.iter().filter_map(|name| self.homes.get(name));
            // A trait's method of that name may stand in several files: its own is meant.
            let others = homes.filter(|homes| !homes.contains(from)).flatten().cloned();
            edges.entry(from.clone()).or_default().extend(others);
        }
        for (from, called) in &self.called {
            let homes = called.iter().filter(|(name, home)| {
                home != from && self.functions.get(name).is_some_and(|homes| homes.contains(home))
            });
            edges.entry(from.clone()).or_default().extend(homes.map(|(_, home)| home.clone()));
        }
        edges
    }
}

/// Other names of `self`: `let worker = &mut *self;`.
fn names_of_self<'t>(body: &[&'t str]) -> impl Iterator<Item = &'t str> {
    body.windows(3).enumerate().filter_map(|(at, window)| {
        let [name, "=", _] = *window else { return None };
        let rest = &body[at + 2..];
        let borrowed = rest.iter().take_while(|token| ["&", "mut", "*"].contains(token)).count();
        let is_self = matches!(rest[borrowed..], ["self", ";", ..]);
        (is_self && is_name(name)).then_some(name)
    })
}

/// `name: &mut a::b::Type`, wherever it stands, as the name and the type's path.
fn typed_names<'c, 't>(code: &'c [&'t str]) -> impl Iterator<Item = (&'t str, Vec<&'t str>)> + use<'c, 't> {
    code.windows(2).enumerate().filter_map(|(at, window)| {
        let [name, ":"] = *window else { return None };
        let mut rest = &code[at + 2..];
        loop {
            rest = match rest {
                ["&" | "mut", rest @ ..] => rest,
                ["'", _, rest @ ..] => rest,
                _ => break,
            };
        }
        let path = path_at(rest);
        (is_name(name) && !path.is_empty()).then_some((name, path))
    })
}

/// The path that begins here.
fn path_at<'t>(code: &[&'t str]) -> Vec<&'t str> {
    let mut path = Vec::new();
    let mut rest = code;
    while let [name, after @ ..] = rest
        && is_name(name)
    {
        path.push(*name);
        let ["::", after @ ..] = after else { break };
        rest = after;
    }
    path
}

/// Methods called on these names: `name.method(…)`, `Name::method`.
fn calls<'c, 't>(
    body: &'c [&'t str],
    names: &'c BTreeSet<&str>,
) -> impl Iterator<Item = &'t str> + use<'c, 't> {
    body.windows(3).enumerate().filter_map(move |(at, window)| {
        let [name, dot, method] = *window else { return None };
        let is_part = at > 0 && [".", "::"].contains(&body[at - 1]);
        let is_call = match dot {
            "::" => true,
            "." => matches!(body.get(at + 3), Some(&"(" | &"::")),
            _ => false,
        };
        (!is_part && is_call && names.contains(name)).then_some(method)
    })
}

/// Paths of functions that are called, `a::b::function(…)`, or given to somebody who calls them, without methods.
fn called_functions<'c, 't>(body: &'c [&'t str]) -> impl Iterator<Item = Vec<&'t str>> + use<'c, 't> {
    (0..body.len()).filter_map(|at| {
        let is_part = at > 0 && [".", "::", "fn"].contains(&body[at - 1]);
        let path = if is_part { Vec::new() } else { path_at(&body[at..]) };
        let after = body.get(at + (path.len() * 2).saturating_sub(1));
        let is_call = after == Some(&"(") || path.len() > 1;
        (is_call && !path.is_empty()).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = "mod a; mod b; mod c; mod d; pub struct T; impl T { fn root(&self) {} }";

    /// The circles of methods in these four files.
    #[track_caller]
    fn check_files(texts: [&str; 4], expected: &[&str]) {
        let named = ["a.rs", "b.rs", "c.rs", "d.rs"].into_iter().zip(texts);
        let files: Vec<(&str, &str)> = [("lib.rs", DECLARED)].into_iter().chain(named).collect();
        let circles = circles_of(&files).into_iter().map(|(name, circle)| {
            let names: Vec<String> = circle.iter().map(|path| path.join("::")).collect();
            format!("{name}: {}", names.join(" "))
        });
        assert_eq!(circles.collect::<Vec<_>>(), expected);
    }

    /// Two files: the first with a method `a` that calls `b` of the second, and the second with this text.
    #[track_caller]
    fn check_second(second: &str, is_circle: bool) {
        let first = "use crate::T; impl T { pub fn a(&mut self) { self.b() } }";
        let expected: &[&str] = if is_circle { &["T: a b"] } else { &[] };
        check_files([first, second, "", ""], expected);
    }

    #[test]
    fn files_whose_methods_call_each_other_are_a_circle() {
        let texts = [
            "impl crate::T { fn a(&self) { self.b() } }",
            "use super::T; impl T { fn b(&self) { if self.c() {} } }",
            "use super::*; impl T { fn c(&self) { self.d::<u8>() } }",
            "use crate::T as Other; impl T { fn d<X>(&self) { self.a() } }",
        ];
        check_files(texts, &[]);
        let last = "use crate::T; impl T { fn d<X>(&self) { self.a(); self.root() } }";
        check_files([texts[0], texts[1], texts[2], last], &["T: a b c d"]);
    }

    #[test]
    fn all_ways_to_a_method_are_seen() {
        check_second("impl crate::T { fn b(&mut self) { self.a() } }", true);
        check_second("impl crate::T { fn b(&mut self) { Self::a(self) } }", true);
        check_second("use crate::T; impl T { fn b(&mut self) { T::a(self) } }", true);
        check_second("impl crate::T { fn b(&mut self) { let t = &mut *self; t.a() } }", true);
        check_second("use crate::T; impl T { fn b(&mut self) { f(self) } } fn f(t: &mut T) { t.a() }", true);
        check_second("use crate::T; impl T { fn b(&mut self) { g(|t: &mut T| t.a()) } }", true);
        check_second("use crate::T; impl Iterator for T { fn b(&mut self) { self.a() } }", true);
        check_second("impl crate::T { fn b(&mut self) { self.part.a() } }", false);
        check_second("impl crate::T { fn b(&mut self) { self.a = 1 } }", false);
        check_second("struct T; impl T { fn b(&mut self) { self.a() } }", false);
        check_second("impl crate::T { fn b(&self) {} #[cfg(test)] fn c(&self) { self.a() } }", false);
    }

    #[test]
    fn functions_that_take_the_object_count_as_its_methods() {
        let first = "use crate::{T, b}; impl T { fn a(&mut self) { b::f(self) } }";
        check_files([first, "use crate::T; pub fn f(t: &mut T) { t.a() }", "", ""], &["T: a b"]);
        check_files([first, "use crate::T; pub fn f(t: &mut T) { t.x() }", "", ""], &[]);
    }

    #[test]
    fn circles_above_the_table_and_rows_above_the_circles_are_refused() {
        let method =
            |own: &str, other: &str| format!("impl crate::T {{ fn {own}(&self) {{ self.{other}() }} }}");
        let texts = [method("a", "b"), method("b", "c"), method("c", "d"), method("d", "a")];
        let named = ["a.rs", "b.rs", "c.rs", "d.rs"].into_iter().zip(texts);
        let mut files: Vec<(String, String)> =
            named.map(|(name, text)| (format!("crates/x/src/{name}"), text)).collect();
        files.push(("crates/x/src/lib.rs".to_owned(), DECLARED.to_owned()));
        let row = |count| Exception { place: "crates/x, methods of `T`", count, reason: "one state" };
        let words = "crates/x, methods of `T`: 4 files that call each other in a circle";
        let remedy = "let a part own its state: a, b, c, d";
        assert_eq!(check_packages(&files, &[]), [format!("{words}, more than 3; {remedy}")]);
        assert_eq!(check_packages(&files, &[row(4)]), Vec::<String>::new());
        assert_eq!(check_packages(&files, &[row(5)]).len(), 1);
    }
}
