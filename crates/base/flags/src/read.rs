//! Parsing of texts into values, flag by flag: each is checked by itself, not yet against others.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::command::WORDS;
use crate::error::Error;
use crate::help::COLUMNS_DEFAULT;
use crate::lenient::lenient;
use crate::table::{Effect, Flag, Table, Target};
use crate::value::Kind;

impl<T: Target> Table<T> {
    /// Reads a command line, without the name of the program.
    pub fn parse<W: Into<OsString> + Clone>(
        &'static self,
        typed: impl IntoIterator<Item = W>,
    ) -> Result<T, Error> {
        let command = self.command(COLUMNS_DEFAULT).no_binary_name(true);
        let matches = command.try_get_matches_from(typed).map_err(|error| self.refusal(error))?;
        self.read(&matches)
    }

    /// Reads the flags that clap has split, and refuses those that are not implemented yet.
    pub fn read(&self, matches: &ArgMatches) -> Result<T, Error> {
        let mut target = T::default();
        for flag in self.flags().filter(|flag| is_typed(flag, matches)) {
            match flag.kind {
                Kind::Switch => self.take(&mut target, flag, &flag.label(), None)?,
                Kind::Count => {
                    for _ in 0..matches.get_count(flag.name) {
                        self.take(&mut target, flag, &flag.label(), None)?;
                    }
                }
                _ => {
                    for typed in matches.get_many::<String>(flag.name).into_iter().flatten() {
                        self.take(&mut target, flag, &flag.label(), Some(typed))?;
                    }
                }
            }
        }
        if T::LENIENT {
            for word in matches.get_many::<String>(WORDS).into_iter().flatten() {
                target.warn(format!("`{word}` is ignored: it belongs to no flag"));
            }
        }
        Ok(target)
    }

    /// Stores one flag or sub-option, called `label` in messages.
    fn take(&self, target: &mut T, flag: &Flag<T>, label: &str, typed: Option<&str>) -> Result<(), Error> {
        let is_list = Some(flag.name) == self.extended;
        if T::LENIENT && is_list && typed == Some("") {
            return Ok(());
        }
        let given = match flag.kind.read(typed) {
            Ok(given) => given,
            Err(expected) => {
                let found = typed.filter(|_| T::LENIENT).and_then(|typed| lenient(flag.kind, typed));
                let (given, how) = found.ok_or_else(|| Error::value(label, &expected, typed))?;
                target.warn(format!("{label} {}: {how}", typed.unwrap_or_default()));
                given
            }
        };
        match flag.effect {
            Effect::Works => {}
            Effect::Without(why) => target.note(format!("{label} has no effect: {why}")),
            Effect::Lacking(why) => target.warn(format!("{label} has no effect: {why}")),
            // `-U 0` and similar values request nothing.
            Effect::NotYet(_) if flag.default.is_some() && flag.kind.read(flag.default) == Ok(given) => {}
            Effect::NotYet(missing) => return Err(Error::NotYet { flag: label.to_owned(), missing }),
        }
        if is_list {
            return self.take_options(target, label, typed.unwrap_or_default());
        }
        (flag.set)(target, given);
        Ok(())
    }

    /// Stores `name,name=value,…`.
    fn take_options(&self, target: &mut T, label: &str, list: &str) -> Result<(), Error> {
        for typed in list.split(',').map(str::trim).filter(|typed| !typed.is_empty()) {
            let (name, value) = match typed.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (typed, None),
            };
            let option = self.option(name).ok_or_else(|| self.unknown_option(name))?;
            self.take(target, option, &format!("{label} {name}"), value)?;
        }
        Ok(())
    }
}

/// Whether the flag is from the command line rather than from clap's defaults.
fn is_typed<T>(flag: &Flag<T>, matches: &ArgMatches) -> bool {
    !matches!(flag.kind, Kind::Help | Kind::Version)
        && matches.value_source(flag.name) == Some(ValueSource::CommandLine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Section;
    use crate::value::Given;

    #[derive(Debug, Default, PartialEq)]
    struct Typed {
        routes: Vec<String>,
        timeout_ms: i64,
        notes: Vec<String>,
    }

    impl Target for Typed {
        fn note(&mut self, note: String) {
            self.notes.push(note);
        }
    }

    const fn flag(
        short: Option<char>,
        name: &'static str,
        effect: Effect,
        set: fn(&mut Typed, Given<'_>),
    ) -> Flag<Typed> {
        let (value, kind) = ("", Kind::Switch);
        Flag { short, name, value, kind, default: None, doc: "Line", details: "", effect, set }
    }

    /// The table of another program than memcached.
    static TABLE: Table<Typed> =
        Table {
            verb: "route",
            about: "Route requests",
            sections: &[Section {
                title: "Routes",
                flags: &[
                    flag(Some('r'), "route", Effect::Works, |typed, given| {
                        typed.routes.push(given.text().to_owned())
                    })
                    .takes("name", Kind::List, ""),
                    flag(None, "round-robin", Effect::Without("routes are chosen by key"), |_, _| {}),
                    flag(Some('x'), "knobs", Effect::Works, |_, _| {}).takes("list", Kind::List, ""),
                ],
                options: &[
                    flag(None, "timeout", Effect::Works, |typed, given| typed.timeout_ms = given.number())
                        .takes("ms", Kind::Number { min: 1, max: 1000 }, ""),
                    flag(None, "spool", Effect::NotYet("nothing is kept on disk"), |_, _| {}),
                ],
            }],
            extended: Some("knobs"),
        };

    #[track_caller]
    fn check(line: &str, expected: Result<(&[&str], i64, &[&str]), &str>) {
        let read = TABLE.parse(line.split_whitespace());
        let read = read.map(|typed| (typed.routes, typed.timeout_ms, typed.notes));
        let expected = expected.map(|(routes, timeout_ms, notes)| {
            let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
            (owned(routes), timeout_ms, owned(notes))
        });
        let message = |error: Error| match error.hint() {
            Some(hint) => format!("{error}; {hint}"),
            None => error.to_string(),
        };
        assert_eq!(read.map_err(message), expected.map_err(str::to_owned), "{line}");
    }

    #[test]
    fn flags_and_options_are_parsed_as_by_getopt() {
        check("", Ok((&[], 0, &[])));
        check("-ra --route=b --rout c", Ok((&["a", "b", "c"], 0, &[])));
        check("-x timeout=5,timeout=7 -x timeout=9", Ok((&[], 9, &[])));
        let note = "--round-robin has no effect: routes are chosen by key";
        check("--round-robin", Ok((&[], 0, &[note])));
    }

    #[test]
    fn refused_arguments_are_named_as_typed() {
        check("-x timeout=0", Err("-x timeout: expected a number from 1 to 1000, found `0`"));
        check("-x spool", Err("-x spool: not supported yet; nothing is kept on disk"));
        check("-x zzzz", Err("-x zzzz: unknown option; `evenkeel route --help` lists the options of -x"));
        check("-x tiemout=5", Err("-x tiemout: unknown option; did you mean `timeout`?"));
        check("--zzzz", Err("unknown flag `--zzzz`; `evenkeel route --help` lists the flags"));
        check("--ro a", Err("`--ro` is short for --route and for --round-robin"));
    }

    #[test]
    fn the_help_follows_from_the_table() {
        let help = TABLE.command(80).render_help().to_string();
        for line in
            ["Route requests", "Usage: evenkeel route [flags]", "Extended options (-x name[=value],…):"]
        {
            assert!(help.contains(line), "{line}: {help}");
        }
    }
}
