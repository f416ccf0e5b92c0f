//! Requests that need the flash tier, and the devices below it.

pub(crate) mod device_off;
pub(crate) mod end;
pub(crate) mod item_use;
pub(crate) mod stage;
