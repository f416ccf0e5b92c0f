//! Rules for pages: what they link to and what they name is there.

pub(super) mod links;
pub(super) mod paths;
