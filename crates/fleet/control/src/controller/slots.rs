//! Slots that change their members: drains, warm-ups, and what is frozen.

pub(crate) mod drains;
pub(crate) mod freezes;
pub(crate) mod warm_ups;
