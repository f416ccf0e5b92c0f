//! Rollouts: the generation that goes out, texts that have failed, and generations that the register has forgotten.

pub(crate) mod failures;
pub(crate) mod forgotten;
pub(crate) mod published;
pub(crate) mod target_rollout;
