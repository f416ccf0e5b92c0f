//! The table as a clap command: splitting, `--help`, the man page and completions all work from it.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, StyledStr, TypedValueParser};
use clap::{Arg, ArgAction, Command, value_parser};

use crate::help;
use crate::table::{Effect, Flag, Table, Target};
use crate::value::Kind;

/// The name of the argument that holds words where no flag is.
pub(crate) const WORDS: &str = "words without a flag";

impl<T: Target> Table<T> {
    /// The verb, with help for a terminal of this many columns.
    pub fn command(&self, columns: usize) -> Command {
        let columns = columns.clamp(help::COLUMNS_MIN, help::COLUMNS_MAX);
        Command::new(self.verb)
            .display_name("evenkeel")
            .version(env!("CARGO_PKG_VERSION"))
            .about(self.about)
            .override_usage(format!("evenkeel {} [flags]", self.verb))
            .disable_help_flag(true)
            .disable_version_flag(true)
            // getopt_long, which the other program uses, accepts any unambiguous prefix of a long name, and uses the
            // last of several values.
            .infer_long_args(true)
            .args_override_self(true)
            .term_width(columns)
            .args(self.working())
            .args(self.with_heading("Accepted without effect", |effect| {
                matches!(effect, Effect::Without(_) | Effect::Lacking(_))
            }))
            .args(self.with_heading("Not supported yet", |effect| matches!(effect, Effect::NotYet(_))))
            .args(T::LENIENT.then(|| Arg::new(WORDS).num_args(0..).action(ArgAction::Append).hide(true)))
            .help_template("{about}\n\n{usage-heading} {usage}{after-help}")
            .after_help(self.short_help(columns))
            .after_long_help(self.help(columns))
    }

    fn working(&self) -> impl Iterator<Item = Arg> {
        self.sections.iter().flat_map(move |section| {
            let flags = section.flags.iter().filter(|flag| flag.effect == Effect::Works);
            flags.map(move |flag| self.argument(flag).help_heading(section.title))
        })
    }

    fn with_heading(&self, heading: &'static str, wanted: fn(Effect) -> bool) -> impl Iterator<Item = Arg> {
        let flags = self.flags().filter(move |flag| wanted(flag.effect));
        flags.map(move |flag| self.argument(flag).help_heading(heading))
    }

    fn argument(&self, flag: &'static Flag<T>) -> Arg {
        let (short, long) = documentation(flag);
        let mut argument =
            Arg::new(flag.name).long(flag.name).action(action(flag.kind)).help(short).long_help(long);
        if let Some(letter) = flag.short {
            argument = argument.short(letter);
        }
        if flag.kind.takes_value() {
            argument = argument.value_name(flag.value).value_parser(value_parser!(String));
            // `-p -1` is a port, not a flag.
            argument = argument.allow_negative_numbers(true);
        }
        if let Kind::OneOf(words) = flag.kind {
            // For completions; the line of documentation lists them already.
            argument = argument.value_parser(PossibleValuesParser::new(words)).hide_possible_values(true);
        }
        if Some(flag.name) == self.extended {
            argument = argument.value_parser(SubOptions(self.completions())).hide_possible_values(true);
        }
        if let (Some(default), Effect::Works) = (flag.default, flag.effect) {
            argument = argument.default_value(default);
        }
        argument
    }

    /// The entries of the list of sub-options.
    fn completions(&self) -> Vec<PossibleValue> {
        let accepted = self.options().filter(|option| !matches!(option.effect, Effect::NotYet(_)));
        accepted
            .map(|option| {
                let equals = if option.kind.takes_value() { "=" } else { "" };
                PossibleValue::new(format!("{}{equals}", option.name)).help(documentation(option).0)
            })
            .collect()
    }
}

/// Accepts any text, because errors of a list are reported elsewhere; gives the entries to completions.
#[derive(Clone)]
struct SubOptions(Vec<PossibleValue>);

impl TypedValueParser for SubOptions {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        typed: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, typed)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().cloned()))
    }
}

fn action(kind: Kind) -> ArgAction {
    match kind {
        Kind::Switch => ArgAction::SetTrue,
        Kind::Count => ArgAction::Count,
        Kind::List => ArgAction::Append,
        Kind::Help => ArgAction::Help,
        Kind::Version => ArgAction::Version,
        _ => ArgAction::Set,
    }
}

/// The texts for the man page and completions; `--help` is laid out in `help`.
fn documentation<T>(flag: &Flag<T>) -> (StyledStr, StyledStr) {
    let line = match flag.effect {
        Effect::Works => flag.doc.to_owned(),
        Effect::Without(why) | Effect::Lacking(why) | Effect::NotYet(why) => format!("{}: {why}", flag.doc),
    };
    let long = if flag.details.is_empty() { line.clone() } else { format!("{line}\n\n{}", flag.details) };
    (line.into(), long.into())
}
