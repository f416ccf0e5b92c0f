//! Sizes of clusters: another number of slots in a policy's text, and how long a resize warms up.

use serde::Deserialize;
use toml::Spanned;

use super::{ClusterPolicy, FleetPolicy, PolicyError, count};
use crate::ClusterName;

/// Longest warm-up of a resize, in seconds, as of a drain: two members own the keys that move meanwhile.
pub const RESIZE_WARM_UP_S_MAX: u32 = 3_600;
/// Warm-up of a resize unless the policy says another, in seconds: the keys that are asked for in ten minutes are nearly all of the traffic.
pub const RESIZE_WARM_UP_S: u32 = 600;

pub(super) fn resize_warm_up_s() -> u32 {
    RESIZE_WARM_UP_S
}

pub(super) fn is_usual_warm_up_s(seconds: &u32) -> bool {
    *seconds == RESIZE_WARM_UP_S
}

/// As much of a policy as has a place in its text.
#[derive(Deserialize)]
struct PolicySizes {
    #[serde(default)]
    cluster: Vec<ClusterSize>,
}

#[derive(Deserialize)]
struct ClusterSize {
    name: ClusterName,
    slots: Spanned<usize>,
}

impl ClusterPolicy {
    pub(super) fn check_resize(&self) -> Result<(), PolicyError> {
        let (what, found) = (format!("the cluster {}", self.name), self.resize_warm_up_s as usize);
        count(what, "seconds of `resize_warm_up_s`", found, 0, RESIZE_WARM_UP_S_MAX as usize)
    }
}

/// The text of a policy with another number of slots of a cluster, and all else as a person has written it. None if the policy does not
/// have the cluster.
///
/// # Errors
/// If the text is no policy, or is none any more with that number.
pub fn policy_with_slots(
    text: &str,
    cluster: &ClusterName,
    slots: usize,
) -> Result<Option<String>, PolicyError> {
    let sizes: PolicySizes = toml::from_str(text).map_err(|error| PolicyError::Toml(error.to_string()))?;
    let Some(size) = sizes.cluster.into_iter().find(|one| one.name == *cluster) else { return Ok(None) };
    let place = size.slots.span();
    let text = format!("{}{slots}{}", &text[..place.start], &text[place.end..]);
    FleetPolicy::parse(&text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fleet = \"f\" # ours\n[[cluster]]\nname = \"a\"\nslots = 4 # of four hosts\n\n\
                        [[cluster]]\nslots   =   0x10\nname = \"b\"\n";

    #[track_caller]
    fn check(cluster: &str, slots: usize, expected: Option<&str>) {
        let name = cluster.parse().expect("a name");
        let found = policy_with_slots(TEXT, &name, slots).expect("a policy");
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn a_number_of_slots_changes_and_nothing_else() {
        check("a", 16, Some(&TEXT.replace("slots = 4 #", "slots = 16 #")));
        check("b", 3, Some(&TEXT.replace("0x10", "3")));
        check("c", 3, None);
    }

    #[test]
    fn a_number_that_no_policy_has_is_refused() {
        let name = "a".parse().expect("a name");
        let error = policy_with_slots(TEXT, &name, 0).expect_err("no slots").to_string();
        assert!(error.contains("has 0 slots: 1 to 10000 are accepted"), "{error}");
        let text = TEXT.replace("slots = 4", "slots = 4\nresize_warm_up_s = 3601");
        let error = FleetPolicy::parse(&text).expect_err("too long").to_string();
        assert!(error.contains("3601 seconds of `resize_warm_up_s`: 0 to 3600 are accepted"), "{error}");
    }
}
