//! Derived metrics: expressions over other metrics, such as `server_rss_bytes / curr_items`. Pure.
//!
//! Numbers, names of metrics, `+ - * /` and parentheses. A name that a trial does not have is an error, and so is a division by 0:
//! neither is 0.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// A formula that was understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Formula {
    /// A number of the file.
    Number(f64),
    /// A metric of the trial.
    Metric(String),
    /// Two formulas and the sign between them.
    Both(Box<Formula>, char, Box<Formula>),
}

/// A formula without a value in a trial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoValue {
    /// A metric that the trial does not have.
    #[error("there is no {name:?}; there are {known}")]
    Unknown {
        /// Its name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A division by 0.
    #[error("{0} is 0, and nothing can be divided by it")]
    Zero(String),
}

/// The key of a derived metric in the experiment's file.
pub(crate) fn place(name: &str) -> String {
    format!("measure.derived.{name}")
}

/// Formulas in parentheses in each other at most: more have no meaning for people.
const DEPTH_MAX: u32 = 16;

impl Formula {
    /// Understands a text. The error says what was found and what was expected.
    pub(crate) fn parse(text: &str) -> Result<Formula, String> {
        let mut rest = text.chars().peekable();
        let formula = sum(&mut rest, 0)?;
        match rest.next() {
            None => Ok(formula),
            Some(odd) => Err(format!("{text:?} has {odd:?} where a sign (+ - * /) or its end was expected")),
        }
    }

    /// Its value in a trial.
    pub(crate) fn value(&self, metrics: &BTreeMap<String, f64>) -> Result<f64, NoValue> {
        match self {
            Formula::Number(number) => Ok(*number),
            Formula::Metric(name) => metrics.get(name).copied().ok_or_else(|| {
                let known: Vec<&str> = metrics.keys().map(String::as_str).collect();
                NoValue::Unknown { name: name.clone(), known: known.join(", ") }
            }),
            Formula::Both(left, sign, right) => {
                let (left, value) = (left.value(metrics)?, right.value(metrics)?);
                match sign {
                    '+' => Ok(left + value),
                    '-' => Ok(left - value),
                    '*' => Ok(left * value),
                    _ if value == 0.0 => Err(NoValue::Zero(right.text())),
                    _ => Ok(left / value),
                }
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Formula::Number(number) => number.to_string(),
            Formula::Metric(name) => name.clone(),
            Formula::Both(left, sign, right) => format!("({} {sign} {})", left.text(), right.text()),
        }
    }
}

fn sum(rest: &mut Peekable<Chars>, depth: u32) -> Result<Formula, String> {
    chain(rest, ['+', '-'], |rest| chain(rest, ['*', '/'], |rest| operand(rest, depth)))
}

/// Operands with one of two signs between them, from left to right.
fn chain(
    rest: &mut Peekable<Chars>,
    signs: [char; 2],
    operand: impl Fn(&mut Peekable<Chars>) -> Result<Formula, String>,
) -> Result<Formula, String> {
    let mut formula = operand(rest)?;
    while let Some(sign) = rest.next_if(|next| signs.contains(next)) {
        formula = Formula::Both(Box::new(formula), sign, Box::new(operand(rest)?));
    }
    Ok(formula)
}

fn operand(rest: &mut Peekable<Chars>, depth: u32) -> Result<Formula, String> {
    spaces(rest);
    let formula = match rest.peek() {
        Some('(') if depth < DEPTH_MAX => {
            rest.next();
            let formula = sum(rest, depth + 1)?;
            rest.next_if_eq(&')').ok_or("a parenthesis is not closed")?;
            formula
        }
        Some('(') => return Err(format!("there are more than {DEPTH_MAX} parentheses in each other")),
        _ => {
            let is_of_word = |c: &char| c.is_ascii_alphanumeric() || "_.".contains(*c);
            let word: String = std::iter::from_fn(|| rest.next_if(is_of_word)).collect();
            match (word.chars().next(), word.parse()) {
                (Some('0'..='9' | '.'), Ok(number)) => Formula::Number(number),
                (Some('a'..='z' | '_'), _) => Formula::Metric(word),
                _ => {
                    let found = rest.peek().map_or_else(|| "its end".to_owned(), |odd| format!("{odd:?}"));
                    let found = if word.is_empty() { found } else { format!("{word:?}") };
                    return Err(format!("found {found} where a metric, a number or ( was expected"));
                }
            }
        }
    };
    spaces(rest);
    Ok(formula)
}

fn spaces(rest: &mut Peekable<Chars>) {
    while rest.next_if(|next| next.is_whitespace()).is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<f64, String> {
        let metrics =
            [("a", 6.0), ("b_bytes", 3.0), ("none", 0.0)].map(|(name, figure)| (name.to_owned(), figure));
        Formula::parse(text)?.value(&metrics.into()).map_err(|why| why.to_string())
    }

    #[test]
    fn formulas_are_read_as_in_arithmetic() {
        for (text, expected) in [
            ("a / b_bytes", 2.0),
            ("a/b_bytes/2", 1.0),
            ("a - 1 - 2", 3.0),
            ("a - b_bytes * 0.5", 4.5),
            (" ( a - 1 ) / ( b_bytes + 2 ) ", 1.0),
            ("1.5", 1.5),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_not_zero() {
        let check = |text: &str, expected: &str| assert_eq!(value(text), Err(expected.to_owned()), "{text}");
        check("a / c", "there is no \"c\"; there are a, b_bytes, none");
        check("a / none", "none is 0, and nothing can be divided by it");
        check("a / (b_bytes - 3)", "(b_bytes - 3) is 0, and nothing can be divided by it");
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, expected: &str| {
            let error = Formula::parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        };
        check("a /", "found its end where a metric, a number or ( was expected");
        check("/ a", "found '/' where");
        check("a b", "has 'b' where a sign (+ - * /) or its end was expected");
        check("(a + b", "a parenthesis is not closed");
        check("a)", "has ')' where a sign");
        check("1x", "found \"1x\" where");
        check("P99", "found \"P99\" where");
        check(&"(".repeat(100), "more than 16 parentheses");
    }
}
