//! Kinds of values: parsing of texts on the command line.

use std::fmt;

use stdx::units::{GIB, KIB, MIB};

/// The texts that a flag accepts.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// None: it is given or not.
    Switch,
    /// None, and every repetition counts.
    Count,
    /// A whole number.
    Number {
        /// The least that is accepted.
        min: i64,
        /// The most that is accepted.
        max: i64,
    },
    /// A whole number, or the bare name for a default one.
    NumberOr {
        /// The number for the bare name.
        bare: i64,
        /// The least that is accepted.
        min: i64,
        /// The most that is accepted.
        max: i64,
    },
    /// A number with a fraction, greater than `above`, at most `max`.
    Real {
        /// The accepted numbers are greater.
        above: f64,
        /// The most that is accepted.
        max: f64,
    },
    /// Permission bits, in octal.
    Octal,
    /// A size, with or without `k`, `m` or `g`.
    Size {
        /// The bytes that a number without a unit is multiplied by.
        unit: u64,
        /// The least that is accepted, in bytes.
        min: u64,
        /// The most that is accepted, in bytes.
        max: u64,
    },
    /// A size, or a share of what there is: `auto`, `80%`.
    SizeOrShare {
        /// The bytes that a number without a unit is multiplied by.
        unit: u64,
        /// The least that is accepted, in bytes.
        min: u64,
        /// The most that is accepted, in bytes.
        max: u64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One printable character.
    Character,
    /// Any text that is not empty.
    Text,
    /// Any text that is not empty; every repetition adds one.
    List,
    /// A request for help.
    Help,
    /// A request for the version.
    Version,
}

/// The checked value of a flag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given<'a> {
    /// The flag alone.
    Present,
    /// A number, a size in bytes, or permission bits.
    Number(i64),
    /// A number with a fraction.
    Real(f64),
    /// A part of something whose size this crate does not know.
    Share(SizeShare),
    /// A word, a path, a name.
    Text(&'a str),
}

/// A part of something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeShare {
    /// As much as there is room for: `auto`.
    Auto,
    /// So many hundredths: `80%`.
    Percent(u8),
}

/// As on a command line.
impl fmt::Display for SizeShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeShare::Auto => write!(f, "auto"),
            SizeShare::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// What a flag accepts: the end of the sentence "expected …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected(pub(crate) String);

impl Kind {
    /// Whether a value must follow the name.
    pub fn takes_value(self) -> bool {
        !matches!(self, Self::Switch | Self::Count | Self::Help | Self::Version)
    }

    /// Parses a value; `None` is the bare name.
    pub fn read(self, typed: Option<&str>) -> Result<Given<'_>, Expected> {
        let expected = || Expected(self.to_string());
        // memcached skips spaces before a value, and start scripts rely on it.
        let Some(typed) = typed.map(str::trim_start) else {
            return match self {
                Self::NumberOr { bare, .. } => Ok(Given::Number(bare)),
                kind if kind.takes_value() => Err(expected()),
                _ => Ok(Given::Present),
            };
        };
        match self {
            Self::Number { min, max } | Self::NumberOr { min, max, .. } => {
                let number = typed.parse().ok().filter(|number| (min..=max).contains(number));
                number.map(Given::Number)
            }
            Self::Real { above, max } => {
                let real = typed.parse().ok().filter(|&real: &f64| real > above && real <= max);
                real.map(Given::Real)
            }
            Self::Octal => {
                let bits = i64::from_str_radix(typed, 8).ok().filter(|bits| (0..=0o777).contains(bits));
                bits.map(Given::Number)
            }
            Self::Size { unit, min, max } => size(typed, unit, min, max).map(Given::Number),
            Self::SizeOrShare { unit, min, max } => {
                share(typed).map(Given::Share).or_else(|| size(typed, unit, min, max).map(Given::Number))
            }
            Self::OneOf(words) => words.contains(&typed).then_some(Given::Text(typed)),
            Self::Character => matches!(typed.as_bytes(), [b'!'..=b'~']).then_some(Given::Text(typed)),
            Self::Text | Self::List => (!typed.is_empty()).then_some(Given::Text(typed)),
            Self::Switch | Self::Count | Self::Help | Self::Version => None,
        }
        .ok_or_else(expected)
    }
}

fn share(typed: &str) -> Option<SizeShare> {
    match typed.strip_suffix('%') {
        Some(digits) => {
            digits.parse().ok().filter(|percent| (1..=100).contains(percent)).map(SizeShare::Percent)
        }
        None => (typed == "auto").then_some(SizeShare::Auto),
    }
}

fn size(typed: &str, unit: u64, min: u64, max: u64) -> Option<i64> {
    let has_unit = !typed.ends_with(|last: char| last.is_ascii_digit());
    let bytes = stdx::units::parse_size(typed)?.checked_mul(if has_unit { 1 } else { unit })?;
    (min..=max).contains(&bytes).then(|| bytes.try_into().ok())?
}

/// The end of the sentence "expected …".
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Switch | Self::Count | Self::Help | Self::Version => write!(f, "no value"),
            Self::Number { min, max } | Self::NumberOr { min, max, .. } => range(f, "a number", min, max),
            Self::Real { above, max } if max == f64::MAX => write!(f, "a number above {above}"),
            Self::Real { above, max } => write!(f, "a number above {above}, at most {max}"),
            Self::Octal => write!(f, "permission bits in octal, from 0 to 777"),
            Self::Size { unit, min, max } => {
                let unit = if unit == MIB { "a size in megabytes" } else { "a size" };
                write!(f, "{unit} (or with k, m, g) from {} to {}", show_size(min), show_size(max))
            }
            Self::SizeOrShare { unit, min, max } => {
                write!(f, "{}, or auto, or a share such as 80%", Self::Size { unit, min, max })
            }
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::Character => write!(f, "one printable character"),
            Self::Text | Self::List => write!(f, "a value"),
        }
    }
}

fn range(f: &mut fmt::Formatter<'_>, what: &str, min: i64, max: i64) -> fmt::Result {
    write!(f, "{what} from {min} to {max}")
}

/// A size as on a command line.
pub fn show_size(bytes: u64) -> String {
    match [(GIB, 'g'), (MIB, 'm'), (KIB, 'k')]
        .into_iter()
        .find(|&(unit, _)| bytes != 0 && bytes.is_multiple_of(unit))
    {
        Some((unit, letter)) => format!("{}{letter}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// A table combines each kind with a `set` for the values of this kind: anything else is an error in the table, which a
/// test that sets every flag finds.
impl<'a> Given<'a> {
    /// The number, in the type of its field.
    ///
    /// # Panics
    /// If the kind gives none, or a range that does not fit.
    pub fn number<T: TryFrom<i64>>(self) -> T {
        match self {
            Self::Number(number) => T::try_from(number).ok().expect("the kind's range fits the option"),
            other => panic!("the kind gives a number, not {other:?}"),
        }
    }

    /// The number with a fraction.
    ///
    /// # Panics
    /// If the kind gives none.
    pub fn real(self) -> f64 {
        match self {
            Self::Real(real) => real,
            other => panic!("the kind gives a number with a fraction, not {other:?}"),
        }
    }

    /// The text.
    ///
    /// # Panics
    /// If the kind gives none.
    pub fn text(self) -> &'a str {
        match self {
            Self::Text(text) => text,
            other => panic!("the kind gives a text, not {other:?}"),
        }
    }
}
