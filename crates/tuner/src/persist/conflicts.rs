//! Conflicts with others that set what is to be kept: which of the two wins, and what to do.
//!
//! Reads files under the root and changes nothing. What cannot be decided from files (a script's conditions, a daemon's
//! moment) is said as such.

mod agents;
mod conflict;
mod irqbalance;
mod sysctl;
mod units;

use super::{Keep, Persistence};
use crate::observe::facts::Facts;
use crate::observe::root::{Error, Root};
use conflict::Kept;

pub use conflict::{Conflict, Winner};

/// All of them, those that matter most first.
pub fn conflicts(
    root: &Root,
    facts: &Facts,
    keeps: &[Keep],
    persistence: &Persistence,
) -> Result<Vec<Conflict>, Error> {
    let kept = Kept { keeps, persistence, facts };
    let mut found = sysctl::conflicts(root, &kept)?;
    found.extend(agents::conflicts(root, &kept)?);
    found.extend(irqbalance::conflicts(root, &kept)?);
    found.extend(units::conflicts(root, &kept)?);
    found.sort_by_key(|conflict| conflict.winner);
    Ok(found)
}

#[cfg(test)]
mod tests;
