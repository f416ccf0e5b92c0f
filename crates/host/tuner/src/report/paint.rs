//! Colours, where there is a terminal.

use crate::Severity;

/// The form of a text.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// Columns of the terminal.
    pub columns: usize,
    /// Whether it shows colours.
    pub paint: Paint,
}

/// Whether to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Text only.
    Plain,
    /// ANSI escape sequences.
    Colours,
}

/// A colour, by its purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// Limits the service; also soft interrupts.
    Red,
    /// Costs something; also interrupts.
    Yellow,
    /// Good to know; also the kernel.
    Blue,
    /// Good; also programs.
    Green,
    /// Stolen time.
    Magenta,
    /// Of less importance.
    Dim,
    /// A heading.
    Bold,
}

impl Tint {
    /// The colour of a severity.
    pub(super) fn of(severity: Severity) -> Tint {
        match severity {
            Severity::Critical => Tint::Red,
            Severity::Warning => Tint::Yellow,
            Severity::Note => Tint::Blue,
        }
    }
}

impl Paint {
    /// The text in that colour.
    pub fn tinted(self, tint: Tint, text: &str) -> String {
        let code = match tint {
            Tint::Bold => 1,
            Tint::Dim => 2,
            Tint::Red => 31,
            Tint::Green => 32,
            Tint::Yellow => 33,
            Tint::Blue => 34,
            Tint::Magenta => 35,
        };
        match self {
            Paint::Plain => text.to_owned(),
            Paint::Colours => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}
