//! Orphans: files below `src` that no module declares, so that nothing compiles them.

use super::{ModulePath, module_path, packages_of};
use std::collections::BTreeMap;

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    packages_of(files).into_iter().flat_map(|(package, files)| check_package(package, &files)).collect()
}

fn check_package(package: &str, files: &[(&str, &str)]) -> Vec<String> {
    // A package may have two roots, of a library and of a program.
    let mut texts: BTreeMap<ModulePath, Vec<&str>> = BTreeMap::new();
    for (path, text) in files {
        texts.entry(module_path(path)).or_default().push(text);
    }
    let orphans = files.iter().filter_map(|(path, _)| {
        let mut parent = module_path(path);
        let declaration = format!("mod {};", parent.pop()?);
        let declares = |text: &&str| text.lines().any(|line| line.trim_end().ends_with(&declaration));
        let is_declared = texts.get(&parent).is_some_and(|texts| texts.iter().any(declares));
        (!is_declared).then(|| format!("{package}/src/{path}: no `{declaration}` above declares it"))
    });
    orphans.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_declaration_is_found() {
        let files = [
            ("c/src/lib.rs", "pub mod a;\n#[cfg(test)]\nmod b;"),
            ("c/src/a.rs", "pub(crate) mod x;\nmod xy;"),
            ("c/src/a/x.rs", ""),
            ("c/src/a/xy.rs", ""),
            ("c/src/a/y.rs", ""),
            ("c/src/b/mod.rs", ""),
            ("c/tests/z.rs", ""),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        assert_eq!(check(&files), ["c/src/a/y.rs: no `mod y;` above declares it"]);
    }
}
