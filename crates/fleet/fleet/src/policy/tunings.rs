//! Standards of hosts in a policy: the profile or strategy of the tuner that hosts of a class shall have.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::tuning::PlanWish;

/// Standards of a policy: kinds of machines of a fleet, several times over.
pub(crate) const TUNINGS_MAX: usize = 64;

/// The standard of hosts of one class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TuningPolicy {
    /// The class; without it, all hosts that no other standard names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The profile that they shall have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// The strategy, in place of a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    strategy: Option<String>,
    /// What becomes of hosts that met it and do so no more.
    #[serde(default)]
    pub drift: DriftPolicy,
}

/// What becomes of hosts with work that met their standard and do so no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftPolicy {
    /// People are told.
    #[default]
    Report,
    /// They get it again.
    Repair,
}

impl TuningPolicy {
    /// What the tuner shall plan.
    pub fn wish(&self) -> PlanWish {
        match (&self.profile, &self.strategy) {
            (_, Some(strategy)) => PlanWish::Strategy(strategy.clone()),
            (profile, None) => PlanWish::Profile(profile.clone().unwrap_or_default()),
        }
    }

    /// Whose standard it is, in words.
    pub fn whose(&self) -> String {
        match &self.class {
            Some(class) => format!("hosts of the class {class}"),
            None => "all other hosts".to_owned(),
        }
    }

    fn check(&self) -> Result<(), String> {
        match (&self.profile, &self.strategy) {
            (Some(_), Some(_)) => return Err("it has both: expected `profile` or `strategy`".to_owned()),
            (None, None) => return Err("it has neither: expected `profile` or `strategy`".to_owned()),
            _ => {}
        }
        let wish = self.wish();
        let (kind, name) = wish.words();
        match wish.is_well_named() {
            true => Ok(()),
            false => {
                Err(format!("expected a {kind} of 1 to 40 small letters, digits and '-', found {name:?}"))
            }
        }
    }
}

/// The first standard that is none: whose it is, and why.
pub(super) fn fault(tunings: &[TuningPolicy]) -> Option<(String, String)> {
    let mut seen = BTreeSet::new();
    tunings.iter().find_map(|tuning| {
        let twice = || "there are two of them: expected one for each class".to_owned();
        let is_new = seen.insert(&tuning.class);
        let error = tuning.check().err().or_else(|| (!is_new).then(twice))?;
        Some((tuning.whose(), error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::FleetPolicy;

    fn parse(text: &str) -> Result<FleetPolicy, String> {
        FleetPolicy::parse(&format!("fleet = \"f\"\n{text}")).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        let error = parse(text).expect_err("it is refused");
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_class_has_a_profile_or_a_strategy_and_says_what_becomes_of_drift() {
        let text = "[[tuning]]\nclass = \"m5\"\nprofile = \"memcached\"\n[[tuning]]\nstrategy = \"defer-50\"\ndrift = \"repair\"\n";
        let policy = parse(text).expect("a policy");
        let [m5, others] = &policy.tunings[..] else { panic!("two") };
        assert_eq!((m5.wish(), m5.drift), (PlanWish::Profile("memcached".to_owned()), DriftPolicy::Report));
        assert_eq!(
            (others.wish(), others.drift),
            (PlanWish::Strategy("defer-50".to_owned()), DriftPolicy::Repair)
        );
        assert_eq!(
            (m5.whose(), others.whose()),
            ("hosts of the class m5".to_owned(), "all other hosts".to_owned())
        );
        // A policy without standards is written as one of an older version.
        let bare = toml::to_string(&parse("").expect("a policy")).expect("TOML");
        assert!(!bare.contains("tuning"), "{bare}");
        assert_eq!(FleetPolicy::parse(&toml::to_string(&policy).expect("TOML")), Ok(policy));
    }

    #[test]
    fn what_is_no_standard_is_refused_with_what_is_accepted() {
        refused(
            "[[tuning]]\nclass = \"m5\"\n",
            "the standard of hosts of the class m5: it has neither: expected `profile` or `strategy`",
        );
        refused(
            "[[tuning]]\nprofile = \"a\"\nstrategy = \"b\"\n",
            "the standard of all other hosts: it has both",
        );
        refused(
            "[[tuning]]\nprofile = \"--script=x\"\n",
            "expected a profile of 1 to 40 small letters, digits and '-', found \"--script=x\"",
        );
        refused("[[tuning]]\nprofile = \"a\"\ndrift = \"mend\"\n", "expected `report` or `repair`");
        let one = "[[tuning]]\nclass = \"m5\"\nprofile = \"a\"\n";
        refused(&one.repeat(2), "the standard of hosts of the class m5: there are two of them");
        refused(
            &"[[tuning]]\nprofile = \"a\"\n".repeat(2),
            "the standard of all other hosts: there are two of them",
        );
    }

    #[test]
    fn the_limit_of_standards_is_accepted_and_one_more_is_refused() {
        let many = |count: usize| -> String {
            (0..count).map(|at| format!("[[tuning]]\nclass = \"c{at}\"\nprofile = \"a\"\n")).collect()
        };
        assert!(parse(&many(TUNINGS_MAX)).is_ok());
        refused(&many(TUNINGS_MAX + 1), "the fleet has 65 standards ([[tuning]]): 0 to 64 are accepted");
    }
}
