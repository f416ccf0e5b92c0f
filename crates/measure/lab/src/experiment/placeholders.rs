//! Placeholders in command lines: names in braces, replaced by their values. Pure.
//!
//! `{port}` becomes the port of this trial; `{{` is a brace. Values may have names in braces, too. An unknown name is an error: a
//! command line with an empty name in it would measure something else.

use std::collections::BTreeMap;

/// The values of names in one trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholders(BTreeMap<String, String>);

/// A name in braces that is unknown here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fill in {place}: {found} is none of {}; a brace itself is written {{{{", known.join(", "))]
pub struct Unknown {
    /// The key in the experiment's file.
    pub place: String,
    /// As the file has it.
    pub found: String,
    /// The names that are known.
    pub known: Vec<String>,
}

/// A value has names, and these have names of their own at most. One that has itself in it never ends.
const DEPTH_MAX: u32 = 3;

impl Placeholders {
    /// Gives a name its value.
    pub fn set(&mut self, name: &str, meaning: impl ToString) {
        self.0.insert(name.to_owned(), meaning.to_string());
    }

    /// A text with all names filled in; `place` is the key that it stands at.
    pub fn fill(&self, text: &str, place: &str) -> Result<String, Unknown> {
        self.fill_below(text, place, DEPTH_MAX)
    }

    /// The same, where names may be in the values of names so often.
    fn fill_below(&self, text: &str, place: &str, depth: u32) -> Result<String, Unknown> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            filled += &rest[..brace];
            rest = &rest[brace..];
            if rest.starts_with("{{") || rest.starts_with("}}") {
                filled += &rest[..1];
                rest = &rest[2..];
            } else if let Some(behind) = rest.strip_prefix('}') {
                filled.push('}');
                rest = behind;
            } else {
                let Some((name, behind)) = rest[1..].split_once('}') else {
                    return Err(self.unknown(rest, place));
                };
                let unknown = || self.unknown(&format!("{{{name}}}"), place);
                let value = self.0.get(name).filter(|_| depth > 0).ok_or_else(unknown)?;
                filled += &self.fill_below(value, place, depth - 1)?;
                rest = behind;
            }
        }
        Ok(filled + rest)
    }

    fn unknown(&self, found: &str, place: &str) -> Unknown {
        let known = self.0.keys().map(|name| format!("{{{name}}}")).collect();
        Unknown { place: place.to_owned(), found: found.to_owned(), known }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placeholders() -> Placeholders {
        let mut placeholders = Placeholders::default();
        placeholders.set("port", 4711);
        placeholders.set("dir", "/tmp/a b");
        placeholders.set("load", "-p {port}");
        placeholders.set("endless", "{endless}");
        placeholders
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(placeholders().fill(text, "x").as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn names_are_filled_in_and_doubled_braces_are_braces() {
        check("memcached -p {port} -l 127.0.0.1", "memcached -p 4711 -l 127.0.0.1");
        check("{port}{port}", "47114711");
        check("load {load} -v", "load -p 4711 -v");
        check("cd '{dir}'", "cd '/tmp/a b'");
        check("awk '{{ print $1 }}' ${{HOME}}", "awk '{ print $1 }' ${HOME}");
        check("a } b", "a } b");
        check("", "");
    }

    #[track_caller]
    fn unknown(text: &str, found: &str) {
        let error = placeholders().fill(text, "subject \"a\": start").expect_err(text).to_string();
        let wanted = format!(
            "fill in subject \"a\": start: {found} is none of {{dir}}, {{endless}}, {{load}}, {{port}}; a brace itself is written {{{{"
        );
        assert_eq!(error, wanted);
    }

    #[test]
    fn a_name_that_means_nothing_is_said_with_its_place() {
        unknown("-p {prot}", "{prot}");
        unknown("${HOME}", "{HOME}");
        unknown("awk '{ print }'", "{ print }");
        unknown("-p {", "{");
        unknown("-p {port", "{port");
        unknown("{}", "{}");
        unknown("{endless}", "{endless}");
        unknown("{é", "{é");
    }
}
