//! Terminal capabilities: width and colours.

use std::io::{self, IsTerminal};

use tuner::report::{Paint, TextStyle};

/// Colours on a terminal, unless `NO_COLOR` is set (no-color.org).
pub(super) fn style(columns: usize) -> TextStyle {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let paint = if wanted && io::stdout().is_terminal() { Paint::Colours } else { Paint::Plain };
    TextStyle { columns: columns.min(COLUMNS_MAX), paint }
}

/// Longer lines are tiring to read.
const COLUMNS_MAX: usize = 110;
