//! Levels of log lines.

/// The level of a line of a program's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// What an operator may want to know.
    Info,
    /// What an operator should look at.
    Warning,
    /// What ends the process, or keeps it from doing what it is for.
    Error,
}

impl LogLevel {
    /// The word in a line.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Info => "info",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
        }
    }
}
