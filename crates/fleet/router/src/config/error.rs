//! Errors of a configuration: file, line, what was expected and what was found.

use std::fmt;

/// Callers named in an error; the rest of a deep chain of macros is left out.
const TRAIL_LEN_MAX: usize = 8;

/// Where a value stands. The number of a source is an index into [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file, or the import.
    pub source: u32,
    /// Counted from 1; 0 for what stands in no line.
    pub line: u32,
}

/// The names of all files and imports of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    names: Vec<String>,
}

impl Sources {
    /// Adds a name, and returns its number.
    pub fn add(&mut self, name: &str) -> u32 {
        self.names.push(name.to_owned());
        (self.names.len() - 1) as u32
    }

    /// The name of a source.
    pub fn name(&self, source: u32) -> Option<&str> {
        self.names.get(source as usize).map(String::as_str)
    }

    /// `FILE:LINE`.
    pub fn show(&self, place: Location) -> String {
        let name = self.name(place.source).unwrap_or("configuration");
        match place.line {
            0 => name.to_owned(),
            line => format!("{name}:{line}"),
        }
    }
}

/// Why a configuration is refused. Displayed as `FILE:LINE: expected …, found …`.
#[derive(Clone, Debug)]
pub struct ConfigError(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    place: Location,
    message: String,
    /// `FILE:LINE`, once the names of the sources are known.
    location: Option<String>,
    /// What led here, the nearest first.
    trail: Vec<(String, Location, Option<String>)>,
}

impl ConfigError {
    /// An error at a place.
    pub fn new(place: Location, message: impl Into<String>) -> ConfigError {
        ConfigError(Box::new(Parts { place, message: message.into(), location: None, trail: Vec::new() }))
    }

    /// `expected …, found …`.
    pub fn expected(place: Location, expected: impl fmt::Display, found: impl fmt::Display) -> ConfigError {
        ConfigError::new(place, format!("expected {expected}, found {found}"))
    }

    /// Where it is.
    pub fn place(&self) -> Location {
        self.0.place
    }

    /// What it is, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Adds what led to the error: `context` is a noun phrase, such as "macro `servers`".
    #[must_use]
    pub fn inside(mut self, context: impl Into<String>, place: Location) -> ConfigError {
        if self.0.trail.len() < TRAIL_LEN_MAX {
            self.0.trail.push((context.into(), place, None));
        }
        self
    }

    /// Gives places the names of their files. Where it has been done, it stays.
    #[must_use]
    pub fn located(mut self, sources: &Sources) -> ConfigError {
        let parts = &mut *self.0;
        parts.location.get_or_insert_with(|| sources.show(parts.place));
        for (_, place, location) in &mut parts.trail {
            location.get_or_insert_with(|| sources.show(*place));
        }
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = &*self.0;
        match &parts.location {
            Some(location) => write!(formatter, "{location}: {}", parts.message)?,
            None => write!(formatter, "line {}: {}", parts.place.line, parts.message)?,
        }
        for (context, place, location) in &parts.trail {
            match location {
                Some(location) => write!(formatter, "\n  in {context} ({location})")?,
                None => write!(formatter, "\n  in {context} (line {})", place.line)?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_file_line_and_callers() {
        let mut sources = Sources::default();
        let source = sources.add("route.json");
        let error = ConfigError::expected(Location { source, line: 7 }, "a string", "the number 5");
        assert_eq!(error.to_string(), "line 7: expected a string, found the number 5");
        let error = error.inside("macro `pool`", Location { source, line: 3 }).located(&sources);
        assert_eq!(
            error.to_string(),
            "route.json:7: expected a string, found the number 5\n  in macro `pool` (route.json:3)"
        );
    }

    #[test]
    fn a_long_chain_of_callers_is_cut() {
        let mut error = ConfigError::new(Location::default(), "too deep");
        for _ in 0..1000 {
            error = error.inside("macro `a`", Location::default());
        }
        assert_eq!(error.to_string().lines().count(), 1 + TRAIL_LEN_MAX);
    }
}
