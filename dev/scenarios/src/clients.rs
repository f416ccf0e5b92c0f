//! Those who use a fleet: an operator who asks for changes, and clients of its routers.

pub(crate) mod operator;
pub(crate) mod reply;
pub(crate) mod traffic;
