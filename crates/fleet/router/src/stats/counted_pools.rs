//! Pools with statistics of their own (`--pool-stats-config-file`): under which names, and which pool counts where.
//!
//! No file is read here, and nothing is counted: [`crate::stats::PoolCells`] has the counters.

use crate::config::error::ConfigError;
use crate::config::json::{Json, JsonValue, parse};

/// Names in a file: each has five statistics, which every `stats all` has then.
const NAMES_MAX: usize = 1000;

/// The field of the file, as mcrouter calls it.
const FIELD: &str = "stats_enabled_pools";

/// The names under which pools are counted, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedPools {
    names: Vec<String>,
}

/// The place of a name among [`CountedPools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CountedPool(pub(crate) u16);

impl CountedPools {
    /// Reads the text of a file: `{"stats_enabled_pools": ["A", "B"]}`. What is no usable name is left out, and returned
    /// as a line for the operator.
    ///
    /// # Errors
    /// The text is no JSON, or has no such list.
    pub fn parse(text: &[u8]) -> Result<(CountedPools, Vec<String>), ConfigError> {
        let json = parse(0, text)?;
        let object = json.object("the pools with statistics")?;
        let list = object.require(FIELD)?.array(format_args!("`{FIELD}`"))?;
        let (mut pools, mut refused) = (CountedPools::default(), Vec::new());
        for (number, item) in list.iter().enumerate() {
            if number == NAMES_MAX {
                let found = list.len();
                refused.push(format!(
                    "expected at most {NAMES_MAX} names, found {found}: the rest counts nothing"
                ));
                break;
            }
            match usable(item) {
                Ok(name) if pools.names.iter().any(|known| known == name) => {}
                Ok(name) => pools.names.push(name.to_owned()),
                Err(error) => refused.push(error.to_string()),
            }
        }
        Ok((pools, refused))
    }

    /// All names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Where a pool counts: under the longest name with which its own begins, as in mcrouter.
    pub fn place_of(&self, pool: &str) -> Option<CountedPool> {
        let all = self.names.iter().enumerate().filter(|(_, name)| pool.starts_with(name.as_str()));
        all.max_by_key(|(_, name)| name.len()).map(|(place, _)| CountedPool(place as u16))
    }
}

/// A name that a line of `stats` can have.
fn usable(item: &Json) -> Result<&str, ConfigError> {
    const EXPECTED: &str = "the name of a pool, or the beginning of one, without spaces";
    match &item.value {
        JsonValue::String(name) if !name.is_empty() && !name.contains(is_no_part_of_a_name) => Ok(name),
        _ => Err(item.wrong(EXPECTED)),
    }
}

fn is_no_part_of_a_name(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names and lines of a text.
    #[track_caller]
    fn check(text: &str, names: &[&str], lines: &[&str]) {
        let (pools, refused) = CountedPools::parse(text.as_bytes()).expect("a file");
        assert_eq!(pools.names().collect::<Vec<_>>(), names, "{text}");
        assert_eq!(refused, lines, "{text}");
    }

    #[track_caller]
    fn check_refused(text: &str, why: &str) {
        let error = CountedPools::parse(text.as_bytes()).expect_err("an error");
        assert_eq!(error.to_string(), why, "{text}");
    }

    #[test]
    fn a_file_is_a_list_of_names() {
        check(r#"{"stats_enabled_pools": ["a", "b.c", "a"], "other": 1}"#, &["a", "b.c"], &[]);
        check(r#"{"stats_enabled_pools": []}"#, &[], &[]);
    }

    #[test]
    fn what_is_no_name_is_left_out_and_said() {
        check(
            "{\"stats_enabled_pools\": [\n\"a\",\n5, \"b c\", \"\"]}",
            &["a"],
            &[
                "line 3: expected the name of a pool, or the beginning of one, without spaces, found the number 5",
                "line 3: expected the name of a pool, or the beginning of one, without spaces, found the string \"b c\"",
                "line 3: expected the name of a pool, or the beginning of one, without spaces, found the string \"\"",
            ],
        );
    }

    #[test]
    fn names_beyond_the_limit_are_left_out() {
        let all: Vec<String> = (0..NAMES_MAX + 2).map(|number| format!("\"p{number}\"")).collect();
        let text = format!("{{\"stats_enabled_pools\": [{}]}}", all.join(","));
        let (pools, refused) = CountedPools::parse(text.as_bytes()).expect("a file");
        assert_eq!(pools.names().len(), NAMES_MAX);
        assert_eq!(refused, ["expected at most 1000 names, found 1002: the rest counts nothing"]);
    }

    #[test]
    fn other_texts_are_errors_with_their_line() {
        check_refused(
            "{}",
            "line 1: expected `stats_enabled_pools` in the pools with statistics, found none",
        );
        check_refused("[]", "line 1: expected an object (the pools with statistics), found an array of 0");
        check_refused(
            "{\"stats_enabled_pools\":\n \"a\"}",
            "line 2: expected an array (`stats_enabled_pools`), found the string \"a\"",
        );
    }

    #[test]
    fn a_pool_counts_under_the_longest_name_that_it_begins_with() {
        let (pools, _) =
            CountedPools::parse(br#"{"stats_enabled_pools": ["west", "east", "west.1"]}"#).expect("a file");
        let place = |pool| pools.place_of(pool).map(|place| place.0);
        assert_eq!(["west", "west.2", "west.1", "west.10", "east"].map(place), [0, 0, 2, 2, 1].map(Some));
        assert_eq!(["wes", "", "north"].map(place), [None; 3]);
    }
}
