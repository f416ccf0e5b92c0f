//! Hot keys and hot values.

pub(crate) mod cache;
pub(crate) mod marks;
pub(crate) mod samples;
