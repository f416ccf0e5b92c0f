//! Operations on items: what a request reads, writes and removes.

pub(crate) mod arithmetic;
pub(crate) mod delete;
pub(crate) mod dump;
pub(crate) mod join;
pub(crate) mod lookup;
pub(crate) mod new_item;
pub(crate) mod put;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod write;
