//! Wishes for plans: a profile or strategy of the tuner, or a version of the program.

use serde::{Deserialize, Serialize};

/// Bytes of the name of a profile or strategy; the longest has 11. A version with a commit has some 30.
const WISH_LEN_MAX: usize = 40;

/// What is to be planned: one of these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanWish {
    /// The needs of a kind of service.
    Profile(String),
    /// One layout of interrupts, packets or threads.
    Strategy(String),
    /// The program of servers and routers, by the name of its version. It is the agent that plans, not the tuner.
    Version(String),
}

impl PlanWish {
    /// What the command line calls it, and its name.
    pub fn words(&self) -> (&'static str, &str) {
        match self {
            PlanWish::Profile(name) => ("profile", name),
            PlanWish::Strategy(name) => ("strategy", name),
            PlanWish::Version(name) => ("version", name),
        }
    }

    /// Whether its name may be one. Which names there are is the tuner's affair: each host has its own version.
    pub fn is_well_named(&self) -> bool {
        let (_, name) = self.words();
        let is_good = |byte: u8| match self {
            PlanWish::Profile(_) | PlanWish::Strategy(_) => {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'
            }
            // A part of a path: no '/', and below it is refused what begins with a dot.
            PlanWish::Version(_) => byte.is_ascii_alphanumeric() || b"-._+~".contains(&byte),
        };
        let begins = |letters: [char; 2]| name.starts_with(letters);
        (1..=WISH_LEN_MAX).contains(&name.len()) && name.bytes().all(is_good) && !begins(['-', '.'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_a_part_of_a_path_and_no_way_out_of_it() {
        let version = |name: &str| PlanWish::Version(name.to_owned()).is_well_named();
        assert!(version("0.2.0") && version("1.0.0-rc.1+abc") && version("0.2.0~dev"));
        assert!(!version("") && !version("..") && !version(".hidden") && !version("a/b") && !version("-x"));
        assert!(!version("a b") && !version(&"1".repeat(41)));
    }

    #[test]
    fn a_wish_is_a_word_that_a_command_line_takes_as_a_name() {
        let wish = |name: &str| PlanWish::Profile(name.to_owned()).is_well_named();
        assert!(wish("memcached") && wish("defer-50"));
        for odd in ["", "-x", "--script=/etc/passwd", "a b", "A", "a/b", "a=b", &"a".repeat(41)] {
            assert!(!wish(odd), "{odd}");
        }
    }
}
