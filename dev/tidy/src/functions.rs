//! Lengths of functions.

use super::code::{group_len, is_name, tokens, without_tests};
use super::exceptions::{Exception, FUNCTIONS, compare};
use super::modules::{Modules, module_path, packages_of};

/// A function of more lines does several things, of which one would be a function of its own.
const LINES_MAX: usize = 100;

/// Violations in the files of the workspace, given by path and text.
pub(crate) fn check(files: &[(String, String)]) -> Vec<String> {
    check_packages(files, &FUNCTIONS)
}

fn check_packages(files: &[(String, String)], exceptions: &[Exception]) -> Vec<String> {
    let mut found = Vec::new();
    for (package, files) in packages_of(files) {
        let modules = Modules::new(files.iter().copied());
        for (path, text) in files.iter().filter(|(path, _)| modules.contains(&module_path(path))) {
            let long = lengths(text).into_iter().filter(|(_, lines)| *lines > LINES_MAX);
            found.extend(long.map(|(name, lines)| (format!("{package}/src/{path}, `{name}`"), lines)));
        }
    }
    compare(found, "lines", LINES_MAX, "give a part of it a name", exceptions)
}

/// The functions of a file, each with its lines from `fn` to the closing brace.
fn lengths(text: &str) -> Vec<(&str, usize)> {
    let line = |token: &str| {
        let at = token.as_ptr() as usize - text.as_ptr() as usize;
        text[..at].matches('\n').count()
    };
    let tokens = without_tests(&tokens(text));
    let functions = (0..tokens.len()).filter_map(|at| {
        let ["fn", name, ..] = tokens[at..] else { return None };
        let open = at + tokens[at..].iter().position(|token| ["{", ";"].contains(token))?;
        let end = open + group_len(&tokens[open..]) - 1;
        (is_name(name) && tokens[open] == "{").then(|| (name, line(tokens[end]) - line(tokens[at]) + 1))
    });
    functions.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_with_their_signatures() {
        let text = "/// A.\n#[b]\npub fn a(\n  b: fn(u8) -> u8,\n) {\n  let c = \"}\";\n}\n\nfn d() {}\ntrait E {\n  fn e();\n}";
        assert_eq!(lengths(text), [("a", 5), ("d", 1)]);
    }

    #[test]
    fn long_functions_outside_of_tests_are_refused() {
        let function = format!("fn a() {{\n{}}}\n", "b();\n".repeat(99));
        let violations =
            |text: &str| check_packages(&[("crates/x/src/lib.rs".to_owned(), text.to_owned())], &[]);
        assert_eq!(
            violations(&function),
            ["crates/x/src/lib.rs, `a`: 101 lines, more than 100; give a part of it a name"]
        );
        assert_eq!(violations(&format!("#[cfg(test)]\nmod tests {{\n{function}}}")), Vec::<String>::new());
        assert_eq!(violations(&function.replacen("b();\n", "", 1)), Vec::<String>::new());
    }
}
