//! Observations: what agents, probes and other controllers say, and what follows from it for members.

pub(crate) mod agents;
pub(crate) mod member_facts;
pub(crate) mod member_figures;
pub(crate) mod peers;
pub(crate) mod probes;
