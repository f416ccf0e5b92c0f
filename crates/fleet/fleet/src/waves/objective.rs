//! Objectives: a query of Prometheus that has an answer as long as all is well, asked again and again while a change goes on.

/// Times in a row that an objective is missed before it halts the change: one scrape may fail.
pub const OBJECTIVE_MISSES: u32 = 3;

/// How often an objective was missed in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectiveCount(u32);

/// Why a query is no objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectiveError {
    /// It has an answer whatever the figures are.
    #[error(
        "expected a query that compares, such as `… < 0.005`: one without a comparison has an answer whatever the figures are"
    )]
    NoComparison,
    /// It has an answer whatever the comparison says.
    #[error(
        "expected a comparison without `bool`: with it, the query has an answer whatever the comparison says"
    )]
    Bool,
}

impl ObjectiveCount {
    /// Takes what has come of a question: nothing if it is met, or why it is missed. Unknown is missed. Returns why the change halts.
    pub fn note(&mut self, outcome: Result<(), String>) -> Option<String> {
        let Err(why) = outcome else {
            self.0 = 0;
            return None;
        };
        self.0 += 1;
        (self.0 >= OBJECTIVE_MISSES).then(|| {
            self.0 = 0;
            format!("{OBJECTIVE_MISSES} times in a row, the last time: {why}")
        })
    }
}

/// Refuses a query that cannot be missed. It is no parser of the language: what is in quotes or braces is not looked at.
///
/// # Errors
/// Says what is expected.
pub fn check_objective(query: &str) -> Result<(), ObjectiveError> {
    let mut bare = String::new();
    let (mut quote, mut braces, mut is_escaped) = (None, 0u32, false);
    for letter in query.chars() {
        match quote {
            Some(end) => {
                quote = Some(end).filter(|_| letter != end || is_escaped);
                is_escaped = letter == '\\' && !is_escaped;
                continue;
            }
            None if matches!(letter, '"' | '\'' | '`') => quote = Some(letter),
            None => {}
        }
        match letter {
            '{' => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            _ if braces == 0 && quote.is_none() => bare.push(letter),
            _ => {}
        }
    }
    let compares = bare.contains(['<', '>']) || bare.contains("==") || bare.contains("!=");
    let has_bool =
        bare.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == "bool");
    match (compares, has_bool) {
        (false, _) => Err(ObjectiveError::NoComparison),
        (true, true) => Err(ObjectiveError::Bool),
        (true, false) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: Result<(), ObjectiveError>) {
        assert_eq!(check_objective(query), expected, "{query}");
    }

    #[test]
    fn a_query_that_cannot_be_missed_is_refused() {
        check("histogram_quantile(0.99, rate(x_bucket[1m])) < 0.005", Ok(()));
        check("sum(rate(errors{job!=\"a\"}[5m])) == 0", Ok(()));
        check("sum(rate(errors{job!=\"a\"}[5m]))", Err(ObjectiveError::NoComparison));
        check("x{a=\"<\\\"<\"}", Err(ObjectiveError::NoComparison));
        check("x < bool 3", Err(ObjectiveError::Bool));
        check("x < on(boolean) y", Ok(()));
    }

    #[test]
    fn three_misses_in_a_row_halt_and_two_do_not() {
        let mut count = ObjectiveCount::default();
        let missed = || Err("no answer".to_owned());
        let said: Vec<bool> = [missed(), missed(), Ok(()), missed(), missed(), missed(), missed()]
            .map(|outcome| count.note(outcome).is_some())
            .into();
        assert_eq!(said, [false, false, false, false, false, true, false]);
    }
}
