//! From texts to values, flag by flag: each checked by itself, nothing compared with anything else yet.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::error::Error;
use crate::help::COLUMNS_DEFAULT;
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

    /// Reads what clap has split, and refuses what is not built yet.
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
        Ok(target)
    }

    /// Notes down one flag or sub-option, called `label` in messages.
    fn take(&self, target: &mut T, flag: &Flag<T>, label: &str, typed: Option<&str>) -> Result<(), Error> {
        let given = flag.kind.read(typed).map_err(|expected| Error::value(label, &expected, typed))?;
        match flag.effect {
            Effect::Works => {}
            Effect::Without(why) => target.note(format!("{label} has no effect: {why}")),
            // `-U 0` and the like ask for nothing.
            Effect::NotYet(_) if flag.default.is_some() && flag.kind.read(flag.default) == Ok(given) => {}
            Effect::NotYet(missing) => return Err(Error::NotYet { flag: label.to_owned(), missing }),
        }
        if Some(flag.name) == self.extended {
            return self.take_options(target, label, typed.unwrap_or_default());
        }
        (flag.set)(target, given);
        Ok(())
    }

    /// Notes down `name,name=value,…`.
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

/// Whether the flag stood on the command line, rather than in clap's defaults.
fn is_typed<T>(flag: &Flag<T>, matches: &ArgMatches) -> bool {
    !matches!(flag.kind, Kind::Help | Kind::Version)
        && matches.value_source(flag.name) == Some(ValueSource::CommandLine)
}
