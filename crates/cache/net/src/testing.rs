//! Handlers for tests.

pub(crate) mod echo;
pub(crate) mod reading;
pub(crate) mod scripted;
