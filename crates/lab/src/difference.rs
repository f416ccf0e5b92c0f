//! What differs between two experiments, key by key. Pure.

use crate::experiment::Experiment;
use toml::Value;

/// Of the differences, so many are said.
const SHOWN_MAX: usize = 5;

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
