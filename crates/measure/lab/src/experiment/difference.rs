//! Differences between two experiments, key by key. Pure.

use super::types::Experiment;
use toml::Value;

/// At most this many differences are listed.
const SHOWN_MAX: usize = 5;

/// Differences that prevent a run from being continued. Additional rounds go behind the existing ones, and neither
/// the text of the question nor further metrics and expectations change a trial.
pub(crate) fn in_the_way(before: &Experiment, now: &Experiment) -> Vec<String> {
    let mut like_before = now.clone();
    like_before.question.clone_from(&before.question);
    if now.repeat.rounds > before.repeat.rounds {
        like_before.repeat.rounds = before.repeat.rounds;
    }
    // `rounds` gives their number, planned or not.
    (like_before.repeat.lost, like_before.repeat.verdict) = (before.repeat.lost, before.repeat.verdict);
    if before.measure.also.iter().all(|metric| now.measure.also.contains(metric)) {
        like_before.measure.also.clone_from(&before.measure.also);
    }
    like_before.measure.profile = before.measure.profile;
    like_before.measure.effects = before.measure.effects;
    // Nor do expectations.
    for (now, before) in like_before.factors.iter_mut().zip(&before.factors) {
        let levels = now.levels.iter_mut().zip(&before.levels);
        levels.for_each(|(now, before)| now.must.clone_from(&before.must));
    }
    // Keys that only a history uses change no trial.
    for (now, before) in like_before.subjects.iter_mut().zip(&before.subjects) {
        now.pinned = before.pinned;
    }
    between(before, &like_before)
}

/// `workload.seconds was 5 and is 10`; comments and the order of keys make no difference.
pub(crate) fn between(before: &Experiment, now: &Experiment) -> Vec<String> {
    let value = |experiment| Value::try_from(experiment).expect("an experiment is plain data");
    let mut found = Vec::new();
    compare("", Some(&value(before)), Some(&value(now)), &mut found);
    if found.len() > SHOWN_MAX {
        let more = found.split_off(SHOWN_MAX).len();
        found.push(format!("and {more} more"));
    }
    found
}

fn compare(key: &str, before: Option<&Value>, now: Option<&Value>, found: &mut Vec<String>) {
    match (before, now) {
        (Some(Value::Table(before)), Some(Value::Table(now))) => {
            let added = now.keys().filter(|name| !before.contains_key(*name));
            for name in before.keys().chain(added) {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                compare(&key, before.get(name), now.get(name), found);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(now))) => {
            for place in 0..before.len().max(now.len()) {
                compare(&format!("{key}[{place}]"), before.get(place), now.get(place), found);
            }
        }
        (before, now) if before == now => {}
        (before, now) => {
            let word = |value: Option<&Value>| match value {
                None => "not there".to_owned(),
                // A whole table or list: its name says enough.
                Some(Value::Table(_) | Value::Array(_)) => "there".to_owned(),
                Some(value) => value.to_string(),
            };
            found.push(format!("{key} was {} and is {}", word(before), word(now)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::tests::MINIMAL;

    #[track_caller]
    fn check(change: impl Fn(&str) -> String, expected: &[&str]) {
        let parse = |text: &str| Experiment::parse(text).expect(text);
        assert_eq!(between(&parse(MINIMAL), &parse(&change(MINIMAL))), expected);
    }

    #[test]
    fn an_experiment_may_grow() {
        let parse = |text: &str| Experiment::parse(text).expect(text);
        let with = |rounds: u32, also: &str| {
            parse(&format!("{MINIMAL}also = [{also}]\n[repeat]\nrounds = {rounds}"))
        };
        let mut more = with(9, "\"b\", \"a\"");
        more.question += " Really?";
        assert_eq!(in_the_way(&with(8, "\"a\""), &more), Vec::<String>::new());
        let less = in_the_way(&more, &with(8, "\"a\""));
        assert!(less.iter().any(|it| it == "repeat.rounds was 9 and is 8"), "{less:?}");
        assert!(less.iter().any(|it| it.starts_with("measure.also")), "{less:?}");
    }

    #[test]
    fn differences_are_said_by_their_keys() {
        check(|text| format!("# a comment\n{text}"), &[]);
        check(|text| text.replace("seconds = 5", "seconds = 9"), &["workload.seconds was 5 and is 9"]);
        check(
            |text| text.replace("--driver epoll", ""),
            &[
                "subject[0].start was \"evenkeel serve --driver epoll -p {port}\" and is \"evenkeel serve  -p {port}\"",
            ],
        );
        check(
            |text| format!("{text}also = [\"p99_us\"]\n[[subject]]\nname = \"c\"\nstart = \"d\""),
            &["measure.also was not there and is there", "subject[2] was not there and is there"],
        );
    }
}
