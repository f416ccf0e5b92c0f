//! Routes that make requests from requests.

pub(crate) mod big_value;
pub(crate) mod compression;
pub(crate) mod key_split;
mod mark;
pub(crate) mod modify_exptime;
pub(crate) mod modify_key;
pub(crate) mod size_split;
