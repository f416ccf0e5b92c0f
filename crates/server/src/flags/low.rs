//! Flags as they were typed.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::{Effect, Error, Flag, Kind, all, extended};
use crate::options::Options;

/// What was typed: every text checked by itself, nothing compared with anything else yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LowArgs {
    /// `-p`; -1 asks for any free port.
    pub port: Option<i32>,
    /// `-s`
    pub unix_socket: Option<String>,
    /// `-a`
    pub unix_mask: Option<u32>,
    /// `-l`, once per occurrence.
    pub listen: Vec<String>,
    /// `-B`
    pub protocol: Option<&'static str>,
    /// `-Y`
    pub auth_file: Option<String>,
    /// `-i`: print the license and end.
    pub license: bool,
    /// Whatever means the same on its own as together with others, already in its place.
    pub options: Options,
}

impl LowArgs {
    /// Reads what clap has split, and refuses what is not built yet.
    pub fn read(matches: &ArgMatches) -> Result<Self, Error> {
        let mut low = Self::default();
        for flag in all().filter(|flag| is_typed(flag, matches)) {
            match flag.kind {
                Kind::Switch => low.take(flag, &flag.label(), None)?,
                Kind::Count => {
                    for _ in 0..matches.get_count(flag.name) {
                        low.take(flag, &flag.label(), None)?;
                    }
                }
                _ => {
                    for typed in matches.get_many::<String>(flag.name).into_iter().flatten() {
                        low.take(flag, &flag.label(), Some(typed))?;
                    }
                }
            }
        }
        Ok(low)
    }

    /// Notes down one flag or sub-option, called `label` in messages.
    fn take(&mut self, flag: &Flag, label: &str, typed: Option<&str>) -> Result<(), Error> {
        let given = flag.kind.read(typed).map_err(|expected| Error::value(label, &expected, typed))?;
        match flag.effect {
            Effect::Works => {}
            Effect::Without(why) => self.options.notes.push(format!("{label} has no effect: {why}")),
            // `-U 0` and the like ask for nothing.
            Effect::NotYet(_) if flag.default.is_some() && flag.kind.read(flag.default) == Ok(given) => {}
            Effect::NotYet(missing) => return Err(Error::NotYet { flag: label.to_owned(), missing }),
        }
        if flag.name == extended::FLAG {
            return self.take_options(typed.unwrap_or_default());
        }
        (flag.set)(self, given);
        Ok(())
    }

    /// Notes down `name,name=value,…`.
    fn take_options(&mut self, list: &str) -> Result<(), Error> {
        for typed in list.split(',').map(str::trim).filter(|typed| !typed.is_empty()) {
            let (name, value) = match typed.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (typed, None),
            };
            let option = extended::find(name).ok_or_else(|| Error::unknown_option(name))?;
            self.take(option, &format!("-o {name}"), value)?;
        }
        Ok(())
    }
}

/// Whether the flag stood on the command line, rather than in clap's defaults.
fn is_typed(flag: &Flag, matches: &ArgMatches) -> bool {
    !matches!(flag.kind, Kind::Help | Kind::Version)
        && matches.value_source(flag.name) == Some(ValueSource::CommandLine)
}

impl Flag {
    /// What a message calls it: its letter where it has one.
    pub fn label(&self) -> String {
        self.short.map_or_else(|| format!("--{}", self.name), |letter| format!("-{letter}"))
    }
}
