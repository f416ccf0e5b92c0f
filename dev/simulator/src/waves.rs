//! Changes of hosts through a fleet: how often they are judged rightly, and whether they survive faults.
//!
//! ```text
//! trials:  NoisyHosts (figures with a known effect) ──► FleetChange (fleet::waves) ──► halted? better? in the canaries?
//! world:   agents with journals ◄── turns ──► controllers ──► register (compare and swap)      faults, planted bugs, invariants
//! ```
//!
//! The trials have figures and no faults. The world has faults: few hosts with short waves for thousands of seeds, or many with the usual
//! ones. Meanwhile a cluster grows and shrinks back. All follow from a seed.

mod agents;
mod bug;
mod checker;
mod desks;
mod faults;
mod noise;
mod resizing;
mod shape;
mod standards;
#[cfg(test)]
mod tests;
mod trials;
mod world;

pub use bug::WaveBug;
pub use noise::PlantedEffect;
pub use standards::{StandardBug, StandardRun, play_standards};
pub use trials::{TrialFleet, TrialOutcomes, play_trials};
pub use world::{WaveRun, WaveViolation, play_many, play_waves};
