//! Messages: keys, operations, requests and replies.

pub(crate) mod answer;
pub(crate) mod buffer;
pub(crate) mod changes;
pub(crate) mod key;
pub(crate) mod key_groups;
pub(crate) mod operation;
pub(crate) mod outcome;
pub(crate) mod request;
pub(crate) mod routing_prefix;
