//! Lifetimes of certificates, and when they are renewed.

use crate::identity::{FleetIdentity, FleetRole};
use ring::digest;

const DAY_S: u64 = 24 * 60 * 60;

/// How long an authority signs. Rustls does not look at the end of an authority that it trusts, so the end is enforced
/// where it signs; ten years are longer than hosts live.
pub const AUTHORITY_LIFETIME_S: u64 = 10 * 365 * DAY_S;

/// The denominator of the part of a lifetime over which renewals are spread: hosts that joined together must not all come
/// back in one second. 25,000 agents renew over 30 hours, one in 4 s.
const SPREAD: u64 = 24;

/// How long a certificate of a role is valid. Nothing revokes one: the end of its life is what makes a stolen key useless.
pub fn lifetime_s(role: FleetRole) -> u64 {
    match role {
        // Renewed by programs. From two thirds of 30 days on there are more than eight days in which all controllers may be
        // away without a certificate running out.
        FleetRole::Controller | FleetRole::Agent | FleetRole::Router | FleetRole::Server => 30 * DAY_S,
        // May change everything and lies on a person's computer: short. A week, so that a person who works with it renews
        // it from day five on, and one who is on call each week always has one.
        FleetRole::Operator => 7 * DAY_S,
        // Changes nothing, and is often in a dashboard that no program renews.
        FleetRole::Reader => 90 * DAY_S,
    }
}

/// The second at which the owner of a certificate asks for the next one: after two thirds of its life, so that a third is
/// left for attempts, and then up to 1/24 of it later, by its identity.
pub fn renewal_due_s(not_before_s: u64, not_after_s: u64, identity: &FleetIdentity) -> u64 {
    let life_s = not_after_s.saturating_sub(not_before_s);
    let hash = digest::digest(&digest::SHA256, identity.to_string().as_bytes());
    let hash = u64::from_be_bytes(*hash.as_ref().first_chunk().expect("SHA-256 gives 32 bytes"));
    let spread_s = hash.checked_rem(life_s / SPREAD).unwrap_or(0);
    not_before_s + life_s / 3 * 2 + spread_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(number: usize) -> FleetIdentity {
        format!("evenkeel://prod/agent/host-{number}").parse().expect("an identity")
    }

    #[test]
    fn renewal_is_due_after_two_thirds_and_leaves_a_quarter() {
        for role in FleetRole::ALL {
            let end_s = 1000 + lifetime_s(role);
            for number in 0..1000 {
                let life_s =
                    (renewal_due_s(1000, end_s, &identity(number)) - 1000) as f64 / lifetime_s(role) as f64;
                assert!((0.666..0.75).contains(&life_s), "{role}: {life_s}");
            }
        }
    }

    #[test]
    fn hosts_that_joined_together_do_not_renew_together() {
        let mut due: Vec<u64> =
            (0..25_000).map(|number| renewal_due_s(0, 30 * DAY_S, &identity(number))).collect();
        due.sort_unstable();
        let within_a_minute = (0..due.len() - 40).map(|at| due[at + 40] - due[at]).min();
        assert!(within_a_minute > Some(60), "40 renewals in {within_a_minute:?} s");
    }

    #[test]
    fn a_life_of_no_length_is_due_at_once() {
        assert_eq!(renewal_due_s(1000, 1000, &identity(1)), 1000);
        assert_eq!(renewal_due_s(1000, 10, &identity(1)), 1000);
    }
}
