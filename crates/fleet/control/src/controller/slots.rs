//! Slots that change their members or their number: drains, resizes, warm-ups, and what is frozen.

pub(crate) mod drains;
pub(crate) mod freezes;
pub(crate) mod resizes;
pub(crate) mod warm_ups;
