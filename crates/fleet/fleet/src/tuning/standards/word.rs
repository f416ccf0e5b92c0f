//! Words of hosts about their standard.

use std::fmt;

use serde::{Deserialize, Serialize};
use stdx::words::counted;

/// What a host says of its standard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StandardWord {
    /// It has not looked yet.
    Unknown,
    /// A plan would change nothing.
    Meets,
    /// It has never met it, as far as is known, or was changed by a change since.
    Lacks {
        /// Settings that a plan would change.
        settings: usize,
        /// The first of them.
        first: String,
    },
    /// It met it, and does so no more: something has changed settings, or the host was started again.
    Drifted {
        /// Settings that a plan would change.
        settings: usize,
        /// The first of them.
        first: String,
    },
    /// It is being tuned.
    Tuning,
    /// It did not stay: something works against it.
    SteppedAside {
        /// What was found.
        reason: String,
    },
    /// The host cannot have it, or cannot say whether it has it.
    Refused {
        /// Why.
        reason: String,
    },
}

impl StandardWord {
    /// The text for people in it.
    pub fn text_mut(&mut self) -> Option<&mut String> {
        match self {
            StandardWord::Lacks { first: text, .. }
            | StandardWord::Drifted { first: text, .. }
            | StandardWord::SteppedAside { reason: text }
            | StandardWord::Refused { reason: text } => Some(text),
            StandardWord::Unknown | StandardWord::Meets | StandardWord::Tuning => None,
        }
    }
}

impl fmt::Display for StandardWord {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        let settings = |count: &usize| counted(*count, "setting");
        match self {
            StandardWord::Unknown => write!(formatter, "it has not looked yet"),
            StandardWord::Meets => write!(formatter, "it meets it"),
            StandardWord::Lacks { settings: count, first } => {
                write!(formatter, "it lacks {}: {first}", settings(count))
            }
            StandardWord::Drifted { settings: count, first } => {
                write!(formatter, "it met it, and {} no longer as wanted: {first}", is_or_are(*count))
            }
            StandardWord::Tuning => write!(formatter, "it is being tuned"),
            StandardWord::SteppedAside { reason } => {
                write!(formatter, "it is not tuned again, because something works against it: {reason}")
            }
            StandardWord::Refused { reason } => write!(formatter, "{reason}"),
        }
    }
}

fn is_or_are(settings: usize) -> String {
    let verb = if settings == 1 { "is" } else { "are" };
    format!("{} {verb}", counted(settings, "setting"))
}
