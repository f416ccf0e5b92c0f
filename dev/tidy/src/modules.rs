//! Modules of a crate, one for each file, and the paths by which they name each other.
//!
//! A name is followed to the file that defines it, through `use`, `pub use` and globs: a file depends on where a name
//! comes from, and not on those that pass it on. Inline modules count as part of their file. Paths that macros put
//! together, methods and trait implementations are not seen; `objects/methods.rs` sees methods.

pub(super) mod orphans;

use super::code::{is_name, tokens, without_tests};
use std::collections::{BTreeMap, BTreeSet};

/// A module's path from the root of its crate; the root's is empty.
pub(super) type ModulePath = Vec<String>;

/// Names that are passed on from file to file more often than this go in a ring.
const PASSED_ON_MAX: usize = 8;

/// The files of one crate, by module.
#[derive(Default)]
pub(super) struct Modules<'t> {
    files: BTreeMap<ModulePath, File<'t>>,
}

/// The names in one file.
#[derive(Default)]
struct File<'t> {
    /// Modules that have files of their own.
    children: BTreeSet<&'t str>,
    imports: Vec<Import<'t>>,
    /// `a::b::c` outside of `use`.
    paths: BTreeSet<Vec<&'t str>>,
    /// Every name outside of `use`.
    names: BTreeSet<&'t str>,
    /// Names that are given here.
    defines: BTreeSet<&'t str>,
    /// Types among them that are `pub` or `pub(crate)`.
    shared_types: BTreeSet<&'t str>,
}

/// One name of a `use`; `*` for all of a module.
struct Import<'t> {
    path: Vec<&'t str>,
    name: &'t str,
    is_public: bool,
    /// Whether other crates have it, too.
    is_exported: bool,
}

/// Where a path leads.
enum Place {
    /// To a module itself.
    Module(ModulePath),
    /// To a name that this module defines.
    Name(ModulePath),
}

impl<'t> Modules<'t> {
    /// From files by their paths below `src`: `lib.rs`, `plan.rs`, `plan/change.rs`.
    pub(super) fn new(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Modules<'t> {
        let mut modules = Modules::default();
        for (path, text) in files {
            // A package may have two roots, of a library and of a program.
            modules.files.entry(module_path(path)).or_default().add(File::read(text));
        }
        modules.leave_out_undeclared();
        modules
    }

    /// Files that no file declares outside of tests are for tests.
    fn leave_out_undeclared(&mut self) {
        let mut declared = BTreeSet::from([ModulePath::new()]);
        let mut open = vec![ModulePath::new()];
        while let Some(module) = open.pop() {
            let children = self.files.get(&module).map(|file| file.children.clone()).unwrap_or_default();
            for child in children {
                let path: ModulePath = module.iter().cloned().chain([child.to_owned()]).collect();
                if self.files.contains_key(&path) && declared.insert(path.clone()) {
                    open.push(path);
                }
            }
        }
        self.files.retain(|path, _| declared.contains(path));
    }

    /// Types that files other than their own can name: `pub` and `pub(crate)`, each with the module that defines it.
    pub(super) fn shared_types(&self) -> impl Iterator<Item = (&'t str, &ModulePath)> {
        self.files.iter().flat_map(|(path, file)| file.shared_types.iter().map(move |name| (*name, path)))
    }

    /// Whether this is a module of the crate outside of its tests.
    pub(super) fn contains(&self, module: &ModulePath) -> bool {
        self.files.contains_key(module)
    }

    /// The module that defines what a path means in this one; none, if it is another crate's.
    pub(super) fn definition(&self, module: &ModulePath, path: &[&str]) -> Option<ModulePath> {
        let name = path.last()?;
        if path.len() == 1 && self.defines(module, name) {
            return Some(module.clone());
        }
        let place = self.place(module, path, 0).or_else(|| self.origin(module, path[0], path, 0));
        match place? {
            Place::Name(at) => self.defines(&at, name).then_some(at),
            Place::Module(_) => None,
        }
    }

    /// The names that a root's tokens pass on from its own modules.
    pub(super) fn passed_on(root: &[&'t str]) -> BTreeSet<&'t str> {
        let file = File::of_tokens(root);
        let public = file.imports.iter().filter(|import| import.is_exported && import.name != "*");
        let ours = public.filter(|import| {
            let home = import.path.iter().find(|part| !["crate", "self"].contains(part));
            home.is_some_and(|home| file.children.contains(home) || file.defines.contains(home))
        });
        ours.map(|import| import.name).collect()
    }

    /// For each file those that it names something of.
    pub(super) fn dependencies(&self) -> BTreeMap<&ModulePath, BTreeSet<ModulePath>> {
        let named = |(path, file): (&ModulePath, &File)| {
            let mut named = self.named_by(path, file);
            named.retain(|other| other != path && self.files.contains_key(other));
            named
        };
        self.files.iter().map(|(path, file)| (path, named((path, file)))).collect()
    }

    fn named_by(&self, module: &ModulePath, file: &File) -> BTreeSet<ModulePath> {
        let imported = file.imports.iter().filter_map(|import| {
            // A name that is only passed on is not needed by the file itself.
            let is_needed = !import.is_public || file.names.contains(import.name);
            match self.place(module, &import.path, 0).filter(|_| is_needed)? {
                Place::Name(place) => Some(place),
                Place::Module(place) => (import.name == "*").then_some(place),
            }
        });
        let paths = file.paths.iter().filter_map(|path| match self.place(module, path, 0)? {
            Place::Name(place) | Place::Module(place) => Some(place),
        });
        imported.chain(paths).collect()
    }

    /// Where a path leads that stands in a module; nowhere, if out of the crate.
    fn place(&self, module: &ModulePath, path: &[&str], passed_on: usize) -> Option<Place> {
        let file = self.files.get(module).filter(|_| passed_on < PASSED_ON_MAX)?;
        let (first, mut rest) = path.split_first()?;
        let mut at = match *first {
            "crate" => ModulePath::new(),
            "self" => module.clone(),
            "super" => {
                let mut above = module.clone();
                above.pop();
                while let ["super", after @ ..] = rest {
                    above.pop();
                    rest = after;
                }
                above
            }
            "*" => return None,
            child if file.children.contains(child) => [module.clone(), vec![child.to_owned()]].concat(),
            name => {
                let import = file.imports.iter().find(|import| import.name == name)?;
                let is_itself = import.path == path;
                return self
                    .place(module, &[&import.path, rest].concat(), passed_on + 1)
                    .filter(|_| !is_itself);
            }
        };
        while let [next, after @ ..] = rest {
            let child = [at.clone(), vec![(*next).to_owned()]].concat();
            // A function may have its module's name, and be passed on beside it.
            let is_name = after.is_empty() && self.passes_on(&at, next);
            if is_name || !self.files.contains_key(&child) {
                break;
            }
            (at, rest) = (child, after);
        }
        match rest {
            [] | ["self"] | ["*"] => Some(Place::Module(at)),
            [name, ..] => Some(self.origin(&at, name, rest, passed_on).unwrap_or(Place::Name(at))),
        }
    }

    fn defines(&self, module: &ModulePath, name: &str) -> bool {
        self.files.get(module).is_some_and(|file| file.defines.contains(name))
    }

    fn passes_on(&self, module: &ModulePath, name: &str) -> bool {
        let imports = self.files.get(module).map(|file| file.imports.as_slice()).unwrap_or_default();
        imports.iter().any(|import| import.name == name && import.path.len() > 1)
    }

    /// Where a module has a name from that it does not define itself.
    fn origin(&self, module: &ModulePath, name: &str, rest: &[&str], passed_on: usize) -> Option<Place> {
        let file = self.files.get(module)?;
        if file.defines.contains(name) {
            return None;
        }
        if let Some(import) = file.imports.iter().find(|import| import.name == name) {
            return self.place(module, &[&import.path, &rest[1..]].concat(), passed_on + 1);
        }
        let globs = file.imports.iter().filter(|import| import.name == "*");
        let mut places = globs.filter_map(|import| {
            let path = [&import.path[..import.path.len() - 1], rest].concat();
            self.place(module, &path, passed_on + 1)
        });
        places.find(|place| matches!(place, Place::Name(place) if self.defines(place, name)))
    }
}

/// The files of each package by their paths below its `src`, from paths and texts.
pub(super) fn packages_of(files: &[(String, String)]) -> BTreeMap<&str, Vec<(&str, &str)>> {
    let mut packages: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for (path, text) in files {
        if let Some((package, file)) = path.split_once("/src/") {
            packages.entry(package).or_default().push((file, text));
        }
    }
    packages
}

/// `plan/change.rs` is the module `plan::change`; `lib.rs` and `main.rs` are the root.
pub(super) fn module_path(path: &str) -> ModulePath {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    match path {
        "lib" | "main" => ModulePath::new(),
        _ => path.split('/').map(str::to_owned).collect(),
    }
}

impl<'t> File<'t> {
    fn add(&mut self, other: File<'t>) {
        self.children.extend(other.children);
        self.imports.extend(other.imports);
        self.paths.extend(other.paths);
        self.names.extend(other.names);
        self.defines.extend(other.defines);
        self.shared_types.extend(other.shared_types);
    }

    fn read(text: &'t str) -> File<'t> {
        File::of_tokens(&without_tests(&tokens(text)))
    }

    fn of_tokens(tokens: &[&'t str]) -> File<'t> {
        let mut file = File::default();
        let mut at = 0;
        while at < tokens.len() {
            let code = &tokens[at..];
            at += match code {
                ["use", ..] => {
                    let len = code.iter().position(|token| *token == ";").unwrap_or(code.len());
                    let is_public = tokens[..at].last().is_some_and(|last| ["pub", ")"].contains(last));
                    let is_exported = tokens[..at].last() == Some(&"pub");
                    let mut leaves = Vec::new();
                    leaves_of(&mut code[1..len].iter().copied().peekable(), &[], &mut leaves);
                    let import = |(path, name)| Import { path, name, is_public, is_exported };
                    file.imports.extend(leaves.into_iter().map(import));
                    len
                }
                ["mod", child, ";", ..] => {
                    file.children.insert(child);
                    3
                }
                [
                    "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "mod",
                    name,
                    ..,
                ] => {
                    file.defines.insert(name);
                    if is_type(code[0]) && is_shared(&tokens[..at]) {
                        file.shared_types.insert(name);
                    }
                    2
                }
                [name, "::", _, ..] if is_name(name) => {
                    let parts = code.chunks(2).take_while(|part| is_name(part[0])).collect::<Vec<_>>();
                    let joined = parts.iter().take_while(|part| part.get(1) == Some(&"::")).count();
                    let path: Vec<&str> = parts.iter().take(joined + 1).map(|part| part[0]).collect();
                    file.names.insert(name);
                    let len = path.len() * 2 - 1;
                    file.paths.insert(path);
                    len
                }
                [name, ..] => {
                    file.names.insert(name);
                    1
                }
                [] => 1,
            };
        }
        file
    }
}

fn is_type(keyword: &str) -> bool {
    ["struct", "enum", "union", "trait", "type"].contains(&keyword)
}

/// Whether the item behind these tokens is `pub` or `pub(crate)`.
fn is_shared(before: &[&str]) -> bool {
    let before = before.strip_suffix(&["unsafe"]).unwrap_or(before);
    before.ends_with(&["pub"]) || before.ends_with(&["pub", "(", "crate", ")"])
}

/// The names of a `use`, each with its whole path.
fn leaves_of<'t>(
    tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>,
    before: &[&'t str],
    leaves: &mut Vec<(Vec<&'t str>, &'t str)>,
) {
    let mut path = before.to_vec();
    while let Some(token) = tokens.next_if(|token| !matches!(*token, "," | "}")) {
        match token {
            "::" => {}
            "{" => {
                while tokens.peek().is_some_and(|token| *token != "}") {
                    leaves_of(&mut *tokens, &path, leaves);
                    tokens.next_if_eq(&",");
                }
                tokens.next();
                return;
            }
            "as" => {
                let name = tokens.next().unwrap_or("_");
                leaves.push((path, name));
                return;
            }
            _ => path.push(token),
        }
    }
    // `use a::b::{self}` gives the name `b`.
    let name = path.iter().rev().find(|part| **part != "self").copied();
    leaves.extend(name.filter(|_| path.len() > before.len()).map(|name| (path, name)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the file `a.rs` depends on, beside these other ones.
    #[track_caller]
    fn check(a: &str, others: &[(&str, &str)], expected: &str) {
        let declared = "mod a; mod b; mod c; pub use b::Passed; pub use c::name::name;";
        let modules =
            Modules::new([("lib.rs", declared), ("a.rs", a)].into_iter().chain(others.iter().copied()));
        let dependencies = modules.dependencies();
        let of_a = &dependencies[&vec!["a".to_owned()]];
        assert_eq!(of_a.iter().map(|path| path.join("::")).collect::<Vec<_>>().join(" "), expected);
    }

    const B: (&str, &str) = ("b.rs", "pub struct Passed; pub struct B;");
    const C: (&str, &str) = ("c.rs", "mod name; mod tail; pub use tail::*; pub use crate::b::B as Other;");
    const NAME: (&str, &str) = ("c/name.rs", "pub fn name() {}");
    const TAIL: (&str, &str) = ("c/tail.rs", "pub const LEN: usize = 1;");

    #[test]
    fn names_are_followed_to_the_file_that_defines_them() {
        check("use crate::b::B;", &[B], "b");
        check("use crate::{b::B, c::{self, Other}};", &[B, C], "b");
        check("use crate::Passed;", &[B], "b");
        check("fn f() { crate::name(); super::c::LEN }", &[B, C, NAME, TAIL], "c::name c::tail");
        check("use crate::c::{name, tail}; fn f() { tail::LEN }", &[C, NAME, TAIL], "c::tail");
        check("use crate::c::*;", &[C], "c");
        check("use std::fmt; fn f() -> fmt::Result { b::g() }", &[B], "");
    }

    #[test]
    fn what_is_passed_on_is_needed_only_where_it_is_used() {
        let child = ("a/d.rs", "pub struct D;");
        check("mod d; pub use d::D;", &[child], "");
        check("mod d; pub use d::D; fn f(d: D) {}", &[child], "a::d");
        check("mod d; fn f() { d::g() }", &[child], "a::d");
    }

    #[test]
    fn tests_and_files_that_only_tests_declare_do_not_count() {
        check("#[cfg(test)] mod tests { use crate::b::B; }", &[B], "");
        let modules =
            Modules::new([("lib.rs", "#[cfg(test)] mod tests; mod a;"), ("tests.rs", ""), ("a.rs", "")]);
        assert_eq!(modules.dependencies().len(), 2);
    }

    #[test]
    fn names_that_are_passed_on_in_a_ring_end() {
        check(
            "use crate::b::X; use crate::c::X as Y;",
            &[("b.rs", "pub use crate::c::X;"), ("c.rs", "pub use crate::b::X;")],
            "b c",
        );
    }

    #[test]
    fn a_program_beside_a_library_hides_none_of_its_modules() {
        let modules = Modules::new([("lib.rs", "mod a;"), ("main.rs", "mod b;"), ("a.rs", ""), ("b.rs", "")]);
        assert!(["a", "b"].iter().all(|name| modules.contains(&vec![(*name).to_owned()])));
    }
}
