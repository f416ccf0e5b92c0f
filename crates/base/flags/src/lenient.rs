//! Values that are not quite right, as the other program takes them.
//!
//! memcached reads numbers by `atoi`: up to the first character that belongs to none. Whatever follows an option without a value is
//! ignored. What a start line has meant for years is taken here, too, and a line for the operator says how it was read. A value out of
//! a flag's range stays refused, as it is there.

use crate::value::{Given, Kind};

/// The value, and how it was read: the end of a sentence that begins with the flag and the text. `None`: it has none.
pub(crate) fn lenient(kind: Kind, typed: &str) -> Option<(Given<'_>, String)> {
    let typed = typed.trim_start();
    match kind {
        // Who writes this means a share, and 200 MB would be another one.
        Kind::SizeOrShare { .. } if typed.ends_with('%') => None,
        Kind::Switch => {
            Some((Given::Present, "the value is ignored, because the option takes none".to_owned()))
        }
        Kind::Size { .. } | Kind::SizeOrShare { .. } => {
            let as_typed = number(typed, false);
            let text = with_unit(typed).unwrap_or_else(|| as_typed.to_owned());
            let Ok(Given::Number(bytes)) = kind.read(Some(&text)) else { return None };
            Some((Given::Number(bytes), format!("taken as {text}")))
        }
        Kind::Octal => {
            let end = typed.find(|digit: char| !digit.is_digit(8)).unwrap_or(typed.len());
            let bits = i64::from_str_radix(&typed[..end], 8).ok()? & 0o777;
            Some((Given::Number(bits), format!("taken as {bits:o}")))
        }
        Kind::Number { .. } | Kind::NumberOr { .. } => read_as(kind, number(typed, false)),
        Kind::Real { .. } => read_as(kind, number(typed, true)),
        Kind::Character => read_as(kind, typed.get(..1)?),
        _ => None,
    }
}

fn read_as(kind: Kind, text: &str) -> Option<(Given<'_>, String)> {
    Some((kind.read(Some(text)).ok()?, format!("taken as {text}")))
}

/// A size whose unit has more letters than one, such as `128MB` or `2GiB`, with one. (memcached takes all of them as megabytes.)
fn with_unit(typed: &str) -> Option<String> {
    let digits = typed.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = typed.split_at(digits);
    let unit = unit.trim_start().to_ascii_lowercase();
    let letter = ["k", "m", "g"].into_iter().find(|letter| {
        let rest = unit.strip_prefix(letter);
        rest.is_some_and(|rest| ["", "b", "ib"].contains(&rest))
    })?;
    Some(format!("{number}{letter}"))
}

/// The beginning that is a number.
fn number(typed: &str, with_fraction: bool) -> &str {
    let sign = usize::from(typed.starts_with(['-', '+']));
    let mut point = !with_fraction;
    let end = typed[sign..].find(|character: char| {
        let is_part = character.is_ascii_digit() || !point && character == '.';
        point |= character == '.';
        !is_part
    });
    &typed[..end.map_or(typed.len(), |end| sign + end)]
}

#[cfg(test)]
mod tests {
    use stdx::units::{GIB, MIB};

    use super::*;

    #[track_caller]
    fn check(kind: Kind, typed: &str, expected: Option<(Given<'_>, &str)>) {
        let found = lenient(kind, typed);
        assert_eq!(found, expected.map(|(given, how)| (given, how.to_owned())), "{typed:?}");
    }

    #[test]
    fn a_number_ends_at_the_first_other_character() {
        let number = Kind::Number { min: 1, max: 1000 };
        check(number, "250x", Some((Given::Number(250), "taken as 250")));
        check(number, "40 # per turn", Some((Given::Number(40), "taken as 40")));
        check(number, "1.5", Some((Given::Number(1), "taken as 1")));
        // There it would be 0, or is out of range.
        ["x", "", "-", "0x10", "1001x", "-5x"].iter().for_each(|typed| check(number, typed, None));
        let real = Kind::Real { above: 1.0, max: 10.0 };
        check(real, "1.25,", Some((Given::Real(1.25), "taken as 1.25")));
        check(real, "2.5.1", Some((Given::Real(2.5), "taken as 2.5")));
        check(real, "0.5x", None);
    }

    #[test]
    fn sizes_have_any_usual_unit() {
        let megabytes = Kind::Size { unit: MIB, min: MIB, max: 1024 * GIB };
        let size = |bytes: u64| Given::Number(bytes as i64);
        check(megabytes, "128MB", Some((size(128 * MIB), "taken as 128m")));
        check(megabytes, "2GiB", Some((size(2 * GIB), "taken as 2g")));
        check(megabytes, "64 m", Some((size(64 * MIB), "taken as 64m")));
        check(megabytes, "64.5", Some((size(64 * MIB), "taken as 64")));
        ["MB", "lots", "0MB"].iter().for_each(|typed| check(megabytes, typed, None));
        let or_share = Kind::SizeOrShare { unit: MIB, min: MIB, max: 1024 * GIB };
        check(or_share, "128MB", Some((size(128 * MIB), "taken as 128m")));
        ["200%", "0%", "1.5%", "automatic"].iter().for_each(|typed| check(or_share, typed, None));
    }

    #[test]
    fn what_follows_a_switch_is_ignored_and_so_are_further_bits_and_characters() {
        let ignored = "the value is ignored, because the option takes none";
        check(Kind::Switch, "0", Some((Given::Present, ignored)));
        check(Kind::Octal, "1777", Some((Given::Number(0o777), "taken as 777")));
        check(Kind::Octal, "0770x", Some((Given::Number(0o770), "taken as 770")));
        check(Kind::Octal, "rwx", None);
        check(Kind::Character, "::", Some((Given::Text(":"), "taken as :")));
        check(Kind::OneOf(&["a"]), "b", None);
    }
}
