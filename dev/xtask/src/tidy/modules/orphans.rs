//! Orphans: files below `src` that no module declares, so that nothing compiles them.

use std::collections::BTreeMap;

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    let texts: BTreeMap<&str, &str> = files.iter().map(|(path, text)| (&**path, &**text)).collect();
    let orphans = texts.keys().filter_map(|path| {
        let (package, file) = path.split_once("/src/")?;
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
        if ["lib", "main"].contains(&module) {
            return None;
        }
        let parents = match module.rsplit_once('/') {
            None => [format!("{package}/src/lib.rs"), format!("{package}/src/main.rs")],
            Some((above, _)) => {
                [format!("{package}/src/{above}.rs"), format!("{package}/src/{above}/mod.rs")]
            }
        };
        let name = module.rsplit('/').next()?;
        let declaration = format!("mod {name};");
        let is_declared = |text: &&str| text.lines().any(|line| line.trim_end().ends_with(&declaration));
        let is_orphan = !parents.iter().filter_map(|parent| texts.get(&**parent)).any(is_declared);
        is_orphan.then(|| format!("{path} is declared by no `{declaration}` in {}", parents.join(" or ")))
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
        assert_eq!(
            check(&files),
            ["c/src/a/y.rs is declared by no `mod y;` in c/src/a.rs or c/src/a/mod.rs"]
        );
    }
}
