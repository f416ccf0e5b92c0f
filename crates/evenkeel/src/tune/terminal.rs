//! Terminal capabilities: width and colours.

use std::io::{self, IsTerminal};

use tuner::report::{Paint, TextStyle};

/// Width and colours of a text for people.
pub(super) fn style(columns: usize) -> TextStyle {
    TextStyle { columns: columns.min(COLUMNS_MAX), paint: paint() }
}

/// Colours on a terminal, unless `NO_COLOR` is set (no-color.org).
pub(crate) fn paint() -> Paint {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted && io::stdout().is_terminal() { Paint::Colours } else { Paint::Plain }
}

/// Longer lines are tiring to read.
const COLUMNS_MAX: usize = 110;
