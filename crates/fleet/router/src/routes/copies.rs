//! Routes that send copies of a request.

pub(crate) mod all_async;
pub(crate) mod all_fastest;
pub(crate) mod all_initial;
pub(crate) mod all_majority;
pub(crate) mod all_sync;
pub(crate) mod broadcast;
mod comparing;
pub(crate) mod shadow;
pub(crate) mod staging;
