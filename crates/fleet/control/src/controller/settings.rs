//! Settings of a controller, and the errors with which it does not begin.

use fleet::health::{HealthThresholdError, HealthThresholds};
use fleet::rollout::RolloutSettings;
use fleet::{HostId, ZoneName};

use crate::identity::FleetName;
use crate::register::RegisterError;

/// Choices of whoever starts a controller.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// Its fleet.
    pub fleet: FleetName,
    /// Its name, which no other controller of the fleet has.
    pub host: HostId,
    /// Where that is.
    pub zone: ZoneName,
    /// Durations and shares of rollouts.
    pub rollout: RolloutSettings,
    /// When a member counts as lost, and how many may be replaced.
    pub health: HealthThresholds,
}

/// Why a controller does not begin.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The register cannot be read.
    #[error("begin as a controller")]
    Register(#[from] RegisterError),
    /// A threshold with which a healthy fleet would be replaced, or a dead one never.
    #[error("begin as a controller")]
    Health(#[from] HealthThresholdError),
}
