//! Standards of hosts: which profile or strategy a host shall have by the policy, how far it has it, and which hosts may be tuned now.
//!
//! ```text
//! policy, classes of a host's members ─► HostStandard ─┐
//! what its agent says ─────────────────► StandardWord ─┼─► StandardState, counted and shown
//! slots, routers, freezes, changes ────────────────────┴─► granted: hosts that may act now
//! ```
//!
//! A standard comes to a host before it has work. Hosts with work get a tuning by a change in waves, whose gain is proved; what is granted
//! to them here is to have again what they had.

mod grant;
mod state;
mod word;

pub use grant::{REPAIRS_AT_ONCE_MAX, StandardHost, granted};
pub use state::{StandardSaid, StandardState};
pub use word::StandardWord;

use crate::policy::TuningPolicy;

/// The standard of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostStandard<'p> {
    /// The policy has none for it.
    None,
    /// This one.
    One(&'p TuningPolicy),
    /// Its members have classes with different standards, so it has none.
    Mixed,
}

impl<'p> HostStandard<'p> {
    /// That of a host whose members have these classes. A host without members is of no class, as a member without one.
    pub fn of<'c>(
        tunings: &'p [TuningPolicy],
        classes: impl IntoIterator<Item = Option<&'c str>>,
    ) -> HostStandard<'p> {
        let default = tunings.iter().find(|tuning| tuning.class.is_none());
        let of_class = |class: Option<&str>| {
            let named =
                class.and_then(|class| tunings.iter().find(|one| one.class.as_deref() == Some(class)));
            named.or(default)
        };
        let what = |tuning: Option<&TuningPolicy>| tuning.map(|tuning| (tuning.wish(), tuning.drift));
        let mut classes = classes.into_iter();
        let first = of_class(classes.next().flatten());
        match classes.all(|class| what(of_class(class)) == what(first)) {
            true => first.map_or(HostStandard::None, HostStandard::One),
            false => HostStandard::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FleetPolicy;

    #[test]
    fn a_host_has_the_standard_of_its_members_classes_if_they_agree() {
        let text = "fleet = \"f\"\n[[tuning]]\nclass = \"m5\"\nprofile = \"memcached\"\n[[tuning]]\nclass = \"r5\"\nprofile = \"memcached\"\n\
                    [[tuning]]\nclass = \"c5\"\nstrategy = \"rps\"\n";
        let check = |text: &str, classes: &[Option<&str>], expected: Option<Option<&str>>| {
            let tunings = FleetPolicy::parse(text).expect("a policy").tunings;
            let found = match HostStandard::of(&tunings, classes.iter().copied()) {
                HostStandard::None => Some(None),
                HostStandard::One(tuning) => Some(Some(tuning.wish().words().1.to_owned())),
                HostStandard::Mixed => None,
            };
            assert_eq!(found, expected.map(|name| name.map(str::to_owned)), "{classes:?}");
        };
        check(text, &[Some("m5")], Some(Some("memcached")));
        // Two classes with equal standards agree.
        check(text, &[Some("m5"), Some("r5")], Some(Some("memcached")));
        check(text, &[Some("m5"), Some("c5")], None);
        check(text, &[Some("m5"), None], None);
        check(text, &[Some("i3")], Some(None));
        check(text, &[], Some(None));
        let with_default = format!("{text}[[tuning]]\nprofile = \"generic\"\n");
        check(&with_default, &[], Some(Some("generic")));
        check(&with_default, &[Some("i3"), None], Some(Some("generic")));
        check(&with_default, &[Some("i3"), Some("c5")], None);
        check("fleet = \"f\"\n", &[Some("m5"), None], Some(None));
    }
}
