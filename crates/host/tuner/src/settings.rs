//! Settings of a host: proposed changes, each with reason, risk and expected effect.
//!
//! Pure: every setting is proposed by one function with the signature [`Propose`](proposal::Propose), from the
//! [`Scope`](scope::Scope) to [`ProposedChanges`](proposal::ProposedChanges). A strategy, a profile and the remedy of a
//! rule are lists of such functions and nothing else. `plan` orders, merges and refuses; nothing here knows of other
//! proposals.

pub mod change;
pub(crate) mod clock;
pub(crate) mod disks;
pub(crate) mod flash;
pub(crate) mod interrupts;
pub(crate) mod listen_queue;
pub(crate) mod masks;
pub(crate) mod memory;
pub(crate) mod moderation;
pub mod profile;
pub mod proposal;
pub(crate) mod queues;
pub(crate) mod scope;
pub mod signal;
pub(crate) mod steering;
pub mod strategy;
pub(crate) mod sysctls;
pub(crate) mod turns;

#[cfg(test)]
mod tests;
