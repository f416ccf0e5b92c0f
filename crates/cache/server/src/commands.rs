//! Commands: the work of each request, and its reply.

pub(crate) mod admin;
pub(crate) mod binary;
pub(crate) mod classic;
pub(crate) mod dump;
pub(crate) mod execute;
pub(crate) mod join;
pub(crate) mod meta;
pub(crate) mod refusal;
pub(crate) mod remaining;
pub(crate) mod request;
pub(crate) mod retrieve;
pub(crate) mod tune;
