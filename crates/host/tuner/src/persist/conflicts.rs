//! Conflicts with others that set what is to be kept: which of the two wins, and the remedy.
//!
//! Reads files under the root and changes nothing. Conflicts that files alone do not decide (a script's conditions,
//! the time at which a daemon acts) are reported as such.

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

/// All conflicts, the most important first.
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
