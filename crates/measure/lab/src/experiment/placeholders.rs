//! Placeholders in command lines: names in braces, replaced by their values. Pure.
//!
//! `{port}` becomes the port of this trial; `{{` is a brace. An unknown name is an error: a command line with an
//! empty name in it would measure something else.

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

impl Placeholders {
    /// Gives a name its value.
    pub fn set(&mut self, name: &str, meaning: impl ToString) {
        self.0.insert(name.to_owned(), meaning.to_string());
    }

    /// A text with all names filled in; `place` is the key that it stands at.
    pub fn fill(&self, text: &str, place: &str) -> Result<String, Unknown> {
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
                filled += self.0.get(name).ok_or_else(unknown)?;
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
        check("cd '{dir}'", "cd '/tmp/a b'");
        check("awk '{{ print $1 }}' ${{HOME}}", "awk '{ print $1 }' ${HOME}");
        check("a } b", "a } b");
        check("", "");
    }

    #[track_caller]
    fn unknown(text: &str, found: &str) {
        let error = placeholders().fill(text, "subject \"a\": start").expect_err(text).to_string();
        let wanted = format!(
            "fill in subject \"a\": start: {found} is none of {{dir}}, {{port}}; a brace itself is written {{{{"
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
        unknown("{é", "{é");
    }
}
